"""Status of a running procedure: every step's state, and how long clients may still be fenced.

Invariants
1. The status follows from journal entries and the given time alone.
2. A step is done only if its newest intent, outcome, refusal or failure is an outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kafka_dr.domain.evidence.evidence import WATCHING
from kafka_dr.domain.evidence.whereabouts import unmoved_clients
from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.plain_text import format_clock, format_duration, shorten_text, time_of_day
from kafka_dr.domain.runbook_pages import page_of_failure, page_of_step
from kafka_dr.procedure.entries import (
    Line,
    MovePlanned,
    ProcedureClosed,
    ProcedureOpened,
    SourceFenced,
    SourceReturned,
    StepNotDone,
    continued_by,
    facts_of,
    newest_fact,
    was_left_open,
)
from kafka_dr.procedures import GATES, PROCEDURES, steps_of
from kafka_dr.vocabulary import Entry, Step

_SHOWN_ONLY_IF_BEGUN = (Step.ABORT_PROCEDURE, Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE)
_FAILED = (Entry.REFUSAL, Entry.FAILURE)
_STATES = {Entry.INTENT: "running"} | dict.fromkeys((Entry.OUTCOME, Entry.CLOSED, Entry.ABORT), "done")
_STATES |= dict.fromkeys(_FAILED, "failed")
_STOPPED = ": the procedure has stopped, and no step starts by itself. Its evidence names the step to clear"


@dataclass(frozen=True)
class LiveStep:
    """One step at the time of the status.

    Attributes:
        state: `not begun`, `running`, `asking` (a gate without an answer), `done`, `failed`, `no outcome` (the
            procedure ended before the step did) or `watching` (only watch_old_source).
        seconds: from the step's first journal entry until now, or until its end.
        message: text of the step's newest failure or note; empty if the step is done.
    """

    id: str
    state: str
    began: datetime | None
    seconds: float
    failures: int
    message: str


@dataclass(frozen=True)
class FenceClock:
    """How long clients have been fenced, and until when clients may stay fenced (deadline max_fence_seconds).

    Attributes:
        state: `counting`, `overdue`, `opening` (of the target), `returning` (to the source), `over` (clients work) or
            `stopped` (the procedure ended while clients were fenced).
        seconds: the clients' downtime so far.
        limit: max_fence_seconds; None if the journal does not record this deadline.
        returns_at: when the procedure returns to the source by itself; None if the procedure does not do that.
        words: text that follows `Clients fenced for 1:43`; a whole sentence in state `over`.
    """

    state: str
    seconds: float
    limit: float | None
    returns_at: datetime | None
    words: str


@dataclass(frozen=True)
class StepFailure:
    """A refusal or failure of a step.

    Attributes:
        page: the runbook heading that explains the step's failures.
        mended: whether the step is done now.
    """

    step: str
    at: datetime
    reason: str
    seen: str
    next_step: str
    page: str
    mended: bool


@dataclass(frozen=True)
class OpenQuestion:
    """A gate that waits for a person's answer, for `seconds` so far; `expires_at` is None without a deadline."""

    step: str
    seconds: float
    expires_at: datetime | None


@dataclass(frozen=True)
class ProcedureStatus:
    """One procedure at the time of the status.

    Attributes:
        outcome: None while the procedure is not closed.
        page: the runbook heading of the step that is running or asking; empty without such a step.
        fence: None if the procedure has not fenced clients. left_open: whether it leaves the source open to others.
        clients: a sentence on where clients are, for a procedure that has not fenced clients.
        question: the gate that waits for an answer; None if none waits.
        trouble: the refusal or failure that a reader has to mend; None without any.
        pairs: of a run of lost_cluster: cluster where clients go, procedure id and state of each pair's run.
        contested: what somebody undoes of this move again and again; "" if the watcher has not given up.
    """

    id: str
    dag_id: str
    run_id: str
    source: str
    target: str
    reason: str
    outcome: str | None
    page: str
    steps: list[LiveStep]
    fence: FenceClock | None
    clients: str
    question: OpenQuestion | None
    trouble: StepFailure | None
    contested: str = ""
    pairs: tuple[tuple[str, str, str], ...] = ()
    left_open: bool = False


