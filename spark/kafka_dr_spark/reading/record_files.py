"""Writes stranded records down as they are read: whole, so that they can be written again somewhere else."""

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
from kafka_dr_spark.contract.schemas import ContractBroken, arrow_schema
from kafka_dr_spark.reading.fingerprints import Headers
from kafka_dr_spark.reading.windows import (
    KafkaAccess,
    OpenWindow,
    WindowReader,
    partition_runs,
    without_garbage_collection,
)
from kafka_dr_spark.translation.case import SOURCE, Limits, ReadWindow

#: Of a partition, until they are written down together: whichever is reached first.
RECORDS_HELD, BYTES_HELD = 5_000, 8_000_000
#: Partitions that are listed together: each holds as many records.
AT_ONCE = 64
#: Rows that wait to be written keep all that was read together with them: no more than all partitions may hold is kept
#: alive by them.
BYTES_KEPT = AT_ONCE * BYTES_HELD
#: Not the smallest files: who decides waits for them.
COMPRESSION = "none"
NOTHING_HASHED = sha256()
SCHEMA = arrow_schema("stranded")
#: Of all columns those that differ within a partition.
ROWS = pa.schema([field for field in SCHEMA if field.name not in ("topic", "partition")], SCHEMA.metadata)
#: Folders of an assessment: the records, and which of them no transaction has committed; a file a partition in each.
STRANDED, UNCOMMITTED = "stranded", "uncommitted"
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: Of a topic in the name of its files.
_LONGEST = 200


class Chosen(NamedTuple):
    """Which records of a window are listed: some below an offset, by ascending offsets, and all from there on."""

    some: Ints | range
    all_from: int

    def of(self, offsets: Ints) -> Mask:
        """Return a mask of those that are."""
        return (offsets >= self.all_from) | np.isin(offsets, self.some)


class Listed(OpenWindow):
    """A window whose records go to a file of their own; only what counts them stays."""

    def __init__(self, window: ReadWindow, path: Path, chosen: Chosen | None = None) -> None:
        super().__init__(window)
        self.path, self.bytes, self._reached, self._chosen = path, 0, window.start, chosen
        self._rows: list[pa.Table] = []
        self._rows_held = self._bytes_held = 0
        self._offsets = [np.empty(0, np.int64)]
        #: The smallest and the largest timestamp of each portion that has any.
        self._times: list[int] = []
        # All other columns differ from record to record: a dictionary of them is built, and then thrown away or written
        # out.
        self._file = pq.ParquetWriter(
            path, SCHEMA, compression=COMPRESSION, use_dictionary=["topic"], write_statistics=["offset", "timestamp"]
        )

    @property
    def reached(self) -> int:
        """The next offset to read."""
        return self._reached

    def add_rows(self, rows: pa.Table) -> bool:
        """Take in rows of this partition, as `rows_of` makes them, and say whether the window is complete."""
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
        """Write down what waits for that."""
        if not self._rows:
            return
        rows, self._rows, self._rows_held, self._bytes_held = pa.concat_tables(self._rows), [], 0, 0
        self._file.write_table(
            rows.add_column(0, SCHEMA.field("topic"), pa.repeat(self.window.topic, len(rows))).add_column(
                1, SCHEMA.field("partition"), pa.array(np.full(len(rows), self.window.partition, np.int32))
            )
        )
        self.bytes += sum(pc.sum(pc.binary_length(rows[name])).as_py() or 0 for name in ("key", "value"))
        span = pc.min_max(rows["timestamp"]).as_py()
        self._times += [at for at in span.values() if at is not None]

    def close(self) -> dict[str, Any]:
        """End the file and tell what is in it."""
        self.flush()
        self._file.close()
        offsets = np.concatenate(self._offsets)
        told = {
            "records": len(offsets),
            "bytes": self.bytes,
            "first_at": min(self._times, default=None),
            "last_at": max(self._times, default=None),
        }
        return {**told, "offsets": offsets, "file": self.path.name, "sha256": sha256_of(self.path)}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def rows_of(messages: list[Message]) -> pa.Table:
    """Return records in the shape of `stranded` less their place; by column, for speed with a million rows."""
    count, keys = len(messages), list(map(Message.key, messages))
    kinds, stamps = (
        np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count).reshape(count, 2).T
    )
    names, contents = _headers(messages)
    columns = {
        "offset": np.fromiter(map(Message.offset, messages), np.int64, count),
        "timestamp": pa.array(stamps, mask=kinds == TIMESTAMP_NOT_AVAILABLE),
        "log_append_time": kinds == TIMESTAMP_LOG_APPEND_TIME,
        "key_sha256": _hashes(keys),
        "key": keys,
        "value": list(map(Message.value, messages)),
        "header_names": names,
        "header_values": contents,
    }
    return pa.table(columns, schema=ROWS)


