"""Read an export of stranded records: Parquet files in the folders `stranded`, `older` and `uncommitted`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lab.checker.stored.stated_place import parquet_tables
from lab.workload.ground_truth import content_digest

Place = tuple[str, int]


class Export(NamedTuple):
    """One export, by (topic, partition) of the returned cluster: content digests by offset.

    Args:
        stranded: records that were never replicated, except records of uncommitted transactions.
        older: replicated records that the other cluster no longer has, and that are lost if the topic is recreated.
        uncommitted: offsets of the records that the export lists as part of uncommitted transactions.
    """

    stranded: dict[Place, dict[int, int]]
    older: dict[Place, dict[int, int]]
    uncommitted: dict[Place, set[int]]

    @classmethod
    def read(cls, place: str | Path) -> Export:
        """Return the export in a folder, or in a store's folder by its URI; a missing subfolder counts as empty."""
        uncommitted: dict[Place, set[int]] = {}
        for table in parquet_tables(f"{place}/uncommitted"):
            for row in table.select(["topic", "partition", "offset"]).to_pylist():
                uncommitted.setdefault((row["topic"], row["partition"]), set()).add(row["offset"])
        listed = listed_contents(f"{place}/stranded")
        committed = {
            place: {offset: digest for offset, digest in rows.items() if offset not in uncommitted.get(place, ())}
            for place, rows in listed.items()
        }
        return cls(committed, listed_contents(f"{place}/older"), uncommitted)

    @property
    def records(self) -> dict[Place, dict[int, int]]:
        """Content digests of `stranded` and `older` together, by partition and offset."""
        return {
            place: self.older.get(place, {}) | self.stranded.get(place, {}) for place in {*self.older, *self.stranded}
        }


def listed_contents(place: str | Path) -> dict[Place, dict[int, int]]:
    """Return the content digests of the records in a folder's files, by partition and offset.

    {} if the folder does not exist.
    """
    contents: dict[Place, dict[int, int]] = {}
    for table in parquet_tables(str(place)):
        for row in table.to_pylist():
            headers = list(zip(row["header_names"], row["header_values"], strict=True))
            contents.setdefault((row["topic"], row["partition"]), {})[row["offset"]] = content_digest(
                row["key"], row["value"], headers
            )
    return contents
