"""Pairs: order, contradictions, coverage, and what stretches may hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import UNUSABLE, Pairs, pair_below, usable_pairs
from kafka_dr_spark.logs.restarts import longest_undetected_restart, repeats_known, upper_anchor
from kafka_dr_spark.logs.samples import Floors, usable_floors

BOUNDS = LogBounds("t", 0, "t", 0, 10_000, 0, 12_000, True, True, False, False, False, True, False)


def pairs_of(*pairs: tuple[int, int], bounds: LogBounds = BOUNDS) -> Pairs:
    """Make pairs in the order given."""
    u, d = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    return usable_pairs(u, d, np.arange(len(pairs)), bounds)


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    """Return pairs as tuples."""
    return list(zip(pairs.upstream.tolist(), pairs.downstream.tolist()))


def test_target_truncation_discards_what_came_before() -> None:
    """A sync with a lower target offset contradicts all earlier ones."""
    pairs = pairs_of((100, 200), (150, 251), (200, 10))
    assert listed(pairs) == [(200, 10)]
    assert pairs.discarded == 2


def test_source_rewind_keeps_the_history() -> None:
    """A lower source offset with a higher target offset is a restart, not a contradiction."""
    assert listed(pairs_of((100, 200), (150, 251), (20, 300))) == [(100, 200), (150, 251), (20, 300)]


def test_truncation_then_rewind() -> None:
    """After a truncation a rewind of the source is kept."""
    assert listed(pairs_of((100, 200), (150, 251), (200, 10), (20, 20))) == [(200, 10), (20, 20)]


def test_order_is_that_of_the_sequence() -> None:
    """Rows that come in any order are put into the order in which they were written."""
    u, d, sequence = np.array([30, 10, 20]), np.array([31, 11, 21]), np.array([9, 7, 8])
    assert listed(usable_pairs(u, d, sequence, BOUNDS)) == [(10, 11), (20, 21), (30, 31)]


def test_the_same_sync_twice_is_no_contradiction() -> None:
    """A sync that an archive holds twice counts once."""
    assert listed(pairs_of((10, 11), (10, 11), (20, 21))) == [(10, 11), (20, 21)]


def test_two_sources_for_one_target_offset_contradict() -> None:
    """One target offset cannot be two source records: the later sync counts."""
    assert listed(pairs_of((10, 11), (20, 11), (30, 31))) == [(20, 11), (30, 31)]


@pytest.mark.parametrize(("unwatched", "left"), [(True, []), (False, [(100, 200), (150, 251)])])
def test_a_newest_sync_beyond_the_target_is_of_an_older_log(unwatched: bool, left: list[tuple[int, int]]) -> None:
    """The first sync of a log made again was lost: without other statements, those before it are dropped, too."""
    u, d = np.array([100, 150, 200]), np.array([200, 251, 12_000])
    pairs = usable_pairs(u, d, np.arange(3), BOUNDS, unwatched)
    assert listed(pairs) == left and pairs.discarded == (3 if unwatched else 0)
    assert listed(usable_pairs(u[:2], d[:2], np.arange(2), BOUNDS, unwatched)) == [(100, 200), (150, 251)]


@pytest.mark.parametrize("pair", [(99, 500), (2000, 500), (500, 49), (500, 1500)])
def test_pairs_outside_either_log_are_dropped(pair: tuple[int, int]) -> None:
    """A pair below a log's start, or at or above its end, proves nothing."""
    bounds = replace(BOUNDS, source_start=100, cut_off=2000, target_start=50, boundary=1500)
    assert listed(pairs_of(pair, bounds=bounds)) == []


def test_the_last_run_that_covers_a_position_counts() -> None:
    """After a restart from 20 a position of 30 lies above the later pair, a position of 10 above the first."""
    pairs = pairs_of((5, 5), (40, 40), (20, 60), (50, 90))
    assert pair_below(pairs, np.array([4, 10, 20, 30, 50])).tolist() == [-1, 0, 2, 2, 3]


def test_a_stretch_of_equal_length_is_believed_only_beyond_reach() -> None:
    """An even stretch within reach may hide a restart that a gap makes up for; a longer one is believed."""
    bounds = replace(BOUNDS, cut_off=1001, boundary=1001)
    pairs = pairs_of((0, 0), (100, 100), (1000, 1000), bounds=bounds)
    assert longest_undetected_restart(pairs, bounds, reach=2000).tolist() == [900, 900, 0, 0]
    assert longest_undetected_restart(pairs, bounds, reach=500).tolist() == [100, 0, 0, 0]


def test_a_pair_with_lower_pairs_after_it_is_no_upper_anchor() -> None:
    """A pair from before a restart cannot close a stretch that the restart may have copied again."""
    bounds = replace(BOUNDS, cut_off=301, boundary=351)
    pairs = pairs_of((100, 100), (200, 200), (150, 210), (300, 350), bounds=bounds)
    hiding = longest_undetected_restart(pairs, bounds, reach=10)
    assert (hiding == UNUSABLE).tolist() == [False, True, False, False, False]


def test_the_upper_anchor_lies_above_every_hiding_place() -> None:
    """From position 150 the stretch of 400 must be closed or outweighed before the anchor is high enough."""
    bounds = replace(BOUNDS, cut_off=2000, boundary=2300)
    steps = [(100, 100), (200, 200), (300, 300), (400, 700), *((n, n + 300) for n in range(500, 2000, 100))]
    pairs = pairs_of(*steps, bounds=bounds)
    hiding = longest_undetected_restart(pairs, bounds, reach=0)
    below = pair_below(pairs, np.array([150]))
    assert pairs.name(int(upper_anchor(pairs, bounds, hiding, below + 1, proven=0)[0])) == "400->700"


def test_known_repeats_are_counted() -> None:
    """Where the target grew by more than the source the difference was mirrored again, the drained tail included."""
    bounds = replace(BOUNDS, cut_off=400, boundary=480)
    pairs = pairs_of((100, 100), (200, 230), (150, 240), (300, 400), bounds=bounds)
    assert repeats_known(pairs, bounds) == 30 + 60 + 10
    assert repeats_known(pairs, replace(bounds, drained=False)) == 30 + 60 + 10
    assert repeats_known(pairs_of(), bounds) == 0


def floors_of(*samples: tuple[int, int, int, int]) -> Floors:
    """Floors from source end, target end, replicated and the time of each sample."""
    return usable_floors(*(np.array(column) for column in zip(*samples)), BOUNDS)


def test_floors_are_ordered_by_time_and_begin_anew_where_a_log_fell() -> None:
    """Offsets set back, a target truncated; a recreated source counts again once it has grown beyond its older end."""
    floors = floors_of((30, 25, 8, 4), (9, 70, 60, 1), (10, 5, -1, 2), (20, 9, 8, 3))
    found = (floors.source_end.tolist(), floors.target_end.tolist(), floors.replicated.tolist())
    assert found == ([10, 20, 30], [5, 9, 25], [-1, 8, 8])
    assert [floors.below(offset) for offset in (9, 10, 29, 500)] == [None, 5, 9, 25]
    recreated = floors_of((30, 25, 8, 4), (90, 70, 60, 1), (10, 5, -1, 2), (20, 9, 8, 3), (95, 80, 9, 5))
    assert recreated.fell and recreated.source_end.tolist() == [95] and recreated.below(94) is None
    assert len(floors_of((30, 12_001, -1, 1))) == 0
    assert floors_of((30, 25, 29, 1), (31, 26, 4, 2)).source_end.tolist() == [31]
