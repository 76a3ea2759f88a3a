"""Our positions beside MirrorMaker 2's own checkpoints: how many records each would make a group read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka_dr.domain.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pandas as pd


def compare_with_mirror_maker(rows: pd.DataFrame, checkpoints: Mapping[tuple[str, TopicPartition], int]) -> pd.DataFrame:
    """Add MirrorMaker 2's position and its re-reads to every row.

    Args:
        rows: translated positions: group, target_topic, partition, target_position.
        checkpoints: (group, target partition) -> MirrorMaker 2's downstream offset.

    Returns:
        The rows with `mirror_maker_position` and `mirror_maker_rereads` (target offsets between its position and ours,
        null where it has no checkpoint or we have no position).
    """
    place, keys = TopicPartition._make, zip(*(rows[c].tolist() for c in ("group", "target_topic", "partition")), strict=True)
    theirs = [checkpoints.get((group, place((topic, partition)))) for group, topic, partition in keys]
    compared = rows.assign(mirror_maker_position=theirs)
    compared["mirror_maker_position"] = compared["mirror_maker_position"].astype("Int64")
    compared["target_position"] = compared["target_position"].astype("Int64")
    compared["mirror_maker_rereads"] = (compared["target_position"] - compared["mirror_maker_position"]).clip(lower=0)
    return compared
