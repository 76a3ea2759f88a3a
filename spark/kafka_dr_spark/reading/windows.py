"""Reads windows of Kafka partitions and keeps nothing but fingerprints of their records."""

from __future__ import annotations

import gc
import time
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
from kafka_dr_spark.reading.matching import Records, join_records
from kafka_dr_spark.translation.case import SOURCE, TARGET, Limits, ReadWindow

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
    # librdkafka waits a second, by default, before it fills a queue again that was full: a whole log is then read at a
    # fifth of the speed.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 262_144,
    "check.crcs": True,
}
# The group is never joined: only its name is needed, and rights on it are not.
HARMLESS = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
# A broker that restarts can break off in the middle of authentication, too: the deadline decides.
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

#: Of a window, until fingerprints are made of them: whichever is reached first. And of how many windows they are made
#: at once.
RECORDS_HELD, BYTES_HELD, WINDOWS_AT_ONCE = 1_000, 1_000_000, 64


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


class OpenWindow:
    """What has been read of one window so far."""

    def __init__(self, window: ReadWindow) -> None:
        self.window = window
        self.offsets: list[int] = []
        self._held: list[Message] = []
        self._bytes_held = 0
        self._prints: list[Prints] = []
        self._ended: tuple[int, float] | None = None

    @property
    def reached(self) -> int:
        """The next offset to read."""
        return self.offsets[-1] + 1 if self.offsets else self.window.start

    def end_seen(self, offset: int) -> bool:
        """Take in that the log ends at an offset and say whether the window is complete."""
        if self._ended is None or self._ended[0] != offset:
            self._ended = offset, time.monotonic()
        return offset >= self.window.end

    def ends_short(self) -> int | None:
        """Return the log's end if it has lain below the window's end for too long."""
        if self._ended is None or time.monotonic() - self._ended[1] <= ENDED_SECONDS:
            return None
        return self._ended[0]

    def add(self, messages: list[Message]) -> bool:
        """Take in this partition's messages; tell if the window is complete, by position: offsets have gaps."""
        offsets: list[int] = list(map(Message.offset, messages))  # type: ignore[arg-type]  # each record has one
        first, last = bisect_left(offsets, self.window.start), bisect_left(offsets, self.window.end)
        self.offsets += offsets[first:last]
        if first < last:
            self.take(messages[first:last])
        return offsets[-1] >= self.window.end - 1

    def take(self, messages: list[Message]) -> None:
        """Keep what is needed of records of the window."""
        self._held += messages
        self._bytes_held += sum(map(len, messages))
        if len(self._held) >= RECORDS_HELD or self._bytes_held >= BYTES_HELD:
            take_prints([self])

    def let_go(self) -> list[Message]:
        """Return the records that are held whole, and forget them."""
        held, self._held, self._bytes_held = self._held, [], 0
        return held

    def keep(self, prints: Prints) -> None:
        """Take in the fingerprints of the records that were let go last."""
        self._prints.append(prints)

    def records(self) -> Records:
        """Return what was read."""
        take_prints([self])
        return Records(
            np.array(self.offsets, np.int64), *(np.concatenate(columns) for columns in zip(NO_PRINTS, *self._prints))
        )


def take_prints(windows: list[OpenWindow]) -> None:
    """Fingerprint all fully held records at once: a call per small window would cost more than its records."""
    held = [one.let_go() for one in windows]
    counts, messages = list(map(len, held)), list(chain.from_iterable(held))
    if not messages:
        return
    keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
    headers: list[Headers | None] = list(map(Message.headers, messages))  # type: ignore[arg-type]  # never a dict
    times, keyed = (
        np.array([at for _, at in map(Message.timestamp, messages)], np.int64),
        any(one.window.with_keys for one in windows),
    )
    times[~np.repeat([one.window.with_timestamps for one in windows], counts)] = 0
    found = (
        *record_fingerprints(keys, values, headers, times),
        *(key_fingerprints(keys, values) if keyed else (np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.bool_))),
    )
    ends = np.cumsum(counts).tolist()
    for one, start, end in zip(windows, [0, *ends], ends):
        one.keep(Prints(*(column[start:end] for column in found)))


