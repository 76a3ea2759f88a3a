"""The export of stranded records: read as it was written, from any offset on, and only if it is the one that the
journal knows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.actions.failback.stranded_export import ExportedPartition, exported_partitions, record_of_row
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.failback.replay import mark_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, StoreUnavailable
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.hooks.file_store import FileStore
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import StrandedRecordsFound
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.vocabulary import Step

from tests.support.replay_process import GROUP_ROWS, found_stranded, stranded, write_export

ORDERS = TopicPartition("orders", 0)


def partition(folder: Path, records: list[Record], since: int = 0, **states: Any) -> ExportedPartition:
    """The exported partition of these records."""
    (row,) = write_export(folder, records, states.get("uncommitted", {})).to_dict("records")
    return ExportedPartition(
        "orders",
        0,
        since,
        folder / "stranded" / row["file"],
        row["sha256"],
        folder / "uncommitted" / row["file"],
        row["uncommitted_sha256"],
    )


def test_records_are_read_as_they_were(tmp_path: Path) -> None:
    """Null and empty apart, headers that recur and have no value, no timestamp."""
    odd = [
        stranded("orders", 0, 1, None, b""),
        stranded("orders", 0, 5, b"", None, [("h", None), ("h", b""), ("\u00fc", b"\xff")], timestamp=None),
    ]
    assert list(partition(tmp_path, odd).records()) == odd


def test_reading_begins_anywhere(tmp_path: Path) -> None:
    """At offsets within and between row groups, in gaps, behind the end; never below what is stranded."""
    records = [stranded("orders", 0, 10 + 2 * n, b"k", b"%d" % n) for n in range(3 * GROUP_ROWS)]
    one = partition(tmp_path, records, since=14)
    for begin in (0, 14, 15, 16, 10 + 2 * GROUP_ROWS, 11 + 2 * GROUP_ROWS, 8 + 6 * GROUP_ROWS, 10 + 6 * GROUP_ROWS):
        assert [r.offset for r in one.records(begin)] == [r.offset for r in records if r.offset >= max(begin, 14)]
    assert one.count() == 3 * GROUP_ROWS


def test_keys_and_uncommitted_records_are_told(tmp_path: Path) -> None:
    """Without the null key; without a file of states everything is committed."""
    records = [stranded("orders", 0, n, key, b"v") for n, key in enumerate([b"a", None, b"", b"a"])]
    assert partition(tmp_path / "1", records).key_marks() == {mark_of(b"a"), mark_of(b"")}
    assert partition(tmp_path / "1", records).uncommitted == frozenset()
    found = partition(tmp_path / "2", records, uncommitted={ORDERS: {1: "aborted", 3: "undecided"}}).uncommitted
    assert found == {1, 3}


@pytest.mark.parametrize("which", ["file", "uncommitted_file"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_another_file_is_refused(tmp_path: Path, which: str, damage: str) -> None:
    """Whatever became of it."""
    one = partition(tmp_path, [stranded("orders", 0, 1, b"k", b"v")], uncommitted={ORDERS: {1: "aborted"}})
    files = StoredFiles(tmp_path, None)
    one.verify(files)
    path = getattr(one, which)
    path.write_bytes(path.read_bytes() + b"x") if damage == "changed" else path.unlink()
    with pytest.raises(Contradiction, match="is missing, or was changed after the export"):
        one.verify(files)


def moved_to_store(folder: Path, one: ExportedPartition) -> FileStore:
    """Give a store what executors wrote there, and take it from the evidence folder."""
    store = FileStore(f"file://{folder}/store")
    for path in (one.file, one.uncommitted_file):
        store.put(path.relative_to(folder / "evidence").as_posix(), path)
        path.unlink()
    return store


def test_what_executors_wrote_to_the_store_is_read_on_any_machine(tmp_path: Path) -> None:
    """Fetched once, with its digest, by the owner alone; another content in the store is refused."""
    records = [stranded("orders", 0, n, b"k", b"%d" % n) for n in (1, 2)]
    evidence = tmp_path / "evidence"
    one = partition(evidence / "failback-r1" / "find_stranded_records-3", records, uncommitted={ORDERS: {1: "aborted"}})
    store = moved_to_store(tmp_path, one)
    one.verify(StoredFiles(evidence, store))
    assert list(one.records()) == records and one.uncommitted == {1}
    assert {path.stat().st_mode & 0o777 for path in (one.file, one.uncommitted_file)} == {0o600}
    one.file.unlink()
    store.put(one.file.relative_to(evidence).as_posix(), one.uncommitted_file)
    with pytest.raises(Contradiction, match="is missing, or was changed after the export"):
        one.verify(StoredFiles(evidence, store))


def test_an_export_is_not_taken_for_lost_while_the_store_is_away(tmp_path: Path) -> None:
    """The step fails, and is tried again."""
    evidence = tmp_path / "evidence"
    one = partition(evidence / "failback-r1" / "find-3", [stranded("orders", 0, 1, b"k", b"v")])
    one.file.unlink()
    with pytest.raises(StoreUnavailable, match="reading in the store failed"):
        one.verify(StoredFiles(evidence, FileStore("nosuch://store")))


def test_the_journal_says_which_files(make_bench: Any) -> None:
    """By topic and partition; each partition from its frontier on."""
    bench = make_bench(dag_id="failback")
    procedure = bench.opened()
    found_stranded(
        procedure, [stranded(topic, p, 7, b"k", b"v") for topic, p in (("orders", 1), ("orders", 0), ("bills", 0))]
    )
    parts = exported_partitions(procedure)
    found = [(str(one.topic_partition), one.since) for one in parts]
    assert found == [("bills-0", 7), ("orders-0", 7), ("orders-1", 7)]
    for one in parts:
        one.verify(procedure.artifacts.files)


def test_a_partition_without_a_frontier_is_refused(make_bench: Any) -> None:
    """Its file may hold what was replicated long ago."""
    procedure = make_bench(dag_id="failback").opened()
    found_stranded(procedure, [stranded("orders", 0, 7, b"k", b"v")])
    none = procedure.artifacts.save("none", partitions_frame({}, "source_end"))
    found = replace(procedure.progress.require(StrandedRecordsFound), frontier=none)
    record_fact(procedure.authority, Step.FIND_STRANDED_RECORDS, found)
    with pytest.raises(Contradiction, match="orders-0"):
        exported_partitions(procedure)


def test_an_earlier_procedures_export_is_read_where_it_lies(make_bench: Any) -> None:
    """A run that goes on with what another one left undone."""
    procedure = make_bench(dag_id="failback").opened()
    found_stranded(procedure, [stranded("orders", 0, 7, b"k", b"v")])
    procedure.artifacts.folder.joinpath("export").rename(procedure.artifacts.folder.parent / "moved")
    (procedure.artifacts.folder.parent / "failback-r0").mkdir()
    (procedure.artifacts.folder.parent / "moved").rename(procedure.artifacts.folder.parent / "failback-r0" / "export")
    found = procedure.progress.require(StrandedRecordsFound)
    moved = replace(found, export=replace(found.export, procedure_id="failback-r0"))
    record_fact(procedure.authority, Step.FIND_STRANDED_RECORDS, moved)
    exported_partitions(procedure)[0].verify(procedure.artifacts.files)


NULLABLE = st.none() | st.binary(max_size=5)


@given(NULLABLE, NULLABLE, st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=4))
def test_a_row_becomes_the_record_that_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """Any content."""
    record = stranded("orders", 0, 1, key, value, headers)
    row = record._asdict() | {
        "header_names": [name for name, _ in headers],
        "header_values": [content for _, content in headers],
    }
    assert record_of_row(row) == record
