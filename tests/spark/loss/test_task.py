"""The assessment of loss: a task over two clusters, and the inventory that is made of its rows."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema, check_columns, check_values
from kafka_dr_spark.contract.task_rows import FLOOR, POSITION, SEEN, STRETCH, SYNC, TAGGED, pack_table, unpack_table
from kafka_dr_spark.export.place import ExportPlace
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.loss.inventory import Inventory, loss_digest, summarise_inventory, write_inventory
from kafka_dr_spark.loss.task import AssessmentTask, output_schema, source_growth, written_since
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.translation.case import Limits

from tests.spark.mock_clusters import MockCluster, bounds_row, write_input


def tagged(*rows: tuple) -> bytes:
    """Tagged rows of topic, partition, kind, a position's group, and numbers, packed."""
    named = [(*row[:4], "earliest", *row[4:]) if row[2] == POSITION else (*row[:3], "", "", *row[3:]) for row in rows]
    filled = [(*row, *[-1] * (len(TAGGED) - len(row))) for row in named]
    return pack_table(
        pa.table([pa.array(column, field.type) for column, field in zip(zip(*filled), TAGGED)], schema=TAGGED)
    )


@pytest.fixture(scope="module")
def clusters() -> tuple[MockCluster, MockCluster]:
    """A source of two hundred records of which the target has the first hundred and twenty, forty of them twice."""
    source, target = MockCluster(), MockCluster()
    values = [b"id-%d" % number for number in range(200)]
    source.write("orders", 0, values)
    target.write("orders", 0, values[:110] + values[70:120])
    source.write("orders", 1, values[:50])
    target.write("orders", 1, values[:50])
    return source, target


def assessed(
    clusters: tuple[MockCluster, MockCluster], folder: Path, *rows: tuple, drained: bool = False, **limits: Any
) -> dict[int, dict[str, Any]]:
    """What a task says of each partition."""
    source, target = clusters
    for name in ("stranded", "uncommitted"):
        (folder / name).mkdir(parents=True)
    ends = {0: (200, 160), 1: (50, 50)}
    bounds = {("orders", p): LogBounds(**bounds_row("orders", p, *ends[p], drained=drained)) for p in ends}
    task = AssessmentTask(bounds, Limits(**limits), KafkaAccess(source.config, target.config), ExportPlace(str(folder)))
    return {row["partition"]: row for row in unpack_table(task(tagged(*rows))).to_pylist()}


ROWS = [
    ("orders", 0, SYNC, 100, 100, 1),
    ("orders", 0, SEEN, 190, 60, 5_000, 200),
    ("orders", 1, SYNC, 10, 10, 2),
    ("orders", 1, SEEN, 50, 40, 5_000, 50),
]


def test_a_partition_that_no_broker_leads_is_told_by_samples_alone(clusters: tuple, tmp_path: Path) -> None:
    """The others are listed; this one has no bound, no file, and counts by its offsets."""
    unled = ("orders", 0, SEEN, 190, 60, 5_000)
    found = assessed(clusters, tmp_path, ROWS[0], unled, *ROWS[2:])
    lost, whole = found[0], found[1]
    assert (lost["from_offset"], lost["exact"], lost["records"], lost["file"]) == (61, False, None, None)
    assert lost["possible_to"] is None and lost["read_source"] == 0
    assert whole["records"] == 0 and whole["exact"]
    assert not list((tmp_path / "stranded").iterdir())


def test_a_partition_that_was_read_has_bounds(clusters: tuple, tmp_path: Path) -> None:
    """Without them it would be told by samples although its records are there."""
    source, target = clusters
    bounds = {("orders", 1): LogBounds(**bounds_row("orders", 1, 50, 50) | {"cut_off": None})}
    task = AssessmentTask(bounds, Limits(), KafkaAccess(source.config, target.config), ExportPlace(str(tmp_path)))
    with pytest.raises(ContractBroken, match="orders-1 has a last stable offset, but no log start or no cut-off"):
        task(tagged(*ROWS[2:]))


