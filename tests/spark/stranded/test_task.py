"""The search for stranded records: a task over two clusters, and the figures that are made of its rows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr_spark.contract.schemas import arrow_schema, check_columns, check_values
from kafka_dr_spark.contract.task_rows import TAGGED, pack_table, unpack_table
from kafka_dr_spark.export.place import UNCOMMITTED, ExportPlace
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.stranded.search import Returned
from kafka_dr_spark.stranded.task import SearchTask, output_schema, summarise_stranded, write_findings
from kafka_dr_spark.translation.case import Limits

from tests.spark.mock_clusters import MockCluster, bounds_row, returned_row

VALUES = [b"id-%03d" % number for number in range(200)]


@pytest.fixture(scope="module")
def clusters() -> tuple[MockCluster, MockCluster]:
    """Of the returned cluster's records the other has: 120 and repeats, most, more than all, none, or all."""
    source, target = MockCluster(), MockCluster()
    logs = {
        0: (VALUES, VALUES[:110] + VALUES[70:120]),
        1: (VALUES, VALUES[:50] + VALUES[60:]),
        2: ([*VALUES[:90], b"new"], VALUES[:100]),
        3: (VALUES[:5], []),
        4: (VALUES[:9], VALUES[:9]),
    }
    for number, (here, there) in logs.items():
        source.write(*PLACES[number], here)
        target.write(*PLACES[number], there)
    return source, target


PLACES = {0: ("orders", 0), 1: ("orders", 1), 2: ("orders", 2), 3: ("orders", 3), 4: ("payments", 0)}
ENDS = {0: (200, 160), 1: (200, 190), 2: (91, 100), 3: (5, 0), 4: (9, 9)}


def searched(
    clusters: tuple[MockCluster, MockCluster],
    folder: Path,
    known: dict[int, dict[str, Any]] | None = None,
    changes: dict[int, dict[str, Any]] | None = None,
    **limits: Any,
) -> dict[int, dict[str, Any]]:
    """What a task says of each partition, by its number here."""
    source, target = clusters
    for name in ("stranded", "uncommitted", "older"):
        (folder / name).mkdir(parents=True)
    bounds = {
        PLACES[p]: LogBounds(**bounds_row(*PLACES[p], *ends, drained=False, **(changes or {}).get(p, {})))
        for p, ends in ENDS.items()
    }
    returned = {
        PLACES[p]: Returned(**returned_row(*PLACES[p], *ends) | (known or {}).get(p, {})) for p, ends in ENDS.items()
    }
    task = SearchTask(
        bounds, returned, Limits(**limits), KafkaAccess(source.config, target.config), ExportPlace(str(folder))
    )
    rows = unpack_table(task((list(bounds), pack_table(TAGGED.empty_table()))))
    check_columns("stranded_summary", rows.schema)
    check_values("stranded_summary", rows)
    numbers = {place: number for number, place in PLACES.items()}
    return {numbers[row["topic"], row["partition"]]: row for row in rows.to_pylist()}


def values_in(folder: Path, row: dict[str, Any], kind: str = "stranded") -> list[bytes]:
    """What a partition's file holds; its digest is the one that was told."""
    name, digest = (row["file"], row["sha256"]) if kind == "stranded" else (row["older_file"], row["older_sha256"])
    path = folder / kind / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    table = pq.read_table(path)
    check_columns("stranded", table.schema)
    return table["value"].to_pylist()


def test_what_was_never_replicated_is_listed_to_the_record(clusters: tuple, tmp_path: Path) -> None:
    """At the end, in the middle, in place of a lost tail, a whole partition; none where all was replicated."""
    found = searched(clusters, tmp_path)
    told = {
        p: (row["frontier"], row["resumes"], row["from_offset"], row["records"], row["lacking"], row["exact"])
        for p, row in found.items()
    }
    assert told == {
        0: (120, 200, 120, 80, 0, True),
        1: (50, 200, 200, 10, 0, True),
        2: (90, 91, 90, 1, 10, True),
        3: (0, 5, 0, 5, 0, True),
        4: (9, 9, 9, 0, 0, True),
    }
    assert values_in(tmp_path, found[0]) == VALUES[120:] and values_in(tmp_path, found[1]) == VALUES[50:60]
    assert values_in(tmp_path, found[2]) == [b"new"] and values_in(tmp_path, found[3]) == VALUES[:5]
    seen = (found[0]["bytes"], found[0]["first_at"], found[0]["last_at"], found[0]["aborted"], found[0]["undecided"])
    assert seen == (80 * 7, 1006, 1006, 0, 0)
    assert found[4]["file"] is None and len([*(tmp_path / "stranded").iterdir()]) == 4
    assert not [*(tmp_path / "older").iterdir()]


def test_what_connect_kept_counts_where_the_source_lost_nothing(clusters: tuple, tmp_path: Path) -> None:
    """Copies gone from the target were there; a source shorter than what was kept has other records now."""
    found = searched(clusters, tmp_path, {0: {"replicated": 129}, 2: {"replicated": 99}})
    assert (found[0]["from_offset"], found[0]["frontier"], found[0]["records"]) == (130, 120, 80), (
        "the ten are not on the target"
    )
    assert (found[2]["from_offset"], found[2]["records"], found[2]["lacking"]) == (90, 1, 10)


