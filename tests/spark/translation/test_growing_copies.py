"""Positions on copies while the flow that makes them runs on: never ahead of an original without a copy."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.translation.case import Answer

from tests.spark.translation.test_by_segment import alike, by_hand
from tests.spark.turns_model import Turns, exact_position, make_growing, verdict
from tests.support.examples import examples

MANY = examples(300)
SEEDS = st.integers(0, 2**32)


def check(world: Turns, read: bool = False, **limits: object) -> dict[int, Answer]:
    """Translate every position of a world and fail on the first answer that is wrong."""
    answers = world.translate(list(range(world.bounds.cut_off + 1)), **{"near": 0, **limits})
    for position, answer in answers.items():
        wrong = verdict(world, position, answer, read=read)
        assert wrong is None, (position, answer, wrong, world)
    return answers


@MANY
@given(SEEDS)
def test_unique_contents_are_exact_everywhere(seed: int) -> None:
    """Every position is exact, except where a copy follows of what another had brought."""
    world = make_growing(Random(seed).randint(0, 14), Random(seed))
    for position, answer in check(world).items():
        assert answer.class_ != "REFUSED", (position, answer, world)
        assert answer.exact or exact_position(world, position) < exact_position(world, position, read=True), (
            position,
            answer,
            world,
        )


@MANY
@given(st.sampled_from([1, 2, 3]), st.booleans(), st.booleans(), SEEDS)
def test_no_group_is_ahead(alphabet: int, compaction: bool, retention: bool, seed: int) -> None:
    """Whatever recurs, and whatever cleaners and retention took of either log."""
    dice = Random(seed)
    check(make_growing(dice.randint(0, 14), dice, alphabet, compaction, retention))


@MANY
@given(st.booleans(), SEEDS)
def test_heads_cut_by_retention(compaction: bool, seed: int) -> None:
    """Unique contents lead no group ahead, either."""
    dice = Random(seed)
    check(make_growing(dice.randint(0, 14), dice, compaction=compaction, retention=True))


@MANY
@given(st.sampled_from([0, 0, 2]), st.integers(0, 60), st.booleans(), SEEDS)
def test_logs_too_long_to_read_or_a_source_that_is_lost(alphabet: int, limit: int, readable: bool, seed: int) -> None:
    """From pairs and from what is known to be copied no group is ahead."""
    dice = Random(seed)
    world = make_growing(dice.randint(0, 14), dice, alphabet, dice.random() < 0.3, dice.random() < 0.5)
    # What is repeated behind markers that nobody read is not seen: see decision 0013.
    check(world, read=True, source_readable=readable, content_limit=limit)


#: Five originals, three of which have copies.
GROWING = by_hand(
    [1, 2, 3],
    [1, 2, 3, 4, 5],
    Segment(0, 3, 0, 5, copied_back=True, copied_to=1),
    Segment(3, None, 5, None),
)


def test_a_group_that_has_read_all_copies_stands_before_the_first_original_without_one() -> None:
    """It is exact, because the next original's content has no copy."""
    answers = GROWING.translate(list(range(4)))
    assert [answers[position].target_position for position in range(4)] == [0, 1, 2, 3]
    assert all(answer.exact and answer.class_ == "CONTENT" for answer in answers.values())


@pytest.mark.parametrize(("known", "place", "bound"), [(0, 1, 2), (2, 2, 1), (3, 3, 0)])
def test_alike_records_count_as_copied_up_to_what_is_known(known: int, place: int, bound: int) -> None:
    """What follows may have been read; the bound says how many records."""
    stated = GROWING.segments[0]._replace(copied_to=known), GROWING.segments[1]
    world = alike(by_hand([1, 2, 3], [1, 2, 3, 4, 5], *stated))
    answer = world.translate([3])[3]
    assert (answer.target_position, answer.bound) == (place, bound)