def test_where_the_source_answers_the_loss_is_listed_to_the_record(clusters: tuple, tmp_path: Path) -> None:
    """What follows the last record that is on the target, whole; a partition that lost nothing has no file."""
    found = assessed(clusters, tmp_path, *ROWS, source_final=True)
    lost, whole = found[0], found[1]
    seen = (lost["from_offset"], lost["certain_to"], lost["possible_to"], lost["exact"], lost["records"])
    assert seen == (120, 200, 200, True, 80)
    result = (lost["aborted"], lost["undecided"], whole["losing"], whole["file"], whole["records"])
    assert result == (0, 0, False, None, 0)
    listed = pq.read_table(tmp_path / "stranded" / lost["file"])
    check_columns("stranded", listed.schema)
    assert listed["value"].to_pylist() == [b"id-%d" % number for number in range(120, 200)]
    assert set(listed["key_sha256"].to_pylist()) == {hashlib.sha256(b"k").hexdigest()}
    assert listed["header_names"][0].as_py() == ["h"]
    assert lost["sha256"] == hashlib.sha256((tmp_path / "stranded" / lost["file"]).read_bytes()).hexdigest()
    assert (lost["first_at"], lost["last_at"], lost["bytes"]) == (1006, 1006, 80 * 7)
    assert lost["uncommitted_sha256"] is None
    assert [path.name for path in (tmp_path / "stranded").iterdir()] == [lost["file"]]
    assert re.fullmatch(r"orders-0-[0-9a-f]{12}\.parquet", lost["file"])


@pytest.mark.parametrize(
    ("more", "from_offset"),
    [
        ([("orders", 0, SYNC, 170, 170, 2)], 0),
        ([("orders", 0, SYNC, 170, 170, 2), ("orders", 0, FLOOR, 100, 100, 60, 1_000)], 61),
        ([("orders", 0, SYNC, 110, 110, 2)], 101),
    ],
)
def test_a_sync_beyond_the_target_tells_of_an_older_log_where_no_sample_does(
    more: list[tuple], from_offset: int, clusters: tuple, tmp_path: Path
) -> None:
    """Without samples nothing is known of that log; with samples it is one wrong statement."""
    assert assessed(clusters, tmp_path, *ROWS, *more, source_readable=False)[0]["from_offset"] == from_offset


def test_a_source_that_is_still_written_to_has_no_end(clusters: tuple, tmp_path: Path) -> None:
    """What it holds is listed; what it will hold, nobody knows."""
    lost = assessed(clusters, tmp_path, *ROWS)
    assert (lost[0]["possible_to"], lost[0]["exact"], lost[0]["records"], lost[1]["losing"]) == (None, True, 80, True)


def test_what_no_transaction_committed_is_listed_apart(clusters: tuple, tmp_path: Path) -> None:
    """Above the last stable offset it is undecided."""
    rows = [*ROWS[:1], ("orders", 0, SEEN, 190, 60, 5_000, 150), *ROWS[2:]]
    lost = assessed(clusters, tmp_path, *rows, source_final=True)[0]
    assert (lost["records"], lost["aborted"], lost["undecided"]) == (80, 0, 50)
    apart = pq.read_table(tmp_path / "uncommitted" / lost["file"])
    check_values("uncommitted", apart)
    assert apart["offset"].to_pylist() == list(range(150, 200)) and set(apart["state"].to_pylist()) == {"undecided"}
    assert (
        lost["uncommitted_sha256"] == hashlib.sha256((tmp_path / "uncommitted" / lost["file"]).read_bytes()).hexdigest()
    )


def test_without_the_source_it_is_what_was_seen_last(clusters: tuple, tmp_path: Path) -> None:
    """Certain up to the last sample where the source had no gaps; open beyond; unknown without a sample."""
    floors = [
        ("orders", 0, FLOOR, 80, 70, 50, 1_000),
        ("orders", 0, FLOOR, 120, 105, 69, 4_000),
        ("orders", 0, FLOOR, 190, 150, 69, 5_000),
    ]
    rows = [
        ("orders", 0, SYNC, 115, 155, 1),
        ("orders", 0, SYNC, 118, 158, 2),
        ("orders", 0, SEEN, 190, 69, 5_000),
        ("orders", 0, STRETCH, 0, 200, 0),
        ("orders", 1, SEEN),
        *floors,
    ]
    found = assessed(clusters, tmp_path, *rows, source_readable=False)
    lost, unknown = found[0], found[1]
    seen = (lost["from_offset"], lost["certain_to"], lost["possible_to"], lost["records"], lost["exact"])
    assert seen == (120, 190, None, None, False)
    assert (lost["written_since"], lost["records_per_second"], lost["sampled_at"]) == (4_000, 27.5, 5_000)
    result = (unknown["from_offset"], unknown["certain_to"], unknown["possible_to"], unknown["sampled_at"])
    assert result == (0, None, None, None)


