"""Compare the records that the target holds of the chosen topics with the source's, by content.

Per source record 8 bytes are in memory, one partition at a time; of the target's records none is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kafka_dr.actions.re_replication.scope import ChosenTopics
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.procedure.run import Run

#: How long reading one partition may take, in seconds.
READ_SECONDS = 3600.0
_HASH_DIGITS = 16


@dataclass
class OlderCopies:
    """What the older copies of one partition are.

    Attributes:
        source_records: number of records that the source holds.
        copies: number of records that the target holds.
        aged: number of records at the beginning of the target's log that the source has deleted by retention.
        target_only: number of other records that only the target holds.
        end: the target's log end up to which it was read.
        positions: position on the target that was asked for -> the position on the source at the same record.
    """

    source_records: int = 0
    copies: int = 0
    aged: int = 0
    target_only: int = 0
    end: int = 0
    positions: dict[int, int] = field(default_factory=dict)


class OlderCopiesReader:
    """Reads the older copies of the chosen topics, partition by partition."""

    def __init__(self, chosen: ChosenTopics) -> None:
        self._chosen = chosen
        procedure: Run = chosen.procedure
        self._source = procedure.systems.reader(procedure.request.source, chosen.isolation)
        self._target = procedure.systems.reader(procedure.request.target)

    def read(
        self,
        asked: Mapping[TopicPartition, Sequence[int]] | None = None,
        keep: Callable[[Record], object] = lambda _: None,
        since: Mapping[TopicPartition, int] | None = None,
    ) -> Iterator[tuple[TopicPartition, OlderCopies]]:
        """Yield each chosen partition of the source with what the target holds of it.

        Args:
            asked: target partition -> positions whose place on the source is to be found.
            keep: called with each record that only the target holds.
            since: target partition -> offset from which its records are read; None: all.
        """
        for tp, remote in self._chosen.partitions.items():
            yield (
                tp,
                self._partition(tp, remote, sorted((asked or {}).get(remote, ())), keep, (since or {}).get(remote)),
            )

    def _partition(
        self,
        tp: TopicPartition,
        remote: TopicPartition,
        asked: Sequence[int],
        keep: Callable[[Record], object],
        since: int | None,
    ) -> OlderCopies:
        exists = remote in self._chosen.existing.values()
        # The target's end first: every copy below it is a copy of a record below the source's end that is read next.
        copies = self._target.spans([remote])[remote] if exists else OffsetSpan(0, 0)
        span = self._source.spans([tp])[tp]
        hashes = np.fromiter((number for _, number in self._hashes(self._source, tp, span)), np.uint64)
        known = np.unique(hashes)
        found = _Comparison(known, span.start, asked)
        begin = copies.start if since is None else max(since, copies.start)
        dated = self._chosen.with_timestamps[tp.topic]
        for record in self._target.scan({remote: OffsetSpan(begin, copies.end)}, READ_SECONDS, take=record_of):
            if not found.add(record.offset, _number(record.fingerprint(dated))):
                keep(record)
        found.close()
        older = OlderCopies(len(hashes), found.count, found.aged, found.only, copies.end)
        older.positions = self._places(tp, span, found)
        return older

    def _hashes(self, reader: RecordReader, tp: TopicPartition, span: OffsetSpan) -> Iterator[tuple[int, int]]:
        dated = self._chosen.with_timestamps[tp.topic]
        records = reader.scan({tp: span}, READ_SECONDS, take=record_of)
        return ((record.offset, _number(record.fingerprint(dated))) for record in records)

    def _places(self, tp: TopicPartition, span: OffsetSpan, found: _Comparison) -> dict[int, int]:
        """Return position on the target -> position on the source; of equal contents the first one counts."""
        if not found.marks:
            return {}
        wanted = {mark for mark, _ in found.marks.values() if mark is not None}
        offsets: dict[int, int] = {}
        for offset, number in self._hashes(self._source, tp, span) if wanted else ():
            if number in wanted:
                offsets.setdefault(number, offset)
        return {
            position: span.start if mark is None else offsets.get(mark, span.start) + behind
            for position, (mark, behind) in found.marks.items()
        }


class _Comparison:
    """Counts the target's records by whether the source holds them; remembers at which record each position lies.

    Attributes:
        count: number of records; `aged`, `only`: as of `OlderCopies`.
        marks: position -> hash of the record at which it lies, and 1 if it lies behind that record; None: at none.
    """

    def __init__(self, known: np.ndarray, source_start: int, asked: Sequence[int]) -> None:
        self._known, self._aged_at_most = known, source_start
        self._waiting = list(asked)
        self._last: int | None = None
        self.count = self.aged = self.only = 0
        self.marks: dict[int, tuple[int | None, int]] = {}

    def add(self, offset: int, number: int) -> bool:
        """Count one record of the target; return whether the source holds it."""
        self.count += 1
        at = int(np.searchsorted(self._known, np.uint64(number)))
        held = at < len(self._known) and int(self._known[at]) == number
        if not held:
            early = self._last is None and self.aged < self._aged_at_most
            self.aged, self.only = self.aged + early, self.only + (not early)
            return False
        while self._waiting and self._waiting[0] <= offset:
            self.marks[self._waiting.pop(0)] = (number, 0)
        self._last = number
        return True

    def close(self) -> None:
        """Place the positions behind all records that the source holds."""
        self.marks |= dict.fromkeys(self._waiting, (self._last, 1))


def _number(fingerprint: str) -> int:
    return int(fingerprint[:_HASH_DIGITS], 16)
