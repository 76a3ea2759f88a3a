"""Reads windows of Kafka partitions and keeps nothing but fingerprints of their records."""

from __future__ import annotations

import gc
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_dr_spark.answers import SOURCE, TARGET, Limits, Window
from kafka_dr_spark.matching import Records, join

NEARBY = 500
# How long a log may seem to end below a window before this is believed; a high watermark can lag for a moment.
ENDED_SECONDS = 5.0
CONSUMER_SETTINGS = {
    "group.id": "switchback-translate-offsets",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 50,
    # librdkafka waits a second, by default, before it fills a queue again that was full: a whole log is then read at a fifth of the speed.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 262_144,
    "check.crcs": True,
}
# The group is never joined: only its name is needed, and rights on it are not.
HARMLESS = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
# A broker that restarts can break off in the middle of authentication, too: the deadline decides.
PASSING = {
    KafkaError._TRANSPORT, KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.KAFKA_STORAGE_ERROR, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
}  # fmt: skip

EMPTY_PRINT = blake2b(digest_size=16)


class WindowUnreadable(RuntimeError):
    """A stretch of a partition cannot be read; the message names side, partition and reason."""


class KafkaAccess:
    """Client settings of both clusters. They travel to the workers inside a task and are never printed."""

    def __init__(self, source: Mapping[str, Any] | None, target: Mapping[str, Any]) -> None:
        self._settings = {SOURCE: dict(source or {}), TARGET: dict(target)}

    def __repr__(self) -> str:
        return "KafkaAccess(...)"

    def consumer(self, side: str, isolation: str) -> Consumer:
        """Return a consumer for one side at an explicit isolation level."""
        try:
            # librdkafka's own log lines quote settings: only what raises is reported.
            return Consumer({**CONSUMER_SETTINGS, **self._settings[side], "isolation.level": isolation, "log_level": 2})
        except KafkaException as error:
            # librdkafka quotes the offending value, which may be a password.
            raise WindowUnreadable(f"{side}: the client settings are refused ({error.args[0].name()})") from None


def fingerprint(key: bytes | None, value: bytes | None, headers: list | None, timestamp: int | None) -> bytes:
    """Return 16 bytes that are equal for equal records; null differs from empty, and no two fields can run together."""
    if headers or key is None or value is None or timestamp is None:
        parts = [key, value]
        for name, content in headers or ():
            parts += [name.encode(), content]
        frame = ",".join(["-" if part is None else str(len(part)) for part in parts])
        body = f"{timestamp};{frame};".encode() + b"".join([part for part in parts if part])
    else:
        # The same bytes at a third of the cost: most records of a million are like this.
        body = b"%d;%d,%d;%b%b" % (timestamp, len(key), len(value), key, value)
    digest = EMPTY_PRINT.copy()
    digest.update(body)
    return digest.digest()


