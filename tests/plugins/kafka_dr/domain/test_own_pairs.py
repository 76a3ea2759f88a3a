"""Own pairs never place a group ahead: over random logs with gaps, recurring contents, and repeats after crashes of MirrorMaker 2."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_dr.domain.own_pairs import OwnPair, Seen, own_pair


@st.composite
def mirrored(draw: st.DrawFn) -> tuple[list[Seen], list[Seen], list[int]]:
    """A source log, a target log that mirrors a beginning of it, and for each target record its origin's index."""
    contents = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=14))
    gaps = draw(st.lists(st.integers(1, 3), min_size=len(contents), max_size=len(contents)))
    offsets = [sum(gaps[: n + 1]) for n in range(len(contents))]
    source = [Seen(o, c) for o, c in zip(offsets, contents, strict=True)]
    origins: list[int] = []
    at = 0
    for _ in range(draw(st.integers(1, 3))):
        upto = draw(st.integers(at, len(source)))
        origins += range(at, upto)
        # A crash: the next run begins again somewhere before what was already mirrored.
        at = draw(st.integers(0, upto))
    target = [Seen(n * 2, source[o].fingerprint) for n, o in enumerate(origins)]
    return source, target, origins


@given(mirrored(), st.data())
def test_a_pair_never_places_ahead(logs: tuple[list[Seen], list[Seen], list[int]], data: st.DataObject) -> None:
    """Whatever is mirrored later: below the place no unread record has its last copy."""
    source, target, origins = logs
    if not target:
        return
    # A run that begins again ends at a record that is not the furthest: what was mirrored before it counts as mirrored.
    seen = data.draw(st.integers(1, len(target)))
    pair = own_pair(target[seen - 1], source, reaches_below=True)
    assert pair is not None
    at = data.draw(st.integers(pair.upstream + 1, source[-1].offset + 2))
    unread = {n for n, record in enumerate(source) if record.offset >= at}
    below = {origin for place, origin in zip(target, origins, strict=True) if place.offset <= pair.downstream}
    later = {origin for place, origin in zip(target, origins, strict=True) if place.offset > pair.downstream}
    never_mirrored_again = {n for n in unread & below if n not in later and n > origins[seen - 1]}
    # A record mirrored before the crash, beyond where the newest record stands, is mirrored again before MirrorMaker 2 goes on.
    assert all(n > origins[seen - 1] for n in never_mirrored_again)
    assert not {n for n in unread & below if n <= origins[seen - 1]}


@given(mirrored())
def test_the_origin_lies_between_lowest_and_upstream(logs: tuple[list[Seen], list[Seen], list[int]]) -> None:
    """And is the one where the content occurs once."""
    source, target, origins = logs
    for record, origin in zip(target, origins, strict=True):
        pair = own_pair(record, source, reaches_below=True)
        assert pair is not None and pair.lowest <= source[origin].offset <= pair.upstream
        assert not pair.exact or pair.upstream == source[origin].offset


def test_what_does_not_occur_makes_no_pair() -> None:
    """Retention took it, or the target has another writer."""
    assert own_pair(Seen(7, "x"), [Seen(1, "a")], reaches_below=True) is None
    assert own_pair(Seen(7, "x"), [], reaches_below=True) is None


def test_of_equal_records_the_highest_counts() -> None:
    """Behind, and by how much; never exact."""
    assert own_pair(Seen(7, "a"), [Seen(1, "a"), Seen(2, "b"), Seen(5, "a")], reaches_below=True) == OwnPair(5, 7, 1, False)


def test_a_stretch_that_may_begin_too_late_proves_nothing_exact() -> None:
    """The true origin may lie below it."""
    assert own_pair(Seen(7, "a"), [Seen(5, "a")], reaches_below=False) == OwnPair(5, 7, 5, False)
