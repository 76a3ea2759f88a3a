"""The watcher's interlock: two flows that would copy records in a circle, and the one of them that the journal
says must stand.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.domain.fencing.armed_fence import watched_sources
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher import move_guard
from kafka_dr.watcher.authority import STEP
from kafka_dr.watcher.moves import moved_run
from kafka_dr.watcher.watcher import Watcher

from tests.support.failback_bench import BACK, OLD, WayBack


class Flows:
    """A watcher over a pair whose clients were moved from primary to standby."""

    def __init__(self, bench: Any, **moved: Any) -> None:
        self.way, self.lines = WayBack(bench, **moved), []
        self.watcher = Watcher(self.lines.append, lambda: bench.connections, patience=60.0)

    def run(self, **states: str) -> None:
        """Set the states of both source connectors, and look."""
        self.way.worker.states[BACK], self.way.old_worker.states[OLD] = states["back"], states["old"]
        self.look()

    def look(self) -> None:
        """One look at the flows."""
        self.watcher._flows_due = 0.0
        self.watcher.look()

    @property
    def stopped(self) -> list[str]:
        """Connectors that were asked to stop."""
        return [
            name for worker in (self.way.worker, self.way.old_worker) for what, name in worker.asked if what == "stop"
        ]

    @property
    def noted(self) -> list[dict[str, Any]]:
        """What the watcher wrote about flows."""
        return [
            e.payload
            for e in self.way.bench.journal.entries(step=STEP, kind=Entry.NOTE)
            if "both_flows_run" in e.payload
        ]


@pytest.fixture
def flows(bench: Any) -> Flows:
    """Identity naming."""
    return Flows(bench)


@pytest.mark.parametrize(
    "states",
    [
        {"back": "RUNNING", "old": "STOPPED"},
        {"back": "STOPPED", "old": "RUNNING"},
        {"back": "STOPPED", "old": "STOPPED"},
        {"back": "RUNNING", "old": "PAUSED"},
    ],
)
def test_one_flow_alone_is_nobodys_business(flows: Flows, states: dict[str, str]) -> None:
    """Whichever it is: nothing is stopped, written or said."""
    before = len(flows.way.bench.journal.entries())
    flows.run(**states)
    assert flows.stopped == [] and len(flows.way.bench.journal.entries()) == before
    assert flows.lines == ["watching: 0 old sources are watched"]


def test_the_flow_from_where_clients_left_is_stopped(flows: Flows) -> None:
    """Both run: the one that the failover had stopped stands again, with its checkpoint connector; the standby is
    kept.
    """
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.way.old_worker.states[OLD] == "STOPPED" and flows.way.worker.states[BACK] == "RUNNING"
    assert flows.stopped == [OLD]
    (note,) = flows.noted
    assert note["procedure_id"] == flows.way.failover.id and note["both_flows_run"]["flow"] == "primary->standby"
    assert any("copy records in a circle" in line and "was asked to stop" in line for line in flows.lines)


def test_after_the_way_back_it_is_the_other_one(flows: Flows) -> None:
    """The failback opened its target: the flow back must stand, and the other one stops first, so that none loops."""
    flows.way.bench.done(flows.way.procedure, Step.OPEN_TARGET)
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.way.worker.states[BACK] == "STOPPED" and {OLD, BACK} <= set(flows.stopped)


def test_a_way_back_that_was_taken_back_changed_no_sides(flows: Flows) -> None:
    """Clients are where the failover took them."""
    flows.way.bench.done(flows.way.procedure, Step.OPEN_TARGET)
    flows.way.procedure.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True})
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.way.old_worker.states[OLD] == "STOPPED" and flows.way.worker.states[BACK] == "RUNNING"


def test_each_violation_is_stopped_and_said(flows: Flows) -> None:
    """Somebody does it again: it is stopped again."""
    for _ in range(2):
        flows.run(back="RUNNING", old="RUNNING")
        flows.look()
    assert flows.stopped == [OLD, OLD] and len(flows.noted) == 2
    assert len([line for line in flows.lines if "circle" in line]) == 2


def test_without_a_failover_nobody_knows_and_it_is_said(bench: Any) -> None:
    """The journal knows of no change of sides: neither flow is stopped."""
    bench.opened()
    bench.workers["primary"].states["s.source"] = "RUNNING"
    lines: list[str] = []
    Watcher(lines.append, lambda: bench.connections, patience=60.0).look()
    assert bench.workers["primary"].asked == bench.workers["standby"].asked == []
    assert any("both run" in line and "The journal records no failover" in line for line in lines)


def test_names_that_part_the_directions_are_left_alone(make_bench: Any) -> None:
    """Default naming: both may run for ever."""
    flows = Flows(make_bench(naming={"policy": "default", "separator": "."}), policy="default")
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.stopped == [] and flows.noted == []


@pytest.mark.parametrize("away", ["worker", "old_worker"])
def test_a_worker_that_is_away_is_looked_at_again(flows: Flows, away: str) -> None:
    """Nothing is said for hours; as soon as it answers the flow is stopped."""
    getattr(flows.way, away).away = True
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.lines == ["watching: 0 old sources are watched"] and flows.stopped == []
    getattr(flows.way, away).away = False
    flows.look()
    assert flows.way.old_worker.states[OLD] == "STOPPED"


def test_clients_that_are_moved_in_between_save_the_flow(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just before the act the journal is read again: by then another flow must stand."""
    seen = move_guard.may_copy

    def moved_after_the_looks(procedure: Any, flow: Any) -> bool:
        found = seen(procedure, flow)
        if flow == procedure.reverse_flow:
            flows.way.bench.done(flows.way.procedure, Step.OPEN_TARGET)
        return found

    monkeypatch.setattr(move_guard, "may_copy", moved_after_the_looks)
    flows.run(back="RUNNING", old="RUNNING")
    assert flows.stopped == [] and flows.way.bench.journal.entries(step=STEP) == []


