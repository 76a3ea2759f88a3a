"""Rows of all a job's input files in one shape, so that each task is given everything about its partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[str, int]
#: A partition's tagged rows, a table a kind; positions are sorted by group.
Kinds = list[pa.Table]

POSITION, SYNC, FLOOR, SEEN, STRETCH = range(5)
#: By kind: the input file, and which of its columns stand in which of `TAGGED`.
TAKEN = {
    POSITION: ("positions", {"name": "group", "policy": "policy", "a": "position", "b": "position_at", "c": "may_have_moved"}),
    SYNC: ("syncs", {"a": "upstream", "b": "downstream", "c": "sequence"}),
    FLOOR: ("floors", {"a": "source_end", "b": "target_end", "c": "replicated", "d": "sampled_at"}),
    SEEN: ("last_seen", {"a": "source_end", "b": "replicated", "c": "sampled_at", "d": "stable_end"}),
    STRETCH: ("stretches", {"a": "start", "b": "end"}),
}  # fmt: skip
TAGGED = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("kind", pa.int32()), ("name", pa.string()), ("policy", pa.string()),
        ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("d", pa.int64()),
    ]
)  # fmt: skip
#: What stands for a null offset: there is no such one.
NO_OFFSET = -1


class Packing:
    """Packs tables of one schema, one after the other, as one compressed Arrow stream."""

    def __init__(self) -> None:
        self._sink, self._stream = pa.BufferOutputStream(), None

    def add(self, rows: pa.Table) -> None:
        """Take more rows in."""
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self._stream.write_table(rows)

    def packed(self) -> bytes:
        """End the stream and return it; where no rows came it holds an empty table of `TAGGED`."""
        if self._stream is None:
            self.add(TAGGED.empty_table())
        self._stream.close()
        return self._sink.getvalue().to_pybytes()


def pack(rows: pa.Table) -> bytes:
    """Return a table as one compressed Arrow stream, as it travels between driver and tasks."""
    packing = Packing()
    packing.add(rows)
    return packing.packed()


def unpack(packed: bytes) -> pa.Table:
    """Return the table that `pack` made a stream of."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def split_by_partition(table: pa.Table) -> dict[Key, Kinds]:
    """Split tagged rows by partition and kind, in a fixed order."""
    topics, names = (_ranks(table[column]) for column in ("topic", "name"))
    kinds, partitions = table["kind"].to_numpy(), table["partition"].to_numpy()
    order = np.lexsort((names, kinds, partitions, topics))
    table, codes, partitions, kinds = table.take(pa.array(order)), topics[order], partitions[order], kinds[order]
    edges = np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(partitions) != 0))) if len(table) else []
    found = {}
    for start, end in zip(edges, [*edges[1:], len(table)]):
        parts = (start + np.searchsorted(kinds[start:end], range(len(TAKEN) + 1))).tolist()
        found[table["topic"][int(start)].as_py(), int(partitions[start])] = [table.slice(a, b - a) for a, b in zip(parts, parts[1:])]
    return found


def _ranks(column: pa.ChunkedArray) -> np.ndarray:
    """Return each text's place among the distinct ones: sorting numbers takes a fraction of sorting texts."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return ranks[encoded.indices.to_numpy()]
