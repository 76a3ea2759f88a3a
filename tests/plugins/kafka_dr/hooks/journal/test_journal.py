"""Journal and leases on SQLite, and on a PostgreSQL server of the tests' own.

SWITCHBACK_TEST_POSTGRES may name an empty database of another server instead.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka_dr.errors import BadInput, Contradiction, LeaseLost, NotReady, Superseded, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import CoolDown
from sqlalchemy import create_engine, make_url, text

PAIR = "east|west"
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PLUGINS = str(Path(__file__).parents[5] / "plugins")
POSTGRES = os.environ.get("SWITCHBACK_TEST_POSTGRES")

APPENDER = """
import sys
sys.path.insert(0, sys.argv[1])
from kafka_dr.hooks.journal.journal import Journal
journal = Journal(sys.argv[2])
for number in range(int(sys.argv[4])):
    journal.append(sys.argv[3], "step", "note", 0, {"number": number})
"""
TAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from kafka_dr.errors import LeaseLost
from kafka_dr.hooks.journal.journal import Journal
try:
    print(Journal(sys.argv[2]).take_lease("east|west", sys.argv[3]))
except LeaseLost:
    print("lost")
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path: Path) -> str:
    """A fresh database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    if POSTGRES:
        with create_engine(make_url(POSTGRES).set(drivername="postgresql+psycopg")).begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS entries, leases, notices, signs_of_life, switchback_version"))
        return POSTGRES
    server = request.getfixturevalue("postgresql")
    return server.url(server.make_database())


