"""Lists of stranded records, as the product exports them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from lab.workload.truth import content_digest

Place = tuple[str, int]


def listed(folder: Path) -> dict[Place, dict[int, int]]:
    """Return the content of each record that the files of a folder list, by place and offset; nothing where there is no folder."""
    found: dict[Place, dict[int, int]] = {}
    for path in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            headers = list(zip(row["header_names"], row["header_values"], strict=True))
            found.setdefault((row["topic"], row["partition"]), {})[row["offset"]] = content_digest(row["key"], row["value"], headers)
    return found

