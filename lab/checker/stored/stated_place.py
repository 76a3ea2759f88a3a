"""Where files are that evidence names: beside the evidence, or in a store that the evidence names by URI."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

#: Environment variable with fsspec's options, as JSON, by which the checker reads a store.
OPTIONS = "LAB_STORE_OPTIONS"


def stated_place(folder: Path, stated: str) -> str:
    """Return where a folder is that evidence states: a URI as it is, else the path beside the evidence.

    With a store, a folder of this name beside the evidence holds at most what this machine's steps have fetched.
    """
    return stated if "://" in stated else str(folder / stated)


def local_file(folder: Path, stated: str) -> Path:
    """Return the path beside the evidence of what evidence states, which is a name or a URI.

    Args:
        folder: the evidence folder; its name, the procedure's id, stands in a URI, too.
    """
    return folder / (stated.rpartition(f"/{folder.name}/")[2] if "://" in stated else stated)


def parquet_tables(place: str) -> Iterator[pa.Table]:
    """Yield the tables of all Parquet files in a folder or in a store's folder; none if it does not exist."""
    options = json.loads(os.environ.get(OPTIONS, "{}")) if "://" in place else {}
    # A kept client would list the folder as it was when it was first read.
    files, root = fsspec.core.url_to_fs(place, skip_instance_cache=True, **options)
    for path in sorted(files.glob(f"{root}/*.parquet")):
        with files.open(path, "rb") as file:
            yield pq.read_table(file)