class OpenWindow:
    """What has been read of one window so far."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.offsets: list[int] = []
        self.prints: list[bytes] = []
        self.keys: list[bytes] = []
        self.tombstones: list[bool] = []
        self._ended: tuple[int, float] | None = None

    def end_seen(self, offset: int) -> bool:
        """Take in that the log ends at an offset and say whether the window is complete."""
        if self._ended is None or self._ended[0] != offset:
            self._ended = offset, time.monotonic()
        return offset >= self.window.end

    def ends_short(self) -> int | None:
        """Return the log's end if it has lain below the window's end for too long."""
        lasting = self._ended is not None and time.monotonic() - self._ended[1] > ENDED_SECONDS
        return self._ended[0] if lasting else None

    def add(self, messages: list[Message]) -> bool:
        """Take in messages of this partition and say whether the window is complete. Ends by position: not every offset holds a record."""
        offsets = list(map(Message.offset, messages))
        first, last = bisect_left(offsets, self.window.start), bisect_left(offsets, self.window.end)
        self.offsets += offsets[first:last]
        if first < last:
            self.take(messages[first:last])
        return offsets[-1] >= self.window.end - 1

    def take(self, messages: list[Message]) -> None:
        """Keep what is needed of records of the window."""
        keys, values, headers = (list(map(what, messages)) for what in (Message.key, Message.value, Message.headers))
        times = [at for _, at in map(Message.timestamp, messages)] if self.window.with_timestamps else repeat(None)
        self.prints += map(fingerprint, keys, values, headers, times)
        if self.window.with_keys:
            self.keys += [blake2b(key or b"", digest_size=8).digest() for key in keys]
            self.tombstones += [value is None for value in values]

    def records(self) -> Records:
        """Return what was read."""
        # Lists until here: appending to them is what a million records a window cost least with.
        prints = np.frombuffer(b"".join(self.prints), np.uint64).reshape(-1, 2)
        count = len(self.offsets)
        keys = np.frombuffer(b"".join(self.keys), np.uint64) if self.keys else np.zeros(count, np.uint64)
        tombstones = np.array(self.tombstones, np.bool_) if self.keys else np.zeros(count, np.bool_)
        return Records(np.array(self.offsets, np.int64), prints[:, 0].copy(), prints[:, 1].copy(), keys, tombstones)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection: messages hold no cycles, and a third of the time would go into looking for some among millions."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class WindowReader:
    """Reads windows of many partitions at once, one consumer a side, until every window's end is reached by position."""

    def __init__(self, access: KafkaAccess, limits: Limits) -> None:
        self._access, self._limits = access, limits
        self._consumers: dict[str, Consumer] = {}
        self._partitions: dict[str, set[tuple[str, int]]] = {}
        self._deadline = time.monotonic() + limits.deadline_seconds

    def __enter__(self) -> WindowReader:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def read(self, windows: list[Window]) -> list[Records]:
        """Return the records of each window, in the order of the windows."""
        came = {}
        with uncollected():
            for wave in waves(windows):
                came.update(zip(wave, self._read_wave(wave)))
        by_partition: dict[tuple, list[Window]] = {}
        for window in came:
            by_partition.setdefault(window[:3], []).append(window)
        return [_cut_out(window, came, by_partition) for window in windows]

    def _read_wave(self, wave: list[Window]) -> list[Records]:
        sides = {side: {(w.topic, w.partition): OpenWindow(w) for w in wave if w.side == side} for side in (SOURCE, TARGET)}
        # Both at once: while one side's records are taken in, the other side's broker already sends.
        with ThreadPoolExecutor(len(sides)) as pool:
            reads = [pool.submit(self._read_side, side, dict(pending)) for side, pending in sides.items() if pending]
        for read in reads:
            read.result()
        return [sides[window.side][window.topic, window.partition].records() for window in wave]

    def _read_side(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        consumer = self._consumer(side)
        self._check_existence(side, set(pending))
        consumer.incremental_assign([TopicPartition(*name, one.window.start) for name, one in pending.items()])
        try:
            while pending:
                wanted = sum(one.window.end - one.window.start for one in pending.values())
                # consume() waits for as many as it is asked for: a short timeout keeps the last few from costing a long one.
                messages = consumer.consume(min(wanted + len(pending), self._limits.rows_per_read), 0.02)
                finished = _take_in(side, messages, pending)
                if finished:
                    consumer.incremental_unassign([TopicPartition(*name) for name in finished])
                self._check_progress(side, pending)
        finally:
            consumer.unassign()

    def _consumer(self, side: str) -> Consumer:
        if side not in self._consumers:
            isolation = self._limits.isolation if side == SOURCE else self._limits.target_isolation
            self._consumers[side] = self._access.consumer(side, isolation)
        return self._consumers[side]

    def _check_existence(self, side: str, wanted: set[tuple[str, int]]) -> None:
        """Look once which partitions there are: librdkafka waits without an end for one that does not exist."""
        if side not in self._partitions:
            try:
                topics = self._consumers[side].list_topics(timeout=max(1, min(30, self._limits.deadline_seconds))).topics
            except KafkaException as error:
                raise WindowUnreadable(f"{side}: no broker answers ({error.args[0].name()})") from None
            self._partitions[side] = {(topic, partition) for topic, known in topics.items() for partition in known.partitions}
        for topic, partition in sorted(wanted - self._partitions[side]):
            raise WindowUnreadable(f"{side} {topic}-{partition}: no such partition, or no right to see it")

    def _check_progress(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        for (topic, partition), one in pending.items():
            end = one.ends_short()
            if end is not None:
                raise WindowUnreadable(f"{side} {topic}-{partition}: the log ends at {end}, below {one.window.end}")
        if pending and time.monotonic() > self._deadline:
            (topic, partition), one = next(iter(pending.items()))
            reached = one.offsets[-1] + 1 if one.offsets else one.window.start
            raise WindowUnreadable(
                f"{side} {topic}-{partition}: not read to offset {one.window.end} within {self._limits.deadline_seconds} s; "
                f"reached {reached}; {len(pending)} windows open"
            )


def _take_in(side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]) -> list[tuple[str, int]]:
    finished = []
    for (topic, partition, is_record), together in _runs(messages):
        name = topic, partition
        one = pending.get(name)
        ends = [] if is_record else _ends(side, name, together, one)
        if one is not None and (one.add(together) if is_record else any([one.end_seen(end) for end in ends])):
            del pending[name]
            finished.append(name)
    return finished


def _runs(messages: list[Message]) -> Iterator[tuple[tuple[str, int, bool], list[Message]]]:
    """Messages in a row that are records, or errors, of one partition: what is done once a run instead of once a record halves the time."""
    records = [error is None for error in map(Message.error, messages)]
    places = zip(map(Message.topic, messages), map(Message.partition, messages), records)
    for place, run in groupby(zip(places, messages), itemgetter(0)):
        yield place, [message for _, message in run]


def _ends(side: str, name: tuple[str | None, int | None], messages: list[Message], one: OpenWindow | None) -> list[int]:
    """Return the log's end wherever messages that are no records tell it; raise where reading cannot go on."""
    if one is not None and any(message.error().code() == KafkaError._AUTO_OFFSET_RESET for message in messages):
        raise WindowUnreadable(f"{side} {name[0]}-{name[1]}: offset {one.window.start} lies outside the log")
    return [message.offset() for message in messages if _is_end(side, name, message.error())]


def _is_end(side: str, name: tuple[str | None, int | None], error: KafkaError) -> bool:
    """Say whether an error only marks a partition's end; raise where reading cannot go on."""
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() in HARMLESS or error.code() in PASSING or (error.retriable() and not error.fatal()):
        return False
    where = f"{side} {name[0]}-{name[1]}" if name[0] else side
    raise WindowUnreadable(f"{where}: {error.name()}")


def waves(windows: list[Window]) -> list[list[Window]]:
    """Put windows into waves of at most one per side and partition, those that lie close together read as one."""
    merged: list[Window] = []
    for window in sorted(set(windows)):
        last = merged[-1] if merged else None
        if last and last[:3] == window[:3] and window.start <= last.end + NEARBY:
            merged[-1] = last._replace(end=max(last.end, window.end))
        else:
            merged.append(window)
    ordered: list[list[Window]] = []
    turn: dict[tuple, int] = {}
    for window in merged:
        number = turn[window[:3]] = turn.get(window[:3], -1) + 1
        if number == len(ordered):
            ordered.append([])
        ordered[number].append(window)
    return ordered


def _cut_out(window: Window, came: dict[Window, Records], by_partition: dict[tuple, list[Window]]) -> Records:
    holding = next(w for w in by_partition[window[:3]] if w.start <= window.start and window.end <= w.end)
    return join([came[holding].between(window.start, window.end)])
