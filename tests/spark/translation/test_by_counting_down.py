"""Positions counted down from the own pair above: as near as content proves, and never beyond a repeat."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import Pairs
from kafka_dr_spark.logs.samples import usable_floors
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.translation.case import Answer, Case, Limits, ReadWindow
from kafka_dr_spark.translation.from_samples import from_floors
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.log_model import exact_position
from tests.spark.loss.test_reread_bounds import recorded_flow
from tests.support.examples import examples

#: Offsets on both sides: sampled as (source's end, target's end, kept by Connect).
SAMPLES, PAIRS = [(1, 1, -1), (3492, 3464, 900), (8060, 8032, 7000)], [(0, 0), (3463, 3463), (8031, 8031)]


def answered(
    position: int,
    contents: list[int],
    samples: list = SAMPLES,
    pairs: list = PAIRS,
    limit: int = 1_000_000,
    only_mirrored: bool = True,
    **known: object,
) -> Answer:
    """Translate one position on a target with these contents from offset 0."""
    bounds = replace(
        LogBounds("t", 0, "t", 0, None, 0, len(contents), False, False, False, False, False, True, False), **known
    )
    floors = usable_floors(*(np.array(column, np.int64) for column in zip(*samples)), np.arange(len(samples)), bounds)
    case = Case(
        bounds,
        Pairs(*(np.array(column, np.int64) for column in zip(*pairs))),
        Limits(content_limit=limit, only_mirrored=only_mirrored),
        floors,
    )

    def reader(windows: list[ReadWindow]) -> list[Records]:
        found = []
        for window in windows:
            offsets = np.arange(window.start, window.end)
            content = np.array(contents, np.uint64)[offsets]
            found.append(Records(offsets, content, content, content, np.zeros(len(offsets), np.bool_)))
        return found

    ((answer,),) = drive_searches([from_floors(case, np.array([position]))], reader)
    return answer


def test_between_two_own_pairs_a_position_is_as_near_as_it_can_be() -> None:
    """MirrorMaker 2's own sync below it would give 1415."""
    answer = answered(1481, list(range(9000)))
    assert (answer.target_position, answer.evidence) == (1481, "nearest: counted down from pair 3463->3463")
    assert answer.bound <= 3464 - 1481 + 8032 - 3464


def test_records_mirrored_twice_are_counted_once() -> None:
    """The pair is d = 23 with u = 13: records 4 to 13 stand there a second time, and the first copies decide."""
    contents = [*range(14), *range(4, 14)]
    assert answered(9, contents, [(1, 1, -1)], [(0, 0), (13, 23)]).target_position == 9


def test_a_gap_on_the_source_leaves_positions_below_it_behind() -> None:
    """Source offsets 3 to 7 hold no record: positions above are exact, those below at most five too low."""
    contents = [0, 1, 2, *range(8, 21)]
    assert answered(8, contents, [(1, 1, -1)], [(0, 0), (20, 15)]).target_position == 3
    assert answered(3, contents, [(1, 1, -1)], [(0, 0), (20, 15)]).target_position == 1


def test_below_the_first_sample_a_target_that_begins_at_0_is_read_whole() -> None:
    """A group may lag since before any sample; where retention cut the topic, nothing is known of that time."""
    contents, samples, pairs = [0] + [1] * 3 + list(range(4, 1000)), [(900, 900, -1)], [(999, 999)]
    assert answered(500, contents, samples, pairs).target_position == 500
    assert answered(500, contents, samples, [(404, 404), *pairs]).target_position == 500
    assert answered(500, contents, samples, pairs, target_start=1).target_position == 1
    assert answered(500, [*contents[:-1], 700], samples, pairs).target_position == 201


def test_below_the_first_sample_records_that_the_source_has_not_are_no_reason_to_be_ahead() -> None:
    """From 40 on all that follows lies at or above 40, although the target holds 20 records the source lacks."""
    contents, pairs = [*range(50), *range(1000, 1020), *range(50, 130)], [(129, 149)]
    assert answered(40, contents, [(100, 120, -1)], pairs, only_mirrored=False).target_position == 0
    assert answered(40, contents, [(70, 70, -1), (60, 80, -1)], pairs).target_position == 0
    assert answered(110, contents, [(100, 120, -1)], pairs, only_mirrored=False).target_position == 130, (
        "above a sample it is counted all the same"
    )


def test_a_restart_before_the_first_sample_is_no_reason_to_be_ahead() -> None:
    """Records 4 to 13 stand on the target twice before anybody recorded; the pair lies behind them."""
    contents = [*range(14), *range(4, 20)]
    for position in range(1, 20):
        assert answered(position, contents, [(14, 24, 13)], [(19, 29)]).target_position <= position + 10 * (
            position >= 14
        )


def test_where_it_cannot_be_counted_the_pair_below_is_the_answer() -> None:
    """Another writer's records would count, a cleaned target lacks some, or more must be read than is allowed."""
    contents = list(range(9000))
    for told in ({"other_writer": True}, {"target_compacted": True}, {"limit": 3000}):
        assert answered(1481, contents, **told).target_position == 1, told
    assert answered(8040, contents).target_position == 8032


@examples(200)
@given(st.integers(4, 12), st.integers(1, 30), st.integers(0, 15), st.integers(0, 2**32))
def test_without_gaps_and_repeats_all_positions_below_an_own_pair_are_exact(
    every: int, flush_every: int, lag: int, seed: int
) -> None:
    """However far Connect's flushes are behind."""
    world = recorded_flow(Random(seed), every, flush_every, lag).world
    if not world.floors or not world.syncs:
        return
    lowest, highest = world.floors[0][0], world.syncs[-1][0]
    answers = world.translate(list(range(lowest, highest + 1)), source_readable=False)
    world.bounds = replace(world.bounds, cut_off=len(world.source))
    for position, answer in answers.items():
        assert answer.target_position == exact_position(world, position), (position, answer, world)
