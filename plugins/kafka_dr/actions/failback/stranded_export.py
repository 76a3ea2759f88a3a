"""Read the export of find_stranded_records: one Parquet file per partition.

The journal records the SHA-256 of each file. An export is named by the id of the procedure that wrote the export.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_dr.actions.history.moves import PairJournal
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.failback.replay import mark_in
from kafka_dr.domain.failback.stranded import Decision
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction
from kafka_dr.hooks.brokers.record import Record, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.transactional_writer import Outgoing
from kafka_dr.procedure.entries import ReplayBegun, StrandedRecordsFound
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.stored_files import StoredFiles, sha256_of
from kafka_dr.vocabulary import Step

#: Folders of an export: stranded records, and offsets of uncommitted stranded records. A partition's file has the same
#: name in both folders.
STRANDED, UNCOMMITTED = "stranded", "uncommitted"
#: Largest number of rows read from a file and turned into records at a time.
_ROWS = 1_000


@dataclass(frozen=True)
class ExportedPartition:
    """The exported records of one partition of the returned cluster.

    Attributes:
        since: offset from which on exported records are stranded; records below were replicated, and are not replayed.
        file: Parquet file of the exported records, ascending by offset.
        sha256: SHA-256 of `file`, as in the journal.
        uncommitted_file: Parquet file with the offsets of exported records whose transaction is open or aborted.
        uncommitted_sha256: SHA-256 of `uncommitted_file`; None, without a file, if there is no such record.
    """

    topic: str
    partition: int
    since: int
    file: Path
    sha256: str
    uncommitted_file: Path
    uncommitted_sha256: str | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the returned cluster whose records are exported."""
        return TopicPartition(self.topic, self.partition)

    def verify(self, files: StoredFiles) -> None:
        """Fetch the partition's files from the store, as far as this machine lacks them, and compare their digests.

        Raises:
            Contradiction: a file is missing, or has another SHA-256 than the journal records.
            StoreUnavailable: this machine lacks a file, and the store does not answer.
        """
        for path, digest in ((self.file, self.sha256), (self.uncommitted_file, self.uncommitted_sha256)):
            if digest is None:
                continue
            present = sha256_of(path) if path.exists() else files.fetch(path, digest) or "absent"
            if present != digest:
                raise Contradiction(
                    f"{path} is missing, or was changed after the export",
                    f"the exported file had SHA-256 {digest[:12]}..., the file now is {present[:12]}",
                    "Restore the file from a backup, then start a new run. If no run has deleted the topics on the"
                    " returned cluster yet, a new run exports the records again without this file; otherwise only this"
                    " file holds the records.",
                )

    @cached_property
    def uncommitted(self) -> frozenset[int]:
        """Return the offsets of exported records whose transaction is open or aborted; empty without such records."""
        if self.uncommitted_sha256 is None:
            return frozenset()
        return frozenset(pq.read_table(self.uncommitted_file, columns=["offset"])["offset"].to_pylist())

    def offsets(self) -> list[int]:
        """Return the offsets of the stranded records on the returned cluster, ascending."""
        return [
            offset
            for offset in pq.read_table(self.file, columns=["offset"])["offset"].to_pylist()
            if offset >= self.since
        ]

    def count(self) -> int:
        """Return the number of exported records, including records below `since`."""
        return int(pq.read_metadata(self.file).num_rows)

    def records(self, begin: int = 0) -> Iterator[Record]:
        """Yield the stranded records from offset `begin` on, ascending by offset, read in batches."""
        first = max(begin, self.since)
        for batch in self._batches(first):
            for row in batch.to_pylist():
                if row["offset"] >= first:
                    yield record_of_row(row)

    def key_marks(self) -> set[bytes]:
        """Return the marks (first 16 bytes of the SHA-256) of all keys in the partition's file."""
        table = pq.read_table(self.file, columns=["key_sha256"])
        return {mark_in(digest) for digest in table["key_sha256"].drop_null().unique().to_pylist()}

    def _batches(self, first: int) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.file) as file:
            groups = [number for number in range(file.num_row_groups) if _last_offset(file, number) >= first]
            yield from file.iter_batches(_ROWS, row_groups=groups)


def exported_by(procedure: Run) -> str:
    """Return the id of the procedure that wrote the export: this run, or the earlier run whose outcome it uses."""
    return procedure.progress.require(StrandedRecordsFound).export.procedure_id or procedure.id


