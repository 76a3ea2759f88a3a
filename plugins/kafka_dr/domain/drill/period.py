"""All drills and moves of a period, from evidence: the report that an auditor asks for.

Invariants
1. Evidence that cannot be read is named, with the reason; it is never left out without a word.
2. A flow without any drill is listed as overdue: a drill that never was is the worst one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.objectives.losses import records_text
from kafka_dr.domain.objectives.verdict import Measured, objective_text
from kafka_dr.domain.plain_text import format_duration, parse_moment
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Outcome

#: Version of the document's form: raised when a field changes its meaning or goes.
FORM = 1
DRILLS, MOVES, REFUSALS, OTHERS = "drills", "moves", "refusals", "others"
#: What evidence of another form raises when it is read as evidence.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class ReportPeriod:
    """A period, and the flow to which the report is limited; None: every source, every target."""

    begin: datetime
    end: datetime
    source: str | None = None
    target: str | None = None

    def is_of_flow(self, source: str, target: str) -> bool:
        """Whether the report covers a flow."""
        return self.source in (None, source) and self.target in (None, target)


@dataclass(frozen=True)
class PeriodRow:
    """One procedure, as the report lists it.

    Attributes:
        group: drills, moves, refusals or others.
        began_at: None if unknown.
        ended_at: ISO 8601 UTC.
        achieved: downtime and loss in words.
        objectives: each stated objective with its verdict, in words.
        drill: kind and verdict of a drill; None for other procedures.
        kept_until: until when a drill's evidence is kept at least; None if that is not stated.
        clock: whose clock states `ended_at`; None in evidence of versions that did not state this.
        intact: whether the evidence's digest fits its content.
        folder: the folder of its evidence.
    """

    group: str
    procedure_id: str
    dag_id: str
    source: str
    target: str
    outcome: str
    reason: str
    why: str
    began_at: str | None
    ended_at: str
    achieved: str
    objectives: Sequence[str]
    drill: Mapping[str, Any] | None
    findings: Sequence[Mapping[str, Any]]
    next_due: str | None
    kept_until: str | None
    clock: str | None
    intact: bool
    folder: str

    @property
    def flow(self) -> tuple[str, str]:
        """Source and target."""
        return self.source, self.target


@dataclass(frozen=True)
class FlowDrills:
    """The drills of one flow.

    Attributes:
        last: procedure id of the last drill up to the end of the period; None without one.
        next_due: when the next one is due; None if unknown.
        overdue: whether that is over, or no drill has ended at all; None if it is not known when one is due.
        late: drills that ended later than the one before had said: [{`procedure_id`, `days`}].
    """

    source: str
    target: str
    last: str | None
    verdict: str | None
    ended_at: str | None
    next_due: str | None
    overdue: bool | None
    late: Sequence[Mapping[str, Any]]


def read_row(evidence: Any, folder: str) -> PeriodRow:
    """Return a procedure's row; raise one of `UNREADABLE` if the document is no evidence."""
    ended = parse_moment(evidence["closed_at"])
    if ended is None:
        raise ValueError("closed_at is no time with a time zone")
    drill = evidence.get("drill") or None
    whole = (evidence.get("seconds") or {}).get("whole")
    return PeriodRow(
        group=_group(str(evidence["dag_id"]), drill, str(evidence["outcome"])),
        **{name: str(evidence[name]) for name in ("procedure_id", "dag_id", "source", "target", "outcome", "reason")},
        why=str(evidence.get("reason_for_outcome") or ""),
        began_at=None if whole is None else datetime.fromtimestamp(ended.timestamp() - whole, ended.tzinfo).isoformat(),
        ended_at=ended.isoformat(),
        achieved=_achieved((drill or evidence).get("achieved") or {}),
        objectives=_objectives(drill or evidence),
        drill=None if drill is None else {"kind": drill["kind"], "verdict": drill["verdict"]},
        findings=[dict(one) for one in (drill or {}).get("findings") or ()],
        next_due=(drill or {}).get("next_due"),
        kept_until=(drill or {}).get("kept_until"),
        clock=evidence.get("clock"),
        intact=digest_of({name: value for name, value in evidence.items() if name != "digest"}) == evidence["digest"],
        folder=folder,
    )


