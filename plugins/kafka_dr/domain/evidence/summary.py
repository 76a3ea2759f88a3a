"""Summary of the evidence for its page: result, clients, failures, next steps, and the charts' figures.

Invariants
1. The summary follows from the evidence alone: equal evidence gives an equal summary.
2. The summary says that clients work only if the evidence proves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.drill.page import drill_sentences, drill_to_do
from kafka_dr.domain.drill.report import whole_section
from kafka_dr.domain.evidence.fields import Evidence, excluded_rows, figures_by_step, step_done
from kafka_dr.domain.evidence.loss_chart import loss_picture
from kafka_dr.domain.evidence.next_steps import failures_of, next_steps
from kafka_dr.domain.evidence.timeline import TimeLine, client_downtime, time_line
from kafka_dr.domain.evidence.whereabouts import client_whereabouts, placement_sentence
from kafka_dr.domain.evidence.without_moves import texts_without_move
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK
from kafka_dr.domain.loss.loss_page import what_was_listed
from kafka_dr.domain.objectives.verdict import POSSIBLE_BREACH, Verdict, objective_text
from kafka_dr.domain.plain_text import (
    Shown,
    count_of,
    figure_lines,
    first_few,
    first_of,
    format_moment,
    shorten_text,
    time_of_day,
)
from kafka_dr.vocabulary import Outcome, Step, TranslationClass

ROWS_SHOWN = 100
GROUPS_SHOWN = 20
_FAILURES_SHOWN = 5
_MEANING: Mapping[str, str] = {
    TranslationClass.END: "no unread record follows the position: placed at the boundary",
    TranslationClass.SYNC: "an offset sync states this position",
    TranslationClass.CONTENT: "determined by comparing the records around the position on both clusters",
    TranslationClass.INTERPOLATED: "counted between two recorded pairs of offsets; never ahead of the group",
    TranslationClass.NEAREST: "the nearest recorded pair of offsets below the position; never ahead of the group",
    TranslationClass.POLICY: "no pair of offsets is recorded: placed by the group's policy",
    TranslationClass.REFUSED: "the observations contradict each other: not placed, a person decides",
}


@dataclass(frozen=True)
class StepSummary:
    """A step's state, figures, failures and notes."""

    id: str
    state: str
    figures: list[tuple[str, str]]
    failures: Shown
    notes: list[list[tuple[str, str]]]


@dataclass(frozen=True)
class TimePart:
    """One bar of a chart: a named value.

    Attributes:
        share: length of the bar, in per cent.
        kind: the bar's class in the style sheet, which gives its colour.
        meaning: text that explains the value; empty if the name suffices.
    """

    name: str
    value: Any
    share: float
    kind: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class ObjectiveSummary:
    """An objective beside what was achieved.

    Attributes:
        verdict: met, breached, possible breach, or unknown.
        kind: the colour of the verdict: good, bad or people (unknown).
    """

    objective: str
    achieved: str
    verdict: str
    kind: str


@dataclass(frozen=True)
class EvidenceSummary:
    """Everything that the evidence page shows.

    Attributes:
        warnings: why what this evidence claims may be wrong, shown first.
        sentences: one on the result, one on clients, one on positions and records.
        trouble: failures that stopped the procedure or its rollback, each with step, reason, seen, at.
        to_do: what the operator has to do now, the most urgent first.
        line: the time line; None if no step began.
        still: the clients' downtime: `began` and `ended` (times of day in UTC), `seconds` and `limit` (the deadline in
            seconds); None if fence_producers never fenced clients.
        fence: how the source is fenced, and when the fence was proven.
        split: the run's seconds: working, draining, waiting for people.
        objectives: the stated objectives beside what was achieved; None in evidence of versions without objectives.
        objectives_from: tier of the flow, and where its objectives come from; empty if neither is stated.
        rereads: two bars: the most records that a group may read again on one partition, first with Switchback's
            positions, then with MirrorMaker 2's checkpoints.
        no_checkpoint: number of positions without a checkpoint of MirrorMaker 2.
        ends: cut-off and boundary by partition.
        listed: sentences on the lost records as the loss assessment read them on the source; empty without loss.
        groups: groups of the plan, most re-reads by MirrorMaker 2's checkpoints first.
        clients: the plan's clients by kind, their names as one text.
    """

    warnings: list[str]
    sentences: list[str]
    trouble: list[dict[str, str]]
    to_do: list[str]
    line: TimeLine | None
    still: dict[str, Any] | None
    fence: str
    split: list[TimePart]
    objectives: list[ObjectiveSummary] | None
    objectives_from: str
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
    clients: list[dict[str, Any]]
    steps: list[StepSummary]


def summarise_evidence(evidence: Evidence) -> EvidenceSummary:
    """Return everything that the evidence page shows, computed from a procedure's evidence."""
    plan = evidence["plan"] or {}
    figures = figures_by_step(evidence)
    sentences, to_do = _lines(evidence)
    return EvidenceSummary(
        warnings=list(evidence.get("warnings", [])),
        sentences=sentences,
        trouble=failures_of(evidence),
        to_do=to_do,
        line=time_line(evidence),
        still=_downtime(evidence, plan),
        fence=_fence(evidence),
        split=_split(evidence["seconds"]),
        objectives=_objectives(evidence) if "objectives" in evidence else None,
        objectives_from=_objectives_from(evidence.get("objectives") or {}),
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
        clients=[one | {"names": shorten_text(first_few(one["names"], 20))} for one in plan.get("clients", [])],
        steps=[_step(s) for s in evidence["steps"]],
    )


