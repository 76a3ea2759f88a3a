"""The report of a period lists every procedure, what is overdue and what is open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.drill.period import UNREADABLE, PeriodRow, ReportPeriod, period_document, read_row
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import evidence_with, full_story, good_facts

JANUARY, DECEMBER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
YEAR = ReportPeriod(JANUARY, DECEMBER)


def row(day: int, name: str = "", **changes: Any) -> PeriodRow:
    """A procedure that ended on a day of the year."""
    evidence = {
        **evidence_with(None, dag_id="planned_failover"),
        "closed_at": (JANUARY + timedelta(days=day)).isoformat(),
    }
    evidence |= {"procedure_id": name or f"p-{day}", **changes}
    return read_row(evidence, "folder")


def drill(day: int, due: int | None, name: str, **changes: Any) -> PeriodRow:
    """A drill that ended on a day of the year, after which the next was due on another."""
    next_due = None if due is None else (JANUARY + timedelta(days=due)).isoformat()
    section = {**drill_section(full_story()), "next_due": next_due}
    return row(day, name, dag_id="failover_drill", drill=section, **changes)


def test_each_procedure_is_in_the_group_of_what_it_was() -> None:
    """Drills, moves, refusals, others; in the order in which they ended."""
    rows = [
        row(9, "back", dag_id="failback"),
        row(3, "refused", outcome="refused"),
        row(2, "restore", dag_id="restore_group_offsets"),
        row(1, "returned", outcome="returned"),
        drill(5, 97, "drill"),
    ]
    told = period_document(rows, YEAR)
    groups = {
        group: [one["procedure_id"] for one in told[group]] for group in ("drills", "moves", "refusals", "others")
    }
    assert groups == {
        "drills": ["drill"],
        "moves": ["returned", "back"],
        "refusals": ["refused"],
        "others": ["restore"],
    }


def test_only_what_ended_in_the_period_is_listed() -> None:
    """But a drill before it says when the next one was due."""
    rows = [drill(-40, 52, "before"), row(-1, "old"), row(1, "within"), row(400, "after")]
    told = period_document(rows, YEAR)
    assert [one["procedure_id"] for one in told["moves"]] == ["within"] and told["drills"] == []
    (flow,) = told["flows"]
    assert (flow["last"], flow["overdue"]) == ("before", True)


@pytest.mark.parametrize(("due", "overdue"), [(97, True), (400, False), (None, None)])
def test_a_drill_is_overdue_by_its_own_date(due: int | None, overdue: bool | None) -> None:
    """At the end of the period; a date that is not known makes it unknown."""
    (flow,) = period_document([drill(5, due, "drill")], YEAR)["flows"]
    assert flow["overdue"] is overdue


def test_a_flow_without_any_drill_is_overdue() -> None:
    """A flow that is watched and was never drilled is listed."""
    (flow,) = period_document([], YEAR, [("primary", "standby")])["flows"]
    assert (flow["last"], flow["overdue"]) == (None, True)


def test_a_drill_that_came_late_is_named_with_its_days() -> None:
    """Also if a later one was in time again."""
    rows = [drill(5, 97, "one"), drill(107, 199, "two"), drill(190, 400, "three")]
    (flow,) = period_document(rows, YEAR)["flows"]
    assert (list(flow["late"]), flow["overdue"]) == ([{"procedure_id": "two", "days": 10.0}], False)


def test_open_findings_are_those_of_the_last_drill_of_each_flow() -> None:
    """With owner and date, and whether the date is over."""
    rows = [drill(5, 97, "one"), drill(50, 97, "two")]
    found = period_document(rows, ReportPeriod(JANUARY, datetime(2027, 2, 1, tzinfo=UTC)))["open_findings"]
    assert {one["drill"] for one in found} == {"two"} and len(found) == 3
    assert {one["owner"]: one["overdue"] for one in found} == {"Ines Example": True, None: False}


def test_a_report_is_limited_to_one_flow() -> None:
    """By source, by target, or by both."""
    rows = [row(1, "there"), row(2, "back", source="standby", target="primary")]
    told = period_document(rows, ReportPeriod(JANUARY, DECEMBER, source="standby"))
    assert [one["procedure_id"] for one in told["moves"]] == ["back"]
    assert period_document(rows, ReportPeriod(JANUARY, DECEMBER, "standby", "third"))["moves"] == []


def test_changed_evidence_is_named() -> None:
    """The digest does not fit the content any more."""
    evidence = evidence_with(drill_section(good_facts()))
    assert read_row(evidence, "f").intact and not read_row({**evidence, "outcome": "failed"}, "f").intact
    assert period_document([read_row({**evidence, "reason": "x"}, "f")], YEAR)["changed"] == ["f"]


def test_achieved_and_objectives_are_told_in_words() -> None:
    """Of a drill its own, of a move those of its evidence."""
    assert drill(5, None, "d").achieved == "downtime 5 min 41 s; 40 records certainly lost"
    assert "RTO 5 min 00 s: breached" in drill(5, None, "d").objectives
    met = {
        "verdicts": {"rto_seconds": {"verdict": "met", "reason": ""}},
        "downtime_seconds": 3.0,
        "lost_records": {"certain": 0, "possible": None},
    }
    assert row(1, achieved=met).achieved == "downtime 3 s; 0 records certainly lost, no bound on records possibly"
    assert list(row(1, achieved=met).objectives) == ["RTO 5 min 00 s: met"]


BROKEN: list[Any] = [
    None,
    [],
    7,
    {},
    {"closed_at": "yesterday"},
    {**evidence_with(None), "drill": {"kind": "canary"}},
    {**evidence_with(None), "seconds": 5},
    {**evidence_with(None), "closed_at": "2026-01-01T00:00:00"},
]


@pytest.mark.parametrize("document", BROKEN)
def test_what_is_no_evidence_raises_what_the_command_catches(document: Any) -> None:
    """Whatever its form; nothing else escapes."""
    with pytest.raises(UNREADABLE):
        read_row(document, "f")


def test_a_drill_says_until_when_it_is_kept_and_by_whose_clock_it_ended() -> None:
    """Evidence of a version that did not state either has neither."""
    (told,) = period_document([drill(5, 97, "drill")], YEAR)["drills"]
    assert told["kept_until"] == "2031-11-27T02:11:40+00:00" and "PostgreSQL" in told["clock"]
    old = row(1, "old", clock=None)
    assert old.kept_until is old.clock is None


def test_rows_digest_is_that_of_the_evidence() -> None:
    """The check is the one of verify_evidence, not one of its own."""
    evidence = evidence_with(None)
    assert evidence["digest"] == digest_of({name: value for name, value in evidence.items() if name != "digest"})
