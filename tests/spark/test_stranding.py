"""What a returned cluster holds that was never replicated: equal to the truth both ways, and in doubt rather more than less."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_dr_spark.stranding import Returned, Stranded, longest_run, stranded_of
from kafka_dr_spark.tasks import drive
from tests.spark.log_model import Cell, World, kept_at_most, make_world

#: Numbers of records that were written on the returned cluster after it had lost its tail.
REWRITTEN = 1_000
KINDS = st.sampled_from(["plain", "plain", "recorded", "compaction", "retention", "tail_lost", "hole"])


def tail_lost(dice: Random, world: World) -> None:
    """The source comes back with a shorter log, and takes other records there."""
    kept = dice.randint(0, world.bounds.cut_off)
    size = kept + dice.choice([0, 1, 5])
    world.source = [c for c in world.source if c.offset < kept] + [Cell(o, REWRITTEN + o, REWRITTEN + o) for o in range(kept, size)]
    world.bounds = replace(world.bounds, cut_off=size)


def hole(dice: Random, world: World) -> None:
    """Some records in the middle were never mirrored: MirrorMaker 2 tolerated errors, or overtook a log that had fallen."""
    first = dice.randint(0, world.bounds.cut_off)
    skipped = range(first, first + dice.choice([1, 2, 5]))
    world.target = [c for c in world.target if c.record not in skipped]
    world.syncs = [(u, d) for u, d in world.syncs if u not in skipped]
    world.mirrored -= frozenset(skipped)
    # What was kept as replicated speaks of records that are there, and a sample of what was mirrored in their order.
    world.floors = []


def returned_world(kind: str, alphabet: int, seed: int) -> tuple[World, Returned]:
    """Two logs after a failover whose source came back, and what is known of them beside offset syncs and samples."""
    dice = Random(seed)
    shape = {"compaction": kind == "compaction", "retention": kind == "retention", "recorded": kind in ("recorded", "hole")}
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, **shape)
    most = kept_at_most(world, world.bounds.boundary) if kind not in ("compaction", "retention", "hole") else -1
    drawn = dice.choice([-1, most, dice.randint(-1, max(most, -1))])
    kept = max((c.offset for c in world.source if c.record is not None and c.offset <= drawn), default=None)
    if kind in ("tail_lost", "hole"):
        {"tail_lost": tail_lost, "hole": hole}[kind](dice, world)
    return world, Returned("t", 0, 0, 0, None, kept, world.bounds.cut_off, world.bounds.boundary)


def found(world: World, known: Returned, whole: bool = False, **limits: object) -> Stranded:
    """What is told of a world."""
    (told,) = drive([stranded_of(world.case(**limits), known, whole)], lambda windows: [world.records(w) for w in windows])
    return told


def listed(world: World, told: Stranded) -> list[Cell]:
    """The records that are told to be stranded."""
    missing = set(told.missing.tolist())
    return [c for c in world.source if c.record is not None and (c.offset >= told.from_offset or c.offset in missing)]


def never_mirrored(world: World) -> list[Cell]:
    """The truth, by hidden ids."""
    return [c for c in world.source if c.record is not None and c.record not in world.mirrored]


@settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))
@given(KINDS, st.sampled_from([1000, 1000, 1000, 20, 0]), st.integers(0, 2**40))
def test_nothing_stranded_is_forgotten_and_what_is_exact_is_equal(kind: str, limit: int, seed: int) -> None:
    """Whatever was repeated, cleaned, deleted by retention, skipped, or lost at the source's end."""
    world, known = returned_world(kind, 0, seed)
    told = found(world, known, content_limit=limit)
    truth, stranded = never_mirrored(world), listed(world, told)
    if kind != "hole" or limit == 1000:
        assert {c.offset for c in truth} <= {c.offset for c in stranded}, (told, world)
    if told.exact:
        assert truth == stranded, (told, world)
        assert told.frontier == min([told.from_offset, *(c.offset for c in truth)])


@settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["plain", "recorded", "tail_lost"]), st.sampled_from([1, 2, 3]), st.integers(0, 2**40))
def test_of_records_that_are_alike_as_many_are_on_one_side_as_on_both(kind: str, alphabet: int, seed: int) -> None:
    """Each that the returned cluster holds has one of its own on the other, or is listed; where it is exact, the very ones that were never mirrored."""
    world, known = returned_world(kind, alphabet, seed)
    told = found(world, known)
    stranded, truth = listed(world, told), never_mirrored(world)
    here, there = (Counter(c.content for c in log if c.record is not None) for log in (world.source, world.target))
    assert not (here - there) - Counter(c.content for c in stranded), (told, world)
    if told.exact and kind != "tail_lost":
        assert truth == stranded, (told, world)


@pytest.mark.parametrize(("kind", "share"), [("plain", 0.99), ("recorded", 0.99), ("tail_lost", 0.99), ("hole", 0.99)])
def test_what_is_told_is_mostly_exact(kind: str, share: float) -> None:
    """Of contents that never recur, as records with a time and a key mostly are."""
    exact = sum(found(*returned_world(kind, 0, seed)).exact for seed in range(500))
    assert exact >= share * 500


@pytest.mark.parametrize("kind", ["compaction", "retention"])
def test_cleaned_logs_mostly_show_the_truth_too(kind: str) -> None:
    """Though nobody can say so: copies that were cleaned away are taken for records that never came."""
    right = 0
    for seed in range(500):
        world, known = returned_world(kind, 0, seed)
        right += never_mirrored(world) == listed(world, found(world, known))
    assert right >= 400, right
