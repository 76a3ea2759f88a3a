"""Markers: kept on every cluster and worker, and whoever else changes one is written down."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.actions.readiness.owners import owner_view, refuse_owned_target, sign_of_marker
from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.readiness.owners import MARKER_ENTRY, acl_marker_place, owner_blockers, owner_notes
from kafka_dr.errors import NotReady
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import MarkerKept
from kafka_dr.vocabulary import MARKER_CONNECTOR, Entry
from kafka_dr.watcher import markers
from kafka_dr.watcher.authority import STEP
from kafka_dr.watcher.markers import Marker, MarkerKeeper
from kafka_dr.watcher.watcher import Watcher

PLACE = acl_marker_place("primary")


class Kept:
    """A keeper and one marker that a test changes."""

    def __init__(self, bench: Any, place: str = PLACE) -> None:
        self.bench, self.keeper, self.now, self.restored = bench, MarkerKeeper(), "deleted", 0
        self.place = place
        self.can_restore = True

    def restore(self) -> str:
        """Set the marker, if the test lets it."""
        self.restored += 1
        self.now = "" if self.can_restore else self.now
        return self.now or ""

    def look(self, period: float = 120.0) -> str:
        """One look."""
        marker = Marker(self.place, True, lambda: self.now, self.restore)
        return self.keeper.keep(self.bench.journal, marker, period)

    @property
    def written(self) -> list[tuple[str, str]]:
        """Return kind and first field of the watcher's entries."""
        return [(e.kind, next(iter(e.payload))) for e in self.bench.journal.entries(STEP, STEP)]


@pytest.fixture
def kept(bench: Any) -> Kept:
    """A marker that is not there yet."""
    return Kept(bench)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits until a missing marker counts as deleted."""
    monkeypatch.setattr(markers, "_SURE_SECONDS", 0.0)


def test_a_worker_that_restarts_accuses_nobody(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not show its connectors at once: only a marker that stays missing was deleted."""
    monkeypatch.setattr(markers, "_SURE_SECONDS", 0.2)
    kept.look()
    for now in ("deleted", "", "deleted"):
        kept.now = now
        assert kept.look() == ""
        time.sleep(0.15)
    assert [field for _, field in kept.written] == ["keeps_marker", "marker_kept"] and kept.restored == 1
    time.sleep(0.2)
    assert "the marker was deleted" in kept.look()


def test_a_marker_is_made_once(kept: Kept) -> None:
    """With an intent before, and an outcome; nobody else is accused."""
    for _ in range(3):
        assert kept.look() == ""
    assert kept.restored == 1
    assert kept.written == [(Entry.INTENT, "keeps_marker"), (Entry.OUTCOME, "marker_kept")]


def test_whoever_removes_it_is_written_down(kept: Kept) -> None:
    """One note however long it goes on; the time goes on in the signs of life; it is set again once in a period."""
    kept.look()
    for _ in range(4):
        kept.now = "deleted"
        assert "somebody else owns this: the marker was deleted" in kept.look()
    assert [kind for kind, _ in kept.written].count(Entry.NOTE) == 1 and kept.restored == 1
    assert kept.bench.journal.last_sign(sign_of_marker(PLACE)) is not None
    kept.keeper._due.clear()
    assert "was deleted" in kept.look() and kept.restored == 2 and kept.look() == ""


def test_an_owner_that_was_silent_for_two_periods_is_noted_anew(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the journal has when each time began."""
    kept.look()
    kept.now = "deleted"
    kept.keeper._due.clear()
    kept.look()
    later = datetime.now(UTC) + timedelta(seconds=241)
    monkeypatch.setattr(Journal, "now", lambda journal: later)
    kept.now = "resumed: RUNNING with 0 tasks"
    kept.look()
    assert [kind for kind, _ in kept.written].count(Entry.NOTE) == 2


def test_a_marker_that_cannot_be_kept_is_said(kept: Kept) -> None:
    """It is not called kept."""
    kept.can_restore = False
    assert "cannot be kept" in kept.look()
    assert kept.written == [(Entry.INTENT, "keeps_marker")]


def test_a_cluster_without_authorizer_has_none(kept: Kept) -> None:
    """Nothing is set or written."""
    kept.now = None
    assert kept.look() == "" and kept.written == [] and kept.restored == 0


def test_the_watcher_keeps_one_on_each_cluster_and_worker(bench: Any) -> None:
    """The clusters' entries and the workers' connectors, each once."""
    bench.opened()
    lines: list[str] = []
    watcher = Watcher(lines.append, lambda: bench.connections, patience=60.0)
    watcher._markers_due = 0.0
    watcher.look()
    assert all(MARKER_ENTRY in cluster.acls for cluster in bench.clusters.values())
    assert all(worker.states[MARKER_CONNECTOR] == "STOPPED" for worker in bench.workers.values())
    assert len(bench.journal.entries(STEP, STEP, Entry.OUTCOME)) == 4
    bench.workers["standby"].states[MARKER_CONNECTOR] = "RUNNING"
    watcher._markers_due = 0.0
    watcher.look()
    assert any("connect_standby: somebody else owns this" in line for line in lines)


def test_readiness_reads_what_the_watcher_wrote(bench: Any) -> None:
    """Never set: not proven. Set and gone: refused. Set again: refused until two periods are over."""
    procedure = bench.opened()
    rules = {"primary": AclRules(frozenset())}
    assert list(owner_blockers(owner_view(procedure, rules, {}, []))) == []
    assert any("not proven" in note for note in owner_notes(owner_view(procedure, rules, {}, [])))
    kept = Kept(bench)
    kept.look()
    (gone,) = owner_blockers(owner_view(procedure, rules, {}, []))
    assert gone.gate == "nobody_puts_back" and "deleted now" in gone.seen
    kept.now = "deleted"
    kept.keeper._due.clear()
    kept.look()
    (young,) = owner_blockers(owner_view(procedure, {"primary": AclRules(frozenset({MARKER_ENTRY}))}, {}, []))
    assert "the marker was deleted, last at" in young.seen


def test_an_unplanned_failover_to_an_owned_cluster_is_refused(bench: Any) -> None:
    """The target's own marker is gone; a person may say that clients cannot wait, and the approver reads it."""
    procedure = bench.opened()
    Kept(bench, acl_marker_place("standby")).look()
    with pytest.raises(NotReady, match="Somebody else owns connectors or ACL entries of the target"):
        refuse_owned_target(procedure)
    bench.change_params(acknowledge_owner=True)
    notes = refuse_owned_target(bench.procedure())
    assert any("An owner is acknowledged" in note and "ACL entry on standby" in note for note in notes)


@pytest.mark.parametrize(("there", "now"), [(True, ""), (False, "deleted")])
def test_a_marker_that_was_set_after_the_rules_were_read_is_no_owners_act(bench: Any, there: bool, now: str) -> None:
    """A run that begins with the watcher reads the entries a moment before the watcher sets its first marker."""
    bench.journal.append(STEP, STEP, Entry.OUTCOME, 0, MarkerKept(marker_kept=acl_marker_place("primary")).payload())
    bench.clusters["primary"].acls = {MARKER_ENTRY} if there else set()
    (marker,) = owner_view(bench.procedure(), {"primary": AclRules(frozenset())}, {}, []).markers
    assert marker.kept and marker.now == now