def live_status(procedure_id: str, lines: Sequence[Line], now: datetime) -> ProcedureStatus | None:
    """Return a procedure's status at the time `now`, by its journal entries; None before open_procedure is recorded."""
    opened = newest_fact(lines, ProcedureOpened)
    if opened is None:
        return None
    outcome = _outcome(lines)
    steps = _steps(lines, now, outcome, opened.dag_id)
    fence, successor = fence_of(lines, opened.source, opened.target, now), continued_by(lines)
    if fence and (outcome or successor) and fence.state != "over":
        fence = replace(
            fence,
            state="stopped",
            returns_at=None,
            words=f": {successor} continues this procedure" if successor else _STOPPED,
        )
    return ProcedureStatus(
        procedure_id,
        opened.dag_id,
        opened.run_id,
        opened.source,
        opened.target,
        opened.reason,
        outcome=outcome,
        page=next((page_of_step(opened.dag_id, s.id) for s in steps if s.state in ("running", "asking")), ""),
        steps=steps,
        fence=fence,
        clients=f"{successor} continues this procedure: the state of {successor} says where clients are."
        if successor
        else _unfenced_clients(lines, opened, ended=bool(outcome)),
        question=_question(lines, steps, fence),
        trouble=_failure_to_show(lines, steps, ended=bool(outcome)),
        left_open=was_left_open(lines),
    )


def _outcome(lines: Sequence[Line]) -> str | None:
    """Return the outcome if the newest journal entry closes the procedure; else None.

    A journal entry after the closing entry means that a person cleared a step of a failed procedure, which runs again.
    """
    closed = newest_fact(lines[-1:], ProcedureClosed)
    return None if closed is None else closed.outcome


# -- steps -------------------------------------------------------------------------------------------------------


def _steps(lines: Sequence[Line], now: datetime, outcome: str | None, dag_id: str) -> list[LiveStep]:
    begun = {line.step for line in lines}
    ordered = [step.value for step in steps_of(dag_id) if step not in _SHOWN_ONLY_IF_BEGUN or step in begun]
    others = [step for step in dict.fromkeys(line.step for line in lines) if step not in ordered]
    steps = [_step(step, [line for line in lines if line.step == step], now, outcome) for step in [*ordered, *others]]
    return steps if outcome is None else [step for step in steps if step.state != "not begun"]


def _step(name: str, lines: Sequence[Line], now: datetime, outcome: str | None) -> LiveStep:
    state_lines = [line for line in lines if line.kind in _STATES]
    if not state_lines:
        return LiveStep(name, "not begun", None, 0.0, 0, "")
    state = _STATES[Entry(state_lines[-1].kind)]
    if state == "running":
        state = _unfinished(name) if outcome else "asking" if name in GATES else state
    until = now if state in ("running", "asking") else state_lines[-1].at
    failures = [line for line in state_lines if line.kind in _FAILED]
    return LiveStep(
        name,
        state,
        state_lines[0].at,
        max(0.0, (until - state_lines[0].at).total_seconds()),
        len(failures),
        _step_text(state, lines),
    )


def _unfinished(name: str) -> str:
    """Return the state of a step that ends without outcome: `watching` for watch_old_source, else `no outcome`."""
    return WATCHING if name == Step.WATCH_OLD_SOURCE else "no outcome"


