"""Open a procedure: take the lease of its pair of clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_dr import __version__
from kafka_dr.actions.loss.takeover import suggest_takeover, take_over, what_is_continued
from kafka_dr.actions.readiness.shared_files import show_files
from kafka_dr.actions.record_exports import refuse_partial_exports
from kafka_dr.config.params import refuse_abandoned_start, refuse_beyond_limits
from kafka_dr.errors import LeaseLost, NotReady, Refusal
from kafka_dr.procedure.binding import bind_run
from kafka_dr.procedure.entries import Binding, LeaseTaken, ProcedureClosed, ProcedureOpened, SkippedCoolDown, TryBegun
from kafka_dr.procedure.progress import not_done
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

_ACKNOWLEDGE = (
    "or, if the move cannot wait, start a new run with the reason in acknowledge_cool_down, which the second person who"
    " approves the run sees"
)


class OpenProcedure(ProcedureStep):
    """Take the lease of both clusters; refuse if another procedure holds it, or during a cool-down.

    The param `acknowledge_cool_down`, with a reason, skips the cool-down.

    Attributes:
        cools_down: whether the procedure waits for the end of a cool-down.
    """

    cools_down = True

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Take the lease, then write the first journal entries, because every entry needs the lease's epoch."""
        if procedure.progress.done(LeaseTaken) is None:
            if procedure.progress.done(ProcedureClosed) is not None:
                raise Refusal(
                    "This run has ended",
                    "the journal records that the run was closed",
                    "Start a new run; clearing tasks of an ended run moves no client.",
                )
            refuse_beyond_limits(procedure.topology, procedure.request.deadlines)
            refuse_partial_exports(procedure)
            run = context["dag_run"]
            age = procedure.progress.now() - run.run_after.timestamp()
            refuse_abandoned_start(procedure.topology, age, cleared=bool(run.clear_number))
            procedure.refuse_open_files()
            # Before the lease, because a connection may be missing or a cluster may take seconds to answer.
            binding = bind_run(procedure)
            machine = show_files(procedure)
            epoch = _take_lease(procedure, self.cools_down)
            opening = replace(opening_entry(procedure, context, binding), opened_on=machine)
            outcome = LeaseTaken(epoch=epoch, pair=procedure.pair)
            for fact in (opening, TryBegun(attempt=1), outcome):
                procedure.journal.append(procedure.id, self.task_id, fact.kind, epoch, fact.payload())
        return {"done": self.task_id, "procedure_id": procedure.id}

    def record_failure(self, procedure: Run, error: Any) -> None:
        """Write the failure under the lease's epoch; under epoch 0 if the lease was refused."""
        epoch, fact = procedure.lease.epoch if procedure.lease.ever_held else 0, not_done(error)
        procedure.journal.append(procedure.id, self.task_id, fact.kind, epoch, fact.payload())


def _take_lease(procedure: Run, cools_down: bool) -> int:
    """Take the lease over from a continued planned run, or take a free lease; return the epoch."""
    take_over(procedure)
    acknowledged = "acknowledge_cool_down" in procedure.request.choices or not cools_down
    seconds = 0.0 if acknowledged else procedure.topology.cool_down_seconds
    try:
        return procedure.journal.take_lease(procedure.pair, procedure.id, cool_down_seconds=seconds, renew=True)
    except LeaseLost as error:
        raise suggest_takeover(procedure, error) from None
    except NotReady as error:
        raise NotReady(error.reason, error.seen, f"{error.next_step}; {_ACKNOWLEDGE}") from None


def _skipped_cool_down(procedure: Run) -> SkippedCoolDown | None:
    """Return the cool-down that this run skips, and the reason; None if it skips none.

    A run that continues a planned run skips the cool-down that the planned run skipped.
    """
    if procedure.progress.continues is not None:
        continued = procedure.require_other(procedure.progress.continues).progress.done(ProcedureOpened)
        return None if continued is None else continued.cool_down
    why = procedure.request.choices.get("acknowledge_cool_down")
    cool_down = procedure.journal.cool_down(procedure.pair, procedure.id, procedure.topology.cool_down_seconds)
    if why is None or cool_down is None:
        return None
    return SkippedCoolDown(
        cool_down.procedure_id,
        cool_down.outcome,
        cool_down.ended_at.isoformat(),
        cool_down.ends_at.isoformat(),
        str(why),
    )


def opening_entry(procedure: Run, context: Any, binding: Binding) -> ProcedureOpened:
    """Return the first journal entry of a run that begins now."""
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
        cool_down=_skipped_cool_down(procedure),
        request=request.model_dump(mode="json"),
        binding=binding,
        objectives=procedure.topology.objectives_of(request.source, request.target),
        version=__version__,
    )
