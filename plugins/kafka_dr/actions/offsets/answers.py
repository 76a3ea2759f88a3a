"""Check that the translation has a row for every position, and sum up re-reads by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from kafka_dr.actions.scope.position_frames import rank_names
from kafka_dr.errors import Contradiction

#: Columns that identify a committed position and its translation.
KEY = ["group", "topic", "partition", "position"]


def check_complete(positions: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Raise Contradiction unless `rows` has exactly one row for each of the source's `positions`."""
    if len(positions) == len(rows) and _same_rows(positions[KEY], rows[KEY]):
        return
    asked, answered = (set(map(tuple, frame[KEY].to_numpy())) for frame in (positions, rows))
    if len(rows) != len(asked) or answered != asked:
        missing = sorted(asked - answered)[:5]
        raise Contradiction(
            "The translation does not have exactly one row for every position",
            f"{len(asked)} positions, {len(rows)} rows; positions without a row: {missing}",
            "The procedure returns to the source by itself; the result of the Spark job was not used. Read the Spark"
            " job's messages in the log of the Airflow task translate_offsets, and correct the cause that these"
            " messages name; then start a new run.",
        )


def _same_rows(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether two frames have the same rows in any order, by 64-bit hashes: comparing tuples would take seconds."""
    normalised = [
        frame.astype({"group": object, "topic": object, "partition": "int64", "position": "int64"})
        for frame in (first, second)
    ]
    first_hashes, second_hashes = (
        np.sort(pd.util.hash_pandas_object(frame, index=False).to_numpy()) for frame in normalised
    )
    return np.array_equal(first_hashes, second_hashes)


_GROUPS_NAMED = 20


def rereads_by_group(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the groups that would re-read most records if they began at MirrorMaker 2's checkpoints, most first.

    At most 20 rows: `group`; `mirror_maker` (these re-reads, of positions with a checkpoint); `bound` (the bound of
    re-reads by this translation; null if a position of the group has no bound). Both numbers are sums over the group's
    partitions.
    """
    codes, names = rank_names(rows["group"])
    by_group = rows.groupby(codes)
    sums = pd.DataFrame(
        {
            "bound": by_group["bound"].sum(),
            "unknown": rows["bound"].isna().groupby(codes).any(),
            "mirror_maker": by_group["mirror_maker_rereads"].sum(),
        }
    )
    top_groups = sums.sort_values("mirror_maker", ascending=False, kind="stable").head(_GROUPS_NAMED)
    return [
        {"group": names[code], "bound": None if unknown else int(bound), "mirror_maker": int(mirror_maker)}
        for code, bound, unknown, mirror_maker in top_groups.itertuples()
        if mirror_maker
    ]
