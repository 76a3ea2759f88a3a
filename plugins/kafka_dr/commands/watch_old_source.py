"""Runs the watcher, as the DAG watch_old_source does, while the site's Airflow does not run; ends when killed.

python -m kafka_dr.commands.watch_old_source
python -m kafka_dr.commands.watch_old_source --own-database FOLDER
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_dr.commands.command_line import command_parser
from kafka_dr.commands.without_airflow.own_database import own_database_environment
from kafka_dr.errors import SwitchbackError

#: Modules that import Airflow: imported late, because Airflow reads the environment when it is first imported.
_WATCHING, _CHANNELS = "kafka_dr.watcher.watcher", "kafka_dr.steps.always_on.channels"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the watcher until the command is ended; return 2 if the watcher could not begin, 130 after Ctrl-C."""
    parser = command_parser("watch_old_source", __doc__)
    parser.add_argument(
        "--own-database",
        metavar="FOLDER",
        type=Path,
        help="the database of the site's Airflow is lost: read the connections in this folder, as run_procedure does",
    )
    options = parser.parse_args(arguments)
    try:
        if options.own_database:
            os.environ.update(own_database_environment(options.own_database))
        # With this value Airflow reads connections as a server does, not from its API as a task does.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        deliver_notice = importlib.import_module(_CHANNELS).deliver_notice
        importlib.import_module(_WATCHING).watch_sources(_say, deliver_notice)
    except SwitchbackError as error:
        print(f"nothing was begun: {type(error).__name__}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
