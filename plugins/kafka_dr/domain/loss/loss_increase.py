"""Loss by observations that are newer than the approved loss, and where the loss is larger than approved.

A row of loss is a range of one source partition that the target lacks: topic, partition, from_offset, certain_to (up to
which loss is certain; None if no loss is certain) and possible_to (up to which loss is possible; None if unknown).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_plan import ROWS_SHOWN, offset_text
from kafka_dr.domain.plain_text import table_cell


@dataclass(frozen=True)
class NewerEvidence:
    """Observations made after the loss was assessed, by partition of the source.

    Attributes:
        target_ends: (the target's log end at the assessment, its log end after MirrorMaker 2 had stopped); an end is
            None if the target partition did not exist. {} if MirrorMaker 2 has not stopped.
        replicated: the last replicated offset in Connect's offsets after MirrorMaker 2 had stopped.
        accepted_to: the source's log end behind its fence, of partitions that accepted records after the assessment.
    """

    target_ends: Mapping[TopicPartition, tuple[int | None, int | None]] = field(default_factory=dict)
    replicated: Mapping[TopicPartition, int] = field(default_factory=dict)
    accepted_to: Mapping[TopicPartition, int] = field(default_factory=dict)


class LossIncrease(NamedTuple):
    """A partition with more loss than approved.

    Attributes:
        approved: approved from_offset, certain_to and possible_to; None if the approved loss lacks the partition.
        now: the same offsets by the newer observations.
        why: what is larger than approved, and by which observation.
    """

    topic: str
    partition: int
    approved: Mapping[str, int | None] | None
    now: Mapping[str, int | None]
    why: str


def loss_now(approved: Sequence[Mapping[str, Any]], evidence: NewerEvidence) -> list[dict[str, Any]]:
    """Return the approved rows of loss, corrected by newer observations.

    A changed row also has the reason (`evidence`) and the approved offsets (`approved`); its `records` are None.
    """
    approved_rows = {TopicPartition(row["topic"], row["partition"]): row for row in approved}
    shrunk = {place for place, ends in evidence.target_ends.items() if _shrank(*ends)}
    return [
        _row_now(place, approved_rows.get(place), evidence)
        for place in sorted({*approved_rows, *shrunk, *evidence.accepted_to})
    ]


def _row_now(place: TopicPartition, approved: Mapping[str, Any] | None, evidence: NewerEvidence) -> dict[str, Any]:
    row = dict(
        approved
        or {**place._asdict(), "from_offset": 0, "certain_to": None, "possible_to": None, "written_since": None}
    )
    (then, ends), end = evidence.target_ends.get(place, (None, None)), evidence.accepted_to.get(place)
    why = []
    if _shrank(then, ends):
        row |= {"from_offset": 0, "certain_to": None}
        why.append(
            f"the target's log {'is gone' if ends is None else f'ends at {ends}'}, and ended at {then} when the loss"
            " was assessed"
        )
    elif then != ends:
        # The target's log grew after the assessment: its new records may be the first of those listed as lost.
        row |= {"from_offset": max(row["from_offset"], evidence.replicated.get(place, -1) + 1), "certain_to": None}
        why.append("the target received records after the loss was assessed")
    if end is not None:
        # MirrorMaker 2 mirrors in offset order: if one record is not on the target, no later one is.
        certain = row["certain_to"]
        row |= {
            "possible_to": max(end, row["from_offset"]),
            "certain_to": max(end, certain) if certain is not None and place in evidence.target_ends else certain,
        }
        why.append(f"the source accepted records after the loss was assessed, and its log ends at {end}")
    if approved is not None and not why:
        return row
    return row | {
        "records": None,
        "evidence": "; ".join(why),
        "accepted_to": end,
        "approved": approved and _offsets(approved),
    }


def _shrank(then: int | None, now: int | None) -> bool:
    return then is not None and (now is None or now < then)


def loss_increases(approved: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[LossIncrease]:
    """Return the partitions with more loss than approved; if there are any, a second person must approve again.

    Args:
        approved: the plan's rows of loss.
        now: the approved rows, corrected by newer observations; and a row for each source range that the translation
            did not find on the target.
    """
    approved_rows = {(row["topic"], row["partition"]): row for row in approved}
    pairs = [(row, approved_rows.get((row["topic"], row["partition"]))) for row in now]
    return [
        LossIncrease(
            row["topic"],
            row["partition"],
            approved_row and _offsets(approved_row),
            _offsets(row),
            f"{excess}: {_reason_of(row)}",
        )
        for row, approved_row in pairs
        if (excess := _excess(approved_row, row))
    ]


def _excess(approved: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    first, to = now["from_offset"], now["possible_to"]
    if to is not None and to <= first:
        return None
    if approved is None:
        return f"no loss was approved for this partition, and now records are lost from {first} on"
    if first < approved["from_offset"]:
        return f"records are lost from {first} on, and the approval was for loss from {approved['from_offset']} on"
    if approved["possible_to"] is not None and (to is None or to > approved["possible_to"]):
        return (
            f"records are lost up to {offset_text(to, 'an unknown end')}, and the approval was for loss up to"
            f" {approved['possible_to']}"
        )
    if (
        approved["possible_to"] is None
        and approved["certain_to"] is not None
        and (now["certain_to"] or 0) > approved["certain_to"]
    ):
        return (
            f"records are certainly lost up to {now['certain_to']}, and the approval was for certain loss up to"
            f" {approved['certain_to']}"
        )
    if approved["possible_to"] is None and now.get("accepted_to") is not None:
        return f"more records are lost, up to {now['accepted_to']}, unless they are on the target"
    return None


def _reason_of(row: Mapping[str, Any]) -> str:
    return str(row.get("reason") or row.get("evidence"))


def _offsets(row: Mapping[str, Any]) -> dict[str, int | None]:
    return {name: row[name] for name in ("from_offset", "certain_to", "possible_to")}


def review_digest(translation: str, increases: Sequence[LossIncrease]) -> str:
    """Return the digest that an approval at review_translation names; without increases this is `translation`.

    Args:
        translation: digest of the translation.
        increases: loss beyond the approved loss; if there is any, the digest covers the translation and the increases.
    """
    return (
        digest_of({"translation": translation, "loss": [row._asdict() for row in increases]})
        if increases
        else translation
    )


def increase_markdown(increases: Sequence[LossIncrease]) -> list[str]:
    """Return Markdown lines with the approved loss and the larger loss, side by side; empty without increases."""
    if not increases:
        return []
    rows = [
        f"| {table_cell(increase.topic)}-{increase.partition} | {_range(increase.approved)} | {_range(increase.now)} |"
        f" {table_cell(increase.why)} |"
        for increase in increases[:ROWS_SHOWN]
    ]
    omitted = [f"\n... and {len(increases) - ROWS_SHOWN} more partitions.\n"] if len(increases) > ROWS_SHOWN else []
    head = [
        (
            "| partition on the source | approved: lost from, certainly to, possibly to | now: lost from, certainly to,"
            " possibly to | why |"
        ),
        "| --- | --- | --- | --- |",
    ]
    return [
        (
            f"**More is lost than was approved, on {len(increases)} partitions.** An approval of these positions"
            " also approves this larger loss."
        ),
        "",
        *head,
        *rows,
        *omitted,
        "",
    ]


def _range(row: Mapping[str, int | None] | None) -> str:
    if row is None:
        return "nothing"
    certain, possible = offset_text(row["certain_to"], "none"), offset_text(row["possible_to"], "no bound")
    return f"{row['from_offset']}, {certain}, {possible}"