def test_a_flow_that_stops_while_it_is_looked_at_is_no_circle(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """A procedure had just stopped the one to start the other."""
    seen = move_guard.may_copy

    def handed_over(procedure: Any, flow: Any) -> bool:
        found = seen(procedure, flow)
        if flow == procedure.flow:
            flows.way.old_worker.states[OLD], flows.way.worker.states[BACK] = "STOPPED", "RUNNING"
        return found

    monkeypatch.setattr(move_guard, "may_copy", handed_over)
    flows.run(back="STOPPED", old="RUNNING")
    assert flows.stopped == [] and flows.noted == []


def test_it_says_nothing_of_any_fence(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An armed source stays armed, whatever is done to flows."""
    # The fence's own look, at the same time, would stop the same flow.
    monkeypatch.setattr("kafka_dr.watcher.duties.stop_replication", lambda *_: {})
    flows = Flows(bench, armed=True)
    flows.way.primary.away = True
    flows.run(back="RUNNING", old="RUNNING")
    flows.look()
    assert flows.noted and watched_sources(telling_entries(bench.journal))[flows.way.failover.id].state.value == "armed"


def test_two_watchers_do_it_twice_at_most(flows: Flows) -> None:
    """Each stops what runs, and finds it standing after that."""
    other = Watcher(flows.lines.append, lambda: flows.way.bench.connections, patience=60.0)
    flows.run(back="RUNNING", old="RUNNING")
    other.look()
    assert flows.stopped == [OLD]


def test_a_stop_is_never_undone(flows: Flows) -> None:
    """What was stopped copied in a circle."""
    bench = flows.way.bench
    procedure = bench.procedure("b1")
    moved, _ = moved_run(bench.journal, procedure.reverse_flow, procedure.topology, bench.connections)
    assert moved.id == flows.way.failover.id and moved.authority.may_undo() is False


def test_flows_are_not_asked_at_every_look(flows: Flows) -> None:
    """Twice within a moment: the workers are asked once."""
    flows.look()
    flows.way.worker.states[BACK] = flows.way.old_worker.states[OLD] = "RUNNING"
    flows.watcher.look()
    assert flows.stopped == []
