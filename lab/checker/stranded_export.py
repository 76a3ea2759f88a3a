"""Lists of stranded records, as the product exports them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from lab.workload.ground_truth import content_digest

Place = tuple[str, int]


class Export(NamedTuple):
    """What one export holds, by place and offset.

    Args:
        stranded: contents of records that were never replicated and are in no transaction, or in a committed one.
        older: contents of records that the other cluster has no more, of logs that are deleted.
        apart: offsets that are said to be in a transaction which nobody committed.
    """

    stranded: dict[Place, dict[int, int]]
    older: dict[Place, dict[int, int]]
    apart: dict[Place, set[int]]

    @classmethod
    def read(cls, folder: Path) -> Export:
        """Read the folders of an export; one that is absent holds nothing."""
        apart: dict[Place, set[int]] = {}
        for path in sorted((folder / "uncommitted").glob("*.parquet")):
            for row in pq.read_table(path, columns=["topic", "partition", "offset"]).to_pylist():
                apart.setdefault((row["topic"], row["partition"]), set()).add(row["offset"])
        everything = listed_contents(folder / "stranded")
        told = {
            place: {offset: digest for offset, digest in rows.items() if offset not in apart.get(place, ())}
            for place, rows in everything.items()
        }
        return cls(told, listed_contents(folder / "older"), apart)

    @property
    def records(self) -> dict[Place, dict[int, int]]:
        """Everything that is kept in it."""
        return {
            place: self.older.get(place, {}) | self.stranded.get(place, {}) for place in {*self.older, *self.stranded}
        }


def listed_contents(folder: Path) -> dict[Place, dict[int, int]]:
    """Return the content of each record listed in a folder's files, by place and offset; {} without folder."""
    found: dict[Place, dict[int, int]] = {}
    for path in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            headers = list(zip(row["header_names"], row["header_values"], strict=True))
            found.setdefault((row["topic"], row["partition"]), {})[row["offset"]] = content_digest(
                row["key"], row["value"], headers
            )
    return found
