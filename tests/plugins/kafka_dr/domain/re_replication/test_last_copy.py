"""The source record of which the target's last record is the copy, by contents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.re_replication.last_copy import Tails, last_copied


def tails(stored: int | None, copies: str, originals: str, start: int = 0) -> Tails:
    """Return tails with one letter a record."""
    return Tails(stored, tuple(copies), tuple((start + n, letter) for n, letter in enumerate(originals)))


def test_as_connect_states() -> None:
    """Nothing was copied beyond the stored offset."""
    assert last_copied(tails(3, "abcd", "abcdef")) == 3


def test_a_cancelled_task_has_copied_more() -> None:
    """Connect had flushed record 1; the target holds record 4."""
    assert last_copied(tails(1, "abcde", "abcdefg")) == 4


def test_equal_contents_are_told_apart_by_what_stands_before() -> None:
    """The last record alone would fit in three places."""
    assert last_copied(tails(0, "xaya", "xayaza")) == 3


def test_of_equally_good_places_the_first_at_the_stored_offset_counts() -> None:
    """A later one could skip records."""
    assert last_copied(tails(1, "aa", "aaaa")) == 1


def test_a_last_record_that_the_source_lacks() -> None:
    """Another writer, or a log that was cut: nothing is proven."""
    assert last_copied(tails(1, "abZ", "abcd")) is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30, unique=True), st.data())
def test_distinct_records_are_always_told(contents: list[int], data: st.DataObject) -> None:
    """Whatever Connect had flushed before that record."""
    last = data.draw(st.integers(0, len(contents) - 1))
    stored = data.draw(st.none() | st.integers(0, last))
    originals = tuple((n, str(content)) for n, content in enumerate(contents))
    copies = tuple(str(content) for content in contents[: last + 1])[-5:]
    assert last_copied(Tails(stored, copies, originals)) == last
