"""Files that executors put into the store: whole, within limits, and without a word of the login."""

from __future__ import annotations

import json
import pickle
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from kafka_dr_spark.export import store as module
from kafka_dr_spark.export.store import ExportStore, NotStored

from tests.file_modes import PRIVATE, modes_in
from tests.support.stores.disturbing_proxy import Disturbance
from tests.support.stores.full_disk import nearly_full
from tests.support.stores.object_store import BUCKET, SECRET, disturbed, object_store


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options of a running S3 server."""
    with object_store() as options:
        yield options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty files in two folders."""
    for kind in ("stranded", "uncommitted"):
        (tmp_path / "task" / kind).mkdir(parents=True)
        for number in range(20):
            (tmp_path / "task" / kind / f"orders-{number}.parquet").write_bytes(f"{kind} {number}".encode() * 99)
    return tmp_path / "task"


def stored(uri: str, options: dict[str, Any]) -> dict[str, bytes]:
    """What a folder of the store holds, by name relative to it."""
    files, root = fsspec.core.url_to_fs(uri, **options)
    return {path.removeprefix(f"{root}/"): files.cat_file(path) for path in files.find(root)}


def held(folder: Path) -> dict[str, bytes]:
    """What a folder holds."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_files_are_stored_by_a_store_that_is_far_away_and_fails_one_call_in_twenty(
    folder: Path, s3: dict[str, Any]
) -> None:
    """200 ms an answer: several files at the same time, each failed call again."""
    uri, disturbance = f"s3://{BUCKET}/{uuid.uuid4().hex}", Disturbance(failing=0.05, seconds=0.2)
    with disturbed(s3, disturbance) as options:
        # As tasks get it.
        pickle.loads(pickle.dumps(ExportStore(uri, options))).put_all(folder)
    assert disturbance.failed > 0
    assert stored(uri, s3) == held(folder)


def test_a_folder_is_a_store_too(folder: Path, tmp_path: Path) -> None:
    """Only the owner reads it, and no file that is being written has a name of an export."""
    uri = f"file://{tmp_path}/store/run"
    ExportStore(uri, {}).put_all(folder)
    assert stored(uri, {}) == held(folder) and modes_in(tmp_path / "store") == PRIVATE


def test_a_store_that_is_away_ends_the_task_and_shows_no_login(folder: Path, s3: dict[str, Any]) -> None:
    """The first file that is not stored is named; files that wait for their turn are not tried."""
    disturbance = Disturbance(failing=1.0)
    with disturbed(s3, disturbance) as options:
        store = ExportStore(f"s3://{BUCKET}/x", options)
        with pytest.raises(
            NotStored, match=r"^writing s3://archive/x/stranded/orders-.*\.parquet in the store"
        ) as away:
            store.put_all(folder)
    assert disturbance.requests <= 2 * 8 * 4, "files that waited were tried, too"
    assert away.value.__cause__ is None and away.value.__context__ is None
    assert SECRET not in str(away.value) + repr(store)


def test_a_missing_bucket_is_not_asked_for_again(folder: Path, s3: dict[str, Any]) -> None:
    """No repetition cures it."""
    disturbance = Disturbance()
    with disturbed(s3, disturbance) as options, pytest.raises(NotStored, match="failed: FileNotFoundError;"):
        ExportStore("s3://nosuch/x", options).put_all(folder)
    assert disturbance.requests <= 8


def test_a_call_that_hangs_ends(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is told, and does not wait for the call."""
    for name, seconds in (("_CALL_SECONDS", 0.2), ("_FIRST_CALL_SECONDS", 0.0)):
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr(module, "_copy", lambda *_: time.sleep(60))
    began = time.monotonic()
    with pytest.raises(NotStored, match="no answer within 0 s"):
        ExportStore(f"file://{tmp_path}/store", {}).put_all(folder)
    assert time.monotonic() - began < 30


def test_a_file_that_is_stored_in_part_is_not_taken_for_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is read back."""
    monkeypatch.setattr(
        module, "_copy", lambda _, place: (place.parent.mkdir(parents=True, exist_ok=True), place.write_bytes(b"x"))
    )
    with pytest.raises(NotStored, match="failed: OSError"):
        ExportStore(f"file://{tmp_path}/store", {})._put(folder / "stranded" / "orders-0.parquet", "one")


def test_a_folder_without_room_keeps_nothing_of_a_file_that_did_not_fit(tmp_path: Path) -> None:
    """Records of clients would stay there under a name that nobody looks for."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "orders-0.parquet").write_bytes(b"x" * 50_000)
    with nearly_full(20_000), pytest.raises(NotStored, match="failed: OSError"):
        ExportStore(f"file://{tmp_path}/store", {}).put_all(tmp_path / "task")
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_options_come_from_the_logins_alone(tmp_path: Path, s3: dict[str, Any]) -> None:
    """The job's input names the place; neither settings nor place show an option."""
    from kafka_dr_spark.contract.logins import Logins
    from kafka_dr_spark.export.settings import load_export

    job = {"isolation": "read_uncommitted", "source_readable": True, "export_to": f"s3://{BUCKET}/run/find-1"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    logins = Logins(store=s3)
    export = load_export(tmp_path, logins)
    assert export.options == s3 and export.description == {"at": job["export_to"], "values": "keep", "keys": "keep"}
    assert SECRET not in repr(logins) + repr(export) + repr(export.place(tmp_path))
    assert export.folders("stranded") == ()
