"""Client routing by file and by HTTP."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from kafka_dr.errors import BadInput, HookUnavailable, ReadBackFailed
from kafka_dr.hooks.site.routing import ClientRoute, FileRouting, HttpRouting

FIRST = {"cluster": "east", "bootstrap_servers": "e:9092", "version": 4, "owner": "team-x"}
WEST = ClientRoute("west", "w1:9092,w2:9092")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A routing record as someone else wrote it."""
    path = tmp_path / "routing.json"
    path.write_text(json.dumps(FIRST))
    return path


def test_the_file_is_read(record: Path) -> None:
    """What a client sees is what the file says."""
    assert FileRouting(record).current() == ClientRoute("east", "e:9092", 4)


def test_a_redirect_changes_target_and_version_only(record: Path) -> None:
    """The version grows by one, unknown fields stay, and what is returned was read back."""
    done = FileRouting(record).redirect(WEST)
    assert done.changed and done.seen == ClientRoute("west", "w1:9092,w2:9092", 5)
    found = json.loads(record.read_text())
    assert found == {**FIRST, "cluster": "west", "bootstrap_servers": "w1:9092,w2:9092", "version": 5}


def test_the_same_target_twice_changes_nothing(record: Path) -> None:
    """The second redirect leaves file and version alone."""
    FileRouting(record).redirect(WEST)
    before = record.stat().st_mtime_ns, record.read_bytes()
    again = FileRouting(record).redirect(WEST)
    assert not again.changed and again.seen.version == 5
    assert (record.stat().st_mtime_ns, record.read_bytes()) == before


def test_a_missing_record_is_an_error_to_read_and_made_by_a_redirect(tmp_path: Path) -> None:
    """Without a file there is no route; the first redirect writes version 1."""
    routing = FileRouting(tmp_path / "routing.json")
    with pytest.raises(HookUnavailable, match="no routing record"):
        routing.current()
    assert routing.redirect(WEST).seen.version == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"cluster": "east"}',
        b'{"cluster": 1, "bootstrap_servers": "x", "version": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_broken_record_is_named_and_not_overwritten(record: Path, content: bytes) -> None:
    """A record that cannot be understood stops the redirect; a person repairs it."""
    record.write_bytes(content)
    for act in (FileRouting(record).current, lambda: FileRouting(record).redirect(WEST)):
        with pytest.raises(HookUnavailable, match="routing record cannot be read"):
            act()
    assert record.read_bytes() == content


def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """A redirect that cannot be written is reported, not half done."""
    with pytest.raises(HookUnavailable, match="cannot be written"):
        FileRouting(tmp_path / "missing" / "routing.json").redirect(WEST)
    target = tmp_path / "routing.json"
    target.mkdir()
    with pytest.raises(HookUnavailable):
        FileRouting(target).redirect(WEST)
    assert [path.name for path in tmp_path.iterdir()] == ["routing.json"]


def test_mode_and_neighbours_survive(record: Path) -> None:
    """The file's permissions stay and no file is left beside it."""
    record.chmod(0o640)
    FileRouting(record).redirect(WEST)
    assert record.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in record.parent.iterdir()] == ["routing.json"]


def test_readers_never_see_half_a_record_and_no_version_is_lost(record: Path) -> None:
    """While several writers take turns, every read is a whole record and every change counts."""
    torn: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                FileRouting(record).current()
            except HookUnavailable as error:
                torn.append(error)

    def write(name: str) -> None:
        for number in range(20):
            FileRouting(record).redirect(ClientRoute(name, f"{number}:1"))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert torn == []
    assert FileRouting(record).current().version == 4 + 60


@pytest.mark.parametrize("route", [ClientRoute("", "x:1"), ClientRoute("west", "")])
def test_an_empty_route_is_refused(record: Path, route: ClientRoute) -> None:
    """Clients are never sent nowhere."""
    with pytest.raises(BadInput):
        FileRouting(record).redirect(route)
    assert json.loads(record.read_text()) == FIRST


def keeping(server, reply, start: dict | None) -> dict:
    """Make the server keep a record; returns where it keeps it."""
    kept = {"document": start}

    def answer(request):
        if request.method == "PUT":
            kept["document"] = request.body
        return reply(200, kept["document"]) if kept["document"] is not None else reply(404, {"detail": "none"})

    server.answer = answer
    return kept


def test_http_redirect_keeps_unknown_fields_and_reads_back(server, reply) -> None:
    """The whole record is replaced by PUT, and what is returned came from a GET after it."""
    keeping(server, reply, FIRST)
    done = HttpRouting(server.url).redirect(WEST)
    assert done.changed and done.seen.version == 5
    found = server.sent("PUT")[0].body
    assert found == {**FIRST, "cluster": "west", "bootstrap_servers": "w1:9092,w2:9092", "version": 5}
    assert [r.method for r in server.requests] == ["GET", "PUT", "GET"]
    assert not HttpRouting(server.url).redirect(WEST).changed
    assert len(server.sent("PUT")) == 1


def test_http_first_record_is_version_1(server, reply) -> None:
    """Where the service has no record yet, the first has version 1."""
    keeping(server, reply, None)
    assert HttpRouting(server.url).redirect(WEST).seen.version == 1


def test_a_put_that_is_not_kept_fails_the_read_back(server, reply) -> None:
    """A service that answers 200 and changes nothing is found out."""
    server.answer = lambda request: reply(200, FIRST)
    with pytest.raises(ReadBackFailed, match="east"):
        HttpRouting(server.url).redirect(WEST)


def test_a_put_without_answer_counts_if_it_is_read_back(server, reply) -> None:
    """After a timed-out write the record itself decides."""
    kept = keeping(server, reply, FIRST)
    plain = server.answer

    def slow_put(request):
        answer = plain(request)
        return reply(200, kept["document"], seconds=30) if request.method == "PUT" else answer

    server.answer = slow_put
    assert HttpRouting(server.url).redirect(WEST, timeout=0.5).seen.cluster == "west"


def test_a_refused_put_is_an_error(server, reply) -> None:
    """A 403 to the write is reported and nothing is claimed."""
    server.answer = lambda request: reply(200, FIRST) if request.method == "GET" else reply(403, {"detail": "no"})
    with pytest.raises(HookUnavailable, match="403"):
        HttpRouting(server.url).redirect(WEST)
