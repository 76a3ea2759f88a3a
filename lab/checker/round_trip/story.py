"""The evidence of one change of sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.checker import evidence_file as told
from lab.checker.findings import Finding
from lab.checker.round_trip.base import TripChecks
from lab.checker.round_trip.observed import FAILBACK


class StoryChecks(TripChecks):
    """Whether the evidence tells what happened."""

    def _story(self) -> list[Finding]:
        trip = self.trip
        if trip.lost:
            return told.lost_story_findings(
                trip.evidence, trip.source, trip.target, trip.starter, trip.approver, trip.folder
            )
        steps = told.FAILBACK_STEPS if trip.dag_id == FAILBACK else told.PLANNED_STEPS
        gone, lost = self._deleted_there(trip.evidence["loss"])
        return (
            told.story_findings(
                {**trip.evidence, "loss": lost},
                trip.source,
                trip.target,
                trip.approver,
                trip.folder,
                trip.dag_id,
                steps,
            )
            + gone
        )

    def _deleted_there(self, rows: list[Mapping[str, Any]]) -> tuple[list[Finding], list[Mapping[str, Any]]]:
        """Return findings on rows that exceed what the target's retention deleted; and other rows (none allowed)."""
        # Where clients never were before, nobody's retention can have deleted what is due there.
        below = [row for row in rows if self.trip.number and row.get("reason") == "below the target's log start"]
        deleted = {
            id(row): self.seen.starts.get(
                self.names.counterpart((self.trip.source, (row["topic"], row["partition"]))), 0
            )
            for row in below
        }
        wrong = [row for row in below if row["records"] > deleted[id(row)]]
        told_too_many = [
            Finding(
                "evidence",
                f"loss tells {row['records']} records below a log that begins at {deleted[id(row)]}",
                None,
                row["topic"],
                row["partition"],
            )
            for row in wrong
        ]
        return told_too_many, [row for row in rows if row not in below]

    def _uncounted(self) -> list[Finding]:
        return told.count_findings(self.trip.evidence, self.verdict.figures["positions"], self._rereads)

    def _judge_ends(self) -> None:
        """Cut-off and boundary are the ends of the logs, as far as nobody has written since."""
        here = [log for log in self.seen.on(self.trip.source) if self.trip.source in self.names.written_on(log)]
        there = [log for log in map(self.names.counterpart, here) if log in self.seen.logs]
        if not self.trip.flows_on:
            ends = {place: self.seen.ends[alias, place] for alias, place in here}
            self.verdict.add(told.offset_findings("cut_off", self.seen.claimed("cut_off"), ends))
        quiet = {
            log[1]: self.seen.ends[log]
            for log in there
            if log not in self.seen.probed
            and not any(one.offset >= self.seen.boundary[log[1]] for one in self.seen.logs[log])
        }
        claimed = self.seen.claimed("boundary")
        self.verdict.add(told.boundary_findings(claimed, [place for _, place in there], quiet))
