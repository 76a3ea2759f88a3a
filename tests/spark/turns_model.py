"""A model of logs that grew by turns, and a check by hidden ids; it shares no rule with the code under test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.translation.by_segment import Partition, partition_of
from kafka_dr_spark.translation.case import Answer
from kafka_dr_spark.translation.task import translate_partitions

from tests.spark.log_model import Cell, World, compacted, contents_from

KEYS = 6


@dataclass
class Turns(World):
    """Two logs that grew by turns; the source is where clients are now.

    ``given`` is the source's log before retention, ``written`` before cleaners too; ``waiting`` are records that were
    stranded on the target, each with the source offset up to which a group has not read them; ``back`` are the other
    flow's syncs.
    """

    segments: tuple[Segment, ...] = ()
    back: list[tuple[int, int]] = field(default_factory=list)
    given: list[Cell] = field(default_factory=list)
    written: list[Cell] = field(default_factory=list)
    waiting: list[tuple[int, Cell]] = field(default_factory=list)

    def partition(self, **limits: object) -> Partition:
        """What the code under test knows of this world."""
        forward, back = (
            tuple(np.array(column, np.int64) for column in zip(*((u, d, n) for n, (u, d) in enumerate(syncs))))
            or (np.empty(0, np.int64),) * 3
            for syncs in (self.syncs, self.back)
        )
        return partition_of(self.case(**limits), self.segments, forward, back)

    def translate(self, positions: list[int], **limits: object) -> dict[int, Answer | None]:
        """Run the code under test on this world."""
        return translate_partitions(
            {("t", 0): (self.partition(**limits), np.array(positions))},
            lambda windows: [self.records(w) for w in windows],
        )["t", 0]


def unread_of(world: Turns, position: int, read: bool = False) -> list[Cell]:
    """Return each record once that a group may not have read; of ``read`` ones a copy below the position counts."""
    consumed = {c.record for c in world.given if c.offset < position and read}
    waiting = [cell for until, cell in world.waiting if position <= until]
    there = {c.record: c for c in world.source if c.offset >= position and c.record in world.mirrored - consumed}
    return [*there.values(), *waiting]


def exact_position(world: Turns, position: int, read: bool = False) -> int:
    """Return the greatest target offset below which no unread record has its last copy, by hidden ids."""
    last = {c.record: c.offset for c in world.target if c.record is not None}
    return min(
        [last[c.record] for c in unread_of(world, position, read) if c.record in last], default=world.bounds.boundary
    )


def verdict(world: Turns, position: int, answer: Answer, read: bool = False) -> str | None:
    """Return what is wrong with an answer, None if nothing is; ``read``: the group came there by reading."""
    if answer.class_ == "REFUSED":
        return None
    target, exact = answer.target_position, exact_position(world, position, read)
    if not world.bounds.target_start <= target <= world.bounds.boundary:
        return f"{target} is outside the target's log"
    # Records of one content cannot be told apart: from one place by id and from the other by content the same follows.
    lowest, highest = sorted((exact, exact if world.unique else _greatest(world, position, read)))
    if target > highest:
        return f"ahead: {target} > {highest}"
    # A group that came there by reading may be given most again.
    reached = max(lowest, exact_position(world, position, read=True)) if world.unique else lowest
    again = again_of(world, position, target, reached)
    if answer.exact and again:
        return f"claims exact: {target} != {reached}"
    return (
        f"bound {answer.bound} broken: {again} records from {target} to {reached}"
        if answer.bound is not None and again > answer.bound
        else None
    )


def again_of(world: Turns, position: int, target: int, exact: int) -> int:
    """Count the target's records between a place and the exact one that the group was given before."""
    consumed = {c.record for c in world.written if c.offset < position}
    return sum(target <= c.offset < exact and c.record in consumed for c in world.target if c.record is not None)


def _greatest(world: Turns, position: int, read: bool) -> int:
    """Return the greatest target offset from which on all unread contents follow, as often as possible."""
    due = Counter(c.content for c in unread_of(world, position, read)) & contents_from(
        world.target, world.bounds.target_start
    )
    return max(
        o
        for o in range(world.bounds.target_start, world.bounds.boundary + 1)
        if not due - contents_from(world.target, o)
    )


def turns(**wanted: object) -> st.SearchStrategy[Turns]:
    """Draw worlds; see ``make_turns``."""
    return st.builds(
        lambda size, seed: make_turns(size, Random(seed), **wanted), st.integers(0, 14), st.integers(0, 2**64 - 1)
    )


