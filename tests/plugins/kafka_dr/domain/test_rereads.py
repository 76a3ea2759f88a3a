"""Our positions beside MirrorMaker 2's."""

from __future__ import annotations

import pandas as pd

from kafka_dr.domain.rereads import compare_with_mirror_maker


def compared(ours: list[int | None], theirs: list[int | None]) -> list[int | None]:
    """Re-reads of every row; None for null."""
    frame = compare_with_mirror_maker(pd.DataFrame({"target_position": pd.array(ours, "Int64")}), pd.array(theirs, "Int64"))
    assert frame["mirror_maker_position"].astype(object).where(frame["mirror_maker_position"].notna(), None).tolist() == theirs
    return [None if pd.isna(v) else int(v) for v in frame["mirror_maker_rereads"]]


def test_the_difference_is_what_would_be_read_again() -> None:
    """A checkpoint at 60 before our 100 re-reads 40; one ahead of us never less than none."""
    assert compared([100, 7, 10], [60, 7, 12]) == [40, 0, 0]


def test_unknown_stays_unknown() -> None:
    """No checkpoint or no position of ours gives null, never zero."""
    assert compared([10, None], [None, 3]) == [None, None]


def test_large_offsets_are_not_rounded() -> None:
    """Beyond what a float can hold."""
    assert compared([2**62 + 1, None], [2**62, None]) == [1, None]


def test_nothing_compared_is_nothing_and_every_column_is_kept() -> None:
    """The empty case has the columns, and nothing of a row gets lost."""
    frame = compare_with_mirror_maker(pd.DataFrame({"target_position": [], "class": []}), pd.array([], "Int64"))
    assert len(frame) == 0 and {"mirror_maker_position", "mirror_maker_rereads", "class"} <= set(frame.columns)
