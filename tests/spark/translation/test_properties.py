"""Random logs, every position: never ahead, exact where claimed, within the bound elsewhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import assume, example, given
from hypothesis import strategies as st
from kafka_dr_spark.translation.case import Answer

from tests.spark.log_model import World, exact_position, make_world, unread_of, verdict, verdict_by_record, worlds
from tests.support.examples import examples

MANY = examples(250)
SOME = examples(150)


def check(world: World, **limits: object) -> dict:
    """Translate every position of a world and fail on the first answer that is wrong."""
    answers = world.translate(list(range(world.bounds.cut_off + 1)), **limits)
    for position, answer in answers.items():
        wrong = verdict(world, position, answer) if answer else None
        assert wrong is None, (position, answer, wrong, world)
    return answers


@MANY
@given(worlds())
def test_unique_contents_are_exact_everywhere(world: World) -> None:
    """Without compaction and with everything readable every position is exact."""
    for position, answer in check(world, near=0).items():
        assert answer.exact, (position, answer, world)
        assert answer.target_position == exact_position(world, position), (position, answer)


@MANY
@given(worlds(compaction=True))
def test_compaction_on_either_side(world: World) -> None:
    """Cleaners that run on their own never lead a group ahead, and what is claimed to be exact is."""
    for position, answer in check(world, near=0).items():
        assert answer.exact, (position, answer, world)


@MANY
@given(worlds(alphabet=2), st.sampled_from([0, 5]))
def test_recurring_contents(world: World, near: int) -> None:
    """With two contents only, all unread contents follow as often as they are unread."""
    check(world, near=near)


@SOME
@given(worlds(alphabet=1))
def test_identical_contents(world: World) -> None:
    """With one content only, at least as many records follow as are unread."""
    check(world, near=0)


@SOME
@given(worlds(alphabet=3, compaction=True))
def test_recurring_contents_with_compaction(world: World) -> None:
    """LogAppendTime topics with few contents and cleaners on both sides never lead a group ahead."""
    check(world, near=0)


@MANY
@given(worlds(retention=True, compaction=True))
def test_heads_cut_by_retention(world: World) -> None:
    """Logs whose heads are gone give positions inside the target's log that are never ahead."""
    check(world, near=0)


@MANY
@given(worlds(drained=False), st.booleans())
def test_not_drained(world: World, other_writer: bool) -> None:
    """When the tail is not on the target nothing is ahead, and positions that depend on the tail are refused."""
    world.bounds = replace(world.bounds, other_writer=other_writer)
    check(world, near=0)


@MANY
@given(worlds(), st.integers(0, 30))
def test_small_limits(world: World, limit: int) -> None:
    """When less may be read than is needed the bound still holds."""
    assume(not world.restarts_hidden_evenly)
    check(world, near=0, content_limit=limit)


@MANY
@given(worlds(), st.integers(0, 10))
def test_small_reach(world: World, reach: int) -> None:
    """Believing stretches of equal length is right wherever they hide no restart."""
    assume(not world.restarts_hidden_evenly)
    check(world, near=0, reach=reach)


@MANY
@given(worlds(drained=False), st.integers(0, 60))
def test_without_a_source(world: World, limit: int) -> None:
    """From pairs and the target alone no group is ahead, also when the last run died early."""
    assume(not world.restarts_hidden_evenly)
    world.bounds = replace(world.bounds, cut_off=None) if world.bounds.cut_off % 2 else world.bounds
    cut_off = len(world.source)
    answers = world.translate(list(range(cut_off + 1)), source_readable=False, content_limit=limit)
    world.bounds = replace(world.bounds, cut_off=cut_off)
    for position, answer in answers.items():
        wrong = verdict(world, position, answer) if answer else None
        assert wrong is None, (position, answer, wrong, world)


@examples(1500)
@example(alphabet=0, limit=3, seed=35513)
@given(st.sampled_from([0, 1, 2]), st.integers(0, 60), st.integers(0, 2**32))
def test_without_a_source_but_with_what_a_recorder_saw(alphabet: int, limit: int, seed: int) -> None:
    """No group is ahead or re-reads more than announced, whatever a restart hides behind gaps."""
    dice = Random(seed)
    world = make_world(
        dice.randint(0, 40),
        dice,
        alphabet=alphabet,
        drained=False,
        retention=dice.random() < 0.5,
        compaction=dice.random() < 0.3,
        recorded=True,
    )
    answers = world.translate(list(range(world.bounds.cut_off + 1)), source_readable=False, content_limit=limit)
    for position, answer in answers.items():
        wrong = verdict_by_record(world, position, answer) if answer else None
        assert wrong is None, (position, answer, wrong, world)


@SOME
@given(worlds(), st.data())
def test_the_judge_catches_a_position_that_is_one_ahead(world: World, data: st.DataObject) -> None:
    """An answer moved over one unread record's last copy is found out, whatever the world."""
    last_copies = {c.record: c.offset for c in world.target if c.record is not None}
    assume(last_copies)
    answers = world.translate(list(range(world.bounds.cut_off + 1)), near=0)
    movable = [
        p for p, answer in answers.items() if answer.target_position in last_copies.values() and unread_of(world, p)
    ]
    assume(movable)
    position = data.draw(st.sampled_from(movable))
    moved = answers[position]._replace(target_position=answers[position].target_position + 1)
    assert verdict(world, position, answers[position]) is None
    assert verdict(world, position, moved)


@SOME
@given(worlds(), st.data())
def test_the_judge_catches_a_false_claim(world: World, data: st.DataObject) -> None:
    """An answer that is behind and claims to be exact is found out."""
    position = data.draw(st.integers(0, world.bounds.cut_off))
    exact = exact_position(world, position)
    behind = [c.offset for c in world.target if c.record is not None and c.offset < exact]
    assume(behind)
    claimed = Answer(behind[-1], "CONTENT", True, 0, "")
    assert "exact" in verdict(world, position, claimed)
    assert "bound" in verdict(world, position, claimed._replace(exact=False))
    assert verdict(world, position, claimed._replace(exact=False, bound=1)) is None
