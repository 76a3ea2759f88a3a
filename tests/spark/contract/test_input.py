"""Input in portions: the tasks get every row once, with the others of its partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.task_rows import unpack_table

from tests.spark.mock_clusters import write_input

POSITIONS = [(f"g{n}", f"t{n % 3}", n % 5 - 1, n) for n in range(200)] + [("g", "t0", 2**31 - 1, 7)]
SYNCS = [("t0", n % 5, n, n, n) for n in range(50)] + [("elsewhere", 0, 1, 1, 1)]


@pytest.mark.parametrize("held", [4, 40, 1_000_000])
def test_every_row_goes_to_its_partitions_task_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """In one portion or many, with strange partition numbers and syncs that nobody asked for."""
    folder = write_input(tmp_path / "in", POSITIONS, SYNCS, [])
    monkeypatch.setattr(sources, "ROWS_HELD", held)
    rows = sources.tagged_rows(folder)
    extents = sources.measure_positions(rows)
    assert {key: extent.rows for key, extent in extents.items()} == Counter(
        (topic, partition) for _, topic, partition, _ in POSITIONS
    )
    assert all(
        (extents[topic, partition].lowest <= position <= extents[topic, partition].highest)
        for _, topic, partition, position in POSITIONS
    )
    tasks_of = sources.spread_partitions({key: extent.rows for key, extent in extents.items()}, 3)
    came = [
        [tuple(row.values()) for row in unpack_table(packed).to_pylist()]
        for packed in sources.packed_for_tasks(rows, tasks_of, 3)
    ]
    assert [{tasks_of[row[0], row[1]] for row in of_task} for of_task in came] == [{0}, {1}, {2}]
    given = [(t, p, 0, g, "earliest", n, 1_700_000_000_000, 0, -1) for g, t, p, n in POSITIONS]
    given += [(t, p, 1, "", "", u, d, s, -1) for t, p, u, d, s in SYNCS if (t, p) in tasks_of]
    assert Counter(row for of_task in came for row in of_task) == Counter(given)
