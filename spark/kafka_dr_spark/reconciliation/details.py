"""Read single records again that differ: timestamp and digests of key, value and headers, never the contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from kafka_dr_spark.reading.present_logs import PresentReader
from kafka_dr_spark.reading.waves import window_waves
from kafka_dr_spark.reading.windows import KafkaAccess, OpenWindow, without_garbage_collection
from kafka_dr_spark.translation.case import Limits, ReadWindow

#: Cluster (SOURCE or TARGET), topic there, partition, offset.
Place = tuple[str, str, int, int]


class Detail(NamedTuple):
    """One record without its contents; digests are SHA-256 in hex, None for a null.

    Attributes:
        timestamp: milliseconds since 1970; None without one.
    """

    timestamp: int | None
    key: str | None
    value: str | None
    headers: str


def parts_that_differ(ours: Detail, theirs: Detail) -> str:
    """Return the names of the parts in which two records differ, separated by commas."""
    return ", ".join(
        name for name in ("key", "value", "headers", "timestamp") if getattr(ours, name) != getattr(theirs, name)
    )


class DetailWindow(OpenWindow):
    """A window of which only the details of wanted records are kept."""

    def __init__(self, wanted: Mapping[Place, None], window: ReadWindow) -> None:
        super().__init__(window)
        self._wanted = wanted
        self.details: dict[Place, Detail] = {}

    def take(self, messages: list[Message]) -> None:
        """Keep the details of the wanted records."""
        for message in messages:
            place = (*self.window[:3], message.offset() or 0)
            if place in self._wanted:
                self.details[place] = detail_of(message)


class DetailReader(PresentReader):
    """Reads the details of single records, many partitions at once."""

    def details(self, places: Iterable[Place]) -> dict[Place, Detail]:
        """Return the details of the records at these places; a place without a record is left out."""
        wanted = dict.fromkeys(places)
        self.opened = partial(DetailWindow, wanted)  # type: ignore[assignment]  # is called like the class
        windows = [ReadWindow(side, topic, partition, offset, offset + 1) for side, topic, partition, offset in wanted]
        details: dict[Place, Detail] = {}
        with without_garbage_collection():
            for wave in window_waves(windows):
                self._read_wave(wave)
                for window in [one for opened in self._opened.values() for one in opened]:
                    details |= window.details if isinstance(window, DetailWindow) else {}
        return details


def read_details(access: KafkaAccess, limits: Limits, places: Iterable[Place]) -> dict[Place, Detail]:
    """Return the details of the records at these places; a place without a record is left out."""
    with DetailReader(access, limits) as reader:
        return reader.details(places)


def detail_of(message: Message) -> Detail:
    """Return the details of a record."""
    kind, stamp = message.timestamp()
    frame = repr(list(message.headers() or ())).encode()
    return Detail(
        None if kind == TIMESTAMP_NOT_AVAILABLE else stamp,
        _digest(message.key()),
        _digest(message.value()),
        sha256(frame).hexdigest(),
    )


def _digest(part: bytes | str | None) -> str | None:
    if part is None:
        return None
    return sha256(part.encode() if isinstance(part, str) else part).hexdigest()
