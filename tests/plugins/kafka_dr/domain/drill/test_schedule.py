"""When a drill is due to start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.drill.schedule import MOVE_WAIT, SIGN_OFF_WAIT, longest_silence, why_due
from kafka_dr.procedure.entries import DrillJudged

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
DAYS = (92.0, 30.0)


def judged(days_ago: float, verdict: Any = "passed") -> DrillJudged:
    """Return a drill that ended so many days ago."""
    ended = (NOW - timedelta(days=days_ago)).isoformat()
    return DrillJudged(
        source="a", target="b", drill_kind="canary", verdict=verdict, fingerprint={}, procedure_id="d", ended_at=ended
    )


def changed(hours_ago: float, finding: str = "changed_since_drill") -> dict[str, Any]:
    """Return a readiness document with one finding."""
    since = (NOW - timedelta(hours=hours_ago)).isoformat()
    return {"findings": [{"id": finding, "since": since, "text": "naming.policy: identity, now default"}]}


@pytest.mark.parametrize(
    ("newest", "last_start", "document", "expected"),
    [
        (None, None, None, "no drill of this flow has ended yet"),
        (None, 0.5, None, ""),
        (judged(91), 91, None, ""),
        (judged(92), 92, None, "one is due every 92 days"),
        (judged(28, "failed"), 28, None, ""),
        (judged(29, "failed"), 29, None, "is to be repeated within 30 days"),
        (judged(40, "conditional"), 40, None, ""),
        (judged(5), 5, changed(0.5), ""),
        (judged(5), 5, changed(1), "changed since the last drill: naming.policy"),
        (judged(5), 5, changed(9, "lag"), ""),
        (judged(0.5), 0.5, changed(9), ""),
    ],
)
def test_due_by_calendar_after_a_failed_one_and_after_a_change(
    newest: DrillJudged | None, last_start: float | None, document: dict[str, Any] | None, expected: str
) -> None:
    """Never twice within a day; a change counts once it has lasted an hour."""
    started = None if last_start is None else NOW - timedelta(days=last_start)
    why = why_due(newest, started, document, DAYS, NOW)
    assert expected in why and bool(why) == bool(expected)


@pytest.mark.parametrize(
    ("kind", "notice_hours", "approval_hours", "days"),
    [("observe", 24, 4, 8), ("canary", 8760, 8760, 8), ("full", 24, 4, 16), ("full", 0, 4, 15), ("full", 0, 480, 21)],
)
def test_a_drill_may_be_silent_for_as_long_as_it_waits_for_people(
    kind: str, notice_hours: float, approval_hours: float, days: float
) -> None:
    """The page states the same days; a gate or a wait for people is never cut short."""
    silence = longest_silence(kind, notice_hours, approval_hours * 3_600)
    assert silence == timedelta(days=days)
    assert silence > SIGN_OFF_WAIT and (kind != "full" or silence > timedelta(hours=notice_hours) + MOVE_WAIT)
    assert kind != "full" or silence > timedelta(hours=approval_hours)
