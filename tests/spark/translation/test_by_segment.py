"""Logs that grew by turns, every position: never ahead, exact where claimed, within the bound elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import WHOLE
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader
from kafka_dr_spark.translation.task import PartitionTask

from tests.spark.log_model import Cell
from tests.spark.mock_clusters import bounds_row, write_input
from tests.spark.turns_model import Turns, exact_position, make_turns, turns, unread_of, verdict
from tests.support.examples import examples

MANY = examples(100)


def check(world: Turns, **limits: object) -> dict:
    """Translate every position of a world and fail on the first answer that is wrong."""
    answers = world.translate(list(range(world.bounds.cut_off + 1)), **{"near": 0, **limits})
    for position, answer in answers.items():
        wrong = verdict(world, position, answer)
        assert wrong is None, (position, answer, wrong, world)
    return answers


@MANY
@given(turns())
def test_unique_contents_are_exact_everywhere(world: Turns) -> None:
    """Every position is exact in both directions, except where a copy follows of what another had brought."""
    for position, answer in check(world).items():
        assert answer.exact or exact_position(world, position) < exact_position(world, position, read=True), (
            position,
            answer,
            world,
        )


@MANY
@given(turns(alphabet=3), st.sampled_from([0, 5]))
def test_recurring_contents(world: Turns, near: int) -> None:
    """With few contents all unread contents follow as often as they are unread."""
    check(world, near=near)


@MANY
@given(turns(alphabet=1))
def test_identical_contents(world: Turns) -> None:
    """With one content only at least as many records follow as are unread."""
    check(world)


@MANY
@given(turns(compaction=True, retention=True))
def test_cleaners_and_retention(world: Turns) -> None:
    """Whatever cleaners and retention took of either log leads no group ahead."""
    check(world)


@MANY
@given(turns(compaction=True, retention=True, alphabet=3))
def test_recurring_contents_with_cleaners_and_retention(world: Turns) -> None:
    """What recurs may be gone where it stood first."""
    check(world)


@MANY
@given(turns(drained=False))
def test_the_newest_segment_is_not_drained(world: Turns) -> None:
    """Older segments are no less proven for that."""
    newest = world.segments[-1].source_from
    told = {position: answer.exact for position, answer in check(world).items() if position <= newest}
    assert all(
        exact or exact_position(world, position) < exact_position(world, position, read=True)
        for position, exact in told.items()
    ), world


@examples(200)
@given(turns(), st.sampled_from([0, 3]), st.integers(0, 60), st.integers(0, 2**32))
def test_small_limits_and_wrong_claims(world: Turns, limit: int, lies: int, seed: int) -> None:
    """Older segments still lead no group ahead; with a readable source no untrue sync does."""
    dice = Random(seed)
    for syncs, ends in (
        (world.syncs, (world.bounds.cut_off, world.bounds.boundary)),
        (world.back, (world.bounds.boundary, world.bounds.cut_off)),
    ):
        for _ in range(lies if all(ends) else 0):
            syncs.insert(dice.randint(0, len(syncs)), tuple(dice.randrange(end) for end in ends))
    # What is repeated behind markers that nobody read is not seen: see decision 0013.
    unseen, newest = any(c.record is None for c in world.target), world.segments[-1].source_from
    for position, answer in world.translate(list(range(newest + 1)), near=0, content_limit=limit).items():
        wrong = verdict(world, position, answer, read=unseen)
        assert wrong is None and answer.class_ != "REFUSED", (position, answer, wrong, world)


@examples(200)
@given(st.sampled_from([0, 0, 2]), st.sampled_from([0, 20, 60, 1000, 1000]), st.integers(0, 2**32))
def test_without_a_source(alphabet: int, limit: int, seed: int) -> None:
    """From pairs, the target and what a recorder saw no group is ahead, also where a segment's last run died early."""
    dice = Random(seed)
    world = make_turns(
        dice.randint(0, 14),
        dice,
        alphabet=alphabet,
        drained=False,
        retention=dice.random() < 0.5,
        compaction=dice.random() < 0.3,
    )
    # Where the target cannot be read, either, a repeat that no sync tells of is not seen: see decision 0013.
    unseen = limit < 1000
    for position, answer in world.translate(
        list(range(world.bounds.cut_off + 1)), source_readable=False, content_limit=limit
    ).items():
        wrong = verdict(world, position, answer, read=unseen)
        assert wrong is None, (position, answer, wrong, world)


@MANY
@given(turns(), st.data())
def test_the_judge_catches_a_position_that_is_one_ahead(world: Turns, data: st.DataObject) -> None:
    """An answer moved over one unread record's last copy is a finding, also where that one was stranded."""
    answers = world.translate(list(range(world.bounds.cut_off + 1)), near=0)
    last = {c.record: c.offset for c in world.target}
    movable = [p for p in answers if any(c.record in last for c in unread_of(world, p))]
    assume(movable)
    position = data.draw(st.sampled_from(movable))
    assert verdict(world, position, answers[position]) is None
    assert "ahead" in verdict(
        world, position, answers[position]._replace(target_position=exact_position(world, position) + 1)
    )


