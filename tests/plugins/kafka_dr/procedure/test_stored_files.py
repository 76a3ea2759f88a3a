"""With a store, every machine reads what any machine wrote; a store that is away stops nothing behind the fence."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kafka_dr.errors import Contradiction, StoreUnavailable
from kafka_dr.hooks.file_store import FileStore
from kafka_dr.procedure.artifacts import Artifacts
from kafka_dr.procedure.stored_files import StoredFiles

from tests.support.stores.object_store import object_store

FRAME = pd.DataFrame({"topic": ["orders"], "partition": [0], "offset": [42]})
RUN = "planned_failover-r1"


class Switched(FileStore):
    """A store that can be away.

    Attributes:
        away: whether it is.
        calls: names of the files that were put or read while it was away.
    """

    def __init__(self, uri: str, options: Callable[[], Any] = dict) -> None:
        super().__init__(uri, options)
        self.away, self.calls = False, list[str]()

    def _repeat(self, what: str, name: str, seconds: float, call: Any) -> Any:
        if self.away:
            self.calls.append(name)
            raise StoreUnavailable("away", may_pass=True)
        return super()._repeat(what, name, seconds, call)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """The options with which an S3 server is reached."""
    with object_store() as options:
        yield options


@pytest.fixture
def store(s3: dict[str, Any]) -> Switched:
    """A bucket."""
    return Switched(f"s3://archive/{uuid.uuid4().hex}", lambda: s3)


@pytest.fixture
def machine(tmp_path: Path, store: Switched) -> Callable[..., Artifacts]:
    """Gives the files of a run on one machine."""

    def at(name: str, fenced: bool = False) -> Artifacts:
        folder = tmp_path / name
        return Artifacts(folder / RUN, StoredFiles(folder, store), lambda: fenced)

    return at


def test_another_machine_reads_what_one_wrote(machine: Callable[..., Artifacts]) -> None:
    """Frames and objects, by their receipts; the second time from its own disk."""
    written = machine("a").save("cut_off", FRAME), machine("a").save_json("plan", {"groups": ["billing"]})
    other = machine("b")
    for _ in range(2):
        pd.testing.assert_frame_equal(other.load(written[0]), FRAME)
        assert other.load_json(written[1]) == {"groups": ["billing"]}
    assert (other.folder / written[0].file).stat().st_mode & 0o777 == 0o600


def test_what_a_machine_has_it_reads_without_the_store(machine: Callable[..., Artifacts], store: Switched) -> None:
    """The store is not even asked."""
    artifacts = machine("a")
    receipt = artifacts.save("cut_off", FRAME)
    store.away = True
    pd.testing.assert_frame_equal(artifacts.load(receipt), FRAME)
    assert store.calls == []


def test_before_the_fence_a_store_that_is_away_refuses(machine: Callable[..., Artifacts], store: Switched) -> None:
    """By an error that may pass, so that the step repeats it; the file stays on this machine, and goes out later."""
    artifacts = machine("a")
    store.away = True
    with pytest.raises(StoreUnavailable) as raised:
        artifacts.save("cut_off", FRAME)
    assert raised.value.may_pass
    (name,) = artifacts.files.not_stored()
    store.away = False
    artifacts.save("boundary", FRAME.assign(offset=43))
    assert artifacts.files.not_stored() == [] and store.has(name)


def test_behind_the_fence_it_stops_nothing(machine: Callable[..., Artifacts], store: Switched) -> None:
    """The same machine goes on with its files, does not ask the store for each of them, and loses none."""
    artifacts, before = machine("a", fenced=True), machine("b")
    store.away = True
    receipts = [artifacts.save("cut_off", FRAME.assign(offset=number)) for number in range(3)]
    assert [artifacts.load(receipt)["offset"][0] for receipt in receipts] == [0, 1, 2]
    assert len(store.calls) == 1 and len(artifacts.files.not_stored()) == 3
    with pytest.raises(StoreUnavailable):
        before.load(receipts[0])
    store.away = False
    machine("a", fenced=True).save("boundary", FRAME)
    assert machine("a").files.not_stored() == []
    assert [before.load(receipt)["offset"][0] for receipt in receipts] == [0, 1, 2]


def test_a_killed_process_leaves_a_note(
    machine: Callable[..., Artifacts], store: Switched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was written, and the process died while it was put: the next one puts it."""
    artifacts = machine("a")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(store, "put", killed)
        artifacts.save("cut_off", FRAME)
    (name,) = artifacts.files.not_stored()
    machine("a").save("boundary", FRAME)
    assert store.has(name) and artifacts.files.not_stored() == []


