"""RowPairs of two logs: equal contents in order, whatever was inserted, removed, changed or written again."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.reading.matching import no_records
from kafka_dr_spark.reconciliation import alignment
from kafka_dr_spark.reconciliation.alignment import RowPairs, align_records, longest_increasing, match_stretch

from tests.spark.reconciliation.logs import log
from tests.support.examples import examples


def pairs_of(ours: Any, theirs: Any) -> list[tuple[int, int]]:
    """Return the rows that belong together."""
    return list(zip(*(column.tolist() for column in align_records(log(ours), log(theirs)))))


def test_logs_side_by_side() -> None:
    """Offsets do not matter, and one log may be longer."""
    assert pairs_of("abc", "..abcd") == [(0, 0), (1, 1), (2, 2)]
    assert pairs_of("", "abc") == [] and len(align_records(no_records(), no_records()).ours) == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "unpaired", "unpaired_there"),
    [
        ("abcdef", "abdef", [2], []),
        ("abdef", "abcdef", [], [2]),
        ("abcdef", "abXdef", [2], [2]),
        ("aaaaaa", "aaXaaa", [2], [2]),
        ("aaaaaa", "aaaa", [4, 5], []),
        ("xaxbxcx", "xaxbxYcx", [], [5]),
        ("abcabc", "abcabcabc", [], [6, 7, 8]),
        ("xyxyxy", "xyXyxy", [2], [2]),
        ("abcdef", "ghijkl", [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_rows_without_a_pair(ours: str, theirs: str, unpaired: list[int], unpaired_there: list[int]) -> None:
    """Also where equal contents recur, a changed record is the one in its place."""
    pairs = pairs_of(ours, theirs)
    assert [row for row in range(len(ours)) if row not in dict(pairs)] == unpaired
    assert [row for row in range(len(theirs)) if row not in dict(map(reversed, pairs))] == unpaired_there


@given(seed=st.integers(0, 10**9), alphabet=st.sampled_from([2, 5, 1000]), size=st.integers(0, 60))
@examples(200)
def test_no_two_pairs_cross(seed: int, alphabet: int, size: int) -> None:
    """Every pair has equal contents, and rows increase on both sides; so it is with the smallest ranges, too."""
    dice = Random(seed)
    ours, theirs = ([dice.randrange(alphabet) for _ in range(dice.randint(0, size))] for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FIRST_RANGE", 4), ("GROWTH", 2), ("SURE_RUN", 2), ("_STRIDE", 3), ("_SMALL", 9)):
            patch.setattr(alignment, name, value)
        pairs = pairs_of(ours, theirs)
    assert all(ours[row] == theirs[other] for row, other in pairs)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))


@given(seed=st.integers(0, 10**9), edits=st.integers(0, 12))
@examples(100)
def test_of_distinct_contents_every_common_record_has_a_pair(seed: int, edits: int) -> None:
    """Removed, inserted and changed records are exactly those without one."""
    dice = Random(seed)
    ours, theirs, fresh = list(range(300)), list(range(300)), 1000
    for _ in range(edits):
        place = dice.randrange(len(theirs))
        kind = dice.choice(["remove", "insert", "change"])
        theirs[place : place + (kind != "insert")] = [] if kind == "remove" else [fresh]
        fresh += 1
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FIRST_RANGE", 20), ("SURE_RUN", 5)):
            patch.setattr(alignment, name, value)
        pairs = pairs_of(ours, theirs)
    assert [ours[row] for row, _ in pairs] == sorted(set(ours) & set(theirs))


def test_a_collision_of_one_half_is_no_pair() -> None:
    """Both halves of the fingerprints count."""
    ours, theirs = log("abcd"), log("abcd")
    theirs.low[2] += np.uint64(1)
    assert align_records(ours, theirs).ours.tolist() == [0, 1, 3]


def test_long_stretches_of_recurring_contents() -> None:
    """They are matched by counts, as many as there are on both sides or nearly."""
    dice = np.random.default_rng(5)
    ours = dice.integers(0, 3, 3_000)
    theirs = np.delete(ours, [100, 2_000])
    theirs[1_000] = 9
    pairs = match_stretch(ours, theirs)
    assert np.array_equal(ours[pairs.ours], theirs[pairs.theirs]) and len(pairs.ours) > 2_000
    assert np.all(np.diff(pairs.ours) > 0) and np.all(np.diff(pairs.theirs) > 0)


@given(st.lists(st.integers(0, 30), unique=True))
@examples(100)
def test_the_longest_increasing_subsequence(values: list[int]) -> None:
    """As long as the one that a table of all beginnings gives."""
    mask = longest_increasing(np.array(values, np.int64))
    kept = [value for value, taken in zip(values, mask) if taken]
    assert kept == sorted(kept)
    longest = [0] * len(values)
    for row, value in enumerate(values):
        longest[row] = 1 + max((longest[before] for before in range(row) if values[before] < value), default=0)
    assert len(kept) == max(longest, default=0)


def test_pairs_are_shifted_on_both_sides() -> None:
    """By their own numbers."""
    assert [column.tolist() for column in RowPairs(np.array([1]), np.array([2])).shifted(10, 20)] == [[11], [22]]
