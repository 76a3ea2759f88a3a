"""The plan of re_replicate_topics, which a second person approves, and its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.plain_text import count_of, first_few, table_cell
from kafka_dr.domain.re_replication.starts import EARLIEST, RESET
from kafka_dr.domain.readiness.terms import terms_markdown

_SHOWN = 20


@dataclass(frozen=True)
class PlannedCopy:
    """One topic to copy again.

    Attributes:
        remote: its name on the target.
        records: number of records that the source holds from the first offset to copy on.
        older_copies: number of records that the target topic holds now; None if the target has no such topic.
        aged: number of records at the beginning of the target's logs that the source has deleted by retention.
        target_only: number of other records that only the target holds.
        compacted: whether either topic is compacted.
    """

    topic: str
    remote: str
    partitions: int
    records: int
    older_copies: int | None
    aged: int
    target_only: int
    compacted: bool


@dataclass(frozen=True)
class ReReplicationPlan:
    """What re_replicate_topics will do.

    Attributes:
        deletes: whether the target topics are deleted first.
        chosen: the param `topics`.
        copied_topics: the topics to copy again, by name.
        starts: digest of the first source offset to copy, by partition.
        later_starts: `TOPIC-PARTITION from OFFSET` of partitions that are not copied from their log start.
        group_positions: group -> number of its positions on the target topics.
        without_source: groups of which a position on the target has no position on the source; the older copies show
            where these groups go on.
        connectors: connectors that run, and are stopped meanwhile.
        resets: source connectors that begin partitions without an offset at their end, with their own setting for it;
            None if they inherit it. They begin at the first record until the copies are compared.
        without_offset: topic, partition and log end of the partitions with records of which Connect stores no offset
            for one of these connectors; the offset before this end is stored, unless it is copied again.
        cool_down: the cool-down that is not waited for, and why; None if none was running.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
    """

    procedure_id: str
    source: str
    target: str
    reason: str
    deletes: bool
    chosen: str
    copied_topics: tuple[PlannedCopy, ...]
    starts: str
    later_starts: tuple[str, ...]
    group_positions: Mapping[str, int]
    without_source: tuple[str, ...]
    connectors: tuple[str, ...]
    resets: Mapping[str, str | None] = field(default_factory=dict)
    without_offset: tuple[tuple[str, int, int], ...] = ()
    cool_down: Mapping[str, Any] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        lists = {name: list(getattr(self, name)) for name in ("later_starts", "without_source", "connectors")}
        lists["without_offset"] = [list(one) for one in self.without_offset]
        return {**asdict(self), "copied_topics": [asdict(topic) for topic in self.copied_topics], **lists}

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; an approval names this digest."""
        return digest_of(self.as_dict())


def re_replication_plan_of(plan_data: Mapping[str, Any]) -> ReReplicationPlan:
    """Return the plan from its plain data, as returned by `ReReplicationPlan.as_dict`."""
    topics = tuple(PlannedCopy(**topic) for topic in plan_data["copied_topics"])
    lists = {name: tuple(plan_data[name]) for name in ("later_starts", "without_source", "connectors")}
    without = tuple((topic, partition, end) for topic, partition, end in plan_data.get("without_offset", ()))
    return ReReplicationPlan(**{**plan_data, "copied_topics": topics, "without_offset": without, **lists})


def re_replication_markdown(plan: ReReplicationPlan) -> str:
    """Return the gate's page as Markdown: what will be copied, what the target loses, and the plan's digest."""
    lines = [
        f"Records of **{plan.source}** are copied to **{plan.target}** again. Reason: {table_cell(plan.reason)}",
        "",
        *[f"- {line}" for line in _facts(plan)],
        "",
        "| topic | on the target | partitions | records to copy | older copies | only on the target |",
        "| --- | --- | --- | --- | --- | --- |",
        *[_row(topic) for topic in plan.copied_topics[:_SHOWN]],
        *(
            [f"| and {len(plan.copied_topics) - _SHOWN} more topics | | | | | |"]
            if len(plan.copied_topics) > _SHOWN
            else []
        ),
        "",
        *terms_markdown(plan.terms),
        f"Digest of this plan: `{plan.digest}`",
    ]
    return "\n".join(lines)


