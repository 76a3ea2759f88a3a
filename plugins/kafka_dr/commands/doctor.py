"""Examines an installation and prints every finding with what to do; changes nothing.

    python -m kafka_dr.commands.doctor [--here] [--as USER] [--json]

The DAG doctor is started through Airflow's API and examines the machines of every queue; --here examines
this machine alone, without Airflow's scheduler. Progress is shown on stderr.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from airflow.configuration import conf

from kafka_dr.actions.doctor.airflow_parts import EXAMINING_DAG, dag_tasks
from kafka_dr.actions.doctor.examine import CHECKS, examine_place
from kafka_dr.commands.command_line import MISUSE, add_json, command_parser, print_json
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.domain.doctor.airflow_state import queue_findings
from kafka_dr.domain.doctor.finding import (
    ExaminedPlace,
    InstallationFinding,
    by_finding,
    differing_places,
    places_text,
)
from kafka_dr.errors import BadInput, Refusal, SwitchbackError
from kafka_dr.hooks.doctor.airflow_examination import AirflowExamination

_STANDS_SECONDS, _WAIT_SECONDS, _LOOK_SECONDS = 60.0, 900.0, 3.0
_ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if nothing was found, 1 if something was, 2 if nothing could be examined."""
    options = _parser().parse_args(arguments)
    # With this value Airflow reads connections as a server does, not from its API as a task does.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        if options.here:
            places = [_examined_here(options)]
            more: list[InstallationFinding] = []
        else:
            places, more = _examined_by_airflow(options)
    except SwitchbackError as error:
        print(f"nothing was examined: {error}", file=sys.stderr)
        return MISUSE
    return report_places(places, [*differing_places(places), *more], options.json)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("doctor", __doc__)
    parser.add_argument("--here", action="store_true", help="examine this machine alone, without Airflow's scheduler")
    parser.add_argument(
        "--as", dest="user", metavar="USER", help="Airflow account that may start runs; asks for its password"
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=CHECKS,
        metavar="CHECK",
        help="leave a check out, with --here; may be repeated",
    )
    parser.add_argument(
        "--stands",
        type=float,
        default=_STANDS_SECONDS,
        metavar="SECONDS",
        help="how long a finding that may pass must stand to count, with --here (default: %(default)s)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=_WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for Airflow's tasks (default: %(default)s)",
    )
    parser.add_argument("--verbose", action="store_true", help="show the logs of Airflow and Spark, too, on stderr")
    add_json(parser)
    return parser


def _examined_here(options: argparse.Namespace) -> ExaminedPlace:
    executor = conf.get("core", "executor", fallback="LocalExecutor")
    with _without_logs(options.verbose):
        return examine_place("here", Connections(), executor, options.stands, _say, options.skip)


