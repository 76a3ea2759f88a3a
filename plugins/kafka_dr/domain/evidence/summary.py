"""The evidence as a story: what happened, where clients are, what failed, what to do, and the pictures' figures.

Invariants
1. Everything is made of the evidence alone: the same evidence tells the same story.
2. Where the evidence does not prove that clients work, the story does not say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK
from kafka_dr.domain.evidence.loss_chart import certainly_lost, loss_picture
from kafka_dr.domain.loss.loss_plan import what_was_listed
from kafka_dr.domain.plain_text import (
    Shown,
    counted,
    duration,
    figure_lines,
    first_few,
    first_of,
    moment,
    number,
    shortened,
    time_of_day,
)
from kafka_dr.domain.offsets.restore_plan import restore_sentences, restore_to_do
from kafka_dr.domain.evidence.timeline import TimeLine, standstill, time_line
from kafka_dr.procedures import RESTORE_GROUP_OFFSETS
from kafka_dr.vocabulary import Outcome, Step, TranslationClass

Evidence = Mapping[str, Any]

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
class StepStory:
    """A step that has more to tell than its time."""

    id: str
    state: str
    figures: list[tuple[str, str]]
    failures: Shown
    notes: list[list[tuple[str, str]]]


@dataclass(frozen=True)
class Part:
    """One part of a whole: its share in per cent."""

    name: str
    value: Any
    share: float
    kind: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Story:
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
    split: list[Part]
    classes: list[Part]
    rereads: list[Part]
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
    steps: list[StepStory]


def story_of(evidence: Evidence) -> Story:
    """The story that the evidence tells."""
    plan = evidence["plan"] or {}
    figures, restores = _figures(evidence), evidence["dag_id"] == RESTORE_GROUP_OFFSETS.dag_id
    return Story(
        sentences=(
            restore_sentences(evidence) if restores else [_what(evidence), whereabouts(evidence), _kept(evidence)]
        ),
        trouble=_trouble(evidence),
        to_do=restore_to_do(evidence) if restores else _to_do(evidence),
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
        excluded=first_of(_excluded(evidence), ROWS_SHOWN),
        unproven=[shortened(note) for note in plan.get("unproven", [])],
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
    left = len(_excluded(e))
    return f" but {counted(left, 'excluded group')}" if left else ""


def _when(aborted: Mapping[str, Any]) -> str:
    return f" at {moment(aborted['at'])}" if aborted.get("at") else ""


def _because(aborted: Mapping[str, Any]) -> str:
    return f" ({shortened(aborted['reason'], 300)})" if aborted.get("reason") else ""


def whereabouts(e: Evidence) -> str:
    """Where clients are now, as far as the evidence proves it."""
    if e.get("continued_by"):
        return f"Where clients are stands in the evidence of {e['continued_by']}."
    state = {step["id"]: step["state"] for step in e["steps"]}
    span = standstill(e)
    if state.get(Step.RETURN_TO_SOURCE) == "done" or (span is None and Step.OPEN_TARGET not in state):
        return _on_source(e)
    if state.get(Step.REDIRECT_CLIENTS) == "done":
        return (
            f"They stood still for {duration(span.seconds)} and now work on {e['target']}."
            if span
            else f"Clients work on {e['target']}."
        )
    since = f" since {moment(span.began.isoformat())}" if span else ""
    return f"Clients stand still{since}: {_why_still(e, state)}."


def _on_source(e: Evidence) -> str:
    span, earlier = standstill(e), e.get("continues")
    if earlier:
        fenced = (
            f"{e['source']} stays fenced until return_to_source of that one is done"
            if earlier["fenced"]
            else f"that one had not fenced {e['source']}"
        )
        return f"Clients are as {earlier['procedure_id']} left them: {fenced}."
    if span is None:
        return f"Clients never left {e['source']} and were not stopped."
    return f"Clients stood still for {duration(span.seconds)} and are back on {e['source']}, which is as it was found."


def _why_still(e: Evidence, state: Mapping[str, str]) -> str:
    if state.get(Step.OPEN_TARGET) == "done":
        return f"{e['target']} is open, but they have not been sent there"
    if Step.OPEN_TARGET in state:
        return f"{e['source']} is fenced, and whether {e['target']} was opened is not known"
    if Step.RETURN_TO_SOURCE in state:
        return f"{e['source']} was being given back to them, and that is not finished"
    return f"{e['source']} is fenced and {e['target']} is not open"


def _kept(e: Evidence) -> str:
    if e["outcome"] != Outcome.COMPLETED:
        lost = f"{_lost(e)} of {e['source']} were not found on {e['target']}: see Loss. " if e["loss"] else ""
        return lost + (_not_final(e) if e["outcome"] == Outcome.FAILED else f"No client was moved to {e['target']}.")
    by_hand = _figures(e).get(Step.OPEN_TARGET, {}).get("by_hand")
    if by_hand and not _figures(e).get(Step.TRANSLATE_OFFSETS):
        return (
            f"{by_hand} opened {e['target']} by hand before positions were translated: where the groups stand, and"
            " whether records are missing there, was not proven."
        )
    return f"{_placed(e)} {_losses(e)}"


def _not_final(e: Evidence) -> str:
    return (
        "What it had proven was taken over there, as far as it counts."
        if e.get("continued_by")
        else "Nothing on this page is final before it ends."
    )


def _placed(e: Evidence) -> str:
    refused, bound = e["classes"].get(TranslationClass.REFUSED, 0), e["rereads"]["bound"]
    placed = sum(e["classes"].values()) - refused
    left_out = f", {number(refused)} had to be left out" if refused else ""
    if bound is None:
        return f"{counted(placed, 'position')} were placed and read back{left_out}."
    exact = ", every placed one exact" if bound == 0 else f"; one group may read up to {counted(bound, 'record')} again"
    return f"{counted(placed, 'position')} were placed and read back{left_out}{exact}."


def _losses(e: Evidence) -> str:
    if e["loss"]:
        return f"{_lost(e)} are not on {e['target']}: see Loss."
    return f"No record was lost: everything below the cut-off is on {e['target']}."


def _lost(e: Evidence) -> str:
    """How many records are lost, and whether more may be: a source that could not be read has no end."""
    known = sum(_certain(row) for row in e["loss"])
    if all(row.get("records") is not None for row in e["loss"]):
        return counted(known, "record")
    return f"At least {counted(known, 'record')}" if known else "An unknown number of records"


def _certain(row: Mapping[str, Any]) -> int:
    known: int | None = row.get("records")
    return certainly_lost(row) if known is None else known


# -- what failed, and what to do ---------------------------------------------------------------------------------


def _trouble(e: Evidence) -> list[dict[str, str]]:
    if e["outcome"] == Outcome.COMPLETED:
        return []
    failing = e["failing_step"]
    failure = _last_failure(e, failing)
    aborted = e.get("aborted_by") or {}
    bare = {
        "step": str(failing or "no step"),
        "reason": shortened(e["reason_for_outcome"]),
        "seen": "",
        "at": moment(aborted.get("at", "")),
    }
    back = (
        _last_failure(e, Step.RETURN_TO_SOURCE)
        if failing != Step.RETURN_TO_SOURCE and e["outcome"] == Outcome.FAILED
        else None
    )
    return [_told(failing, failure) if failure else bare, *([_told(Step.RETURN_TO_SOURCE, back)] if back else [])]


def _told(step: str, failure: Mapping[str, Any]) -> dict[str, str]:
    return {
        "step": str(step),
        "reason": shortened(failure["reason"]),
        "seen": shortened(failure.get("seen") or ""),
        "at": moment(failure["at"]),
    }


def _last_failure(e: Evidence, name: str | None) -> Mapping[str, Any] | None:
    """The newest failure of a step that is not done."""
    failures = [
        f for step in e["steps"] if step["id"] == name and step["state"] != "done" for f in step.get("failures", [])
    ]
    return failures[-1] if failures else None


def _to_do(e: Evidence) -> list[str]:
    first = [*_lost_to_do(e), *_excluded_to_do(e)]
    if e["outcome"] == Outcome.COMPLETED:
        return [*first, *_completed_to_do(e)] or ["Nothing."]
    if e["outcome"] == Outcome.FAILED:
        return _failed_to_do(e)
    return [*_said(e, e["failing_step"]), _returned_to_do(e)]


def _returned_to_do(e: Evidence) -> str:
    if not e.get("continues"):
        return "Nothing is left to undo. Start a new run when the cause is mended."
    earlier = e["continues"]["procedure_id"]
    return (
        f"{earlier} holds both clusters again. When {e['source']} answers, clear return_to_source of that run: it gives"
        f" {e['source']} back. Or continue it anew, with continue_procedure={earlier}."
    )


def _said(e: Evidence, step: str | None) -> list[str]:
    failure = _last_failure(e, step)
    return [shortened(failure["next_step"])] if failure and failure.get("next_step") else []


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
        return [*_said(e, Step.RETURN_TO_SOURCE), back, page]
    clear = (
        f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} with its downstream tasks in Airflow:"
        " every step looks at what is there first."
    )
    if state.get(Step.OPEN_TARGET) == "done":
        return [*_said(e, e["failing_step"]), clear, f"There is only forward: {e['target']} is open.", page]
    return [
        *_said(e, e["failing_step"]),
        clear,
        f"Or go back: clear {Step.RETURN_TO_SOURCE}; it gives {e['source']} back to its clients.",
        page,
    ]


def _lost_to_do(e: Evidence) -> list[str]:
    if not e["loss"]:
        return []
    unread = "inventory" in (e["plan"] or {}) and not e.get("stranded")
    later = (
        [
            (
                f"When {e['source']} is back, have listed exactly what is lost: runbooks/unplanned_failover.md,"
                " assess_data_loss. A run that nobody approves does it."
            )
        ]
        if unread
        else []
    )
    return [f"Decide what becomes of what {e['target']} lacks ({_lost(e).lower()}): see Loss.", *later]


def _excluded_to_do(e: Evidence) -> list[str]:
    count = len(_excluded(e))
    return [f"Look after the {counted(count, 'group')} that were excluded: see Excluded groups."] if count else []


def _completed_to_do(e: Evidence) -> list[str]:
    started = _figures(e).get(Step.START_REVERSE_REPLICATION, {}).get("started", True)
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


# -- the pictures ------------------------------------------------------------------------------------------------


def _still(e: Evidence, plan: Mapping[str, Any]) -> dict[str, Any] | None:
    span = standstill(e)
    if span is None:
        return None
    limit = plan.get("deadlines", {}).get("max_fence_seconds")
    ended = time_of_day(span.ended.isoformat()) if span.ended else None
    return {"began": time_of_day(span.began.isoformat()), "ended": ended, "seconds": span.seconds, "limit": limit}


def _fence(e: Evidence) -> str:
    """Tell how clients are kept from the source; of one given up only what was proven, or said by the fence hook."""
    figures, at = _figures(e), moment(e["fenced_at"]) if e.get("fenced_at") else ""
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
    if Step.RETURN_TO_SOURCE in _done(e):
        return f"armed until {e['source']} was given back: nobody fences it any more"
    if Step.WATCH_OLD_SOURCE in _done(e):
        return f"{e['source']} came back, and was fenced by watch_old_source" + (
            f" at {moment(fenced_at)}" if fenced_at else ""
        )
    return f"armed: {e['source']} was out of reach, and watch_old_source fences it as soon as it answers"


def _still_armed(e: Evidence) -> bool:
    armed = _figures(e).get(Step.FENCE_SOURCE, {}).get("fenced") == ARMED
    return armed and not _done(e) & {Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE}


def _done(e: Evidence) -> set[str]:
    return {step["id"] for step in e["steps"] if step["state"] == "done"}


def _split(seconds: Mapping[str, float]) -> list[Part]:
    parts = [("own", "own", "of our own"), ("drain", "drain", "draining"), ("people", "people", "waiting for people")]
    whole = sum(max(0.0, seconds[name]) for name, _, _ in parts) or 1.0
    return [
        Part(meaning, seconds[name], round(100 * max(0.0, seconds[name]) / whole, 2), kind)
        for name, kind, meaning in parts
    ]


def _classes(classes: Mapping[str, int]) -> list[Part]:
    order = {c.value: n for n, c in enumerate(TranslationClass)}
    whole = sum(classes.values()) or 1
    ordered = sorted(classes, key=lambda name: (order.get(name, len(order)), name))
    return [
        Part(
            name,
            classes[name],
            round(100 * classes[name] / whole, 2),
            name if name in order else "",
            _MEANING.get(name, ""),
        )
        for name in ordered
    ]


def _rereads(rereads: Mapping[str, int | None]) -> list[Part]:
    """Two bars on one scale; a figure nobody knows has none."""
    ours, theirs = rereads["bound"], rereads["mirror_maker"]
    most = max(ours or 0, theirs or 0) or 1
    told = [("Switchback", ours, "own"), ("MirrorMaker 2's checkpoints", theirs, "people")]
    return [Part(name, value, round(100 * (value or 0) / most, 2), kind) for name, value, kind in told]


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


def _figures(e: Evidence) -> dict[str, Mapping[str, Any]]:
    return {step["id"]: step.get("figures", {}) for step in e["steps"]}


def _approval(approval: Mapping[str, Any], e: Evidence) -> dict[str, Any]:
    digest = approval["digest"]
    translation = _figures(e).get(Step.TRANSLATE_OFFSETS, {}).get("digest")
    of = {e["plan_digest"]: "this plan", translation: "the translation"}.get(
        digest, "neither this plan nor its translation"
    )
    return {"step": approval["step"], "by": approval["by"], "at": moment(approval["at"]), "digest": digest, "of": of}


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


def _excluded(e: Evidence) -> list[dict[str, Any]]:
    """Groups that were not waited for: as they stood at the drain, or as the plan names them."""
    drained, plan = _figures(e).get(Step.DRAIN_CONSUMERS, {}), e["plan"] or {}
    groups = e.get("excluded_groups") or drained.get("excluded") or plan.get("excluded") or []
    return [
        {
            "group": g["group"],
            "reason": g.get("reason", ""),
            "policy": g.get("policy", ""),
            "members": _members(g.get("members")),
        }
        for g in groups
    ]


def _members(members: Any) -> str:
    if isinstance(members, Sequence) and not isinstance(members, str):
        return first_few(members, 5)
    return "" if members is None else str(members)


def _step(step: Mapping[str, Any]) -> StepStory:
    failures = [_failure(f) for f in step.get("failures", [])]
    newest = Shown(failures[-_FAILURES_SHOWN:], len(failures))
    return StepStory(
        str(step["id"]),
        str(step["state"]),
        figure_lines(step.get("figures", {})),
        newest,
        [figure_lines(note) for note in step.get("notes", [])[-_FAILURES_SHOWN:]],
    )


def _failure(failure: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: shortened(failure.get(name) or "") for name in ("reason", "seen", "next_step")}
    return {"at": moment(failure["at"]), **texts}
