"""Silent services, and a readiness that fell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.domain.notices.service_notices import (
    WATCHER,
    MonitoredService,
    SeenReadiness,
    find_silences,
    readiness_notices,
    see_readiness,
    state_of,
)

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """Return a time after ten o'clock."""
    return TEN + timedelta(seconds=seconds)


def watcher(last: datetime | None) -> list[MonitoredService]:
    """Return a watcher with a last sign of life."""
    return [MonitoredService(WATCHER, Event.WATCHER_SILENT, last)]


def test_a_silence_is_one_event_until_the_service_lives_again() -> None:
    """The id follows from the last sign of life."""
    assert find_silences(watcher(TEN), TEN, after(59)) == []
    (first,) = find_silences(watcher(TEN), TEN, after(61))
    (again,) = find_silences(watcher(TEN), TEN, after(3600))
    (next_one,) = find_silences(watcher(after(100)), TEN, after(200))
    assert first.id == again.id != next_one.id and first.event == "watcher_silent" and first.flow == ""
    assert "since 2026-11-22 10:00:00 UTC" in first.lines[0]


def test_a_recorder_is_silent_by_flow_and_after_its_interval() -> None:
    """A recorder that samples once an hour is not silent after a minute."""
    service = MonitoredService("recorder east->west", Event.RECORDER_SILENT, TEN, "east->west", 10_860.0)
    assert find_silences([service], TEN, after(10_859)) == []
    (silent,) = find_silences([service], TEN, after(10_860))
    assert silent.flow == "east->west" and silent.event == "recorder_silent"


def test_no_service_is_silent_before_it_could_speak() -> None:
    """A minute after somebody began to look, whether it never lived or stood still with all others."""
    for last, word in ((None, "ever"), (TEN - timedelta(hours=3), "since 2026-11-22 07:00:00 UTC")):
        assert find_silences(watcher(last), TEN, after(59)) == []
        (silent,) = find_silences(watcher(last), TEN, after(61))
        assert word in silent.lines[0]


def document(state: str, **more: Any) -> dict[str, Any]:
    """Return what readiness_check wrote at ten o'clock."""
    return {
        "state": state,
        "reasons": ["lag of 300 s", {"check": "quiet", "seen": "x"}],
        "checked_at": TEN.isoformat(),
        "stale_after": after(900).isoformat(),
        **more,
    }


def notices_after(before: str | None, told: dict[str, Any], seconds: float) -> list[Notice]:
    """Return what is due some seconds after ten o'clock, if a state was seen before."""
    seen = see_readiness(SeenReadiness.from_text(before), told, after(seconds))
    return readiness_notices("east->west", seen, told, after(seconds))


def test_a_fall_is_due_until_the_state_changes() -> None:
    """By the same id and time, whoever looks: what was seen is one line of text in the journal's database."""
    seen = see_readiness(SeenReadiness("VERIFIED"), document("NOT_VERIFIED"), after(1))
    (first,) = readiness_notices("east->west", seen, document("NOT_VERIFIED"), after(1))
    checked_again = document("NOT_VERIFIED") | {"checked_at": after(300).isoformat()}
    read = SeenReadiness.from_text(seen.as_text())
    again = see_readiness(read, checked_again, after(301))
    (second,) = readiness_notices("east->west", again, checked_again, after(301))
    assert again == seen and (first.id, first.at) == (second.id, second.at) and "10:05:00" in second.lines[1]
    mended = see_readiness(again, document("VERIFIED"), after(600))
    assert mended == SeenReadiness("VERIFIED") and readiness_notices("f", mended, document("VERIFIED"), TEN) == []


@pytest.mark.parametrize(
    ("before", "state", "told"),
    [
        ("VERIFIED", "NEEDS_VERIFICATION", True),
        ("VERIFIED", "NOT_VERIFIED", True),
        ("NEEDS_VERIFICATION", "UNKNOWN", True),
        ("NOT_VERIFIED", "VERIFIED", False),
        ("VERIFIED", "VERIFIED", False),
        (None, "NOT_VERIFIED", False),
    ],
)
def test_a_fall_is_told_and_a_rise_is_not(before: str | None, state: str, told: bool) -> None:
    """Unknown is worse than a check that is due, and the first document that is seen is no fall."""
    found = notices_after(before, document(state), 1)
    assert bool(found) is told
    if told:
        assert "lag of 300 s" in found[0].lines and "quiet; x" in found[0].lines


def test_an_old_check_shows_nothing() -> None:
    """A readiness that nobody checks any more is unknown, whatever the document says."""
    assert state_of(document("VERIFIED"), after(60)) == "VERIFIED"
    assert state_of(document("VERIFIED"), after(1000)) == state_of({}, TEN) == "UNKNOWN"
    (fell,) = notices_after("VERIFIED", document("VERIFIED"), 1000)
    assert fell.subject == "VERIFIED to UNKNOWN"


def test_a_notice_about_readiness_leads_to_the_page_of_all_flows() -> None:
    """In Airflow's own frame, where people log in; without Airflow's address there is no link."""
    (fell,) = notices_after("VERIFIED", document("VERIFIED"), 1000)
    assert fell.body(TEN, "https://air")[-1] == "Page: https://air/plugin/switchback"
    assert not any("Page:" in line for line in fell.body(TEN, ""))


def test_a_drill_is_due_once() -> None:
    """The id follows from the date on which the drill was due."""
    due = document("VERIFIED", next_drill_due=TEN.isoformat())
    one, two = (notices_after("VERIFIED", due, seconds) for seconds in (0, 60))
    assert one[0].id == two[0].id and one[0].event == "drill_due"
    later = document("VERIFIED", next_drill_due=after(900).isoformat())
    assert notices_after("VERIFIED", later, 0) == []
    assert notices_after("VERIFIED", document("VERIFIED", next_drill_due=None), 0) == []


@pytest.mark.parametrize("broken", [{}, {"checked_at": "soon"}, {"checked_at": TEN.isoformat(), "reasons": 3}])
def test_a_document_that_cannot_be_read_tells_nothing(broken: dict[str, Any]) -> None:
    """A program of another version may write it."""
    assert notices_after(None, broken, 0) == []
