"""Clients have moved, and no procedure is under way: what somebody undoes of the move is done again, once."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.fencing.guarded_move import GuardedMove
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.vocabulary import Entry
from kafka_dr.watcher import move_guard, old_flow_offsets
from kafka_dr.watcher.authority import STEP
from kafka_dr.watcher.watcher import Watcher
from kafka_dr.web.status_reader import StatusReader

from tests.support.bench import FENCE
from tests.support.failback_bench import BACK, OLD, ORDERS, WayBack

HARMLESS = AclEntry("topic", "orders", "literal", "User:mm2", "*", "write", "deny")


class Moved:
    """A watcher over a pair whose clients were moved from primary to standby, and whose failback has just ended."""

    def __init__(self, bench: Any, **moved: Any) -> None:
        self.way, self.lines = WayBack(bench, started=True, **moved), []
        self.way._close(self.way.procedure)
        self.old, self.primary = self.way.old_worker, self.way.primary
        self.watcher = Watcher(self.lines.append, lambda: bench.connections, patience=60.0)

    def look(self) -> None:
        """One look at the move."""
        self.watcher._flows_due = 0.0
        self.watcher.look()

    def written(self, field: str) -> list[dict[str, Any]]:
        """Return the watcher's notes that have a field."""
        notes = self.way.bench.journal.entries(step=STEP, kind=Entry.NOTE)
        return [entry.payload for entry in notes if field in entry.payload]

    @property
    def stopped(self) -> list[str]:
        """Connectors that were asked to stop, with the workers' order."""
        asked = [*self.way.worker.asked, *self.old.asked]
        return [name for what, name in asked if what == "stop"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what is undone at the same time."""
    monkeypatch.setattr(move_guard, "_SAME_TIME_SECONDS", 0.0)
    monkeypatch.setattr(old_flow_offsets, "_STABLE_SECONDS", 0.0)
    monkeypatch.setattr(old_flow_offsets, "_SEED_SECONDS", 0.3)


@pytest.fixture
def moved(bench: Any) -> Moved:
    """Identity naming; the reverse flow runs."""
    return Moved(bench)


def test_a_move_that_holds_is_left_alone(moved: Moved) -> None:
    """Nothing is stopped, written or said."""
    before = len(moved.way.bench.journal.entries())
    moved.look()
    assert moved.stopped == [] and len(moved.way.bench.journal.entries()) == before
    assert moved.lines == ["watching: 0 old sources are watched"]


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "FAILED"])
@pytest.mark.parametrize("name", [OLD, "p.checkpoint"])
def test_the_old_flow_is_stopped_again(moved: Moved, name: str, state: str) -> None:
    """Any of its connectors, in any state: also the reverse flow stops, and the old flow will copy nothing back."""
    moved.old.states[name] = state
    moved.primary.log_ends[ORDERS] = 25
    moved.look()
    assert moved.old.states == {OLD: "STOPPED", "p.checkpoint": "STOPPED"}
    assert moved.way.worker.states[BACK] == "STOPPED" and moved.old.states[name] == "STOPPED"
    assert moved.old.offsets_set == {OLD: {ORDERS: 24}}
    (note,) = moved.written("undone")
    assert note["undone"] == [f"{name} is {state}"] and note["procedure_id"] == moved.way.failover.id
    assert any("somebody undoes the move to standby" in line and "Done again, once" in line for line in moved.lines)


def test_a_disabled_flow_is_seeded_once(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may enable it when the watcher has given up; it copies nothing now, so no seconds are lost on it."""
    moved.old.disabled, moved.old.states[OLD], moved.primary.log_ends[ORDERS] = {OLD}, "RUNNING", 25
    moved.look()
    assert moved.old.offsets_set == {OLD: {ORDERS: 24}}
    tries: list[str] = []

    def refused(procedure: Any) -> None:
        tries.append("")
        raise ConnectUnavailable("PATCH failed", "HTTP 400: must be in the STOPPED state", "stop it")

    monkeypatch.setattr(old_flow_offsets, "_seed_once", refused)
    with pytest.raises(ConnectUnavailable):
        old_flow_offsets.seed_at_ends(moved.way.failover)
    assert len(tries) == 1


def test_the_reverse_flow_stops_before_anything_is_looked_at_again(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While both flows run, records go in a circle."""
    states: list[str] = []
    stands = SimpleNamespace(sleep=lambda _: states.append(moved.way.worker.states[BACK]), monotonic=time.monotonic)
    monkeypatch.setattr(move_guard, "time", stands)
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    assert states[0] == "STOPPED"


def test_a_flow_that_is_resumed_before_its_offsets_are_set_is_stopped_once_more(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect refuses offsets of a flow that runs; without them it would copy back what the reverse flow has copied."""
    seed_once, tries = old_flow_offsets._seed_once, []

    def resumed_first(procedure: Any) -> Any:
        tries.append(moved.old.states[OLD])
        if len(tries) == 1:
            moved.old.states[OLD] = "RUNNING"
            raise ConnectUnavailable("PATCH failed", "HTTP 400: must be in the STOPPED state", "stop it")
        return seed_once(procedure)

    monkeypatch.setattr(old_flow_offsets, "_seed_once", resumed_first)
    moved.old.states[OLD], moved.primary.log_ends[ORDERS] = "RUNNING", 25
    moved.look()
    assert tries == ["STOPPED", "STOPPED"] and moved.old.offsets_set == {OLD: {ORDERS: 24}}
    (note,) = moved.written("undone")
    assert note["seeds"]["rows"] == 1 and not [text for text in note["not_restored"] if "STOPPED" in text]


def test_the_fence_is_set_again(moved: Moved) -> None:
    """An entry of the fence was deleted: it is added again, with an intent before."""
    moved.primary.acls -= {FENCE}
    moved.look()
    assert FENCE in moved.primary.acls
    (intent,) = moved.way.bench.journal.entries(step=STEP, kind=Entry.INTENT)[:1]
    assert "gone" in moved.written("undone")[0]["undone"][0] and intent is not None


def test_entries_that_make_the_old_flow_harmless_are_set_again(bench: Any) -> None:
    """They are part of the move."""
    moved = Moved(bench, denies=[HARMLESS])
    moved.look()
    assert HARMLESS in moved.way.standby.acls and "on standby" in moved.written("undone")[0]["undone"][0]


def test_the_second_time_is_contested(moved: Moved) -> None:
    """Within ten minutes: nothing is done any more, and what passed is listed once."""
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    moved.old.states[OLD] = "RUNNING"
    moved.old.kept[OLD] = {ORDERS: 30}
    asked = len(moved.stopped)
    for _ in range(3):
        moved.look()
    assert moved.old.states[OLD] == "RUNNING" and len(moved.stopped) == asked
    (contested,), (passed,) = moved.written("contested"), moved.written("passed_boundary")
    assert contested["contested"] == [f"{OLD} is RUNNING"]
    assert passed["passed_boundary"] == ["orders-0: source offsets 10 to 30"]
    shown = StatusReader(load_topology(), moved.way.bench.journal, lambda dag_id: True)
    status = shown.procedure(moved.way.failover.id, datetime.now(UTC))
    assert status is not None and "Somebody undoes the move to standby again and again" in status.contested
    said = [line for line in moved.lines if "contested" in line]
    assert "acts no more" in said[0] and len(said) == 2 and "orders-0: source offsets 10 to 30" in said[1]


def test_ten_minutes_later_it_is_done_again(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done long ago does not count."""
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    later = datetime.now(UTC) + timedelta(minutes=11)
    monkeypatch.setattr(GuardedMove, "is_spent", lambda guard, now, spent=GuardedMove.is_spent: spent(guard, later))
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    assert moved.old.states[OLD] == "STOPPED" and len(moved.written("undone")) == 2
    assert moved.written("contested") == []


def test_a_later_procedure_ends_the_contest(moved: Moved) -> None:
    """It took the lease and ended without a move: the move is guarded anew."""
    for _ in range(2):
        moved.old.states[OLD] = "RUNNING"
        moved.look()
    assert moved.written("contested")
    moved.way.another("b2")
    moved.look()
    assert moved.old.states[OLD] == "RUNNING", "while it is under way it is its own affair"
    moved.way._close(moved.way.procedure)
    moved.look()
    assert moved.old.states[OLD] == "STOPPED" and len(moved.written("undone")) == 2


def test_names_that_part_the_directions_keep_the_standby(make_bench: Any) -> None:
    """Default naming: the old flow is stopped, and the reverse flow, which cannot loop, goes on."""
    moved = Moved(make_bench(naming={"policy": "default", "separator": "."}), policy="default")
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    assert moved.old.states[OLD] == "STOPPED" and moved.way.worker.states[BACK] == "RUNNING"
    assert moved.old.offsets_set == {}


def test_a_worker_that_is_away_says_nothing(moved: Moved) -> None:
    """As soon as it answers, the flow is stopped."""
    moved.old.states[OLD], moved.old.away = "RUNNING", True
    moved.look()
    assert moved.written("undone") == []
    moved.old.away = False
    moved.look()
    assert moved.old.states[OLD] == "STOPPED"


def test_a_source_that_is_away_hides_no_flow(moved: Moved) -> None:
    """Its entries cannot be read; the old flow is stopped all the same, and its offsets are left."""
    moved.primary.away = True
    moved.old.states[OLD] = "RUNNING"
    moved.look()
    assert moved.old.states[OLD] == "STOPPED" and moved.old.offsets_set == {}


def test_a_connector_that_is_slow_to_stop_is_not_seen_twice(moved: Moved) -> None:
    """Its source does not answer: it was asked, and runs for a while."""
    moved.old.states[OLD] = "RUNNING"
    moved.old.late = {OLD}
    move_guard.SETTLE_SECONDS, settle = 0.0, move_guard.SETTLE_SECONDS
    try:
        moved.look()
        moved.look()
    finally:
        move_guard.SETTLE_SECONDS = settle
    assert moved.written("contested") == [] and len(moved.written("undone")) == 1
