"""The checker reads an export where evidence says that it is, not what a step has fetched of it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.checker.stored.stated_place import OPTIONS, parquet_tables, stated_place
from tests.support.stores.object_store import BUCKET, object_store

JOB = "find_stranded_records-3"


def put(files: Any, root: str, name: str, *offsets: int) -> None:
    """Put a file of records into a folder of the store."""
    with files.open(f"{root}/{name}", "wb") as file:
        pq.write_table(pa.table({"offset": offsets}), file)


def offsets(place: str) -> list[int]:
    """The offsets in all files of a folder."""
    return [offset for table in parquet_tables(place) for offset in table["offset"].to_pylist()]


def test_an_export_in_the_store_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the machine has the job's listing, and one part that a step has fetched."""
    folder = tmp_path / "failback-1"
    (folder / JOB / "stranded").mkdir(parents=True)
    pq.write_table(pa.table({"offset": [1]}), folder / JOB / "stranded" / "orders-0-a.parquet")
    with object_store() as options:
        monkeypatch.setenv(OPTIONS, json.dumps(options))
        uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/failback-1/{JOB}"
        files, root = fsspec.core.url_to_fs(uri, skip_instance_cache=True, **options)
        put(files, root, "stranded/orders-0-a.parquet", 1)
        put(files, root, "older/orders-1-a.parquet", 2, 3)
        place = stated_place(folder, uri)
        assert place == uri and offsets(f"{place}/stranded") == [1] and offsets(f"{place}/older") == [2, 3]
        assert offsets(f"{place}/uncommitted") == []
        put(files, root, "stranded/orders-2-b.parquet", 4)
        assert offsets(f"{place}/stranded") == [1, 4], "an old listing was read"


def test_an_export_beside_the_evidence_is_read_there(tmp_path: Path) -> None:
    """Without a store, evidence names a folder."""
    (tmp_path / JOB).mkdir()
    pq.write_table(pa.table({"offset": [7]}), tmp_path / JOB / "orders-0-a.parquet")
    assert offsets(stated_place(tmp_path, JOB)) == [7]
