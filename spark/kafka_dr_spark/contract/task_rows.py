"""Rows of all input files of a job in the columns `TAGGED`, so that each task gets all rows of its partitions.

The *kind* of a row is the input file that holds the row: POSITION is positions.parquet, SYNC is syncs.parquet, and so
on. `TAKEN` states by kind which column of that file fills which column of `TAGGED`. For example, a position's ``name``
is its group.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_dr_spark.contract.columns import Ints

Key = tuple[str, int]

POSITION, SYNC, FLOOR, SEEN, STRETCH, SYNC_BACK = range(6)
#: By kind of row: the input file's name, and by column of `TAGGED` the column of the file that fills it.
TAKEN = {
    POSITION: (
        "positions",
        {"name": "group", "policy": "policy", "a": "position", "b": "position_at", "c": "may_have_moved"},
    ),
    SYNC: ("syncs", {"a": "upstream", "b": "downstream", "c": "sequence"}),
    FLOOR: ("floors", {"a": "source_end", "b": "target_end", "c": "replicated", "d": "sampled_at"}),
    SEEN: ("last_seen", {"a": "source_end", "b": "replicated", "c": "sampled_at", "d": "stable_end"}),
    STRETCH: ("stretches", {"a": "start", "b": "end", "c": "downstream"}),
    SYNC_BACK: ("syncs_back", {"a": "upstream", "b": "downstream", "c": "sequence"}),
}
TAGGED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("name", pa.string()),
        ("policy", pa.string()),
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("c", pa.int64()),
        ("d", pa.int64()),
    ]
)
#: Stands for a null offset, because no real offset is negative.
NO_OFFSET = -1


class Packing:
    """Packs tables of one schema, one after another, into one compressed Arrow stream."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._stream: Any = None

    def add(self, rows: pa.Table) -> None:
        """Append a table's rows to the stream."""
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self._stream.write_table(rows)

    def packed(self) -> bytes:
        """Close the stream and return its bytes; a stream without tables gets an empty table in columns `TAGGED`."""
        if self._stream is None:
            self.add(TAGGED.empty_table())
        self._stream.close()
        packed: bytes = self._sink.getvalue().to_pybytes()
        return packed


def pack_table(rows: pa.Table) -> bytes:
    """Return a table as the bytes of one compressed Arrow stream, to be sent between driver and tasks."""
    packing = Packing()
    packing.add(rows)
    return packing.packed()


def unpack_table(packed: bytes) -> pa.Table:
    """Return the table held by a compressed Arrow stream, the result of `pack_table`."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


class TaskRows:
    """The rows that one input file has of one partition: a slice of adjacent rows of a task's table.

    Only the requested columns are sliced, because slicing Arrow tables is slow for many small partitions.
    """

    def __init__(self, columns: dict[str, pa.Array | Ints], start: int, end: int) -> None:
        self._columns, self._start, self._end = columns, start, end

    def __len__(self) -> int:
        return self._end - self._start

    def numbers(self, name: str) -> Ints:
        """Return one of the number columns ``a`` to ``d`` as a numpy array; NO_OFFSET means null."""
        return self._columns[name][self._start : self._end]

    def column(self, name: str) -> pa.Array:
        """Return a column, such as a text column, as an Arrow array."""
        column = self._columns[name]
        return (
            column.slice(self._start, len(self))
            if isinstance(column, pa.Array)
            else pa.array(column[self._start : self._end])
        )


#: A partition's rows, one `TaskRows` per kind at the index POSITION, SYNC ...; positions are sorted by group.
Kinds = list[TaskRows]


def no_rows() -> Kinds:
    """Return one empty `TaskRows` per kind, for a partition that occurs in no input file."""
    columns = {name: np.empty(0, np.int64) for name in "abcd"}
    return [TaskRows(columns, 0, 0) for _ in TAKEN]


def split_by_partition(table: pa.Table) -> dict[Key, Kinds]:
    """Return by partition its rows of a table in columns `TAGGED`, as a list with one `TaskRows` per kind.

    The list's indexes are the kinds POSITION, SYNC ...; positions are sorted by group, all other rows keep the table's
    order.
    """
    topics, names = (_ranks(table[column]) for column in ("topic", "name"))
    kinds, partitions = table["kind"].to_numpy(), table["partition"].to_numpy()
    order = np.lexsort((names, kinds, partitions, topics))
    codes, partitions = topics[order], partitions[order]
    columns = _reordered(table, order)
    edges = (
        np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(partitions) != 0)))
        if len(table)
        else np.empty(0, np.int64)
    )
    # Each (partition, kind) has a number, so that one lookup finds where all of them begin.
    numbered = (np.searchsorted(edges, np.arange(len(table)), side="right") - 1) * len(TAKEN) + kinds[order]
    begins = np.searchsorted(numbered, np.arange(len(edges) * len(TAKEN) + 1)).tolist()
    names_of = columns["topic"].take(pa.array(edges)).to_pylist()
    rows_by_partition = {}
    for row, key in enumerate(zip(names_of, partitions[edges].tolist())):
        parts = begins[row * len(TAKEN) : (row + 1) * len(TAKEN) + 1]
        rows_by_partition[key] = [TaskRows(columns, start, end) for start, end in itertools.pairwise(parts)]
    return rows_by_partition


def _reordered(table: pa.Table, order: Ints) -> dict[str, pa.Array | Ints]:
    """Return the table's columns in a new order of rows: ``a`` to ``d`` as numpy arrays, all others as Arrow arrays."""
    places = pa.array(order)
    texts = {name: table[name].combine_chunks().take(places) for name in ("topic", "partition", "name", "policy")}
    return texts | {name: table[name].to_numpy()[order] for name in "abcd"}


def _ranks(column: pa.ChunkedArray) -> Ints:
    """Return each text's rank among the distinct texts, because ranks are sorted faster than texts."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    row_ranks: Ints = ranks[encoded.indices.to_numpy()]
    return row_ranks
