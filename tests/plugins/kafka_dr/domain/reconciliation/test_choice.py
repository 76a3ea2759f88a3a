"""The params that choose records: times with their zone, ranges of offsets, partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.reconciliation.choice import place_of, range_of, time_in_ms

from tests.support.examples import examples


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


@given(st.integers(0, 4_000_000_000_000), st.integers(-720, 840))
@examples(300)
def test_times_are_exact_to_the_millisecond(milliseconds: int, minutes: int) -> None:
    """Whatever the zone; a record of the millisecond itself is chosen, and none of the one before."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert time_in_ms(moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()) == milliseconds


def test_a_time_before_1970_is_the_logs_start() -> None:
    """For a broker, -1 is the log's end."""
    assert time_in_ms("1969-12-31T23:59:59.999Z") == 0


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
