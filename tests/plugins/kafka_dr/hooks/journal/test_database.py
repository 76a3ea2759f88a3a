"""The journal on a real PostgreSQL server that is busy, read-only, silent, restrictive, or set up otherwise."""

from __future__ import annotations

import logging
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka_dr.errors import BadInput, DeadlinePassed, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.hooks.journal.postgresql import TURN

from tests.support.postgresql import ROOT, Server, running_server

PAIR = "east|west"
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TABLES = ("entries", "leases", "notices", "signs_of_life")


@pytest.fixture
def turn_taken(postgresql: Server, url: str, database: str) -> Iterator[int]:
    """Another writer has the turn and does not end; gives its process's id."""
    Journal(url)
    with taking_turn(postgresql, database) as pid:
        yield pid


@contextmanager
def taking_turn(server: Server, database: str) -> Iterator[int]:
    """Hold the turn in a session of our own."""
    with closing(server.connect(database)) as connection:
        connection.execute("SET application_name = 'the other writer'")
        connection.execute("BEGIN")
        connection.execute(f"SELECT pg_advisory_xact_lock({TURN})")
        yield connection.info.backend_pid


@pytest.fixture
def standby(postgresql: Server) -> Iterator[Server]:
    """A hot standby of the server."""
    with running_server(standby_of=postgresql) as server:
        yield server


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is inside lasts no longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def note(journal: Journal, payload: Any = None) -> Any:
    """Append any entry."""
    return journal.append("p", "s", "note", 0, payload)


