"""The check of positions and clients of a change of sides catches what is wrong, and passes right ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.checker.round_trip.observed import UNPLANNED
from tests.lab.checker.round_trips import HOUR, Story, event
from tests.lab.checker.trips import (
    AT,
    POLICIES,
    Make,
    assert_exact_at,
    back,
    copy,
    lost,
    lost_and_returned,
    moved,
    put,
    repeated,
    returned,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_position_ahead_or_behind_after_a_failback_is_caught(make: Make, policy: str) -> None:
    """Of a group that has not moved since the failover; its unread record is named."""
    story = returned(make, policy)
    assert story.position("billing", "primary") == 2
    assert put(story, 3, policy) == {"skipped"}
    (finding,) = story.check().findings
    assert (finding.group, finding.record) == ("billing", "id-c")
    assert put(story, 1, policy) == {"not exact"}
    assert put(story, 2, policy) == set()


def test_a_group_that_moved_since_is_judged_by_what_it_had_read_there(make: Make) -> None:
    """It had read two of the new records: these and none of the others are behind it."""
    story = lost(make)
    story.place("billing", 6)
    story.fail_back()
    assert story.position("billing", "primary") == 8
    assert put(story, 8) == set()
    assert put(story, 9) == {"skipped"}
    assert put(story, 7) == put(story, 4) == {"not exact"}


def test_before_behind_or_among_stranded_records_is_the_same(make: Make) -> None:
    """Nobody was given them on the other cluster: what follows is the same."""
    story = lost(make)
    story.place("billing", 4)
    story.fail_back()
    for position in (4, 5, 6):
        assert put(story, position) == set()
    assert put(story, 7) == {"skipped"}
    assert put(story, 3) == {"not exact"}


def test_repeats_on_the_side_that_clients_leave_hold_a_position_back(make: Make) -> None:
    """Inside a repeated block a group would be given the block's records again: it belongs where the block begins."""
    story = repeated(make)
    story.place("billing", 5)
    story.passes()
    story.fail_back()
    assert_exact_at(story, 2)


def test_a_position_after_the_next_trip_is_judged_across_all_of_them(make: Make) -> None:
    """Forth, back and forth again: records of every period stand between."""
    story = back(lost(make))
    story.passes()
    story.place("billing", 7)
    story.fail_over()
    assert_exact_at(story, story.position("billing", "standby"))


def test_a_stale_position_that_is_too_high_is_caught(make: Make) -> None:
    """The group had stood at the end of the old log: left there it skips what it has not read."""
    story = lost_and_returned(make)
    assert put(story, story.clusters["primary"].end(AT)) == {"skipped"}


def test_a_position_that_nobody_asked_for_is_caught(make: Make) -> None:
    """Where the group never committed on the other cluster, and had not stood there before either."""
    story = returned(make)
    del story.clusters["standby"].committed["billing"]
    story.place("billing", 3, alias="standby", topic="else")
    assert story.checks() == set()
    story = back(moved(make, "default"))
    story.place("billing", 3, alias="primary", topic="standby.orders")
    before = story.check().findings
    assert {one.check for one in before} == {"skipped"}
    del story.clusters["standby"].committed["billing"]["orders", 0]
    assert "never committed" in story.checks()


def test_a_position_from_before_may_stay(make: Make) -> None:
    """The group had read there when clients were on that cluster, and went on elsewhere only."""
    story = moved(make, "default")
    story.place("billing", 2)
    story = back(story)
    del story.clusters["primary"].committed["billing"]["standby.orders", 0]
    story.fail_over()
    story.passes()
    story.place("billing", 1, alias="standby")
    assert story.checks() == {"local position", "never committed"}


def test_without_the_source_a_position_keeps_its_bound(make: Make) -> None:
    """It may be behind by what was said, and never ahead."""
    for position, bound, found in ((0, 2, set()), (0, 1, {"bound"}), (1, 2, set()), (3, 2, {"skipped"})):
        story = make()
        story.write("abcdef")
        story.place("billing", 2)
        story.fail_over(UNPLANNED, 4, approver="approver")
        rows = [row | {"bound": bound, "exact": False} for row in story._rows("primary", "standby")]
        pq.write_table(pa.Table.from_pylist(rows), story.trip.folder / "positions.parquet")
        assert put(story, position) == found, (position, bound)


def test_where_nobody_can_tell_records_apart_positions_are_counted_only(make: Make) -> None:
    """Only the first source, mirrored whole, shows how many records follow a repeated content."""
    story = make()
    story.write("aaaa")
    story.mirror("primary")
    copy(story, "standby", "aa")
    story.place("billing", 2)
    story.fail_over(crashed=True)
    assert_exact_at(story, 4)
    story.place("billing", 4, alias="standby")
    story.fail_back()
    assert story.passes().figures["positions_ambiguous"] == 1