def by_hand(source: list[int], target: list[int], *segments: Segment) -> Turns:
    """Make two logs of unique records, named by their ids."""
    ours, theirs = (
        [Cell(offset, record, 10 * record) for offset, record in enumerate(ids)] for ids in (source, target)
    )
    bounds = LogBounds("t", 0, "t", 0, len(source), 0, len(target), True, True, False, False, False, True, False)
    return Turns(ours, theirs, [], bounds, True, segments=segments)


#: Five records came from the target, two of them twice; two more wait there; since then clients write to the source.
WAITING = by_hand(
    [1, 2, 3, 4, 5, 4, 5, 8, 9],
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    Segment(0, 7, 0, 5, True, True),
    Segment(7, None, 7, None, False),
)
#: Three came from the source, where two more stayed; then two from the target, and one from the source again.
STAYED = by_hand(
    [1, 2, 3, 4, 5, 6, 7, 8],
    [1, 2, 3, 6, 7, 8],
    Segment(0, 3, 0, 3, False),
    Segment(5, 7, 3, 5, True),
    Segment(7, None, 5, None, False),
)


def test_a_group_on_a_joint_stands_before_what_waits_on_the_target() -> None:
    """A group that read further stands behind it; others stand before what follows it unread."""
    answers = WAITING.translate(list(range(10)))
    found = {p: answer.target_position for p, answer in answers.items()}
    assert found == {0: 0, 1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 4, 7: 5, 8: 8, 9: 9}
    assert {p: answer.bound for p, answer in answers.items() if not answer.exact} == {4: 1, 5: 2, 6: 1}
    assert answers[7].class_ == "END"


def test_a_group_among_records_that_stayed_on_the_source_stands_at_the_end_of_what_was_copied() -> None:
    """It is said that none of these is on the target; a group behind them all stands in the newer segment."""
    answers = STAYED.translate(list(range(9)))
    assert [answer.target_position for answer in answers.values()] == [0, 1, 2, 3, 3, 3, 4, 5, 6]
    assert [p for p, answer in answers.items() if answer.clamped] == [4]
    found = answers[4].clamped
    assert found == "the records from source offset 3 to 5 stayed on the source: none of them is on the target"


def test_where_nobody_proved_that_a_segment_was_drained_its_last_run_may_have_repeated_all_of_it() -> None:
    """Unread, and without such a proof: no position in it is above its begin but at its end."""
    proven, unproven = (
        replace(WAITING, segments=(WAITING.segments[0]._replace(drained=drained), WAITING.segments[1]))
        for drained in (True, False)
    )
    places = [
        [world.translate(list(range(8)), source_readable=False)[position].target_position for position in range(8)]
        for world in (proven, unproven)
    ]
    assert places[0][-4:] == [2, 3, 4, 5] and places[1] == [0] * 7 + [5]


def test_below_the_first_segment_nothing_is_known() -> None:
    """A group there goes to the target's log start, and is told why; the others are answered as ever."""
    world = by_hand([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 6, 7, 8], *STAYED.segments[1:])
    answers = world.translate([2, 5, 6])
    found = (answers[2].target_position, answers[2].class_, answers[2].exact, answers[2].bound)
    assert found == (0, "NEAREST", False, 6)
    assert answers[2].clamped == "no record below source offset 5 is proven to be on the target"
    assert (answers[5].target_position, answers[6].target_position) == (3, 4)


@pytest.mark.parametrize("repeats", [[], [8], [8, 9]])
def test_around_records_that_were_kept_both_stretches_are_copied_the_same_way(repeats: list[int]) -> None:
    """No position is refused, and only groups that have passed the two kept records go on behind them."""
    target = [1, 2, 3, 4, 5, *repeats, 8, 9]
    world = by_hand(
        [1, 2, 3, 4, 5, 6, 7, 8, 9], target, Segment(0, 5, 0, 5, False, True), Segment(7, None, 5, None, False)
    )
    world.mirrored = frozenset({1, 2, 3, 4, 5, 8, 9})
    answers = check(world)
    found = [answers[p].target_position for p in range(10)]
    assert found == [0, 1, 2, 3, 4, 5, 5, *range(len(target) - 2, len(target) + 1)]
    assert all(answer.exact and answer.class_ != "REFUSED" for answer in answers.values())
    assert "stayed on the source" in answers[6].clamped and answers[8].clamped is None


def alike(world: Turns) -> Turns:
    """The same, of records that all look alike."""
    world.source, world.target = ([replace(cell, content=7) for cell in log] for log in (world.source, world.target))
    return world


@pytest.mark.parametrize("shown", [lambda world: world, alike])
def test_a_group_on_copies_goes_on_around_records_that_were_kept_among_the_originals(
    shown: Callable[[Turns], Turns],
) -> None:
    """A group on the joint stands before the two kept records, also where only the joint tells them apart."""
    stretches = Segment(0, 5, 0, 5, True), Segment(5, 8, 7, 10, True, True), Segment(8, None, 10, None, False)
    world = shown(by_hand([1, 2, 3, 4, 5, 8, 9, 10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], *stretches))
    answers = world.translate(list(range(9)))
    assert [answers[p].target_position for p in range(9)] == [0, 1, 2, 3, 4, 5, 8, 9, 10]
    assert all(answer.exact for answer in answers.values())


