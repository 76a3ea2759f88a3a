"""Re-reads of MirrorMaker 2's own checkpoints, compared with the translated positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def compare_with_mirror_maker(rows: pd.DataFrame, checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Add MirrorMaker 2's position and re-reads to every row.

    Args:
        rows: translated positions: group, target_topic, partition, target_position.
        checkpoints: MirrorMaker 2's: group, topic (of the target), partition, mirror_maker_position; one row each.

    Returns:
        The rows with `mirror_maker_position` and `mirror_maker_rereads` (target offsets between MirrorMaker 2's and
        our position, 0 if ours is lower; null without checkpoint or without position).
    """
    mirror_maker = checkpoints.rename(columns={"topic": "target_topic"})
    compared = rows.merge(mirror_maker, on=["group", "target_topic", "partition"], how="left")
    compared["mirror_maker_position"] = compared["mirror_maker_position"].astype("Int64")
    compared["target_position"] = compared["target_position"].astype("Int64")
    compared["mirror_maker_rereads"] = (compared["target_position"] - compared["mirror_maker_position"]).clip(lower=0)
    return compared
