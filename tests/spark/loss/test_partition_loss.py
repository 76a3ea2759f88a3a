"""Loss by what a recorder saw: nothing acknowledged is forgotten, nothing that is on the target is called lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import Pairs, usable_pairs
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.loss.partition_loss import (
    Loss,
    PartitionLastSeen,
    Unbroken,
    highest_confirmed,
    loss_of,
    loss_with_source,
    plausible_pairs,
)
from kafka_dr_spark.translation.case import Case, Limits
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.log_model import Cell, World, kept_at_most, make_world
from tests.support.examples import examples


def last_seen(dice: Random, world: World) -> PartitionLastSeen | None:
    """Return a recorder's last sample at some length of the target, of a source that held all that was mirrored."""
    if dice.random() < 0.1:
        return None
    length = dice.randint(0, len(world.target))
    mirrored = max([c.record for c in world.target[:length] if c.record is not None], default=-1)
    stored = dice.randint(-1, kept_at_most(world, length))
    end = dice.randint(mirrored + 1, world.bounds.cut_off)
    stretches, at = own_pair(world, length, end), dice.randint(0, end)
    while at < end:
        stop = min(end, at + dice.randint(1, 20))
        if all(cell.record is not None for cell in world.source[at:stop]):
            stretches.append(Unbroken(at, stop, -1))
        at = stop
    return PartitionLastSeen(end, None if stored < 0 else stored, tuple(sorted(stretches)))


def own_pair(world: World, length: int, end: int) -> list[Unbroken]:
    """Return the highest occurrence on the source of the target's newest record, if no gaps follow it there."""
    newest = next((cell for cell in reversed(world.target[:length]) if cell.record is not None), None)
    above = next(
        (
            n
            for n in range(end - 1, -1, -1)
            if newest and world.source[n].record is not None and world.source[n].content == newest.content
        ),
        None,
    )
    whole = above is not None and all(cell.record is not None for cell in world.source[above:end])
    return [Unbroken(above, end, newest.offset)] if whole else []


def truth_broken(world: World, told: Loss) -> str | None:
    """Return what is wrong with a loss, by hidden ids; None if nothing is."""
    on_target = {cell.record for cell in world.target if cell.record is not None}
    lost = [c.offset for c in world.source if c.record is not None and c.record not in on_target]
    if lost and lost[0] < told.from_offset:
        return f"record {lost[0]} is lost and not listed"
    claimed = [] if told.certain_to is None else [r for r in on_target if told.from_offset <= r < told.certain_to]
    return f"records {claimed} are on the target and called lost" if claimed else None


def one_bit_flipped(dice: Random, world: World) -> None:
    """One bit of one offset of one sync is another: in its place, or written once more at the end."""
    if not world.syncs:
        return
    number, side = dice.randrange(len(world.syncs)), dice.randrange(2)
    sync = list(world.syncs[number])
    sync[side] ^= 1 << dice.choice([dice.randrange(6), dice.randrange(62)])
    if dice.random() < 0.5:
        world.syncs[number] = tuple(sync)
    else:
        world.syncs.append(tuple(sync))


def assessed(alphabet: int, limit: int, seed: int, damage: bool = False) -> tuple[World, Loss]:
    """A world whose source died, and what is told of it."""
    dice = Random(seed)
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, recorded=True)
    seen = last_seen(dice, world)
    if damage:
        one_bit_flipped(dice, world)
    case = world.case(content_limit=limit, source_readable=False)
    (told,) = drive_searches([loss_of(case, seen)], lambda windows: [world.records(w) for w in windows])
    return world, told


@examples(3000)
@given(st.sampled_from([0, 0, 1, 3]), st.integers(0, 60), st.integers(0, 2**32))
def test_nothing_is_forgotten_and_nothing_is_called_lost_that_is_there(alphabet: int, limit: int, seed: int) -> None:
    """Whatever was repeated, recurs, or has gaps."""
    world, told = assessed(alphabet, limit, seed)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)


