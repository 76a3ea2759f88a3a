"""Check one client move (failover or failback): compare the records of both clusters with what clients wrote.

The check passes if every acknowledged record is on the target, in an export or in a quarantine topic (`TOPIC.stranded`,
for stranded records with the decision `quarantine`); no record was mirrored twice or back to the cluster on which
clients wrote it; every group has the right position; the export of stranded records is complete and contains no other
record; and a flow from target to source that starts after the move copies the records that clients write on the target
after the move, and no other record.
"""

from __future__ import annotations

from lab.checker import evidence_file
from lab.checker.findings import CheckResult
from lab.checker.round_trip.clients import ClientChecks
from lab.checker.round_trip.copies import CopyChecks
from lab.checker.round_trip.observed import FAILBACK
from lab.checker.round_trip.positions import PositionChecks
from lab.checker.round_trip.records import RecordChecks
from lab.checker.round_trip.story import StoryChecks
from lab.checker.round_trip.stranded import StrandedChecks


class RoundTripCheck(StoryChecks, StrandedChecks, CopyChecks, RecordChecks, PositionChecks, ClientChecks):
    """Checks one completed client move; load and clients must be stopped, and both clusters must answer."""

    def check(self, writes: bool = False) -> CheckResult:
        """Run every check; return all findings (violations) and figures (counts).

        What the check of the next client move needs is stored in the checker's ledger.

        Args:
            writes: after all other checks, also produce one record to every topic on both clusters.
        """
        shape = evidence_file.shape_findings(
            self.trip.evidence, evidence_file.LOST_FIELDS if self.trip.lost else evidence_file.FIELDS
        )
        self.verdict.add(shape + ([] if shape else self._evidence_findings()))
        self._note_followers()
        if self.trip.dag_id == FAILBACK:
            self._check_export()
            self._note_new_logs()
        if self.trip.lost:
            self._note_lost_records()
        self._check_topics()
        for log in self.seen.logs:
            self._check_copies(log)
            self._check_kept(log)
        for log in self.seen.on(self.trip.source):
            counterpart = self.names.counterpart(log)
            self.verdict.add(self._foreign_findings(log, counterpart) if counterpart in self.seen.logs else [])
        self._check_records()
        self._check_replays()
        self._check_positions()
        if not self.trip.lost:
            self._check_ends()
            self.verdict.add([] if shape else self._count_findings())
        self._check_acknowledgements()
        self._check_consumption()
        self._check_flow_on()
        self._note_ends()
        if writes:
            self._check_writes()
        return self.verdict

    def _note_ends(self) -> None:
        self.ledger.opened |= {(self.trip.target, place): offset for place, offset in self.seen.boundary.items()}
        self.ledger.seen_to |= {log: self.seen.ends[log] for log in self.seen.on(self.trip.source)}
        self.ledger.repeats |= {log: set(self.seen.mirroring(log).repeats) for log in self.seen.logs}