@contextmanager
def _without_logs(verbose: bool) -> Iterator[None]:
    """Keep what Airflow logs on standard output from it: discard it, or write it to stderr."""
    sys.stdout.flush()
    before = os.dup(1)
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123 (a descriptor, not a file of ours)
        os.dup2(2 if verbose else nothing.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _examined_by_airflow(options: argparse.Namespace) -> tuple[list[ExaminedPlace], list[InstallationFinding]]:
    """Start the DAG that examines every queue, wait for it, and return what its tasks have seen."""
    api = _api_as(options.user)
    _refuse_unstartable(api)
    run_id = f"doctor-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    api.start(EXAMINING_DAG, run_id)
    _say(f"started {EXAMINING_DAG}, run {run_id}")
    states = _awaited(api, run_id, options.wait)
    if not states:
        raise Refusal(
            f"Airflow has started no task of {EXAMINING_DAG}",
            f"the run {run_id} is {api.state(EXAMINING_DAG, run_id)} after {options.wait:.0f} s",
            "Start Airflow's scheduler, or read in its log why it begins no run; --here examines this machine alone.",
        )
    places, findings = list[ExaminedPlace](), list[InstallationFinding]()
    for task, state in states.items():
        document = api.returned(EXAMINING_DAG, run_id, task)
        if document is not None:
            places.append(_place_in(document))
        else:
            findings.append(_unexamined(task, state, run_id))
    queues = {task.task_id: task.queue for task in api.tasks(EXAMINING_DAG)}
    return places, [*findings, *queue_findings(dag_tasks(api), {queues.get(task, "") for task in states})]


def _refuse_unstartable(api: AirflowExamination) -> None:
    """Refuse if a run of the DAG that examines would not begin.

    Raises:
        Refusal: Airflow does not know the DAG, has paused it, or does not let the account start it.
    """
    paused = api.paused_dags()
    if EXAMINING_DAG not in paused:
        raise Refusal(
            f"Airflow does not know the DAG {EXAMINING_DAG}",
            "by its API",
            "Find out with --here what keeps Airflow from importing it, or which folder of DAGs it reads.",
        )
    if paused[EXAMINING_DAG]:
        raise Refusal(
            f"The DAG {EXAMINING_DAG} is paused",
            "by Airflow's API; a run of a paused DAG stays queued",
            f"Unpause it: airflow dags unpause {EXAMINING_DAG}. Or examine this machine alone with --here.",
        )
    if not api.may_trigger(EXAMINING_DAG):
        raise Refusal(
            f"The account {api.username!r} may not start {EXAMINING_DAG}",
            "Airflow answers HTTP 403",
            "Name an account that may start runs with --as USER, or examine this machine alone with --here.",
        )


def _place_in(value: Any) -> ExaminedPlace:
    """Return the place in what a task has returned, JSON text, which Airflow's API may quote once more."""
    while isinstance(value, str):
        value = json.loads(value)
    return ExaminedPlace.of(value)


def _api_as(user: str | None) -> AirflowExamination:
    topology, connections = load_topology(), Connections()
    name = topology.airflow_api.connection
    url, own, password = connections.api_login(name)
    if user is None:
        return AirflowExamination(url, own, password, connections.tls(name))
    asked = (
        getpass.getpass(f"Password of {user} in Airflow: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    )
    if not asked:
        raise BadInput("No password was given", f"user {user!r}", "Type the password, or write it to standard input.")
    return AirflowExamination(url, user, asked, connections.tls(name))


def _awaited(api: AirflowExamination, run_id: str, seconds: float) -> dict[str, str]:
    """Return the state of each task once all have ended, or after the limit."""
    ends_at, shown = time.monotonic() + seconds, dict[str, str]()
    while True:
        states = api.task_states(EXAMINING_DAG, run_id)
        for task in [task for task in states if states[task] != shown.get(task)]:
            _say(f"{task}: {states[task]}")
        shown = states
        ended = bool(states) and all(state in _ENDED for state in states.values())
        if ended or time.monotonic() >= ends_at:
            return states
        time.sleep(_LOOK_SECONDS)


def _unexamined(task: str, state: str, run_id: str) -> InstallationFinding:
    return InstallationFinding(
        "queues",
        task,
        f"The task {task} of {EXAMINING_DAG} has examined no machine",
        f"its state in the run {run_id} is {state}",
        "Read its log in Airflow. A task that stays queued or scheduled has no worker on its queue, or no slot in its"
        " pool: start a worker of the queue. An import error of the DAG is named by `switchback doctor --here`.",
    )


def report_places(places: Sequence[ExaminedPlace], more: Sequence[InstallationFinding], as_json: bool) -> int:
    """Print what was found; return the exit code."""
    found = [*by_finding(places), *((finding, [str(place) for place in places]) for finding in more)]
    if as_json:
        print_json(
            {
                "healthy": not found,
                "findings": [{**vars(finding), "page": finding.page, "seen_from": seen} for finding, seen in found],
                "places": [place.as_dict() for place in places],
            }
        )
        return 1 if found else 0
    for finding, seen in found:
        print(f"{finding.check}: {finding.reason}")
        print(f"    seen: {finding.seen}")
        print(f"    from: {places_text(seen)}")
        print(f"    do:   {finding.next_step}")
        print(f"    page: {finding.page}")
    hosts = places_text([str(place) for place in places]) or "no machine"
    skipped = sum(len(place.not_examined) for place in places)
    left = f", {skipped} not looked at because of what was found" if skipped else ""
    looked = sum(len(place.examined) for place in places)
    print(f"{len(found)} findings by {looked} checks on {hosts}{left}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
