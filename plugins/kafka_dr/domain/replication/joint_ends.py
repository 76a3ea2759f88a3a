"""Log ends of both clusters that belong together, while a flow runs and clients write on its source.

The *joint ends* of a partition are a source offset s and a target offset t. The target's log below t has a copy of
every record below s, and all records from s on get their copies from t on. So positions up to s are translated by joint
ends as by a cut-off and a boundary, without the two logs standing still.

Invariants
1. MirrorMaker 2 copies a partition's records in order. After a restart it copies again from behind its stored offset
   on, and never from below it.
2. Its stored offset, read before the target's last record, has reached one of the source's records from the needed
   offset on (the cut-off, or the highest position of a group that moves). So all records below the needed offset are on
   the target, and the target's last record is the copy of one of these newest records, which are read after it.
3. Which of them it is, is known by content only if exactly one of them has that content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition


class JointEnds(NamedTuple):
    """A source offset and a target offset: below the one all records have copies below the other.

    Attributes:
        source, target: both exclusive.
    """

    source: int
    target: int


@dataclass(frozen=True)
class GrowingView:
    """One partition to which clients go on writing, as read on both clusters; attributes in the order of reading.

    Attributes:
        replicated: MirrorMaker 2's last replicated source offset, as Connect stores it; None if it stores none.
        target_last: fingerprint of the target's last record; None without a record.
        target_end: the target's log end, right behind that record.
        newest: offset and fingerprint of the source's newest records from the needed offset on; not empty.
    """

    partition: TopicPartition
    replicated: int | None
    target_last: str | None
    target_end: int
    newest: Sequence[tuple[int, str]]


def joint_ends_of(view: GrowingView) -> JointEnds | None:
    """Return the joint ends of a partition; None if what was read does not prove any."""
    equal = _equal_offsets(view)
    return JointEnds(equal[0] + 1, view.target_end) if _has_begun(view) and len(equal) == 1 else None


def why_no_joint_ends(view: GrowingView) -> str:
    """Return why a partition has no joint ends yet, as text for the operator."""
    if not _has_begun(view):
        return f"{view.partition}: MirrorMaker 2's stored offset is {view.replicated}, needed is {view.newest[0][0]}"
    return (
        f"{view.partition}: {len(_equal_offsets(view))} of the source's newest records equal the target's last record"
    )


def _has_begun(view: GrowingView) -> bool:
    """Whether MirrorMaker 2 has copied one of the newest records."""
    return view.replicated is not None and view.replicated >= view.newest[0][0]


def _equal_offsets(view: GrowingView) -> list[int]:
    return [offset for offset, fingerprint in view.newest if fingerprint == view.target_last]
