"""All of Switchback's commands under one name.

switchback COMMAND ...
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kafka_dr import __version__
from kafka_dr.commands.command_line import COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names, with the other arguments; return its exit code."""
    name, *others = sys.argv[1:] if arguments is None else arguments or [""]
    if name not in COMMANDS:
        _parser().parse_args([name, *others])
    # Imported here, as `switchback --help` need not wait for Kafka's client and pandas.
    module = importlib.import_module(f"kafka_dr.commands.{COMMANDS[name].module}")
    code: int = module.main(others)
    return code


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="switchback",
        usage="switchback COMMAND [--help] ...",
        description="Failover and failback of Kafka clients between clusters that MirrorMaker 2 replicates.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {name.ljust(width)}  {command.about}" for name, command in COMMANDS.items()),
                "",
                "exit codes: 0 done; 1 something was found, or a procedure did not complete; 2 nothing was done",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"switchback {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="see below")
    return parser


if __name__ == "__main__":
    sys.exit(main())
