"""The plan of a change of a flow, which a second person approves, and sentences about its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.plain_text import count_of, first_few, shorten_text, table_cell
from kafka_dr.domain.readiness.terms import terms_markdown
from kafka_dr.vocabulary import Outcome, Step

_SHOWN = 20


@dataclass(frozen=True)
class ConnectorChange:
    """What changes in one connector.

    Attributes:
        former: setting -> value before the change, of the settings that change; None for a setting that was not set.
        wanted: the same settings with their new values; None for a setting that is removed.
    """

    former: Mapping[str, str | None]
    wanted: Mapping[str, str | None]


@dataclass(frozen=True)
class Interval:
    """What was written to a partition while its topic was excluded.

    Attributes:
        first: the first offset that is not copied yet; `end`: the source's log end.
        deleted: how many offsets from `first` on the source's retention has deleted meanwhile.
    """

    topic: str
    partition: int
    first: int
    end: int
    deleted: int


@dataclass(frozen=True)
class ChangePlan:
    """What a run changes in a flow.

    Attributes:
        connectors: connector -> what changes in it; those that only stop and go on have no settings.
        running: connectors that are resumed after the change, as they were not STOPPED before, in this order.
        adds, drops: topics that the flow will mirror from now on, and those that it will no longer mirror.
        adds_groups, drops_groups: likewise, groups whose positions are translated.
        intervals: partitions that were mirrored once and are included again.
        skips: whether the records of these intervals are skipped; otherwise they are copied.
        effects: one line for each pattern: what it matches on either cluster.
        notes: what else the approver must know.
        edited_by_hand: whether a person changes the settings where they are kept, because no Connect worker has them.
        config_digests: connector -> SHA-256 of its configuration without secrets, as the plan was made.
        cool_down: the cool-down that is not waited for, and why; None if none was running.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
    """

    procedure_id: str
    source: str
    target: str
    reason: str
    connectors: Mapping[str, ConnectorChange]
    running: tuple[str, ...]
    adds: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    adds_groups: tuple[str, ...] = ()
    drops_groups: tuple[str, ...] = ()
    intervals: tuple[Interval, ...] = ()
    skips: bool = False
    effects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    edited_by_hand: bool = False
    config_digests: Mapping[str, str] = field(default_factory=dict)
    cool_down: dict[str, Any] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        plain = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; an approval names this digest."""
        return digest_of(self.as_dict())


def change_plan_of(data: Mapping[str, Any]) -> ChangePlan:
    """Return the plan from its plain data, as returned by `ChangePlan.as_dict`."""
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    connectors = {name: ConnectorChange(**one) for name, one in data["connectors"].items()}
    intervals = tuple(Interval(**one) for one in data["intervals"])
    return ChangePlan(**{**data, **lists, "connectors": connectors, "intervals": intervals})


def change_markdown(plan: ChangePlan) -> str:
    """Return the gate's page as Markdown: what the run changes, and the plan's digest."""
    lines = [
        f"The flow **{plan.source}->{plan.target}** changes. Reason: {table_cell(plan.reason)}",
        "",
        *[f"- {line}" for line in _facts(plan)],
        "",
        "| connector | setting | before | after |",
        "| --- | --- | --- | --- |",
        *_rows(plan),
        "",
        *terms_markdown(plan.terms),
        f"Digest of this plan: `{plan.digest}`",
    ]
    return "\n".join(lines)


def _rows(plan: ChangePlan) -> list[str]:
    return [
        f"| {table_cell(name)} | {table_cell(key)} | {_shown(one.former[key])} | {_shown(value)} |"
        for name, one in plan.connectors.items()
        for key, value in one.wanted.items()
    ]


def _shown(value: str | None) -> str:
    return "not set" if value is None else table_cell(shorten_text(value, 300))


def _facts(plan: ChangePlan) -> list[str]:
    named = {
        "Mirrored from now on": plan.adds,
        "No longer mirrored, and no longer covered by a failover": plan.drops,
        "Groups whose positions are translated from now on": plan.adds_groups,
        "Groups whose positions are no longer translated": plan.drops_groups,
    }
    lines = [f"{title}: {table_cell(first_few(names, _SHOWN))}." for title, names in named.items() if names]
    lines += [table_cell(effect) for effect in plan.effects]
    lines += _interval_lines(plan)
    running = plan.running
    lines.append(
        f"{table_cell(first_few(running))} stop for some seconds, and go on behind the last copied record of each"
        " partition."
        if running
        else "All connectors are STOPPED, and stay STOPPED: nothing shows whether records flow with the new settings."
    )
    if plan.edited_by_hand:
        lines.append(
            "A person edits these settings where MirrorMaker 2's processes read them, after stop_changed_flow has"
            " stopped the flow, and not before: change_connectors waits until the stop hook reports them. The flow"
            " copies nothing meanwhile. If the run goes back, the same person sets the former values again. How often a"
            " setting was heeded cannot be seen: only that records flow, and which topics."
        )
    if plan.cool_down:
        lines.append(
            f"This run does not wait for the end of a cool-down: {table_cell(str(plan.cool_down['acknowledged']))}"
        )
    return [*lines, *map(table_cell, plan.notes)]


def _interval_lines(plan: ChangePlan) -> list[str]:
    if not plan.intervals:
        return []
    offsets = sum(one.end - one.first - one.deleted for one in plan.intervals)
    deleted = sum(one.deleted for one in plan.intervals)
    topics = first_few(sorted({one.topic for one in plan.intervals}), _SHOWN)
    fate = "are skipped: the target never gets them" if plan.skips else "are copied"
    lost = f" {deleted:,} more offsets were deleted by retention meanwhile." if deleted else ""
    partitions = count_of(len(plan.intervals), "partition")
    return [
        (
            f"Included again: {table_cell(topics)}. {offsets:,} offsets in {partitions}, written while these topics"
            f" were excluded, {fate}.{lost}"
        )
    ]


def change_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return three sentences from the evidence `e` of a change: on its outcome, on clients, on records."""
    figures = {step["id"]: step["figures"] for step in e["steps"] if step["state"] == "done"}
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    flow = f"{e['source']}->{e['target']}"
    result = {
        Outcome.COMPLETED: f"The flow {flow} was changed.",
        Outcome.REFUSED: f"The change of the flow {flow} was refused{at}, before anything was changed.",
        Outcome.RETURNED: f"The change of the flow {flow} stopped{at}; the former configuration is back.",
        Outcome.ABORTED: f"The change of the flow {flow} was aborted; the former configuration is back.",
    }.get(Outcome(e["outcome"]), f"The change of the flow {flow} stopped{at}, and has not ended.")
    returned = (figures.get(Step.RETURN_TO_SOURCE) or {}).get("flow_after_return")
    resumed = figures.get(Step.RESUME_CHANGED_FLOW) or {}
    flows, checkpoints = resumed.get("flows") or returned, resumed.get("checkpoints")
    copied = f"Records: {flows}." if flows else "It was not looked for copied records."
    copied += f" Checkpoints: {checkpoints}." if checkpoints else ""
    return [result, "No client was moved or stopped, and no fence was changed.", copied]


def change_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what the operator has to do now, a sentence each, from the evidence `e` of a change."""
    if e["outcome"] == Outcome.COMPLETED:
        return ["Nothing."]
    again = (
        f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} in Airflow: the flow may be STOPPED until"
        " that step is done."
        if e["outcome"] == Outcome.FAILED
        else "Mend the cause, then start a new run, which plans the change again."
    )
    return [shorten_text(e["reason_for_outcome"]), again]