@examples(3000)
@given(st.sampled_from([0, 0, 1, 3]), st.sampled_from([0, 60, 60]), st.integers(0, 2**32))
def test_one_wrong_sync_changes_neither(alphabet: int, limit: int, seed: int) -> None:
    """What one statement says that no other bears out counts for nothing, whichever of its bits is another."""
    world, told = assessed(alphabet, limit, seed, damage=True)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)


@examples(3000)
@given(st.integers(2, 6), st.integers(0, 2**32))
def test_where_an_own_pair_tells_any_number_of_wrong_syncs_changes_neither(wrong_syncs: int, seed: int) -> None:
    """It changes nothing that the last statements in MirrorMaker 2's topic are wrong and agree with each other."""
    world, told = flooded(wrong_syncs, seed)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)


def test_an_own_pair_alone_makes_a_loss_certain() -> None:
    """Though all that MirrorMaker 2 stated last is wrong."""
    told = [flooded(4, seed)[1] for seed in range(2000)]
    assert sum(one.certain_to is not None for one in told) > 20


def ends_in_a_first_copy(world: World) -> bool:
    """Whether the target's newest record was not mirrored before."""
    records = [cell.record for cell in world.target if cell.record is not None]
    return bool(records) and records[-1] not in records[:-1]


def flooded(wrong_syncs: int, seed: int) -> tuple[World, Loss]:
    """Make a world with wrong low bits in its last syncs and a recorded pair of the target's newest first copy."""
    dice, world = Random(seed), None
    while world is None or not ends_in_a_first_copy(world) or any(cell.record is None for cell in world.source):
        world = make_world(dice.randint(5, 40), dice, drained=False, recorded=True)
    seen = last_seen(dice, world) or PartitionLastSeen(None, None)
    mirrored = max([cell.record for cell in world.target if cell.record is not None], default=-1)
    end = dice.randint(mirrored + 1, world.bounds.cut_off)
    seen = PartitionLastSeen(end, seen.replicated, tuple(own_pair(world, len(world.target), end)))
    for _ in range(wrong_syncs if world.syncs else 0):
        sync = list(dice.choice(world.syncs))
        sync[dice.randrange(2)] ^= 1 << dice.randrange(4)
        world.syncs.append(tuple(sync))
    case = world.case(content_limit=100, source_readable=False)
    (told,) = drive_searches([loss_of(case, seen)], lambda windows: [world.records(w) for w in windows])
    return world, told


def test_in_many_a_death_the_loss_is_known_to_the_record() -> None:
    """What is told is exactly what is lost, up to the last sample."""
    exact = 0
    for seed in range(1000):
        world, told = assessed(0, 100, seed)
        mirrored = max((c.record for c in world.target if c.record is not None), default=-1)
        lost = [c.offset for c in world.source if c.record is not None and c.offset > mirrored]
        exact += told.certain_to is not None and lost[:1] == [told.from_offset]
    assert exact > 20


def compared(alphabet: int, limit: int, seed: int, damage: bool) -> tuple[World, Loss, bool]:
    """A world whose source can be read again, what is told of it, and whether that world's evidence is whole."""
    dice = Random(seed)
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, recorded=dice.random() < 0.7)
    whole, stored = dice.random() < 0.7, last_seen(dice, world)
    if not whole:
        start = dice.randint(0, world.bounds.cut_off)
        world.bounds, world.source = (
            replace(world.bounds, source_start=start),
            [c for c in world.source if c.offset >= start],
        )
    if damage:
        one_bit_flipped(dice, world)
    case = world.case(content_limit=limit)
    (told,) = drive_searches(
        [loss_with_source(case, stored.replicated if stored else None)],
        lambda windows: [world.records(w) for w in windows],
    )
    return world, told, whole and limit >= 10_000