@pytest.fixture
def journal(url: str) -> Journal:
    """A journal whose clock stands at noon."""
    return Journal(url, clock=lambda: NOON)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a SQLite journal lies, for tests that reach into it."""
    return tmp_path / "file.db"


def processes(script: str, url: str, names: list[str], *more: str) -> list[str]:
    """Run one process per name at once; returns what each printed."""
    command = [sys.executable, "-c", script, PLUGINS, url]
    running = [
        subprocess.Popen([*command, name, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in names
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * len(names), outputs
    return [out.strip() for out, _ in outputs]


def test_what_is_appended_is_read_back(journal: Journal, url: str) -> None:
    """Entries come back whole and in order, also through another connection."""
    first = journal.append("p1", "open_procedure", "intent", 1, {"a": [1, None, "é\n\x00"], "b": {"c": 1.5}})
    second = journal.append("p2", "open_procedure", "outcome", 2, None)
    assert Journal(url).entries() == [first, second]
    assert (first.sequence, second.sequence, second.previous_hash) == (1, 2, first.hash)
    assert first.at == NOON and first.payload == {"a": [1, None, "é\n\x00"], "b": {"c": 1.5}}
    assert journal.entries("p2") == [second] and journal.entries("p3") == []


def test_the_newest_of_a_kind_is_found(journal: Journal) -> None:
    """`last` looks at procedure, step and kind together."""
    journal.append("p1", "commit_groups", "intent", 1, 1)
    wanted = journal.append("p1", "commit_groups", "intent", 1, 2)
    journal.append("p1", "commit_groups", "outcome", 1, 3)
    journal.append("p2", "commit_groups", "intent", 1, 4)
    assert journal.last("p1", "commit_groups", "intent") == wanted
    assert journal.last("p1", "open_target", "intent") is None


def test_long_payloads_are_left_out_of_a_brief_reading(journal: Journal) -> None:
    """But not of entries that open or close a procedure; all else is as it was written."""
    long = {"plan": "x" * 30_000}
    journal.append("p1", "open_procedure", "opened", 1, long)
    journal.append("p1", "forecast", "outcome", 1, long)
    journal.append("p1", "forecast", "note", 1, {"a": "é"})
    journal.append("p2", "forecast", "note", 1, 1)
    opened, forecast, note = journal.brief_entries("p1")
    assert (opened, note) == (journal.entries("p1")[0], journal.entries("p1")[2])
    assert forecast == replace(journal.entries("p1")[1], payload={})


def test_the_newest_ends_come_with_their_beginnings(journal: Journal) -> None:
    """Of so many closings; a procedure that has not ended is left out."""
    for procedure in ("p1", "p2", "p3"):
        journal.append(procedure, "open_procedure", "opened", 1, procedure)
        journal.append(procedure, "forecast", "outcome", 1, procedure)
    for procedure in ("p2", "p1"):
        journal.append(procedure, "close_procedure", "closed", 1, procedure)
    found = [(entry.procedure_id, entry.kind) for entry in journal.ends(2)]
    assert found == [("p1", "opened"), ("p2", "opened"), ("p2", "closed"), ("p1", "closed")]
    assert [(entry.procedure_id, entry.kind) for entry in journal.ends(1)] == [("p1", "opened"), ("p1", "closed")]


def test_a_sound_chain_verifies(journal: Journal) -> None:
    """Empty and filled journals hold, with keys of any order and kind."""
    assert journal.verify() is None
    for payload in ({10: "x", 9: "y", "a": 1}, {"b": 1, "a": 2}, "ü", [1.0, 1e300]):
        journal.append("p", "s", "note", 0, payload)
    assert journal.verify() is None


CHANGED = {"payload": '{"n":99}', "procedure_id": "q", "step": "other", "kind": "outcome", "epoch": 9}
CHANGED |= {"at": "2026-11-20T13:00:00.000000+00:00", "previous_hash": "0" * 64, "hash": "f" * 64}


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        *((f"UPDATE entries SET {column} = {value!r} WHERE sequence = 3", 3) for column, value in CHANGED.items()),
        ("DELETE FROM entries WHERE sequence = 3", 3),
        ("DELETE FROM entries WHERE sequence = 1", 1),
        ("UPDATE entries SET sequence = 30 WHERE sequence = 5", 5),
        ("UPDATE entries SET payload = '1' WHERE sequence >= 2", 2),
    ],
)
def test_changed_missing_and_moved_entries_are_found(file: Path, statement: str, broken: int) -> None:
    """Any changed field, a gap, a new number, or several changes: the first broken place is named."""
    journal = Journal(f"sqlite:///{file}")
    for number in range(5):
        journal.append("p", "s", "note", 0, {"n": number})
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    assert journal.verify() == broken


@pytest.mark.parametrize("payload", [float("nan"), {1, 2}, b"x", object(), {"a": float("inf")}, {(1, 2): 3}])
def test_what_is_not_json_is_refused(journal: Journal, payload: object) -> None:
    """Nothing is written that could not be read back as it was."""
    with pytest.raises(BadInput, match="JSON"):
        journal.append("p", "s", "note", 0, payload)
    assert journal.entries() == []


@pytest.mark.parametrize("wrong", ["nul\0", "half \ud800", "long" * 100])
def test_names_that_one_of_the_databases_would_not_keep_are_refused(journal: Journal, wrong: str) -> None:
    """By both alike and before anything is touched: a NUL, half a surrogate pair, more characters than are kept."""
    journal.take_lease(PAIR, "p1", NOON)
    for act in (
        lambda: journal.append(wrong, "s", "note", 0, {}),
        lambda: journal.append("p", wrong, "note", 0, {}),
        lambda: journal.append("p", "s", wrong, 0, {}),
        lambda: journal.take_lease(wrong, "p", NOON),
        lambda: journal.take_lease("north|south", wrong, NOON),
        lambda: journal.release_lease(PAIR, "p1", 1, wrong),
        lambda: journal.pass_lease(PAIR, "p1", wrong, "continued", ("p1", "s", "note", {})),
        lambda: journal.pass_lease(PAIR, "p1", "p2", "continued", ("p1", "s", wrong, {})),
        lambda: journal.show_life(wrong),
    ):
        with pytest.raises(BadInput, match="cannot store"):
            act()
    journal.check_lease(PAIR, "p1", 1)
    assert journal.entries() == []


def test_the_longest_names_and_any_payload_are_kept(journal: Journal) -> None:
    """Counted in characters, whatever their bytes; in a payload NULs and half surrogate pairs are escaped."""
    wrote = journal.append("日" * 300, "é" * 100, "😀" * 50, 0, {"\0": "\ud800\0"})
    assert journal.entries("日" * 300) == [wrote] and journal.verify() is None


def test_processes_appending_at_once_never_fork_the_chain(url: str) -> None:
    """Three processes that open a new journal together and write 50 entries each leave one chain of 150."""
    processes(APPENDER, url, ["a", "b", "c"], "50")
    journal = Journal(url)
    assert journal.verify() is None
    entries = journal.entries()
    assert [entry.sequence for entry in entries] == list(range(1, 151))
    for name in "abc":
        assert [entry.payload["number"] for entry in entries if entry.procedure_id == name] == list(range(50))


def test_one_of_many_takes_the_lease(url: str) -> None:
    """Of four procedures that reach for a pair at once exactly one gets it, with epoch 1."""
    answers = processes(TAKER, url, [f"p{number}" for number in range(4)])
    assert sorted(answers) == ["1"] + ["lost"] * 3


def test_a_killed_writer_leaves_a_sound_journal(url: str) -> None:
    """After kill -9 in the middle of writing, what is there verifies and more can be written."""
    journal = Journal(url)
    process = subprocess.Popen([sys.executable, "-c", APPENDER, PLUGINS, url, "victim", "100000"])
    while len(journal.entries()) < 20:
        time.sleep(0.02)
    process.kill()
    process.wait()
    count = len(journal.entries())
    assert journal.append("next", "s", "note", 0, {}).sequence == count + 1
    assert journal.verify() is None


def test_a_held_pair_is_refused_by_name(journal: Journal) -> None:
    """The second procedure learns who holds the pair; another pair is free."""
    assert journal.take_lease(PAIR, "p1", NOON) == 1
    with pytest.raises(LeaseLost, match="p1 has held the lease since 2026-11-20T12:00"):
        journal.take_lease(PAIR, "p2", NOON)
    assert journal.take_lease("north|south", "p2", NOON) == 1


def test_the_holder_re_enters_with_its_epoch_or_renews_it(journal: Journal) -> None:
    """Re-entering keeps the epoch; renewing raises it and the older copy loses its own."""
    assert [journal.take_lease(PAIR, "p1", NOON) for _ in range(2)] == [1, 1]
    assert journal.take_lease(PAIR, "p1", NOON, renew=True) == 2
    assert journal.take_lease(PAIR, "p1", NOON) == 2
    journal.check_lease(PAIR, "p1", 2)
    with pytest.raises(Superseded, match="epoch 2"):
        journal.check_lease(PAIR, "p1", 1)


def test_check_refuses_everyone_else(journal: Journal) -> None:
    """Another holder, an epoch that never was, and a pair nobody held are all refused."""
    journal.take_lease(PAIR, "p1", NOON)
    for holder, epoch in (("p2", 1), ("p1", 2)):
        with pytest.raises(LeaseLost):
            journal.check_lease(PAIR, holder, epoch)
    with pytest.raises(Superseded):
        journal.check_lease(PAIR, "p1", 0)
    with pytest.raises(LeaseLost, match="no procedure ever held the lease"):
        journal.check_lease("x|y", "p1", 1)


def test_a_released_lease_is_over(journal: Journal) -> None:
    """After the release the old holder may not act, and may not come back under its name."""
    epoch = journal.take_lease(PAIR, "p1", NOON)
    journal.release_lease(PAIR, "p1", epoch, "completed")
    with pytest.raises(LeaseLost, match="outcome completed"):
        journal.check_lease(PAIR, "p1", epoch)
    with pytest.raises(LeaseLost, match="already ended"):
        journal.take_lease(PAIR, "p1", NOON)
    assert journal.take_lease(PAIR, "p2", NOON) == 2
    lease = journal.lease(PAIR)
    assert (lease.holder, lease.epoch, lease.released_at) == ("p2", 2, None)


def test_releasing_twice_is_harmless_but_outcomes_do_not_change(journal: Journal) -> None:
    """The same outcome again changes nothing; another one is a contradiction; a stranger cannot release."""
    epoch = journal.take_lease(PAIR, "p1", NOON)
    with pytest.raises(LeaseLost):
        journal.release_lease(PAIR, "p2", epoch, "completed")
    journal.release_lease(PAIR, "p1", epoch, "returned", NOON)
    journal.release_lease(PAIR, "p1", epoch, "returned", NOON + timedelta(hours=1))
    assert journal.lease(PAIR).released_at == NOON
    with pytest.raises(Contradiction, match="ended as returned, this process would end it as completed"):
        journal.release_lease(PAIR, "p1", epoch, "completed")


def test_holders_are_found_newest_first(journal: Journal) -> None:
    """Each once, however often it took a new epoch; those of another pair are left out."""
    assert journal.holders(PAIR) == []
    for holder in ("p1", "p2", "p3"):
        epoch = journal.take_lease(PAIR, holder, NOON)
        epoch = journal.take_lease(PAIR, holder, NOON, renew=True)
        journal.release_lease(PAIR, holder, epoch, "refused")
    journal.take_lease("other|pair", "p4", NOON)
    assert journal.holders(PAIR) == ["p3", "p2", "p1"]


def test_a_lease_is_passed_on_with_an_entry_that_says_so(journal: Journal) -> None:
    """Under the next epoch and at once, to and fro: the giver acts no more, no cool-down runs, and the chain holds."""
    journal.take_lease(PAIR, "p1", NOON)
    newest = journal.append("p1", "s", "note", 1, {})
    told_by = ("p1", "open", "note", {"by": "p2"})
    assert journal.pass_lease(PAIR, "p1", "p2", "continued", told_by, seen=newest.sequence) == 2
    lease, told = journal.lease(PAIR), journal.last("p1", "open", "note")
    assert (lease.holder, lease.epoch, lease.released_at) == ("p2", 2, None)
    assert (told.payload, told.epoch) == ({"by": "p2"}, 2)
    with pytest.raises(LeaseLost):
        journal.append("p1", "s", "note", 1, {})
    with pytest.raises(LeaseLost):
        journal.check_lease(PAIR, "p1", 1)
    assert journal.pass_lease(PAIR, "p2", "p1", "returned", ("p1", "open", "note", {"by": None})) == 3
    journal.check_lease(PAIR, "p1", 3)
    journal.append("p1", "s", "note", 3, {})
    assert journal.verify() is None and journal.take_lease(PAIR, "p1", NOON, cool_down_seconds=600, renew=True) == 4


def test_only_a_lease_that_is_held_is_passed_on(journal: Journal) -> None:
    """Not somebody else's, not one that was released, not one whose holder wrote meanwhile; then nothing is written."""
    told = ("p1", "open", "note", {})
    for before in (
        lambda: None,
        lambda: journal.take_lease(PAIR, "p2", NOON),
        lambda: journal.release_lease(PAIR, "p2", 1, "completed"),
    ):
        before()
        with pytest.raises(LeaseLost):
            journal.pass_lease(PAIR, "p1", "p3", "continued", told)
    journal.take_lease(PAIR, "p1", NOON)
    seen = journal.append("p1", "s", "note", 2, {}).sequence
    journal.append("p1", "s", "intent", 2, {})
    with pytest.raises(LeaseLost, match="p1 is still at work.*p1's step s wrote to the journal"):
        journal.pass_lease(PAIR, "p1", "p3", "continued", told, seen=seen)
    assert journal.lease(PAIR).holder == "p1" and len(journal.entries()) == 2


