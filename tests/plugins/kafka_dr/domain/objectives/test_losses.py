"""How much is lost, and the verdict on it: never better or worse than the truth allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.objectives.losses import gone_since, lost_records, lost_seconds, records_text, seconds_text
from kafka_dr.domain.objectives.verdict import Measured, Verdict, judge_objective, objective_text

DIED = 1_000_000


def row(first: int = 10, certain: int | None = None, possible: int | None = None, **more: Any) -> dict[str, Any]:
    """A row of loss."""
    return {"topic": "t", "partition": 0, "from_offset": first, "certain_to": certain, "possible_to": possible, **more}


@st.composite
def partitions(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    """Records that one partition truly lost, when the oldest was written, and a row that may know less than that."""
    lost, written = draw(st.integers(0, 50)), draw(st.integers(0, DIED))
    certain = draw(st.none() | st.integers(0, 10 + lost))
    possible = draw(st.none() | st.integers(10 + lost, 200))
    since = draw(st.none() | st.integers(0, written))
    before = draw(st.none() | st.integers(written, DIED)) if since is not None else None
    exact = certain is not None and certain == 10 + lost
    counted = draw(st.none() | st.just(lost)) if exact and possible == certain else None
    return lost, written, row(10, certain, possible, written_since=since, written_before=before, records=counted)


@given(st.lists(partitions(), max_size=4), st.data())
def test_the_truth_lies_within_what_is_known(lost: list[tuple[int, int, dict[str, Any]]], data: st.DataObject) -> None:
    """Records and seconds: at least and at most hold, and no verdict contradicts the truth."""
    rows = [known for _, _, known in lost]
    alive = data.draw(st.none() | st.integers(0, DIED))
    gone = data.draw(st.none() | st.integers(DIED, 2 * DIED))
    oldest = min((written for count, written, _ in lost if count), default=DIED)
    for truth, measured in (
        (sum(count for count, _, _ in lost), lost_records(rows)),
        ((DIED - oldest) / 1000, lost_seconds(rows, alive, gone)),
    ):
        assert measured.least is not None and 0 <= measured.least <= truth
        assert measured.most is None or measured.most >= truth
        for objective in (0, truth, truth + 1, max(0, truth - 1)):
            assert judge_objective(objective, measured) in (
                Verdict.UNKNOWN,
                Verdict.MET if truth <= objective else Verdict.BREACHED,
            )


def test_without_rows_nothing_is_lost() -> None:
    """Not unknown, whatever is known of the source; a row whose range is empty loses nothing, either."""
    for rows in ([], [row(10, None, 10)]):
        assert lost_records(rows) == lost_seconds(rows, None, None) == (0, 0)
    assert records_text(Measured(0, 0)) == seconds_text(Measured(0.0, 0.0), "x") == "no record is lost"


def test_records_are_counted_by_offsets_or_by_what_was_read() -> None:
    """A range whose end is unknown has no bound; one that was read counts records, not offsets."""
    assert lost_records([row(10, 80)]) == (70, None)
    assert lost_records([row(10, 80, 80, records=3), row(0, None, 5)]) == (3, 8)
    assert records_text(Measured(1200, None)) == "1,200 records certainly lost, no bound on records possibly"
    assert records_text(Measured(0, 8)) == "0 records certainly lost, at most 8 records possibly"


def test_a_row_that_was_corrected_to_begin_earlier_has_no_time() -> None:
    """Its times are those of a younger record."""
    known = {"written_since": 5_000, "written_before": 7_000}
    approved = {"approved": {"from_offset": 10, "certain_to": 80, "possible_to": None}}
    assert lost_seconds([row(10, 80, **known, **approved)], 9_000, 12_000) == (2.0, 7.0)
    assert lost_seconds([row(0, 80, **known, **approved)], 9_000, 12_000) == (0.0, None)


@pytest.mark.parametrize(
    ("changes", "fenced", "rows", "gone"),
    [
        ({}, None, [], 50),
        ({"confirmed": {"override": "why"}}, None, [], None),
        ({"confirmed": {"override": "why"}}, "1970-01-01T00:00:00.090+00:00", [], 90),
        ({"seen": {"looked_for_at": 50, "read_at": 60}}, None, [], None),
        ({}, "1970-01-01T00:00:00.090+00:00", [{"accepted_to": 7}], 90),
        ({"seen": {}}, None, [], None),
    ],
)
def test_a_source_that_worked_is_gone_only_once_it_is_fenced(
    changes: dict[str, Any], fenced: str | None, rows: list[dict[str, Any]], gone: int | None
) -> None:
    """A source that was confirmed to be lost is gone when the checks began."""
    plan = {"confirmed": {"override": None}, "seen": {"looked_for_at": 50}} | changes
    assert gone_since(plan, rows, fenced) == gone


def test_texts_say_what_is_known_and_what_is_not() -> None:
    """Each limit, one of them, or none."""
    assert seconds_text(Measured(12.0, 43.0), "east was lost") == (
        "the oldest lost record was written at least 12 s and at most 43 s before east was lost"
    )
    assert seconds_text(Measured(12.0, None), "east was lost").endswith("before east was lost; no upper bound is known")
    assert seconds_text(Measured(0.0, 43.0), "east was lost").startswith("the oldest lost record was written at most")
    assert "is unknown" in seconds_text(Measured(0.0, None), "east was lost")
    assert "is unknown" in seconds_text(Measured(None, None), "x") and "is unknown" in records_text(
        Measured(None, None)
    )
    assert (
        objective_text("rto_seconds", 300.0) == "RTO 5 min 00 s" and objective_text("rpo_records", 1) == "RPO 1 record"
    )
