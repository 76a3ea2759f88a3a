"""The plan of a run without its source: what is lost as far as anybody can know, and what is done all the same. The approval names its digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from kafka_dr.domain.armed import ARMED, BY_HOOK
from kafka_dr.domain.canonical import digest_of
from kafka_dr.domain.plan import cell

_SHOWN = 50


@dataclass(frozen=True)
class LastKnownGroup:
    """One group as it was seen last.

    Attributes:
        position_at: when its oldest position was seen, in milliseconds since 1970; None where nobody knows.
        ahead: partitions on which it had consumed what may never have reached the target.
    """

    group: str
    partitions: int
    policy: str
    active: bool
    position_at: int | None
    ahead: int


@dataclass(frozen=True)
class LossPlan:
    """What one run without its source will do.

    Attributes:
        topics: [source name, name on the target, partitions, topic id as last seen].
        opening: ACL entries that will be removed on the target, as text.
        confirmed: how the source was found to be lost, the override's reason if it was not, and how it will be kept from its clients.
        inventory: the assessment's figures, its digest among them.
        loss: rows of loss: topic, partition, from_offset, certain_to, possible_to.
        unproven: what the run will not be able to prove.
    """

    procedure_id: str
    dag_id: str
    source: str
    target: str
    reason: str
    naming: str
    connectors: Mapping[str, str]
    topics: tuple[tuple[str, str, int, str | None], ...]
    local_names: Mapping[str, str]
    groups: tuple[LastKnownGroup, ...]
    opening: tuple[str, ...]
    deadlines: Mapping[str, float]
    confirmed: Mapping[str, Any]
    inventory: Mapping[str, Any]
    loss: tuple[Mapping[str, Any], ...]
    unproven: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON."""
        return digest_of(self.as_dict())


def loss_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """The inventory as an approver reads it: what is lost for certain, what may be, and who is concerned."""
    inventory, override = plan["inventory"], plan["confirmed"].get("override")
    return "\n".join(
        [
            f"**{plan['source']} is given up**, and clients go on with what **{plan['target']}** has. Reason: {cell(plan['reason'])}",
            "",
            f"{plan['source']}: {cell(plan['confirmed']['state'])}, {cell(plan['confirmed']['window'])}.",
            *([f"**It was not found lost. The starter overrides this, because:** {cell(override)}"] if override else []),
            "",
            *_unfenced(plan),
            *_figures(inventory),
            "",
            *_loss_table(plan["loss"], inventory),
            "",
            *_group_table(plan["groups"]),
            "",
            "What cannot be proven:" if plan["unproven"] else "Nothing is left unproven.",
            *[f"- {cell(note)}" for note in plan["unproven"]],
            "",
            f"There is no way back but a failback. Plan digest `{digest}`",
        ]
    )


def _unfenced(plan: Mapping[str, Any]) -> list[str]:
    """That both sides may accept writes for a while: whoever approves accepts that."""
    source, fence = plan["source"], plan["confirmed"].get("fence")
    window = f"it may accept writes from its first answer until the watcher's fence, while {plan['target']} accepts them, too"
    told = {
        ARMED: f"**{source} cannot be fenced now: {window}.** How long that was is measured, and what it accepted is listed.",
        BY_HOOK: f"**{source} cannot be fenced by its ACLs now.** The fence hook is asked to keep clients from it; where it does not, {window}.",
    }
    return [told[fence], ""] if fence in told else []


def _figures(inventory: Mapping[str, Any]) -> list[str]:
    possible, rate = inventory["possible"], inventory["records_per_second"]
    known = f"at most {possible}" if possible is not None else "nobody knows how many at most"
    return [
        f"**Certainly lost: {inventory['certain']} records.** Possibly lost: {known}. {inventory['losing']} of {inventory['partitions']} partitions are concerned.",
        *([f"{inventory['unknown']} partitions were never sampled: of these nothing is known."] if inventory["unknown"] else []),
        *([f"Estimate, from how fast the source grew when it was seen last: {rate} records a second."] if rate is not None else []),
        f"{inventory['groups_ahead']} groups had consumed records that may never have reached the target.",
    ]


def _loss_table(loss: Sequence[Mapping[str, Any]], inventory: Mapping[str, Any]) -> list[str]:
    if not loss:
        return ["No partition loses a record."]
    largest = sorted(loss, key=lambda row: -((row["certain_to"] or row["from_offset"]) - row["from_offset"]))
    rows = [f"| {cell(row['topic'])}-{row['partition']} | {row['from_offset']} | {_end(row['certain_to'], 'none')} | {_end(row['possible_to'], 'no bound')} | {_moment(row['written_since'])} |" for row in largest[:_SHOWN]]
    more = [f"\n... and {len(loss) - _SHOWN} more partitions, each with no more that is certain.\n"] if len(loss) > _SHOWN else []
    head = ["| partition on the source | lost from offset | certainly up to | possibly up to | written after |", "| --- | --- | --- | --- | --- |"]
    return [*head, *rows, *more]


def _group_table(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    if not groups:
        return ["No group is known to have a position."]
    ordered = sorted(groups, key=lambda group: (-group["ahead"], group["group"]))
    rows = [f"| {cell(g['group'])} | {g['partitions']} | {g['ahead']} | {_moment(g['position_at'])} | {g['policy']} |" for g in ordered[:_SHOWN]]
    more = [f"\n... and {len(groups) - _SHOWN} more groups.\n"] if len(groups) > _SHOWN else []
    head = ["| group | partitions | of these beyond what was replicated | oldest position seen at | policy without evidence |", "| --- | --- | --- | --- | --- |"]
    return [*head, *rows, *more]


def _end(offset: int | None, otherwise: str) -> str:
    return otherwise if offset is None else str(offset)


def _moment(at: int | None) -> str:
    return "unknown" if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds")


def grown(approved: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """Partitions of which more is lost by newer evidence than was approved, and by how much: then a person must be asked again."""
    known = {(row["topic"], row["partition"]): row for row in approved}
    return [told for row in now if (told := _more(known.get((row["topic"], row["partition"])), row))]


def _more(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    name = f"{now['topic']}-{now['partition']}"
    if before is None:
        return f"{name} was held to be complete, and loses records from {now['from_offset']} on"
    if now["from_offset"] < before["from_offset"]:
        return f"{name} loses from {now['from_offset']} on, not from {before['from_offset']}"
    if before["possible_to"] is not None and (now["possible_to"] is None or now["possible_to"] > before["possible_to"]):
        return f"{name} loses up to {_end(now['possible_to'], 'an unknown end')}, not to {before['possible_to']}"
    if (now["certain_to"] or 0) > (before["certain_to"] or 0) and before["possible_to"] is None and before["certain_to"] is not None:
        return f"{name} certainly loses up to {now['certain_to']}, not to {before['certain_to']}"
    return None
