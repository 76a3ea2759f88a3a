"""Loss by what a recorder saw: nothing acknowledged is forgotten, nothing that is on the target is called lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_dr_spark.loss import LastSeen, Loss, loss_of, loss_with_source
from kafka_dr_spark.tasks import drive
from tests.spark.log_model import World, kept_at_most, make_world


def last_seen(dice: Random, world: World) -> LastSeen | None:
    """What a recorder would have seen last: at some length of the target, with a source that held at least what was mirrored by then."""
    if dice.random() < 0.1:
        return None
    length = dice.randint(0, len(world.target))
    mirrored = max([c.record for c in world.target[:length] if c.record is not None], default=-1)
    stored = dice.randint(-1, kept_at_most(world, length))
    end = dice.randint(mirrored + 1, world.bounds.cut_off)
    stretches, at = [], dice.randint(0, end)
    while at < end:
        stop = min(end, at + dice.randint(1, 20))
        if all(cell.record is not None for cell in world.source[at:stop]):
            stretches.append((at, stop))
        at = stop
    return LastSeen(end, None if stored < 0 else stored, tuple(stretches))


def truth_broken(world: World, told: Loss) -> str | None:
    """Return what is wrong with a loss, by hidden ids; None if nothing is."""
    on_target = {cell.record for cell in world.target if cell.record is not None}
    lost = [c.offset for c in world.source if c.record is not None and c.record not in on_target]
    if lost and lost[0] < told.from_offset:
        return f"record {lost[0]} is lost and not listed"
    claimed = [] if told.certain_to is None else [r for r in on_target if told.from_offset <= r < told.certain_to]
    return f"records {claimed} are on the target and called lost" if claimed else None


def assessed(alphabet: int, limit: int, seed: int) -> tuple[World, Loss]:
    """A world whose source died, and what is told of it."""
    dice = Random(seed)
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, recorded=True)
    seen = last_seen(dice, world)
    case = world.case(content_limit=limit, source_readable=False)
    (told,) = drive([loss_of(case, seen)], lambda windows: [world.records(w) for w in windows])
    return world, told


@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([0, 0, 1, 3]), st.integers(0, 60), st.integers(0, 2**32))
def test_nothing_is_forgotten_and_nothing_is_called_lost_that_is_there(alphabet: int, limit: int, seed: int) -> None:
    """Whatever was repeated, recurs, or has gaps."""
    world, told = assessed(alphabet, limit, seed)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)


def test_in_many_a_death_the_loss_is_known_to_the_record() -> None:
    """What is told is exactly what is lost, up to the last sample."""
    exact = 0
    for seed in range(1000):
        world, told = assessed(0, 100, seed)
        mirrored = max((c.record for c in world.target if c.record is not None), default=-1)
        lost = [c.offset for c in world.source if c.record is not None and c.offset > mirrored]
        exact += told.certain_to is not None and lost[:1] == [told.from_offset]
    assert exact > 20


def compared(alphabet: int, limit: int, seed: int) -> tuple[World, Loss, bool]:
    """A world whose source can be read again, what is told of it, and whether that world's evidence is whole."""
    dice = Random(seed)
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, recorded=dice.random() < 0.7)
    whole, stored = dice.random() < 0.7, last_seen(dice, world)
    if not whole:
        start = dice.randint(0, world.bounds.cut_off)
        world.bounds, world.source = replace(world.bounds, source_start=start), [c for c in world.source if c.offset >= start]
    case = world.case(content_limit=limit)
    (told,) = drive([loss_with_source(case, stored.replicated if stored else None)], lambda windows: [world.records(w) for w in windows])
    return world, told, whole and limit >= 10_000


@settings(max_examples=6000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([0, 0, 1, 2, 3, 5]), st.sampled_from([0, 10, 40, 10_000]), st.integers(0, 2**32))
def test_where_the_source_can_be_read_the_loss_is_exact(alphabet: int, limit: int, seed: int) -> None:
    """Nothing is forgotten, nothing is called lost that is there; where no content recurs, it is the truth to the record."""
    world, told, whole = compared(alphabet, limit, seed)
    wrong = truth_broken(world, told)
    assert wrong is None, (wrong, told, world)
    if whole and world.unique:
        mirrored = max((c.record for c in world.target if c.record is not None), default=-1)
        above = [c.offset for c in world.source if c.record is not None and c.offset > mirrored]
        listed = [c.offset for c in world.source if c.record is not None and told.from_offset <= c.offset < told.possible_to]
        assert listed == above, (told, world)
        assert told.certain_to == world.bounds.cut_off