@dataclass(frozen=True)
class Writers:
    """The failback runs that, by the journal, began to replay stranded records since the last client move.

    Attributes:
        procedures: these runs, oldest first; the current run is one of them once it has begun to replay.
        exports: ids of the runs whose exports these runs replay; the last of these ids belongs to the current run's
            export. All these exports hold the same records: a record that an earlier run wrote is not written again.
    """

    procedures: tuple[Run, ...]
    exports: tuple[str, ...]

    @classmethod
    def of(cls, procedure: Run) -> Writers:
        """Return the runs and exports in the journal's ReplayBegun entries; `procedure` is the current run."""
        own, begun = (
            exported_by(procedure),
            PairJournal(procedure).same_way(ReplayBegun, Step.RECONCILE_STRANDED_RECORDS),
        )
        writers = {writer.id: writer for _, writer, _ in begun}
        others = [note.replaying for *_, note in begun if note.replaying != own]
        return cls(tuple(writers.values()), (*dict.fromkeys(others), own))


def written_of(committed: RecordReader, progress: str, exports: Collection[str]) -> dict[TopicPartition, int]:
    """Return partition of the returned cluster -> first offset not yet replayed, by committed progress records.

    Args:
        committed: reader of committed records on the new primary.
        progress: the topic with progress records.
        exports: ids of procedures; only progress records about their exports are read.
    """
    first_unwritten: dict[TopicPartition, int] = {}
    for topic, partition, following, *_ in _progress_of(committed, progress, exports):
        tp = TopicPartition(topic, partition)
        first_unwritten[tp] = max(following, first_unwritten.get(tp, 0))
    return first_unwritten


def written_with(committed: RecordReader, progress: str, exports: Collection[str]) -> dict[str, tuple[Decision, str]]:
    """Return topic -> (decision by which its records were replayed, id of the first procedure that wrote them).

    Args:
        committed: reader of committed records on the new primary.
        progress: the topic with progress records.
        exports: ids of procedures; only progress records about their exports are read.
    """
    first: dict[str, tuple[Decision, str]] = {}
    for topic, _, _, decision, writer in _progress_of(committed, progress, exports):
        first.setdefault(topic, (Decision(decision), writer))
    return first


def progress_record(
    progress: str, export: str, writer: str, following: Mapping[TopicPartition, tuple[int, Decision]]
) -> Outgoing:
    """Return the progress record that is to be written in one transaction with replayed records.

    Args:
        progress: the topic with progress records.
        export: id of the procedure whose export is replayed.
        writer: id of the procedure that writes.
        following: partition of the returned cluster -> (first offset after the transaction's records, decision).
    """
    rows = [[*tp, offset, decision, writer] for tp, (offset, decision) in following.items()]
    return Outgoing(progress, 0, export.encode(), json.dumps(rows).encode())


def _progress_of(committed: RecordReader, progress: str, exports: Collection[str]) -> Iterator[list[Any]]:
    keys = {export.encode() for export in exports}
    for record in committed.read_all(progress, take=record_of):
        if record.key in keys:
            yield from json.loads(record.value or b"")


def exported_partitions(procedure: Run) -> list[ExportedPartition]:
    """Return the partitions with exported stranded records, sorted; their files are neither read nor verified."""
    findings = procedure.progress.require(StrandedRecordsFound)
    since = frame_partitions(procedure.artifacts.load(findings.frontier), "source_end")
    folder = Path(procedure.topology.evidence) / exported_by(procedure) / findings.export.folder
    rows = procedure.artifacts.load(findings.export.files).sort_values(["topic", "partition"]).to_dict("records")
    return [_partition(row, since, folder) for row in rows]


def record_of_row(row: dict[str, Any]) -> Record:
    """Return a row of the export as a record of the returned cluster."""
    headers = tuple(zip(row["header_names"], row["header_values"], strict=True))
    return Record(
        row["topic"],
        row["partition"],
        row["offset"],
        row["timestamp"],
        row["log_append_time"],
        row["key"],
        row["value"],
        headers,
    )


def _partition(row: Mapping[Hashable, Any], since: dict[TopicPartition, int], folder: Path) -> ExportedPartition:
    tp = TopicPartition(row["topic"], int(row["partition"]))
    if tp not in since:
        raise Contradiction(
            f"The stranded records of {tp} cannot be told from its replicated records",
            "find_stranded_records recorded no frontier of this partition",
            "Start a new run, which searches for stranded records again. This run stops here, because without the"
            " frontier it would also replay records that were replicated.",
        )
    uncommitted = row.get("uncommitted_sha256")
    return ExportedPartition(
        *tp,
        since[tp],
        folder / STRANDED / row["file"],
        row["sha256"],
        folder / UNCOMMITTED / row["file"],
        None if pd.isna(uncommitted) else uncommitted,
    )


def _last_offset(file: pq.ParquetFile, number: int) -> int:
    """Return the last offset in row group `number`, by its Parquet statistics; 2^63-1 without statistics."""
    index = file.schema_arrow.get_field_index("offset")
    statistics = file.metadata.row_group(number).column(index).statistics
    return statistics.max if statistics is not None and statistics.has_min_max else 2**63 - 1
