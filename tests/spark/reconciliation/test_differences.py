"""Which record is missing, extra, altered or repeated, and which is not judged."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.reconciliation import log_comparison
from kafka_dr_spark.reconciliation.differences import Differences

from tests.spark.reconciliation.logs import compared, keyed_log, log
from tests.support.examples import examples


def told(ours: Any, theirs: Any, source: int = 0, target: int = 0, **scope: Any) -> Differences:
    """Compare two logs that begin at these offsets."""
    return compared(log(ours, source), log(theirs, target), **scope)


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


@pytest.mark.parametrize(
    ("ours", "theirs", "expected", "older", "cut"),
    [
        ("abcdef", "ABCDEF", ([], [], [(10 + n, 20 + n) for n in range(6)], []), 0, 0),
        ("abcdef", "DEF", ([], [], [(13, 20), (14, 21), (15, 22)], []), 0, 3),
        ("def", "ABCDEF", ([], [], [(10, 23), (11, 24), (12, 25)], []), 3, 0),
        ("abcxyz", "PQxyz", ([], [], [(11, 20), (12, 21)], []), 0, 1),
        ("abcxyz", "xyz", NOTHING, 0, 3),
        ("xyz", "abcxyz", NOTHING, 3, 0),
    ],
)
def test_not_both_logs_deleted_what_the_other_holds(
    ours: str, theirs: str, expected: Any, older: int, cut: int
) -> None:
    """Where neither log begins at 0: as many records as both hold alone differ, the newest; so an altered log shows."""
    found = told(ours, theirs, source=10, target=20, source_cut=True, target_cut=True, replicated=10 + len(ours))
    assert (lists(found), found.older, found.cut) == (expected, older, cut)


def test_what_is_not_due_yet_hides_no_deleted_beginning() -> None:
    """The source holds only records that are not replicated yet, the target only deleted ones: nothing differs."""
    found = told("def", "ABC", source=10, target=20, source_cut=True, target_cut=True, replicated=10)
    assert (lists(found), found.older, found.behind, found.cut) == (NOTHING, 3, 3, 0)


def test_only_records_in_the_bounds_are_judged() -> None:
    """On the target, those between the copies of their neighbours."""
    ours, theirs = "abcdefghijkl", "aXcdeYghZijkQ"
    inside = lists(told(ours, theirs, judged_from=3, judged_to=9, replicated=12, source_cut=True))
    assert inside == ([], [8], [(5, 5)], [])
    assert told(ours, theirs, judged_from=3, judged_to=9, replicated=12).equal == 5


def test_altered_records_before_the_bounds_keep_their_places() -> None:
    """Of a stretch that is altered throughout, each judged record is beside its own copy."""
    found = told("abcdefgh", "aBCDEFGh", judged_from=3, judged_to=5, replicated=8)
    assert lists(found) == ([], [], [(3, 3), (4, 4)], [])
    moved = told("abcdefgh", "acdefbgh", judged_from=3, judged_to=5, replicated=8)
    assert (lists(moved), moved.equal, moved.moved) == (NOTHING, 2, 0)


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


CHUNKS = st.sampled_from([1, 2, 7, 30, 1_000])


@given(
    seed=st.integers(0, 10**9),
    alphabet=st.sampled_from([1, 2, 5, 5000]),
    size=st.integers(0, 80),
    edits=st.integers(0, 8),
    chunk=CHUNKS,
)
@examples(400)
def test_the_counts_are_those_of_the_contents(seed: int, alphabet: int, size: int, edits: int, chunk: int) -> None:
    """Whichever contents recur: what one log holds more often than the other is counted, no more and no less."""
    dice = Random(seed)
    ours = [dice.randrange(alphabet) for _ in range(size)]
    theirs = edited(dice, ours, edits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_comparison, "KEPT", dice.choice([5, 10**6]))
        found = told(ours, theirs, replicated=size, chunk=chunk)
    missing, extra, altered, repeated = lists(found)
    here, there = Counter(ours), Counter(theirs)
    assert Counter(ours[o] for o in [*missing, *(one for one, _ in altered)]) == here - there
    assert Counter(theirs[o] for o in [*extra, *(one for _, one in altered)]) == Counter(
        {content: count for content, count in (there - here).items() if content not in here}
    )
    assert Counter(theirs[o] for o in repeated) == Counter(
        {content: count for content, count in (there - here).items() if content in here}
    )
    assert found.equal == len(ours) - len(missing) - len(altered)


@given(seed=st.integers(0, 10**9), size=st.integers(0, 200), chunk=CHUNKS)
@examples(200)
def test_each_difference_of_distinct_contents_is_named(seed: int, size: int, chunk: int) -> None:
    """Whatever the chunks: at least two equal records stand between two differences."""
    dice, theirs = Random(seed), []
    expected: tuple[list[int], list[int], list[tuple[int, int]], list[int]] = ([], [], [], [])
    for number in range(size):
        kind = dice.choice(["", "", *"meaR"]) if number % 4 == 2 else ""
        if kind == "m":
            expected[0].append(number)
            continue
        if kind == "e":
            expected[1].append(len(theirs))
            theirs.append(1_000 + number)
        if kind == "a":
            expected[2].append((number, len(theirs)))
        theirs.append(2_000 + number if kind == "a" else number)
        if kind == "R":
            expected[3].append(len(theirs))
            theirs.append(number)
    assert lists(told(list(range(size)), theirs, replicated=size, chunk=chunk)) == expected


@pytest.mark.parametrize("chunk", [50, 400, 10_000])
def test_a_long_hole_is_passed(chunk: int) -> None:
    """Neither log has to fit into memory: what follows a hole or a foreign stretch is still compared in order."""
    whole, foreign = list(range(5_000)), list(range(10_000, 13_000))
    hole = told(whole, [*whole[:1_000], *whole[4_000:]], replicated=5_000, chunk=chunk)
    assert hole.missing.tolist() == whole[1_000:4_000] and hole.moved == 0
    more = told(whole, [*whole[:1_000], *foreign, *whole[1_000:]], replicated=5_000, chunk=chunk)
    assert more.extra.tolist() == list(range(1_000, 4_000)) and (more.moved, more.equal) == (0, 5_000)
    older = told(whole[4_000:], whole, source=4_000, source_cut=True, chunk=chunk)
    assert lists(older) == NOTHING and (older.older, older.moved) == (4_000, 0)
    assert len(told(whole, foreign, replicated=5_000, chunk=chunk).missing) == 5_000 - 3_000


def test_too_many_records_without_a_pair_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a message that names the partition."""
    monkeypatch.setattr(log_comparison, "MOST_UNPAIRED", 100)
    with pytest.raises(ContractBroken, match="orders-0: more than 100 records have no equal record on the other"):
        told(range(500), range(1_000, 1_500), chunk=50)


@pytest.mark.parametrize(
    ("ours", "theirs", "altered", "missing"),
    [
        ([("a", 1), ("b", 2)], [("b", 9)], [(2, 2)], [1]),
        ([("a", 1), ("b", 2)], [("a", 9)], [(1, 2)], [2]),
        ([("a", 1), ("b", 2)], [("c", 9)], [(1, 2)], [2]),
    ],
)
def test_records_of_one_place_are_put_together_by_key(
    ours: list[tuple[str, int]], theirs: list[tuple[str, int]], altered: list[tuple[int, int]], missing: list[int]
) -> None:
    """Where fewer records stand on one side; without an equal key, in order."""
    logs = [keyed_log([("f", 100), *ours, ("l", 200)]), keyed_log([("f", 100), ("f", 100), *theirs, ("l", 200)])]
    found = compared(*logs, replicated=10)
    assert (found.missing.tolist(), lists(found)[2]) == (missing, altered)
