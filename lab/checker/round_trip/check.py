"""The judge of one change of sides among several: by record ids and ordinals over both clusters.

Every acknowledged record is accounted for; nothing was mirrored twice, nothing came back to where it was written; every
group stands where it belongs; what is exported as stranded is the truth, both ways; and a flow that begins anew copies
what was written since, and nothing else.
"""

from __future__ import annotations

from lab.checker import evidence_file as told
from lab.checker.findings import Verdict
from lab.checker.round_trip.clients import ClientChecks
from lab.checker.round_trip.copies import CopyChecks
from lab.checker.round_trip.observed import FAILBACK
from lab.checker.round_trip.positions import PositionChecks
from lab.checker.round_trip.records import RecordChecks
from lab.checker.round_trip.story import StoryChecks
from lab.checker.round_trip.stranded import StrandedChecks


class RoundTripCheck(StoryChecks, StrandedChecks, CopyChecks, RecordChecks, PositionChecks, ClientChecks):
    """Judges one finished change of sides; load and clients stand still, both clusters can be read."""

    def judge(self, writes: bool = False) -> Verdict:
        """Run every check.

        Args:
            writes: also try one write to every topic on both clusters, at the very end.
        """
        shape = told.shape_findings(self.trip.evidence, told.LOST_FIELDS if self.trip.lost else told.FIELDS)
        self.verdict.add(shape + ([] if shape else self._story()))
        self._take_note_of_followers()
        if self.trip.dag_id == FAILBACK:
            self._judge_export()
            self._take_note_of_new_logs()
        if self.trip.lost:
            self._keep_apart()
        self._judge_topics()
        for log in self.seen.logs:
            self._judge_copies(log)
            self._judge_kept(log)
        for log in self.seen.on(self.trip.source):
            there = self.names.counterpart(log)
            self.verdict.add(self._foreign(log, there) if there in self.seen.logs else [])
        self._judge_records()
        self._judge_replays()
        self._judge_positions()
        if not self.trip.lost:
            self._judge_ends()
            self.verdict.add([] if shape else self._uncounted())
        self._judge_acknowledgements()
        self._judge_consumption()
        self._judge_flow_on()
        self._take_note_of_ends()
        if writes:
            self._judge_writes()
        return self.verdict

    def _take_note_of_ends(self) -> None:
        self.ledger.opened |= {(self.trip.target, place): offset for place, offset in self.seen.boundary.items()}
        self.ledger.seen_to |= {log: self.seen.ends[log] for log in self.seen.on(self.trip.source)}
        self.ledger.repeats |= {log: set(self.seen.mirroring(log).repeats) for log in self.seen.logs}