def test_a_cool_down_says_what_ended_and_how_long_it_lasts(journal: Journal) -> None:
    """The refusal says who ended when and the time left; when that is over the pair is free."""
    epoch = journal.take_lease(PAIR, "p1", NOON)
    journal.release_lease(PAIR, "p1", epoch, "completed", NOON)
    ended = r"p1 ended as completed at 2026-11-20T12:00:00.*the cool-down ends at 2026-11-20T12:10:00\S*, in"
    for later, left in ((0, 600), (359.2, 241), (599, 1)):
        with pytest.raises(NotReady, match=rf"{ended} {left} s"):
            journal.take_lease(PAIR, "p2", NOON + timedelta(seconds=later), cool_down_seconds=600)
    assert journal.take_lease(PAIR, "p2", NOON + timedelta(seconds=600), cool_down_seconds=600) == 2


@pytest.mark.parametrize("end", ["refused", "renewed", "continued"])
def test_what_touched_nothing_ends_no_cool_down(journal: Journal, end: str) -> None:
    """A run that was refused, or gave the pair on to one that was, leaves the earlier cool-down running."""
    journal.release_lease(PAIR, "p1", journal.take_lease(PAIR, "p1", NOON), "returned", NOON)
    soon = NOON + timedelta(seconds=60)
    epoch = journal.take_lease(PAIR, "p2", soon)
    if end == "renewed":
        epoch = journal.take_lease(PAIR, "p2", soon, renew=True)
    if end == "continued":
        epoch = journal.pass_lease(PAIR, "p2", "p3", end, ("p2", "open", "note", {}), now=soon)
    journal.release_lease(PAIR, "p3" if end == "continued" else "p2", epoch, "refused", soon)
    with pytest.raises(NotReady, match="p1 ended as returned at .*, in 480 s"):
        journal.take_lease(PAIR, "p4", NOON + timedelta(seconds=120), cool_down_seconds=600)
    assert journal.take_lease(PAIR, "p4", NOON + timedelta(seconds=600), cool_down_seconds=600) == epoch + 1


