"""Reads records of one cluster.

A read of a partition ends when the reader's position has reached the end offset, not after a number of records: the
last offsets may hold nothing that a reader gets (markers, aborted records, offsets removed by compaction).

Memory is bounded in bytes, whatever the records' number and size: the client's queue holds at most QUEUED_KBYTES, one
answer of a broker FETCHED_BYTES (or one record, if that is larger), and of a record only what `take` returns is kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as WirePartition

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config, describe_error, kafka_border
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import Consumed, Kept, OffsetSpan, Record, Tail, record_of
from kafka_dr.hooks.brokers.topics import READ_COMMITTED, READ_UNCOMMITTED

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Kept)

_CONSUME = 10_000
_LOOK_BACK_GROWTH = 8
_METADATA_SECONDS = 60.0
QUEUED_KBYTES, FETCHED_BYTES = 16_384, 16_000_000

#: The client's transient errors: reading continues after them until the read's deadline.
_TRANSIENT = frozenset(
    getattr(KafkaError, name)
    for name in (
        "_TRANSPORT _ALL_BROKERS_DOWN _TIMED_OUT _RESOLVE NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE "
        "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED"
    ).split()
)


class RecordReader:
    """Reads records by partition and offset; the reader joins no group and commits nothing."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str = "the cluster",
        isolation: str = READ_UNCOMMITTED,
        queued_kbytes: int = QUEUED_KBYTES,
        keeps_client: bool = False,
    ) -> None:
        """Check the configuration; no client is created yet.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
            isolation: read_uncommitted (as MirrorMaker 2 by default) or read_committed.
            queued_kbytes: limit of the client's queue of fetched records, in kB.
            keeps_client: whether consecutive reads of one thread share a client, as a login costs more than reading a
                few records; a read that fails or ends early closes this client. If False, each read has a client of its
                own.
        """
        if isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise BadInput(
                "this isolation level does not exist",
                repr(isolation),
                f"report this message as a defect of Switchback: only {READ_UNCOMMITTED} and {READ_COMMITTED} exist",
            )
        self.isolation = isolation
        self._alias, self._keeps_client = alias, keeps_client
        self._idle_client: Consumer | None = None
        self._known_topics: set[str] = set()
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
            # A client that was idle while a broker was away must reconnect to the broker within the next read.
            "reconnect.backoff.max.ms": 1_000,
            "queued.max.messages.kbytes": queued_kbytes,
            "fetch.max.bytes": FETCHED_BYTES,
        }

    def __repr__(self) -> str:
        return f"RecordReader({self._alias!r}, {self.isolation})"

    def last_records(
        self,
        partitions: Iterable[TopicPartition],
        take: Callable[[Consumed], _K],
        n: int = 1,
        timeout: float = 60.0,
    ) -> dict[TopicPartition, Tail[_K]]:
        """Return the last n records of each partition as a Tail; one call takes thousands of partitions.

        If the last n offsets hold fewer than n records (markers, compacted offsets), older offsets are read, too, at
        most down to the log start.

        Args:
            take: converts each message; `digest_of` and `keep_part` keep no content, so that the tails of thousands of
                partitions with large records fit.

        Raises:
            KafkaUnavailable: not all ends were reached in time; the message names the partitions.
        """
        ends_at = time.monotonic() + timeout
        logs = self.spans(partitions, timeout)
        tails: dict[TopicPartition, Tail[_K]] = {tp: Tail((), log.end, log.end) for tp, log in logs.items()}
        look_back = n
        while pending := [
            tp for tp, tail in tails.items() if len(tail.records) < n and tail.scanned_from > logs[tp].start
        ]:
            spans = {
                tp: OffsetSpan(max(logs[tp].start, tails[tp].scanned_from - look_back), tails[tp].scanned_from)
                for tp in pending
            }
            newest: dict[TopicPartition, deque[_K]] = {tp: deque(maxlen=n) for tp in pending}
            for record in self.scan(spans, ends_at - time.monotonic(), take=take):
                newest[record.topic_partition].append(record)
            for tp in pending:
                tails[tp] = Tail((*newest[tp], *tails[tp].records)[-n:], spans[tp].start, logs[tp].end)
            look_back *= _LOOK_BACK_GROWTH
        return tails

    def range(
        self, partition: TopicPartition, start: int, end: int, limit: int | None = None, timeout: float = 60.0
    ) -> list[Record]:
        """Return a partition's records with start <= offset < end, at most `limit`; `start` must be in the log."""
        return self.ranges({partition: OffsetSpan(start, end)}, limit, timeout)[partition]

    def ranges(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        limit: int | None = None,
        timeout: float = 60.0,
        take: Callable[[Consumed], _K] = record_of,  # type: ignore[assignment]  # a type variable has no default
    ) -> dict[TopicPartition, list[_K]]:
        """Return the records of each partition's span, at most `limit` per partition; [] for a span without records.

        Args:
            take: converts each message; `digest_of` keeps no content.
        """
        records: dict[TopicPartition, list[_K]] = {tp: [] for tp in spans}
        for record in self.scan(spans, timeout, limit, take):
            records[record.topic_partition].append(record)
        return records

    def read_all(
        self,
        topic: str,
        timeout: float = 600.0,
        take: Callable[[Consumed], _T] = record_of,  # type: ignore[assignment]  # a type variable has no default
        begin: Mapping[TopicPartition, int] | None = None,
    ) -> Iterator[_T]:
        """Yield a topic's records up to its present log ends, in order within each partition.

        Meant for MirrorMaker 2's internal topics. If the topic does not exist, KafkaUnavailable is raised.

        Args:
            take: converts each message; `key_and_value` is faster for millions of records.
            begin: offsets to start at, by partition; other partitions are read from their log start.
        """
        info = self._cluster.topics([topic], min(timeout, _METADATA_SECONDS)).get(topic)
        if info is None:
            raise KafkaUnavailable(
                f"topic {topic!r} of {self._alias} does not exist",
                next_step=f"compare the name with the output of kafka-topics.sh --list on {self._alias}; MirrorMaker 2"
                " creates its internal topics when its connectors first run",
            )
        spans = self.spans((TopicPartition(topic, p) for p in info.partitions), min(timeout, _METADATA_SECONDS))
        return self.scan(
            {tp: OffsetSpan(max(span.start, (begin or {}).get(tp, 0)), span.end) for tp, span in spans.items()},
            timeout,
            take=take,
        )

    def spans(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, OffsetSpan]:
        """Return log start and log end by partition; under read_committed the end is the last stable offset."""
        unique = list(dict.fromkeys(partitions))
        starts = self._cluster.starts(unique, timeout)
        ends = self._cluster.ends(unique, self.isolation, timeout)
        return {tp: OffsetSpan(starts[tp], ends[tp]) for tp in unique}

    def scan(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        timeout: float = 60.0,
        limit: int | None = None,
        take: Callable[[Consumed], _T] = record_of,  # type: ignore[assignment]  # a type variable has no default
        given_up: dict[TopicPartition, str] | None = None,
    ) -> Iterator[_T]:
        """Yield the records of all spans, in order within a partition, until each span is read to its end.

        Args:
            limit: maximum of records per partition.
            take: converts each message to what is yielded.
            given_up: a dictionary that gets each partition whose span cannot be read to its end, with the reason; the
                other partitions are still read. None: such a partition ends the read with an error.

        Raises:
            KafkaUnavailable: the client failed; or, without `given_up`, a span was not read to its end in time, or its
                offsets are no longer in the log.
        """
        unfinished = {tp: span for tp, span in spans.items() if span.start < span.end and limit != 0}
        if not unfinished:
            return
        ends_at = time.monotonic() + timeout
        consumer, completed = self._take_client(), False
        try:
            with kafka_border(self._alias, "assigning partitions"):
                consumer.incremental_assign(
                    [WirePartition(tp.topic, tp.partition, span.start) for tp, span in unfinished.items()]
                )
            self._request_leaders(consumer, {tp.topic for tp in unfinished}, ends_at)
            yield from self._consume(consumer, unfinished, ends_at, limit, take, given_up)
            completed = not given_up
        finally:
            self._release(consumer, completed)

    def _take_client(self) -> Consumer:
        """Return the client that an earlier read has stored, and store it no longer; without one, a new client."""
        client, self._idle_client = self._idle_client, None
        if client is not None:
            return client
        self._known_topics.clear()
        with kafka_border(self._alias, "creating a consumer"):
            return Consumer(self._config)

    def _request_leaders(self, consumer: Consumer, topics: set[str], ends_at: float) -> None:
        """Make a reused client look up the leaders of topics that it has not read before.

        Without this request, the client would wait up to a second before it looks them up by itself.

        Args:
            consumer: the client; nothing is requested of a client on its first read.
            topics: the topics that are about to be read.
            ends_at: when the read must end, in monotonic seconds.
        """
        remaining = ends_at - time.monotonic()
        if self._known_topics and not topics <= self._known_topics and remaining > 0:
            # If no broker answers, the read itself reports the error.
            with suppress(KafkaException):
                consumer.list_topics(timeout=remaining)
        self._known_topics |= topics

    def _release(self, consumer: Consumer, completed: bool) -> None:
        """Store the client for the next read, or close the client.

        Args:
            consumer: the client.
            completed: whether all spans were read to their ends. If False, or without `keeps_client`, it is closed.
        """
        if not (completed and self._keeps_client and self._idle_client is None):
            consumer.close()
            return
        with kafka_border(self._alias, "unassigning partitions"):
            consumer.unassign()
        self._idle_client = consumer

    def _consume(
        self,
        consumer: Consumer,
        unfinished: dict[TopicPartition, OffsetSpan],
        ends_at: float,
        limit: int | None,
        take: Callable[[Consumed], _T],
        given_up: dict[TopicPartition, str] | None,
    ) -> Iterator[_T]:
        counts: dict[TopicPartition, int] = {}
        complaint = ""
        while unfinished:
            if time.monotonic() > ends_at:
                if given_up is None:
                    raise self._unfinished(unfinished, complaint)
                given_up |= dict.fromkeys(unfinished, "not reached in time")
                return
            # A call for many messages would return only after its whole timeout, unless so many messages arrive.
            messages: list[Consumed] = consumer.consume(1, 0.1)  # type: ignore[assignment]
            if messages:
                messages += consumer.consume(_CONSUME, 0.0)  # type: ignore[arg-type]
            for message in messages:
                if error := message.error():
                    complaint = self._handle_error(message, error, unfinished, given_up) or complaint
                    continue
                # A plain tuple, which equals the TopicPartition and is built faster.
                tp: TopicPartition = (message.topic(), message.partition())  # type: ignore[assignment]
                offset, span = message.offset(), unfinished.get(tp)
                if span is None:
                    continue
                if offset < span.end:
                    yield take(message)
                    counts[tp] = counts.get(tp, 0) + 1 if limit else 0
                if offset + 1 >= span.end or (limit and counts[tp] >= limit):
                    del unfinished[tp]

    def _handle_error(
        self,
        message: Consumed,
        error: KafkaError,
        unfinished: dict[TopicPartition, OffsetSpan],
        given_up: dict[TopicPartition, str] | None,
    ) -> str:
        """Handle an error that the consumer delivered in place of a message.

        A transient error is returned as text. Otherwise "" is returned: the error "end of partition" ends the read of
        its partition, and any other error is stored in `given_up`, or raised if `given_up` is None.

        Args:
            message: has topic and partition of the error.
            error: the error.
            unfinished: the spans that are still to be read; finished and given up partitions are removed.
            given_up: gets the reason by partition, as in `scan`.
        """
        tp = TopicPartition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            if tp in unfinished and message.offset() >= unfinished[tp].end:
                del unfinished[tp]
            return ""
        if error.code() in _TRANSIENT:
            return describe_error(error)
        # The error of a partition that is read already; an error of the whole client has no topic, and is raised.
        if tp.topic is not None and tp not in unfinished:
            return ""
        if given_up is not None and tp in unfinished:
            given_up[tp] = describe_error(error)
            del unfinished[tp]
            return ""
        raise KafkaUnavailable(
            f"reading {tp} on {self._alias} failed",
            describe_error(error),
            f"run kafka-topics.sh --describe on {self._alias}; if the partition exists, grant the connection's"
            " principal READ and DESCRIBE on the topic. If the error names an offset out of range, retention has"
            " deleted records that were to be read",
        )

    def _unfinished(self, spans: Mapping[TopicPartition, OffsetSpan], complaint: str) -> KafkaUnavailable:
        names = first_few([f"{tp} up to {span.end}" for tp, span in spans.items()], 5)
        client_error = f"; the client reports: {complaint}" if complaint else ""
        return KafkaUnavailable(
            f"not all records on {self._alias} could be read in time",
            f"not read: {names}{client_error}",
            f"make sure that the brokers of {self._alias} that lead these partitions run and are not overloaded; the"
            " next attempt reads the partitions again",
            may_pass=True,
        )
