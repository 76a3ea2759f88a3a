"""Makes a topology file and Airflow connections from an mm2.properties file.

python -m kafka_dr.commands.make_topology mm2.properties --out topology.yaml --connections DIR
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from kafka_dr.config.importing.mirror_maker_properties import Converted, topology_from_properties
from kafka_dr.config.settings import check_topology
from kafka_dr.config.strict_yaml import read_text
from kafka_dr.errors import BadInput
from kafka_dr.hooks.whole_file import write_whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if all files were written, 2 if the input was refused or a write failed."""
    options = _parser().parse_args(arguments)
    try:
        # Java reads properties files as ISO-8859-1.
        text = read_text(options.properties, "MirrorMaker 2's configuration file", "ISO-8859-1")
        converted = topology_from_properties(text, options.worker, options.template)
        check_topology(converted.topology, f"the topology made from {options.properties}")
        files = _files(converted, options.out, options.connections)
        _refuse_to_overwrite(files, options.force)
        for path, text in files.items():
            _write(path, text, secret=path != options.out)
    except (BadInput, OSError) as error:
        message = (
            f"nothing was written: {error}"
            if isinstance(error, BadInput)
            else f"stopped: {error.strerror}: {error.filename}"
        )
        print(message, file=sys.stderr)
        return 2
    print(_report(converted, options.out, list(files)[1:]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kafka_dr.commands.make_topology", description=__doc__.splitlines()[0]
    )
    parser.add_argument("properties", type=Path, help="MirrorMaker 2's configuration file")
    parser.add_argument("--out", type=Path, required=True, help="the topology file to write")
    parser.add_argument(
        "--connections", type=Path, required=True, help="folder for the connections' files, which hold secrets (0600)"
    )
    parser.add_argument(
        "--worker",
        choices=("dedicated", "connect"),
        default="dedicated",
        help="how MirrorMaker 2 is run; determines the names of connectors",
    )
    parser.add_argument(
        "--template",
        help="how your own replication policy class names topics, such as 'replicated-<source>-<topic>'",
    )
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")
    return parser


def _files(converted: Converted, out: Path, folder: Path) -> dict[Path, str]:
    head = (
        "# Made from MirrorMaker 2's configuration. Addresses and secrets are in the Airflow connections named here.\n"
    )
    files = {out: head + yaml.safe_dump(converted.topology, sort_keys=False, allow_unicode=False, width=120)}
    for name, connection in converted.connections.items():
        stored = connection | {"extra": json.dumps(connection["extra"])}
        files[folder / f"{name}.json"] = json.dumps({name: stored}, indent=2) + "\n"
    return files


def _refuse_to_overwrite(files: dict[Path, str], force: bool) -> None:
    present = [str(path) for path in files if path.exists()]
    if present and not force:
        raise BadInput(
            "files exist already", ", ".join(present), "remove the files, choose other names, or add --force"
        )


def _write(path: Path, text: str, secret: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o755)
    write_whole(path, text, 0o600 if secret else 0o644)


def _report(converted: Converted, out: Path, connections: list[Path]) -> str:
    flows = ", ".join(f"{flow['source']}->{flow['target']}" for flow in converted.topology["flows"])
    return "\n".join(
        [
            f"Wrote {out}: {len(converted.topology['clusters'])} clusters, flows {flows}.",
            "Connections written (they hold secrets; delete the files once imported):",
            *(f"  airflow connections import {path}" for path in connections),
            "Connections to create yourself:",
            *(f"  {name}: {purpose}" for name, purpose in converted.to_make.items()),
            "Keys that were not used:" if converted.ignored else "Every key was used.",
            *(f"  {ascii(key)[1:-1]}: {reason}" for key, reason in converted.ignored.items()),
            "Notes:" if converted.notes else "",
            *(f"  {note}" for note in converted.notes),
        ]
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