def group_windows(windows: list[OpenWindow]) -> Iterator[list[OpenWindow]]:
    """Put windows together whose records fit into memory at once."""
    for start in range(0, len(windows), WINDOWS_AT_ONCE):
        yield windows[start : start + WINDOWS_AT_ONCE]


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection: scanning millions of cycle-free messages would take a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class WindowReader:
    """Reads windows of many partitions at once, one consumer a side, until every window's end is reached."""

    #: What takes records in.
    opened = OpenWindow

    def __init__(self, access: KafkaAccess, limits: Limits) -> None:
        self._access, self._limits = access, limits
        self._consumers: dict[str, Consumer] = {}
        self._partitions: dict[str, set[tuple[str, int]]] = {}
        self._deadline = time.monotonic() + limits.deadline_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def read(self, windows: list[ReadWindow]) -> list[Records]:
        """Return the records of each window, in the order of the windows."""
        came: dict[ReadWindow, Records] = {}
        with without_garbage_collection():
            for wave in window_waves(windows):
                came.update(zip(wave, self._read_wave(wave)))
        by_partition: dict[tuple[str, str, int], list[ReadWindow]] = {}
        for window in came:
            by_partition.setdefault(window[:3], []).append(window)
        return [_cut_out(window, came, by_partition) for window in windows]

    def _read_wave(self, wave: list[ReadWindow]) -> list[Records]:
        sides = {
            side: {(w.topic, w.partition): self.opened(w) for w in wave if w.side == side} for side in (SOURCE, TARGET)
        }
        # Both at once: while one side's records are taken in, the other side's broker already sends.
        with ThreadPoolExecutor(len(sides)) as pool:
            reads = [pool.submit(self._read_side, side, dict(pending)) for side, pending in sides.items() if pending]
        for read in reads:
            read.result()
        for some in group_windows([one for opened in sides.values() for one in opened.values()]):
            take_prints(some)
        return [sides[window.side][window.topic, window.partition].records() for window in wave]

    def _read_side(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        consumer = self._consumer(side)
        self._check_existence(side, set(pending))
        consumer.incremental_assign([TopicPartition(*name, one.window.start) for name, one in pending.items()])
        try:
            while pending:
                wanted = sum(one.window.end - one.window.start for one in pending.values())
                # consume() waits for as many as it is asked for: a short timeout keeps the last few from costing a long
                # one.
                messages = consumer.consume(min(wanted + len(pending), self._limits.rows_per_read), 0.02)
                finished = self._take_in(side, messages, pending)
                if finished:
                    consumer.incremental_unassign([TopicPartition(*name) for name in finished])
                self._check_progress(side, pending)
        finally:
            consumer.unassign()

    def _take_in(
        self, side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]
    ) -> list[tuple[str, int]]:
        """Hand messages to their windows; return those that are complete, which are pending no more."""
        finished, records = [], list(map(is_, map(Message.error, messages), repeat(None)))
        for (topic, partition, is_record), where in partition_runs(messages, records):
            name = topic, partition
            one, together = pending.get(name), messages[where]
            ends = [] if is_record else _ends(side, name, together, one)
            if one is not None and (one.add(together) if is_record else any([one.end_seen(end) for end in ends])):  # noqa: C419 (all are told)
                del pending[name]
                finished.append(name)
        return finished

    def _consumer(self, side: str) -> Consumer:
        if side not in self._consumers:
            isolation = self._limits.isolation if side == SOURCE else self._limits.target_isolation
            self._consumers[side] = self._access.consumer(side, isolation)
        return self._consumers[side]

    def _check_existence(self, side: str, wanted: set[tuple[str, int]]) -> None:
        """Look once which partitions there are: librdkafka waits without an end for one that does not exist."""
        if side not in self._partitions:
            try:
                topics = (
                    self._consumers[side].list_topics(timeout=max(1, min(30, self._limits.deadline_seconds))).topics
                )
            except KafkaException as error:
                raise WindowUnreadable(f"{side}: no broker answers ({error.args[0].name()})") from None
            self._partitions[side] = {
                (topic, partition) for topic, known in topics.items() for partition in known.partitions
            }
        for topic, partition in sorted(wanted - self._partitions[side]):
            raise WindowUnreadable(f"{side} {topic}-{partition}: no such partition, or no right to see it")

    def _check_progress(self, side: str, pending: dict[tuple[str, int], OpenWindow]) -> None:
        for (topic, partition), one in pending.items():
            end = one.ends_short()
            if end is not None:
                raise WindowUnreadable(f"{side} {topic}-{partition}: the log ends at {end}, below {one.window.end}")
        if pending and time.monotonic() > self._deadline:
            (topic, partition), one = next(iter(pending.items()))
            raise WindowUnreadable(
                f"{side} {topic}-{partition}: not read to offset {one.window.end} within"
                f" {self._limits.deadline_seconds} s; reached {one.reached}; {len(pending)} windows open"
            )


