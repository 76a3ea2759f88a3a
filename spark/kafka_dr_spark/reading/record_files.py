"""Write stranded records to Parquet files, complete enough to produce the records again to another topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import file_digest, sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from kafka_dr_spark.contract.columns import Ints, Mask
from kafka_dr_spark.contract.private_files import private_file
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema
from kafka_dr_spark.export.place import STRANDED, UNCOMMITTED, AttemptFiles
from kafka_dr_spark.export.record_form import WHOLE, RecordForm
from kafka_dr_spark.reading.fingerprints import Headers
from kafka_dr_spark.reading.windows import (
    KafkaAccess,
    OpenWindow,
    WindowReader,
    partition_runs,
    without_garbage_collection,
)
from kafka_dr_spark.translation.case import SOURCE, Limits, ReadWindow

#: Most records and most bytes of a partition that are buffered before a write; the limit reached first counts.
RECORDS_HELD, BYTES_HELD = 5_000, 8_000_000
#: Number of partitions that are listed at once; each buffers up to RECORDS_HELD and BYTES_HELD.
AT_ONCE = 64
#: All buffers are flushed after this many bytes, because a batch's memory is freed only when no row of it is buffered.
BYTES_KEPT = AT_ONCE * BYTES_HELD
#: No compression, because the person who decides on stranded records waits for these files.
COMPRESSION = "none"
NOTHING_HASHED = sha256()
SCHEMA = arrow_schema("stranded")
#: The columns whose values differ between records of a partition.
ROWS = pa.schema([field for field in SCHEMA if field.name not in ("topic", "partition")], SCHEMA.metadata)
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: A longer topic name, in characters, is cut for its file name.
_LONGEST = 200


class Chosen(NamedTuple):
    """The records of a source range to write: at the offsets ``some`` (ascending), and all from ``all_from`` on."""

    some: Ints | range
    all_from: int

    def of(self, offsets: Ints) -> Mask:
        """Return a mask of the given source offsets: True for offsets of records to write."""
        return (offsets >= self.all_from) | np.isin(offsets, self.some)


class FileWindow(OpenWindow):
    """A range of source offsets, and the writer of the file that gets the stranded records of this range.

    Records are buffered and written in portions; after that only their offsets and counts stay in memory.
    """

    def __init__(self, window: ReadWindow, path: Path, chosen: Chosen | None = None, form: RecordForm = WHOLE) -> None:
        super().__init__(window)
        self.path, self.bytes, self._reached, self._chosen = path, 0, window.start, chosen
        self._form = form
        self._rows: list[pa.Table] = []
        self._rows_held = self._bytes_held = 0
        self._offsets = [np.empty(0, np.int64)]
        #: The smallest and the largest timestamp of each flush, in ms since 1970; none for a flush without timestamps.
        self._times: list[int] = []
        # Only the topic gets a dictionary, because all other columns differ from record to record.
        self._file = pq.ParquetWriter(
            private_file(path),
            form.schema(SCHEMA),
            compression=COMPRESSION,
            use_dictionary=["topic"],
            write_statistics=["offset", "timestamp"],
        )

    @property
    def reached(self) -> int:
        """The next source offset to read."""
        return self._reached

    def add_rows(self, rows: pa.Table) -> bool:
        """Add rows of this partition, in the columns `ROWS`; return whether the offset range is now read to its end."""
        offsets = rows["offset"].to_numpy()
        self._reached = int(offsets[-1]) + 1
        first, last = np.searchsorted(offsets, (self.window.start, self.window.end))
        rows, offsets = rows.slice(first, last - first), offsets[first:last]
        if self._chosen is not None:
            mask = self._chosen.of(offsets)
            rows, offsets = rows.filter(mask), offsets[mask]
        if len(rows):
            self._hold(rows, offsets)
        return self._reached >= self.window.end

    def _hold(self, rows: pa.Table, offsets: Ints) -> None:
        self._rows.append(rows)
        self._offsets.append(offsets)
        self._rows_held += len(rows)
        self._bytes_held += rows["value"].nbytes
        if self._rows_held >= RECORDS_HELD or self._bytes_held >= BYTES_HELD:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows to the file and empty the buffer."""
        if not self._rows:
            return
        rows, self._rows, self._rows_held, self._bytes_held = pa.concat_tables(self._rows), [], 0, 0
        self.bytes += sum(pc.sum(pc.binary_length(rows[name])).as_py() or 0 for name in ("key", "value"))
        written = (
            self._form.apply(rows)
            .add_column(0, SCHEMA.field("topic"), pa.repeat(self.window.topic, len(rows)))
            .add_column(1, SCHEMA.field("partition"), pa.array(np.full(len(rows), self.window.partition, np.int32)))
        )
        self._file.write_table(written.replace_schema_metadata(self._file.schema.metadata))
        span = pc.min_max(rows["timestamp"]).as_py()
        self._times += [timestamp for timestamp in span.values() if timestamp is not None]

    def close(self) -> dict[str, Any]:
        """Close the file; return its figures: records, bytes, first and last timestamp (ms), offsets, name, SHA-256."""
        self.flush()
        self._file.close()
        offsets = np.concatenate(self._offsets)
        figures = {
            "records": len(offsets),
            "bytes": self.bytes,
            "first_at": min(self._times, default=None),
            "last_at": max(self._times, default=None),
        }
        return {**figures, "offsets": offsets, "file": self.path.name, "sha256": sha256_of(self.path)}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def rows_of(messages: list[Message]) -> pa.Table:
    """Return records in the columns of schema ``stranded`` without topic and partition; built by column, for speed."""
    count, keys = len(messages), list(map(Message.key, messages))
    kinds, stamps = (
        np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count).reshape(count, 2).T
    )
    names, contents = _headers(messages)
    values = pa.array(list(map(Message.value, messages)), pa.binary())
    columns = {
        "offset": np.fromiter(map(Message.offset, messages), np.int64, count),
        "timestamp": pa.array(stamps, mask=kinds == TIMESTAMP_NOT_AVAILABLE),
        "log_append_time": kinds == TIMESTAMP_LOG_APPEND_TIME,
        "key_sha256": _hashes(keys),
        "key_hmac": pa.nulls(count, pa.string()),
        "key": keys,
        "value": values,
        "value_bytes": pc.binary_length(values).cast(pa.int64()),
        "header_names": names,
        "header_values": contents,
    }
    return pa.table(columns, schema=ROWS)