def sessions(server: Server, database: str) -> list[Any]:
    """Open sessions of a database, but our own."""
    return server.execute(
        "SELECT pid, state, wait_event, query FROM pg_stat_activity"
        f" WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )


def wait_for(look: Callable[[], Any], seconds: float = 20) -> Any:
    """What a look shows, once it shows anything."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return seen


# Writers take turns.


def test_many_writers_at_once_all_write(url: str) -> None:
    """Twelve writers with little patience leave one chain; none runs out of tries."""

    def write(number: int) -> None:
        journal = Journal(url, lock_seconds=10)
        for _ in range(15):
            note(journal, number)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(write, range(12)))
    journal = Journal(url)
    assert journal.verify() is None and len(journal.entries()) == 180


def test_who_has_the_turn_is_named(postgresql: Server, url: str, turn_taken: int) -> None:
    """A writer that waits in vain says for whom, and the process to look at; reading goes on."""
    journal = Journal(url, lock_seconds=0.5)
    with within(15), pytest.raises(SystemUnavailable) as refused:
        note(journal)
    told = str(refused.value)
    assert "not writable" in told and "0.5 s" in told
    assert (
        "the other writer" in told and f"process {turn_taken}" in told and f"pg_terminate_backend({turn_taken})" in told
    )
    assert journal.entries() == []


def test_many_make_the_tables_at_once(url: str) -> None:
    """Of ten that open a new journal together none fails."""
    gate = threading.Barrier(10)

    def open_it(_: int) -> None:
        gate.wait()
        note(Journal(url))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(open_it, range(10)))
    assert len(Journal(url).entries()) == 10


def test_a_writer_that_stands_still_loses_its_turn(postgresql: Server, url: str, database: str) -> None:
    """Frozen within its transaction: others get their turn in time, and it has written nothing when it thaws."""
    frozen, thawed = threading.Event(), threading.Event()

    def stand_still() -> datetime:
        frozen.set()
        assert thawed.wait(30)
        return NOON

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(note, Journal(url, clock=stand_still, lock_seconds=6), "late")
        assert frozen.wait(10)
        assert note(Journal(url, lock_seconds=6)).sequence == 1
        thawed.set()
        with pytest.raises(SystemUnavailable, match="not writable"):
            late.result()
    assert [entry.payload for entry in Journal(url).entries()] == [None]


# Interrupted.


@contextmanager
def interrupted_after(seconds: float, again: float) -> Iterator[None]:
    """As the fence's clock interrupts a step, by an error that a signal's handler raises."""

    def interrupt(*_: Any) -> None:
        raise DeadlinePassed("time is over")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("again", [0, 0.2])
def test_an_interrupt_ends_the_wait_for_the_turn(
    postgresql: Server, url: str, database: str, turn_taken: int, again: float
) -> None:
    """At once and as itself, also when it strikes again; no transaction stays, nothing is written."""
    journal = Journal(url)
    with within(8), pytest.raises(DeadlinePassed), interrupted_after(0.5, again):
        note(journal)
    postgresql.execute(f"SELECT pg_terminate_backend({turn_taken})")
    wait_for(lambda: not sessions(postgresql, database))
    assert journal.entries() == [] and note(journal).sequence == 1


def test_an_interrupt_ends_reading(postgresql: Server, url: str, database: str) -> None:
    """A read that a lock on the table holds up ends at once, too."""
    journal = Journal(url)
    with postgresql.connect(database) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE entries IN ACCESS EXCLUSIVE MODE")
        with within(8), pytest.raises(DeadlinePassed), interrupted_after(0.5, 0.2):
            journal.entries()
        other.execute("ROLLBACK")
    wait_for(lambda: not sessions(postgresql, database))


# On disk, or unknown.


@pytest.mark.parametrize(
    ("configured", "used"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_commits_are_synchronous(postgresql: Server, url: str, database: str, configured: str, used: str) -> None:
    """Whatever the database sets, a commit waits for disk and standby; a stricter setting stays."""
    postgresql.execute(f"ALTER DATABASE {database} SET synchronous_commit = {configured}")
    journal = Journal(url)
    postgresql.execute(
        "CREATE TABLE seen (value text)",
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$",
        "CREATE TRIGGER see AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION see()",
        database=database,
    )  # fmt: skip
    note(journal)
    assert postgresql.execute("SELECT value FROM seen", database=database) == [(used,)]


@pytest.fixture
def no_standby_answers(postgresql: Server) -> Iterator[None]:
    """Every commit waits for a synchronous standby that does not exist."""
    postgresql.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        wait_for(lambda: commit_waits(postgresql))
        yield
    finally:
        forget_standby(postgresql)


def commit_waits(server: Server) -> bool:
    """Whether a commit waits for a standby; the setting counts a little after it was made."""
    with closing(server.connect()) as probe:
        probe.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'a', 'b')")
        pid = probe.info.backend_pid
        look = f"SELECT state, wait_event FROM pg_stat_activity WHERE pid = {pid}"
        while (seen := server.execute(look)[0]) != ("idle", "ClientRead"):
            if seen[1] == "SyncRep":
                return server.execute(f"SELECT pg_cancel_backend({pid})") is not None
    return False


def forget_standby(server: Server) -> None:
    """Commits wait no longer; those that wait are done."""
    server.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def committing(server: Server, database: str) -> int:
    """The process that waits for the standby in its commit."""
    return wait_for(lambda: [pid for pid, _, event, _ in sessions(server, database) if event == "SyncRep"])[0]


@pytest.mark.parametrize("end", ["terminate", "cancel", "silence"])
def test_a_commit_of_unknown_outcome_is_said_and_not_repeated(
    postgresql: Server, url: str, database: str, little_patience: None, request: pytest.FixtureRequest, end: str
) -> None:
    """Connection lost, wait for the standby cancelled, or no answer in time: unknown, and it stands once."""
    journal = Journal(url, lock_seconds=3 if end == "silence" else 20)
    request.getfixturevalue("no_standby_answers")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(note, journal)
        pid = committing(postgresql, database)
        if end in ("terminate", "cancel"):
            postgresql.execute(f"SELECT pg_{end}_backend({pid})")
        with within(15), pytest.raises(SystemUnavailable, match="unknown whether.*was written"):
            written.result()
    forget_standby(postgresql)
    wait_for(lambda: not sessions(postgresql, database))
    assert [entry.sequence for entry in journal.entries()] == [1]
    assert note(journal).sequence == 2 and journal.verify() is None


def test_an_interrupt_ends_a_commit(
    postgresql: Server, url: str, database: str, request: pytest.FixtureRequest
) -> None:
    """As itself; what was written by then stands once."""
    journal = Journal(url)
    request.getfixturevalue("no_standby_answers")
    with within(8), pytest.raises(DeadlinePassed), interrupted_after(1, 0.2):
        note(journal)
    forget_standby(postgresql)
    wait_for(lambda: not sessions(postgresql, database))
    assert len(journal.entries()) == 1 and journal.verify() is None


# Read-only servers.


def test_a_standby_is_no_journal(postgresql: Server, url: str, database: str, standby: Server) -> None:
    """It may be behind: neither written nor read there; of several servers the one that takes writes is used."""
    journal = Journal(url)
    note(journal)
    wait_for(lambda: standby.execute(f"SELECT 1 FROM pg_database WHERE datname = '{database}'"))
    wait_for(lambda: standby.execute("SELECT 1 FROM pg_tables WHERE tablename = 'entries'", database=database))
    with pytest.raises(SystemUnavailable, match="read-only"):
        Journal(standby.url(database)).entries()
    several = f"postgresql+psycopg://postgres@/{database}?host={standby.folder},{postgresql.folder}"
    both = Journal(several)
    assert len(both.entries()) == 1 and note(both).sequence == 2
    assert postgresql.folder.name in repr(both) and standby.folder.name in repr(both)


def test_a_server_set_read_only_is_no_journal(postgresql: Server, url: str, database: str) -> None:
    """As servers are set before they are replaced: refused for reading, too."""
    journal = Journal(url)
    note(journal)
    postgresql.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    for act in (journal.entries, lambda: note(journal), lambda: Journal(url)):
        with pytest.raises(SystemUnavailable, match="read-only"):
            act()


# Servers that do not answer.


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's answer is waited for not much longer than a turn."""
    monkeypatch.setattr("kafka_dr.hooks.journal.postgresql._WORK_SECONDS", 2)


class Proxy:
    """A way over TCP to a server, on which all, or what follows a word, may get lost."""

    def __init__(self, server: Server) -> None:
        self._server, self._listening = server, socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.silent, self.drops_request, self.drops_answer = False, b"", b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, closing(socket.socket(socket.AF_UNIX)) as server:
            server.connect(str(self._server.folder / ".s.PGSQL.5432"))
            while ready := select.select([client, server], [], [])[0]:
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    self._pass_on(data, one is client, server if one is client else client)

    def _pass_on(self, data: bytes, asked: bool, to: socket.socket) -> None:
        if asked and self.drops_request and self.drops_request in data:
            self.silent = True
        if not self.silent:
            to.sendall(data)
        if asked and self.drops_answer and self.drops_answer in data:
            self.silent = True

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def proxy(postgresql: Server) -> Iterator[Proxy]:
    """A way to the server that can be cut."""
    with closing(Proxy(postgresql)) as proxy:
        yield proxy


@pytest.fixture
def over_proxy(proxy: Proxy, url: str, database: str, little_patience: None) -> Journal:
    """A journal whose connections go that way."""
    Journal(url)
    return Journal(f"postgresql+psycopg://postgres@127.0.0.1:{proxy.port}/{database}", lock_seconds=3)


def test_a_server_that_takes_connections_and_never_answers_ends_in_time() -> None:
    """Bounded by our own patience."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        with within(15), pytest.raises(SystemUnavailable, match="timeout"):
            Journal(f"postgresql+psycopg://me@127.0.0.1:{mute.getsockname()[1]}/x", lock_seconds=3)


def test_an_interrupt_ends_connecting() -> None:
    """At once and as itself."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        with within(8), pytest.raises(DeadlinePassed), interrupted_after(0.5, 0.2):
            Journal(f"postgresql+psycopg://me@127.0.0.1:{mute.getsockname()[1]}/x", lock_seconds=60)


@pytest.mark.parametrize(
    ("act", "word"), [(Journal.entries, b"FROM entries"), (note, b"INSERT")], ids=["read", "write"]
)
def test_a_server_out_of_reach_ends_in_time(
    proxy: Proxy, over_proxy: Journal, act: Callable[[Journal], Any], word: bytes
) -> None:
    """What is lost on the way there or back does not hold us for ever; nothing of it is written."""
    proxy.drops_request = word
    with within(15), pytest.raises(SystemUnavailable, match="journal is not (read|writ)able"):
        act(over_proxy)
    proxy.drops_request, proxy.silent = b"", False
    assert note(over_proxy).sequence == 1


@pytest.mark.parametrize(("lost", "stand"), [("drops_request", []), ("drops_answer", [1])])
def test_a_commit_that_is_lost_on_the_way_is_unknown(
    proxy: Proxy, over_proxy: Journal, lost: str, stand: list[int]
) -> None:
    """Whether COMMIT or its answer was lost cannot be told from here."""
    setattr(proxy, lost, b"COMMIT\0")
    with within(15), pytest.raises(SystemUnavailable, match="unknown whether.*was written"):
        note(over_proxy)
    proxy.silent, proxy.drops_request, proxy.drops_answer = False, b"", b""
    assert [entry.sequence for entry in over_proxy.entries()] == stand


# Databases set up otherwise.


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_keep_all_text_is_refused(postgresql: Server, encoding: str) -> None:
    """With its encoding and what to do, before anything is made in it."""
    name = postgresql.make_database(f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(BadInput, match=f"{encoding}.*UTF8"):
        Journal(postgresql.url(name))
    assert postgresql.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database=name) == []


def test_text_of_any_client_encoding_comes_back(postgresql: Server, url: str, database: str) -> None:
    """A role or database that sets another client encoding changes nothing."""
    postgresql.execute(f"ALTER DATABASE {database} SET client_encoding = 'LATIN1'")
    journal = Journal(url)
    wrote = journal.append("日本", "s", "note", 0, {"é": "日"})
    assert journal.entries("日本") == [wrote]


def test_settings_of_the_role_change_nothing(postgresql: Server, url: str, database: str) -> None:
    """Isolation, timeouts and muted warnings of the database are not ours."""
    for setting in (
        "default_transaction_isolation = 'serializable'", "statement_timeout = 400", "lock_timeout = 50",
        "client_min_messages = 'error'", "default_transaction_deferrable = on", "datestyle = 'German'",
        "idle_in_transaction_session_timeout = 1000", "standard_conforming_strings = off",
    ):  # fmt: skip
        postgresql.execute(f"ALTER DATABASE {database} SET {setting}")
    journal, began = Journal(url), threading.Event()

    def write_late() -> Any:
        began.set()
        return note(journal)

    with ThreadPoolExecutor(1) as pool:
        with taking_turn(postgresql, database):
            late = pool.submit(write_late)
            began.wait()
            time.sleep(1.5)
        assert late.result().sequence == 1


def test_the_tables_are_found_along_the_search_path(postgresql: Server, url: str, database: str) -> None:
    """A role with an empty schema of its own, first in its path, uses the journal that others use."""
    note(Journal(url))
    postgresql.execute(
        "DROP ROLE IF EXISTS roamer", "CREATE ROLE roamer LOGIN SUPERUSER", "CREATE SCHEMA roamer", database=database
    )
    assert note(Journal(postgresql.url(database, "roamer"))).sequence == 2
    assert postgresql.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'entries'", database=database) == [
        ("public",)
    ]


