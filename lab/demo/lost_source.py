"""The demo of an unplanned failover: the source's broker and its Connect worker are killed with -9 under load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from lab.checker import CheckResult
from lab.demo.demonstration import GROUPS, SCALE, SEED, Demo
from lab.demo.showing import loss_table, rereads_table
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal

RATE = 5_000
AFTER = 5.0


class LostSourceDemo(Demo):
    """Runs the demo of an unplanned failover, on a new lab."""

    kind = "unplanned failover"
    passed = (
        "no record skipped, every acknowledged record on the target or listed as lost, re-reads within their bounds"
    )

    def rehearsal(self, state: Path, folder: Path) -> LostSourceRehearsal:
        """Return the rehearsal of an unplanned failover that the demo runs, not started yet."""
        return LostSourceRehearsal(state, folder, SEED, RATE, scale=SCALE, groups=GROUPS)

    def before_failover(self) -> None:
        """Put the source under load, wait for samples of the flight recorder, and kill the source."""
        self._stages.begin(
            f"Load of {RATE:,} records/s; then kill -9 of the source's broker and of the Connect worker beside it"
        )
        self._rehearsal.lose_source(Accident(after=AFTER))
        counts = self._rehearsal.load.counts()
        self._stages.say(
            f"primary was killed; {counts['acknowledged']:,} records of the load were acknowledged before the kill"
        )

    def tables(self, evidence: Mapping[str, Any], verdict: CheckResult) -> list[Table]:
        """Return the tables to print of evidence and check, starting with the evidence's loss rows and re-reads."""
        return [loss_table(evidence), rereads_table(evidence), *super().tables(evidence, verdict)]
