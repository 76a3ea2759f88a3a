"""A flow sampled until its source dies: no group is ahead, and re-reads are announced and few."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import Pairs
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.loss.reread_bounds import rereads_at_most, rereads_before_translation
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.translation.case import Case, Limits, ReadWindow
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.log_model import Cell, World, verdict_by_record
from tests.support.examples import examples

MANY = examples(500)


@dataclass
class Flow:
    """MirrorMaker 2 by moments, ``lag`` offsets behind the source's end; ``flushed`` is what Connect keeps."""

    dice: Random
    lag: int
    gaps: float
    unique: bool
    source: list[Cell] = field(default_factory=list)
    target: list[Cell] = field(default_factory=list)
    begun: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    reached: int = 0
    flushed: int = -1

    def grow(self) -> None:
        """One moment passes."""
        offset = len(self.source)
        content = offset if self.unique else self.dice.randint(1, 3)
        self.source.append(Cell(offset, None if self.dice.random() < self.gaps else offset, content))
        # After a crash it catches up.
        for _ in range(2):
            if self.reached <= offset - self.lag:
                self._mirror(self.source[self.reached])

    def _mirror(self, cell: Cell) -> None:
        self.reached += 1
        if cell.record is not None:
            self.target.append(Cell(len(self.target), cell.record, cell.content))

    def flush(self) -> None:
        """Connect keeps what was replicated."""
        self.flushed = max((c.offset for c in self.source[: self.reached] if c.record is not None), default=-1)

    def crash(self) -> None:
        """MirrorMaker 2 is killed, and begins anew behind what Connect kept."""
        self.reached = self.flushed + 1
        self.begun.append((self.reached, len(self.target)))

    def newest_pair(self) -> tuple[int, int] | None:
        """The target's newest record, and the newest of the source that looks like it."""
        if not self.target:
            return None
        alike = [c.offset for c in self.source if c.record is not None and c.content == self.target[-1].content]
        return alike[-1], self.target[-1].offset


@dataclass
class Recorded:
    """A flow's end: the world, what was recorded, and the most that was mirrored in any stretch of some moments."""

    world: World
    grown: list[int]

    def most_in(self, moments: int) -> int:
        """Return the most target records that any so many moments in a row brought."""
        return max(self.grown[min(at + moments, len(self.grown) - 1)] - end for at, end in enumerate(self.grown))


def recorded_flow(
    dice: Random,
    every: int,
    flush_every: int,
    lag: int = 0,
    crashes: float = 0.0,
    gaps: float = 0.0,
    unique: bool = True,
    pairs: float = 1.0,
) -> Recorded:
    """Run a flow until its source dies, with a sample ``every`` so many moments and crashes and pairs by chance."""
    flow, floors, syncs, grown = Flow(dice, lag, gaps, unique), [], [], [0]
    kept, mirrored, slow = 0, 0, dice.randint(0, 1)
    for moment in range(dice.randint(1, 12 * every)):
        flow.grow()
        if moment % flush_every == flush_every - 1:
            flow.flush()
        if dice.random() < crashes:
            flow.crash()
        turn = moment % every
        if turn == 0:
            kept = flow.flushed
        if turn == slow:
            mirrored = len(flow.target)
        if turn == 2 * slow:
            floors.append((len(flow.source), mirrored, kept))
        if turn == 3 * slow and dice.random() < pairs and (pair := flow.newest_pair()):
            syncs.append(pair)
        grown.append(len(flow.target))
    bounds = LogBounds("t", 0, "t", 0, None, 0, len(flow.target), False, False, False, False, False, True, False)
    world = World(flow.source, flow.target, syncs, bounds, unique, floors=floors, runs=flow.begun)
    return Recorded(world, grown)


