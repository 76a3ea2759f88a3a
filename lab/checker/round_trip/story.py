"""Check the evidence of one client move: the document itself, and its cut-off and boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.checker import evidence_file
from lab.checker.findings import Finding
from lab.checker.objective_claims import objective_findings
from lab.checker.round_trip.base import TripChecks
from lab.checker.round_trip.observed import FAILBACK


class StoryChecks(TripChecks):
    """Checks that the evidence document is complete and consistent, and agrees with the clusters."""

    def _evidence_findings(self) -> list[Finding]:
        return self._document_findings() + objective_findings(self.trip.evidence)

    def _document_findings(self) -> list[Finding]:
        trip = self.trip
        if trip.lost:
            return evidence_file.lost_story_findings(
                trip.evidence, trip.source, trip.target, trip.starter, trip.approver, trip.folder
            )
        steps = evidence_file.FAILBACK_STEPS if trip.dag_id == FAILBACK else evidence_file.PLANNED_STEPS
        retention_findings, other_rows = self._split_retention_rows(trip.evidence["loss"])
        return (
            evidence_file.story_findings(
                {**trip.evidence, "loss": other_rows},
                trip.source,
                trip.target,
                trip.approver,
                trip.folder,
                trip.dag_id,
                steps,
            )
            + retention_findings
        )

    def _split_retention_rows(self, rows: list[Mapping[str, Any]]) -> tuple[list[Finding], list[Mapping[str, Any]]]:
        """Return findings on loss rows that the target's retention does not explain, and the rows of other reasons.

        A row whose reason is the target's log start must not have more records than the target deleted below its log
        start. In the first client move all rows count as rows of other reasons.
        """
        # In the first client move the target's retention cannot explain a loss, so no row is compared with it.
        below = [row for row in rows if self.trip.number and row.get("reason") == "below the target's log start"]
        deleted_records = {
            id(row): self.seen.starts.get(
                self.names.counterpart((self.trip.source, (row["topic"], row["partition"]))), 0
            )
            for row in below
        }
        excessive = [row for row in below if row["records"] > deleted_records[id(row)]]
        findings = [
            Finding(
                "evidence",
                f"loss has {row['records']} records below the target's log start, which is only"
                f" {deleted_records[id(row)]}",
                None,
                row["topic"],
                row["partition"],
            )
            for row in excessive
        ]
        return findings, [row for row in rows if row not in below]

    def _count_findings(self) -> list[Finding]:
        return evidence_file.count_findings(self.trip.evidence, self.verdict.figures["positions"], self._rereads)

    def _check_ends(self) -> None:
        """Check that the evidence's cut-off is the source's log end, and its boundary the target's log end.

        The cut-off is not compared if a flow from target to source runs after the move. The boundary is compared only
        for partitions of the target to which no record was written since; every mirrored partition must have one.
        """
        source_logs = [log for log in self.seen.on(self.trip.source) if self.trip.source in self.names.written_on(log)]
        target_logs = [log for log in map(self.names.counterpart, source_logs) if log in self.seen.logs]
        if not self.trip.flows_on:
            ends = {place: self.seen.ends[alias, place] for alias, place in source_logs}
            self.verdict.add(evidence_file.offset_findings("cut_off", self.seen.claimed("cut_off"), ends))
        unwritten = {
            log[1]: self.seen.ends[log]
            for log in target_logs
            if log not in self.seen.probed
            and not any(record.offset >= self.seen.boundary[log[1]] for record in self.seen.logs[log])
        }
        claimed = self.seen.claimed("boundary")
        self.verdict.add(evidence_file.boundary_findings(claimed, [place for _, place in target_logs], unwritten))