def test_what_was_proven_when_clients_left_is_not_read_again(clusters: tuple, tmp_path: Path) -> None:
    """Only what stands behind it is listed."""
    found = searched(clusters, tmp_path, {p: {"proven_end": end} for p, end in ((0, 190), (1, 200), (4, 9))})
    seen = [(found[p]["frontier"], found[p]["records"], found[p]["read_source"]) for p in (0, 1, 4)]
    assert seen == [(190, 10, 0), (200, 0, 0), (9, 0, 0)]


def test_what_no_transaction_committed_is_listed_apart(clusters: tuple, tmp_path: Path) -> None:
    """Above the last stable offset it is undecided, whether or not MirrorMaker 2 mirrors such records."""
    for isolation in ("read_uncommitted", "read_committed"):
        row = searched(clusters, tmp_path / isolation, {0: {"stable_end": 150}}, isolation=isolation)[0]
        assert (row["frontier"], row["records"], row["aborted"], row["undecided"]) == (120, 80, 0, 50)
        apart = pq.read_table(tmp_path / isolation / UNCOMMITTED / row["file"])
        assert apart["offset"].to_pylist() == list(range(150, 200))


def test_what_the_target_deleted_is_exported_only_where_it_is_asked_for(clusters: tuple, tmp_path: Path) -> None:
    """Retention took the target's first forty copies: they were replicated, and are in a file of their own."""
    cut = {4: {"target_start": 4}}
    without = searched(clusters, tmp_path / "without", changes=cut)[4]
    assert (without["records"], without["older"], without["frontier"], without["exact"]) == (0, 0, 9, True)
    whole = searched(clusters, tmp_path / "whole", changes=cut, whole=True)[4]
    assert (whole["records"], whole["older"], whole["older_bytes"], whole["frontier"]) == (0, 4, 28, 9)
    assert values_in(tmp_path / "whole", whole, "older") == VALUES[:4]


def test_copies_that_will_be_deleted_are_exported_where_their_topic_holds_them_no_more(
    clusters: tuple, tmp_path: Path
) -> None:
    """Retention took four originals: nothing is stranded, nor lacking, whatever was not copied yet."""
    found = searched(clusters, tmp_path, {4: {"copied_back": True}, 2: {"copied_back": True}}, {4: {"target_start": 4}})
    told = {p: [found[p][name] for name in ("records", "lacking", "older", "frontier", "exact")] for p in (2, 4)}
    assert told == {2: [0, 0, 1, 91, True], 4: [0, 0, 4, 9, True]}
    assert values_in(tmp_path, found[4], "older") == VALUES[:4] and values_in(tmp_path, found[2], "older") == [b"new"]
    assert "holds all but 4 of 9" in found[4]["evidence"]


def test_what_is_too_much_to_compare_is_listed_as_far_as_nothing_shows_that_it_was_replicated(
    clusters: tuple, tmp_path: Path
) -> None:
    """Nothing is forgotten, and it says so."""
    row = searched(clusters, tmp_path, {0: {"replicated": 110}}, content_limit=100)[0]
    assert (row["frontier"], row["records"], row["exact"]) == (0, 200, False)
    assert "too many records to compare" in row["evidence"]


def test_figures_are_sums_and_their_digest_knows_no_files(tmp_path: Path) -> None:
    """The same rows written elsewhere have the same digest; another count has another."""
    row = dict.fromkeys(output_schema().names, 0) | dict.fromkeys(("uncommitted_sha256", "older_file", "older_sha256"))
    row |= {"topic": "t", "exact": True, "evidence": "e", "first_at": 5, "last_at": 9, "file": "a", "sha256": "b"}
    rows = [
        row | {"partition": 1, "records": 3, "bytes": 7, "lacking": 1, "exact": False, "read_source": 4},
        row | {"first_at": None, "last_at": None, "read_target": 5},
    ]
    figures = summarise_stranded(
        write_findings([pack_table(pa.Table.from_pylist(rows, schema=output_schema()))], tmp_path), "input"
    )
    assert [
        figures[name]
        for name in ("partitions", "stranding", "inexact", "records", "bytes", "lacking", "first_at", "last_at")
    ] == [2, 1, 1, 3, 7, 1, 5, 9]
    assert figures["records_read"] == {"source": 4, "target": 5}
    assert pq.read_schema(tmp_path / "stranded_summary.parquet").names == arrow_schema("stranded_summary").names
    elsewhere, another = ([one | change for one in rows] for change in ({"file": "c", "sha256": "d"}, {"records": 2}))
    digests = [
        summarise_stranded(pa.Table.from_pylist(some[::-1], schema=output_schema()), "input")["digest"]
        for some in (elsewhere, another)
    ]
    assert digests[0] == figures["digest"] != digests[1]
