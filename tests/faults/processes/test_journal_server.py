"""The journal's PostgreSQL is restarted, frozen for half a minute, or replaced by its standby: a procedure goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.errors import DeadlinePassed, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.interrupts import interrupted_after
from kafka_dr.procedure.entries import ZeroLagProven
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Entry, Step

from lab.install.setup import NO_POSTGRESQL, postgresql_programs
from tests.support.bench import Bench
from tests.support.postgresql import Server, running_server

pytestmark = pytest.mark.skipif(postgresql_programs() is None, reason=NO_POSTGRESQL)
PAIR = "primary+standby"
FROZEN_SECONDS, LOCK_SECONDS, WORK_SECONDS = 30, 10.0, 5


class Proves(ProcedureStep):
    """A step that acts on nothing."""

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """Prove something."""
        return ZeroLagProven(partitions=1, proofs={})


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own."""
    with running_server() as server:
        yield server


class Writer:
    """Adds entries one after the other, as a step that Airflow tries again; remembers what it was told."""

    def __init__(self, url: str) -> None:
        self._journal = Journal(url, lock_seconds=LOCK_SECONDS)
        self.epoch = self._journal.take_lease(PAIR, "p")
        self.written: set[int] = set()
        self.unknown: set[int] = set()
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            try:
                self._journal.append("p", "s", "note", self.epoch, number)
                self.written.add(number)
            except SystemUnavailable as error:
                self.failed.append(str(error))
                if "it is unknown" in str(error):
                    self.unknown.add(number)
            time.sleep(0.01)

    def wrote_more(self, seconds: float = 60) -> None:
        """Wait until it has written again."""
        before, ends_at = len(self.written), time.monotonic() + seconds
        while len(self.written) < before + 10:
            assert time.monotonic() < ends_at, self.failed[-3:]
            time.sleep(0.05)

    def end(self) -> set[int]:
        """End it; return the numbers that the journal has."""
        self._ends.set()
        self._thread.join(60)
        journal = Journal(self._journal._database.engine.url.render_as_string(hide_password=False))
        assert journal.verify() is None
        journal.check_lease(PAIR, "p", self.epoch)
        stored = [entry.payload for entry in journal.entries()]
        assert len(stored) == len(set(stored)), "an entry was written twice"
        return set(stored)


def test_a_server_that_crashes_and_comes_back(server: Server) -> None:
    """What was reported as written is there, once; a commit without an answer may be; nothing else is."""
    writer = Writer(server.url(server.make_database()))
    for _ in range(5):
        writer.wrote_more()
        server.restart()
    writer.wrote_more()
    stored = writer.end()
    assert writer.failed and writer.written <= stored <= writer.written | writer.unknown


def test_a_server_that_is_frozen(server: Server) -> None:
    """Reads and writes end in an error within their limit, a deadline strikes in them, and afterwards work goes on."""
    url = server.url(server.make_database())
    writer, journal = Writer(url), Journal(url, lock_seconds=LOCK_SECONDS)
    writer.wrote_more()
    with server.frozen():
        thaws_at = time.monotonic() + FROZEN_SECONDS
        began = time.monotonic()
        with pytest.raises(DeadlinePassed), interrupted_after(1, lambda: DeadlinePassed("late"), lambda: None):
            journal.entries()
        assert time.monotonic() - began < 5
        for act in (journal.entries, lambda: journal.append("q", "s", "note", 0, {})):
            began = time.monotonic()
            with pytest.raises(SystemUnavailable):
                act()
            assert time.monotonic() - began < LOCK_SECONDS + WORK_SECONDS + 5
        time.sleep(max(0.0, thaws_at - time.monotonic()))
    writer.wrote_more()
    stored = writer.end()
    assert writer.failed and writer.written <= stored <= writer.written | writer.unknown


def wait_for_standby(primary: Server) -> None:
    """Wait until every commit waits for the standby."""
    ends_at = time.monotonic() + 60
    while primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
        assert time.monotonic() < ends_at
        time.sleep(0.1)


def test_a_standby_that_was_promoted_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The procedure goes on under its lease, in the same process and in a new one, at the next entry of the chain."""
    bench = Bench(tmp_path)
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(bench.topology))
    monkeypatch.setattr("kafka_dr.procedure.find.Connections", lambda: bench.connections)
    with ExitStack() as running:
        first = ExitStack()
        running.enter_context(first)
        primary = first.enter_context(running_server())
        standby = running.enter_context(running_server(standby_of=primary))
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        wait_for_standby(primary)
        bench.url = f"postgresql+psycopg://postgres@/postgres?host={primary.folder},{standby.folder}&connect_timeout=3"
        procedure = bench.opened()
        Proves(task_id=Step.CHECK_READINESS).execute(bench.context())
        before = procedure.journal.entries()
        lease = procedure.journal.lease(procedure.pair)
        first.close()
        with pytest.raises(SystemUnavailable):
            procedure.journal.entries()
        standby.execute("SELECT pg_promote()")
        assert procedure.journal.entries() == before and procedure.journal.lease(procedure.pair) == lease
        Proves(task_id=Step.FORECAST).execute(bench.context())
        after = bench.journal.entries()
        assert after[: len(before)] == before and bench.journal.verify() is None
        assert bench.kinds(Step.FORECAST) == [Entry.INTENT, Entry.OUTCOME]
        assert bench.journal.lease(procedure.pair).epoch > lease.epoch
