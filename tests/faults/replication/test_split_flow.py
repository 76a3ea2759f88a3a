"""A flow of three source connectors that share its topics, with its checkpoint connector on another Connect worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from kafka_dr.vocabulary import MARKER_CONNECTOR

from lab.checker import CheckResult
from lab.environment.connect import FLOWS, call_worker, connector_config, connector_name
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident
from tests.faults.replication.other_workers import create, move_checkpoints, seen
from tests.faults.support.scene import until
from tests.faults.support.trips import stepped_trips
from tests.support.rehearsals import SEED

HOME, AWAY = "primary", "standby"
#: Ends of topic names; the first connector mirrors all other topics. Names in the workload end in random hex digits.
ENDS = {"": None, "-low": ".*[0-4]", "-high": ".*[5-9]"}
RATE = 1_000


def sources(source: str, target: str) -> list[str]:
    """Names of a flow's source connectors."""
    return [connector_name(source, target, "source") + ending for ending in ENDS]


def split_flows(lab: Lab) -> None:
    """Share the topics of each flow among three source connectors; move checkpoints of one to another worker."""
    for source, target in FLOWS.values():
        known = connector_config(lab, source, target, "source")
        rest = known | {"topics.exclude": f"{known['topics.exclude']},.*[0-9]"}
        name, *others = sources(source, target)
        answered(call_worker(lab, target, "PUT", f"/connectors/{name}/config", rest))
        for name, ends in zip(others, list(ENDS.values())[1:], strict=True):
            state = "RUNNING" if target == AWAY else "STOPPED"
            create(lab.connect_url(target), name, known | {"topics": ends}, state)
    move_checkpoints(lab, AWAY)
    topology = yaml.safe_load(lab.topology.read_text())
    for flow in topology["flows"]:
        flow["connectors"]["source"] = sources(flow["source"], flow["target"])
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))


def answered(answer: requests.Response) -> Any:
    """What Connect answered to a request that it carried out."""
    answer.raise_for_status()
    return answer.json() if answer.content else None


def shares(lab: Lab, source: str, target: str) -> dict[str, set[str]]:
    """Source connector -> topics of which Connect stores an offset in it, without topics of heartbeats."""
    paths = {name: f"/connectors/{name}/offsets" for name in sources(source, target)}
    stored = {name: answered(call_worker(lab, target, "GET", path))["offsets"] for name, path in paths.items()}
    return {
        name: {row["partition"]["topic"] for row in rows if "heartbeats" not in row["partition"]["topic"]}
        for name, rows in stored.items()
    }


def assert_shared(lab: Lab, source: str, target: str) -> None:
    """Each connector has offsets of topics, and of its own topics only."""
    found = shares(lab, source, target)
    assert all(found.values()), f"connectors without a topic: {found}"
    for (name, topics), ends in zip(found.items(), ENDS.values(), strict=True):
        strange = [t for t in topics if re.fullmatch(ends or ".*[^0-9]", t) is None]
        assert not strange, f"{name} has offsets of other connectors' topics: {strange}"


def assert_runs(lab: Lab, source: str, target: str) -> None:
    """All connectors of this flow run, and those of the other flow are STOPPED."""
    found = {name: state for name, state in seen(lab).items() if name != MARKER_CONNECTOR}
    assert len(found) == 2 * (len(ENDS) + 1), found
    assert {s for n, s in found.items() if n.startswith(f"{source}-to-{target}")} == {"RUNNING"}, found
    assert {s for n, s in found.items() if n.startswith(f"{target}-to-{source}")} == {"STOPPED"}, found


def passed(verdict: CheckResult) -> CheckResult:
    """Assert that the checker found nothing."""
    print(f"{dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    return verdict


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_there_and_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Planned, with the flow back started at once, then the failback: each change judged by record ids."""
    lab = Lab(fresh_lab(policy, airflow=False))
    split_flows(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, recorded=False, scale=0.1, groups=8) as trips:
        figures = passed(trips.leave(Leaving(more=10, standby=True))).figures
        assert figures["exact"] == figures["positions"] > 0 and figures["acknowledged_by_load"] > RATE
        assert_shared(lab, HOME, AWAY)
        if policy == "identity":
            assert_shared(lab, AWAY, HOME)
            assert_runs(lab, AWAY, HOME)
        passed(trips.come_back(Returning(more=10, born=True)))
        if policy == "identity":
            assert_runs(lab, HOME, AWAY)


def test_a_lost_source(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Broker and worker of the source are killed under load; clients go on without it, and return later."""
    lab = Lab(fresh_lab("identity", airflow=False))
    split_flows(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, scale=0.05, groups=6) as trips:
        passed(trips.leave(Leaving(Accident(after=3.0), params={"confirm_seconds": 6})))
        assert {state for name, state in seen(lab).items() if name.startswith(HOME)} == {"STOPPED"}
        passed(trips.come_back(Returning(more=10)))
        assert_runs(lab, HOME, AWAY)


def test_a_return_resumes_all(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Every connector was STOPPED, on both workers; the rollback resumes each, and the next run completes."""
    lab = Lab(fresh_lab("identity", airflow=False))
    split_flows(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, recorded=False, scale=0.05, groups=6) as trips:
        run = trips.procedure("planned_failover")
        assert trips.driver.forward(run, until="stop_mirror_maker"), run.texts
        assert set(seen(lab).values()) == {"STOPPED"}
        trips.driver.step(run, "return_to_source")
        trips.driver.step(run, "close_procedure")
        evidence = trips.driver.evidence(run)
        assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
        assert_runs(lab, HOME, AWAY)
        passed(trips.leave(Leaving(more=10)))


def test_overlapping_connectors_are_refused(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Two connectors select one topic: refused by name, with rights and connectors as they were."""
    lab = Lab(fresh_lab("identity", airflow=False))
    split_flows(lab)
    with stepped_trips(lab.root, tmp_path, SEED, 0, recorded=False, watched=False, clients=False) as trips:
        _, low, high = sources(HOME, AWAY)
        path, before = f"/connectors/{low}/config", seen(lab)
        config = answered(call_worker(lab, AWAY, "GET", path))
        answered(call_worker(lab, AWAY, "PUT", path, config | {"topics": ".*[0-9]"}))
        until(lambda: call_worker(lab, AWAY, "GET", path).json()["topics"] == ".*[0-9]", "the wider filter")
        run = trips.procedure("planned_failover")
        evidence = trips.driver.whole(run)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness"), run.texts
        told = run.texts["check_readiness"]
        twice = [topic for topic in trips.truth.topics if re.fullmatch(".*[5-9]", topic)]
        assert twice and f"Several source connectors of {HOME}->{AWAY} mirror the same topics" in told
        assert f"{low} and {high} select, on {HOME}: " in told and min(twice) in told
        assert evidence["fenced_at"] is None
        assert seen(lab) == before
