"""A program puts connectors and ACL entries back: before the fence it is named, after the opening nothing loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry

from lab.environment.connect import connector_name
from lab.environment.state import ALIASES, Lab
from lab.rehearsal.round_trip import Leaving
from tests.faults.support import always_on
from tests.faults.support.owner import Owner
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED

HOME, AWAY = "primary", "standby"
ALERT_SECONDS = 10.0


def watched(lab: Lab, field: str) -> list[JournalEntry]:
    """Return the watcher's journal entries that have a field."""
    entries = Journal(f"sqlite:///{lab.journal}").entries(step=always_on.WATCHER)
    return [entry for entry in entries if field in entry.payload]


class Meddling:
    """An owner that begins when clients have moved and the new primary has a standby, until the move is contested."""

    def __init__(self, trips: SteppedTrips, period: float, jitter: float) -> None:
        self._trips, self._period = trips, period
        self.owner = Owner(trips.lab, (HOME, AWAY), period, jitter, ALIASES)
        self.contested: JournalEntry | None = None

    def __call__(self, _: Any) -> None:
        with self.owner:
            (self.contested,) = until(
                lambda: watched(self._trips.lab, "contested"),
                lambda: (
                    f"the move to be contested; the watcher said {always_on.said(self._trips.lab, 'watch_old_source')}"
                ),
                3 * self._period + 60.0,
            )
            # It goes on: what would loop by now has time to.
            time.sleep(2 * min(self._period, 15.0) + 10.0)


@pytest.mark.parametrize(("period", "jitter", "reconcile"), [(5.0, 1.0, 10.0), (120.0, 20.0, 120.0)])
def test_before_the_fence_it_is_named(
    period: float, jitter: float, reconcile: float, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Refused before anything is touched: where, what and when. Two periods after the owner's end it goes."""
    state = fresh_lab("identity", airflow=False)
    topology = Lab(state).topology
    stated = yaml.safe_load(topology.read_text()) | {"reconcile_seconds": reconcile}
    topology.write_text(yaml.safe_dump(stated, sort_keys=False))
    with stepped_trips(state, tmp_path, SEED, 0, recorded=False) as trips:
        until(lambda: len(watched(trips.lab, "marker_kept")) == 4, "four markers", 60.0)
        with Owner(trips.lab, (HOME, AWAY), period, jitter, ALIASES) as owner:
            until(lambda: watched(trips.lab, "marker_disturbed"), "the owner to be seen", 60.0)
            # Whenever the run comes between two of the owner's acts.
            time.sleep(min(period, 30.0))
            run = trips.procedure("planned_failover")
            evidence = trips.driver.whole(run)
            print(owner.acts, evidence["reason_for_outcome"], flush=True)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness")
        for said in ("nobody_puts_back", "ACL entry on primary", "deleted", "resumed: RUNNING with 0 tasks"):
            assert said in evidence["reason_for_outcome"]
        if period > 100.0:
            return
        time.sleep(3 * reconcile + 10.0)
        again = trips.procedure("planned_failover")
        assert trips.driver.forward(again, until="check_readiness"), again.texts


@pytest.mark.parametrize(("period", "jitter"), [(5.0, 1.0), (120.0, 20.0)])
def test_after_the_opening_nothing_loops(
    period: float, jitter: float, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Done again once, then contested and said; by record ids no record went in a circle."""
    with stepped_trips(fresh_lab("identity", airflow=False), tmp_path, SEED, 500, recorded=False) as trips:
        meddling = Meddling(trips, period, jitter)
        trips.meddle = meddling
        verdict = trips.leave(Leaving(standby=True, more=10))
        said = always_on.said(trips.lab, always_on.WATCHER)
        print(said, meddling.owner.acts, dict(verdict.figures), flush=True)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        (defended,) = watched(trips.lab, "undone")
        old_flow = {connector_name(HOME, AWAY, kind) for kind in ("source", "checkpoint")}
        stops = [e for e in watched(trips.lab, "stops_connectors") if old_flow & set(e.payload["stops_connectors"])]
        assert len(stops) == 1, "the old flow was stopped again exactly once"
        second = next(
            at
            for at in meddling.owner.moments()
            if at > datetime.fromisoformat(defended.payload["seen_at"]).timestamp()
        )
        waited = datetime.fromisoformat(meddling.contested.payload["contested_at"]).timestamp() - second
        print(f"contested {waited:.1f} s after the second time", flush=True)
        assert waited <= ALERT_SECONDS
        assert "contested: somebody undoes the move to standby" in said
        assert len(watched(trips.lab, "contested")) == len(watched(trips.lab, "passed_cut_off")) == 1
