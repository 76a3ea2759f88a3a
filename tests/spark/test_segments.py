"""Logs that grew by turns, every position: never ahead, exact where claimed, within the bound elsewhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.spark.turns_model import Turns, exact_position, make_turns, turns, unread_of, verdict

MANY = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=False)


def judge(world: Turns, **limits: object) -> dict:
    """Translate every position of a world and fail on the first answer that is wrong."""
    answers = world.translate(list(range(world.bounds.cut_off + 1)), **{"near": 0, **limits})
    for position, answer in answers.items():
        wrong = verdict(world, position, answer)
        assert wrong is None, (position, answer, wrong, world)
    return answers


@MANY
@given(turns())
def test_unique_contents_are_exact_everywhere(world: Turns) -> None:
    """With everything readable every position is exact, in both directions, before and behind what was stranded."""
    for position, answer in judge(world).items():
        assert answer.exact, (position, answer, world)


@MANY
@given(turns(alphabet=3), st.sampled_from([0, 5]))
def test_recurring_contents(world: Turns, near: int) -> None:
    """With few contents all unread contents follow as often as they are unread."""
    judge(world, near=near)


@MANY
@given(turns(alphabet=1))
def test_identical_contents(world: Turns) -> None:
    """With one content only at least as many records follow as are unread."""
    judge(world)


@MANY
@given(turns(compaction=True, retention=True))
def test_cleaners_and_retention(world: Turns) -> None:
    """Whatever cleaners and retention took of either log leads no group ahead."""
    judge(world)


@MANY
@given(turns(compaction=True, retention=True, alphabet=3))
def test_recurring_contents_with_cleaners_and_retention(world: Turns) -> None:
    """What recurs may be gone where it stood first."""
    judge(world)


@MANY
@given(turns(drained=False), st.sampled_from([0, 3]))
def test_the_newest_segment_is_not_drained(world: Turns, alphabet: int) -> None:
    """Older segments are no less proven for that."""
    judge(world)
    newest = world.segments[-1].source_from
    assert all(answer.exact for position, answer in world.translate(list(range(newest + 1)), near=0).items()), world


@settings(MANY, max_examples=600)
@given(turns(), st.sampled_from([0, 3]), st.integers(0, 60), st.integers(0, 2**32))
def test_small_limits_and_wrong_claims(world: Turns, limit: int, lies: int, seed: int) -> None:
    """Where less may be read than is needed older segments still lead no group ahead; with the source at hand no untrue sync does."""
    dice = Random(seed)
    for syncs, ends in ((world.syncs, (world.bounds.cut_off, world.bounds.boundary)), (world.back, (world.bounds.boundary, world.bounds.cut_off))):
        for _ in range(lies if all(ends) else 0):
            syncs.insert(dice.randint(0, len(syncs)), tuple(dice.randrange(end) for end in ends))
    newest = world.segments[-1].source_from
    for position, answer in world.translate(list(range(newest + 1)), near=0, content_limit=limit).items():
        wrong = verdict(world, position, answer)
        assert wrong is None and answer.class_ != "REFUSED", (position, answer, wrong, world)


@settings(MANY, max_examples=600)
@given(st.sampled_from([0, 0, 2]), st.integers(0, 60), st.integers(0, 2**32))
def test_without_a_source(alphabet: int, limit: int, seed: int) -> None:
    """From pairs and the target alone no group in an older segment is ahead, also when its last run died early."""
    dice = Random(seed)
    world = make_turns(dice.randint(0, 14), dice, alphabet=alphabet, drained=False, retention=dice.random() < 0.5, compaction=dice.random() < 0.3)
    for position, answer in world.translate(list(range(world.segments[-1].source_from + 1)), source_readable=False, content_limit=limit).items():
        wrong = verdict(world, position, answer)
        assert wrong is None, (position, answer, wrong, world)