# -- in three sentences ------------------------------------------------------------------------------------------


def _lines(e: Evidence) -> tuple[list[str], list[str]]:
    """Return the first sentences of the page, and what has to be done now."""
    if e.get("drill"):
        drill = whole_section(e)
        return list(drill_sentences(drill)), drill_to_do(drill)
    if (texts := texts_without_move(e)) is not None:
        return texts
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


# -- the charts --------------------------------------------------------------------------------------------------


def _downtime(e: Evidence, plan: Mapping[str, Any]) -> dict[str, Any] | None:
    span = client_downtime(e)
    if span is None:
        return None
    limit = plan.get("deadlines", {}).get("max_fence_seconds")
    ended = time_of_day(span.ended.isoformat()) if span.ended else None
    return {"began": time_of_day(span.began.isoformat()), "ended": ended, "seconds": span.seconds, "limit": limit}


def _fence(e: Evidence) -> str:
    """Return how the source is fenced, as text: by a proven fence, by what the fence hook answered, or only armed."""
    figures, at = figures_by_step(e), format_moment(e["fenced_at"]) if e.get("fenced_at") else ""
    fence = figures.get(Step.FENCE_SOURCE, {}).get("fenced")
    if fence == ARMED:
        return _armed(e, figures.get(Step.WATCH_OLD_SOURCE, {}).get("fenced_at"))
    if fence == BY_HOOK:
        return f"reported by the fence hook since {at}: clients cannot reach {e['source']}"
    if fence == BY_ACL:
        return (
            f"proven at {at}, on {e['source']}"
            if at
            else f"writes are denied on {e['source']}, not proven on every broker"
        )
    return f"proven at {at}" if at else "not fenced, or not proven on every broker"


def _armed(e: Evidence, fenced_at: str | None) -> str:
    """Return the state of an armed fence as text.

    Args:
        fenced_at: when the watcher proved the fence, ISO 8601; None if not recorded.
    """
    if Step.RETURN_TO_SOURCE in step_done(e):
        return f"armed until the return to {e['source']}: watch_old_source does not fence {e['source']} any more"
    if Step.WATCH_OLD_SOURCE in step_done(e):
        return f"{e['source']} answered again and was fenced by watch_old_source" + (
            f" at {format_moment(fenced_at)}" if fenced_at else ""
        )
    return (
        f"armed: {e['source']} did not answer; watch_old_source fences {e['source']} as soon as {e['source']} answers"
    )


def _split(seconds: Mapping[str, float]) -> list[TimePart]:
    parts = [("own", "own", "working"), ("drain", "drain", "draining"), ("people", "people", "waiting for people")]
    whole = sum(max(0.0, seconds[name]) for name, _, _ in parts) or 1.0
    return [
        TimePart(meaning, seconds[name], round(100 * max(0.0, seconds[name]) / whole, 2), kind)
        for name, kind, meaning in parts
    ]


def _objectives(e: Evidence) -> list[ObjectiveSummary]:
    verdicts = (e["achieved"] or {}).get("verdicts", {})
    return [
        _objective(objective_text(name, e["objectives"][name]), one["verdict"], one["reason"])
        for name, one in verdicts.items()
    ]


def _objective(objective: str, verdict: str, reason: str) -> ObjectiveSummary:
    achieved = reason.removeprefix(POSSIBLE_BREACH)
    word = verdict if achieved == reason else POSSIBLE_BREACH.rstrip(": ")
    kind = {Verdict.MET: "good", Verdict.BREACHED: "bad"}.get(Verdict(verdict), "people")
    return ObjectiveSummary(objective, achieved, word, kind)


def _objectives_from(objectives: Mapping[str, Any]) -> str:
    named = {"Tier": objectives.get("tier"), "Basis": objectives.get("basis")}
    return " ".join(f"{name}: {text}." for name, text in named.items() if text)


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
    """Return two bars on one scale: re-reads with Switchback's positions, and with MirrorMaker 2's checkpoints.

    A bar whose number of re-reads is unknown has length 0.
    """
    ours, theirs = rereads["bound"], rereads["mirror_maker"]
    most = max(ours or 0, theirs or 0) or 1
    bars = [("Switchback", ours, "own"), ("MirrorMaker 2's checkpoints", theirs, "people")]
    return [TimePart(name, value, round(100 * (value or 0) / most, 2), kind) for name, value, kind in bars]


def _rereads_of_groups(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups, each with the lengths of two bars of re-reads, in per cent of the longest bar.

    `ours` is for Switchback's positions, `theirs` for MirrorMaker 2's checkpoints.
    """
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
    """Return each source partition's cut-off with its target partition's boundary, `not reached` without boundary."""
    target_names = {topic: name for topic, name, *_ in plan.get("topics", [])}
    boundary = {(row["topic"], row["partition"]): row["offset"] for row in e["boundary"]}
    pairs = [(row, (target_names.get(row["topic"], row["topic"]), row["partition"])) for row in e["cut_off"]]
    return [
        {
            "source": f"{row['topic']}-{row['partition']}",
            "cut_off": row["offset"],
            "target": f"{on_target[0]}-{on_target[1]}",
            "boundary": boundary.get(on_target, "not reached"),
        }
        for row, on_target in pairs
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
