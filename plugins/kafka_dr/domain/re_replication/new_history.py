"""Which offset syncs make MirrorMaker 2 forget the syncs of older copies.

MirrorMaker 2 drops all syncs of a partition when one arrives whose source offset is below that of the newest one. Then
only later syncs count: the first new copy, and the last one, which places groups at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync


@dataclass(frozen=True)
class ComparedPartition:
    """What the comparison of a source partition with its new copies has shown.

    Attributes:
        first, last: first and last source record with their copies, as (source offset, target offset); None without
            records.
        end: source log end up to which the partition is copied.
        begins: target offset at which the new copies begin.
    """

    partition: TopicPartition
    first: tuple[int, int] | None
    last: tuple[int, int] | None
    end: int
    begins: int


def syncs_of_new_copies(pair: ComparedPartition, newest: OffsetSync | None) -> Iterator[OffsetSync]:
    """Yield the syncs to write, in order.

    Without records, the next record of the source will be the next one on the target: a sync states that.

    Args:
        newest: the partition's newest sync; None without syncs, of which then none is written.
    """
    if newest is None:
        return
    first = pair.first or (pair.end, pair.begins)
    last = pair.last if pair.last != first else None
    if newest.upstream <= first[0]:
        # The sync of the first copy must be below the newest one, so that all older ones are dropped.
        yield OffsetSync(*pair.partition, *(last or (first[0] + 1, first[1] + 1)))
    yield OffsetSync(*pair.partition, *first)
    if last is not None:
        yield OffsetSync(*pair.partition, *last)