def test_a_record_that_the_returned_cluster_has_lost_is_a_hole() -> None:
    """Groups that have not read its copy are refused; those that have are not."""
    world = by_hand([1, 2, 3, 2, 3, 4], [1, 3, 4], Segment(0, 5, 0, 2, True), Segment(5, None, 2, None, False))
    answers = world.translate(list(range(7)))
    assert [answer.target_position for answer in answers.values()] == [None, None, 1, 1, 1, 2, 3]
    assert answers[1].evidence == "unread record at source offset 1 is not on the target"


@pytest.mark.parametrize(
    ("newest", "side"), [(Segment(9, None, 6, None), "source offset 9"), (Segment(8, None, 7, None), "target offset 7")]
)
def test_segments_that_the_logs_contradict_refuse_every_position(newest: Segment, side: str) -> None:
    """A log that ends before its newest segment begins is not the one that the journal speaks of."""
    world = by_hand([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 6, 7, 8], STAYED.segments[0], newest)
    answers = world.translate([0, 8])
    assert all(
        answer.class_ == "REFUSED" and answer.evidence.startswith(f"the newest segment begins at {side}")
        for answer in answers.values()
    )


def test_one_segment_over_both_logs_is_none() -> None:
    """Then all is as without segments."""
    assert by_hand([1], [1], WHOLE).partition().parts == ()


def rows_of(*segments: Segment) -> list[dict]:
    """Return the rows of a partition's segments as its file holds them."""
    return [{"topic": "t", "partition": 0, "segment": number, **one._asdict()} for number, one in enumerate(segments)]


def write_segments(folder: Path, rows: list[dict]) -> Path:
    """Write segments.parquet."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("segments")), folder / "segments.parquet")
    return folder


def test_segments_are_read_in_their_order(tmp_path: Path) -> None:
    """Whatever the order of the rows; without the file there are none."""
    assert sources.load_segments(tmp_path) == {}
    assert sources.load_segments(write_segments(tmp_path, rows_of(*STAYED.segments)[::-1])) == {
        ("t", 0): STAYED.segments
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of(*STAYED.segments[:2]), "must be numbered from 0 without gaps, and the last segment must have no end"),
        (rows_of(*STAYED.segments)[1:], "must be numbered from 0"),
        (rows_of(Segment(0, None, 0, None, True)), "copied from the source"),
        (
            rows_of(Segment(0, 5, 0, None, False), STAYED.segments[-1]),
            "segment 0 of t-0 must begin at or above the end of the segment before it",
        ),
        (
            rows_of(STAYED.segments[1], Segment(6, None, 5, None)),
            "segment 1 of t-0 must begin at or above the end of the segment before it",
        ),
        (
            rows_of(STAYED.segments[1], Segment(7, None, 4, None)),
            "segment 1 of t-0 must begin at or above the end of the segment before it",
        ),
        (
            rows_of(Segment(5, 4, 0, 0, False), STAYED.segments[-1]),
            "segment 0 of t-0 must begin at or above the end of the segment before it",
        ),
        (rows_of(WHOLE) * 2, "two segments with the same number"),
    ],
)
def test_segments_that_do_not_follow_each_other_are_refused(tmp_path: Path, rows: list[dict], message: str) -> None:
    """Stretches that overlap, are missing or end before they begin break the contract."""
    with pytest.raises(ContractBroken, match=message):
        sources.load_segments(write_segments(tmp_path, rows))


@pytest.mark.parametrize("readable", [True, False])
def test_segments_come_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool) -> None:
    """The task takes both flows' syncs: those of the other flow place groups in what was copied back."""
    held = [bounds_row("t", 0, 9, 9)]
    folder = write_segments(
        write_input(
            tmp_path / "in",
            [(f"g{p}", "t", 0, p) for p in range(10)],
            [("t", 0, 7, 7, 1)],
            held,
            source_readable=readable,
        ),
        rows_of(*WAITING.segments),
    )
    back = [("t", 0, 1, 1, 1), ("t", 0, 3, 3, 2), ("t", 0, 3, 5, 3)]
    pq.write_table(pa.table(list(zip(*back)), schema=arrow_schema("syncs_back")), folder / "syncs_back.parquet")
    monkeypatch.setattr(WindowReader, "read", lambda self, windows: [WAITING.records(window) for window in windows])
    task = PartitionTask(
        sources.load_bounds(folder, readable),
        sources.load_limits(folder, None, None),
        KafkaAccess(None, {}),
        sources.load_segments(folder),
    )
    (packed,) = sources.packed_for_tasks(sources.tagged_rows(folder), {("t", 0): 0}, 1)
    made = [row for row in unpack_table(task(packed)).to_pylist() if row["kind"] == "row"]
    places = [row["target_position"] for row in made]
    assert places == ([0, 1, 2, 3, 3, 3, 4, 5, 8, 9] if readable else [0, 1, 2, 2, 2, 3, 4, 5, 8, 9])
