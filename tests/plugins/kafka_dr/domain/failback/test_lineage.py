"""Two logs that grew together: every record lies in the segment that says where its counterpart is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.failback.lineage import CopiedSegment, Lineage, MoveOffsets, lineage_of

A, B = "primary", "standby"


def test_without_any_move_the_target_is_a_copy() -> None:
    """One stretch, from the beginning of both logs, open at its end."""
    assert lineage_of([], A, B) == Lineage((CopiedSegment(0, None, 0, None, False),))


def test_after_a_failover_older_records_are_the_other_ones() -> None:
    """What the new primary holds below the boundary was copied from the old one; what follows flows back."""
    found = lineage_of([MoveOffsets(A, B, 100, 104)], B, A)
    assert found.segments == (CopiedSegment(0, 104, 0, 100, True), CopiedSegment(104, None, 100, None, False))


def test_stranded_records_lie_between_two_segments() -> None:
    """They are in the old log, after what was replicated and before what flows back."""
    found = lineage_of([MoveOffsets(A, B, 100, 104, source_resumes=130)], B, A)
    assert found.segments == (CopiedSegment(0, 104, 0, 100, True), CopiedSegment(104, None, 130, None, False))


def test_a_round_trip_has_three_segments() -> None:
    """Copied there, copied back, and what clients write since they are home."""
    found = lineage_of([MoveOffsets(A, B, 100, 104), MoveOffsets(B, A, 200, 196, drained=True)], A, B)
    assert found.segments == (
        CopiedSegment(0, 100, 0, 104, False, False),
        CopiedSegment(100, 196, 104, 200, True, True),
        CopiedSegment(196, None, 200, None, False, False),
    )


def test_a_log_that_was_made_anew_begins_a_new_lineage() -> None:
    """What was before is in no log any more."""
    found = lineage_of([MoveOffsets(A, B, 100, 104), MoveOffsets(B, A, 200, 198, recreated=True)], A, B)
    assert found.segments == (CopiedSegment(0, 198, 0, 200, True), CopiedSegment(198, None, 200, None, False))


def test_what_nobody_found_out_is_left_out() -> None:
    """All that is older goes, too, with the reason; without the copies' beginning there is no segment."""
    partly = lineage_of([MoveOffsets(A, B, 50, 50), MoveOffsets(B, A, None, 80, source_resumes=90)], A, B)
    assert partly.segments == (CopiedSegment(80, None, 90, None, False),) and "standby" in partly.unknown
    assert lineage_of([MoveOffsets(A, B, None, 80)], B, A) == Lineage(
        (), "which records of primary were on standby when clients left is unknown"
    )


def test_a_boundary_that_is_lost_hides_what_came_before_and_no_more() -> None:
    """The stretch behind it has no beginning on the one log; the next change of sides is known on both again."""
    assert lineage_of([MoveOffsets(A, B, 50, None)], B, A) == Lineage(
        (), "which records of primary were on standby when clients left is unknown"
    )
    found = lineage_of([MoveOffsets(A, B, 50, None), MoveOffsets(B, A, 90, 80)], A, B)
    assert found.segments == (CopiedSegment(80, None, 90, None, False),) and "primary" in found.unknown


def test_a_change_of_sides_before_which_nothing_came_is_no_stretch() -> None:
    """Unless records are stranded behind it: a position before them has its stretch, though it is empty."""
    found = lineage_of([MoveOffsets(A, B, 10, 12), MoveOffsets(B, A, 12, 10)], A, B).segments
    assert found == (CopiedSegment(0, 10, 0, 12, False), CopiedSegment(10, None, 12, None, False))
    seen = lineage_of([MoveOffsets(A, B, 0, 0, 7)], B, A).segments
    assert seen == (CopiedSegment(0, 0, 0, 0, True), CopiedSegment(0, None, 7, None, False))


def test_a_later_beginning_anew_makes_known_again() -> None:
    """Copied from its beginning, a log holds what the other one has, whatever was before."""
    found = lineage_of([MoveOffsets(A, B, None, 80), MoveOffsets(B, A, 120, 118, recreated=True)], A, B)
    assert found == Lineage((CopiedSegment(0, 118, 0, 120, True), CopiedSegment(118, None, 120, None, False)))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(0, 6)), max_size=6), st.integers(0, 9))
def test_every_record_lies_in_the_segment_of_its_counterpart(trips: list[tuple[int, int, int]], since: int) -> None:
    """The segments find each counterpart in logs with repeats and stranded records, of any ``trips``."""
    logs: dict[str, list[int | None]] = {A: [], B: []}
    here, there, moves, name = A, B, [], 0

    def written(count: int, again: int) -> None:
        nonlocal name
        fresh = list(range(name, name + count))
        name += count
        logs[here] += fresh
        logs[there] += fresh[:again] + fresh

    for count, stranded, again in trips:
        written(count, again)
        end = len(logs[here])
        moves.append(MoveOffsets(here, there, end, len(logs[there]), end + stranded))
        logs[here] += [None] * stranded
        here, there = there, here
    written(since, 0)
    found = lineage_of(moves, here, there).segments
    for segment in found:
        mine, theirs = (
            logs[here][segment.source_from : segment.source_to],
            logs[there][segment.target_from : segment.target_to],
        )
        assert {one for one in mine if one is not None} == {one for one in theirs if one is not None}
    inside = {
        offset
        for segment in found
        for offset in range(segment.source_from, len(logs[here]) if segment.source_to is None else segment.source_to)
    }
    assert {offset for offset, one in enumerate(logs[here]) if one is not None} <= inside
