"""Read offset ranges of Kafka partitions; only offsets and fingerprints of the records stay in memory.

A *window* is an offset range of one partition on one cluster. The cluster is ``source`` or ``target`` of the job.
"""

from __future__ import annotations

import gc
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, compress, count, islice, pairwise, repeat
from operator import is_, ne
from typing import Any, Self

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_dr_spark.reading.fingerprints import NO_PRINTS, Headers, Prints, key_fingerprints, record_fingerprints
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.reading.msk_login import with_signer
from kafka_dr_spark.reading.waves import cut_out, window_waves
from kafka_dr_spark.translation.case import SOURCE, TARGET, Limits, ReadWindow

# A read fails if the log has ended below the window's end for this many seconds; a high watermark can lag for a moment.
ENDED_SECONDS = 5.0
CONSUMER_SETTINGS = {
    "group.id": "switchback-translate-offsets",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 50,
    # By default librdkafka waits a second before it refills a queue that was full, and so reads a whole log at a fifth
    # of the speed.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 262_144,
    # A broker's answer and the client's queue, in bytes and in kB: records may be large, and partitions many.
    "fetch.max.bytes": 16_000_000,
    "queued.max.messages.kbytes": 32_768,
    "check.crcs": True,
}
# Errors about the consumer group: librdkafka requires a group id, but the group is never joined and needs no rights.
HARMLESS = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
# Errors that are tolerated until the deadline. _AUTHENTICATION: a restarting broker can break off an authentication.
PASSING = {
    KafkaError._TRANSPORT,
    KafkaError._AUTHENTICATION,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
}

#: Most records and most bytes that a window buffers before its records are fingerprinted (the limit reached first
#: counts), and the number of windows that are fingerprinted together.
RECORDS_HELD, BYTES_HELD, WINDOWS_AT_ONCE = 1_000, 1_000_000, 64
#: Most bytes that all windows of a cluster buffer together: a task may read thousands of windows at once.
BYTES_IN_ALL = 64_000_000


class WindowUnreadable(RuntimeError):
    """A partition's offset range cannot be read; the message names the cluster, the partition and the reason."""


class KafkaAccess:
    """Client settings of source and target. Tasks carry these settings to the workers; no code prints them."""

    def __init__(self, source: Mapping[str, Any] | None, target: Mapping[str, Any]) -> None:
        self._settings = {SOURCE: with_signer(source or {}), TARGET: with_signer(target)}

    def __repr__(self) -> str:
        return "KafkaAccess(...)"

    def consumer(self, side: str, isolation: str) -> Consumer:
        """Return a new consumer of cluster ``side`` (SOURCE or TARGET) whose isolation.level is ``isolation``.

        Raises:
            WindowUnreadable: librdkafka refuses the cluster's client settings.
        """
        try:
            # Only exceptions are reported, because librdkafka's own log lines quote settings.
            return Consumer({**CONSUMER_SETTINGS, **self._settings[side], "isolation.level": isolation, "log_level": 2})
        except KafkaException as error:
            # librdkafka quotes the offending value, which may be a password.
            raise WindowUnreadable(
                f"{side}: librdkafka refuses the client settings ({error.args[0].name()}); compare the settings with"
                f" librdkafka's list of properties; if Airflow runs the job, correct the {side}'s Airflow connection"
            ) from None


class OpenWindow:
    """Collects the records of one window; `offsets` has the offsets of the records read so far."""

    def __init__(self, window: ReadWindow) -> None:
        self.window = window
        self.offsets = array("q")
        self._held: list[Message] = []
        self._bytes_held = 0
        self._prints: list[Prints] = []
        self._ended: tuple[int, float] | None = None

    @property
    def reached(self) -> int:
        """The next offset to read."""
        return self.offsets[-1] + 1 if self.offsets else self.window.start

    def end_seen(self, offset: int) -> bool:
        """Store the offset at which the log ends now; return whether this offset is at or above the window's end."""
        if self._ended is None or self._ended[0] != offset:
            self._ended = offset, time.monotonic()
        return offset >= self.window.end

    def ends_short(self) -> int | None:
        """Return the log's end if it has stayed below the window's end for more than ENDED_SECONDS, else None."""
        if self._ended is None or time.monotonic() - self._ended[1] <= ENDED_SECONDS:
            return None
        return self._ended[0]

    def add(self, messages: list[Message]) -> bool:
        """Add records of the partition; return whether the last of them is at or above the window's last offset."""
        offsets: list[int] = list(map(Message.offset, messages))  # type: ignore[arg-type]  # each record has one
        first, last = bisect_left(offsets, self.window.start), bisect_left(offsets, self.window.end)
        self.offsets.extend(offsets[first:last])
        if first < last:
            self.take(messages[first:last])
        return offsets[-1] >= self.window.end - 1

    def take(self, messages: list[Message]) -> None:
        """Buffer records of the window, and fingerprint them when a buffer limit is reached."""
        self._held += messages
        self._bytes_held += sum(map(len, messages))
        if len(self._held) >= RECORDS_HELD or self._bytes_held >= BYTES_HELD:
            take_prints([self])

    def let_go(self) -> list[Message]:
        """Empty the buffer and return the records that were in the buffer."""
        buffered, self._held, self._bytes_held = self._held, [], 0
        return buffered

    def keep(self, prints: Prints) -> None:
        """Store the fingerprints of the records that `let_go` returned last."""
        self._prints.append(prints)

    def records(self) -> Records:
        """Return offsets and fingerprints of all records read so far, in offset order."""
        take_prints([self])
        return Records(
            np.array(self.offsets, np.int64), *(np.concatenate(columns) for columns in zip(NO_PRINTS, *self._prints))
        )