def _hashes(keys: list[bytes | None]) -> pa.Array:
    """SHA-256 of each key in hex, null where there is none; all digests become text at once."""
    digests = []
    for key in keys:
        # A copy costs less than a new one: OpenSSL looks for its algorithm each time.
        digest = NOTHING_HASHED.copy()
        digest.update(key or b"")
        digests.append(digest.digest())
    texts = b"".join(digests).hex().encode()
    ends = np.arange(len(keys) + 1, dtype=np.int32) * (2 * NOTHING_HASHED.digest_size)
    found = pa.StringArray.from_buffers(len(keys), pa.py_buffer(ends), pa.py_buffer(texts))
    return pc.if_else(pa.array([key is not None for key in keys]), found, None) if None in keys else found


def _headers(messages: list[Message]) -> tuple[Any, Any]:
    """Names and values of the headers, a list a record; most records have none."""
    if not any(map(Message.headers, messages)):
        none = pa.array(np.zeros(len(messages) + 1, np.int32))
        return pa.ListArray.from_arrays(none, pa.array([], pa.string())), pa.ListArray.from_arrays(
            none, pa.array([], pa.binary())
        )
    # What may be given as a dict comes back as pairs.
    found: list[Headers] = [message.headers() or () for message in messages]  # type: ignore[misc]
    return [[name for name, _ in one] for one in found], [[content for _, content in one] for one in found]


class ListingReader(WindowReader):
    """Lists windows of the source, many partitions at once."""

    def write(
        self, windows: Mapping[ReadWindow, Path], chosen: Mapping[ReadWindow, Chosen] | None = None
    ) -> dict[ReadWindow, dict[str, Any]]:
        """Write the records of each window to its file, and tell what is in it; one window a partition.

        Args:
            chosen: of a window of which not all records are wanted.
        """
        self._listed = {
            (window.topic, window.partition): Listed(window, path, (chosen or {}).get(window))
            for window, path in windows.items()
        }
        self._bytes_kept = 0
        with without_garbage_collection():
            self._read_side(SOURCE, dict(self._listed))
        return {one.window: one.close() for one in self._listed.values()}

    def _take_in(
        self, side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]
    ) -> list[tuple[str, int]]:
        """Take all records in as rows at once, while they are in the processor's cache: later costs an eighth more.

        Where a log ends is taken in last: no record below the end comes after that is told.
        """
        others = [message for message, error in zip(messages, map(Message.error, messages)) if error is not None]
        records = [message for message in messages if message.error() is None] if others else messages
        return (self._take_rows(records, pending) if records else []) + super()._take_in(side, others, pending)

    def _take_rows(self, records: list[Message], pending: dict[tuple[str, int], OpenWindow]) -> list[tuple[str, int]]:
        """Hand records to their windows as rows; return those that are complete, which are pending no more."""
        rows, finished = rows_of(records), []
        for name, where in partition_runs(records):
            if name in pending and self._listed[name].add_rows(rows.slice(where.start, where.stop - where.start)):
                del pending[name]
                finished.append(name)
        self._bytes_kept += rows["value"].nbytes
        if self._bytes_kept >= BYTES_KEPT:
            self._bytes_kept = 0
            for one in self._listed.values():
                one.flush()
        return finished