def bounds_of(told: Recorded, **limits: int) -> dict[int, int]:
    """Translate every position, check it by ids, and return the bounds."""
    world = told.world
    if not world.floors:
        return {}
    positions = list(range(len(world.source) + 1))
    answers = world.translate(positions, source_readable=False, **limits)
    world.bounds = LogBounds(**{**vars(world.bounds), "cut_off": len(world.source)})
    # Below the first sample, and without a pair, each group's policy decides.
    answers = {position: answer for position, answer in answers.items() if answer}
    before = rereads_before_translation(
        world.case(source_readable=False), np.array(positions), np.zeros(len(positions), np.bool_)
    )
    for position, answer in answers.items():
        wrong = verdict_by_record(world, position, answer)
        assert wrong is None, (position, answer, wrong, world)
        assert answer.bound <= before[position], (position, answer, before[position], world)
    return {position: answer.bound for position, answer in answers.items()}


@MANY
@given(
    st.integers(4, 12),
    st.integers(1, 30),
    st.integers(0, 15),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 150),
    st.integers(0, 2**32),
)
def test_nobody_is_ahead_and_nobody_reads_more_again_than_announced(
    every: int,
    flush_every: int,
    lag: int,
    crashes: float,
    gaps: float,
    unique: bool,
    pairs: float,
    limit: int,
    seed: int,
) -> None:
    """Whatever crashed, was flushed late, recurs, was not paired, or may not be read."""
    bounds_of(recorded_flow(Random(seed), every, flush_every, lag, crashes, gaps, unique, pairs), content_limit=limit)


@MANY
@given(st.integers(4, 12), st.integers(1, 6), st.integers(0, 3), st.sampled_from([0.0, 0.02]), st.integers(0, 2**32))
def test_with_samples_the_bound_is_about_what_one_interval_brought(
    every: int, flush_every: int, lag: int, crashes: float, seed: int
) -> None:
    """Whatever the group's lag: an interval, and what was on its way, not flushed yet, or mirrored twice."""
    told = recorded_flow(Random(seed), every, flush_every, lag, crashes)
    repeats = len(told.world.target) - len({c.record for c in told.world.target})
    for position, bound in bounds_of(told).items():
        assert bound <= told.most_in(every + flush_every + lag) + repeats, (position, bound, told)


def case_of(*samples: tuple[int, int], boundary: int = 1000) -> Case:
    """A partition of which Connect kept N when the target ended at D."""
    kept, ends = (np.array(column, np.int64) for column in zip(*samples))
    bounds = LogBounds("t", 0, "t", 0, None, 0, boundary, False, False, False, False, False, True, False)
    return Case(bounds, Pairs(*[np.empty(0, np.int64)] * 2), Limits(), Floors(ends, ends, kept, ends))


def told_by(case: Case, position: int, target: int, recurring: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """The bound of one position, and what was read; so many of these records have a content from before."""
    read = []

    def reader(windows: list[ReadWindow]) -> list[Records]:
        read.extend((w.start, w.end) for w in windows)
        offsets = np.arange(windows[0].start, windows[0].end)
        content = np.where(np.arange(len(offsets)) < recurring, offsets + recurring, offsets).astype(np.uint64)
        return [Records(offsets, content, content, content, np.zeros(len(offsets), np.bool_))]

    (bounds,) = drive_searches([rereads_at_most(case, np.array([position]), np.array([target]))], reader)
    return int(bounds[0]), read


def test_what_connect_had_kept_is_the_ceiling() -> None:
    """No consumed record follows from the first sample that kept the position, else from the boundary."""
    case = case_of((90, 100), (190, 200), (290, 300))
    assert told_by(case, 150, 120) == (80, []) and told_by(case, 190, 120) == (80, [])
    assert told_by(case, 291, 300) == (700, [])


def test_beyond_an_interval_the_records_are_counted() -> None:
    """Sixty records from the position to the second sample, one it had not kept, and one for each that recurs."""
    case = case_of((90, 100), (190, 200), (290, 300))
    assert told_by(case, 192, 140) == (61, [(200, 300)])
    assert told_by(case, 192, 140, recurring=7) == (68, [(200, 300)])
    case.left["target"] = 99
    assert told_by(case, 192, 140) == (160, [])


def test_without_a_word_of_connect_the_position_itself_bounds() -> None:
    """In dedicated mode at most all records below a position count, once each but for recurring ones."""
    case = case_of((-1, 100), (-1, 200))
    assert told_by(case, 192, 140) == (192, [(100, 1000)])
    case.left["target"] = 0
    assert told_by(case, 192, 140) == (860, [])
