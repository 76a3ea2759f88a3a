"""The archive: whole files by hour, merged and expired without loss or doubles, also after a crash."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive

from tests.support.stores.object_store import object_store

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module", name="object_store")
def _object_store() -> Iterator[dict[str, Any]]:
    """The options with which an S3 server is reached."""
    with object_store() as options:
        yield options


@pytest.fixture(params=["file", "memory", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Archive]:
    """An archive on a file system, in memory where a put is one request, and on an object store."""
    name = uuid.uuid4().hex
    uris = {"file": f"file://{tmp_path}/archive", "memory": f"memory://{name}", "s3": f"s3://archive/{name}"}
    options = request.getfixturevalue("object_store") if request.param == "s3" else {}
    return Archive(uris[request.param], "primary-standby", options)


def rows(*numbers: int) -> pa.Table:
    """Rows that are told apart."""
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(archive: Archive, **hours: datetime) -> list[int]:
    """What is read, sorted."""
    found = archive.read("ends", **hours)
    return sorted(found["n"].to_pylist()) if found is not None else []


def test_rows_come_back_by_hour(archive: Archive) -> None:
    """Only the hours asked for; a kind of which nothing is kept is None."""
    for hour in range(3):
        archive.write("ends", rows(hour), NOON + timedelta(hours=hour, minutes=59))
    assert numbers(archive) == [0, 1, 2] and archive.kinds() == ["ends"]
    assert numbers(archive, since=NOON + timedelta(hours=1)) == [1, 2]
    assert numbers(archive, until=NOON + timedelta(hours=1)) == [0, 1]
    assert archive.read("positions") is None


def test_days_and_years_are_in_order(archive: Archive) -> None:
    """Midnight and New Year's Eve."""
    eve = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    for n, at in enumerate((eve, eve + timedelta(minutes=2), eve + timedelta(days=2))):
        archive.write("ends", rows(n), at)
    assert numbers(archive, since=eve, until=eve + timedelta(minutes=2)) == [0, 1]


def test_merging_keeps_every_row_once(archive: Archive) -> None:
    """Hours that ended become one file each; the hour that still runs is left alone; again, nothing is left to do."""
    for n in range(6):
        archive.write("ends", rows(n), NOON + timedelta(minutes=20 * n))
    assert archive.merge(NOON + timedelta(hours=1)) == 3
    assert numbers(archive) == [0, 1, 2, 3, 4, 5]
    assert archive.merge(NOON + timedelta(hours=1)) == 0


