"""The demo on containers: a planned failover and back, then a site's containers killed, the failover, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from lab.checker import Verdict
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
    """Four procedures on the stack of docker-compose.yaml, each judged."""

    kind = "failover and failback in containers"
    trips = ContainerRoundTrips
    passed = (
        "four procedures; nobody skipped, nothing mirrored twice, every acknowledged record on the other side or"
        " listed, every position exact"
    )

    def run(self) -> int:
        """Go through all stages; return the exit code. Where something fails, every service's log is kept."""
        stack = Stack.in_folder(self._state)
        stack.require_docker()
        code = 1
        try:
            code = self._run(stack)
        finally:
            if code:
                self._keep_logs(stack)
        return code

    def _run(self, stack: Stack) -> int:
        self._stages.begin("Images; what has not changed comes from Docker's cache")
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
        changes: list[tuple[str, str, Callable[[], Verdict]]] = [
            (f"{LOAD}; planned failover", PLANNED, lambda: rehearsal.leave(Leaving(more=MORE))),
            ("Failback", FAILBACK, lambda: rehearsal.come_back(Returning(more=MORE))),
            (f"{LOAD}; kill -9 of primary's containers; unplanned failover", UNPLANNED, lambda: rehearsal.leave(lost)),
            ("primary is back; failback", FAILBACK, lambda: rehearsal.come_back(Returning(more=MORE, born=True))),
        ]
        return self._change_sides(status, changes)

    def _keep_logs(self, stack: Stack) -> None:
        kept = EVIDENCE / f"containers-{time.strftime('%Y%m%dT%H%M%S')}"
        try:
            stack.keep_logs(kept)
        except LabError as error:
            self._stages.say(f"not every log could be kept: {error}")
        self._stages.say(f"logs of every service: {kept}")

    def _change_sides(self, status: Mapping[str, Any], changes: list[tuple[str, str, Callable[[], Verdict]]]) -> int:
        for title, dag_id, change in changes[:-1]:
            self._stages.begin(title)
            found = self._changed(status, dag_id, change)
            if self._choices.tamper or not found[0].passed:
                return self._conclude(*found)
            self._show(*found)
            for line in found[0].lines(limit=10):
                self._stages.say(line)
        title, dag_id, change = changes[-1]
        self._stages.begin(title)
        return self._conclude(*self._changed(status, dag_id, change))
