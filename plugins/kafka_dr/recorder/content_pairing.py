"""The recorder's own offset pairs: newest target records, located on the source by content (decisions/0008).

Invariant: records are compared while they are read and never stored. A partition that cannot be read to its end in
time has no new pair; the other partitions have theirs all the same.
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

#: Source records read in one turn of one sample, over all partitions.
_MOST_RECORDS = 200_000
#: Minimum of source records per partition: fewer would miss the origin of a record mirrored a moment ago.
_LEAST_SHARE = 1_000
#: Offsets below the target's end to search for its newest record: markers follow it if MirrorMaker 2 is transactional.
_LOOK_BACKS = (1, 16)


class NewestRecords(NamedTuple):
    """A partition's newest record on the target, as far as the comparison needs it."""

    offset: int
    glance: int
    fingerprint: str


class SourceSearch(NamedTuple):
    """The target record to locate in a source partition, below `end`, from each offset in `starts` in turn."""

    newest: NewestRecords
    end: int
    starts: tuple[int, ...]


class Pairing:
    """A flow's newest pairs; the search for the next pairs starts from them."""

    def __init__(self, access: Access, seconds: float) -> None:
        """Start without pairs; nothing is read yet.

        Args:
            seconds: time limit for all reads of one sample.
        """
        self._access, self._seconds = access, seconds
        self._newest_pairs: dict[tuple[TopicPartition, str | None, str | None], OwnPair] = {}
        self._last_read_at: dict[TopicPartition, float] = {}
        self._queued: set[TopicPartition] = set()

    def owe(self, changed: Iterable[TopicPartition]) -> None:
        """Queue changed partitions: the next samples search each to its end, even a partition that has become quiet."""
        self._queued.update(changed)

    def write(self, rows: RecorderRows, now: Mapping[TopicPartition, PartitionSeen]) -> list[str]:
        """Write a pair for each queued partition whose newest target record has none; return a note if some fail.

        Args:
            now: all partitions as they are on both clusters.
        """
        started = time.monotonic()
        queued = {
            tp: now[tp]
            for tp in sorted(self._queued & now.keys())
            if now[tp].source_end is not None and self._has_new_records(now[tp])
        }
        self._queued = set(queued)
        newest = self._read_newest(queued, started + self._seconds / 3)
        pairs = self._find_pairs(queued, newest, started + self._seconds) if newest else {}
        for tp, pair in pairs.items():
            self._newest_pairs[_log_identity(queued[tp])] = pair
            rows.add(Kind.PAIR, topic=tp.topic, partition=tp.partition, **pair._asdict())
        unpaired = [str(tp) for tp in queued if tp not in pairs]
        note = f"own pairs: {len(unpaired)} of {len(queued)} partitions have no new one: {first_few(unpaired, 3)}"
        return [note] if unpaired else []

    def _has_new_records(self, state: PartitionSeen) -> bool:
        last_pair = self._newest_pairs.get(_log_identity(state))
        return state.target_end is not None and state.target_end > max(
            state.target_start or 0, last_pair.downstream + 1 if last_pair else 0
        )

    def _read_newest(
        self, states: Mapping[TopicPartition, PartitionSeen], ends_at: float
    ) -> dict[TopicPartition, NewestRecords]:
        unread = {TopicPartition(state.target_topic, state.partition): tp for tp, state in states.items()}
        ends = {tp: state.target_end for tp, state in states.items() if state.target_end is not None}
        records: dict[TopicPartition, NewestRecords] = {}
        for back in _LOOK_BACKS:
            spans = {
                target_tp: OffsetSpan(max(states[tp].target_start or 0, ends[tp] - back), ends[tp])
                for target_tp, tp in unread.items()
            }
            timed_out: dict[TopicPartition, str] = {}
            for target_tp, newest in self._access.target_records.scan(
                spans, ends_at - time.monotonic(), take=_as_newest, given_up=timed_out
            ):
                records[unread[target_tp]] = newest
            unread = {
                target_tp: tp for target_tp, tp in unread.items() if tp not in records and target_tp not in timed_out
            }
        self._queued.difference_update(unread.values())
        return records

    def _find_pairs(
        self,
        states: Mapping[TopicPartition, PartitionSeen],
        newest: Mapping[TopicPartition, NewestRecords],
        ends_at: float,
    ) -> dict[TopicPartition, OwnPair]:
        """Find pairs by partition. Source ends are read after the target's records: every origin lies below its end."""
        ends = self._access.source.ends(list(newest), self._access.source_records.isolation, ASK_SECONDS)
        share = max(_LEAST_SHARE, _MOST_RECORDS // len(newest))
        searches = {
            tp: SourceSearch(
                record,
                ends[tp],
                suffix_starts(
                    states[tp].source_start or 0,
                    ends[tp],
                    record.offset,
                    self._newest_pairs.get(_log_identity(states[tp])),
                    share,
                ),
            )
            for tp, record in newest.items()
        }
        pairs: dict[TopicPartition, OwnPair] = {}
        turns = max(len(search.starts) for search in searches.values())
        for turn in range(turns):
            # A partition that is never read to its end must leave time for the last turn.
            seconds = (ends_at - time.monotonic()) * (1 if turn == turns - 1 else 2 / 3)
            spans = {
                tp: OffsetSpan(search.starts[turn], search.end)
                for tp, search in searches.items()
                if tp not in pairs and turn < len(search.starts)
            }
            answers = self._search(self._select_longest_waiting(spans), searches, seconds)
            pairs |= {tp: pair for tp, pair in answers.items() if pair}
            self._queued.difference_update(
                tp for tp, pair in answers.items() if pair or turn == len(searches[tp].starts) - 1
            )
        return pairs

    def _select_longest_waiting(self, spans: Mapping[TopicPartition, OffsetSpan]) -> dict[TopicPartition, OffsetSpan]:
        """Select spans up to the limit of records, partitions that waited longest first."""
        chosen: dict[TopicPartition, OffsetSpan] = {}
        records = 0
        for tp in sorted(spans, key=lambda tp: self._last_read_at.get(tp, 0.0)):
            records += spans[tp].end - spans[tp].start
            if records > _MOST_RECORDS and chosen:
                break
            chosen[tp], self._last_read_at[tp] = spans[tp], time.monotonic()
        return chosen

    def _search(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        searches: Mapping[TopicPartition, SourceSearch],
        seconds: float,
    ) -> dict[TopicPartition, OwnPair | None]:
        """Pair each partition that was read to its end; None if its source span lacks the content."""
        pair_searches = {tp: PairSearch(searches[tp].newest.offset) for tp in spans}
        timed_out: dict[TopicPartition, str] = {}
        compare = _comparison_with({tp: searches[tp].newest for tp in spans})
        for tp, offset, same in self._access.source_records.scan(spans, seconds, take=compare, given_up=timed_out):
            pair_searches[tp].saw(offset, same)
        return {tp: search.pair(searches[tp].end) for tp, search in pair_searches.items() if tp not in timed_out}


def _log_identity(state: PartitionSeen) -> tuple[TopicPartition, str | None, str | None]:
    """Identify the logs of a pair: a topic recreated on either cluster is another log."""
    return TopicPartition(state.topic, state.partition), state.topic_id, state.target_topic_id


def _as_newest(message: Consumed) -> tuple[TopicPartition, NewestRecords]:
    return TopicPartition(message.topic(), message.partition()), NewestRecords(
        message.offset(), _quick_hash(message), record_of(message).fingerprint()
    )


def _comparison_with(
    newest: Mapping[TopicPartition, NewestRecords],
) -> Callable[[Consumed], tuple[TopicPartition, int, bool]]:
    """Return a function: source record -> partition, offset, same content as the target's newest record or not."""

    def compare(message: Consumed) -> tuple[TopicPartition, int, bool]:
        tp = TopicPartition(message.topic(), message.partition())
        target_record = newest[tp]
        return (
            tp,
            message.offset(),
            _quick_hash(message) == target_record.glance
            and record_of(message).fingerprint() == target_record.fingerprint,
        )

    return compare


def _quick_hash(message: Consumed) -> int:
    """Hash key and value in a fraction of a fingerprint's time; nearly all different records differ in it."""
    return hash((message.key(), message.value()))
