"""The evidence as a story: what happened, where clients are, what failed, what to do, and the pictures' figures.

Invariants
1. Everything is made of the evidence alone: the same evidence tells the same story.
2. Where the evidence does not prove that clients work, the story does not say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.evidence.fields import Evidence, excluded_rows, figures_by_step, step_done
from kafka_dr.domain.evidence.loss_chart import loss_picture
from kafka_dr.domain.evidence.next_steps import failures_of, next_steps
from kafka_dr.domain.evidence.timeline import TimeLine, client_downtime, time_line
from kafka_dr.domain.evidence.whereabouts import client_whereabouts, placement_sentence
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK
from kafka_dr.domain.loss.loss_page import what_was_listed
from kafka_dr.domain.offsets.restore_plan import restore_sentences, restore_to_do
from kafka_dr.domain.plain_text import (
    Shown,
    count_of,
    figure_lines,
    first_of,
    format_moment,
    shorten_text,
    time_of_day,
)
from kafka_dr.procedures import RESTORE_GROUP_OFFSETS
from kafka_dr.vocabulary import Outcome, Step, TranslationClass

ROWS_SHOWN = 100
GROUPS_SHOWN = 20
_FAILURES_SHOWN = 5
_MEANING: Mapping[str, str] = {
    TranslationClass.END: "everything had been read: placed at the boundary",
    TranslationClass.SYNC: "an offset sync names this very position",
    TranslationClass.CONTENT: "found by comparing the records around it on both clusters",
    TranslationClass.INTERPOLATED: "counted between two known pairs; never ahead",
    TranslationClass.NEAREST: "the nearest known pair below; never ahead",
    TranslationClass.POLICY: "no pair is known: placed as the group's policy says",
    TranslationClass.REFUSED: "the evidence contradicts itself: not placed, a person decides",
}


@dataclass(frozen=True)
class StepSummary:
    """A step that has more to tell than its time."""

    id: str
    state: str
    figures: list[tuple[str, str]]
    failures: Shown
    notes: list[list[tuple[str, str]]]


@dataclass(frozen=True)
class TimePart:
    """One part of a whole: its share in per cent."""

    name: str
    value: Any
    share: float
    kind: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class EvidenceSummary:
    """Everything the page shows.

    Attributes:
        sentences: what happened, where clients are, what became of positions and records.
        trouble: what stopped it, and what went wrong on the way back: step, reason, seen, at.
        to_do: what to do now, first things first.
        fence: how clients are kept from the source, and since when that is proven.
        listed: what was read on the source of what may be lost, when the loss was assessed.
        groups: those that MirrorMaker 2's checkpoints would have made read most again, by the forecast.
    """

    sentences: list[str]
    trouble: list[dict[str, str]]
    to_do: list[str]
    line: TimeLine | None
    still: dict[str, Any] | None
    fence: str
    split: list[TimePart]
    classes: list[TimePart]
    rereads: list[TimePart]
    rereads_of_groups: list[dict[str, Any]]
    no_checkpoint: int
    groups: Shown
    approvals: list[dict[str, Any]]
    ends: Shown
    loss: Shown
    loss_lanes: Shown
    listed: str
    repeats: Shown
    excluded: Shown
    unproven: list[str]
    steps: list[StepSummary]


def summarise_evidence(evidence: Evidence) -> EvidenceSummary:
    """The story that the evidence tells."""
    plan = evidence["plan"] or {}
    figures, restores = figures_by_step(evidence), evidence["dag_id"] == RESTORE_GROUP_OFFSETS.dag_id
    return EvidenceSummary(
        sentences=(
            restore_sentences(evidence)
            if restores
            else [_what(evidence), client_whereabouts(evidence), placement_sentence(evidence)]
        ),
        trouble=failures_of(evidence),
        to_do=restore_to_do(evidence) if restores else next_steps(evidence),
        line=time_line(evidence),
        still=_still(evidence, plan),
        fence=_fence(evidence),
        split=_split(evidence["seconds"]),
        classes=_classes(evidence["classes"]),
        rereads=_rereads(evidence["rereads"]),
        rereads_of_groups=_rereads_of_groups(figures.get(Step.TRANSLATE_OFFSETS, {}).get("rereads_by_group", [])),
        no_checkpoint=figures.get(Step.TRANSLATE_OFFSETS, {}).get("mirror_maker_missing") or 0,
        groups=first_of(sorted(plan.get("groups", []), key=_rereads_then_lag), GROUPS_SHOWN),
        approvals=[_approval(a, evidence) for a in evidence["approvals"]],
        ends=first_of(_ends(evidence, plan), ROWS_SHOWN),
        loss=first_of(evidence["loss"], ROWS_SHOWN),
        loss_lanes=loss_picture(evidence["loss"]),
        listed=what_was_listed(evidence["source"], plan.get("inventory", {})),
        repeats=first_of(sorted(evidence["repeats"].items()), ROWS_SHOWN),
        excluded=first_of(excluded_rows(evidence), ROWS_SHOWN),
        unproven=[shorten_text(note) for note in plan.get("unproven", [])],
        steps=[_step(s) for s in evidence["steps"]],
    )


# -- in three sentences ------------------------------------------------------------------------------------------


def _what(e: Evidence) -> str:
    move = f"move all clients from {e['source']} to {e['target']}"
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    aborted = e.get("aborted_by") or {}
    return {
        Outcome.COMPLETED: f"All clients{_but(e)} were moved from {e['source']} to {e['target']}.",
        Outcome.RETURNED: f"The attempt to {move} stopped{at} and was undone.",
        Outcome.REFUSED: f"The request to {move} was refused{at}, before anything was touched.",
        Outcome.ABORTED: (
            f"The attempt to {move} was aborted by"
            f" {aborted.get('by', 'an operator')}{_when(aborted)}{_because(aborted)}."
        ),
        Outcome.FAILED: f"The attempt to {move} stopped{at} and {_held(e)}.",
    }[Outcome(e["outcome"])]


def _held(e: Evidence) -> str:
    successor = e.get("continued_by")
    return (
        f"was continued by {successor}: its evidence says what became of it"
        if successor
        else "has not ended: it still holds both clusters"
    )


def _but(e: Evidence) -> str:
    left = len(excluded_rows(e))
    return f" but {count_of(left, 'excluded group')}" if left else ""


def _when(aborted: Mapping[str, Any]) -> str:
    return f" at {format_moment(aborted['at'])}" if aborted.get("at") else ""


def _because(aborted: Mapping[str, Any]) -> str:
    return f" ({shorten_text(aborted['reason'], 300)})" if aborted.get("reason") else ""


# -- what failed, and what to do ---------------------------------------------------------------------------------


# -- the pictures ------------------------------------------------------------------------------------------------


def _still(e: Evidence, plan: Mapping[str, Any]) -> dict[str, Any] | None:
    span = client_downtime(e)
    if span is None:
        return None
    limit = plan.get("deadlines", {}).get("max_fence_seconds")
    ended = time_of_day(span.ended.isoformat()) if span.ended else None
    return {"began": time_of_day(span.began.isoformat()), "ended": ended, "seconds": span.seconds, "limit": limit}


def _fence(e: Evidence) -> str:
    """Tell how clients are kept from the source; of one given up only what was proven, or said by the fence hook."""
    figures, at = figures_by_step(e), format_moment(e["fenced_at"]) if e.get("fenced_at") else ""
    fence = figures.get(Step.FENCE_SOURCE, {}).get("fenced")
    if fence == ARMED:
        return _armed(e, figures.get(Step.WATCH_OLD_SOURCE, {}).get("fenced_at"))
    if fence == BY_HOOK:
        return f"by the fence hook's word, since {at}: clients cannot reach {e['source']}"
    if fence == BY_ACL:
        return (
            f"proven at {at}, on {e['source']}"
            if at
            else f"writes are denied on {e['source']}, not proven on every broker"
        )
    return f"proven at {at}" if at else "not fenced, or not proven on every broker"


def _armed(e: Evidence, fenced_at: str | None) -> str:
    """What became of an armed fence; `fenced_at` is when the watcher had proven it, if it says so."""
    if Step.RETURN_TO_SOURCE in step_done(e):
        return f"armed until {e['source']} was given back: nobody fences it any more"
    if Step.WATCH_OLD_SOURCE in step_done(e):
        return f"{e['source']} came back, and was fenced by watch_old_source" + (
            f" at {format_moment(fenced_at)}" if fenced_at else ""
        )
    return f"armed: {e['source']} was out of reach, and watch_old_source fences it as soon as it answers"


def _split(seconds: Mapping[str, float]) -> list[TimePart]:
    parts = [("own", "own", "of our own"), ("drain", "drain", "draining"), ("people", "people", "waiting for people")]
    whole = sum(max(0.0, seconds[name]) for name, _, _ in parts) or 1.0
    return [
        TimePart(meaning, seconds[name], round(100 * max(0.0, seconds[name]) / whole, 2), kind)
        for name, kind, meaning in parts
    ]


def _classes(classes: Mapping[str, int]) -> list[TimePart]:
    order = {c.value: n for n, c in enumerate(TranslationClass)}
    whole = sum(classes.values()) or 1
    ordered = sorted(classes, key=lambda name: (order.get(name, len(order)), name))
    return [
        TimePart(
            name,
            classes[name],
            round(100 * classes[name] / whole, 2),
            name if name in order else "",
            _MEANING.get(name, ""),
        )
        for name in ordered
    ]


def _rereads(rereads: Mapping[str, int | None]) -> list[TimePart]:
    """Two bars on one scale; a figure nobody knows has none."""
    ours, theirs = rereads["bound"], rereads["mirror_maker"]
    most = max(ours or 0, theirs or 0) or 1
    told = [("Switchback", ours, "own"), ("MirrorMaker 2's checkpoints", theirs, "people")]
    return [TimePart(name, value, round(100 * (value or 0) / most, 2), kind) for name, value, kind in told]


def _rereads_of_groups(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Two bars a group, all on one scale."""
    most = max((max(g["bound"] or 0, g["mirror_maker"]) for g in groups), default=0) or 1
    return [
        {**g, "ours": round(100 * (g["bound"] or 0) / most, 2), "theirs": round(100 * g["mirror_maker"] / most, 2)}
        for g in groups
    ]


