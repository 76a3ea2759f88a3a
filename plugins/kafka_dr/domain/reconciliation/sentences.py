"""What the evidence page says of a comparison of both clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.plain_text import count_of, first_few, shorten_text
from kafka_dr.vocabulary import Outcome, Step

#: Kinds of differences, with the words after their numbers.
KINDS = {
    "missing": "missing on the target",
    "extra": "only on the target",
    "altered": "with another content on the target",
    "repeated": "more often on the target than on the source",
}
_SHOWN = 5


def reconcile_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return three sentences from the evidence `e` of a comparison: its result, clients, what was not judged."""
    done = _figures(e)
    return [_result(e, done), "The comparison changed nothing on either cluster.", _not_judged(e, done)]


def reconcile_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what the operator has to do now, a sentence each, from the evidence `e` of a comparison."""
    done = _figures(e)
    if done is None:
        return [shorten_text(e["reason_for_outcome"]), "Mend the cause, then start a new run."]
    to_do = []
    if any(done[kind] for kind in KINDS):
        lists = f"{done['folder']['folder']}/differences"
        to_do.append(f"Read which records differ in the Parquet files in {lists} beside this evidence.")
        to_do.append("Find the cause by the page runbooks/reconcile_clusters.md, heading compare_records.")
    absent = (_figures(e, Step.SET_BOUNDS) or {}).get("absent")
    if absent:
        to_do.append(f"Find out by diagnose_replication why {e['target']} lacks {first_few(absent)}.")
    return to_do or ["Nothing."]


def difference_warnings(done: Mapping[str, Any] | None, bounds: Mapping[str, Any] | None, target: str) -> list[str]:
    """Return a warning that both clusters differ, and one that the target lacks topics; [] if neither is so.

    Args:
        done: figures of compare_records; None if that step has no outcome.
        bounds: figures of set_bounds; likewise.
    """
    if done is None:
        return []
    differ = [f"Records differ between the source and {target}: {_counts(done)}."]
    absent = (bounds or {}).get("absent", ())
    lacks = [f"{target} lacks {count_of(len(absent), 'topic')} of the flow: {first_few(absent)}."]
    return differ * any(done[kind] for kind in KINDS) + lacks * bool(absent)


def _figures(e: Mapping[str, Any], step: Step = Step.COMPARE_RECORDS) -> Mapping[str, Any] | None:
    figures = {one["id"]: one["figures"] for one in e["steps"] if one["state"] == "done"}
    found: Mapping[str, Any] | None = figures.get(step)
    return found


def _result(e: Mapping[str, Any], done: Mapping[str, Any] | None) -> str:
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    if done is None or e["outcome"] != Outcome.COMPLETED:
        return f"The comparison of {e['source']} with {e['target']} stopped{at}."
    compared = f"{count_of(done['equal'], 'record')} of {e['source']} were found on {e['target']}"
    if not any(done[kind] for kind in KINDS):
        return f"{compared}, and no record differs."
    differing = [f"{row['topic']}-{row['partition']}" for row in done["partitions_that_differ"]]
    more = done["differing"] - len(differing)
    named = first_few(differing, _SHOWN) if not more else f"{', '.join(differing[:_SHOWN])} and others"
    return f"{compared}; others differ on {count_of(done['differing'], 'partition')} ({named}): {_counts(done)}."


def _counts(done: Mapping[str, Any]) -> str:
    return ", ".join(f"{done[kind]:,} {words}" for kind, words in KINDS.items() if done[kind])


def _not_judged(e: Mapping[str, Any], done: Mapping[str, Any] | None) -> str:
    if done is None:
        return "No record was judged."
    left = {
        "behind": f"had not been proven to be on {e['target']} yet",
        "older": f"stand on {e['target']} alone, and {e['source']} may have deleted their originals",
        "cut": f"stand on {e['source']} alone, and {e['target']} may have deleted their copies",
        "superseded": "of compacted topics are not the latest of their key",
    }
    parts = [f"{count_of(done[name], 'record')} {words}" for name, words in left.items() if done[name]]
    return f"Not judged: {'; '.join(parts)}." if parts else "Every record between the bounds was judged."