def _row(topic: PlannedCopy) -> str:
    older = "no such topic" if topic.older_copies is None else f"{topic.older_copies:,}"
    only = topic.aged + topic.target_only
    cells = [
        table_cell(topic.topic),
        table_cell(topic.remote),
        f"{topic.partitions:,}",
        f"{topic.records:,}",
        older,
        f"{only:,}",
    ]
    return f"| {' | '.join(cells)} |"


def _facts(plan: ReReplicationPlan) -> list[str]:
    positions = count_of(sum(plan.group_positions.values()), "position")
    lines = [
        _deletion(plan),
        (
            f"MirrorMaker 2 of {plan.source}->{plan.target} copies no topic of the flow from the stop of"
            f" {table_cell(first_few(plan.connectors))} until the offsets are read back."
        ),
        (
            f"{positions} of {count_of(len(plan.group_positions), 'group')} on the target topics get the places of the"
            " same records among the new copies."
        ),
        _losses(plan),
    ]
    if plan.without_source:
        lines.append(
            f"Groups without a position on {plan.source}: {table_cell(first_few(plan.without_source, _SHOWN))}. The"
            " older copies show at which record these groups go on."
        )
    if plan.later_starts:
        lines.append(f"Not copied from the log start: {table_cell(first_few(plan.later_starts, _SHOWN))}.")
    if plan.resets:
        lines += _reset_facts(plan)
    if compacted := [topic.topic for topic in plan.copied_topics if topic.compacted]:
        lines.append(
            f"Compacted: {table_cell(first_few(compacted, _SHOWN))}. Records that compaction has removed on"
            f" {plan.source} are not copied again."
        )
    if plan.cool_down:
        lines.append(f"This run does not wait for the end of a cool-down: {table_cell(plan.cool_down['acknowledged'])}")
    return lines


def _reset_facts(plan: ReReplicationPlan) -> list[str]:
    chosen = {topic.topic for topic in plan.copied_topics}
    held = [f"{topic}-{number} from {end}" for topic, number, end in plan.without_offset if topic not in chosen]
    lines = [
        (
            f"{table_cell(first_few(list(plan.resets)))} begins partitions without an offset at their end. Its setting"
            f" {RESET} is {EARLIEST} until the copies are compared; then MirrorMaker 2 is stopped once more, and the"
            " setting is as before."
        ),
        (
            "A topic that is created meanwhile is copied from its first record. A partition that has no record when the"
            " setting is as before begins at its end: what clients write before MirrorMaker 2 looks there is not"
            " copied, as at any start with this setting."
        ),
    ]
    if held:
        lines.append(f"Never copied so far, and copied only from this end on: {table_cell(first_few(held, _SHOWN))}.")
    return lines


def _deletion(plan: ReReplicationPlan) -> str:
    if plan.deletes:
        return (
            f"The topics on {plan.target} are deleted with all their records, and created again with the same"
            " partitions and settings. After the deletion there is no way back, only forward."
        )
    return (
        f"The topics on {plan.target} are kept: every record that is copied again stands there twice, first the older"
        " copy and behind all older copies the new one. A consumer that reads a topic from its beginning reads both."
    )


def _losses(plan: ReReplicationPlan) -> str:
    aged = sum(topic.aged for topic in plan.copied_topics)
    other = sum(topic.target_only for topic in plan.copied_topics)
    if not (aged or other):
        return f"{plan.target} holds no record of these topics that {plan.source} lacks."
    end = "are exported to files, and then deleted" if plan.deletes else "are exported to files, and stay"
    return (
        f"Only {plan.target} holds {count_of(aged, 'record')} that retention has deleted on {plan.source}, and"
        f" {count_of(other, 'other record')}: these {end}."
    )
