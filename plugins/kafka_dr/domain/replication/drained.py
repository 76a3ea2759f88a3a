"""Whether a partition is drained: every record below the cut-off that a reader would get is on the target.

Invariants
1. Logs are compared partition by partition, never as totals, and never by arithmetic on offsets alone: transaction
   markers and compaction leave offsets at which a reader gets no record.
2. The last records of source and target must have equal content. This alone proves nothing, because several records may
   have the same content: MirrorMaker 2's last replicated offset must have reached the source's last record, too, or the
   target must have all source records from a proven pair on, by content and number.
3. If clients have written nothing on the source since the last client move, the last records may differ, because
   stranded records stay on either cluster. The proof is then that the flow's seeded offset lies behind the source's
   last record, and that the target's log end is not lower than it was when the flow was seeded.
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
    """The last records of one partition, as read on source and target.

    Attributes:
        source_last: offset and fingerprint of the last source record below the cut-off that a reader gets; None
            without such a record.
        target_last: fingerprint of the target's last record; None without a record.
        replicated: MirrorMaker 2's last replicated source offset; None if Connect has none.
        shared: whether both conditions of invariant 3 hold: the flow's seeded offset lies behind the source's last
            record, and the target's log end is not lower than it was when the flow was seeded.
        source_since, target_since: fingerprints of all records from a proven pair on, on the source and on the target;
            None if not read.
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
    """Return how the partition is proven to be drained; None if no proof succeeds."""
    if view.source_last is None:
        return Proof.EMPTY
    offset, fingerprint = view.source_last
    # A replicated offset at or above the cut-off is of another log (a recreated topic), or was written manually.
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
    """Return why a partition is not proven drained, as text for the operator; empty if the source has no record."""
    if view.source_last is None:
        return ""
    stored = f"MirrorMaker 2's stored offset is {view.replicated}"
    if view.target_last is None:
        return (
            f"{view.partition}: the target has no record, the source's last record is at offset {view.source_last[0]};"
            f" {stored}"
        )
    if view.target_last != view.source_last[1]:
        return (
            f"{view.partition}: the target's last record differs from the source's last record, at offset"
            f" {view.source_last[0]}; {stored}"
        )
    return (
        f"{view.partition}: the last records are equal, but {stored}, and the source's last record is at offset"
        f" {view.source_last[0]}"
    )
