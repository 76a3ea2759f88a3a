"""What the evidence page says of a run of re_replicate_topics: three sentences, and what has to be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.plain_text import count_of, first_few, shorten_text
from kafka_dr.vocabulary import Outcome, Step


def re_replication_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return three sentences from the evidence `e` of a run: on its outcome, on clients, on records."""
    plan = e["plan"] or {}
    topics = first_few([topic["topic"] for topic in plan.get("copied_topics", ())], 5) or "topics"
    work, at = f"copy {topics} from {e['source']} to {e['target']} again", f" at {e['failing_step'] or 'a task'}"
    result = {
        Outcome.COMPLETED: f"Every record of {topics} was copied from {e['source']} to {e['target']} again.",
        Outcome.REFUSED: f"The request to {work} was refused{at}, before anything was changed.",
        Outcome.RETURNED: f"The attempt to {work} stopped{at} and was undone: replication runs as before.",
        Outcome.ABORTED: f"The attempt to {work} was aborted and undone: replication runs as before.",
    }.get(Outcome(e["outcome"]), f"The attempt to {work} stopped{at}: {e['target']} may lack records of these topics.")
    return [result, "No client was moved or stopped, and no fence was changed.", _copies_sentence(e)]


def _figures(e: Mapping[str, Any], step: Step) -> Any:
    return next((row["figures"] for row in e["steps"] if row["id"] == step and row["state"] == "done"), None)


def _copies_sentence(e: Mapping[str, Any]) -> str:
    verified, placed = _figures(e, Step.VERIFY_COPIES), _figures(e, Step.PLACE_TARGET_GROUPS)
    if verified is None:
        return "The copies were not compared."
    repeated = f", and {count_of(verified['repeats'], 'copy is repeated')}" if verified["repeats"] else ""
    deleted = verified["deleted"]
    gone = f"; copies of {count_of(deleted, 'record')} were deleted by the target's retention" if deleted else ""
    groups = f"; {count_of(placed['positions'], 'position')} of groups were read back" if placed else ""
    return (
        f"{count_of(verified['records'], 'record')} of {count_of(verified['partitions'], 'partition')} were compared"
        f" with their copies, record by record{repeated}{gone}{groups}."
    )


def re_replication_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what the operator has to do now, a sentence each, from the evidence `e` of a run."""
    if e["outcome"] == Outcome.COMPLETED:
        return _foreign_writer(e) or ["Nothing."]
    if e["outcome"] == Outcome.FAILED:
        return [
            shorten_text(e["reason_for_outcome"]),
            (
                f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} with its downstream tasks in"
                f" Airflow: the step continues where it stopped. Until then {e['target']} may lack records, and a"
                " failover is refused, because the run still holds the pair of clusters."
            ),
        ]
    return [shorten_text(e["reason_for_outcome"]), "Mend the cause, then start a new run, which plans again."]


def _foreign_writer(e: Mapping[str, Any]) -> list[str]:
    foreign = (_figures(e, Step.VERIFY_COPIES) or {}).get("foreign")
    if not foreign:
        return []
    return [
        (
            f"Another client wrote to the topics on {e['target']} while they were copied: {first_few(foreign)}. Find"
            " out which client that is, and stop it. Then start a new run, which deletes its records."
        )
    ]
