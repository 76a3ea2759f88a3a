"""The params that choose records: times with their zone, ranges of offsets, partitions."""

from __future__ import annotations

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.reconciliation.choice import place_of, range_of, time_in_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-28T10:00Z", 1_795_860_000_000),
        (" 2026-11-28T11:00:00.5+01:00 ", 1_795_860_000_500),
        ("2026-11-28T10:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times(text: str, expected: int | None) -> None:
    """A time without zone is none."""
    assert time_in_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-20", (1, 20)),
        ("1-", (1, None)),
        ("-20", (None, 20)),
        ("-", (None, None)),
        ("20-20", None),
        ("20", None),
        ("a-b", None),
    ],
)
def test_ranges(text: str, expected: tuple[int | None, int | None] | None) -> None:
    """Either end may be left out; an empty range is none."""
    assert range_of(text) == expected


def test_partitions() -> None:
    """A topic's name may have dots and hyphens, and no colon."""
    assert place_of("a.b-c:10") == TopicPartition("a.b-c", 10)
    assert [place_of(text) for text in ("orders", "orders:", ":1", "a:b:1", "orders:-1")] == [None] * 5
