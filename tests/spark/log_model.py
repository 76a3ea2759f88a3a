"""A model of MirrorMaker 2 and a check by hidden record ids; it shares no rule with the code under test."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import usable_pairs
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.translation.case import Answer, Case, Limits, ReadWindow
from kafka_dr_spark.translation.task import translate_cases


@dataclass(frozen=True)
class Cell:
    """One offset of a log; ``record`` is the hidden id, None for a marker or an aborted record."""

    offset: int
    record: int | None
    content: int = 0
    key: int = 0
    tombstone: bool = False


@dataclass
class World:
    """Two logs, the offsets at which MirrorMaker 2's task began anew (``runs``), and the records it ever mirrored."""

    source: list[Cell]
    target: list[Cell]
    syncs: list[tuple[int, int]]
    bounds: LogBounds
    unique: bool
    restarts_hidden_evenly: bool = False
    floors: list[tuple[int, int, int]] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    mirrored: frozenset[int] = frozenset()
    reads: list[ReadWindow] = field(default_factory=list)

    def records(self, window: ReadWindow) -> Records:
        """Play the Kafka reader."""
        self.reads.append(window)
        log = self.source if window.side == "source" else self.target
        cells = [c for c in log if window.start <= c.offset < window.end and c.record is not None]
        columns = [[c.offset for c in cells], [c.content for c in cells], [7] * len(cells), [c.key for c in cells]]
        arrays = [
            np.array(column, dtype) for column, dtype in zip(columns, (np.int64, np.uint64, np.uint64, np.uint64))
        ]
        return Records(*arrays, np.array([c.tombstone for c in cells], np.bool_))

    def case(self, **limits: object) -> Case:
        """What the code under test knows of this world."""
        u, d = (np.array([sync[i] for sync in self.syncs], np.int64) for i in (0, 1))
        floors = Floors(*(np.array([floor[i] for floor in self.floors], np.int64) for i in (0, 1, 2)))
        return Case(self.bounds, usable_pairs(u, d, np.arange(len(u)), self.bounds), Limits(**limits), floors)

    def translate(self, positions: list[int], **limits: object) -> dict[int, Answer | None]:
        """Run the code under test on this world."""
        key = self.bounds.topic, self.bounds.partition
        case = self.case(**limits)
        return translate_cases({key: (case, np.array(positions))}, lambda windows: [self.records(w) for w in windows])[
            key
        ]


def unread_of(world: World, position: int) -> list[Cell]:
    """Return the returnable source records from a position on, below the cut-off."""
    return [c for c in world.source if c.record is not None and position <= c.offset < world.bounds.cut_off]


def exact_position(world: World, position: int) -> int:
    """Return the greatest target offset below which no unread record has its last copy, by hidden ids."""
    last = {c.record: c.offset for c in world.target if c.record is not None}
    return min([last[c.record] for c in unread_of(world, position) if c.record in last], default=world.bounds.boundary)


def contents_from(log: list[Cell], offset: int) -> Counter:
    """Count the contents that a reader gets from an offset on."""
    return Counter(c.content for c in log if c.offset >= offset and c.record is not None)


def between(world: World, start: int, end: int) -> int:
    """Count the target's records between two offsets: those that a group would read again."""
    return sum(start <= c.offset < end for c in world.target if c.record is not None)


def consumed_again(world: World, position: int, target: int) -> int:
    """Count the target's records from an offset on that a group at a source position had consumed."""
    return sum(c.record is not None and c.record < position and c.offset >= target for c in world.target)


def verdict_by_record(world: World, position: int, answer: Answer) -> str | None:
    """Return what is wrong with an answer where only a group's own re-reads count into the bound."""
    again = 0 if answer.target_position is None else consumed_again(world, position, answer.target_position)
    if answer.bound is not None and again > answer.bound:
        return f"bound {answer.bound} broken: {again} consumed records lie at or above {answer.target_position}"
    return verdict(world, position, answer._replace(bound=None))


def verdict(world: World, position: int, answer: Answer) -> str | None:
    """Return what is wrong with an answer, None if nothing is."""
    if answer.class_ == "REFUSED":
        return None
    target, exact = answer.target_position, exact_position(world, position)
    if not world.bounds.target_start <= target <= world.bounds.boundary:
        return f"{target} is outside the target's log"
    if world.unique:
        if target > exact:
            return f"ahead: {target} > {exact}"
        if answer.exact and between(world, target, exact):
            return f"claims exact: {target} != {exact}"
        if answer.bound is not None and between(world, target, exact) > answer.bound:
            return f"bound {answer.bound} broken: {target} .. {exact}"
        return None
    return _verdict_by_content(world, position, answer, exact)


def _verdict_by_content(world: World, position: int, answer: Answer, exact: int) -> str | None:
    """Judge where contents recur: all due contents must follow, and later positions from which they do are as good."""
    unread = Counter(c.content for c in unread_of(world, position))
    due = unread & contents_from(world.target, world.bounds.target_start)
    greatest = max(
        o
        for o in range(world.bounds.target_start, world.bounds.boundary + 1)
        if not due - contents_from(world.target, o)
    )
    target, lowest, highest = answer.target_position, min(exact, greatest), max(exact, greatest)
    if target > highest:
        return f"ahead: not all of {dict(due)} follow {target}, last good {highest}"
    if answer.exact and between(world, target, lowest):
        return f"claims exact: {target} is not in {lowest}..{highest}"
    if answer.bound is not None and between(world, target, lowest) > answer.bound:
        return f"bound {answer.bound} broken: {target} .. {lowest}"
    return None