def reading(story: Story, folder: Path, given_here: range, given_there: range, again: Iterable[int] = ()) -> None:
    """A group that consumed these offsets before and after the change, some of them `again` before, and says so."""
    here, there = story.trip.source, story.trip.target
    lines = [event("started", here, story.at - HOUR, positions=[["orders", 0, given_here.start]])]
    lines += [event("consumed", here, story.at - HOUR, offset=offset) for offset in (*given_here, *again)]
    lines += [event("started", there, story.at, positions=[["orders", 0, story.position("readers", there)]])]
    lines += [event("consumed", there, story.at, offset=offset) for offset in given_there]
    folder.mkdir()
    (folder / "c.jsonl").write_text("".join(lines))
    story.ledger.take_clients(folder)
    story.place("readers", given_there.stop, alias=there)


def test_a_record_that_no_consumer_was_given_is_named(make: Make, tmp_path: Path) -> None:
    """A record still to come is not skipped, nor one that came back behind the cut-off."""
    for last in (9, 8):
        story = lost(make)
        story.place("readers", 5)
        story.fail_back()
        reading(story, tmp_path / f"right-{last}", range(4, 5), range(7, last))
        story.write("X")
        story.flow_on()
        assert "never delivered" not in story.checks()
    story = lost(make)
    story.place("readers", 5)
    story.fail_back()
    reading(story, tmp_path / "wrong", range(4, 5), range(8, 9))
    assert [one.group for one in story.check().findings if one.check == "never delivered"] == ["readers"]


def test_a_group_that_has_read_on_is_judged_by_what_its_first_consumer_found(make: Make, tmp_path: Path) -> None:
    """Where it stands by now is no claim of the procedure."""
    story = lost(make)
    story.place("readers", 5)
    story.fail_back()
    story.write("XY")
    story.flow_on()
    reading(story, tmp_path / "clients", range(4, 5), range(7, 11))
    assert story.checks() == set()


def test_what_a_consumer_is_given_twice_is_counted(make: Make, tmp_path: Path) -> None:
    """The plan announced no re-reads."""
    story = moved(make)
    story.place("readers", 8)
    story.fail_back()
    reading(story, tmp_path / "clients", range(5, 8), range(7, 9))
    assert "read again" in story.checks()


@pytest.mark.parametrize(
    ("interrupted", "committed", "again", "given_there", "found"),
    [
        # Records 6 and 7 were consumed twice on one cluster, and committed in the end.
        (False, 8, (6, 7), range(8, 9), {"read again"}),
        (True, 8, (6, 7), range(8, 9), set()),
        (True, 8, (6, 7), range(7, 9), {"read again"}),
        # Record 7 was consumed and not committed: the other cluster must deliver the record.
        (False, 7, (), range(7, 9), {"read again"}),
        (True, 7, (), range(7, 9), set()),
        (True, 7, (), range(8, 9), {"never delivered"}),
    ],
)
def test_what_a_failed_commit_makes_a_consumer_read_twice_is_no_re_read(
    make: Make,
    tmp_path: Path,
    interrupted: bool,
    committed: int,
    again: tuple[int, ...],
    given_there: range,
    found: set[str],
) -> None:
    """The commit failed with the broker; what was committed, and comes again on the other cluster, still counts."""
    story = moved(make)
    story.place("readers", committed)
    story.fail_back()
    story.trip.interrupted = interrupted
    reading(story, tmp_path / "clients", range(5, 8), given_there, again=again)
    assert story.checks() & {"read again", "never delivered"} == found


def test_a_consumer_that_never_started_is_named(make: Make, tmp_path: Path) -> None:
    """Its group was at work before."""
    story = moved(make)
    story.fail_back()
    folder = tmp_path / "clients"
    folder.mkdir()
    (folder / "c.jsonl").write_text(event("started", "standby", story.at - HOUR, positions=[["orders", 0, 0]]))
    story.ledger.take_clients(folder)
    assert "group missing" in story.checks()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_flow_that_does_not_go_on_is_caught(make: Make, policy: str) -> None:
    """Each record that clients wrote since, and that the standby has not, is named."""
    story = returned(make, policy)
    story.write("Z")
    assert [one.record for one in story.check().findings if one.check == "not flowing"] == ["id-Z"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_flow_that_should_stand_and_runs_is_caught(make: Make, policy: str) -> None:
    """Nobody asked for it."""
    story = moved(make, policy)
    story.mirror("standby")
    assert "flowing" in story.checks()


def test_open_and_closed_are_tried_at_last(make: Make) -> None:
    """Where clients were nothing may be written, where they are everything."""
    story = returned(make)
    assert {one.check for one in story.check(writes=True).findings} == {"source open"}
    story.clusters["standby"].refusing = story.clusters["primary"].refusing = {"orders"}
    assert {one.check for one in story.check(writes=True).findings} == {"target closed"}
