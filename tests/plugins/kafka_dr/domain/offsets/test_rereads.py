"""Our positions beside MirrorMaker 2's."""

from __future__ import annotations

import pandas as pd
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.offsets.rereads import compare_with_mirror_maker

COLUMNS = ["group", "target_topic", "partition", "target_position"]


def framed(checkpoints: dict[tuple[str, TopicPartition], int]) -> pd.DataFrame:
    """Checkpoints as a frame."""
    rows = [(group, *tp, offset) for (group, tp), offset in checkpoints.items()]
    return pd.DataFrame(rows, columns=["group", "topic", "partition", "mirror_maker_position"]).astype(
        {"group": object, "topic": object, "partition": "int64"}
    )


def compared(
    *rows: tuple[str, str, int, int | None], checkpoints: dict[tuple[str, TopicPartition], int] | None = None
) -> list[tuple[object, object]]:
    """MirrorMaker 2's position and re-reads of every row; None for null."""
    frame = compare_with_mirror_maker(pd.DataFrame(rows, columns=COLUMNS), framed(checkpoints or {}))
    pairs = frame[["mirror_maker_position", "mirror_maker_rereads"]].astype(object)
    return [tuple(None if pd.isna(v) else int(v) for v in row) for row in pairs.to_numpy()]


def test_the_difference_is_what_would_be_read_again() -> None:
    """A checkpoint at 60 before our 100 re-reads 40; each group and partition by its own checkpoint."""
    points = {("g", TopicPartition("t", 0)): 60, ("g", TopicPartition("t", 1)): 7, ("h", TopicPartition("t", 0)): 100}
    found = compared(("g", "t", 0, 100), ("g", "t", 1, 7), ("h", "t", 0, 100), checkpoints=points)
    assert found == [(60, 40), (7, 0), (100, 0)]


def test_a_checkpoint_ahead_of_us_reads_nothing_again() -> None:
    """Never less than zero."""
    assert compared(("g", "t", 0, 10), checkpoints={("g", TopicPartition("t", 0)): 12}) == [(12, 0)]


def test_unknown_stays_unknown() -> None:
    """No checkpoint or no position of ours gives null, never zero."""
    found = compared(("g", "t", 0, 10), ("g", "t", 1, None), checkpoints={("g", TopicPartition("t", 1)): 3})
    assert found == [(None, None), (3, None)]


def test_nothing_compared_is_nothing() -> None:
    """The empty case has the columns."""
    frame = compare_with_mirror_maker(pd.DataFrame([], columns=COLUMNS).astype({"partition": "int64"}), framed({}))
    assert len(frame) == 0 and {"mirror_maker_position", "mirror_maker_rereads"} <= set(frame.columns)


def test_every_column_given_is_kept() -> None:
    """Nothing of a row gets lost."""
    frame = pd.DataFrame([("g", "t", 0, 5, "SYNC")], columns=[*COLUMNS, "class"])
    assert compare_with_mirror_maker(frame, framed({}))["class"].tolist() == ["SYNC"]