def _step_text(state: str, lines: Sequence[Line]) -> str:
    """Return the text of a step's newest refusal, failure or note; empty without any, or if the step is done."""
    if state == "done":
        return ""
    last = next((line for line in reversed(lines) if line.kind in (*_FAILED, Entry.NOTE)), None)
    if last is None:
        return ""
    failure = newest_fact([last], StepNotDone)
    if failure is not None:
        return shorten_text(failure.reason, 300)
    figures: Mapping[str, Any] = last.payload
    return shorten_text("; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()), 300)


# -- the fence ---------------------------------------------------------------------------------------------------


def fence_of(lines: Sequence[Line], source: str, target: str, now: datetime) -> FenceClock | None:
    """Return how long a procedure has fenced clients, and until when; None if fence_producers has not begun.

    Also None if a rollback has shown that no client was touched.
    """
    began = next((line.at for line in lines if (line.step, line.kind) == (Step.FENCE_PRODUCERS, Entry.INTENT)), None)
    rolled_back, returned = (
        _newest_line(lines, Step.RETURN_TO_SOURCE, Entry.OUTCOME),
        newest_fact(lines, SourceReturned),
    )
    if began is None or (returned and not returned.touched):
        return None
    ended = rolled_back or _newest_line(lines, Step.REDIRECT_CLIENTS, Entry.OUTCOME)
    seconds = max(0.0, ((ended.at if ended else now) - began).total_seconds())
    limit = deadline_of(lines, "max_fence_seconds")
    returns_at = None if limit is None else began + timedelta(seconds=limit)
    if ended:
        return FenceClock(
            "over",
            seconds,
            limit,
            None,
            f"Clients were fenced for {format_duration(seconds)}, until {time_of_day(ended.at.isoformat())} UTC;"
            f" {_clients_now(rolled_back, source, target)}.",
        )
    state, words = _fence_state(lines, source, target, returns_at, now)
    allowed = "" if limit is None or state == "opening" else f" of {format_clock(limit)}"
    by_itself = returns_at if state in ("counting", "overdue") else None
    return FenceClock(state, seconds, limit, by_itself, allowed + words)


def _unfenced_clients(lines: Sequence[Line], opened: ProcedureOpened, *, ended: bool) -> str:
    """Return a sentence on where clients are; right only for a procedure that has not begun fence_producers.

    Args:
        ended: whether the procedure is closed: the sentence then says where clients were at its end.
    """
    source, target = opened.source, opened.target
    definition = PROCEDURES.get(opened.dag_id)
    if definition and not definition.moves_clients:
        return "This procedure moves no client."
    if definition is None or definition.needs_source:
        if ended:
            return f"This procedure ended while clients worked on {source}; it had not fenced any client."
        return f"Clients work on {source} and are not fenced."
    if _newest_line(lines, Step.RETURN_TO_SOURCE, Entry.OUTCOME):
        return f"This run moved no client. {unmoved_clients(source)}"
    if _newest_line(lines, Step.REDIRECT_CLIENTS, Entry.OUTCOME):
        return f"Clients were sent to {target}."
    if _newest_line(lines, Step.OPEN_TARGET, Entry.OUTCOME):
        sent = "clients were not sent" if ended else "clients are being sent"
        return f"The point of no return is passed: {target} is open, and {sent} to {target}."
    if _is_returning(lines):
        unfinished = f"The return to {source} has begun and is not finished."
        return unfinished if ended else f"The procedure is returning to {source}."
    if _newest_line(lines, Step.OPEN_TARGET, Entry.INTENT):
        opening = f"whether {target} was opened is unknown" if ended else f"{target} is being opened"
        return f"The point of no return is passed: {opening}."
    return _unmoved_clients(lines, opened)


def _unmoved_clients(lines: Sequence[Line], opened: ProcedureOpened) -> str:
    """Return a sentence on where clients are before open_target of an unplanned failover has begun."""
    fenced = newest_fact(lines, SourceFenced)
    if fenced is not None and fenced.fenced != ARMED:
        return f"Clients are fenced from {opened.source} until {opened.target} is open."
    if opened.continues is not None:
        earlier = opened.continues.procedure_id
        return f"Clients are as {earlier} left them: see the state of {earlier}."
    return f"This run has not fenced clients. {unmoved_clients(opened.source)}"


def _is_returning(lines: Sequence[Line]) -> bool:
    """Whether a rollback or an abort has begun; False once open_target is done.

    After open_target is done, return_to_source and abort_procedure refuse, and clients stay on the target.
    """
    if _newest_line(lines, Step.OPEN_TARGET, Entry.OUTCOME):
        return False
    begun = _newest_line(lines, Step.RETURN_TO_SOURCE, Entry.INTENT)
    return bool(begun or _newest_line(lines, Step.ABORT_PROCEDURE, Entry.ABORT))


def _clients_now(rolled_back: Line | None, source: str, target: str) -> str:
    return f"clients are back on {source}" if rolled_back else f"clients were sent to {target}"


def _fence_state(
    lines: Sequence[Line], source: str, target: str, returns_at: datetime | None, now: datetime
) -> tuple[str, str]:
    """Return `state` of a FenceClock, and the text that follows `Clients fenced for 1:43 of 10:00`."""
    if _is_returning(lines):
        return "returning", f"; the procedure is returning to {source}"
    if _newest_line(lines, Step.OPEN_TARGET, Entry.INTENT):
        opened = (
            f"is open, and clients are being sent to {target}"
            if _newest_line(lines, Step.OPEN_TARGET, Entry.OUTCOME)
            else "is being opened"
        )
        return "opening", f". The point of no return is passed: {target} {opened}"
    if returns_at is None:
        return "counting", "; the journal records no limit"
    if now < returns_at:
        return "counting", f"; at {time_of_day(returns_at.isoformat())} UTC the procedure returns to {source} by itself"
    overdue = (
        f": the time is over, and the procedure returns to {source} at its next check. If the return does not begin"
        " within a minute, trigger abort_procedure"
    )
    return "overdue", overdue


def deadline_of(lines: Sequence[Line], name: str) -> float | None:
    """Return the deadline `name` in seconds, from a plan in the journal, else the run's params; None without it."""
    plan, opened = newest_fact(lines, MovePlanned), newest_fact(lines, ProcedureOpened)
    deadlines = {**(opened.deadlines if opened else {}), **(plan.whole_plan.get("deadlines", {}) if plan else {})}
    return deadlines.get(name)


# -- people and trouble ------------------------------------------------------------------------------------------


def _question(lines: Sequence[Line], steps: Sequence[LiveStep], fence: FenceClock | None) -> OpenQuestion | None:
    asking = next((step for step in steps if step.state == "asking"), None)
    if asking is None:
        return None
    since = [line.at for line in lines if line.step == asking.id and line.kind == Entry.INTENT][-1]
    wait = deadline_of(lines, "approval_wait_seconds")
    ends = [since + timedelta(seconds=wait)] if wait is not None else []
    ends += [fence.returns_at] if fence and fence.returns_at else []
    return OpenQuestion(asking.id, asking.seconds, min(ends, default=None))


def _failure_to_show(lines: Sequence[Line], steps: Sequence[LiveStep], *, ended: bool) -> StepFailure | None:
    """Return the newest refusal or failure of a step; None without any.

    None also if the procedure has ended and this step was done by then. Once open_target is done, return_to_source only
    refuses: its refusal is shown only if no other step failed and is still not done.
    """
    done = {step.id for step in steps if step.state == "done"}
    failures = list(facts_of(lines, StepNotDone))
    if Step.OPEN_TARGET in done:
        forward = [(line, failure) for line, failure in failures if line.step != Step.RETURN_TO_SOURCE]
        failures = [(line, failure) for line, failure in forward if line.step not in done] or failures
    if not failures or (ended and failures[-1][0].step in done):
        return None
    line, failure = failures[-1]
    return StepFailure(
        line.step,
        line.at,
        shorten_text(failure.reason),
        shorten_text(failure.seen),
        shorten_text(failure.next_step),
        page=page_of_failure(line.step),
        mended=line.step in done,
    )


def _newest_line(lines: Sequence[Line], step: str, kind: str) -> Line | None:
    return next((line for line in reversed(lines) if line.step == step and line.kind == kind), None)