@examples(6000)
@given(st.sampled_from([0, 0, 1, 2, 3, 5]), st.sampled_from([0, 10, 40, 10_000]), st.integers(0, 2**32), st.booleans())
def test_where_the_source_can_be_read_the_loss_is_exact(alphabet: int, limit: int, seed: int, damage: bool) -> None:
    """Nothing lost is missed, nothing present is called lost; unique contents are exact to the record."""
    world, told, whole = compared(alphabet, limit, seed, damage)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)
    if whole and world.unique:
        mirrored = max((c.record for c in world.target if c.record is not None), default=-1)
        above = [c.offset for c in world.source if c.record is not None and c.offset > mirrored]
        listed = [
            c.offset for c in world.source if c.record is not None and told.from_offset <= c.offset < told.possible_to
        ]
        assert listed == above, (told, world)
        assert told.certain_to == world.bounds.cut_off


def pairs_of(*pairs: tuple[int, int], floors: tuple[tuple[int, int, int], ...] = ()) -> Pairs:
    """Those of the pairs that samples, each of a source end, a target end and what Connect kept, do not contradict."""
    upstream, downstream = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    seen = Floors(*(np.array([floor[i] for floor in floors], np.int64) for i in (0, 1, 2)))
    bounds = LogBounds("t", 0, "t", 0, None, 0, 10_000, False, False, False, False, False, True, False)
    return plausible_pairs(Case(bounds, Pairs(upstream, downstream), Limits(), seen))


def test_what_the_next_sync_does_not_bear_out_counts_for_nothing() -> None:
    """A lone one; one that the next one lies below, or so far above that not all between can have been mirrored."""
    assert [
        highest_confirmed(pairs_of(*pairs))
        for pairs in (
            (),
            ((9, 9),),
            ((9, 9), (19, 19)),
            ((9, 9), (4099, 19), (29, 29)),
            ((9, 9), (4099, 19), (9000, 29)),
        )
    ] == [-1, -1, 9, -1, -1]


def loss_by_syncs(*syncs: tuple[int, int]) -> Loss:
    """What is lost by Connect's 1,500 and these syncs in their order, where nobody recorded."""
    upstream, downstream = (np.array([sync[i] for sync in syncs], np.int64) for i in (0, 1))
    bounds = LogBounds("t", 0, "t", None, None, 0, 400, False, False, False, False, False, True, False)
    case = Case(
        bounds,
        usable_pairs(upstream, downstream, np.arange(len(syncs)), bounds, unwatched=True),
        Limits(source_readable=False),
    )
    return drive_searches([loss_of(case, PartitionLastSeen(None, 1_500))], lambda windows: [])[0]


def test_syncs_of_an_older_copy_leave_nothing_known_where_nobody_recorded() -> None:
    """The target's topic was deleted and made again: what Connect keeps was mirrored to the older one."""
    assert loss_by_syncs((1_200, 0), (1_300, 100)).from_offset == 1_501
    for syncs in (
        ((0, 0), (1_000, 1_000), (1_200, 0), (1_300, 100)),
        ((0, 0), (390, 390), (400, 400)),
        ((0, 0), (390, 390), (1_000, 1_000)),
    ):
        told = loss_by_syncs(*syncs)
        assert (told.from_offset, told.certain_to, told.possible_to) == (0, None, None) and "older log" in told.evidence


def test_where_the_target_holds_what_was_not_read_nothing_is_certain() -> None:
    """Its topic was made anew, and holds the source's end only: records that are there are not called lost."""
    world = World(
        [Cell(n, n, n) for n in range(100)],
        [Cell(n, 70 + n, 70 + n) for n in range(30)],
        [],
        LogBounds("t", 0, "t", 0, 100, 0, 30, False, False, False, False, False, True, False),
        True,
    )
    (told,) = drive_searches(
        [loss_with_source(world.case(), None)], lambda windows: [world.records(w) for w in windows]
    )
    assert (told.from_offset, told.certain_to) == (0, None)


def test_syncs_that_a_sample_contradicts_are_no_statements() -> None:
    """Two syncs of another cluster's log agree, but the source was too short when the target held these offsets."""
    floors = ((100, 90, 50), (200, 180, 150))
    told = pairs_of((70, 80), (100, 85), (199, 150), (205, 160), (250, 200), (299, 230), (301, 230), floors=floors)
    assert list(zip(told.upstream.tolist(), told.downstream.tolist())) == [(70, 80), (199, 150), (299, 230)]
