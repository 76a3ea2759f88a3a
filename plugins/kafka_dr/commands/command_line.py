"""The commands' names, and what their command lines share: usage, `--json`, exit codes.

Exit code 0: the command did what it was asked. 1: it found something, such as changed evidence, or a procedure did not
complete. 2: nothing was done, as the command line or what it names cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

MISUSE = 2


class Command(NamedTuple):
    """One command: the stem of its module in this package, and what `switchback --help` states."""

    module: str
    about: str


COMMANDS = {
    "doctor": Command("doctor", "examine the installation, before the first run and at any time after"),
    "plan": Command("plan", "print what a procedure will do, or its remaining steps as commands"),
    "run": Command("run_procedure", "run a procedure while Airflow's scheduler does not run"),
    "watch": Command("watch_old_source", "watch old sources while Airflow does not run"),
    "record": Command("record_positions", "run the flight recorder, as the DAG record_positions does"),
    "verify-evidence": Command("verify_evidence", "state whether a procedure's evidence is what was written"),
    "make-topology": Command("make_topology", "make topology and connections from the configuration of MirrorMaker 2"),
    "translate-positions": Command("translate_positions", "translate positions that are kept outside Kafka's groups"),
    "install-dags": Command("install_dags", "write the DAG files into a folder of Airflow"),
    "accept-journal": Command("accept_journal", "accept a journal that its anchors contradict"),
    "make-key": Command("make_key", "make a key for the recorder or the journal"),
    "period-report": Command("period_report", "report all procedures and drills of a period"),
    "send-test-notice": Command("send_test_notice", "send one notice to a route of the topology"),
}


def command_parser(module: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser whose usage names the command as it was called.

    Args:
        module: stem of the command's module.
        about: the module's docstring, whose first line describes the command.
    """
    by_module = {command.module: name for name, command in COMMANDS.items()}
    called_as = f"python -m kafka_dr.commands.{module}"
    if Path(sys.argv[0]).name == "switchback":
        called_as = f"switchback {by_module[module]}"
    return argparse.ArgumentParser(prog=called_as, description=(about or "").splitlines()[0])


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json`."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object; errors go to stderr")


def print_json(document: dict[str, Any]) -> None:
    """Print a result as one line of JSON, for programs."""
    print(json.dumps(document, ensure_ascii=False, default=str))
