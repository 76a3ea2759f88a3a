"""A flow's readiness document as a page shows it, with the age of every figure.

Invariants
1. Green (`good`) is only VERIFIED, of a check that is not too old.
2. A figure that is unknown or stale is shown as unknown, with the reason; never as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafka_dr.domain.plain_text import Shown, first_of, format_age, format_duration, parse_moment, shorten_text
from kafka_dr.domain.readiness.readiness import CHECKS
from kafka_dr.domain.readiness.state import State
from kafka_dr.domain.runbook_pages import page_of_finding

_FINDINGS_SHOWN, _LONGEST_FINDING, _LONGEST_REASON = 25, 400, 300
#: Look of a state on the page: each has a colour of its own, and unknown is neither good nor bad.
_LOOKS = {
    State.VERIFIED: "good",
    State.NEEDS_VERIFICATION: "needs",
    State.UNKNOWN: "unknown",
    State.NOT_VERIFIED: "bad",
}
_FIGURES = {
    "certain": "certainly lost",
    "possible": "possibly lost, at most",
    "rereads": "read again, at most",
    "seconds": "clients stopped for about",
}
_CHECK_NAMES = frozenset(check.__name__ for check in CHECKS)


@dataclass(frozen=True)
class FigureView:
    """One figure of a failover that would begin now.

    Attributes:
        name: what the figure counts.
        value: the figure as text; "unknown" if it is not known or too old.
        age: how old the figure is, as text; "" if unknown.
        why: why the figure is unknown; "" for a known one.
    """

    name: str
    value: str
    age: str = ""
    why: str = ""


@dataclass(frozen=True)
class FindingView:
    """One finding: its severity, text, since when it is there, and the runbook heading that explains it."""

    severity: str
    id: str
    text: str
    since: str
    page: str


@dataclass(frozen=True)
class ReadinessView:
    """Readiness of a flow at the time of the page.

    Attributes:
        label: the state in words.
        look: `good`, `needs`, `unknown`, `bad` or `rest` (the flow rests, because the opposite flow is in use).
        reason: the first reason of the state, or why there is none.
        checked: when the last check ended, as text; "" without a check.
        stale: whether the last check is too old to be taken for the present, or clients were moved since.
        advice: what to do about a stale check; "" if it is not stale.
        figures: figures of a failover that would begin now; () without a check.
        last_drill, next_drill: the newest drill and when the next one is due, as text.
        drill_overdue: whether the next drill was due before now.
    """

    label: str
    look: str
    reason: str
    checked: str = ""
    stale: bool = False
    advice: str = ""
    figures: tuple[FigureView, ...] = ()
    findings: Shown = field(default_factory=lambda: Shown([], 0))
    last_drill: str = "unknown"
    next_drill: str = "unknown"
    drill_overdue: bool = False


def view_without(why: str) -> ReadinessView:
    """Return the readiness of a flow of which no document can be shown, for the reason `why`."""
    return ReadinessView("UNKNOWN", "unknown", why)


def view_of(
    document: Mapping[str, Any], now: datetime, changed: datetime | None = None, void: str = ""
) -> ReadinessView:
    """Return what a page shows of a readiness document.

    Args:
        document: what readiness_check wrote.
        now: the journal's time, in UTC.
        changed: when clients were last stopped or moved; None: never.
        void: what to do about that for which no check counts now, however young; "" if checks count.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: the document does not have the form that readiness_check
            writes.
    """
    checked, ends = _moment(document["checked_at"]), _moment(document["stale_after"])
    overtaken = changed is not None and checked < changed
    stale, state = now > ends or overtaken or bool(void), State(document["state"])
    rests = bool(document["at_rest"]) and not stale
    age = format_age((now - checked).total_seconds())
    reasons = [str(reason) for reason in document["reasons"]]
    reason = shorten_text(reasons[0], _LONGEST_REASON) if reasons else ""
    if stale:
        reason = f"The last check ended {age} and said {state.value}; it says nothing about now."
    overdue = document["next_drill_due"] is not None and _moment(document["next_drill_due"]) < now
    return ReadinessView(
        label="AT REST" if rests else "UNKNOWN" if stale else state.value.replace("_", " "),
        look="rest" if rests else "unknown" if stale else _LOOKS[state],
        reason=reason,
        checked=age,
        stale=stale,
        advice=void or _advice(stale, overtaken),
        figures=tuple(_figure(name, document["if_now"], now, stale) for name in _FIGURES),
        findings=_findings(document, now),
        last_drill=_last_drill(document["last_drill"], now),
        next_drill=_next_drill(document, now, overdue=overdue),
        drill_overdue=overdue,
    )


def _advice(stale: bool, overtaken: bool) -> str:
    if overtaken:
        return "Clients were stopped or moved since: wait for the next check, or trigger the DAG readiness_check."
    return "Unpause the DAG readiness_check, and read the log of its task check_flows." if stale else ""


def _moment(text: Any) -> datetime:
    moment = parse_moment(text)
    if moment is None:
        raise ValueError(f"{text!r} is no time")
    return moment


def _figure(name: str, outlook: Mapping[str, Any], now: datetime, stale: bool) -> FigureView:
    value, title = outlook[name], _FIGURES[name]
    if value is None:
        return FigureView(title, "unknown", why=str(outlook["unknown"].get(name, "nothing states it")))
    known = format_duration(float(value)) if name == "seconds" else f"{int(value):,} record{'' if value == 1 else 's'}"
    at = parse_moment(outlook["at"].get(name))
    if at is None:
        return FigureView(title, "unknown", why="its time is not known")
    age = format_age((now - at).total_seconds())
    if stale:
        return FigureView(title, "unknown", why=f"{known} {age}, which says nothing about now")
    # Loss is measured by each check; re-reads and seconds are those of the flow's last runs.
    return FigureView(title, known, f"by the last runs, {age}" if name in ("rereads", "seconds") else age)


def _findings(document: Mapping[str, Any], now: datetime) -> Shown:
    shown = first_of(document["findings"], _FINDINGS_SHOWN)
    views = [
        FindingView(
            severity=str(finding["severity"]),
            id=str(finding["id"]),
            text=shorten_text(finding["text"], _LONGEST_FINDING),
            since=_since(_moment(finding["since"]), now),
            page=page_of_finding(str(finding["id"]), _CHECK_NAMES),
        )
        for finding in shown.rows
    ]
    return Shown(views, shown.total)


def _since(moment: datetime, now: datetime) -> str:
    return f"since {moment:%Y-%m-%d %H:%M} UTC, {format_age((now - moment).total_seconds())}"


def _last_drill(drill: Mapping[str, Any] | None, now: datetime) -> str:
    if drill is None:
        return "never"
    ended = format_age((now - _moment(drill["ended_at"])).total_seconds())
    return f"{drill['kind']}, {drill['verdict']}, {ended} ({drill['procedure_id']})"


def _next_drill(document: Mapping[str, Any], now: datetime, *, overdue: bool) -> str:
    if document["next_drill_due"] is None:
        return "as soon as possible: no drill has shown that a failover works"
    due = _moment(document["next_drill_due"])
    if overdue:
        return f"overdue: it was due {format_age((now - due).total_seconds())}"
    return f"due {due:%Y-%m-%d}"
