"""The journal's time: the clock of the database's server, wherever the clock of this machine stands."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.errors import NotReady, SystemUnavailable
from kafka_dr.hooks.journal import clock as clock_module
from kafka_dr.hooks.journal.clock import DatabaseClock
from kafka_dr.hooks.journal.journal import Journal

from tests.support.postgresql import Server

PAIR, TEN_MINUTES = "east|west", timedelta(minutes=10)
NEAR = timedelta(seconds=30)


@pytest.fixture(params=[TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
def skew(request: pytest.FixtureRequest) -> timedelta:
    """How far the database's clock is ahead of this machine's."""
    return request.param


@pytest.fixture
def journal(postgresql: Server, skew: timedelta) -> Journal:
    """A journal on a server whose clock is ten minutes off, for every session of the database."""
    database = postgresql.make_database()
    postgresql.execute(
        "CREATE SCHEMA other",
        "CREATE FUNCTION other.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
        f" $$ SELECT pg_catalog.clock_timestamp() + interval '{skew.total_seconds()} seconds' $$",
        f"ALTER DATABASE {database} SET search_path = public, other, pg_catalog",
        database=database,
    )
    return Journal(postgresql.url(database))


def test_every_time_is_the_servers(journal: Journal, skew: timedelta) -> None:
    """Of entries, leases and heartbeats, and the time that they are compared with."""
    epoch = journal.take_lease(PAIR, "p1")
    entry = journal.append("p1", "s", "note", epoch, {})
    journal.release_lease(PAIR, "p1", epoch, "completed")
    journal.show_life("watcher")
    lease, sign = journal.lease(PAIR), journal.last_sign("watcher")
    assert lease is not None and lease.released_at is not None and sign is not None
    expected = datetime.now(UTC) + skew
    for moment in (lease.taken_at, entry.at, lease.released_at, sign, journal.now()):
        assert abs(moment - expected) < NEAR
    assert lease.taken_at < entry.at < lease.released_at < sign < journal.now()


def test_a_cool_down_ends_by_the_servers_clock(journal: Journal) -> None:
    """It lasts neither longer nor shorter on a machine whose clock is off."""
    epoch = journal.take_lease(PAIR, "p1")
    journal.release_lease(PAIR, "p1", epoch, "completed")
    with pytest.raises(NotReady, match=r"in (59|60) s"):
        journal.take_lease(PAIR, "p2", cool_down_seconds=60)
    time.sleep(1)
    assert journal.take_lease(PAIR, "p2", cool_down_seconds=0.5) == 2


def test_a_clock_that_is_given_is_used(postgresql: Server) -> None:
    """For tests, and for nothing else."""
    noon = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    journal = Journal(postgresql.url(postgresql.make_database()), clock=lambda: noon)
    assert journal.now() == journal.append("p", "s", "note", 0, {}).at == noon


# Between two questions to the server.


class Monotonic:
    """This machine's monotonic clock, which a test moves, and the offset of a server's clock."""

    def __init__(self) -> None:
        self.seconds, self.offset, self.asked, self.answers = 100.0, 1_000_000.0, 0, True

    def measure(self) -> datetime:
        """Answer as the server does."""
        self.asked += 1
        if not self.answers:
            raise SystemUnavailable("the journal is not readable")
        return datetime.fromtimestamp(self.seconds + self.offset, UTC)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Monotonic]:
    """A machine whose monotonic clock stands still until it is moved."""
    machine = Monotonic()
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: machine.seconds))
    yield machine


def test_the_server_is_asked_every_few_seconds(machine: Monotonic) -> None:
    """Not at each look."""
    clock = DatabaseClock(machine.measure)
    for _ in range(100):
        machine.seconds += 0.1
        assert clock.now().timestamp() == pytest.approx(machine.seconds + machine.offset)
    assert machine.asked == 2


def test_a_machine_that_was_suspended_catches_up(machine: Monotonic) -> None:
    """Its monotonic clock stood still meanwhile, the server's did not."""
    clock = DatabaseClock(machine.measure)
    clock.now()
    machine.seconds, machine.offset = machine.seconds + 6, machine.offset + 3600
    assert clock.now().timestamp() == pytest.approx(machine.seconds + machine.offset)


def test_a_server_out_of_reach_stops_no_clock(machine: Monotonic) -> None:
    """Time goes on by the last offset; only a time that was never known is an error."""
    machine.answers = False
    clock = DatabaseClock(machine.measure)
    with pytest.raises(SystemUnavailable):
        clock.now()
    machine.answers = True
    before = clock.now()
    machine.answers, machine.seconds = False, machine.seconds + 60
    assert clock.now() - before == timedelta(seconds=60)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-900, 900))))
def test_the_time_never_goes_backwards(moves: list[tuple[float, float]]) -> None:
    """However the server's clock is set, and it passes at least as fast as this machine's."""
    machine, seen = Monotonic(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_module, "time", SimpleNamespace(monotonic=lambda: machine.seconds))
        clock = DatabaseClock(machine.measure)
        for passed, moved in moves:
            machine.seconds, machine.offset = machine.seconds + passed, machine.offset + moved
            seen.append((machine.seconds, clock.now().timestamp()))
    for (before, earlier), (after, later) in pairwise(seen):
        assert later - earlier > after - before - 1e-3 and not math.isinf(later)
