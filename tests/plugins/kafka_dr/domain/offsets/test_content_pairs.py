"""Own pairs: never below the true origin, over random logs with repeats, gaps and recurring contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.offsets.content_pairs import OwnPair, PairSearch, suffix_starts


class Seen(NamedTuple):
    """A record as far as it is compared."""

    offset: int
    fingerprint: str


def own_pair(newest: Seen, suffix: Iterable[Seen], source_end: int) -> OwnPair | None:
    """What is found when a suffix has passed."""
    search = PairSearch(newest.offset)
    for record in suffix:
        search.saw(record.offset, record.fingerprint == newest.fingerprint)
    return search.pair(source_end)


@st.composite
def mirrored(draw: st.DrawFn) -> tuple[list[Seen], list[tuple[int, Seen]]]:
    """Make a source with gaps and recurring contents, and (origin, target record) with repeats of crashes."""
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=30))
    contents = draw(st.lists(st.sampled_from("abcdefgh"), min_size=len(gaps), max_size=len(gaps)))
    source = [Seen(sum(gaps[: n + 1]), content) for n, content in enumerate(contents)]
    target: list[tuple[int, Seen]] = []
    at = 0
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, at))
        for record in source[at : draw(st.integers(at, len(source)))]:
            target.append(
                (record.offset, Seen(len(target) * draw(st.integers(1, 2)) + len(target), record.fingerprint))
            )
            at += 1
    ordered = [(origin, Seen(n, record.fingerprint)) for n, (origin, record) in enumerate(target)]
    return source, ordered


@given(mirrored(), st.data())
def test_the_true_origin_never_lies_above_the_pair(
    logs: tuple[list[Seen], list[tuple[int, Seen]]], data: st.DataObject
) -> None:
    """A pair lies at the origin or above it, or the suffix that was read began above the origin."""
    source, target = logs
    if not target:
        return
    origin, newest = target[-1]
    start = data.draw(st.integers(0, source[-1].offset))
    pair = own_pair(newest, [record for record in source if record.offset >= start], source[-1].offset + 1)
    if start <= origin:
        assert pair is not None and pair.upstream >= origin and pair.downstream == newest.offset
    else:
        assert pair is None or pair.upstream >= start


@given(mirrored(), st.data())
def test_with_the_first_copy_above_a_floor_nobody_skips(
    logs: tuple[list[Seen], list[tuple[int, Seen]]], data: st.DataObject
) -> None:
    """Decision 0008: whoever read up to `upstream` finds a copy of every unread record behind the first copy."""
    source, target = logs
    if not target:
        return
    # A sample before this one: the target's end, then the source's, which held what was mirrored by then and perhaps
    # more.
    floor = data.draw(st.integers(0, len(target)))
    known = max([origin for origin, _ in target[:floor]], default=-1)
    source_end = data.draw(st.integers(known + 1, source[-1].offset + 1))
    pair = own_pair(target[-1][1], source, source[-1].offset + 1)
    assert pair is not None
    if source_end > pair.upstream:
        return
    written_before = [origin for origin, _ in target[:floor] if origin >= source_end]
    assert not written_before
    content = target[-1][1].fingerprint
    first = next((n for n, (_, record) in enumerate(target) if n >= floor and record.fingerprint == content), floor - 1)
    behind = {origin for origin, _ in target[first + 1 :]}
    assert {origin for origin, _ in target if origin > pair.upstream} <= behind


def test_the_suffix_begins_where_the_record_stands_if_nothing_was_repeated() -> None:
    """Then right above the last pair; of a long one the end is read: a pair found there is as good."""
    assert suffix_starts(0, 100, 7, None, most=30) == (70,)
    assert suffix_starts(90, 100, 7, None, most=30) == (90,)
    last = OwnPair(80, 5, 90, 9)
    assert suffix_starts(0, 100, 6, last, most=30) == (81,)
    assert suffix_starts(0, 100, 20, last, most=30) == (95, 81)
    assert suffix_starts(0, 200, 20, last, most=30) == (170,)
    assert suffix_starts(0, 200, 110, last, most=30) == (185, 170)
    assert suffix_starts(95, 100, 6, last, most=30) == (95,)


def test_after_repeats_the_record_is_looked_for_further_below() -> None:
    """More was written to the target than the source holds."""
    assert suffix_starts(0, 100, 60, OwnPair(80, 5, 90, 9), most=30) == (100, 81)


def test_without_an_occurrence_there_is_no_pair() -> None:
    """The record was compacted away, or lies below the suffix."""
    assert own_pair(Seen(7, "a"), [Seen(1, "b")], 2) is None
    assert own_pair(Seen(7, "a"), [], 2) is None


def test_a_pair_tells_how_many_records_lie_above_it() -> None:
    """One record of three offsets: a gap among them."""
    assert own_pair(Seen(7, "a"), [Seen(1, "a"), Seen(4, "a"), Seen(5, "b")], 8) == OwnPair(4, 7, 8, 1)