def _rereads_then_lag(group: Mapping[str, Any]) -> tuple[int, int]:
    return -(group.get("mirror_maker_rereads") or group.get("ahead", 0)), -group.get("lag", 0)


# -- the tables --------------------------------------------------------------------------------------------------


def _approval(approval: Mapping[str, Any], e: Evidence) -> dict[str, Any]:
    digest = approval["digest"]
    translation = figures_by_step(e).get(Step.TRANSLATE_OFFSETS, {}).get("digest")
    of = {e["plan_digest"]: "this plan", translation: "the translation"}.get(
        digest, "neither this plan nor its translation"
    )
    return {
        "step": approval["step"],
        "by": approval["by"],
        "at": format_moment(approval["at"]),
        "digest": digest,
        "of": of,
    }


def _ends(e: Evidence, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Cut-off and boundary side by side, paired by the plan's names."""
    remote = {topic: name for topic, name, *_ in plan.get("topics", [])}
    boundary = {(row["topic"], row["partition"]): row["offset"] for row in e["boundary"]}
    pairs = [(row, (remote.get(row["topic"], row["topic"]), row["partition"])) for row in e["cut_off"]]
    return [
        {
            "source": f"{row['topic']}-{row['partition']}",
            "cut_off": row["offset"],
            "target": f"{there[0]}-{there[1]}",
            "boundary": boundary.get(there, "not reached"),
        }
        for row, there in pairs
    ]


def _step(step: Mapping[str, Any]) -> StepSummary:
    failures = [_failure(f) for f in step.get("failures", [])]
    newest = Shown(failures[-_FAILURES_SHOWN:], len(failures))
    return StepSummary(
        str(step["id"]),
        str(step["state"]),
        figure_lines(step.get("figures", {})),
        newest,
        [figure_lines(note) for note in step.get("notes", [])[-_FAILURES_SHOWN:]],
    )


def _failure(failure: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: shorten_text(failure.get(name) or "") for name in ("reason", "seen", "next_step")}
    return {"at": format_moment(failure["at"]), **texts}
