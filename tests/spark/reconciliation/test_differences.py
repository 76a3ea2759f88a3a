"""Which record is missing, extra, altered or repeated, and which is not judged."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.reconciliation.alignment import align_records
from kafka_dr_spark.reconciliation.differences import Differences, tell_differences

from tests.spark.reconciliation.logs import judged, log
from tests.support.examples import examples


def told(ours: Any, theirs: Any, source: int = 0, target: int = 0, **scope: Any) -> Differences:
    """Compare two logs that begin at these offsets."""
    mine, its = log(ours, source), log(theirs, target)
    return tell_differences(mine, its, align_records(mine, its), judged(**scope))


def lists(found: Differences) -> tuple[list[int], list[int], list[tuple[int, int]], list[int]]:
    """Return missing, extra, altered and repeated records by their offsets."""
    altered = list(zip(found.altered.ours.tolist(), found.altered.theirs.tolist()))
    return found.missing.tolist(), found.extra.tolist(), altered, found.repeated.tolist()


NOTHING: tuple[list[int], list[int], list[tuple[int, int]], list[int]] = ([], [], [], [])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("abcdef", "abcdef", NOTHING),
        ("ab..cd", "a.bcd.", NOTHING),
        ("abcdef", "abdef", ([2], [], [], [])),
        ("abcdef", "abXcdef", ([], [12], [], [])),
        ("abcdef", "abXdef", ([], [], [(2, 12)], [])),
        ("abcdef", "abcbcdef", ([], [], [], [13, 14])),
        ("abcdef", "aXcddeY", ([], [], [(1, 11), (5, 16)], [14])),
        ("aaaa", "aaa", ([3], [], [], [])),
        ("aaaa", "aaaaa", ([], [], [], [14])),
        ("abXYcd", "abPcd", ([3], [], [(2, 12)], [])),
    ],
)
def test_each_kind(ours: str, theirs: str, expected: Any) -> None:
    """Everything below the source's end is replicated, as Connect states; the target's offsets begin at 10."""
    assert lists(told(ours, theirs, target=10, replicated=len(ours))) == expected


def test_records_in_another_order_are_equal() -> None:
    """They are counted apart."""
    found = told("abcdef", "abdecf", replicated=6)
    assert lists(found) == NOTHING and (found.moved, found.equal) == (1, 6)


@pytest.mark.parametrize(
    ("replicated", "missing", "behind"), [(None, [], 2), (4, [], 2), (5, [4], 1), (6, [4, 5], 0), (9, [4, 5], 0)]
)
def test_the_tail_is_behind_unless_connect_states_that_it_was_replicated(
    replicated: int | None, missing: list[int], behind: int
) -> None:
    """What stands before a replicated record is proven by the order."""
    found = told("abcdef", "abcd", replicated=replicated)
    assert (found.missing.tolist(), found.behind, found.proven_to) == (missing, behind, max(replicated or 0, 4))


def test_a_hole_before_a_replicated_record_is_missing() -> None:
    """Whatever Connect states."""
    assert lists(told("abcdef", "abdef")) == ([2], [], [], [])


def test_older_records_of_the_target_are_no_difference() -> None:
    """Where the source has deleted its oldest records, target records before the first common record are older."""
    found = told("cdef", "abcdef", source=2, source_cut=True)
    assert lists(found) == NOTHING and found.older == 2
    assert lists(told("cdef", "abcdef", source=2)) == ([], [0, 1], [], [])


def test_records_whose_copies_were_deleted_are_no_difference() -> None:
    """Likewise where the target has deleted its oldest records."""
    found = told("abcdef", "cdef", target=2, target_cut=True)
    assert lists(found) == NOTHING and found.cut == 2
    assert lists(told("abcdef", "cdef", target=2)) == ([0, 1], [], [], [])


def test_only_records_in_the_bounds_are_judged() -> None:
    """On the target, those between the copies of their neighbours."""
    ours, theirs = "abcdefghijkl", "aXcdeYghZijkQ"
    inside = lists(told(ours, theirs, judged_from=3, judged_to=9, replicated=12, source_cut=True))
    assert inside == ([], [8], [(5, 5)], [])
    assert told(ours, theirs, judged_from=3, judged_to=9, replicated=12).equal == 5


def edited(dice: Random, contents: list[int], edits: int) -> list[int]:
    """Remove, insert, change and repeat some records."""
    copy = list(contents)
    for number in range(edits):
        place, kind = dice.randint(0, len(copy)), dice.choice(["remove", "insert", "change", "repeat"])
        block = copy[max(0, place - dice.randint(1, 5)) : place]
        copy[place : place + (kind in ("remove", "change"))] = {
            "remove": [],
            "insert": [10_000 + number],
            "change": [20_000 + number],
            "repeat": block,
        }[kind]
    return copy


@given(
    seed=st.integers(0, 10**9),
    alphabet=st.sampled_from([1, 2, 5, 5000]),
    size=st.integers(0, 80),
    edits=st.integers(0, 8),
)
@examples(300)
def test_the_counts_are_those_of_the_contents(seed: int, alphabet: int, size: int, edits: int) -> None:
    """Whichever contents recur: what one log holds more often than the other is counted, no more and no less."""
    dice = Random(seed)
    ours = [dice.randrange(alphabet) for _ in range(size)]
    theirs = edited(dice, ours, edits)
    missing, extra, altered, repeated = lists(told(ours, theirs, replicated=size))
    here, there = Counter(ours), Counter(theirs)
    assert Counter(ours[o] for o in [*missing, *(one for one, _ in altered)]) == here - there
    assert Counter(theirs[o] for o in [*extra, *(one for _, one in altered)]) == Counter(
        {content: count for content, count in (there - here).items() if content not in here}
    )
    assert Counter(theirs[o] for o in repeated) == Counter(
        {content: count for content, count in (there - here).items() if content in here}
    )
