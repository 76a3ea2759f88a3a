"""The failures of a run, and the operator's next steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.evidence.fields import Evidence, excluded_rows, figures_by_step, step_done
from kafka_dr.domain.evidence.whereabouts import lost_records
from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.plain_text import count_of, format_moment, shorten_text
from kafka_dr.vocabulary import Outcome, Step


def failures_of(e: Evidence) -> list[dict[str, str]]:
    """Return what stopped the run: the failing step's last failure and, if the run failed, return_to_source's last.

    Empty for a completed run; the reason for the outcome stands for a failure that no step recorded.
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
    first = [*_lost_to_do(e), *_excluded_to_do(e)]
    if e["outcome"] == Outcome.COMPLETED:
        return [*first, *_completed_to_do(e)] or ["Nothing."]
    if e["outcome"] == Outcome.FAILED:
        return _failed_to_do(e)
    return [*_advice_of(e, e["failing_step"]), _returned_to_do(e)]


def _returned_to_do(e: Evidence) -> str:
    if not e.get("continues"):
        return "Nothing is left to undo. Start a new run when the cause is mended."
    earlier = e["continues"]["procedure_id"]
    return (
        f"{earlier} holds both clusters again. When {e['source']} answers, clear return_to_source of that run: it gives"
        f" {e['source']} back. Or continue it anew, with continue_procedure={earlier}."
    )


def _advice_of(e: Evidence, step: str | None) -> list[str]:
    failure = _last_failure(e, step)
    return [shorten_text(failure["next_step"])] if failure and failure.get("next_step") else []


def _failed_to_do(e: Evidence) -> list[str]:
    if e.get("continued_by"):
        return [f"Nothing here, and clear no step of this run: see the evidence of {e['continued_by']}."]
    state = {s["id"]: s["state"] for s in e["steps"]}
    page = (
        f"What each state of a step means: runbooks/{e['dag_id']}.md, under the step's name. Mark no task as"
        " successful: that does not do its work."
    )
    if Step.RETURN_TO_SOURCE in state:
        back = (
            f"Mend what stopped {Step.RETURN_TO_SOURCE} and clear it with its downstream tasks in Airflow: it goes on"
            " from where it stopped."
        )
        return [*_advice_of(e, Step.RETURN_TO_SOURCE), back, page]
    clear = (
        f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} with its downstream tasks in Airflow:"
        " every step looks at what is there first."
    )
    if state.get(Step.OPEN_TARGET) == "done":
        return [*_advice_of(e, e["failing_step"]), clear, f"There is only forward: {e['target']} is open.", page]
    return [
        *_advice_of(e, e["failing_step"]),
        clear,
        f"Or go back: clear {Step.RETURN_TO_SOURCE}; it gives {e['source']} back to its clients.",
        page,
    ]


def _lost_to_do(e: Evidence) -> list[str]:
    if not e["loss"]:
        return []
    unread = "inventory" in (e["plan"] or {}) and not e.get("stranded")
    exact_listing = (
        [
            (
                f"When {e['source']} is back, have listed exactly what is lost: runbooks/unplanned_failover.md,"
                " assess_data_loss. A run that nobody approves does it."
            )
        ]
        if unread
        else []
    )
    return [f"Decide what becomes of what {e['target']} lacks ({lost_records(e).lower()}): see Loss.", *exact_listing]


def _excluded_to_do(e: Evidence) -> list[str]:
    count = len(excluded_rows(e))
    return [f"Look after the {count_of(count, 'group')} that were excluded: see Excluded groups."] if count else []


def _completed_to_do(e: Evidence) -> list[str]:
    started = figures_by_step(e).get(Step.START_REVERSE_REPLICATION, {}).get("started", True)
    watch = (
        [f"Leave watch_old_source unpaused: it fences {e['source']} as soon as that answers."]
        if _still_armed(e)
        else []
    )
    return (
        watch
        if started
        else [
            *watch,
            (
                f"Nothing is replicated from {e['target']} to {e['source']} now: resume that flow when a standby is"
                " wanted."
            ),
        ]
    )


def _still_armed(e: Evidence) -> bool:
    armed = figures_by_step(e).get(Step.FENCE_SOURCE, {}).get("fenced") == ARMED
    return armed and not step_done(e) & {Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE}
