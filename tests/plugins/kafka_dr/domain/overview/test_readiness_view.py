"""A readiness document on the page: green is VERIFIED and fresh, and no unknown figure has a value."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.overview.readiness_view import view_of, view_without
from kafka_dr.domain.readiness.report import STALE_AFTER_SECONDS, Checked, Outlook, document_of
from kafka_dr.domain.readiness.state import State, state_of

from tests.plugins.kafka_dr.domain.readiness.test_state import DRILL, FINDINGS, NOW
from tests.support.examples import examples

AT = {"certain": NOW.isoformat(), "seconds": NOW.isoformat()}
OUTLOOK = Outlook(certain=0, seconds=12.5, at=AT, unknown={"possible": "not read", "rereads": "no run"})


@examples(200)
@given(st.lists(FINDINGS, max_size=4), st.integers(0, 2 * int(STALE_AFTER_SECONDS)), st.booleans())
def test_green_is_verified_fresh_and_nothing_else(findings: list, seconds: int, at_rest: bool) -> None:
    """Whatever is found, however old the check is, whether or not the flow rests."""
    document = document_of(Checked("a", "b", NOW, findings, OUTLOOK, at_rest=at_rest), None)
    view = view_of(document, NOW + timedelta(seconds=seconds))
    fresh = seconds <= STALE_AFTER_SECONDS
    assert view.stale == (not fresh)
    assert (view.look == "good") == (state_of(findings) is State.VERIFIED and fresh and not at_rest)
    assert (view.look == "unknown") == (not fresh or (state_of(findings) is State.UNKNOWN and not at_rest))
    assert view.findings.total == len(findings)


def test_a_check_before_the_last_move_says_nothing() -> None:
    """However young it is: the flow that was in use may rest now."""
    document = document_of(Checked("a", "b", NOW, [], OUTLOOK), None)
    moved = NOW + timedelta(seconds=10)
    view = view_of(document, NOW + timedelta(seconds=20), moved)
    assert (view.look, view.stale) == ("unknown", True) and "moved since" in view.advice
    assert {figure.value for figure in view.figures} == {"unknown"}
    assert view_of(document, NOW + timedelta(seconds=20), NOW - timedelta(seconds=1)).look == "good"


def test_figures_have_an_age_or_a_reason() -> None:
    """A null is unknown with its reason; a stale figure is, too."""
    document = document_of(Checked("a", "b", NOW, [], OUTLOOK), None)
    certain, possible, rereads, seconds = view_of(document, NOW + timedelta(seconds=40)).figures
    assert (certain.value, certain.age, certain.why) == ("0 records", "40 s ago", "")
    assert (possible.value, possible.why) == ("unknown", "not read")
    assert (rereads.value, rereads.why) == ("unknown", "no run")
    assert (seconds.value, seconds.age) == ("12.5 s", "by the last runs, 40 s ago")
    assert {figure.value for figure in view_of(document, NOW + timedelta(hours=1)).figures} == {"unknown"}


def test_a_figure_without_a_time_is_unknown() -> None:
    """Nobody knows how old it is."""
    document = document_of(Checked("a", "b", NOW, [], Outlook(certain=5)), None)
    assert view_of(document, NOW).figures[0].value == "unknown"


def test_drills() -> None:
    """Never, due, overdue."""
    bare = view_of(document_of(Checked("a", "b", NOW, [], OUTLOOK), None), NOW)
    assert bare.last_drill == "never" and not bare.drill_overdue
    for days, overdue in ((92.0, False), (9.0, True)):
        view = view_of(document_of(Checked("a", "b", NOW, [], OUTLOOK, drill=DRILL, drill_days=days), None), NOW)
        assert view.last_drill == "canary, passed, 10 days ago (failover_drill-1)"
        assert view.drill_overdue == overdue == view.next_drill.startswith("overdue")


def test_no_document_is_unknown() -> None:
    """Not green, and no figure."""
    view = view_without("no check")
    assert (view.look, view.figures, view.last_drill) == ("unknown", (), "unknown")
