"""Command line of the lab: ``python -m lab up|down|status|run``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lab.environment.bring_up import ISOLATIONS, POLICIES, up
from lab.environment.layout.flows import LAYOUTS
from lab.environment.layout.flows import OPTION as CLUSTERS_OPTION
from lab.environment.logins.kinds import CHOICES
from lab.environment.production.profile import PROFILES
from lab.environment.state import DEFAULT_STATE, Lab
from lab.environment.take_down import down
from lab.environment.versions.choices import CONNECT_OPTION, KAFKA_OPTION, read_pairs
from lab.errors import LabError
from lab.rehearsal.run import run_dag


def main(arguments: list[str] | None = None) -> int:
    """Run the command in `arguments` (None: the process's arguments); return the exit code, 1 after a LabError."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.act(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab", description="Kafka clusters, MirrorMaker 2 and Airflow on this machine"
    )
    commands = parser.add_subparsers(required=True, metavar="up|down|status|run")
    up_command = _command(commands, "up", "start what does not run, and wait until the lab works", _up)
    up_command.add_argument("--no-airflow", action="store_true", help="only Kafka, Connect and MirrorMaker 2")
    up_command.add_argument("--policy", choices=POLICIES, help="naming of mirrored topics (default: identity)")
    up_command.add_argument("--isolation", choices=ISOLATIONS, help="level of MM2's reads (default: read_uncommitted)")
    up_command.add_argument(
        "--spark-workers",
        type=int,
        help="workers of a Spark cluster to translate on (default: 0, Spark inside the task)",
    )
    up_command.add_argument("--profile", choices=PROFILES, help="size and security of the clusters (default: small)")
    up_command.add_argument("--logins", choices=CHOICES, help="how clients log in, in profile small (default: scram)")
    up_command.add_argument(CLUSTERS_OPTION, choices=LAYOUTS, help="clusters and flows between them (default: pair)")
    for option, what in ((KAFKA_OPTION, "a cluster's brokers"), (CONNECT_OPTION, "its Connect worker and MM2")):
        up_command.add_argument(
            option, action="append", metavar="ALIAS=VERSION", help=f"Kafka version of {what}; may be repeated"
        )
    _command(commands, "down", "stop the lab and remove its files, except evidence and foreign files", _down)
    status_command = _command(commands, "status", "addresses, users and passwords of this lab", _status)
    status_command.add_argument("--json", action="store_true", help="only JSON on the standard output (always so)")
    run_command = _command(commands, "run", "run a DAG as operator and report the outcome", _run)
    run_command.add_argument("dag_id", metavar="DAG_ID")
    run_command.add_argument("--conf", type=_conf, default={}, help="the run's params, a JSON object")
    run_command.add_argument(
        "--approve-as", metavar="USER", help="answer every gate as this user (default: wait for a person)"
    )
    run_command.add_argument("--timeout", type=float, default=1800.0, help="seconds to wait (default: %(default)s)")
    run_command.add_argument("--wait", action="store_true", help="follow the run to its end")
    return parser


def _conf(text: str) -> dict[str, Any]:
    try:
        conf = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(conf, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return conf


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, act: object
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("--state", type=Path, default=DEFAULT_STATE, help="the lab's folder (default: %(default)s)")
    command.set_defaults(act=act)
    return command


def _up(options: argparse.Namespace) -> int:
    up(
        options.state,
        not options.no_airflow,
        options.policy,
        options.isolation,
        options.spark_workers,
        profile=options.profile,
        kafka=read_pairs(KAFKA_OPTION, options.kafka),
        connect=read_pairs(CONNECT_OPTION, options.connect),
        logins=options.logins,
        clusters=options.clusters,
    )
    return 0


def _down(options: argparse.Namespace) -> int:
    down(options.state)
    return 0


def _status(options: argparse.Namespace) -> int:
    print(json.dumps(Lab(options.state).status(), indent=2))
    return 0


def _run(options: argparse.Namespace) -> int:
    return run_dag(Lab(options.state), options.dag_id, options.conf, options.approve_as, options.timeout, options.wait)


if __name__ == "__main__":
    sys.exit(main())
