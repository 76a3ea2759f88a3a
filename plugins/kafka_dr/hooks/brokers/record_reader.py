"""Reading and writing small numbers of records of one cluster.

A read ends by position, never by count: a partition is finished when its reader stands at the wanted offset, whether or
not a record was there (transaction markers, aborted records and compacted-away offsets are never returned).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as WirePartition

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config, describe_error, kafka_border
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import Consumed, OffsetSpan, Record, Tail, record_of
from kafka_dr.hooks.brokers.topics import READ_COMMITTED, READ_UNCOMMITTED

_T = TypeVar("_T")

_CONSUME = 10_000
_LOOK_BACK_GROWTH = 8
_QUESTION_SECONDS = 60.0
#: librdkafka's own default.
_QUEUED_KBYTES = 65_536

#: Errors that only a client's own connection work reports; the deadline decides whether they matter.
_PASSING = frozenset(
    getattr(KafkaError, name)
    for name in (
        "_TRANSPORT _ALL_BROKERS_DOWN _TIMED_OUT _RESOLVE NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE "
        "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED"
    ).split()
)


class RecordReader:
    """Reads records by partition and offset; joins no group and commits nothing."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str = "the cluster",
        isolation: str = READ_UNCOMMITTED,
        queued_kbytes: int = _QUEUED_KBYTES,
        keeps_client: bool = False,
    ) -> None:
        """Prepare; no client is made yet.

        Args:
            config: librdkafka keys of the connection.
            isolation: read_uncommitted (as MirrorMaker 2 by default) or read_committed.
            queued_kbytes: of records that wait within the client.
            keeps_client: use one client for all reads, of one thread and one after the other: to log in again costs
                more than to read a few records. A read that does not come to its end takes its client with it.
                Otherwise each read has its own.
        """
        if isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise BadInput(
                "there is no such isolation level", repr(isolation), f"{READ_UNCOMMITTED} or {READ_COMMITTED}"
            )
        self.isolation = isolation
        self._alias, self._keeps_client = alias, keeps_client
        self._kept: Consumer | None = None
        self._known: set[str] = set()
        self._cluster = KafkaCluster(alias, config)
        self._config = {
            **client_config(config, alias),
            "group.id": "switchback-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": 50,
            # A kept client must not sleep through the next read, where its broker was away.
            "reconnect.backoff.max.ms": 1_000,
            "queued.max.messages.kbytes": queued_kbytes,
        }

    def __repr__(self) -> str:
        return f"RecordReader({self._alias!r}, {self.isolation})"

    def last_records(
        self, partitions: Iterable[TopicPartition], n: int = 1, timeout: float = 60.0
    ) -> dict[TopicPartition, Tail]:
        """The last n records of each of thousands of partitions, as of now.

        Where the end holds no records (markers, holes), it looks back further, up to the start of the log.

        Raises:
            KafkaUnavailable: not all ends were reached in time; names the partitions.
        """
        ends_at = time.monotonic() + timeout
        logs = self.spans(partitions, timeout)
        tails, look_back = {tp: Tail((), log.end, log.end) for tp, log in logs.items()}, n
        while pending := [
            tp for tp, tail in tails.items() if len(tail.records) < n and tail.scanned_from > logs[tp].start
        ]:
            spans = {
                tp: OffsetSpan(max(logs[tp].start, tails[tp].scanned_from - look_back), tails[tp].scanned_from)
                for tp in pending
            }
            found: dict[TopicPartition, list[Record]] = {}
            for record in self.scan(spans, ends_at - time.monotonic(), take=record_of):
                found.setdefault(record.topic_partition, []).append(record)
            for tp in pending:
                tails[tp] = Tail((*found.get(tp, ()), *tails[tp].records)[-n:], spans[tp].start, logs[tp].end)
            look_back *= _LOOK_BACK_GROWTH
        return tails

    def range(
        self, partition: TopicPartition, start: int, end: int, limit: int | None = None, timeout: float = 60.0
    ) -> list[Record]:
        """Records with start <= offset < end, at most `limit` of them; the offsets must still be in the log."""
        return self.ranges({partition: OffsetSpan(start, end)}, limit, timeout)[partition]

    def ranges(
        self, spans: Mapping[TopicPartition, OffsetSpan], limit: int | None = None, timeout: float = 60.0
    ) -> dict[TopicPartition, list[Record]]:
        """Read records of many spans, at most `limit` per partition; an empty list proves that no reader finds any."""
        found: dict[TopicPartition, list[Record]] = {tp: [] for tp in spans}
        for record in self.scan(spans, timeout, limit, record_of):
            found[record.topic_partition].append(record)
        return found

    def read_all(
        self,
        topic: str,
        timeout: float = 600.0,
        take: Callable[[Consumed], _T] = record_of,  # type: ignore[assignment]  # a type variable has no default
        begin: Mapping[TopicPartition, int] | None = None,
    ) -> Iterator[_T]:
        """Every record of a topic that is there now, partition by partition in order; made for MM2's internal topics.

        Args:
            take: what to make of each message; `key_and_value` where millions are read for these alone.
            begin: where to begin, of partitions that are not read from their beginning.
        """
        info = self._cluster.topics([topic], min(timeout, _QUESTION_SECONDS)).get(topic)
        if info is None:
            raise KafkaUnavailable(
                f"topic {topic!r} of {self._alias} does not exist",
                next_step="check its name, and that MirrorMaker 2 made it",
            )
        spans = self.spans((TopicPartition(topic, p) for p in info.partitions), min(timeout, _QUESTION_SECONDS))
        return self.scan(
            {tp: OffsetSpan(max(span.start, (begin or {}).get(tp, 0)), span.end) for tp, span in spans.items()},
            timeout,
            take=take,
        )

    def spans(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, OffsetSpan]:
        """Log start, and log end (under read_committed the last stable offset), of each partition."""
        wanted = list(dict.fromkeys(partitions))
        starts = self._cluster.starts(wanted, timeout)
        ends = self._cluster.ends(wanted, self.isolation, timeout)
        return {tp: OffsetSpan(starts[tp], ends[tp]) for tp in wanted}

    def scan(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        timeout: float = 60.0,
        limit: int | None = None,
        take: Callable[[Consumed], _T] = record_of,  # type: ignore[assignment]  # a type variable has no default
        given_up: dict[TopicPartition, str] | None = None,
    ) -> Iterator[_T]:
        """Records of all spans as they come, ordered within a partition; ends when every position has passed its span.

        Args:
            limit: of one partition.
            take: what to make of each message.
            given_up: where given, a partition that cannot be passed is noted in it, with why, and the others are read
                on.

        Raises:
            KafkaUnavailable: a span was not passed in time, or its offsets are no longer in the log.
        """
        waiting = {tp: span for tp, span in spans.items() if span.start < span.end and limit != 0}
        if not waiting:
            return
        ends_at = time.monotonic() + timeout
        consumer, ended = self._client(), False
        try:
            with kafka_border(self._alias, "assigning partitions"):
                consumer.incremental_assign(
                    [WirePartition(tp.topic, tp.partition, span.start) for tp, span in waiting.items()]
                )
            self._ask_for_leaders(consumer, {tp.topic for tp in waiting}, ends_at)
            yield from self._scanned(consumer, waiting, ends_at, limit, take, given_up)
            ended = not given_up
        finally:
            self._let_go(consumer, ended)

    def _client(self) -> Consumer:
        """The kept client, or a new one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            return kept
        self._known.clear()
        with kafka_border(self._alias, "making a consumer"):
            return Consumer(self._config)

    def _ask_for_leaders(self, consumer: Consumer, topics: set[str], ends_at: float) -> None:
        """Request the leaders of topics new to a kept client; the client alone would wait up to a second."""
        left = ends_at - time.monotonic()
        if self._known and not topics <= self._known and left > 0:
            # Where nobody answers, the read itself says so.
            with suppress(KafkaException):
                consumer.list_topics(timeout=left)
        self._known |= topics

    def _let_go(self, consumer: Consumer, ended: bool) -> None:
        """Keep a client for the next read where this one came to its end; close any other."""
        if not (ended and self._keeps_client and self._kept is None):
            consumer.close()
            return
        with kafka_border(self._alias, "letting partitions go"):
            consumer.unassign()
        self._kept = consumer

    def _scanned(
        self,
        consumer: Consumer,
        waiting: dict[TopicPartition, OffsetSpan],
        ends_at: float,
        limit: int | None,
        take: Callable[[Consumed], _T],
        given_up: dict[TopicPartition, str] | None,
    ) -> Iterator[_T]:
        counts: dict[TopicPartition, int] = {}
        complaint = ""
        while waiting:
            if time.monotonic() > ends_at:
                if given_up is None:
                    raise self._unfinished(waiting, complaint)
                given_up |= dict.fromkeys(waiting, "not reached in time")
                return
            messages: list[Consumed] = consumer.consume(_CONSUME, 0.1)  # type: ignore[assignment]
            for message in messages:
                if error := message.error():
                    complaint = self._noted(message, error, waiting, given_up) or complaint
                    continue
                # Equal to a TopicPartition, and made faster.
                where: TopicPartition = (message.topic(), message.partition())  # type: ignore[assignment]
                offset, span = message.offset(), waiting.get(where)
                if span is None:
                    continue
                if offset < span.end:
                    yield take(message)
                    counts[where] = counts.get(where, 0) + 1 if limit else 0
                if offset + 1 >= span.end or (limit and counts[where] >= limit):
                    del waiting[where]

    def _noted(
        self,
        message: Consumed,
        error: KafkaError,
        waiting: dict[TopicPartition, OffsetSpan],
        given_up: dict[TopicPartition, str] | None,
    ) -> str:
        """Finish a partition at its end, note transient errors, raise others unless the partition may be given up."""
        where = TopicPartition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            if where in waiting and message.offset() >= waiting[where].end:
                del waiting[where]
            return ""
        if error.code() in _PASSING:
            return describe_error(error)
        # An error of the whole client has no topic.
        if where.topic is not None and where not in waiting:
            return ""
        if given_up is not None and where in waiting:
            given_up[where] = describe_error(error)
            del waiting[where]
            return ""
        raise KafkaUnavailable(
            f"reading {where} on {self._alias} failed",
            describe_error(error),
            "its log or our rights changed: look, then ask again",
        )

    def _unfinished(self, waiting: Mapping[TopicPartition, OffsetSpan], complaint: str) -> KafkaUnavailable:
        names = first_few([f"{tp} up to {span.end}" for tp, span in waiting.items()], 5)
        said = f"; the client says: {complaint}" if complaint else ""
        return KafkaUnavailable(
            f"not everything on {self._alias} could be read in time", f"not reached: {names}{said}", "ask again"
        )
