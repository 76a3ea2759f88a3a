"""Matching by content, counted from the end."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.reading.matching import (
    ABSENT,
    Records,
    first_copies,
    join_records,
    last_of_key,
    match_from_end,
    no_records,
    occurrence_from_end,
)


def log(text: str, start: int = 0) -> Records:
    """Make records whose contents are letters; a dot is an offset without a record."""
    kept = [(start + i, ord(letter)) for i, letter in enumerate(text) if letter != "."]
    offsets, contents = (np.array([row[i] for row in kept], dtype) for i, dtype in ((0, np.int64), (1, np.uint64)))
    return Records(offsets, contents, contents[::-1] * 0, contents, np.zeros(len(kept), np.bool_))


def test_unique_contents_match_their_last_copy() -> None:
    """A block that was mirrored twice matches where it stands last."""
    assert match_from_end(log("abcd"), log("abc" + "bcd", start=10)).tolist() == [10, 13, 14, 15]


def test_recurring_contents_are_counted_from_the_end() -> None:
    """The last of three equal records matches the last of four on the target."""
    assert match_from_end(log("aaa"), log("aaaa")).tolist() == [1, 2, 3]


def test_what_the_target_lacks_is_absent() -> None:
    """Where the target has fewer copies the earliest records on the source go without."""
    assert match_from_end(log("abab"), log("ab")).tolist() == [ABSENT, ABSENT, 0, 1]


def test_nothing_matches_nothing() -> None:
    """Empty logs on either side are no special case."""
    assert match_from_end(no_records(), log("ab")).tolist() == []
    assert match_from_end(log("ab"), no_records()).tolist() == [ABSENT, ABSENT]


def test_halves_of_a_fingerprint_both_count() -> None:
    """Records that agree in one half of their fingerprint only are different."""
    ours, theirs = log("a"), log("a")
    assert match_from_end(ours, theirs._replace(low=theirs.low + np.uint64(1))).tolist() == [ABSENT]
    assert match_from_end(ours, theirs._replace(high=theirs.high + np.uint64(1))).tolist() == [ABSENT]


def test_first_copies_are_suffix_minima() -> None:
    """A position goes to the smallest matched offset of all records at or after it."""
    found = first_copies(log("ab.c"), np.array([7, 3, 5]), np.array([0, 1, 2, 3, 4]))
    assert found.tolist() == [3, 3, 5, 5, ABSENT]


def test_last_of_key_marks_newest_values() -> None:
    """Of each key only the last record is marked."""
    assert last_of_key(log("abac")).tolist() == [False, True, True, True]


@given(st.lists(st.integers(0, 3)))
def test_occurrences_from_the_end(codes: list[int]) -> None:
    """Each element is told how many equal elements follow it."""
    seen: Counter = Counter()
    wanted = []
    for code in reversed(codes):
        wanted.append(seen[code])
        seen[code] += 1
    assert occurrence_from_end(np.array(codes, np.int64)).tolist() == wanted[::-1]


@given(st.text("abc.", max_size=30), st.text("abc.", max_size=30))
def test_everything_matched_follows_the_first_copy(source: str, target: str) -> None:
    """From the smallest matched offset on the target holds every matched content as often as the source."""
    ours, theirs = log(source), log(target)
    matched = match_from_end(ours, theirs)
    hit = matched != ABSENT
    if hit.any():
        follows = Counter(theirs.high[theirs.offsets >= matched[hit].min()].tolist())
        assert not Counter(ours.high[hit].tolist()) - follows
    assert Counter(ours.high.tolist()) - Counter(theirs.high.tolist()) == Counter(ours.high[~hit].tolist())


def test_parts_are_joined_and_cut() -> None:
    """A window cut out of joined parts is what was asked for."""
    whole = join_records([log("ab"), log("cd", start=2)])
    assert whole.between(1, 3).offsets.tolist() == [1, 2]
    assert whole.same_content(1, log("b"), 0) is True
    assert whole.same_content(1, log("c"), 0) is False
    assert whole.same_content(9, log("c"), 0) is None
