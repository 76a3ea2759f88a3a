"""Runs a procedure from one command, while the scheduler of the site's Airflow does not run.

    python -m kafka_dr.commands.run_procedure planned_failover --as USER --conf PARAMS
    python -m kafka_dr.commands.run_procedure --resume RUN_ID --as USER
    python -m kafka_dr.commands.run_procedure --resume PROCEDURE_ID --as USER --own-database FOLDER

PARAMS is JSON, such as '{"source": ..., "target": ..., "reason": ...}'.

The site's Airflow is the one that runs the DAGs on other days. The command starts another one, the command's Airflow,
for this procedure alone; DAG, steps and journal are the same. Passwords are asked on the terminal; without a terminal,
they are read from standard input.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_dr.commands.command_line import command_parser
from kafka_dr.commands.without_airflow.own_database import folder_environment, own_database_environment
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput, SwitchbackError

#: The module that imports Airflow: imported late, because Airflow reads the environment when it is first imported.
_CONDUCTOR = "kafka_dr.commands.without_airflow.conductor"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the procedure completed, or abort_procedure aborted one; return 1 if not.

    Return 2 if nothing was begun, 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    try:
        conf = _conf(options)
        home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
        folder = (options.own_database or home / "run_procedure").resolve()
        os.environ.update((own_database_environment if options.own_database else folder_environment)(folder))
        code: int = importlib.import_module(_CONDUCTOR).conduct_run(options, conf, folder)
    except SwitchbackError as error:
        print(f"nothing was begun: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("run_procedure", __doc__)
    parser.add_argument("dag_id", nargs="?", help="the DAG id of the procedure; not needed with --resume")
    parser.add_argument("--conf", help="the params, as JSON")
    parser.add_argument("--as", dest="user", help="your user name; without it the command asks for the name")
    parser.add_argument(
        "--resume", metavar="RUN_ID", help="continue a run that has not ended, by its run id or procedure id"
    )
    parser.add_argument(
        "--own-database",
        metavar="FOLDER",
        type=Path,
        help="the database of the site's Airflow is lost: use a new one in this folder, with the users of its"
        " users.json",
    )
    parser.add_argument("--anyway", action="store_true", help="run although the scheduler of the site's Airflow runs")
    return parser


def _conf(options: argparse.Namespace) -> dict[str, Any] | None:
    if options.resume:
        if options.conf:
            raise BadInput(
                "--conf and --resume exclude each other",
                "a resumed run has the params that it was started with",
                "Leave out --conf to resume a run, or --resume to start a new run.",
            )
        return None
    if not options.dag_id or not options.conf:
        raise BadInput(
            "The procedure or its params are missing", "", "Name a DAG and give --conf, or give --resume RUN_ID."
        )
    try:
        conf = read_json(options.conf)
    except ValueError as error:
        raise BadInput(
            "--conf is no JSON", str(error), 'Give an object, such as {"source": ..., "target": ..., "reason": ...}.'
        ) from None
    if not isinstance(conf, dict):
        raise BadInput(
            "--conf is no JSON object",
            type(conf).__name__,
            'Give an object, such as {"source": ..., "target": ..., "reason": ...}.',
        )
    return conf


if __name__ == "__main__":
    sys.exit(main())
