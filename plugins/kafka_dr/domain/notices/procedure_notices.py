"""The notices that are due about one procedure, by its journal entries and the time alone.

Invariants
1. Entries that are read again give the same notices, under the same ids.
2. An entry that is added changes no id of an event before it.
3. A gate that was answered, and a fence that is over, give no notice any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from kafka_dr.domain.evidence.live_status import deadline_of, fence_of
from kafka_dr.domain.evidence.warnings import comparison_warnings
from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedure.entries import (
    Line,
    MoveContested,
    OldSourceAnswers,
    ProcedureClosed,
    ProcedureOpened,
    ProducersFenced,
    QuestionAsked,
    SourceFenced,
    continued_by,
    facts_of,
    newest_fact,
    was_left_open,
)
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Entry, Outcome, Step

DRILL = "failover_drill"
#: Entries of these steps continue no procedure that has ended.
_AFTER_THE_END = (Step.CLOSE_PROCEDURE, Step.WATCH_OLD_SOURCE)
_WHAT_TO_DO = {
    Event.COMPLETED: "Nothing is left to do.",
    Event.RETURNED: "Clients are back on the source. Correct the cause, then start a new run.",
    Event.REFUSED: "No cluster was changed. Correct the cause, then start a new run.",
    Event.ABORTED: "The run was rolled back. Nothing is left to do.",
    Event.FAILED: (
        "The procedure stopped in the middle and still holds the pair of clusters: open the page of the failing step"
        " now."
    ),
    Event.CLUSTERS_DIFFER: "Read in the run's evidence which records and topics differ, and find the cause.",
    Event.DRILL_FAILED: "Read the findings in the drill's evidence; the drill must be repeated.",
}


def procedure_notices(procedure_id: str, lines: Sequence[Line], now: datetime) -> list[Notice]:
    """Return all notices about a procedure that are due at `now`, in no particular order.

    Args:
        lines: journal entries of the procedure, and of the watcher about this procedure, in the journal's order.
    """
    opened = newest_fact(lines, ProcedureOpened)
    if opened is None:
        return []
    found = [*_endings(lines, opened), *_seen_by_watcher(lines, opened)]
    if not _is_over(lines):
        found += [*_gates(lines, opened, now), *_fence(lines, opened, now)]
    return [
        replace(notice, id=f"{procedure_id}/{notice.id}", dag_id=opened.dag_id, run_id=opened.run_id)
        for notice in found
    ]


def _is_over(lines: Sequence[Line]) -> bool:
    """Whether the procedure has ended, or its clusters were passed to a run that continues it."""
    last = next((line for line in reversed(lines) if line.step != Step.WATCH_OLD_SOURCE), None)
    return continued_by(lines) is not None or (last is not None and last.step == Step.CLOSE_PROCEDURE)


# -- gates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """A question that was asked: its number among the gate's questions, and whether it still waits for an answer."""

    gate: str
    number: int
    at: datetime
    fact: QuestionAsked
    open: bool


def _questions(lines: Iterable[Line]) -> list[_Asked]:
    """Return the questions of all gates.

    A gate that was killed asks the same question again: that is one question, until the gate writes what became of it.
    """
    found: dict[str, list[_Asked]] = {}
    for line in lines:
        if line.step not in GATES:
            continue
        asked = found.setdefault(line.step, [])
        fact = newest_fact([line], QuestionAsked)
        if fact is not None and not (asked and asked[-1].open):
            asked.append(_Asked(line.step, len(asked) + 1, line.at, fact, open=True))
        elif line.kind != Entry.INTENT and asked:
            asked[-1] = replace(asked[-1], open=False)
    return [one for asked in found.values() for one in asked]


def _gates(lines: Sequence[Line], opened: ProcedureOpened, now: datetime) -> Iterator[Notice]:
    fence = fence_of(lines, opened.source, opened.target, now)
    returns_at = fence.returns_at if fence else None
    going_back = any(line.step in (Step.RETURN_TO_SOURCE, Step.ABORT_PROCEDURE) for line in lines)
    for asked in _questions(lines):
        until = asked.at + timedelta(seconds=asked.fact.wait_seconds)
        until = min(until, returns_at) if returns_at else until
        if not asked.open or going_back or now >= until:
            continue
        notice = Notice(
            id=f"{asked.gate}/{asked.number}/{Event.GATE_OPENED}",
            event=Event.GATE_OPENED,
            flow=_flow(opened),
            at=asked.at,
            subject=f"{asked.gate} of {opened.dag_id}",
            lines=(
                f"{asked.fact.asks} {asked.fact.digest[:12]}",
                (
                    "Another person than the starter of the run must answer. Without an answer in time the run ends,"
                    " and a fence is lifted."
                ),
                *asked.fact.figures,
            ),
            until=until,
            gate=asked.gate,
        )
        yield notice
        half = asked.at + (until - asked.at) / 2
        if now >= half:
            half_id = f"{asked.gate}/{asked.number}/{Event.GATE_HALF_TIME}"
            yield replace(notice, id=half_id, event=Event.GATE_HALF_TIME, at=half)


