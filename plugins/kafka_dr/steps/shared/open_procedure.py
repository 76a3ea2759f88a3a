"""Opening a procedure: the lease."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.loss.takeover import suggest_takeover, take_over, what_is_continued
from kafka_dr.errors import LeaseLost, NotReady, Refusal
from kafka_dr.procedure.entries import (
    LeaseTaken,
    ProcedureClosed,
    ProcedureOpened,
    SkippedCoolDown,
    TryBegun,
)
from kafka_dr.procedure.progress import not_done
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

_ACKNOWLEDGE = (
    "or, if this cannot wait, start a new run that says why in acknowledge_cool_down: the second person who approves it"
    " sees it"
)


class OpenProcedure(ProcedureStep):
    """Take the pair's lease; refuse while another procedure holds it, or during an unacknowledged cool-down."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Take the lease first: before it there is no epoch to write anything under."""
        if procedure.progress.done(LeaseTaken) is None:
            if procedure.progress.done(ProcedureClosed) is not None:
                raise Refusal(
                    "This run has ended",
                    "the journal says that it was closed",
                    "Start a new run; clearing an ended one moves nobody.",
                )
            epoch = _take_lease(procedure)
            taken = LeaseTaken(epoch=epoch, pair=procedure.pair)
            for fact in (_opened(procedure, context), TryBegun(attempt=1), taken):
                procedure.journal.append(procedure.id, self.task_id, fact.kind, epoch, fact.payload())
        return {"done": self.task_id, "procedure_id": procedure.id}

    def record_failure(self, procedure: Run, error: Any) -> None:
        """A lease that was refused is written without one."""
        epoch, fact = procedure.lease.epoch if procedure.lease.ever_held else 0, not_done(error)
        procedure.journal.append(procedure.id, self.task_id, fact.kind, epoch, fact.payload())


def _take_lease(procedure: Run) -> int:
    """From the planned run that is continued, if one is; else while nobody holds it."""
    take_over(procedure)
    acknowledged = "acknowledge_cool_down" in procedure.request.choices
    seconds = 0.0 if acknowledged else procedure.topology.cool_down_seconds
    try:
        return procedure.journal.take_lease(procedure.pair, procedure.id, cool_down_seconds=seconds, renew=True)
    except LeaseLost as error:
        raise suggest_takeover(procedure, error) from None
    except NotReady as error:
        raise NotReady(error.reason, error.seen, f"{error.next_step}; {_ACKNOWLEDGE}") from None


def _cool_down(procedure: Run) -> SkippedCoolDown | None:
    """The cool-down not waited for, and why; None without one. A continued procedure has waited or explained."""
    if procedure.progress.continues is not None:
        earlier = procedure.require_other(procedure.progress.continues).progress.done(ProcedureOpened)
        return None if earlier is None else earlier.cool_down
    why = procedure.request.choices.get("acknowledge_cool_down")
    found = procedure.journal.cool_down(procedure.pair, procedure.id, procedure.topology.cool_down_seconds)
    if why is None or found is None:
        return None
    return SkippedCoolDown(
        found.procedure_id, found.outcome, found.ended_at.isoformat(), found.ends_at.isoformat(), str(why)
    )


def _opened(procedure: Run, context: Any) -> ProcedureOpened:
    run = context["dag_run"]
    request = procedure.request
    queued = getattr(run, "queued_at", None) or run.start_date
    return ProcedureOpened(
        dag_id=procedure.identity.dag_id,
        run_id=procedure.identity.run_id,
        source=request.source,
        target=request.target,
        reason=request.reason,
        triggered_at=queued.isoformat() if queued else procedure.now(),
        continues=what_is_continued(procedure),
        cool_down=_cool_down(procedure),
        request=request.model_dump(mode="json"),
    )
