"""The demo on containers: planned failover, failback, kill -9 of primary, unplanned failover, failback."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from lab.checker import CheckResult
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED
from lab.containers.compose import ContainerLab, Stack
from lab.containers.round_trips import ContainerRoundTrips
from lab.demo.demonstration import EVIDENCE
from lab.demo.failback import MORE, RATE, STRANDED, FailbackDemo
from lab.demo.lost_source import AFTER
from lab.errors import LabError
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident

LOAD = f"Load of {RATE:,} records/s"


class ContainersDemo(FailbackDemo):
    """Runs four procedures on the stack of docker-compose.yaml, with a check after each procedure."""

    kind = "failover and failback in containers"
    trips = ContainerRoundTrips
    passed = (
        "four procedures; no record skipped or mirrored twice, every acknowledged record on the other cluster or"
        " listed, every position exact or behind by at most its stated bound"
    )

    def run(self) -> int:
        """Run all stages; return the exit code: 0 if every check passed. Otherwise every service's log is saved."""
        stack = Stack.in_folder(self._state, self._choices.profile)
        stack.require_docker()
        code = 1
        try:
            code = self._run(stack)
        finally:
            if code:
                self._save_logs(stack)
        return code

    def _run(self, stack: Stack) -> int:
        self._stages.begin("Images; unchanged images come from Docker's cache")
        stack.build()
        self._stages.begin("Containers, until a failover can be triggered")
        stack.up()
        lab = ContainerLab(self._state, stack)
        lab.adopt()
        status = lab.status()
        rehearsal = self._rehearsal = self.rehearsal(self._state, self._state / "rehearsal")
        rehearsal.meddle = self._meddle
        self._stages.begin("Topics, records and groups at several lags")
        truth = rehearsal.seed_topics()
        self._stages.say(
            f"{len(truth.topics)} topics, {len(truth.positions)} groups, {len(list(truth.placed()))} positions"
        )
        lost = Leaving(Accident(after=AFTER), more=MORE, stranded=STRANDED)
        moves: list[tuple[str, str, Callable[[], CheckResult]]] = [
            (f"{LOAD}; planned failover", PLANNED, lambda: rehearsal.leave(Leaving(more=MORE))),
            ("Failback", FAILBACK, lambda: rehearsal.come_back(Returning(more=MORE))),
            (f"{LOAD}; kill -9 of primary's containers; unplanned failover", UNPLANNED, lambda: rehearsal.leave(lost)),
            ("primary is back; failback", FAILBACK, lambda: rehearsal.come_back(Returning(more=MORE, born=True))),
        ]
        return self._move_clients(status, moves)

    def _save_logs(self, stack: Stack) -> None:
        log_folder = EVIDENCE / f"containers-{time.strftime('%Y%m%dT%H%M%S')}"
        try:
            stack.keep_logs(log_folder)
        except LabError as error:
            self._stages.say(f"not every log could be saved: {error}")
        self._stages.say(f"logs of every service: {log_folder}")

    def _move_clients(self, status: Mapping[str, Any], moves: list[tuple[str, str, Callable[[], CheckResult]]]) -> int:
        for title, dag_id, move in moves[:-1]:
            self._stages.begin(title)
            result = self._run_move(status, dag_id, move)
            if self._choices.tamper or not result[0].passed:
                return self._conclude(*result)
            self._show(*result)
            for line in result[0].lines(limit=10):
                self._stages.say(line)
        title, dag_id, move = moves[-1]
        self._stages.begin(title)
        return self._conclude(*self._run_move(status, dag_id, move))
