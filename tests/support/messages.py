"""Records as the Kafka client returns them, for stand-ins of readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_dr.hooks.brokers.record import Record


class Message:
    """A record as the Kafka client returns it."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: getattr(self._record, name)

    def timestamp(self) -> tuple[int, int]:
        """Return the record's create time."""
        return (0, 0) if self._record.timestamp is None else (1, self._record.timestamp)
