"""The recorder's own pairs: the target's newest records, found on the source by content (decisions/0008).

Invariant: no record is kept while they are read. A partition that cannot be read to its end in time has no new pair,
and keeps none from the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.offsets.content_pairs import OwnPair, PairSearch, suffix_starts
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.recorder_rows import Kind, PartitionSeen, RecorderRows
from kafka_dr.hooks.brokers.record import Consumed, OffsetSpan, record_of
from kafka_dr.recorder.clients import ASK_SECONDS, Access

#: Source records looked at in one turn of one sample, over all partitions.
_MOST_RECORDS = 200_000
#: Of one partition at least: fewer would miss the origin of a record that was mirrored a moment ago.
_LEAST_SHARE = 1_000
#: How far the target's newest record is looked for: behind it lie markers, where MirrorMaker 2 writes in transactions.
_LOOK_BACKS = (1, 16)


class NewestRecords(NamedTuple):
    """The target's newest record of a partition, as far as it is compared."""

    offset: int
    glance: int
    fingerprint: str


class SourceSearch(NamedTuple):
    """What is looked for on the source: below its end, from each of these offsets in turn."""

    newest: NewestRecords
    end: int
    starts: tuple[int, ...]


class Pairing:
    """A flow's newest pairs, from which the next ones are looked for."""

    def __init__(self, access: Access, seconds: float) -> None:
        """Nothing is read yet.

        Args:
            seconds: for all of one sample's reading.
        """
        self._access, self._seconds = access, seconds
        self._known: dict[tuple[TopicPartition, str | None, str | None], OwnPair] = {}
        self._turns: dict[TopicPartition, float] = {}
        self._owed: set[TopicPartition] = set()

    def owe(self, changed: Iterable[TopicPartition]) -> None:
        """Queue changed partitions: the next samples search each to its end, even if it has become quiet."""
        self._owed.update(changed)

    def write(self, rows: RecorderRows, now: Mapping[TopicPartition, PartitionSeen]) -> list[str]:
        """Write a pair for each queued partition whose newest target record has none yet; return those without one.

        Args:
            now: all partitions as they are on both sides.
        """
        began = time.monotonic()
        wanted = {
            tp: now[tp]
            for tp in sorted(self._owed & now.keys())
            if now[tp].source_end is not None and self._has_new_records(now[tp])
        }
        self._owed = set(wanted)
        newest = self._read_newest(wanted, began + self._seconds / 3)
        found = self._find(wanted, newest, began + self._seconds) if newest else {}
        for tp, pair in found.items():
            self._known[_log(wanted[tp])] = pair
            rows.add(Kind.PAIR, topic=tp.topic, partition=tp.partition, **pair._asdict())
        lacking = [str(tp) for tp in wanted if tp not in found]
        note = f"own pairs: {len(lacking)} of {len(wanted)} partitions have no new one: {first_few(lacking, 3)}"
        return [note] if lacking else []

    def _has_new_records(self, seen: PartitionSeen) -> bool:
        last = self._known.get(_log(seen))
        return seen.target_end is not None and seen.target_end > max(
            seen.target_start or 0, last.downstream + 1 if last else 0
        )

    def _read_newest(
        self, wanted: Mapping[TopicPartition, PartitionSeen], ends_at: float
    ) -> dict[TopicPartition, NewestRecords]:
        left = {TopicPartition(seen.target_topic, seen.partition): tp for tp, seen in wanted.items()}
        ends = {tp: seen.target_end for tp, seen in wanted.items() if seen.target_end is not None}
        found: dict[TopicPartition, NewestRecords] = {}
        for back in _LOOK_BACKS:
            spans = {
                there: OffsetSpan(max(wanted[tp].target_start or 0, ends[tp] - back), ends[tp])
                for there, tp in left.items()
            }
            late: dict[TopicPartition, str] = {}
            for where, newest in self._access.target_records.scan(
                spans, ends_at - time.monotonic(), take=_as_newest, given_up=late
            ):
                found[left[where]] = newest
            left = {there: tp for there, tp in left.items() if tp not in found and there not in late}
        self._owed.difference_update(left.values())
        return found

    def _find(
        self,
        wanted: Mapping[TopicPartition, PartitionSeen],
        newest: Mapping[TopicPartition, NewestRecords],
        ends_at: float,
    ) -> dict[TopicPartition, OwnPair]:
        """Pairs by partition. The source's ends are read after the target's records: their origins lie below."""
        ends = self._access.source.ends(list(newest), self._access.source_records.isolation, ASK_SECONDS)
        share = max(_LEAST_SHARE, _MOST_RECORDS // len(newest))
        quests = {
            tp: SourceSearch(
                one,
                ends[tp],
                suffix_starts(
                    wanted[tp].source_start or 0, ends[tp], one.offset, self._known.get(_log(wanted[tp])), share
                ),
            )
            for tp, one in newest.items()
        }
        found: dict[TopicPartition, OwnPair] = {}
        turns = max(len(quest.starts) for quest in quests.values())
        for turn in range(turns):
            # A partition that never comes to its end must leave time for the last turn.
            seconds = (ends_at - time.monotonic()) * (1 if turn == turns - 1 else 2 / 3)
            spans = {
                tp: OffsetSpan(quest.starts[turn], quest.end)
                for tp, quest in quests.items()
                if tp not in found and turn < len(quest.starts)
            }
            pairs = self._look_through(self._in_turn(spans), quests, seconds)
            found |= {tp: pair for tp, pair in pairs.items() if pair}
            self._owed.difference_update(tp for tp, pair in pairs.items() if pair or turn == len(quests[tp].starts) - 1)
        return found

    def _in_turn(self, spans: Mapping[TopicPartition, OffsetSpan]) -> dict[TopicPartition, OffsetSpan]:
        """As many as may be read, first those that have waited longest."""
        chosen: dict[TopicPartition, OffsetSpan] = {}
        records = 0
        for tp in sorted(spans, key=lambda tp: self._turns.get(tp, 0.0)):
            records += spans[tp].end - spans[tp].start
            if records > _MOST_RECORDS and chosen:
                break
            chosen[tp], self._turns[tp] = spans[tp], time.monotonic()
        return chosen

    def _look_through(
        self, spans: Mapping[TopicPartition, OffsetSpan], quests: Mapping[TopicPartition, SourceSearch], seconds: float
    ) -> dict[TopicPartition, OwnPair | None]:
        """Pairs of the partitions that were read to their end, None where there is none."""
        searches = {tp: PairSearch(quests[tp].newest.offset) for tp in spans}
        late: dict[TopicPartition, str] = {}
        look = _comparing({tp: quests[tp].newest for tp in spans})
        for where, offset, same in self._access.source_records.scan(spans, seconds, take=look, given_up=late):
            searches[where].saw(offset, same)
        return {tp: search.pair(quests[tp].end) for tp, search in searches.items() if tp not in late}


def _log(seen: PartitionSeen) -> tuple[TopicPartition, str | None, str | None]:
    """What a pair speaks of: a topic made anew on either side is another log."""
    return TopicPartition(seen.topic, seen.partition), seen.topic_id, seen.target_topic_id


def _as_newest(message: Consumed) -> tuple[TopicPartition, NewestRecords]:
    return TopicPartition(message.topic(), message.partition()), NewestRecords(
        message.offset(), _glance(message), record_of(message).fingerprint()
    )


def _comparing(
    newest: Mapping[TopicPartition, NewestRecords],
) -> Callable[[Consumed], tuple[TopicPartition, int, bool]]:
    """Makes of each source record its place, its offset, and whether it has the content of the target's newest one."""

    def compared(message: Consumed) -> tuple[TopicPartition, int, bool]:
        where = TopicPartition(message.topic(), message.partition())
        wanted = newest[where]
        return (
            where,
            message.offset(),
            _glance(message) == wanted.glance and record_of(message).fingerprint() == wanted.fingerprint,
        )

    return compared


def _glance(message: Consumed) -> int:
    """A number that differs for nearly all that differ, in a fraction of the time of a fingerprint."""
    return hash((message.key(), message.value()))
