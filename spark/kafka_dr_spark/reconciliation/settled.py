"""What a comparison keeps of records that were read: those without a pair, and what the pairs prove.

Records of a partition are read and compared chunk by chunk. A record that has no pair, and stands before the last pair,
is settled: only its offset, fingerprint and gap are kept. The gap is the target offset of the last pair before the
record, so that records of both logs with the same gap stand between the same two neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.reading.matching import Records, join_records, no_records
from kafka_dr_spark.reconciliation.alignment import RowPairs

#: The gap of records before the first pair.
BEFORE_ALL = -1


class Unpaired(NamedTuple):
    """Records of one log without a pair, in offset order, each with its gap."""

    records: Records
    gaps: Ints

    def where(self, mask: Mask) -> Unpaired:
        """Return the records for which a mask, one element per record, is True."""
        return Unpaired(self.records.where(mask), self.gaps[mask])


def join_unpaired(parts: list[Unpaired]) -> Unpaired:
    """Return the records of all parts together, which are in offset order."""
    gaps = [np.empty(0, np.int64), *(part.gaps for part in parts)]
    return Unpaired(join_records([part.records for part in parts]), np.concatenate(gaps))


@dataclass
class Settled:
    """What is settled of one partition so far.

    Attributes:
        judged_from, judged_to: source offsets of the judged records.
        ours, theirs: unpaired records of source and target, as parts in offset order.
        equal: number of judged source records with a pair.
        last_pair: source offset and target offset of the last pair; None without one.
        first_judged: target offset above the copy of the last record before the judged ones.
        end_judged: target offset of the copy of the first record behind the judged ones; None without one.
        read: number of source records and of target records that were read.
    """

    judged_from: int
    judged_to: int
    ours: list[Unpaired] = field(default_factory=list)
    theirs: list[Unpaired] = field(default_factory=list)
    equal: int = 0
    last_pair: tuple[int, int] | None = None
    first_judged: int = 0
    end_judged: int | None = None

    def settle(
        self, ours: Records, theirs: Records, pairs: RowPairs, finally_: bool = False
    ) -> tuple[Records, Records]:
        """Settle what stands before the last pair; return the rest of both logs, which may still get pairs.

        Args:
            ours, theirs: records of both logs that are not settled yet.
            pairs: of these records.
            finally_: whether no record follows, so that everything is settled.
        """
        gap = BEFORE_ALL if self.last_pair is None else self.last_pair[1]
        copies = theirs.offsets[pairs.theirs]
        gaps = np.append(gap, copies)
        self._note(ours.offsets[pairs.ours], copies)
        ends = [int(rows[-1]) + 1 if len(rows) else 0 for rows in pairs]
        rests = []
        for records, rows, parts, end in zip((ours, theirs), pairs, (self.ours, self.theirs), ends, strict=True):
            settled = records.size() if finally_ else end
            alone = np.setdiff1d(np.arange(settled), rows, assume_unique=True)
            if len(alone):
                parts.append(Unpaired(_taken(records, alone), gaps[np.searchsorted(rows, alone)]))
            rests.append(Records._make(column[settled:] for column in records))
        return rests[0], rests[1]

    def _note(self, offsets: Ints, copies: Ints) -> None:
        """Note what new pairs prove, given the source offsets and the target offsets of their records."""
        if not len(offsets):
            return
        before, below = np.searchsorted(offsets, (self.judged_from, self.judged_to)).tolist()
        self.equal += below - before
        self.last_pair = int(offsets[-1]), int(copies[-1])
        if before:
            self.first_judged = int(copies[before - 1]) + 1
        if below < len(copies) and self.end_judged is None:
            self.end_judged = int(copies[below])

    def sizes(self) -> int:
        """Return how many unpaired records are kept."""
        return sum(part.records.size() for part in (*self.ours, *self.theirs))


def _taken(records: Records, rows: Ints) -> Records:
    return Records._make(column[rows] for column in records) if len(rows) else no_records()