def test_what_the_store_has_must_be_what_was_written(
    machine: Callable[..., Artifacts], store: Switched, tmp_path: Path
) -> None:
    """Another content is refused, and not kept; so is a file that is nowhere. The text names the store."""
    receipt = machine("a").save("cut_off", FRAME)
    (tmp_path / "other").write_bytes(b"other")
    store.put(f"{RUN}/{receipt.file}", tmp_path / "other")
    with pytest.raises(Contradiction, match="the SHA-256 of the file begins with d9298a10d1b0, not with"):
        machine("b").load(receipt)
    assert not (machine("b").folder / receipt.file).exists()
    with pytest.raises(Contradiction, match=f"missing here and in {store.uri}"):
        machine("b").load({"file": "boundary-0.parquet", "sha256": "0"})


def test_a_changed_local_file_is_refused(machine: Callable[..., Artifacts]) -> None:
    """It is not silently replaced by the store's: somebody changed it."""
    artifacts = machine("a")
    receipt = artifacts.save("cut_off", FRAME)
    (artifacts.folder / receipt.file).write_bytes(b"changed")
    with pytest.raises(Contradiction, match="is not the file that was written"):
        artifacts.load(receipt)


def test_a_folder_is_read_elsewhere(machine: Callable[..., Artifacts], store: Switched) -> None:
    """With all its files, as the input of a Spark job; a file that was changed in the store is refused."""
    artifacts, other = machine("a"), machine("b")
    folder = artifacts.folder / "translate_offsets-3.input"
    (folder / "part").mkdir(parents=True)
    for name in ("job.json", "part/0.parquet"):
        (folder / name).write_text(name)
    receipt = artifacts.receipt_of(folder)
    found = other.find_folder(receipt)
    assert found == other.folder / "translate_offsets-3.input"
    assert [(found / name).read_text() for name in ("job.json", "part/0.parquet")] == ["job.json", "part/0.parquet"]
    store.put(f"{RUN}/translate_offsets-3.input/job.json", folder / "part/0.parquet")
    with pytest.raises(Contradiction, match=r"job\.json is not the file that was written"):
        machine("c").find_folder(receipt)
    with pytest.raises(Contradiction, match="is missing here"):
        machine("c").find_folder(receipt.__class__("assess-1.input", receipt.sha256))


def test_without_a_store_nothing_is_noted(tmp_path: Path) -> None:
    """All machines mount the folder, as the error says."""
    artifacts = Artifacts(tmp_path / RUN)
    receipt = artifacts.save("cut_off", FRAME)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [receipt.file]
    (artifacts.folder / receipt.file).unlink()
    with pytest.raises(Contradiction, match="mounts the same evidence folder"):
        artifacts.load(receipt)


def test_a_document_is_the_newest_that_any_machine_wrote(
    machine: Callable[..., Artifacts], store: Switched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced as a whole; a page that asks again at once gets the copy."""
    written, read = machine("a").files, machine("b").files
    ours, copy = written.folder / "readiness/a-to-b.json", read.folder / "readiness/a-to-b.json"
    ours.parent.mkdir(parents=True)
    assert read.refresh(copy) == "" and not copy.exists()
    for text in ("old", "new"):
        ours.write_text(text)
        assert written.put_if_possible(ours) == ""
        monkeypatch.setattr(read, "_asked", {})
        assert read.refresh(copy) == "" and copy.read_text() == text
    ours.write_text("newest")
    written.put(ours)
    assert read.refresh(copy) == "" and copy.read_text() == "new"
    assert copy.stat().st_mode & 0o777 == 0o600


def test_without_the_store_a_document_is_as_old_as_its_copy(machine: Callable[..., Artifacts], store: Switched) -> None:
    """The reader is told how old; one that this machine wrote and could not store yet is the newest."""
    written, read = machine("a").files, machine("b").files
    ours, copy = written.folder / "evidence.json", read.folder / "evidence.json"
    ours.parent.mkdir(parents=True)
    copy.parent.mkdir(parents=True)
    ours.write_text("old")
    written.put(ours)
    store.away = True
    assert "this machine has no copy of evidence.json: away" in read.refresh(copy)
    copy.write_text("old")
    assert read.refresh(copy).startswith("this machine has no copy"), "it has just been asked"
    assert "evidence.json is the copy of this machine, of 20" in machine("b").files.refresh(copy)
    ours.write_text("new")
    assert "away" in written.put_if_possible(ours)
    store.away = False
    assert written.refresh(ours) == "" and ours.read_text() == "new"
