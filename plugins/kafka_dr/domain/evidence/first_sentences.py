"""The first sentences of the evidence page: how the run ended, where clients are, and what has to be done now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.drill.page import drill_sentences, drill_to_do
from kafka_dr.domain.drill.report import whole_section
from kafka_dr.domain.evidence.fields import Evidence, excluded_rows
from kafka_dr.domain.evidence.next_steps import next_steps
from kafka_dr.domain.evidence.whereabouts import client_whereabouts, placement_sentence
from kafka_dr.domain.offsets.restore_plan import restore_sentences, restore_to_do
from kafka_dr.domain.plain_text import count_of, format_moment, shorten_text
from kafka_dr.domain.re_replication.summary import re_replication_sentences, re_replication_to_do
from kafka_dr.procedures import RE_REPLICATE_TOPICS, RESTORE_GROUP_OFFSETS
from kafka_dr.vocabulary import Outcome

#: DAGs that move no client: functions for the first sentences of the page, and for what has to be done.
_LINES = {
    RESTORE_GROUP_OFFSETS.dag_id: (restore_sentences, restore_to_do),
    RE_REPLICATE_TOPICS.dag_id: (re_replication_sentences, re_replication_to_do),
}


def first_sentences(e: Evidence) -> tuple[list[str], list[str]]:
    """Return the first sentences of the page, and what has to be done now."""
    if e.get("drill"):
        drill = whole_section(e)
        return list(drill_sentences(drill)), drill_to_do(drill)
    if (told := _LINES.get(e["dag_id"])) is not None:
        return told[0](e), told[1](e)
    return [_result_sentence(e), client_whereabouts(e), placement_sentence(e)], next_steps(e)


def _result_sentence(e: Evidence) -> str:
    move = f"move all clients from {e['source']} to {e['target']}"
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    aborted = e.get("aborted_by") or {}
    return {
        Outcome.COMPLETED: f"All clients{_exclusions(e)} were moved from {e['source']} to {e['target']}.",
        Outcome.RETURNED: f"The attempt to {move} stopped{at} and was undone.",
        Outcome.REFUSED: f"The request to {move} was refused{at}, before anything was changed.",
        Outcome.ABORTED: (
            f"The attempt to {move} was aborted by"
            f" {aborted.get('by', 'an operator')}{_when(aborted)}{_because(aborted)}."
        ),
        Outcome.FAILED: f"The attempt to {move} stopped{at} and {_failed_how(e)}.",
    }[Outcome(e["outcome"])]


def _failed_how(e: Evidence) -> str:
    successor = e.get("continued_by")
    return (
        f"was continued by {successor}: the evidence of {successor} states how the move ended"
        if successor
        else f"has not ended: the procedure still holds the lease on {e['source']} and {e['target']}"
    )


def _exclusions(e: Evidence) -> str:
    excluded = len(excluded_rows(e))
    return f" but {count_of(excluded, 'excluded group')}" if excluded else ""


def _when(aborted: Mapping[str, Any]) -> str:
    return f" at {format_moment(aborted['at'])}" if aborted.get("at") else ""


def _because(aborted: Mapping[str, Any]) -> str:
    return f" ({shorten_text(aborted['reason'], 300)})" if aborted.get("reason") else ""
