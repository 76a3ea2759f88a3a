"""Makes a key with which the flight recorder signs its samples, or steps sign the journal.

python -m kafka_dr.commands.make_key --out FILE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_dr.commands.command_line import command_parser
from kafka_dr.errors import BadInput
from kafka_dr.hooks.signing import key_id, make_key


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the key was made, 2 if not."""
    parser = command_parser("make_key", __doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="the file for the private key (0600), which must not exist"
    )
    path = parser.parse_args(arguments).out
    try:
        public_key = make_key(path)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path} holds the private key, id {key_id(public_key)}.")
    print("Name its public key in the topology, under `recorder` or `journal`; use a key for one of the two alone:")
    print(f"  public_keys: [{public_key}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