def _group(dag_id: str, drill: Mapping[str, Any] | None, outcome: str) -> str:
    if drill is not None:
        return DRILLS
    if outcome == Outcome.REFUSED:
        return REFUSALS
    definition = PROCEDURES.get(dag_id)
    return MOVES if definition is not None and definition.moves_clients else OTHERS


def _achieved(achieved: Mapping[str, Any]) -> str:
    downtime, lost = achieved.get("downtime_seconds"), achieved.get("lost_records") or {}
    records = Measured(lost.get("certain"), lost.get("possible"))
    parts = [f"downtime {format_duration(downtime)}" if downtime is not None else ""]
    return "; ".join(filter(None, [*parts, records_text(records) if records.least is not None else ""]))


def _objectives(told: Mapping[str, Any]) -> list[str]:
    stated, verdicts = told.get("objectives") or {}, (told.get("achieved") or {}).get("verdicts") or {}
    return [
        f"{objective_text(name, stated[name]) if stated.get(name) is not None else name}: {one['verdict']}"
        for name, one in verdicts.items()
    ]


def period_document(
    rows: Iterable[PeriodRow],
    period: ReportPeriod,
    flows: Iterable[tuple[str, str]] = (),
    unread: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the report of a period.

    Args:
        rows: of every procedure whose evidence could be read, also before the period: they say when drills were due.
        flows: further flows that are watched, so that a flow without any drill is listed.
        unread: evidence that could not be read: [{`file`, `why`}].
    """
    known = sorted(
        (row for row in rows if period.is_of_flow(*row.flow)), key=lambda row: (row.ended_at, row.procedure_id)
    )
    ended = [row for row in known if _moment(row.ended_at) <= period.end]
    within = [row for row in ended if _moment(row.ended_at) >= period.begin]
    drilled = [row for row in ended if row.group == DRILLS]
    watched = {flow for flow in flows if period.is_of_flow(*flow)} | {row.flow for row in drilled}
    by_flow = [_flow_drills(flow, [row for row in drilled if row.flow == flow], period) for flow in sorted(watched)]
    return {
        "form": FORM,
        "from": period.begin.isoformat(),
        "to": period.end.isoformat(),
        "source": period.source,
        "target": period.target,
        **{group: [asdict(row) for row in within if row.group == group] for group in (DRILLS, MOVES, REFUSALS, OTHERS)},
        "flows": [asdict(flow) for flow in by_flow],
        "open_findings": _open_findings(drilled, period),
        "changed": [row.folder for row in within if not row.intact],
        "unread": [dict(one) for one in unread],
    }


def _flow_drills(flow: tuple[str, str], drills: Sequence[PeriodRow], period: ReportPeriod) -> FlowDrills:
    """Return the drills of a flow; `drills` are in the order in which they ended."""
    last = drills[-1] if drills else None
    due = parse_moment(last.next_due) if last else None
    late = [
        {"procedure_id": after.procedure_id, "days": round(days, 1)}
        for before, after in pairwise(drills)
        if (days := _days_late(before, after)) > 0 and _moment(after.ended_at) >= period.begin
    ]
    return FlowDrills(
        *flow,
        last=last.procedure_id if last else None,
        verdict=str(last.drill["verdict"]) if last and last.drill else None,
        ended_at=last.ended_at if last else None,
        next_due=last.next_due if last else None,
        overdue=True if last is None else (None if due is None else due < period.end),
        late=late,
    )


def _days_late(before: PeriodRow, after: PeriodRow) -> float:
    due = parse_moment(before.next_due)
    return 0.0 if due is None else (_moment(after.ended_at) - due).total_seconds() / 86400


def _open_findings(drills: Sequence[PeriodRow], period: ReportPeriod) -> list[dict[str, Any]]:
    """Return the findings that the last drill of each flow left open, each with its flow and whether it is overdue."""
    last = {row.flow: row for row in drills}
    today = period.end.date().isoformat()
    return [
        {**finding, "source": row.source, "target": row.target, "drill": row.procedure_id,
         "overdue": bool(finding.get("due") and str(finding["due"]) < today)}
        for row in last.values()
        for finding in row.findings
        if finding.get("state") == "open"
    ]  # fmt: skip


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
