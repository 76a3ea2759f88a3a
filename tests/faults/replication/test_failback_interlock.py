"""Both directions of an identity-named topic never run: a step refuses it, and the watcher stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving
from tests.faults.support import always_on
from tests.faults.support.scene import until
from tests.faults.support.trips import stepped_trips
from tests.support.rehearsals import SEED

HOME, AWAY = "primary", "standby"
#: The watcher looks once a second; a stop takes its time.
STOPPED_SECONDS = 30.0


def connector(lab: Lab, source: str, target: str, method: str, what: str) -> Any:
    """Ask the worker that runs a flow about its source connector, or tell it something."""
    return call_worker(lab, target, method, f"/connectors/{connector_name(source, target, 'source')}/{what}")


def stands(lab: Lab, source: str, target: str) -> bool:
    """Whether a flow is STOPPED without tasks."""
    answer = connector(lab, source, target, "GET", "status")
    told = answer.json() if answer.ok else {"connector": {"state": None}, "tasks": []}
    return told["connector"]["state"] == "STOPPED" and not told["tasks"]


def resume(lab: Lab, source: str, target: str) -> None:
    """Somebody resumes a flow by hand that the failover has disabled: it is RUNNING, without a task."""
    connector(lab, source, target, "PUT", "resume").raise_for_status()

    def runs() -> bool:
        told = connector(lab, source, target, "GET", "status").json()
        assert told["tasks"] == [], "a disabled connector copies nothing"
        return told["connector"]["state"] == "RUNNING"

    until(runs, f"{source}->{target} to run")


def test_the_step_refuses(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The old flow was resumed: the flow back is not started, the connector is named, and nothing loops."""
    with stepped_trips(
        fresh_lab("identity", airflow=False), tmp_path, SEED, 500, recorded=False, watched=False
    ) as trips:
        assert trips.leave(Leaving(more=10)).passed
        run = trips.procedure("failback")
        assert trips.driver.forward(run, until="seed_flow_back"), run.texts
        resume(trips.lab, HOME, AWAY)
        assert trips.driver.step(run, "start_flow_back") == "refused"
        assert connector_name(HOME, AWAY, "source") in run.texts["start_flow_back"]
        assert stands(trips.lab, AWAY, HOME), "the flow back was started all the same"
        connector(trips.lab, HOME, AWAY, "PUT", "stop").raise_for_status()
        until(lambda: stands(trips.lab, HOME, AWAY), "the old flow to stand")
        trips.driver.step(run, "return_to_source")
        trips.driver.step(run, "close_procedure")
        assert trips.driver.evidence(run)["outcome"] in ("refused", "returned")
        verdict = trips.come_back()
        assert verdict.passed, "\n".join(verdict.lines(limit=5))


def test_the_watcher_stops_it(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The connector that must stand by the journal, resumed by hand, is stopped, and the journal says so."""
    with stepped_trips(fresh_lab("identity", airflow=False), tmp_path, SEED, 500, recorded=False) as trips:
        for verdict in (trips.leave(Leaving(more=10)), trips.come_back()):
            assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert not stands(trips.lab, HOME, AWAY) and stands(trips.lab, AWAY, HOME)
        # The watcher may stop it before it has a task; that it ran is what the note says.
        connector(trips.lab, AWAY, HOME, "PUT", "resume").raise_for_status()
        told = until(lambda: noted(trips.lab), "the watcher's note", STOPPED_SECONDS)
        assert connector_name(AWAY, HOME, "source") in told["undone"][0]
        until(lambda: stands(trips.lab, AWAY, HOME), "the watcher to stop it", STOPPED_SECONDS)
        assert stands(trips.lab, HOME, AWAY), "the flow to the old source stops first, so that nothing can loop"


def noted(lab: Lab) -> dict[str, Any] | None:
    """What the watcher wrote about a move that somebody undid."""
    notes = Journal(f"sqlite:///{lab.journal}").entries(step=always_on.WATCHER, kind=Entry.NOTE)
    return next((entry.payload for entry in notes if "undone" in entry.payload), None)