# -- the fence ---------------------------------------------------------------------------------------------------


def _fence(lines: Sequence[Line], opened: ProcedureOpened, now: datetime) -> Iterator[Notice]:
    """Yield the notices of a fence that stands; the clock of a fence starts with the first intent of its step."""
    source = opened.source
    fence = fence_of(lines, source, opened.target, now)
    if fence is None:
        yield from _fence_of_lost_source(lines, opened)
        return
    limit = deadline_of(lines, "max_fence_seconds")
    if fence.state not in ("counting", "overdue") or limit is None or fence.returns_at is None:
        return
    text = f"Clients cannot write to {source} until the target is open, or the procedure returns by itself."
    if was_left_open(lines):
        text = f"Groups that return to {opened.target} read nothing until it is open; other clients of {source} go on."
    notice = Notice(
        id=Event.FENCE_ON,
        event=Event.FENCE_ON,
        flow=_flow(opened),
        at=fence.returns_at - timedelta(seconds=limit),
        subject=f"clients are fenced from {source}",
        lines=(text,),
        until=fence.returns_at,
    )
    if newest_fact(lines, ProducersFenced) is not None:
        yield notice
    half = notice.at + timedelta(seconds=limit / 2)
    if now >= half:
        yield replace(notice, id=Event.FENCE_HALF_TIME, event=Event.FENCE_HALF_TIME, at=half)


def _fence_of_lost_source(lines: Sequence[Line], opened: ProcedureOpened) -> Iterator[Notice]:
    fenced = next(((line, fact) for line, fact in facts_of(lines, SourceFenced) if fact.fenced != ARMED), None)
    if fenced is not None:
        text = f"{opened.source} was given up and refuses clients ({fenced[1].fenced}). This fence has no time limit."
        yield _once(Event.FENCE_ON, opened, fenced[0], f"clients are fenced from {opened.source}", text)


# -- ends, and what the watcher saw --------------------------------------------------------------------------------


def _endings(lines: Sequence[Line], opened: ProcedureOpened) -> Iterator[Notice]:
    """Yield a notice for each end: a failed procedure that a person continues ends again.

    A step close_procedure that was killed may write the same end again: that is one end.
    """
    number, continued = 0, True
    for line in lines:
        closed = newest_fact([line], ProcedureClosed)
        if closed is None:
            continued = continued or line.step not in _AFTER_THE_END
            continue
        if not continued:
            continue
        number, continued = number + 1, False
        differ = comparison_warnings(lines, opened.target) if closed.outcome == Outcome.COMPLETED else []
        is_failed_drill = opened.dag_id == DRILL and closed.outcome == Outcome.FAILED
        event = Event.DRILL_FAILED if is_failed_drill else Event.CLUSTERS_DIFFER if differ else Event(closed.outcome)
        cause = f" at {closed.failing_step}" if closed.failing_step else ""
        yield Notice(
            id=f"{number}/{event}",
            event=event,
            flow=_flow(opened),
            at=line.at,
            subject=f"{opened.dag_id}{cause}",
            lines=(
                f"{opened.dag_id} ended as {closed.outcome}: {closed.reason_for_outcome}",
                *differ,
                _WHAT_TO_DO[event],
            ),
        )


def _seen_by_watcher(lines: Sequence[Line], opened: ProcedureOpened) -> Iterator[Notice]:
    for line, answers in islice(facts_of(lines, OldSourceAnswers), 1):
        text = (
            f"{opened.source}, which clients left for {opened.target}, answers since {answers.answers_since}. The"
            " watcher fences it now; until then it may accept writes. Keep clients away from it."
        )
        yield _once(Event.SOURCE_CAME_BACK, opened, line, f"{opened.source} answers again", text)
    for line, contested in islice(facts_of(lines, MoveContested), 1):
        seen = f"Seen: {first_few(contested.contested, 3)}."
        advice = "The watcher acts no more on these clusters. Find the program that does it and stop this program."
        yield _once(Event.CONTESTED, opened, line, f"somebody undoes the move to {opened.target}", seen, advice)


def _once(event: Event, opened: ProcedureOpened, line: Line, subject: str, *text: str) -> Notice:
    """Return the notice of an event that a procedure has at most once."""
    return Notice(event, event, _flow(opened), line.at, subject, text)


def _flow(opened: ProcedureOpened) -> str:
    return f"{opened.source}->{opened.target}"
