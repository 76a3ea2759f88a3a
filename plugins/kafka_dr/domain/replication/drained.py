"""Drained: no readable source record lies between the last record proven on the target and the cut-off.

Invariants
1. Logs are compared partition by partition, never as totals, and never by arithmetic on offsets alone: markers and
   compaction leave offsets that no reader returns.
2. The target's last record is the source's last by content. Equal content proves nothing if contents recur; so the
   records since a proven pair are counted too, or MirrorMaker 2's own last replicated offset has reached the tail.
3. If nothing was written since clients came to the source, the tails may rightly differ: stranded records stay on
   either cluster. Then the journal holds a seeded start offset behind the source's last record, and the target's log
   end is not below its end at the seeding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


class Proof(StrEnum):
    """How a partition was shown to be drained."""

    EMPTY = "no record below the cut-off"
    REPLICATED = "tail equal by content, and MirrorMaker 2 replicated the last record"
    SHARED = "no record since MirrorMaker 2 was told where to begin: behind all that the source holds"
    COUNTED = "tail equal by content, and all records since an offset sync counted on both sides"


@dataclass(frozen=True)
class TailView:
    """The tails of one partition as read on source and target.

    Attributes:
        source_last: offset and fingerprint of the source's last returnable record below the cut-off; None without one.
        target_last: fingerprint of the target's last record; None without one.
        replicated: MirrorMaker 2's last replicated offset; None if it has none.
        shared: whether MirrorMaker 2's seeded start offset lies behind the source's last record, and the target's log
            end is not below its end at the seeding.
        source_since, target_since: fingerprints of all records from a proven pair on; None if not read.
    """

    partition: TopicPartition
    cut_off: int
    source_last: tuple[int, str] | None
    target_last: str | None
    replicated: int | None
    shared: bool = False
    source_since: Sequence[str] | None = None
    target_since: Sequence[str] | None = None


def proof_of(view: TailView) -> Proof | None:
    """How the partition is proven to be drained, or None if it is not."""
    if view.source_last is None:
        return Proof.EMPTY
    offset, fingerprint = view.source_last
    # An offset at or past the cut-off belongs to another log (a recreated topic), or was written manually.
    replicated = view.replicated is not None and offset <= view.replicated < view.cut_off
    if view.target_last != fingerprint:
        return Proof.SHARED if view.shared and replicated else None
    if replicated:
        return Proof.REPLICATED
    if (
        view.source_since is not None
        and view.target_since is not None
        and _holds_all(view.target_since, view.source_since)
    ):
        return Proof.COUNTED
    return None


def _holds_all(target: Sequence[str], source: Sequence[str]) -> bool:
    return not Counter(source) - Counter(target)


def why_not(view: TailView) -> str:
    """Why the partition is not proven to be drained, as a sentence for the operator."""
    if view.source_last is None:
        return ""
    if view.target_last is None:
        return f"{view.partition}: the target holds no record, the source's last is at {view.source_last[0]}"
    if view.target_last != view.source_last[1]:
        return f"{view.partition}: the target's last record is not the source's last, at {view.source_last[0]}"
    return (
        f"{view.partition}: the tails look equal, but MirrorMaker 2 is known to have replicated only up to"
        f" {view.replicated}, the source's last is at {view.source_last[0]}"
    )
