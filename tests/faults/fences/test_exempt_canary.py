"""MirrorMaker 2 copies a canary under each kind of fence, before anything is fenced; a wrong principal is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry, Step

from lab.environment.connect import call_worker
from lab.environment.state import ALIASES, Lab
from tests.faults.fences.test_fence_modes import (
    arranged,
    everyone_by_one_entry,
    exempt_super_users,
    named_clients,
    nobody_by_an_entry,
)
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED
from tests.support.staged_lab import Stage


def readiness(trips: SteppedTrips) -> dict[str, Any]:
    """Run a planned failover up to check_readiness; return the figures of this step."""
    run = trips.procedure("planned_failover")
    assert trips.driver.forward(run, until="check_readiness"), run.texts
    (outcome,) = Journal(f"sqlite:///{trips.lab.journal}").entries(step=Step.CHECK_READINESS, kind=Entry.OUTCOME)
    return outcome.payload


@pytest.mark.parametrize("arrange", [named_clients, everyone_by_one_entry, nobody_by_an_entry, exempt_super_users])
def test_the_canary_is_copied_under_each_kind_of_fence(
    arrange: Callable[[Stage], None], fresh_lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries and connectors are afterwards as before."""
    stage = arranged(arrange, fresh_lab, monkeypatch)
    with stepped_trips(stage.lab.root, tmp_path, SEED, 0, recorded=False, watched=False) as trips:
        before = {alias: stage.acls(alias) for alias in ALIASES}, connectors(trips.lab)
        figures = readiness(trips)
        print(arrange.__name__, figures["exempt_seconds"], figures["notes"], flush=True)
        assert figures["exempt_proven"]
        by_grant = [note for note in figures["notes"] if note.startswith("Everyone may write by")]
        assert bool(by_grant) == (arrange is everyone_by_one_entry)
        assert ({alias: stage.acls(alias) for alias in ALIASES}, connectors(trips.lab)) == before


def test_a_wrong_principal_is_refused_before_anything_is_fenced(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The topology names another principal than the one as which MirrorMaker 2 writes: its reverse flow would fail."""
    state = fresh_lab("identity", airflow=False)
    topology = Lab(state).topology
    stated = yaml.safe_load(topology.read_text())
    for cluster in stated["clusters"].values():
        cluster["principals"]["mirror_maker"] = ["User:mirror"]
    topology.write_text(yaml.safe_dump(stated, sort_keys=False))
    stage = Stage(state)
    with stepped_trips(state, tmp_path, SEED, 0, recorded=False, watched=False) as trips:
        before = {alias: stage.acls(alias) for alias in ALIASES}, connectors(trips.lab)
        evidence = trips.driver.whole(trips.procedure("planned_failover", start_reverse_replication=True))
        print(evidence["reason_for_outcome"], flush=True)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness")
        assert "MirrorMaker 2 may not write behind the fence" in evidence["reason_for_outcome"]
        assert ({alias: stage.acls(alias) for alias in ALIASES}, connectors(trips.lab)) == before


def connectors(lab: Lab) -> dict[str, list[str]]:
    """Return the connectors of each worker."""
    return {alias: sorted(call_worker(lab, alias, "GET", "/connectors").json()) for alias in ALIASES}