def make_role(server: Server, name: str, database: str) -> None:
    """A role without any right."""
    if server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"):
        for (other,) in server.execute("SELECT datname FROM pg_database WHERE datallowconn"):
            server.execute(f"DROP OWNED BY {name}", database=other)
        server.execute(f"DROP ROLE {name}")
    server.execute(f"CREATE ROLE {name} LOGIN")


def test_missing_rights_are_named(postgresql: Server, url: str, database: str) -> None:
    """First to make the tables, then to write them; with what must be granted."""
    make_role(postgresql, "stranger", database)
    with pytest.raises(SystemUnavailable, match="permission denied for schema public.*GRANT"):
        Journal(postgresql.url(database, "stranger"))
    note(Journal(url))
    postgresql.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO stranger", database=database)
    journal = Journal(postgresql.url(database, "stranger"))
    assert len(journal.entries()) == 1
    with pytest.raises(SystemUnavailable, match="permission denied for table entries.*GRANT"):
        note(journal)


def test_a_role_that_can_change_no_entry_can_run_procedures(postgresql: Server, url: str, database: str) -> None:
    """Tables made by another role, and the fewest rights: entries can only be added."""
    Journal(url)
    make_role(postgresql, "runner", database)
    postgresql.execute(
        "GRANT SELECT, INSERT ON entries TO runner",
        "GRANT SELECT, INSERT, UPDATE ON leases, notices TO runner",
        "GRANT SELECT, INSERT, DELETE ON signs_of_life TO runner",
        database=database,
    )
    journal = Journal(postgresql.url(database, "runner"))
    epoch = journal.take_lease(PAIR, "p1", NOON)
    journal.append("p1", "s", "note", epoch, {})
    epoch = journal.take_lease(PAIR, "p1", NOON, renew=True)
    epoch = journal.pass_lease(PAIR, "p1", "p2", "continued", ("p1", "s", "note", {}))
    journal.release_lease(PAIR, "p2", epoch, "completed")
    journal.show_life("watcher")
    journal.show_life("watcher")
    assert journal.last_sign("watcher") is not None and journal.verify() is None
    assert journal.claim_notice("p1/failed", "smtp")
    journal.settle_notice("p1/failed", "smtp", NoticeState.SENT)