def test_a_source_that_cannot_be_read_and_has_ended_bounds_the_loss(clusters: tuple, tmp_path: Path) -> None:
    """Its cut-off is its last end, and what was seen of it last; without one nobody knows it."""
    rows = [
        ("orders", 0, SYNC, 115, 155, 1),
        ("orders", 0, SYNC, 118, 158, 2),
        ("orders", 0, SEEN, 200, 69, 5_000),
        ("orders", 0, STRETCH, 0, 200, 0),
        ("orders", 1, SEEN, 50, 49, 5_000),
    ]
    found = assessed(clusters, tmp_path, *rows, source_readable=False, source_final=True)
    seen = (found[0]["from_offset"], found[0]["certain_to"], found[0]["possible_to"], found[0]["exact"])
    assert seen == (120, 200, 200, False)
    assert (found[1]["from_offset"], found[1]["losing"]) == (50, False)


def test_a_drained_partition_loses_nothing(clusters: tuple, tmp_path: Path) -> None:
    """Whatever samples and pairs tell; where its end is not the last one, what follows may be lost."""
    rows = [("orders", 0, SYNC, 118, 158, 1), ("orders", 0, SEEN, 190, 69, 5_000), ("orders", 1, SEEN)]
    found = assessed(clusters, tmp_path / "final", *rows, drained=True, source_readable=False, source_final=True)
    seen = [(one["from_offset"], one["losing"], one["read_target"]) for one in found.values()]
    assert seen == [(200, False, 0), (50, False, 0)]
    assert (lost := assessed(clusters, tmp_path / "open", *rows, drained=True, source_readable=False)[0])["losing"]
    assert (lost["from_offset"], lost["possible_to"]) == (200, None)


def test_a_partition_without_a_row_of_what_was_seen_breaks_the_contract(clusters: tuple, tmp_path: Path) -> None:
    """Its name is told."""
    with pytest.raises(ContractBroken, match="last_seen: orders-0 has 0 rows"):
        assessed(clusters, tmp_path, ROWS[0])


def test_what_groups_may_be_given_again_is_told_before_anything_is_translated(clusters: tuple, tmp_path: Path) -> None:
    """From the floor to what Connect had kept, or to the end where no sample says so or a group may have gone on."""
    held = [
        ("orders", 0, POSITION, group, position, 0, moved)
        for group, position, moved in (("a", 85, 0), ("b", 85, 1), ("c", 5, 0), ("d", 185, 0))
    ]
    floors = [("orders", 0, FLOOR, 80, 70, 50, 1_000), ("orders", 0, FLOOR, 120, 105, 90, 4_000)]
    seen = [("orders", 0, SEEN, 190, 69, 5_000), ("orders", 1, SEEN, 50, 49, 5_000)]
    found = assessed(
        clusters, tmp_path, *seen, *floors, *held, ("orders", 1, POSITION, "a", 9, 0, 0), source_readable=False
    )
    assert dict(zip(found[0]["groups"], found[0]["bounds"])) == {"a": 35, "b": 90, "c": 70, "d": 55}
    assert found[0]["moved"] == [False, True, False, False]
    assert (found[1]["groups"], found[1]["bounds"]) == (["a"], [50])
    whole = assessed(
        clusters,
        tmp_path / "drained",
        *seen,
        ("orders", 1, POSITION, "a", 50, 0, 0),
        drained=True,
        source_readable=False,
    )
    assert whole[1]["bounds"] == [0]


def test_time_and_growth_by_samples() -> None:
    """Growth is measured over a minute; one sample tells none."""
    floors = Floors(*(np.array(column) for column in ((0, 100, 700), (0, 90, 600), (-1, 5, 9), (0, 40_000, 100_000))))
    assert source_growth(floors) == 10.0 and source_growth(Floors()) is None
    assert [written_since(floors, offset) for offset in (0, 99, 100, 5_000)] == [0, 0, 40_000, 100_000]


SCHEMA = arrow_schema("loss")
LOSS = dict.fromkeys(SCHEMA.names) | {"topic": "t", "partition": 0, "exact": False, "evidence": "e"}
LISTED = ("from_offset", "certain_to", "records", "bytes", "first_at", "last_at", "aborted", "undecided")