def test_refusals_alone_leave_no_cool_down(journal: Journal) -> None:
    """Nothing was ever touched: a new run can start at once."""
    journal.release_lease(PAIR, "p1", journal.take_lease(PAIR, "p1", NOON), "refused", NOON)
    assert journal.take_lease(PAIR, "p2", NOON, cool_down_seconds=600) == 2


def test_the_cool_down_that_was_not_waited_for_is_known_afterwards(journal: Journal) -> None:
    """By the leases, whatever became of them since: of the end before the first one that the procedure took."""
    assert journal.cool_down(PAIR, "p1", 600) is None
    journal.release_lease(PAIR, "p1", journal.take_lease(PAIR, "p1", NOON), "completed", NOON)
    journal.take_lease(PAIR, "p2", NOON + timedelta(seconds=60))
    found = CoolDown("p1", "completed", NOON, NOON + timedelta(seconds=600))
    assert journal.cool_down(PAIR, "p2", 600) == found
    epoch = journal.take_lease(PAIR, "p2", NOON + timedelta(hours=1), renew=True)
    journal.release_lease(PAIR, "p2", epoch, "returned", NOON + timedelta(hours=1))
    assert journal.cool_down(PAIR, "p2", 600) == found
    assert journal.cool_down(PAIR, "p2", 60) is None and journal.cool_down(PAIR, "p1", 600) is None
    assert journal.cool_down("a+b", "p2", 600) is None


