"""What the command `plan` shows: the plan of a procedure, and which steps are done, as text or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.actions.flow_change.planned_change import planned_change as change_of
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.readiness.plan import plan_markdown
from kafka_dr.domain.replication.change_plan import change_markdown
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import CHANGE_REPLICATION, steps_of
from kafka_dr.vocabulary import Entry, Step


def plan_text(procedure: Run) -> str:
    """Return the plan that the approver read, and each step with its state: `done`, `begun` or `-` (not begun).

    The plan of a lost source is the page on the loss. Without a plan the text says which step writes it.
    """
    done, begun = steps_begun(procedure)
    lines = [f"{step.value:<28} {_state(step, done, begun) or '-'}" for step in steps_of(procedure.identity.dag_id)]
    planning = planning_step(procedure)
    if planning not in done:
        return "\n".join([f"{procedure.id} has no plan yet: {planning.value} is not done.", "", *lines])
    if changes_flow(procedure):
        return "\n".join([change_markdown(change_of(procedure)), "", *lines])
    shown = loss_markdown if procedure.progress.without_source else plan_markdown
    move = procedure.progress.move()
    return "\n".join([shown(move.whole_plan, move.plan_digest), "", *lines])


def plan_document(procedure: Run) -> dict[str, Any]:
    """Return the plan, null as long as no step has written it, and each step with its state."""
    done, begun = steps_begun(procedure)
    plan, digest = _written_plan(procedure) if planning_step(procedure) in done else (None, None)
    dag_id = procedure.identity.dag_id
    return {
        "procedure_id": procedure.id,
        "dag_id": dag_id,
        "steps": [{"id": step.value, "state": _state(step, done, begun)} for step in steps_of(dag_id)],
        "plan": plan,
        "plan_digest": digest,
    }


def _written_plan(procedure: Run) -> tuple[Mapping[str, Any], str]:
    if changes_flow(procedure):
        change = change_of(procedure)
        return change.as_dict(), change.digest
    move = procedure.progress.move()
    return move.whole_plan, move.plan_digest


def changes_flow(procedure: Run) -> bool:
    """Whether the procedure changes a flow and moves no client."""
    return procedure.identity.dag_id == CHANGE_REPLICATION.dag_id


def planning_step(procedure: Run) -> Step:
    """Return the step that writes the procedure's plan; it depends on the DAG and on whether the source is lost."""
    if changes_flow(procedure):
        return Step.PLAN_CHANGE
    return (
        procedure.progress.planning[0]
        if procedure.progress.without_source or Step.FORECAST in steps_of(procedure.identity.dag_id)
        else Step.ASSESS_DATA_LOSS
    )


def steps_begun(procedure: Run) -> tuple[frozenset[str], frozenset[str]]:
    """Return the steps that are done, and the steps that have begun; the second set contains the first."""
    entries = procedure.journal.entries(procedure.id)
    done = frozenset(e.step for e in entries if e.kind in (Entry.OUTCOME, Entry.CLOSED))
    return done, done | frozenset(e.step for e in entries if e.kind == Entry.INTENT)


def _state(step: Step, done: frozenset[str], begun: frozenset[str]) -> str | None:
    return "done" if step in done else "begun" if step in begun else None
