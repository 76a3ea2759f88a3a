"""What translate_offsets answered: complete, and its re-reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from kafka_dr.actions.scope.position_frames import (
    rank_names,
)
from kafka_dr.errors import Contradiction

#: What makes a translated position that of a committed one.
KEY = ["group", "topic", "partition", "position"]


def check_complete(positions: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Every committed position has exactly one translated row."""
    if len(positions) == len(rows) and _same_rows(positions[KEY], rows[KEY]):
        return
    asked, got = (set(map(tuple, frame[KEY].to_numpy())) for frame in (positions, rows))
    if len(rows) != len(asked) or got != asked:
        missing = sorted(asked - got)[:5]
        raise Contradiction(
            "The translation does not answer every position once",
            f"{len(asked)} asked, {len(rows)} answered; missing {missing}",
            "The procedure returns by itself; see the task's log, then start a new one.",
        )


def _same_rows(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two frames hold the same rows in any order, by 64-bit hashes: comparing tuples takes seconds."""
    alike = [
        frame.astype({"group": object, "topic": object, "partition": "int64", "position": "int64"})
        for frame in (one, other)
    ]
    here, there = (np.sort(pd.util.hash_pandas_object(frame, index=False).to_numpy()) for frame in alike)
    return np.array_equal(here, there)


_GROUPS_NAMED = 20


def rereads_by_group(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Groups with most rereads by MirrorMaker 2's checkpoints: these and our bound, summed over partitions.

    Our bound is null where one of its positions has none; theirs counts positions with a checkpoint only.
    """
    codes, names = rank_names(rows["group"])
    found = rows.groupby(codes)
    sums = pd.DataFrame(
        {
            "bound": found["bound"].sum(),
            "unknown": rows["bound"].isna().groupby(codes).any(),
            "mirror_maker": found["mirror_maker_rereads"].sum(),
        }
    )
    most = sums.sort_values("mirror_maker", ascending=False, kind="stable").head(_GROUPS_NAMED)
    return [
        {"group": names[code], "bound": None if unknown else int(bound), "mirror_maker": int(theirs)}
        for code, bound, unknown, theirs in most.itertuples()
        if theirs
    ]
