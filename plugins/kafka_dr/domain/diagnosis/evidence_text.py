"""What the evidence page says of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_dr.domain.diagnosis.tree import finding_text
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.vocabulary import Step


def _figures(e: Mapping[str, Any]) -> Mapping[str, Any] | None:
    done = [
        step["figures"] for step in e["steps"] if step["id"] == Step.DIAGNOSE_REPLICATION and step["state"] == "done"
    ]
    return done[0] if done else None


def what_was_found(findings: Sequence[Mapping[str, Any]], not_asked: Mapping[str, str]) -> str:
    """Return the result of a diagnosis in one sentence: the findings' ids, or that no fault was found."""
    left_out = f"; not asked about: {first_few(list(not_asked), 20)}" if not_asked else ""
    if findings:
        return f"{count_of(len(findings), 'finding')}: {first_few([one['id'] for one in findings], 20)}{left_out}"
    return f"no fault was found{left_out}"


def diagnosis_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return sentences from the evidence `e` of a diagnosis: what was found, what was chosen, what was not asked."""
    flow, figures = f"the flow from {e['source']} to {e['target']}", _figures(e)
    if figures is None:
        return [f"No diagnosis of {flow} was made.", "Nothing was changed."]
    asked, result = len(figures["asked"]), what_was_found(figures["findings"], {})
    first = f"About {flow}: {result}."
    rest = f"{count_of(asked, 'decision tree')} were asked"
    not_asked = [f"{tree} ({why})" for tree, why in figures["not_asked"].items()]
    rest += f"; not asked: {first_few(not_asked, 11, '; ')}." if not_asked else ", which is all of them."
    choices = [one["id"] for one in figures["choices"]]
    chosen = f"Set on purpose, which may explain what somebody misses: {first_few(choices, 20)}." if choices else ""
    return [first, rest, *filter(None, [chosen]), "Nothing was changed."]


def diagnosis_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what a person does about each finding, in the order of the trees; then what was chosen."""
    figures = _figures(e)
    if figures is None:
        return ["Read why the run stopped, mend the cause, and start a new run."]
    return [finding_text(one) for one in (*figures["findings"], *figures["choices"])] or ["Nothing."]
