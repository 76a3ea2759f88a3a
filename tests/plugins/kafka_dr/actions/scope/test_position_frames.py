"""Committed positions as frames: in order, nothing lost, nothing rounded."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.actions.offsets.commit import changed_positions, ledger_frame
from kafka_dr.actions.scope.position_frames import (
    COLUMNS,
    TYPES,
    by_group,
    in_order,
    positions_of,
    with_partition_column,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.group_requests import Position, PositionColumns

ROWS = st.dictionaries(
    st.tuples(st.text(max_size=3), st.text(min_size=1, max_size=2), st.integers(0, 3)),
    st.integers(0, 2**62),
    max_size=12,
)


def framed(rows: dict[tuple[str, str, int], int]) -> pd.DataFrame:
    """Positions as a frame, in no order."""
    return pd.DataFrame([(*key, offset) for key, offset in rows.items()], columns=COLUMNS).astype(TYPES)


@given(ROWS)
def test_order_and_groups_keep_every_position(rows: dict[tuple[str, str, int], int]) -> None:
    """Sorted as tuples are; grouped and put together again they are the same."""
    frame = in_order(framed(rows))
    assert list(frame.itertuples(index=False, name=None)) == sorted((*key, offset) for key, offset in rows.items())
    grouped = {(group, *tp): offset for group, held in by_group(frame) for tp, offset in held.items()}
    assert grouped == rows and len({group for group, _ in by_group(frame)}) == len(list(by_group(frame)))


@given(ROWS, ROWS)
def test_what_differs_is_what_is_not_held(
    wanted: dict[tuple[str, str, int], int], held: dict[tuple[str, str, int], int]
) -> None:
    """Exactly the positions that are elsewhere or nowhere, whole numbers of any size; the ledger tells the same."""
    here, there = in_order(framed(wanted)), in_order(framed(held))
    todo = changed_positions(here, there)
    missing = {key: offset for key, offset in wanted.items() if held.get(key) != offset}
    assert {tuple(row[:3]): row[3] for row in todo.itertuples(index=False, name=None)} == missing
    ledger = ledger_frame(here, there, here, {})
    assert ledger["before"].tolist() == [held.get(key, pd.NA) for key in sorted(wanted)]
    assert ledger["read_back"].tolist() == ledger["wanted"].tolist()


def test_a_refused_position_has_the_brokers_word() -> None:
    """Only its own row; the others have none."""
    frame = framed({("a", "t", 0): 1, ("b", "t", 0): 2})
    ledger = ledger_frame(frame, frame.iloc[:0], frame, {("b", TopicPartition("t", 0)): "GROUP_AUTHORIZATION_FAILED"})
    assert ledger["error"].fillna("").tolist() == ["", "GROUP_AUTHORIZATION_FAILED"]


def test_a_partition_without_a_value_is_unknown() -> None:
    """Never zero."""
    frame = framed({("a", "t", 0): 1, ("a", "t", 1): 1})
    assert with_partition_column(frame, {TopicPartition("t", 0): 7}, "end")["end"].tolist() == [7, pd.NA]


def test_a_clusters_positions_come_in_order(bench: Any) -> None:
    """Of the groups asked for only; a group without a position has no row."""
    cluster = bench.clusters["primary"]
    cluster.committed = {g: {TopicPartition("t", p): Position(p) for p in (1, 0)} for g in ("b", "a", "c")}
    found = positions_of(cluster, ["b", "a", "nobody"]).to_dict("split")["data"]
    assert found == [["a", "t", 0, 0], ["a", "t", 1, 1], ["b", "t", 0, 0], ["b", "t", 1, 1]]


def test_a_partition_without_a_position_is_left_out() -> None:
    """librdkafka answers with a negative offset for it."""
    columns = PositionColumns([], [], [], [])
    columns.add("g", [type("P", (), {"topic": "t", "partition": p, "offset": o})() for p, o in ((0, 5), (1, -1001))])
    assert columns == (["g"], ["t"], [0], [5])