class _Making:
    """The two logs while they grow."""

    def __init__(self, dice: Random, alphabet: int, keys: bool) -> None:
        self.dice, self.alphabet, self.keys = dice, alphabet, keys
        self.logs: dict[str, list[Cell]] = {"source": [], "target": []}
        self.syncs: dict[str, list[tuple[int, int]]] = {"source": [], "target": []}
        self.segments: list[Segment] = []
        self.waiting: list[tuple[int, Cell]] = []
        self.samples: list[tuple[int, int, int]] = []
        self.records = 0
        self.share = dice.choice([0.05, 0.3, 0.6, 1.0])

    def turn(self, writer: str, size: int, planned: bool, newest: bool) -> None:
        """Let clients write to one side, and MirrorMaker 2 copy it to the other, in runs that jump back."""
        other = "target" if writer == "source" else "source"
        begins = {side: len(log) for side, log in self.logs.items()}
        self._sample(**begins)
        self._write(self.logs[writer], size)
        copied = self._mirror(writer, other, begins[writer], planned)
        ends = {writer: copied, other: len(self.logs[other])}
        if newest:
            self.segments.append(Segment(begins["source"], None, begins["target"], None, False))
            return
        self.segments.append(
            Segment(begins["source"], ends["source"], begins["target"], ends["target"], writer == "target", planned)
        )
        if writer == "target":
            self.waiting += [(ends["source"], cell) for cell in self.logs[writer][copied:] if cell.record is not None]

    def _write(self, log: list[Cell], size: int) -> None:
        gaps = self.dice.choice([0, 0.1, 0.6])
        for _ in range(size):
            self.records += 1
            key = self.dice.randrange(KEYS) if self.keys else 0
            content = (self.dice.randint(1, self.alphabet) if self.alphabet else self.records) * KEYS + key
            gone = self.dice.random() < gaps
            log.append(
                Cell(len(log), None if gone else self.records, content, key, self.keys and self.dice.random() < 0.3)
            )

    def _sample(self, source: int, target: int) -> None:
        """Play a recorder that sees what is written before its copies; ends never fall."""
        last = self.samples[-1] if self.samples else (0, 0)
        self.samples.append((max(source, last[0]), max(target, last[1]), -1))

    def _mirror(self, writer: str, other: str, begin: int, planned: bool) -> int:
        source, target, dice = self.logs[writer], self.logs[other], self.dice
        position, reached, runs = begin, begin, dice.choice([0, 1, 1, 2, 3, 4])
        for run in range(runs + 1):
            stop = len(source) if run == runs and planned else dice.randint(position, len(source))
            for cell in source[position:stop]:
                if cell.record is not None:
                    if dice.random() < self.share:
                        self.syncs[writer].append((cell.offset, len(target)))
                    target.append(replace(cell, offset=len(target)))
                    self._sample(
                        **{writer: dice.randint(max(reached, cell.offset + 1), len(source)), other: len(target)}
                    )
                    if dice.random() < 0.03:
                        target.append(Cell(len(target), None))
            reached, position = max(reached, stop), dice.randint(begin, stop)
        return reached


def make_turns(
    size: int,
    dice: Random,
    alphabet: int = 0,
    compaction: bool = False,
    retention: bool = False,
    drained: bool = True,
    most: int = 5,
) -> Turns:
    """Make a world of ``most`` turns; an ``alphabet`` of 0 makes contents unique, ``drained`` False ends it early."""
    making, count = _Making(dice, alphabet, compaction), dice.randint(2, most)
    for number in range(count):
        newest = number == count - 1
        writer = "source" if (count - 1 - number) % 2 == 0 else "target"
        making.turn(writer, dice.randint(0, size), drained if newest else dice.random() < 0.5, newest)
    world = _world_of(making, drained)
    seen = [making.samples.index((newest.source_from, newest.target_from, -1)) for newest in world.segments[-1:]]
    world.floors = [sample for number, sample in enumerate(making.samples) if number in seen or dice.random() < 0.3]
    return _aged(world, dice, compaction, retention)


def make_growing(
    size: int, dice: Random, alphabet: int = 0, compaction: bool = False, retention: bool = False
) -> Turns:
    """Make a world of copies on the source whose flow still runs: the last originals may have no copy yet.

    Of the offset below which all originals have copies, only a lower one is known.
    """
    making = _Making(dice, alphabet, compaction)
    making.turn("target", dice.randint(0, size), planned=False, newest=False)
    (copied,) = making.segments
    ends = len(making.logs["source"]), len(making.logs["target"])
    known = dice.choice([0, copied.target_to, dice.randint(0, copied.target_to)])
    making.segments = [
        copied._replace(source_to=ends[0], target_to=ends[1], drained=False, copied_to=known),
        Segment(ends[0], None, ends[1], None),
    ]
    return _aged(_world_of(making, drained=False), dice, compaction, retention)


def _world_of(making: _Making, drained: bool) -> Turns:
    source, target = making.logs["source"], making.logs["target"]
    bounds = LogBounds("t", 0, "t", 0, len(source), 0, len(target), drained, True, False, False, False, True, False)
    return Turns(
        source,
        target,
        making.syncs["source"],
        bounds,
        unique=not making.alphabet,
        segments=tuple(making.segments),
        back=making.syncs["target"],
        written=source,
        waiting=making.waiting,
    )


def _aged(world: Turns, dice: Random, compaction: bool, retention: bool) -> Turns:
    """Let cleaners and retention take records of either log."""
    bounds = world.bounds
    world.mirrored = frozenset(c.record for c in world.target if c.record is not None)
    if compaction:
        world.source, on_source = compacted(dice, world.source)
        world.target, on_target = compacted(dice, world.target)
        world.bounds = replace(world.bounds, source_compacted=on_source, target_compacted=on_target)
    world.given = world.source
    if retention:
        starts = dice.randint(0, bounds.cut_off), dice.randint(0, bounds.boundary)
        world.bounds = replace(world.bounds, source_start=starts[0], target_start=starts[1])
        world.source, world.target = (
            [c for c in log if c.offset >= start] for log, start in zip((world.source, world.target), starts)
        )
    return world
