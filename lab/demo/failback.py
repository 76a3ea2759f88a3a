"""The demo of a round trip: kill the source with -9 under load, fail over, then fail back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab.checker import CheckResult, Trip
from lab.checker.round_trip.observed import FAILBACK, UNPLANNED
from lab.demo.demonstration import APPROVER, GROUPS, PERSON_SECONDS, RUN_SECONDS, SCALE, SEED, Demo, keep_evidence
from lab.demo.lost_source import AFTER
from lab.demo.showing import GateWatcher
from lab.environment.bring_up import up
from lab.rehearsal.round_trip import Leaving, Returning, RoundTrips
from lab.rehearsal.unplanned import Accident

RATE = 2_000
STRANDED = 25
MORE = 25


class FailbackDemo(Demo):
    """Runs the demo of an unplanned failover and the following failback, on a new lab."""

    kind = "failback"
    trips: type[RoundTrips] = RoundTrips
    passed = (
        "no record skipped or mirrored twice, every acknowledged record on primary or exported, every position exact"
        " or behind by at most its stated bound"
    )

    def run(self) -> int:
        """Run all stages; return the exit code: 0 if both checks passed, 1 or 2 otherwise."""
        self._stages.begin("Lab: two Kafka clusters, MirrorMaker 2 and Airflow")
        status = up(self._state)
        rehearsal = self._rehearsal = self.rehearsal(self._state, self._state / "rehearsal")
        self._stages.begin("Topics, records and groups at several lags")
        truth = rehearsal.seed_topics()
        self._stages.say(
            f"{len(truth.topics)} topics, {len(truth.positions)} groups, {len(list(truth.placed()))} positions"
        )
        self._stages.begin(
            f"Load of {RATE:,} records/s, kill -9 of primary while replication lags; unplanned failover primary ->"
            " standby"
        )
        verdict, evidence, evidence_copy = self._run_move(
            status, UNPLANNED, lambda: rehearsal.leave(Leaving(Accident(after=AFTER), more=MORE, stranded=STRANDED))
        )
        if not verdict.passed:
            return self._conclude(verdict, evidence, evidence_copy)
        self._show(verdict, evidence, evidence_copy)
        self._stages.begin("primary is back; load on standby; failback standby -> primary")
        rehearsal.meddle = self._meddle
        return self._conclude(
            *self._run_move(status, FAILBACK, lambda: rehearsal.come_back(Returning(more=MORE, born=True)))
        )

    def rehearsal(self, state: Path, folder: Path) -> RoundTrips:
        """Return the rehearsal of round trips that the demo runs, not started yet."""
        rehearsal = self.trips(state, folder, SEED, RATE, scale=SCALE, groups=GROUPS)
        rehearsal.approver, rehearsal.seconds = (None, PERSON_SECONDS) if self._choices.ask else (APPROVER, RUN_SECONDS)
        return rehearsal

    def _run_move(
        self, status: Mapping[str, Any], dag_id: str, move: Callable[[], CheckResult]
    ) -> tuple[CheckResult, dict[str, Any], Path]:
        """Run one client move; return the check's result, the evidence document, and the copied evidence's folder.

        Args:
            status: the lab's status document.
            dag_id: the procedure that `move` runs; this method prints its gates.
            move: runs and checks the procedure; returns the check's result.
        """
        with GateWatcher(status["airflow"], dag_id, self._console, self._choices.ask):
            verdict = move()
        folder, evidence = self._rehearsal.evidence()
        evidence_copy = keep_evidence(folder)
        (evidence_copy / "verdict.json").write_text(json.dumps(verdict.document(), indent=1), encoding="utf-8")
        return verdict, evidence, evidence_copy

    def _show(self, verdict: CheckResult, evidence: Mapping[str, Any], evidence_copy: Path) -> None:
        for table in self.tables(evidence, verdict):
            self._console.print(table)
        self._stages.say(f"evidence: {evidence_copy}")

    def _meddle(self, _: Trip) -> None:
        """Falsify a position or a record on the target if TAMPER is set."""
        if self._choices.tamper:
            self._tamper()
