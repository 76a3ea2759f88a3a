"""Finds content pairs: each target partition's newest record, located on the source by content (decisions/0008).

Invariant: records are compared while they are read and never stored. A source partition that cannot be read to its end
in time gets no new pair; every other partition gets its pair all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.offsets.content_pairs import OwnPair, PairSearch, suffix_starts
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.recorder_rows import Kind, PartitionSeen, RecorderRows
from kafka_dr.hooks.brokers.client import in_batches
from kafka_dr.hooks.brokers.record import Consumed, OffsetSpan, record_of
from kafka_dr.recorder.clients import Access, ask_seconds

#: Partitions that are searched together: the client's time to assign and release them grows with their square.
_PARTITIONS_AT_ONCE = 1_000
#: Limit of source offsets read in one turn, over all partitions that are searched together. Turn n reads from
#: `starts[n]` on.
_MOST_RECORDS = 200_000
#: Least number of source offsets searched per partition: fewer would miss a record that was mirrored a moment ago.
_LEAST_SHARE = 1_000
#: Number of offsets read below the target's log end to get the newest record. The second number is used if the first
#: gives no record: with a transactional MirrorMaker 2, transaction markers follow the newest record.
_LOOK_BACKS = (1, 16)


class NewestRecords(NamedTuple):
    """The newest record of one target partition, as its offset and two hashes of its content.

    Attributes:
        offset: the record's offset on the target.
        glance: the record's `_quick_hash`; fingerprints are compared only if the quick hashes are equal.
        fingerprint: the record's `Record.fingerprint`.
    """

    offset: int
    glance: int
    fingerprint: str


class SourceSearch(NamedTuple):
    """A search of one source partition for the original of a target record.

    Attributes:
        newest: the target record.
        end: the source partition's log end, where each read ends.
        starts: source offsets to begin at: the first read begins at the first offset; if it finds no pair, the second
            read begins at the second offset.
    """

    newest: NewestRecords
    end: int
    starts: tuple[int, ...]


class Pairing:
    """Finds a flow's content pairs, sample by sample; each search begins at its partition's last pair."""

    def __init__(self, access: Access, seconds: float) -> None:
        """Begin with no content pairs; nothing is read yet.

        Args:
            seconds: time limit for all reads of one sample.
        """
        self._access, self._seconds = access, seconds
        self._newest_pairs: dict[tuple[TopicPartition, str | None, str | None], OwnPair] = {}
        #: An ordered set: the next search begins with its first partitions.
        self._queued: dict[TopicPartition, None] = {}
        self._waiting_since: dict[TopicPartition, float] = {}

    def owe(self, changed: Iterable[TopicPartition]) -> None:
        """Queue changed source partitions for a search; a partition stays queued until a search has read its end."""
        self._queued |= dict.fromkeys(changed)

    @property
    def waiting(self) -> tuple[int, float]:
        """Number of partitions that searches have left without a pair so far, and seconds since the oldest was left."""
        oldest = min(self._waiting_since.values(), default=None)
        return len(self._waiting_since), 0.0 if oldest is None else time.monotonic() - oldest

    def write(self, rows: RecorderRows, now: Mapping[TopicPartition, PartitionSeen]) -> list[str]:
        """Search the queued partitions for content pairs; return [], or a note that names partitions without pair.

        Args:
            rows: the sample's rows, to which one row per content pair is added.
            now: the state of every partition of the flow on both clusters, in this sample.
        """
        started, pairs = time.monotonic(), dict[TopicPartition, OwnPair]()
        ends_at = started + self._seconds
        queued = {
            tp: now[tp]
            for tp in self._queued
            if tp in now and now[tp].source_end is not None and self._has_new_records(now[tp])
        }
        self._queued = dict.fromkeys(queued)
        for batch in in_batches(list(queued), _PARTITIONS_AT_ONCE):
            began = time.monotonic()
            if began >= ends_at:
                break
            states = {tp: queued[tp] for tp in batch}
            newest = self._read_newest(states, began + (ends_at - began) / 3)
            pairs |= self._find_pairs(states, newest, ends_at) if newest else {}
        for tp, pair in pairs.items():
            self._newest_pairs[_log_identity(queued[tp])] = pair
            rows.add(Kind.PAIR, topic=tp.topic, partition=tp.partition, **pair._asdict())
        self._waiting_since = {tp: self._waiting_since.get(tp, started) for tp in self._queued}
        unpaired = [str(tp) for tp in queued if tp not in pairs]
        note = (
            f"own pairs: {len(unpaired)} of {len(queued)} partitions have no new content pair: {first_few(unpaired, 3)}"
        )
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
            for target_tp in timed_out:
                self._queue_last(unread[target_tp])
            unread = {
                target_tp: tp for target_tp, tp in unread.items() if tp not in records and target_tp not in timed_out
            }
        self._unqueue(unread.values())
        return records

    def _find_pairs(
        self,
        states: Mapping[TopicPartition, PartitionSeen],
        newest: Mapping[TopicPartition, NewestRecords],
        ends_at: float,
    ) -> dict[TopicPartition, OwnPair]:
        """Search the source for the originals of the target's newest records; return the pairs by source partition.

        The source's log ends are read after the target's newest records, so the originals of these records lie below
        the log ends.

        Args:
            states: state of each source partition on both clusters.
            newest: the target's newest record, by source partition.
            ends_at: when the search must end, in monotonic seconds.
        """
        ends = self._access.source.ends(list(newest), self._access.source_records.isolation, ask_seconds(len(newest)))
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
            # Reserve a third of the time for later turns: a partition may use up a turn before its end is reached.
            seconds = (ends_at - time.monotonic()) * (1 if turn == turns - 1 else 2 / 3)
            spans = {
                tp: OffsetSpan(search.starts[turn], search.end)
                for tp, search in searches.items()
                if tp not in pairs and turn < len(search.starts)
            }
            answers = self._search(self._select_first(spans), searches, seconds)
            pairs |= {tp: pair for tp, pair in answers.items() if pair}
            self._unqueue(tp for tp, pair in answers.items() if pair or turn == len(searches[tp].starts) - 1)
        return pairs

    def _select_first(self, spans: Mapping[TopicPartition, OffsetSpan]) -> dict[TopicPartition, OffsetSpan]:
        """Choose the spans to read next, in the queue's order; their partitions become the queue's last ones.

        All chosen spans together have at most `_MOST_RECORDS` offsets. The first span is chosen whatever its length.
        """
        chosen: dict[TopicPartition, OffsetSpan] = {}
        records = 0
        for tp in [tp for tp in self._queued if tp in spans]:
            records += spans[tp].end - spans[tp].start
            if records > _MOST_RECORDS and chosen:
                break
            chosen[tp] = spans[tp]
            self._queue_last(tp)
        return chosen

    def _queue_last(self, tp: TopicPartition) -> None:
        del self._queued[tp]
        self._queued[tp] = None

    def _unqueue(self, searched: Iterable[TopicPartition]) -> None:
        for tp in searched:
            del self._queued[tp]

    def _search(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        searches: Mapping[TopicPartition, SourceSearch],
        seconds: float,
    ) -> dict[TopicPartition, OwnPair | None]:
        """Read spans of source partitions and return the content pairs.

        Args:
            spans: the offsets to read, by source partition.
            searches: the search of each source partition.
            seconds: time limit for all spans together.

        Returns:
            By source partition: its content pair; None if no record in the span has the content of the target record.
            A partition whose span was not read to its end in time is left out.
        """
        pair_searches = {tp: PairSearch(searches[tp].newest.offset) for tp in spans}
        timed_out: dict[TopicPartition, str] = {}
        compare = _comparison_with({tp: searches[tp].newest for tp in spans})
        for tp, offset, same in self._access.source_records.scan(spans, seconds, take=compare, given_up=timed_out):
            pair_searches[tp].saw(offset, same)
        return {tp: search.pair(searches[tp].end) for tp, search in pair_searches.items() if tp not in timed_out}


def _log_identity(state: PartitionSeen) -> tuple[TopicPartition, str | None, str | None]:
    """Return a partition with its topic ids on both clusters: a topic recreated on either cluster is another log."""
    return TopicPartition(state.topic, state.partition), state.topic_id, state.target_topic_id


def _as_newest(message: Consumed) -> tuple[TopicPartition, NewestRecords]:
    return TopicPartition(message.topic(), message.partition()), NewestRecords(
        message.offset(), _quick_hash(message), record_of(message).fingerprint()
    )


def _comparison_with(
    newest: Mapping[TopicPartition, NewestRecords],
) -> Callable[[Consumed], tuple[TopicPartition, int, bool]]:
    """Return a function that compares a source record with the newest record of its partition on the target.

    The function returns the source record's partition, its offset, and whether both records have equal content.
    """

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
    """Return a hash of key and value: faster than a fingerprint, and different for nearly all different records."""
    return hash((message.key(), message.value()))
