"""The failures of a run, and the operator's next steps, from the run's evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.evidence.fields import Evidence, excluded_rows, figures_by_step, step_done
from kafka_dr.domain.evidence.whereabouts import lost_records
from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.plain_text import count_of, format_moment, shorten_text
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.procedures import UNPLANNED_FAILOVER
from kafka_dr.vocabulary import Outcome, Step


def failures_of(e: Evidence) -> list[dict[str, str]]:
    """Return the failures that stopped the run and its rollback, each with step, reason, seen, at.

    The first is the failing step's last failure, or the reason for the outcome if no step recorded a failure. If the
    outcome is `failed`, the last failure of return_to_source follows, if it has one. [] for a completed run.
    """
    if e["outcome"] == Outcome.COMPLETED:
        return []
    failing = e["failing_step"]
    failure = _last_failure(e, failing)
    aborted = e.get("aborted_by") or {}
    without_failure = {
        "step": str(failing or "no step"),
        "reason": shorten_text(e["reason_for_outcome"]),
        "seen": "",
        "at": format_moment(aborted.get("at", "")),
    }
    return_failure = (
        _last_failure(e, Step.RETURN_TO_SOURCE)
        if failing != Step.RETURN_TO_SOURCE and e["outcome"] == Outcome.FAILED
        else None
    )
    return [
        _failure_texts(failing, failure) if failure else without_failure,
        *([_failure_texts(Step.RETURN_TO_SOURCE, return_failure)] if return_failure else []),
    ]


def _failure_texts(step: str, failure: Mapping[str, Any]) -> dict[str, str]:
    return {
        "step": str(step),
        "reason": shorten_text(failure["reason"]),
        "seen": shorten_text(failure.get("seen") or ""),
        "at": format_moment(failure["at"]),
    }


def _last_failure(e: Evidence, name: str | None) -> Mapping[str, Any] | None:
    """Return the newest failure of the step `name`; None if the step is done or has no failure."""
    failures = [
        f for step in e["steps"] if step["id"] == name and step["state"] != "done" for f in step.get("failures", [])
    ]
    return failures[-1] if failures else None


def next_steps(e: Evidence) -> list[str]:
    """Return what the operator has to do now, by the evidence, a sentence each, the most urgent first."""
    contested = [f"{e['contested']} Page: runbooks/watch_old_source.md#contested"] if e.get("contested") else []
    first = [*contested, *_lost_to_do(e), *_excluded_to_do(e)]
    if e["outcome"] == Outcome.COMPLETED:
        return [*first, *_completed_to_do(e)] or ["Nothing."]
    if e["outcome"] == Outcome.FAILED:
        return _failed_to_do(e)
    page = [_page_of(e["failing_step"])] if e["failing_step"] and e["outcome"] != Outcome.ABORTED else []
    return [*_advice_of(e, e["failing_step"]), *page, _returned_to_do(e)]


def _returned_to_do(e: Evidence) -> str:
    if not e.get("continues"):
        wait = "" if e["outcome"] == Outcome.REFUSED else " and the cool-down is over"
        if e["dag_id"] == UNPLANNED_FAILOVER.dag_id:
            return (
                f"Nothing is left to undo. Only if clients still have to leave {e['source']}: start a new run when the"
                f" cause is mended{wait}."
            )
        return f"Nothing is left to undo. Start a new run when the cause is mended{wait}."
    earlier = e["continues"]["procedure_id"]
    return (
        f"{earlier} holds both clusters again. When {e['source']} answers, clear return_to_source of {earlier}: that"
        f" step lifts the fence on {e['source']}. If {e['source']} stays lost, start a new run of unplanned_failover"
        f" with continue_procedure={earlier}."
    )


def _page_of(step: str) -> str:
    return f"Read what the messages and states of {step} mean: {page_of_failure(step)}"


def _advice_of(e: Evidence, step: str | None) -> list[str]:
    failure = _last_failure(e, step)
    return [shorten_text(failure["next_step"])] if failure and failure.get("next_step") else []


def _failed_to_do(e: Evidence) -> list[str]:
    if e.get("continued_by"):
        return [f"Clear no step of this run. Read the evidence of {e['continued_by']}, which continued this run."]
    state = {s["id"]: s["state"] for s in e["steps"]}
    no_skip = "Mark no task as successful: the mark does not do the work of the task."
    # With an open target return_to_source refuses: the step to clear is the one that failed first.
    if Step.RETURN_TO_SOURCE in state and state.get(Step.OPEN_TARGET) != "done":
        back = (
            f"Unless the message of {Step.RETURN_TO_SOURCE} names another step to clear: mend what stopped"
            f" {Step.RETURN_TO_SOURCE}, then clear {Step.RETURN_TO_SOURCE} with its downstream tasks in Airflow."
            " The step continues where it stopped."
        )
        return [*_advice_of(e, Step.RETURN_TO_SOURCE), back, _page_of(Step.RETURN_TO_SOURCE), no_skip]
    clear = (
        f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} with its downstream tasks in Airflow:"
        " a cleared step reads the present state first and repeats no act that is done."
    )
    page = [_page_of(e["failing_step"])] if e["failing_step"] else []
    if state.get(Step.OPEN_TARGET) == "done":
        forward = f"{e['target']} is open: the procedure can only go forward, not return to {e['source']}."
        return [*_advice_of(e, e["failing_step"]), clear, forward, *page, no_skip]
    return [
        *_advice_of(e, e["failing_step"]),
        clear,
        f"Or return: clear {Step.RETURN_TO_SOURCE}, which lifts the fence on {e['source']}.",
        *page,
        no_skip,
    ]


def _lost_to_do(e: Evidence) -> list[str]:
    if not e["loss"]:
        return []
    unread = "inventory" in (e["plan"] or {}) and not e.get("stranded")
    exact_listing = (
        [
            (
                f"When {e['source']} answers again, list exactly which records are lost. A second run of"
                " unplanned_failover, whose approval is rejected, makes the list:"
                " runbooks/unplanned_failover.md#the-exact-list-once-the-old-source-is-back"
            )
        ]
        if unread
        else []
    )
    return [
        f"Decide what to do about the records that {e['target']} lacks ({lost_records(e).lower()}): see Loss.",
        *exact_listing,
    ]


def _excluded_to_do(e: Evidence) -> list[str]:
    count = len(excluded_rows(e))
    return [f"Check the positions of {count_of(count, 'excluded group')}: see Excluded groups."] if count else []


def _completed_to_do(e: Evidence) -> list[str]:
    started = figures_by_step(e).get(Step.START_REVERSE_REPLICATION, {}).get("started", True)
    watch = (
        [f"Leave watch_old_source unpaused: watch_old_source fences {e['source']} as soon as {e['source']} answers."]
        if _still_armed(e)
        else []
    )
    return (
        watch
        if started
        else [
            *watch,
            (
                f"No record is replicated from {e['target']} to {e['source']} now. Resume the flow"
                f" {e['target']}->{e['source']} when you want a standby."
            ),
        ]
    )


def _still_armed(e: Evidence) -> bool:
    armed = figures_by_step(e).get(Step.FENCE_SOURCE, {}).get("fenced") == ARMED
    return armed and not step_done(e) & {Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE}
