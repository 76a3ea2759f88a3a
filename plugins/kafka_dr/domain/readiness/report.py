"""The readiness document of a flow: JSON that pages, alerts and other programs read.

Invariants
1. A finding keeps its `since` from check to check, and is listed once under `mended` when it is gone. A check that
   could not look at everything calls no finding mended.
2. A figure that is unknown is null, and `unknown` has the reason; it is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_dr.domain.readiness.drills import due_at
from kafka_dr.domain.readiness.movements import Movement
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding, State, state_of
from kafka_dr.procedure.entries import DrillJudged

#: Version of the document's form: raised when a field changes its meaning or goes.
FORM = 1
#: Seconds after which nobody may take a document for the present: three of the DAG's periods.
STALE_AFTER_SECONDS = 900
_MOST_CHANGES = 50


@dataclass(frozen=True)
class Outlook:
    """What a failover now would cost.

    Attributes:
        certain: records that would certainly be lost if the source were lost now.
        possible: records that would be lost at most.
        rereads: bound of one position's re-reads, seconds: the clients' downtime; both by the flow's own last runs.
        at: name of the figure -> when it was true, ISO 8601 UTC.
        unknown: name of the figure -> why it is null.
    """

    certain: int | None = None
    possible: int | None = None
    rereads: int | None = None
    seconds: float | None = None
    at: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CompletedRun:
    """The flow's newest completed run that moved clients, and for how long clients could use neither cluster."""

    procedure_id: str
    dag_id: str
    closed_at: str
    downtime_seconds: float


@dataclass(frozen=True)
class Checked:
    """What one check of a flow has found.

    Attributes:
        at: when it ended, journal's time in UTC.
        lag: `FlowLag.as_dict()`; None if the logs could not be compared.
        ages: what -> its age in seconds; None: unknown.
        certificates: what a certificate is for -> its end, in seconds since 1970.
        movements: name -> the sum that the next check compares with its own.
        complete: whether everything was looked at; otherwise what is not found may still be there.
        drill_days, retest_days: so many days after it the next drill is due, or a failed one to be repeated.
        recorder: the fields of `RecorderPace`; None if no sample states them.
        awaited: topic -> since when its creation on the target is awaited, in seconds since 1970.
        differences: how the target differs from the source for clients: `count`, and the first ones as `shown`.
        flows: what becomes of all flows if the source is lost, and what readers find then, as of `flows_section`.
        offset_option: of the flow, with the fields of `view_option`; {} if the flow was not observed.
        at_rest: whether the flow is stopped on purpose, because the opposite flow runs.
    """

    source: str
    target: str
    at: datetime
    findings: Sequence[ReadinessFinding]
    outlook: Outlook
    lag: Mapping[str, Any] | None = None
    ages: Mapping[str, float | None] = field(default_factory=dict)
    certificates: Mapping[str, float] = field(default_factory=dict)
    last_run: CompletedRun | None = None
    drill: DrillJudged | None = None
    drill_days: float = 0.0
    retest_days: float = 0.0
    movements: Mapping[str, Movement] = field(default_factory=dict)
    recorder: Mapping[str, Any] | None = None
    awaited: Mapping[str, float] = field(default_factory=dict)
    differences: Mapping[str, Any] = field(default_factory=dict)
    flows: Mapping[str, Any] = field(default_factory=dict)
    offset_option: Mapping[str, Any] = field(default_factory=dict)
    at_rest: bool = False
    complete: bool = True
    took_seconds: float = 0.0


def document_of(checked: Checked, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the readiness document.

    Args:
        before: the document of the check before; None if there is none.
    """
    known = [*(before or {}).get("findings", []), *(before or {}).get("not_looked_at", [])]
    gone = _gone(checked.findings, known)
    earlier, now, state = before or {}, checked.at.isoformat(timespec="milliseconds"), state_of(checked.findings)
    reasons = [f"{finding.id}: {finding.text}" for finding in _by_weight(checked.findings)]
    drill = checked.drill
    return {
        "form": FORM,
        "source": checked.source,
        "target": checked.target,
        "state": state.value,
        "reasons": reasons,
        "checked_at": now,
        "stale_after": (checked.at + timedelta(seconds=STALE_AFTER_SECONDS)).isoformat(timespec="milliseconds"),
        "at_rest": checked.at_rest,
        "if_now": asdict(checked.outlook),
        "last_run": None if checked.last_run is None else asdict(checked.last_run),
        "last_drill": None if drill is None else _drill(drill),
        "next_drill_due": None if drill is None else _next_drill(checked, drill),
        "findings": _findings(checked.findings, known, now),
        "mended": [{**finding, "mended_at": now} for finding in gone] if checked.complete else [],
        "not_looked_at": [] if checked.complete else gone,
        "lag": checked.lag,
        "ages": {name: None if age is None else round(age, 1) for name, age in checked.ages.items()},
        "certificates": {name: _iso(end) for name, end in sorted(checked.certificates.items())},
        "changes": _changes(earlier.get("changes", []), state, reasons, now),
        "movements": {name: asdict(movement) for name, movement in checked.movements.items()},
        "recorder": checked.recorder,
        "awaited": dict(checked.awaited),
        "differences": dict(checked.differences),
        "flows": dict(checked.flows),
        "offset_option": dict(checked.offset_option),
        "took_seconds": round(checked.took_seconds, 1),
    }


def movements_of(document: Mapping[str, Any] | None) -> dict[str, Movement]:
    """Return the sums that a check has kept for the next one, by name; {} without a document."""
    return {
        name: Movement(**{**stored, "parts": tuple(map(tuple, stored.get("parts", ())))})
        for name, stored in (document or {}).get("movements", {}).items()
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _next_drill(checked: Checked, drill: DrillJudged) -> str:
    return due_at(drill, checked.drill_days, checked.retest_days).isoformat()


def _drill(drill: DrillJudged) -> dict[str, Any]:
    return {
        "procedure_id": drill.procedure_id,
        "kind": drill.drill_kind,
        "verdict": drill.verdict,
        "ended_at": drill.ended_at,
    }


def _by_weight(findings: Iterable[ReadinessFinding]) -> list[ReadinessFinding]:
    weights = list(Gravity)
    return sorted(findings, key=lambda finding: (weights.index(finding.severity), finding.key))


def _findings(
    findings: Iterable[ReadinessFinding], before: Iterable[Mapping[str, Any]], now: str
) -> list[dict[str, Any]]:
    since = {(old["id"], old["about"]): old["since"] for old in before}
    return [
        {**asdict(finding), "severity": finding.severity.value, "since": since.get(finding.key, now)}
        for finding in _by_weight(findings)
    ]


def _gone(findings: Iterable[ReadinessFinding], before: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    present = {finding.key for finding in findings}
    return [old for old in before if (old["id"], old["about"]) not in present]


def _changes(
    before: Sequence[Mapping[str, Any]], state: State, reasons: Sequence[str], now: str
) -> list[Mapping[str, Any]]:
    if before and before[-1]["state"] == state.value:
        return list(before)
    return [*before, {"state": state.value, "at": now, "reasons": list(reasons[:3])}][-_MOST_CHANGES:]