def worlds(**wanted: object) -> st.SearchStrategy[World]:
    """Draw worlds; see ``make_world``. Size and seed are all that is drawn: drawing every cell would be slow."""
    return st.builds(
        lambda size, seed: make_world(size, Random(seed), **wanted), st.integers(0, 40), st.integers(0, 2**64 - 1)
    )


def make_world(
    size: int,
    dice: Random,
    compaction: bool = False,
    alphabet: int = 0,
    retention: bool = False,
    drained: bool = True,
    recorded: bool = False,
) -> World:
    """Make a world of ``size`` offsets; an ``alphabet`` of 0 makes contents unique, ``drained`` False ends it early."""
    gaps = {dice.randrange(size) for _ in range(dice.choice([0, 3, 25]))} if size else set()
    keys = [dice.randint(0, 5) if compaction else 0 for _ in range(size)]
    symbols = [dice.randint(1, alphabet) if alphabet else number for number in range(1, size + 1)]
    dead = [compaction and dice.random() < 0.3 for _ in range(size)]
    source = [Cell(o, None if o in gaps else o, symbols[o] * 10 + keys[o], keys[o], dead[o]) for o in range(size)]
    target, syncs, even, runs = _mirror(dice, source, drained)
    base = LogBounds("t", 0, "t", 0, size, 0, len(target), drained, True, False, False, False, True, False)
    world = World(source, target, syncs, base, unique=not alphabet, restarts_hidden_evenly=even, runs=runs)
    world.mirrored = frozenset(c.record for c in target if c.record is not None)
    world.floors = _floors(dice, world) if recorded else []
    if compaction:
        world.source, on_source = compacted(dice, world.source)
        world.target, on_target = compacted(dice, world.target)
        world.bounds = replace(world.bounds, source_compacted=on_source, target_compacted=on_target)
    return _retained(dice, world) if retention else world


def _floors(dice: Random, world: World) -> list[tuple[int, int, int]]:
    """Sample both ends: what Connect keeps never falls, and is the offset of a record."""
    size, seen = world.bounds.cut_off, []
    for end in sorted(dice.randint(0, world.bounds.boundary) for _ in range(dice.choice([1, 3, 8]))):
        mirrored = max([c.record for c in world.target if c.offset < end and c.record is not None], default=-1)
        least = max(mirrored + 1, seen[-1][0] if seen else 0)
        most_kept = kept_at_most(world, end)
        drawn = dice.randint(min(seen[-1][2] if seen else -1, most_kept), most_kept)
        kept = max([c.offset for c in world.source if c.record is not None and c.offset <= drawn], default=-1)
        seen.append((dice.randint(least, min(size, least + dice.choice([0, 2, size]))), end, kept))
    return seen


def kept_at_most(world: World, length: int) -> int:
    """Return the highest offset that Connect can have kept as replicated at this length of the target."""
    reached = [c.record for c in world.target if c.offset < length and c.record is not None]
    return min([reached[-1] if reached else -1, *[start - 1 for start, begun_at in world.runs if begun_at >= length]])


def _mirror(
    dice: Random, source: list[Cell], drained: bool
) -> tuple[list[Cell], list[tuple[int, int]], bool, list[tuple[int, int]]]:
    """Copy the source in runs; each run after the first starts at or before where the one before stopped."""
    target: list[Cell] = []
    syncs: list[tuple[int, int]] = []
    starts_at: list[int] = []
    begun: list[tuple[int, int]] = []
    position, runs = 0, dice.choice([0, 1, 1, 2, 3, 4])
    for run in range(runs + 1):
        stop = len(source) if run == runs and drained else dice.randint(position, len(source))
        starts_at.append(len(target))
        begun.append((position, len(target)))
        for cell in source[position:stop]:
            if cell.record is not None:
                syncs.append((cell.offset, len(target)))
                target.append(replace(cell, offset=len(target)))
                if dice.random() < 0.03:
                    target.append(Cell(len(target), None))
        position = dice.randint(0, stop)
    share = dice.choice([0.05, 0.3, 0.6, 1.0])
    syncs = [sync for sync in syncs if dice.random() < share]
    return target, syncs, _hidden_evenly(syncs, starts_at, (len(source), len(target))), begun


def _hidden_evenly(syncs: list[tuple[int, int]], starts: list[int], end: tuple[int, int]) -> bool:
    """Say whether a restart lies in a stretch that has the same length on both sides."""
    stops = [*syncs, end]
    return any(
        after[0] - before[0] == after[1] - before[1] and any(before[1] < start <= after[1] for start in starts)
        for before, after in itertools.pairwise(stops)
    )


def compacted(dice: Random, log: list[Cell]) -> tuple[list[Cell], bool]:
    """Clean a log up to some point: of each key only the last record below that point stays."""
    if dice.random() < 0.5:
        return log, False
    clean = dice.randint(0, len(log))
    newest = {c.key: c.offset for c in log[:clean] if c.record is not None}
    return [c for c in log if c.offset >= clean or c.record is None or newest[c.key] == c.offset], True


def _retained(dice: Random, world: World) -> World:
    """Let retention take the heads of both logs."""
    source_start = dice.randint(0, world.bounds.cut_off)
    target_start = dice.randint(0, world.bounds.boundary)
    world.bounds = replace(world.bounds, source_start=source_start, target_start=target_start)
    world.source = [c for c in world.source if c.offset >= source_start]
    world.target = [c for c in world.target if c.offset >= target_start]
    return world
