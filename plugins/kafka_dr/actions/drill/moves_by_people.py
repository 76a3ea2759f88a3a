"""The moves of a full drill: ordinary runs that people start and approve, followed by the drill in the journal."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from kafka_dr.procedure.entries import GateApproved, PassEnded, ProcedureClosed, ProcedureOpened, facts_in, facts_of
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.procedures import FAILBACK, PLANNED_FAILOVER
from kafka_dr.vocabulary import Entry, Outcome, Step

#: Steps of a full drill that follow a move: the DAGs that may make it, and whether it goes back.
_MOVES = {
    Step.RUN_PLANNED_FAILOVER: ((PLANNED_FAILOVER.dag_id,), False),
    Step.RUN_FAILBACK: ((FAILBACK.dag_id, PLANNED_FAILOVER.dag_id), True),
}


def follow_move(procedure: Run, step: str) -> PassEnded:
    """Return how the first move that people started for the drill's step ended.

    Raises:
        NotYet: people have not started it, or it has not ended.
    """
    if step not in _MOVES:
        return PassEnded(ran=False, why_not="a full drill moves the real clients there and back once")
    dags, back = _MOVES[Step(step)]
    request = procedure.request
    ends = (request.target, request.source) if back else (request.source, request.target)
    begun = procedure.progress.began(Step.RUN_PLANNED_FAILOVER) or procedure.progress.clock(step)
    entries = procedure.journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED)
    for entry, opened in facts_of(entries, ProcedureOpened):
        if entry.at.timestamp() < begun or opened.dag_id not in dags or (opened.source, opened.target) != ends:
            continue
        name = Identity(opened.dag_id, opened.run_id).procedure_id
        closed = facts_in(procedure.journal.entries(name, Step.CLOSE_PROCEDURE, Entry.CLOSED), ProcedureClosed)
        if not closed:
            raise NotYet(f"{name} has not ended")
        if closed[-1].outcome == Outcome.REFUSED:
            continue
        return PassEnded(
            ran=True,
            pass_outcome=closed[-1].outcome,
            pass_reason=closed[-1].reason_for_outcome[:2_000],
            pass_procedure=name,
            evidence=str(Path(procedure.topology.evidence) / name / "evidence.json"),
            evidence_digest=closed[-1].digest,
        )
    raise NotYet(f"nobody has started {' or '.join(dags)} from {ends[0]} to {ends[1]}")


def notice_ends_at(procedure: Run) -> datetime | None:
    """Return when the notice time of a full drill is over; None if the drill was not announced."""
    announced = procedure.progress.facts(GateApproved, Step.ANNOUNCE_DRILL)
    if not announced:
        return None
    return datetime.fromisoformat(announced[-1].at) + timedelta(hours=procedure.flow.objectives.notice_hours)