def take_prints(windows: list[OpenWindow]) -> None:
    """Fingerprint the buffered records of all windows together, because a call per small window takes too long."""
    buffered = [window.let_go() for window in windows]
    counts, messages = list(map(len, buffered)), list(chain.from_iterable(buffered))
    if not messages:
        return
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    headers: list[Headers | None] = list(map(Message.headers, messages))  # type: ignore[arg-type]  # never a dict
    times, keyed = (
        np.array([timestamp for _, timestamp in map(Message.timestamp, messages)], np.int64),
        any(window.window.with_keys for window in windows),
    )
    times[~np.repeat([window.window.with_timestamps for window in windows], counts)] = 0
    print_columns = (
        *record_fingerprints(keys, values, headers, times),
        *(key_fingerprints(keys, values) if keyed else (np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.bool_))),
    )
    ends = np.cumsum(counts).tolist()
    for window, start, end in zip(windows, [0, *ends], ends):
        window.keep(Prints(*(column[start:end] for column in print_columns)))


def group_windows(windows: list[OpenWindow]) -> Iterator[list[OpenWindow]]:
    """Yield groups of at most WINDOWS_AT_ONCE windows, so that the records of a group fit into memory together."""
    for start in range(0, len(windows), WINDOWS_AT_ONCE):
        yield windows[start : start + WINDOWS_AT_ONCE]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Suspend Python's garbage collector, which would spend a third of the time on scanning Kafka messages."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class WindowReader:
    """Reads windows of many partitions at once, with one consumer per cluster, until every window is complete."""

    #: The class that collects a window's records.
    opened = OpenWindow

    def __init__(self, access: KafkaAccess, limits: Limits) -> None:
        self._access, self._limits = access, limits
        self._consumers: dict[str, Consumer] = {}
        self._partitions: dict[str, set[tuple[str, int]]] = {}
        self._deadline = time.monotonic() + limits.deadline_seconds
        self._opened: dict[str, list[OpenWindow]] = {}
        self._bytes_taken = {SOURCE: 0, TARGET: 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def read(self, windows: list[ReadWindow]) -> list[Records]:
        """Return offsets and fingerprints of the records of each window, in the order of ``windows``.

        Raises:
            WindowUnreadable: a window cannot be read to its end, or not before the job's deadline.
        """
        received: dict[ReadWindow, Records] = {}
        with without_garbage_collection():
            for wave in window_waves(windows):
                received.update(zip(wave, self._read_wave(wave)))
        by_partition: dict[tuple[str, str, int], list[ReadWindow]] = {}
        for window in received:
            by_partition.setdefault(window[:3], []).append(window)
        return [cut_out(window, received, by_partition) for window in windows]

    def _read_wave(self, wave: list[ReadWindow]) -> list[Records]:
        sides = {
            side: {(w.topic, w.partition): self.opened(w) for w in wave if w.side == side} for side in (SOURCE, TARGET)
        }
        self._opened = {side: list(opened.values()) for side, opened in sides.items()}
        # Both clusters are read at once: while one cluster's records are processed, the other's broker already sends.
        with ThreadPoolExecutor(len(sides)) as pool:
            reads = [pool.submit(self._read_side, side, dict(pending)) for side, pending in sides.items() if pending]
        for read in reads:
            read.result()
        for side in sides:
            self._take_all_prints(side)
        return [sides[window.side][window.topic, window.partition].records() for window in wave]

    def _read_side(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        consumer = self._consumer(side)
        self._check_existence(side, set(pending))
        consumer.incremental_assign([TopicPartition(*name, window.window.start) for name, window in pending.items()])
        try:
            while pending:
                remaining = sum(window.window.end - window.window.start for window in pending.values())
                # A short timeout keeps reading fast when few messages are left, because consume() waits for the
                # requested number of messages.
                messages = consumer.consume(min(remaining + len(pending), self._limits.rows_per_read), 0.02)
                finished = self._take_in(side, messages, pending)
                if finished:
                    consumer.incremental_unassign([TopicPartition(*name) for name in finished])
                self._check_progress(side, pending)
        finally:
            consumer.unassign()

    def _take_in(
        self, side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]
    ) -> list[tuple[str, int]]:
        """Add messages to their windows; remove windows that are now complete from ``pending``, and return them."""
        finished, records = [], list(map(is_, map(Message.error, messages), repeat(None)))
        for (topic, partition, is_record), run in partition_runs(messages, records):
            key = topic, partition
            window, batch = pending.get(key), messages[run]
            ends = [] if is_record else _ends(side, key, batch, window)
            if window is not None and (
                window.add(batch) if is_record else any([window.end_seen(end) for end in ends])  # noqa: C419 (all)
            ):
                del pending[key]
                finished.append(key)
        self._bytes_taken[side] += sum(map(len, messages))
        if self._bytes_taken[side] >= BYTES_IN_ALL:
            self._take_all_prints(side)
        return finished

    def _take_all_prints(self, side: str) -> None:
        """Fingerprint what the windows of a cluster still buffer, also those that are complete."""
        self._bytes_taken[side] = 0
        for group in group_windows(self._opened.get(side, [])):
            take_prints(group)

    def _consumer(self, side: str) -> Consumer:
        if side not in self._consumers:
            isolation = self._limits.isolation if side == SOURCE else self._limits.target_isolation
            self._consumers[side] = self._access.consumer(side, isolation)
        return self._consumers[side]

    def _check_existence(self, side: str, names: set[tuple[str, int]]) -> None:
        """Raise WindowUnreadable if a partition does not exist; librdkafka would wait for the partition forever."""
        if side not in self._partitions:
            try:
                topics = (
                    self._consumers[side].list_topics(timeout=max(1, min(30, self._limits.deadline_seconds))).topics
                )
            except KafkaException as error:
                raise WindowUnreadable(
                    f"{side}: no broker answers ({error.args[0].name()}); compare bootstrap.servers and the login in"
                    " the client settings with the brokers' listeners, and test the network from the Spark workers; if"
                    f" Airflow runs the job, the settings stand in the {side}'s Airflow connection"
                ) from None
            self._partitions[side] = {
                (topic, partition) for topic, metadata in topics.items() for partition in metadata.partitions
            }
        for topic, partition in sorted(names - self._partitions[side]):
            raise WindowUnreadable(
                f"{side} {topic}-{partition}: the partition does not exist, or the client's user has no right to"
                " describe the topic; list the topic as an administrator: if the topic has the partition, grant the"
                " client's user DESCRIBE and READ; if not, find out which client deleted the topic"
            )

    def _check_progress(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        for (topic, partition), window in pending.items():
            end = window.ends_short()
            if end is not None:
                raise WindowUnreadable(
                    f"{side} {topic}-{partition}: the log ends at {end}, below {window.window.end}, the end of the"
                    " offsets to read; find out whether the log was truncated (unclean leader election) or the topic"
                    " recreated"
                )
        if pending and time.monotonic() > self._deadline:
            (topic, partition), window = next(iter(pending.items()))
            raise WindowUnreadable(
                f"{side} {topic}-{partition}: not read to offset {window.window.end} within"
                f" {self._limits.deadline_seconds} s; reached offset {window.reached}; {len(pending)} partitions are"
                " not read to their ends; compare the brokers' load and network throughput with normal operation"
            )


def partition_runs(messages: list[Message], *more: list[Any]) -> Iterator[tuple[tuple[Any, ...], slice]]:
    """Yield each run of adjacent messages with the same topic, partition and values in the columns ``more``.

    A run is a tuple of these values and a slice of the messages. Work per run, instead of per message, halves the time.
    """
    columns: list[list[Any]] = [list(map(Message.topic, messages)), list(map(Message.partition, messages)), *more]
    starts = sorted({0, *chain.from_iterable(map(_change_rows, columns))}) if messages else []
    for start, end in pairwise([*starts, len(messages)]):
        yield tuple(column[start] for column in columns), slice(start, end)


def _change_rows(column: list[Any]) -> Iterator[int]:
    """Yield the rows whose value in a column differs from that of the row before."""
    return compress(count(1), map(ne, islice(column, 1, None), column))


def _ends(
    side: str, name: tuple[str | None, int | None], messages: list[Message], window: OpenWindow | None
) -> list[int]:
    """Return the log ends that one partition's messages without a record report; errors that can pass are ignored.

    ``window`` is None if the partition's window is complete. An error that cannot pass raises WindowUnreadable.
    """
    errors = [(message.offset(), error) for message in messages if (error := message.error()) is not None]
    if window is not None and any(error.code() == KafkaError._AUTO_OFFSET_RESET for _, error in errors):
        raise WindowUnreadable(
            f"{side} {name[0]}-{name[1]}: offset {window.window.start} lies outside the log; if the log now starts"
            " above this offset, a new try of the Airflow task reads the log start again; if the log ends below this"
            " offset, find out whether the log was truncated or the topic recreated"
        )
    return [offset for offset, error in errors if _is_end(side, name, error) and offset is not None]


def _is_end(side: str, name: tuple[str | None, int | None], error: KafkaError) -> bool:
    """Return True for a log's end and False for an error that can pass; raise WindowUnreadable for any other."""
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() in HARMLESS or error.code() in PASSING or (error.retriable() and not error.fatal()):
        return False
    place = f"{side} {name[0]}-{name[1]}" if name[0] else side
    raise WindowUnreadable(
        f"{place}: the read failed with {error.name()}; if this Kafka error is about rights, grant the client's user"
        " READ and DESCRIBE on the topic, else find the error in the brokers' logs"
    )
