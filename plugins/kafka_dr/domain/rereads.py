"""Our positions beside MirrorMaker 2's own checkpoints: how many records each would make a group read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def compare_with_mirror_maker(rows: pd.DataFrame, theirs: pd.array) -> pd.DataFrame:
    """Add MirrorMaker 2's position and its re-reads to every row.

    Args:
        rows: translated positions, among their columns target_position.
        theirs: MirrorMaker 2's position for each row, null where it has no checkpoint.

    Returns:
        The rows with `mirror_maker_position` and `mirror_maker_rereads` (target offsets between its position and ours,
        null where it has no checkpoint or we have no position).
    """
    compared = rows.assign(mirror_maker_position=theirs, target_position=rows["target_position"].astype("Int64"))
    return compared.assign(mirror_maker_rereads=(compared["target_position"] - compared["mirror_maker_position"]).clip(lower=0))
