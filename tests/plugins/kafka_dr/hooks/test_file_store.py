"""The store holds whole files, answers within limits, and shows no credentials."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from kafka_dr.errors import BadInput, StoreUnavailable
from kafka_dr.hooks import file_store
from kafka_dr.hooks.file_store import FileStore

from tests.file_modes import PRIVATE, modes_in
from tests.support.stores.disturbing_proxy import Disturbance
from tests.support.stores.full_disk import nearly_full
from tests.support.stores.object_store import SECRET, disturbed, object_store

NAME = "planned_failover-r1/cut_off-0123456789ab.parquet"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """The options with which an S3 server is reached."""
    with object_store() as options:
        yield options


@pytest.fixture(params=["file", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    """A store in a folder, in memory, and in a bucket."""
    if request.param == "s3":
        return FileStore(f"s3://archive/{uuid.uuid4().hex}", lambda: request.getfixturevalue("s3"))
    return FileStore({"file": f"file://{tmp_path}/store", "memory": f"memory://{uuid.uuid4().hex}"}[request.param])


@pytest.fixture
def given(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a local file."""

    def write(content: bytes) -> Path:
        path = tmp_path / uuid.uuid4().hex
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("content", [b"", b"cut-off", os.urandom(3_000_000)], ids=["empty", "small", "3 MB"])
def test_what_is_put_is_read_elsewhere(
    store: FileStore, given: Callable[[bytes], Path], tmp_path: Path, content: bytes
) -> None:
    """Whole, by name, with mode 600."""
    store.put(NAME, given(content))
    assert store.read(NAME) == content and store.has(NAME)
    assert store.get(NAME, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content and (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_a_file_that_nobody_put_is_no_error(store: FileStore, tmp_path: Path) -> None:
    """It is missing, and no empty file stays behind."""
    assert store.read(NAME) is None and not store.has(NAME) and not store.get(NAME, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_document_is_replaced(store: FileStore, given: Callable[[bytes], Path]) -> None:
    """Readers get the new content at once, since nothing is cached."""
    for content in (b"old", b"new"):
        store.put("readiness/a-to-b.json", given(content))
        assert store.read("readiness/a-to-b.json") == content


def test_a_store_in_a_folder_is_private(tmp_path: Path, given: Callable[[bytes], Path]) -> None:
    """Files 600, folders 700, and no temporary file is left."""
    FileStore(f"file://{tmp_path}/store").put(NAME, given(b"x"))
    assert modes_in(tmp_path / "store") == PRIVATE
    assert [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()] == [NAME.rpartition("/")[2]]


def test_a_folder_without_room_keeps_nothing_of_a_file_that_did_not_fit(
    tmp_path: Path, given: Callable[[bytes], Path]
) -> None:
    """Otherwise each of many repetitions would leave a part of it, until nothing fits any more."""
    path = given(b"x" * 50_000)
    with nearly_full(20_000), pytest.raises(StoreUnavailable, match="OSError"):
        FileStore(f"file://{tmp_path}/store").put(NAME, path)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_one_request_in_twenty_fails(s3: dict[str, Any], given: Callable[[bytes], Path]) -> None:
    """Nobody notices: the store's own repeats get over it."""
    disturbance = Disturbance(failing=0.05)
    with disturbed(s3, disturbance) as options:
        store, prefix = FileStore("s3://archive", lambda: options), uuid.uuid4().hex
        for number in range(60):
            store.put(f"{prefix}/{number}", given(f"{number}".encode()))
        assert [store.read(f"{prefix}/{number}") for number in range(60)] == [f"{n}".encode() for n in range(60)]
    assert disturbance.failed >= 3


def test_a_slow_store_costs_few_answers(s3: dict[str, Any], given: Callable[[bytes], Path]) -> None:
    """200 ms each: one for a put, and two for a read, which asks for the size first."""
    disturbance = Disturbance(seconds=0.2)
    with disturbed(s3, disturbance) as options:
        store = FileStore("s3://archive", lambda: options)
        store.has("warm-up")
        before, began = disturbance.requests, time.monotonic()
        store.put("slow", given(b"x"))
        assert store.read("slow") == b"x"
        assert disturbance.requests - before == 3 and 0.6 <= time.monotonic() - began < 2.5


class Broken(MemoryFileSystem):
    """A file system whose calls hang or fail."""

    protocol = "broken"
    error: Exception | None = None
    calls = 0

    def info(self, path: str, **kwargs: Any) -> Any:
        """Hang, or fail."""
        Broken.calls += 1
        if self.error is None:
            time.sleep(5)
        raise self.error or OSError


fsspec.register_implementation("broken", Broken, clobber=True)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> FileStore:
    """A store that hangs until a test gives it an error; its calls are counted."""
    monkeypatch.setattr(Broken, "error", None)
    monkeypatch.setattr(Broken, "calls", 0)
    monkeypatch.setattr(file_store, "_CALL_SECONDS", 0.2)
    monkeypatch.setattr(file_store, "_FIRST_CALL_SECONDS", 0.0)
    return FileStore("broken://bucket/prefix", lambda: {"token": SECRET})


def test_a_call_that_hangs_ends(broken: FileStore) -> None:
    """At its limit, once: a fence has no time for more."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="no answer within 0 s") as raised:
        broken.has(NAME)
    assert time.monotonic() - began < 2 and Broken.calls == 1 and raised.value.may_pass


def test_modules_that_load_slowly_are_no_store_that_hangs(
    broken: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take longer than the limit of a call; the store answers at once."""
    (tmp_path / "slow_to_load.py").write_text(
        "import time\ntime.sleep(1)\nfrom fsspec.implementations.memory import MemoryFileSystem\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    fsspec.register_implementation("slow", "slow_to_load.MemoryFileSystem", clobber=True)
    began = time.monotonic()
    assert not FileStore("slow://bucket/prefix").has(NAME)
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize(
    ("error", "calls", "may_pass"),
    [(OSError(f"https://key:{SECRET}@host"), 4, True), (PermissionError(SECRET), 1, False), (ValueError(), 1, False)],
    ids=["outage", "rights", "URI"],
)
def test_an_error_names_the_file_and_no_secret(
    broken: FileStore, monkeypatch: pytest.MonkeyPatch, error: Exception, calls: int, may_pass: bool
) -> None:
    """What may pass is repeated; what cannot pass is not."""
    monkeypatch.setattr(Broken, "error", error)
    with pytest.raises(StoreUnavailable) as raised:
        broken.has(NAME)
    text = str(raised.value)
    assert f"broken://bucket/prefix/{NAME}: {type(error).__name__}" in text and "`store` in the topology" in text
    assert SECRET not in text and (Broken.calls, raised.value.may_pass) == (calls, may_pass)


def test_a_connection_that_cannot_be_read_is_an_error_of_the_store(tmp_path: Path) -> None:
    """What goes on without the store goes on without its connection as well."""

    def options() -> dict[str, Any]:
        raise BadInput("Connection store is neither in the environment nor in a secrets backend")

    with pytest.raises(StoreUnavailable, match="Connection store is neither") as raised:
        FileStore("memory://x", options).has(NAME)
    assert not raised.value.may_pass


def test_a_missing_bucket_does_not_pass(s3: dict[str, Any], given: Callable[[bytes], Path]) -> None:
    """The topology is wrong."""
    with pytest.raises(StoreUnavailable) as raised:
        FileStore("s3://nosuch", lambda: s3).put(NAME, given(b"x"))
    assert not raised.value.may_pass


def test_a_forked_process_makes_its_own_client(s3: dict[str, Any], given: Callable[[bytes], Path]) -> None:
    """fsspec's client of the parent must not be used there."""
    store = FileStore("s3://archive", lambda: s3)
    store.put("forked", given(b"parent"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.put("forked", given(b"child"))
            code = 0 if store.read("forked") == b"child" else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("forked") == b"child"