def name_of(topic: str, partition: int) -> str:
    """Return the unique name of a partition's files, `-partition` last; long topics are cut and hashed (255 bytes).

    Raises:
        ContractBroken: Kafka allows no such topic; a cluster's word must not lead out of the folder.
    """
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        raise ContractBroken(f"{topic!a} is no topic that Kafka allows: find out what answers in the cluster's place")
    short = topic if len(topic) <= _LONGEST else f"{topic[:100]}~{sha256(topic.encode()).hexdigest()}"
    return f"{short}-{partition}.parquet"


def list_stranded(
    access: KafkaAccess,
    limits: Limits,
    folder: Path,
    stable_ends: Mapping[ReadWindow, int | None],
    chosen: Mapping[ReadWindow, Chosen] | None = None,
) -> dict[ReadWindow, dict[str, Any]]:
    """Write the records of windows of the source, and list the uncommitted ones apart; return what was written.

    Args:
        folder: holds the folders of both.
        stable_ends: by window the source's last stable offset.
        chosen: of a window of which not all records are wanted.
    """
    told = write_records(access, limits, folder / STRANDED, list(stable_ends), chosen)
    states = uncommitted_records(access, limits, told, stable_ends)
    return {
        window: {**about, **_apart(states.get(window), folder / UNCOMMITTED / name_of(window.topic, window.partition))}
        for window, about in told.items()
    }


def write_records(
    access: KafkaAccess,
    limits: Limits,
    folder: Path,
    windows: list[ReadWindow],
    chosen: Mapping[ReadWindow, Chosen] | None = None,
) -> dict[ReadWindow, dict[str, Any]]:
    """Write the records of windows of the source, a file a partition; tell what is in each."""
    told: dict[ReadWindow, dict[str, Any]] = {}
    with ListingReader(access, limits) as reader:
        for start in range(0, len(windows), AT_ONCE):
            told |= reader.write(
                {
                    window: folder / name_of(window.topic, window.partition)
                    for window in windows[start : start + AT_ONCE]
                },
                chosen,
            )
    return told


def _apart(states: pa.Table | None, path: Path) -> dict[str, Any]:
    """Write the list of uncommitted records, if any; return the count of each state, and the file's digest."""
    found = [] if states is None else states["state"].to_pylist()
    counts = {state: found.count(state) for state in ("aborted", "undecided")}
    if states is None:
        return counts
    pq.write_table(states, path, compression="zstd")
    return {**counts, "uncommitted_sha256": sha256_of(path)}


def uncommitted_records(
    access: KafkaAccess,
    limits: Limits,
    listed: Mapping[ReadWindow, dict[str, Any]],
    stable_ends: Mapping[ReadWindow, int | None],
) -> dict[ReadWindow, pa.Table]:
    """Return by window the records that no transaction has committed, where there are any.

    Where every offset holds a record and the last stable offset is the end, no transaction ever ended or is open there.
    """
    suspect = {
        w: int(stable_ends[w] or 0)
        for w, told in listed.items()
        if (stable_ends[w] or 0) < w.end or len(told["offsets"]) < w.end - w.start
    }
    with WindowReader(access, replace(limits, isolation="read_committed")) as reader:
        asked = {w: w._replace(end=min(w.end, stable)) for w, stable in suspect.items() if stable > w.start}
        came = dict(zip(asked, reader.read(list(asked.values())))) if asked else {}
    found = {
        w: _states(w, listed[w]["offsets"], came[w].offsets if w in came else np.empty(0, np.int64), stable)
        for w, stable in suspect.items()
    }
    return {w: table for w, table in found.items() if len(table)}


def _states(window: ReadWindow, offsets: Ints, committed: Ints, stable_end: int) -> pa.Table:
    left = np.setdiff1d(offsets, committed)
    states = np.where(left < stable_end, "aborted", "undecided")
    columns = {
        "topic": [window.topic] * len(left),
        "partition": [window.partition] * len(left),
        "offset": left,
        "state": states,
    }
    return pa.table(columns, schema=arrow_schema("uncommitted"))