def _hashes(keys: list[bytes | None]) -> pa.Array:
    """Return the SHA-256 of each key in hex, null for a null key; all digests are converted at once."""
    digests = []
    for key in keys:
        # Copying a hash object costs less than creating one, because OpenSSL looks up the algorithm each time.
        digest = NOTHING_HASHED.copy()
        digest.update(key or b"")
        digests.append(digest.digest())
    texts = b"".join(digests).hex().encode()
    ends = np.arange(len(keys) + 1, dtype=np.int32) * (2 * NOTHING_HASHED.digest_size)
    hex_digests = pa.StringArray.from_buffers(len(keys), pa.py_buffer(ends), pa.py_buffer(texts))
    return pc.if_else(pa.array([key is not None for key in keys]), hex_digests, None) if None in keys else hex_digests


def _headers(messages: list[Message]) -> tuple[Any, Any]:
    """Return the names and the values of the headers, each as one list per record; most records have no headers."""
    if not any(map(Message.headers, messages)):
        none = pa.array(np.zeros(len(messages) + 1, np.int32))
        return pa.ListArray.from_arrays(none, pa.array([], pa.string())), pa.ListArray.from_arrays(
            none, pa.array([], pa.binary())
        )
    # A consumer always returns headers as pairs, never as a dict.
    headers: list[Headers] = [message.headers() or () for message in messages]  # type: ignore[misc]
    return [[name for name, _ in pairs] for pairs in headers], [[content for _, content in pairs] for pairs in headers]


class ListingReader(WindowReader):
    """Writes the records of offset ranges of the source to files, many partitions at once."""

    def write(
        self,
        windows: Mapping[ReadWindow, Path],
        chosen: Mapping[ReadWindow, Chosen] | None = None,
        form: RecordForm = WHOLE,
    ) -> dict[ReadWindow, dict[str, Any]]:
        """Write the records of each source offset range to its file; return by range the figures of its file.

        Args:
            windows: the file of each offset range, with at most one range per partition.
            chosen: by range the records to write; a range without an entry is written in full.
            form: the form of the written records.
        """
        self._listed = {
            (window.topic, window.partition): FileWindow(window, path, (chosen or {}).get(window), form)
            for window, path in windows.items()
        }
        self._bytes_kept = 0
        with without_garbage_collection():
            self._read_side(SOURCE, dict(self._listed))
        return {listed.window: listed.close() for listed in self._listed.values()}

    def _take_in(
        self, side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]
    ) -> list[tuple[str, int]]:
        """Add messages to their read windows; remove windows that are now complete from ``pending``, and return them.

        Records become rows at once, while they are in the processor's cache, because converting them later would take
        an eighth longer. End-of-log messages are processed last, after all records below a log's end have been added.
        """
        others = [message for message, error in zip(messages, map(Message.error, messages)) if error is not None]
        records = [message for message in messages if message.error() is None] if others else messages
        return (self._take_rows(records, pending) if records else []) + super()._take_in(side, others, pending)

    def _take_rows(self, records: list[Message], pending: dict[tuple[str, int], OpenWindow]) -> list[tuple[str, int]]:
        """Add records to their read windows as rows; remove complete windows from ``pending``, and return them."""
        rows, finished = rows_of(records), []
        for key, run in partition_runs(records):
            if key in pending and self._listed[key].add_rows(rows.slice(run.start, run.stop - run.start)):
                del pending[key]
                finished.append(key)
        self._bytes_kept += rows["value"].nbytes
        if self._bytes_kept >= BYTES_KEPT:
            self._bytes_kept = 0
            for listed in self._listed.values():
                listed.flush()
        return finished