def partition_runs(messages: list[Message], *more: list[Any]) -> Iterator[tuple[tuple[Any, ...], slice]]:
    """Yield runs of one topic and partition, alike in more columns too: work per run, not record, halves the time."""
    columns: list[list[Any]] = [list(map(Message.topic, messages)), list(map(Message.partition, messages)), *more]
    starts = sorted({0, *chain.from_iterable(map(_turns, columns))}) if messages else []
    for start, end in pairwise([*starts, len(messages)]):
        yield tuple(column[start] for column in columns), slice(start, end)


def _turns(column: list[Any]) -> Iterator[int]:
    """Where a column differs from the row before."""
    return compress(count(1), map(ne, islice(column, 1, None), column))


def _ends(side: str, name: tuple[str | None, int | None], messages: list[Message], one: OpenWindow | None) -> list[int]:
    """Return the log's end wherever messages that are no records tell it; raise where reading cannot go on."""
    told = [(message.offset(), error) for message in messages if (error := message.error()) is not None]
    if one is not None and any(error.code() == KafkaError._AUTO_OFFSET_RESET for _, error in told):
        raise WindowUnreadable(f"{side} {name[0]}-{name[1]}: offset {one.window.start} lies outside the log")
    return [offset for offset, error in told if _is_end(side, name, error) and offset is not None]


def _is_end(side: str, name: tuple[str | None, int | None], error: KafkaError) -> bool:
    """Say whether an error only marks a partition's end; raise where reading cannot go on."""
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() in HARMLESS or error.code() in PASSING or (error.retriable() and not error.fatal()):
        return False
    where = f"{side} {name[0]}-{name[1]}" if name[0] else side
    raise WindowUnreadable(f"{where}: {error.name()}")


def window_waves(windows: list[ReadWindow]) -> list[list[ReadWindow]]:
    """Put windows into waves of at most one per side and partition, those that lie close together read as one."""
    merged: list[ReadWindow] = []
    for window in sorted(set(windows)):
        last = merged[-1] if merged else None
        if last and last[:3] == window[:3] and window.start <= last.end + NEARBY:
            merged[-1] = last._replace(end=max(last.end, window.end))
        else:
            merged.append(window)
    ordered: list[list[ReadWindow]] = []
    turn: dict[tuple[str, str, int], int] = {}
    for window in merged:
        number = turn[window[:3]] = turn.get(window[:3], -1) + 1
        if number == len(ordered):
            ordered.append([])
        ordered[number].append(window)
    return ordered


def _cut_out(
    window: ReadWindow, came: dict[ReadWindow, Records], by_partition: dict[tuple[str, str, int], list[ReadWindow]]
) -> Records:
    holding = next(w for w in by_partition[window[:3]] if w.start <= window.start and window.end <= w.end)
    return join_records([came[holding].between(window.start, window.end)])