def test_an_older_epoch_writes_nothing(journal: Journal) -> None:
    """A copy of a step that lost its epoch cannot write to the journal, whether it was renewed or taken over."""
    journal.take_lease(PAIR, "p1", NOON)
    journal.append("p1", "s", "intent", 1, {})
    journal.take_lease(PAIR, "p1", NOON, renew=True)
    with pytest.raises(Superseded, match="this process has 1"):
        journal.append("p1", "s", "outcome", 1, {})
    journal.append("p1", "s", "outcome", 2, {})
    journal.release_lease(PAIR, "p1", 2, "failed")
    journal.append("p1", "close_procedure", "closed", 2, {})
    journal.take_lease(PAIR, "p2", NOON)
    with pytest.raises(LeaseLost, match="taken by p2"):
        journal.append("p1", "s", "note", 2, {})
    assert len(journal.entries()) == 3


def test_the_newest_sign_of_life_is_kept_and_is_no_entry(url: str) -> None:
    """By name; whoever never showed any has none, and the chain does not grow."""
    now = [NOON]
    journal = Journal(url, clock=lambda: now[0])
    assert journal.last_sign("watcher") is None
    for minutes in (0, 1):
        now[0] = NOON + timedelta(minutes=minutes)
        journal.show_life("watcher")
    found = (Journal(url).last_sign("watcher"), journal.last_sign("other"), journal.entries())
    assert found == (NOON + timedelta(minutes=1), None, [])


