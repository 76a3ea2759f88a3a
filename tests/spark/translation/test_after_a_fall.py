"""After a fall of log ends no position is exact, and a position that may be one of the older log stays behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.pairs import Pairs
from kafka_dr_spark.logs.samples import usable_floors
from kafka_dr_spark.reading.matching import Records
from kafka_dr_spark.translation.case import Answer, Case, Limits, ReadWindow
from kafka_dr_spark.translation.task import of_those_that_moved, translate_cases

from tests.support.examples import examples

#: (source's end, target's end, kept by Connect); then one sample whose source end is far lower.
HONEST, FALLEN = [(1000, 990, 989), (2000, 1990, 1989), (5000, 4990, 4989)], (100, 5000, 4999)
BOUNDS = LogBounds("orders", 0, "orders", None, None, 0, 5000, False, False, False, False, False, True, False)
Sample = tuple[int, int, int]


def records_of(windows: list[ReadWindow]) -> list[Records]:
    """A target with a record of its own content at every offset."""
    spans = [np.arange(window.start, window.end) for window in windows]
    return [Records(span, *[span.astype(np.uint64)] * 3, np.zeros(len(span), np.bool_)) for span in spans]


def case_of(samples: list[Sample], pairs: list[tuple[int, int]] = (), bounds: LogBounds = BOUNDS, **limits) -> Case:
    """A partition whose source cannot be read."""
    floors = usable_floors(*np.array(samples, np.int64).reshape(-1, 3).T, np.arange(len(samples)), bounds)
    columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return Case(bounds, Pairs(*columns), Limits(source_readable=False, **limits), floors)


def answers(case: Case, *positions: int) -> dict[int, Answer | None]:
    """The answers by position, from all ways that the job has."""
    return translate_cases({("orders", 0): (case, np.array(positions))}, records_of)["orders", 0]


def test_a_lower_source_end_moves_no_group_past_unread_records() -> None:
    """One sample that says that the source ended at 100 placed a group of position 150 at 5000, and called it exact."""
    assert answers(case_of(HONEST), 150) == {150: None}
    assert answers(case_of([*HONEST, FALLEN]), 150) == {150: None}


def test_once_the_source_has_grown_beyond_its_older_end_samples_count_again() -> None:
    """Whoever stands there has read the older log; how near the answer is depends on samples, so it is not exact."""
    found = answers(case_of([*HONEST, FALLEN, (6000, 5000, 5999)]), 4_000, 6_000)
    assert found[4_000] is None and found[6_000] is not None
    assert (found[6_000].target_position, found[6_000].exact) == (5000, False)


@pytest.mark.parametrize("pairs", [[], [(0, 0), (150, 140)], [(0, 0), (150, 140), (4999, 4999)]])
@pytest.mark.parametrize(("samples", "told"), [([*HONEST, FALLEN], {}), (HONEST, {"samples_missing": True})])
def test_nothing_is_exact_after_a_fall_or_where_newer_samples_are_missing(
    samples: list[Sample], told: dict[str, bool], pairs: list[tuple[int, int]]
) -> None:
    """Whatever places the position: floor, pair, first copy, count."""
    found = answers(case_of(samples, pairs, **told), 0, 149, 150, 151, 999, 1000, 4999, 5000, 7000)
    assert not [answer for answer in found.values() if answer and answer.class_ != "POLICY" and answer.exact]
    if told:
        at_the_end = case_of(samples, pairs, replace(BOUNDS, boundary=4990))
        assert [answer for answer in answers(at_the_end, 5000, 7000).values() if answer and answer.exact]


def test_a_group_that_may_have_moved_is_no_exacter() -> None:
    """At the boundary a group reads nothing again; that alone does not make the place exact."""
    columns = {"bound": pa.array([0, 0]), "exact": pa.array([False, True]), "target_position": pa.array([5000, 5000])}
    changed = of_those_that_moved(columns, pa.array([1, 1]), case_of(HONEST))
    assert changed["exact"].to_pylist() == [False, True]


@examples(300)
@given(st.data())
def test_a_sample_with_a_lower_source_end_moves_no_position_forward(data: st.DataObject) -> None:
    """Wherever the log ends of one more sample lie: it never raises a position that is answered, and adds none."""
    ends = sorted(data.draw(st.lists(st.integers(1, 3000), min_size=1, max_size=6)))
    samples = [(end, max(end - data.draw(st.integers(0, 20)), 0), -1) for end in ends]
    samples = [(end, max(target for _, target, _ in samples[: n + 1]), -1) for n, (end, _, _) in enumerate(samples)]
    bounds = replace(BOUNDS, boundary=data.draw(st.integers(samples[-1][1], 4000)))
    lower = (data.draw(st.integers(0, ends[-1] - 1)), data.draw(st.integers(0, 4000)), data.draw(st.integers(-1, 4000)))
    positions = data.draw(st.lists(st.integers(0, ends[-1] - 1), min_size=1, max_size=8, unique=True))
    before, after = (answers(case_of(seen, bounds=bounds), *positions) for seen in (samples, [*samples, lower]))
    for position in positions:
        was, now = before[position], after[position]
        assert now is None or (was is not None and now.target_position <= was.target_position and not now.exact)
