"""Source records compared with their copies in one pass: what is missing, repeated, foreign; where positions go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.re_replication.copies import (
    ComparedRecord,
    FirstKept,
    PlacedPosition,
    compare_copies,
    first_kept,
    first_place,
)


def log(text: str, start: int = 0, step: int = 1) -> list[ComparedRecord]:
    """Return a log whose records have one letter each as content."""
    return [ComparedRecord(start + n * step, letter) for n, letter in enumerate(text)]


def test_equal_logs() -> None:
    """All records are there; a position is placed at the copy of the record at which it lies."""
    copied = compare_copies(log("abc", 10, 2), log("abc", 3), 3, [10, 11, 14, 15])
    assert copied.holds_all_below(15)
    assert (copied.records, copied.missing, copied.first, copied.last) == (3, None, (10, 3), (14, 5))
    assert copied.placed == (
        PlacedPosition(10, 3),
        PlacedPosition(11, 4),
        PlacedPosition(14, 5),
        PlacedPosition(15, 6),
    )


def test_a_missing_record_is_named() -> None:
    """Record 0 of a log that was copied from record 1 on, as the recipe with {"offset": 0} does it."""
    copied = compare_copies(log("abc"), log("bc"), 0, [0, 2])
    assert (copied.records, copied.missing) == (0, 0)
    assert not copied.holds_all_below(1)
    assert copied.placed == (PlacedPosition(0, 0),)


def test_records_that_are_not_copied_yet() -> None:
    """What was written since may be missing; positions below it are placed."""
    copied = compare_copies(log("abcd"), log("abc"), 0, [1, 3])
    assert copied.missing == 3 and copied.holds_all_below(3) and not copied.holds_all_below(4)
    assert copied.placed == (PlacedPosition(1, 1), PlacedPosition(3, 3))


def test_repeats_and_foreign_records_are_passed_over() -> None:
    """A copier that began again, and another writer: both are told, with their offsets."""
    copied = compare_copies(log("abc"), log("abXabc"), 0, [2])
    assert copied.missing is None
    assert [seen.offset for seen in copied.passed_over] == [2, 3, 4]
    assert copied.placed == (PlacedPosition(2, 5),)
    assert [seen.fingerprint for seen in compare_copies(log("ab"), log("abb"), 0).passed_over] == ["b"]


def test_an_empty_partition() -> None:
    """Positions are placed where the copies begin."""
    copied = compare_copies([], [], 7, [4])
    assert (copied.records, copied.first, copied.last, copied.placed) == (0, None, None, (PlacedPosition(4, 7),))


@st.composite
def copies(draw: st.DrawFn) -> tuple[list[ComparedRecord], list[ComparedRecord], list[int]]:
    """A log with holes, its copies with repeats of restarts, and positions anywhere."""
    gaps = draw(st.lists(st.integers(1, 3), max_size=12))
    offsets = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    source = [
        ComparedRecord(offset, str(draw(st.integers(0, 3)) if draw(st.booleans()) else f"u{offset}"))
        for offset in offsets
    ]
    written: list[ComparedRecord] = []
    at = 0
    while at < len(source):
        written.append(source[at])
        at = at + 1 if draw(st.integers(0, 3)) else draw(st.integers(0, at))
        if len(written) > 60:
            written += source[at:]
            break
    begins = draw(st.integers(0, 5))
    target = [ComparedRecord(begins + n, seen.fingerprint) for n, seen in enumerate(written)]
    return source, target, draw(st.lists(st.integers(0, 40), max_size=5))


@given(copies())
def test_no_record_is_called_missing_and_no_position_skips_one(
    case: tuple[list[ComparedRecord], list[ComparedRecord], list[int]],
) -> None:
    """Whatever was repeated: all is there, and behind each place every record follows that was not read yet."""
    source, target, positions = case
    begins = target[0].offset if target else 0
    copied = compare_copies(source, target, begins, positions)
    assert copied.missing is None and copied.records == len(source)
    assert copied.records + len(copied.passed_over) == len(target)
    places = dict(copied.placed)
    assert set(places) == set(positions)
    for position, place in places.items():
        unread = [seen.fingerprint for seen in source if seen.offset >= position]
        following = iter([seen.fingerprint for seen in target if seen.offset >= place])
        assert all(content in following for content in unread)
        assert place <= begins + len(target)


def test_copies_that_retention_has_deleted() -> None:
    """The place of the target's first record; of equal contents the last place, so that no position lies behind."""
    assert first_kept(log("abcd", 10), list("cd"), 2) == (12, 2)
    assert first_kept(log("aaaa", 10), list("aa"), 2) == (12, 2)
    assert first_kept(log("aaaa", 10), list("aa"), 1) == (11, 1)
    assert first_kept(log("abcd"), list("X"), 4) is None
    assert first_kept(log("abcd"), list("d"), 2) is None
    assert first_kept(log("abc", 5), [], 2) == (7, 2)
    assert first_kept([], [], 2) is None


@given(copies(), st.data())
def test_what_retention_deleted_is_not_called_missing(
    case: tuple[list[ComparedRecord], list[ComparedRecord], list[int]], data: st.DataObject
) -> None:
    """Without repeats: the records behind the deleted ones have their copies, and no place skips one of them."""
    source, _, positions = case
    deleted = data.draw(st.integers(0, len(source)))
    target = [ComparedRecord(n, seen.fingerprint) for n, seen in enumerate(source)][deleted:]
    kept = [seen.fingerprint for seen in target[:5]]
    first = first_kept(source, kept, deleted) if deleted else FirstKept(0, 0)
    assert first is not None and first.deleted <= deleted
    rest = [seen for seen in source if seen.offset >= first.source]
    copied = compare_copies(rest, target, deleted, positions)
    assert copied.missing is None
    for position, place in dict(copied.placed).items():
        unread = [seen.fingerprint for seen in source[deleted:] if seen.offset >= position]
        following = iter([seen.fingerprint for seen in target if seen.offset >= place])
        assert all(content in following for content in unread)


@given(copies(), st.data())
def test_copies_whose_originals_the_source_has_deleted(
    case: tuple[list[ComparedRecord], list[ComparedRecord], list[int]], data: st.DataObject
) -> None:
    """Without repeats: the place is not behind the first copy that has an original, and all copies follow."""
    source, _, _ = case
    deleted = data.draw(st.integers(0, max(len(source) - 1, 0)))
    target = [ComparedRecord(n, seen.fingerprint) for n, seen in enumerate(source)]
    place = first_place(target, [seen.fingerprint for seen in source[deleted:][:5]])
    assert (place is None) == (not source) and (place or 0) <= deleted
    assert compare_copies(source[deleted:], target[place or 0 :], place or 0).missing is None


def test_the_place_of_the_first_record_that_the_source_still_holds() -> None:
    """The first place that fits; none without a record, or where the order differs."""
    assert first_place(log("abcd", 3), list("cd")) == 5
    assert first_place(log("abcabc"), list("ab")) == 0
    assert first_place(log("abc"), list("ba")) is None
    assert first_place(log("abc"), []) is None
