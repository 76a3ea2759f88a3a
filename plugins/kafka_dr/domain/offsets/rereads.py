"""Re-reads that groups would have by MirrorMaker 2's own checkpoints, compared with the translated positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def compare_with_mirror_maker(rows: pd.DataFrame, checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return the translated rows with the positions and the re-reads that MirrorMaker 2's checkpoints would give.

    Args:
        rows: translated positions: group, target_topic, partition, target_position.
        checkpoints: MirrorMaker 2's checkpoints: group, topic (name on the target), partition, mirror_maker_position;
            one row per group and partition.

    Returns:
        The rows with `mirror_maker_position` (null without a checkpoint) and `mirror_maker_rereads`: number of target
        offsets from MirrorMaker 2's position up to the translated position; 0 if the translated position is lower,
        null if either position is missing.
    """
    mirror_maker = checkpoints.rename(columns={"topic": "target_topic"})
    compared = rows.merge(mirror_maker, on=["group", "target_topic", "partition"], how="left")
    compared["mirror_maker_position"] = compared["mirror_maker_position"].astype("Int64")
    compared["target_position"] = compared["target_position"].astype("Int64")
    compared["mirror_maker_rereads"] = (compared["target_position"] - compared["mirror_maker_position"]).clip(lower=0)
    return compared