def name_of(topic: str, partition: int, attempt: str = "") -> str:
    """Return the unique name of a partition's files, such as ``TOPIC-PARTITION-ATTEMPT.parquet``.

    A topic name of more than 200 characters is cut and followed by its SHA-256, because a file name has at most 255
    bytes.

    Raises:
        ContractBroken: Kafka does not allow this topic name, which could be a path out of the folder.
    """
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        raise ContractBroken(
            f"{topic!a} is not a topic name that Kafka allows; find out which system answers at the bootstrap servers"
        )
    short = topic if len(topic) <= _LONGEST else f"{topic[:100]}~{sha256(topic.encode()).hexdigest()}"
    return f"{short}-{partition}-{attempt}.parquet" if attempt else f"{short}-{partition}.parquet"


def list_stranded(
    access: KafkaAccess,
    limits: Limits,
    files: AttemptFiles,
    stable_ends: Mapping[ReadWindow, int | None],
    chosen: Mapping[ReadWindow, Chosen] | None = None,
) -> dict[ReadWindow, dict[str, Any]]:
    """Write the records of source ranges to files, and lists of these ranges' uncommitted records to other files.

    Return by range the figures of its files: records, bytes, first and last timestamp (milliseconds since 1970),
    numbers of aborted and undecided records, names and SHA-256.

    Args:
        access: client settings of both clusters.
        limits: read limits.
        files: the files of the task's attempt.
        stable_ends: by source range, the last stable offset of its partition; its keys are the ranges to write.
        chosen: by range the records to write; a range without an entry is written in full.
    """
    written = write_records(access, limits, files, STRANDED, list(stable_ends), chosen)
    states = uncommitted_records(access, limits, written, stable_ends)
    return {
        window: {
            **figures,
            **_write_uncommitted(states.get(window), files.folder / UNCOMMITTED / figures["file"]),
        }
        for window, figures in written.items()
    }


def write_records(
    access: KafkaAccess,
    limits: Limits,
    files: AttemptFiles,
    kind: str,
    windows: list[ReadWindow],
    chosen: Mapping[ReadWindow, Chosen] | None = None,
) -> dict[ReadWindow, dict[str, Any]]:
    """Write the records of source ranges, one file per partition; return by range the figures of its file.

    Args:
        access: client settings of both clusters.
        limits: read limits.
        files: the files of the task's attempt.
        kind: folder of the files, `STRANDED` or `OLDER`.
        windows: the ranges.
        chosen: by range the records to write; a range without an entry is written in full.
    """
    written: dict[ReadWindow, dict[str, Any]] = {}
    with ListingReader(access, limits) as reader:
        for start in range(0, len(windows), AT_ONCE):
            written |= reader.write(
                {
                    window: files.folder / kind / name_of(window.topic, window.partition, files.attempt)
                    for window in windows[start : start + AT_ONCE]
                },
                chosen,
                files.form,
            )
    return written


def _write_uncommitted(states: pa.Table | None, path: Path) -> dict[str, Any]:
    """Write a partition's list of uncommitted records; return the counts aborted and undecided, and the SHA-256.

    If ``states`` is None, no file is written, and both counts are 0.
    """
    row_states = [] if states is None else states["state"].to_pylist()
    counts = {state: row_states.count(state) for state in ("aborted", "undecided")}
    if states is None:
        return counts
    pq.write_table(states, private_file(path), compression="zstd")
    return {**counts, "uncommitted_sha256": sha256_of(path)}


def uncommitted_records(
    access: KafkaAccess,
    limits: Limits,
    listed: Mapping[ReadWindow, dict[str, Any]],
    stable_ends: Mapping[ReadWindow, int | None],
) -> dict[ReadWindow, pa.Table]:
    """Return by source range the written records whose transaction has not committed, for ranges that have any.

    A range without offset gaps that ends at or below the last stable offset has none, because no transaction ended in
    this range or is open.
    """
    suspect = {
        w: int(stable_ends[w] or 0)
        for w, figures in listed.items()
        if (stable_ends[w] or 0) < w.end or len(figures["offsets"]) < w.end - w.start
    }
    with WindowReader(access, replace(limits, isolation="read_committed")) as reader:
        requested = {w: w._replace(end=min(w.end, stable)) for w, stable in suspect.items() if stable > w.start}
        committed = dict(zip(requested, reader.read(list(requested.values())))) if requested else {}
    uncommitted = {
        w: _states(w, listed[w]["offsets"], committed[w].offsets if w in committed else np.empty(0, np.int64), stable)
        for w, stable in suspect.items()
    }
    return {w: table for w, table in uncommitted.items() if len(table)}


def _states(window: ReadWindow, offsets: Ints, committed: Ints, stable_end: int) -> pa.Table:
    not_committed = np.setdiff1d(offsets, committed)
    states = np.where(not_committed < stable_end, "aborted", "undecided")
    columns = {
        "topic": [window.topic] * len(not_committed),
        "partition": [window.partition] * len(not_committed),
        "offset": not_committed,
        "state": states,
    }
    return pa.table(columns, schema=arrow_schema("uncommitted"))
