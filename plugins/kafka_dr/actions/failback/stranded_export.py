"""The export that find_stranded_records wrote: one Parquet file a partition, by the journal's receipts."""

from __future__ import annotations

import hashlib
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
from kafka_dr.vocabulary import Step

#: Folders of an export: the records, and which of them no transaction has committed; a file a partition in each, under
#: the same name.
STRANDED, UNCOMMITTED = "stranded", "uncommitted"
#: What is written, committed together with it.
PROGRESS_TOPIC = "__switchback_replayed"
#: Rows that become records at once; of large ones a row group holds fewer.
_ROWS = 1_000


@dataclass(frozen=True)
class ExportedPartition:
    """The stranded records of one partition of the returned cluster.

    Attributes:
        since: records below this offset are exported for another reason: they were replicated once.
        sha256: of the file, as the journal has it.
        uncommitted_sha256: of the file that says which of the records no transaction has committed; None where all are.
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
        """Where they stood."""
        return TopicPartition(self.topic, self.partition)

    def verify(self) -> None:
        """Return if the files are those that the journal knows; Contradiction otherwise."""
        for path, digest in ((self.file, self.sha256), (self.uncommitted_file, self.uncommitted_sha256)):
            if digest is not None and _sha256(path) != digest:
                raise Contradiction(
                    f"{path} is not the file that was exported",
                    f"its SHA-256 is not {digest[:12]}...",
                    "Bring the file back as it was, and start a new run; nothing else holds these records where the"
                    " topics were made anew.",
                )

    @cached_property
    def uncommitted(self) -> frozenset[int]:
        """Offsets of the records that no transaction has committed."""
        if self.uncommitted_sha256 is None:
            return frozenset()
        return frozenset(pq.read_table(self.uncommitted_file, columns=["offset"])["offset"].to_pylist())

    def offsets(self) -> list[int]:
        """Offsets of the stranded records, ascending."""
        return [
            offset
            for offset in pq.read_table(self.file, columns=["offset"])["offset"].to_pylist()
            if offset >= self.since
        ]

    def count(self) -> int:
        """How many records the file holds."""
        return int(pq.read_metadata(self.file).num_rows)

    def records(self, begin: int = 0) -> Iterator[Record]:
        """Stranded records from an offset on, in the order of their offsets, a little at a time."""
        first = max(begin, self.since)
        for batch in self._batches(first):
            for row in batch.to_pylist():
                if row["offset"] >= first:
                    yield record_of_row(row)

    def key_marks(self) -> set[bytes]:
        """What the keys are remembered by, of a whole partition."""
        table = pq.read_table(self.file, columns=["key_sha256"])
        return {mark_in(digest) for digest in table["key_sha256"].drop_null().unique().to_pylist()}

    def _batches(self, first: int) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.file) as file:
            groups = [number for number in range(file.num_row_groups) if _last_offset(file, number) >= first]
            yield from file.iter_batches(_ROWS, row_groups=groups)


def exported_by(procedure: Run) -> str:
    """Procedure of the export: this one, unless find_stranded_records took over an earlier one's unfinished export."""
    return procedure.progress.require(StrandedRecordsFound).export.procedure_id or procedure.id


@dataclass(frozen=True)
class Writers:
    """Who has begun to write stranded records since clients came to the new primary, by the journal.

    Attributes:
        procedures: oldest first, this one among them once it has begun.
        exports: of which they write, each by the procedure that made it; last the one that this procedure reconciles.
            An earlier run of the failback that looked itself has found the same records: what it has written is not
            written again.
    """

    procedures: tuple[Run, ...]
    exports: tuple[str, ...]

    @classmethod
    def of(cls, procedure: Run) -> Writers:
        """Read the notes of all who write."""
        own, begun = (
            exported_by(procedure),
            PairJournal(procedure).same_way(ReplayBegun, Step.RECONCILE_STRANDED_RECORDS),
        )
        writers = {writer.id: writer for _, writer, _ in begun}
        others = [note.replaying for *_, note in begun if note.replaying != own]
        return cls(tuple(writers.values()), (*dict.fromkeys(others), own))


def written_of(committed: RecordReader, exports: Collection[str]) -> dict[TopicPartition, int]:
    """The first offset of each partition that is not written, as the committed transactions say.

    Args:
        committed: reads what is committed on the cluster that is written to.
        exports: those that count, each by the procedure that made it.
    """
    done: dict[TopicPartition, int] = {}
    for topic, partition, following, *_ in _progress_of(committed, exports):
        where = TopicPartition(topic, partition)
        done[where] = max(following, done.get(where, 0))
    return done


def written_with(committed: RecordReader, exports: Collection[str]) -> dict[str, tuple[Decision, str]]:
    """Decision and first writing procedure of each topic's written records; arguments as of `written_of`."""
    first: dict[str, tuple[Decision, str]] = {}
    for topic, _, _, decision, writer in _progress_of(committed, exports):
        first.setdefault(topic, (Decision(decision), writer))
    return first


def progress_record(export: str, writer: str, following: Mapping[TopicPartition, tuple[int, Decision]]) -> Outgoing:
    """Build an export's progress record: first unwritten offset and decision by partition, and the writer."""
    rows = [[*where, offset, decision, writer] for where, (offset, decision) in following.items()]
    return Outgoing(PROGRESS_TOPIC, 0, export.encode(), json.dumps(rows).encode())


def _progress_of(committed: RecordReader, exports: Collection[str]) -> Iterator[list[Any]]:
    keys = {export.encode() for export in exports}
    for record in committed.read_all(PROGRESS_TOPIC, take=record_of):
        if record.key in keys:
            yield from json.loads(record.value or b"")


def exported_partitions(procedure: Run) -> list[ExportedPartition]:
    """The partitions that have an export, by topic and partition; what the files hold is not looked at."""
    found = procedure.progress.require(StrandedRecordsFound)
    since = frame_partitions(procedure.artifacts.load(found.frontier), "source_end")
    folder = Path(procedure.topology.evidence) / exported_by(procedure) / found.export.folder
    rows = procedure.artifacts.load(found.export.files).sort_values(["topic", "partition"]).to_dict("records")
    return [_partition(row, since, folder) for row in rows]


def record_of_row(row: dict[str, Any]) -> Record:
    """A row of the export as the record that it was."""
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
    where = TopicPartition(row["topic"], int(row["partition"]))
    if where not in since:
        raise Contradiction(
            f"Nobody knows which of the exported records of {where} are stranded",
            "find_stranded_records told no frontier of it",
            "Start a new run: what was replicated once must not be written again.",
        )
    uncommitted = row.get("uncommitted_sha256")
    return ExportedPartition(
        *where,
        since[where],
        folder / STRANDED / row["file"],
        row["sha256"],
        folder / UNCOMMITTED / row["file"],
        None if pd.isna(uncommitted) else uncommitted,
    )


def _last_offset(file: pq.ParquetFile, number: int) -> int:
    """The last offset of a row group, by its statistics."""
    index = file.schema_arrow.get_field_index("offset")
    statistics = file.metadata.row_group(number).column(index).statistics
    return statistics.max if statistics is not None and statistics.has_min_max else 2**63 - 1


def _sha256(path: Path) -> str:
    if not path.exists():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