def test_nothing_is_prepared_on_the_server(postgresql: Server, url: str, database: str) -> None:
    """A pool that gives each transaction another session knows no prepared statements."""
    journal = Journal(url)
    postgresql.execute(
        "CREATE TABLE seen (count bigint)",
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen SELECT count(*) FROM pg_prepared_statements; RETURN NULL; END $$",
        "CREATE TRIGGER see AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION see()",
        database=database,
    )
    for _ in range(8):
        note(journal)
    assert set(postgresql.execute("SELECT count FROM seen", database=database)) == {(0,)}


# Addresses and secrets.


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_an_address_without_driver_takes_psycopg(postgresql: Server, database: str, scheme: str) -> None:
    """`postgresql://` needs no driver in it."""
    journal = Journal(postgresql.url(database).replace("postgresql+psycopg", scheme))
    assert note(journal).sequence == 1


@pytest.mark.parametrize(
    "address",
    ["postgresql+psycopg2://me:hunter2@db/x", "postgresql+asyncpg://me:hunter2@db/x", "mysql://me:hunter2@db/x"],
)
def test_other_drivers_and_databases_are_refused(address: str) -> None:
    """By name, with those that serve, and without the password."""
    with pytest.raises(SystemUnavailable, match=r"not usable.*postgresql\+psycopg:") as refused:
        Journal(address)
    assert address.partition(":")[0] in str(refused.value) and "hunter2" not in str(refused.value)


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only SQLite's needs are installed."""
    monkeypatch.delitem(sys.modules, "kafka_dr.hooks.journal.postgresql")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SystemUnavailable, match=r"psycopg.*postgres"):
        Journal("postgresql://me@db/x")


SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://locked:{secret}@/postgres?host={folder}",
        "postgresql://locked@/postgres?host={folder}&password={secret}",
        "postgresql://locked:{secret}@127.0.0.1:1/postgres",
        "postgresql://locked@127.0.0.1:1,127.0.0.1:2/postgres?password={secret}",
        "postgresql://locked@/postgres?host=127.0.0.1,127.0.0.2&port=1,1&password={secret}",
        "postgresql://locked@nowhere.invalid/postgres?password={secret}",
        "postgresql://locked:{secret}@/postgres?host={folder}&sslmode=nonsense",
        "postgresql://locked:{secret}@/postgres?host={folder}&nonsense={secret}",
        "postgresql://locked@/postgres?host={folder}&passfile=/nowhere/{secret}",
        "postgresql://locked:{secret}/postgres",
        "postgresql://locked:an@{secret}@127.0.0.1:1/postgres",
        "postgresql://locked:{secret}@[::1/postgres",
        "postgresql://locked:{secret}@/no_such_database?host={folder}",
    ],
)
def test_no_error_shows_a_password(postgresql: Server, caplog: pytest.LogCaptureFixture, address: str) -> None:
    """Not in the error, in what caused it, in the journal's own name, nor in a log of any level."""
    caplog.set_level(logging.DEBUG)
    if not postgresql.execute("SELECT 1 FROM pg_roles WHERE rolname = 'locked'"):
        postgresql.execute("CREATE ROLE locked LOGIN PASSWORD 'another one'")
    with pytest.raises(SwitchbackError) as refused:
        Journal(address.format(secret=SECRET, folder=postgresql.folder), lock_seconds=3)
    told = [str(refused.value), repr(refused.value.__cause__), repr(refused.value.__context__), caplog.text]
    assert not [text for text in told if SECRET in text]


def test_the_right_password_is_taken_and_not_shown(postgresql: Server, database: str, caplog) -> None:
    """A journal that works does not tell it either."""
    caplog.set_level(logging.DEBUG)
    postgresql.execute("DROP ROLE IF EXISTS locked_in", f"CREATE ROLE locked_in LOGIN SUPERUSER PASSWORD '{SECRET}'")
    journal = Journal(f"postgresql://locked_in:{SECRET}@/{database}?host={postgresql.folder}")
    note(journal)
    assert SECRET not in repr(journal) + caplog.text


# The server of these tests.


def test_a_server_of_killed_tests_ends(postgresql: Server) -> None:
    """Whoever is killed with -9 leaves neither a server nor its folder."""
    script = "from tests.support.postgresql import *\nwith running_server() as s: print(s.folder, flush=True), input()"
    killed = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder = Path(killed.stdout.readline().strip())
    pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    assert psutil.pid_exists(pid)
    killed.kill()
    killed.wait()
    wait_for(lambda: not psutil.pid_exists(pid) and not folder.exists())