def test_times_without_zone_are_refused(journal: Journal) -> None:
    """A local time of unknown zone never enters the journal."""
    with pytest.raises(BadInput, match="zone"):
        journal.take_lease(PAIR, "p1", datetime(2026, 1, 1))  # noqa: DTZ001 (that is refused)


def test_a_full_disk_is_an_error_that_says_so(file: Path, monkeypatch) -> None:
    """When the database cannot grow, append raises and leaves a sound chain; with room again it goes on."""
    journal = Journal(f"sqlite:///{file}")
    journal.append("p", "s", "note", 0, {})
    from sqlalchemy import event

    def small(connection, _record) -> None:
        connection.execute("PRAGMA max_page_count = 12")

    event.listen(journal._database.engine, "connect", small)
    with pytest.raises(SystemUnavailable, match="not writable.*full.*without the journal no step acts"):
        for _ in range(100):
            journal.append("p", "s", "note", 0, "x" * 4000)
    event.remove(journal._database.engine, "connect", small)
    assert journal.verify() is None
    journal.append("p", "s", "note", 0, "x" * 4000)


def test_a_read_only_journal_can_be_read_but_not_written(file: Path) -> None:
    """Reading works, writing raises, nothing is pretended."""
    Journal(f"sqlite:///{file}").append("p", "s", "note", 0, {})
    read_only = Journal(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert len(read_only.entries()) == 1
    for act in (lambda: read_only.append("p", "s", "note", 0, {}), lambda: read_only.take_lease(PAIR, "p", NOON)):
        with pytest.raises(SystemUnavailable, match="not writable.*readonly"):
            act()


def test_a_journal_that_vanishes_is_not_created_anew(file: Path) -> None:
    """A process that has it open, and reads and writes on: an empty journal would look like one without procedures."""
    opened = Journal(f"sqlite:///{file}")
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    for use in (opened.entries, lambda: opened.append("p", "s", "note", 0, {})):
        with pytest.raises(SystemUnavailable, match="unable to open database file"):
            use()
    assert not file.exists()


def test_a_locked_journal_ends_in_time(file: Path) -> None:
    """A writer that holds the lock for ever does not hold us for ever."""
    journal = Journal(f"sqlite:///{file}", lock_seconds=0.5)
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(SystemUnavailable, match="locked"):
            journal.append("p", "s", "note", 0, {})
        assert time.monotonic() - began < 5
        other.execute("ROLLBACK")
    assert journal.append("p", "s", "note", 0, {}).sequence == 1


@pytest.mark.parametrize("garbage", [b"not a database at all, but long enough to be read as one" * 20, b""])
def test_a_file_that_is_no_database_is_named(file: Path, garbage: bytes) -> None:
    """Garbage is an error, an empty file is a new journal."""
    file.write_bytes(garbage)
    if garbage:
        with pytest.raises(SystemUnavailable, match="not a database"):
            Journal(f"sqlite:///{file}")
    else:
        assert Journal(f"sqlite:///{file}").entries() == []


def test_addresses_that_cannot_be_used_are_named_without_secrets() -> None:
    """No folder, no driver, no URL: each an error, none shows the password."""
    with pytest.raises(SystemUnavailable, match="unable to open"):
        Journal("sqlite:////no/such/folder/journal.db")
    with pytest.raises(BadInput):
        Journal("hunter2")
    with pytest.raises(SystemUnavailable) as refused:
        Journal("postgresql+nodriver://me:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(refused.value) + repr(refused.value.__cause__) + repr(refused.value.__context__)


def test_sqlite_is_durable(file: Path) -> None:
    """The file is in WAL mode and every connection syncs fully."""
    journal = Journal(f"sqlite:///{file}")
    with journal._database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