def test_columns_that_came_later_are_merged_too(archive: Archive) -> None:
    """A newer recorder writes more columns: older rows have none there."""
    archive.write("ends", rows(1), NOON)
    archive.write("ends", pa.table({"n": [2], "size": [9]}), NOON)
    archive.merge(NOON + timedelta(hours=1))
    found = archive.read("ends").sort_by("n")
    assert found["n"].to_pylist() == [1, 2] and found["size"].to_pylist() == [None, 9]


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_merge_that_was_interrupted_neither_loses_nor_doubles(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """The process died between writing the whole and deleting all parts; read at once and after a merge."""
    for n in range(3):
        archive.write("ends", rows(n), NOON + timedelta(minutes=n))
    real = Archive.delete
    monkeypatch.setattr(Archive, "delete", lambda self, names: real(self, list(names)[:deleted]))
    archive.merge(NOON + timedelta(hours=1))
    assert numbers(archive) == [0, 1, 2]
    monkeypatch.undo()
    archive.merge(NOON + timedelta(hours=1))
    assert numbers(archive) == [0, 1, 2]
    assert len([name for _, names in archive._hours("ends", None, None) for name in names]) == 1


def test_late_rows_join_a_merged_hour(archive: Archive) -> None:
    """A sample that was written late lies beside the whole, and goes into the next one."""
    for n in range(2):
        archive.write("ends", rows(n), NOON)
    archive.merge(NOON + timedelta(hours=1))
    archive.write("ends", rows(2), NOON)
    assert numbers(archive) == [0, 1, 2]
    assert archive.merge(NOON + timedelta(hours=1)) == 2 and numbers(archive) == [0, 1, 2]


def test_a_merge_while_it_is_read_loses_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was listed is gone before it is read: listed again, as it is now."""
    for n in range(3):
        archive.write("ends", rows(n), NOON + timedelta(minutes=n))
    real, merged = Archive._get, []

    def get(self: Archive, *asked: Any) -> pa.Table:
        if not merged:
            merged.append(True)
            self.merge(NOON + timedelta(hours=1))
        return real(self, *asked)

    monkeypatch.setattr(Archive, "_get", get)
    assert numbers(archive) == [0, 1, 2]


def test_hours_that_vanish_again_and_again_are_named(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never taken for empty."""
    archive.write("ends", rows(1), NOON)
    monkeypatch.setattr(Archive, "_valid", lambda self, names: ["ends/2026-11-22/12/gone.parquet"])
    with pytest.raises(ArchiveUnavailable, match="reading in the archive failed"):
        archive.read("ends")


def test_hours_are_read_back_one_by_one(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest first, over midnight; an expired hour is passed over, and an absent kind has none."""
    for hour in (0, 11, 13, 37):
        archive.write("ends", rows(hour), NOON + timedelta(hours=hour))
    assert [table["n"].to_pylist() for table in archive.back("ends")] == [[37], [13], [11], [0]]
    hours = archive.back("ends", columns=["n"])
    assert next(hours)["n"].to_pylist() == [37]
    archive.expire(NOON + timedelta(hours=12))
    assert [table["n"].to_pylist() for table in hours] == [[13]]
    assert list(archive.back("positions")) == []


def test_what_another_process_wrote_is_seen(archive: Archive) -> None:
    """File systems remember what they listed."""
    archive.write("ends", rows(1), NOON)
    assert numbers(archive) == [1]
    other, sink = type(archive._fs)(skip_instance_cache=True, **archive._fs.storage_options), pa.BufferOutputStream()
    pq.write_table(rows(2), sink)
    other.pipe_file(f"{archive._root}/ends/2026-11-22/12/120000.000000-x.parquet", sink.getvalue().to_pybytes())
    assert numbers(archive) == [1, 2]


def test_what_is_too_old_goes(archive: Archive) -> None:
    """Whole hours before the retention's end."""
    for hour in range(3):
        archive.write("ends", rows(hour), NOON + timedelta(hours=hour))
    assert archive.expire(NOON + timedelta(hours=2)) == 2 and numbers(archive) == [2]


def test_a_half_written_file_is_no_file(tmp_path: Path) -> None:
    """What a crash left aside is not read, and goes with its hour."""
    archive = Archive(f"file://{tmp_path}", "f")
    name = archive.write("ends", rows(1), NOON)
    half = (tmp_path / "f" / name).with_name(".writing-120000.parquet")
    half.write_bytes(b"PAR1")
    assert numbers(archive) == [1]
    assert archive.expire(NOON) == 0 and half.exists()
    assert archive.expire(NOON + timedelta(hours=1)) == 2 and not half.exists()


def test_a_full_disk_is_not_filled_with_beginnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that is tried again begins the same file again."""
    archive = Archive(f"file://{tmp_path}", "f")

    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(archive._fs, "mv", full)
        for _ in range(3):
            with pytest.raises(ArchiveUnavailable):
                archive.write("ends", rows(1), NOON)
    assert len(list(tmp_path.rglob(".writing-*"))) == 1
    archive.write("ends", rows(1), NOON)
    assert numbers(archive) == [1] and not list(tmp_path.rglob(".writing-*"))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Never taken for empty."""
    archive = Archive(f"file://{tmp_path}", "f")
    name = archive.write("ends", rows(1), NOON)
    (tmp_path / "f" / name).write_bytes(b"PAR1 no more")
    with pytest.raises(ArchiveUnavailable, match="ends/2026-11-22/12"):
        archive.read("ends")


def test_a_file_system_that_fails_is_named_without_its_options(tmp_path: Path) -> None:
    """No room, no rights, no such protocol: said so, and no credential."""
    with pytest.raises(ArchiveUnavailable) as error:
        Archive("nosuch://x", "f", {"secret": "hunter2"})
    assert "hunter2" not in str(error.value)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ArchiveUnavailable, match="writing in the archive failed"):
        Archive(f"file://{blocked}", "f").write("ends", rows(1), NOON)


def test_an_object_store_that_refuses_is_named_without_its_credentials(object_store: dict[str, Any]) -> None:
    """No such bucket; nobody there."""
    with pytest.raises(ArchiveUnavailable, match="writing in the archive failed") as error:
        Archive("s3://nosuch/prefix", "f", object_store).write("ends", rows(1), NOON)
    assert "hunter2" not in str(error.value)
    gone = {
        **object_store,
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
    }
    with pytest.raises(ArchiveUnavailable, match="archive failed"):
        Archive("s3://archive/prefix", "f", gone).read("ends")


def test_memory_is_really_an_object_store() -> None:
    """The tests above exercise both ways of writing."""
    assert fsspec.filesystem("memory").protocol == "memory"


def test_the_newest_file_tells_its_time(archive: Archive) -> None:
    """Of an hour whose files were merged, its last second; None without a file."""
    assert archive.newest("ends") is None
    for seconds in (0, 20, 10):
        archive.write("ends", rows(seconds), NOON + timedelta(seconds=seconds))
    assert archive.newest("ends") == NOON + timedelta(seconds=20)
    archive.merge(NOON + timedelta(hours=2))
    assert archive.newest("ends") == NOON + timedelta(minutes=59, seconds=59)
    archive.write("ends", rows(1), NOON + timedelta(hours=1, milliseconds=5))
    assert archive.newest("ends") == NOON + timedelta(hours=1, milliseconds=5)
    assert archive.newest_rows("ends", ["n"]).to_pydict() == {"n": [1]} and archive.newest_rows("other", ["n"]) is None