def test_the_inventory_names_groups_that_had_gone_further(tmp_path: Path) -> None:
    """Positions above what was replicated; the digest does not depend on where records were written."""
    row = LOSS | {"from_offset": 10, "certain_to": 30, "records_per_second": 2.5}
    groups = {"groups": ["a", "b", "c"], "bounds": [9, 4, None], "moved": [False, True, False]}
    first = row | groups | {"losing": True, "read_source": 0, "read_target": 7}
    second = first | {"partition": 1, "losing": False, "groups": ["c"], "bounds": [2], "moved": [True]}
    made = pack_table(pa.Table.from_pylist([first, second], schema=output_schema()))
    positions = [("b", "t", 0, 12), ("a", "t", 0, 31), ("c", "t", 0, 10), ("c", "t", 1, 99)]
    given = write_input(tmp_path / "in", positions, [], [])
    inventory = write_inventory([made], given, tmp_path)
    assert inventory.ahead.to_pylist() == [
        {"group": g, "topic": "t", "partition": 0, "position": p, "beyond": p - 10} for g, p in (("a", 31), ("b", 12))
    ]
    found = [tuple(one.values()) for one in inventory.rereads.to_pylist()]
    assert found == [("a", 9, 1, 0, 0), ("b", 4, 1, 0, 1), ("c", 2, 2, 1, 1)]
    figures = summarise_inventory(inventory, 2, "input")
    assert figures["rereads"] == {"bound": 9, "positions": 4, "unknown": 1, "may_have_moved": 2}
    assert (
        figures["losing"],
        figures["certain"],
        figures["possible"],
        figures["records"],
        figures["groups_ahead"],
        figures["unknown"],
    ) == (1, 20, None, None, 2, 2)
    assert (figures["records_per_second"], figures["records_read"]) == (2, {"source": 0, "target": 14})
    moved = pa.Table.from_pylist(
        [row | {"file": "f", "sha256": "s", "uncommitted_sha256": "u"}], schema=arrow_schema("loss")
    )
    assert (
        loss_digest(moved)
        == figures["digest"]
        != loss_digest(pa.Table.from_pylist([row | {"certain_to": 31}], schema=arrow_schema("loss")))
    )


def test_of_partitions_that_were_read_records_are_counted_of_others_offsets() -> None:
    """A partition without leader hides neither the records of the others, nor its own certain loss."""
    read = LOSS | dict(zip(LISTED, (10, 30, 7, 70, 1, 2, 3, 4)))
    unread = LOSS | {"partition": 1, "from_offset": 5, "certain_to": 25}
    tables = [arrow_schema(name).empty_table() for name in ("ahead", "rereads")]
    loss = pa.Table.from_pylist([read, unread], schema=SCHEMA)
    figures = summarise_inventory(Inventory(loss, *tables, {"source": 7, "target": 0}, 0), 2, "input")
    assert [figures[name] for name in ("losing", "unread", "certain", "records", "bytes", "aborted")] == [
        2, 1, 27, 7, 70, 3,
    ]  # fmt: skip


def test_nothing_lost_is_nothing_unknown(tmp_path: Path) -> None:
    """All figures are zero."""
    tables = [arrow_schema(name).empty_table() for name in ("loss", "ahead", "rereads")]
    empty = Inventory(*tables, {"source": 0, "target": 0}, 0)
    figures = summarise_inventory(empty, 3, "input")
    assert figures["rereads"] == {"bound": None, "positions": 0, "unknown": 0, "may_have_moved": 0}
    assert [
        figures[name]
        for name in ("losing", "certain", "possible", "records", "bytes", "aborted", "undecided", "groups_ahead")
    ] == [0] * 8 and figures["first_at"] is figures["last_at"] is None


def test_only_what_is_certain_counts_as_certain() -> None:
    """A partition of which nothing is certain, or that ends below its beginning, counts 0."""
    read = [LOSS | dict(zip(LISTED, row)) for row in ((10, 15, 4, 9, 50, 60, 1, 0), (0, None, 7, 1, 40, 55, 2, 3))]
    unread = [LOSS | dict(zip(LISTED, row)) for row in ((10, 15), (20, 15), (0, None))]
    ahead, rereads = (arrow_schema(name).empty_table() for name in ("ahead", "rereads"))
    told = [
        summarise_inventory(Inventory(pa.Table.from_pylist(rows, schema=SCHEMA), ahead, rereads, {}, 0), 3, "input")
        for rows in (read, unread)
    ]
    found = [(figures["certain"], figures["records"], figures["bytes"], figures["possible"]) for figures in told]
    assert found == [(4, 11, 10, None), (5, None, None, None)]
    seen = [tuple(figures[name] for name in ("first_at", "last_at", "aborted", "undecided")) for figures in told]
    assert seen == [(40, 60, 3, 3), (None, None, None, None)]
