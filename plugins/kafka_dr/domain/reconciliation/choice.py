"""The params of reconcile_clusters that choose records: times, and ranges of source offsets."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RANGE = re.compile(r"(\d{0,18})-(\d{0,18})")
_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249}):(\d{1,9})")


def time_in_ms(text: str) -> int | None:
    """Return a time of ISO 8601 with its zone in milliseconds since 1970, at least 0; None for any other text."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return None if moment.tzinfo is None else max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def range_of(text: str) -> tuple[int | None, int | None] | None:
    """Return the offsets of `FROM-TO`, None for one that is left out; None for any other text, or an empty range."""
    matched = _RANGE.fullmatch(text.strip())
    if matched is None:
        return None
    first, end = (int(part) if part else None for part in matched.groups())
    return None if first is not None and end is not None and first >= end else (first, end)


def place_of(text: str) -> TopicPartition | None:
    """Return the partition that `TOPIC:PARTITION` names; None for any other text."""
    matched = _PLACE.fullmatch(text.strip())
    return TopicPartition(matched.group(1), int(matched.group(2))) if matched else None
