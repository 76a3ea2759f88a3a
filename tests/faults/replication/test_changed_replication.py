"""change_replication on a real flow under load: topics added and taken out, retuned, refused, rolled back.

Each case counts by record ids what came to the target: nothing is missing, and nothing is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from tests.faults.replication.id_traffic import IdTraffic
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping

SOURCE, TARGET = "primary", "standby"
KEPT, EXTRA = "kept-a", "extra.b"
MIRROR = connector_name(SOURCE, TARGET, "source")
CHECKPOINT = connector_name(SOURCE, TARGET, "checkpoint")
DEADLINES = {"verify_seconds": 40.0, "stop_seconds": 40.0, "return_seconds": 120.0}


def config_of(lab: Lab, name: str, alias: str = TARGET) -> dict[str, str]:
    """Return a connector's configuration."""
    return call_worker(lab, alias, "GET", f"/connectors/{name}/config").json()


def tasks_of(lab: Lab, name: str) -> list[str]:
    """Return the states of a connector's tasks."""
    return [task["state"] for task in call_worker(lab, TARGET, "GET", f"/connectors/{name}/status").json()["tasks"]]


class Changes:
    """Runs change_replication step by step on one lab."""

    def __init__(self, lab: Lab, driver: Stepping) -> None:
        self.lab, self.driver = lab, driver

    def run(self, **params: Any) -> dict[str, Any]:
        """Run one change to its end; return the evidence."""
        run = Run({"source": SOURCE, "target": TARGET, "reason": "a change", **params}, dag_id="change_replication")
        evidence = self.driver.whole(run)
        print(f"{params}: {evidence['outcome']} {evidence['reason_for_outcome']}", flush=True)
        for step in evidence["steps"]:
            print(f"  {step['id']} {step['state']} {step['figures']}", flush=True)
        return evidence

    def completed(self, **params: Any) -> dict[str, dict[str, Any]]:
        """Run one change; assert that it completed, and return the figures by step."""
        evidence = self.run(**params)
        assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
        return {step["id"]: step["figures"] for step in evidence["steps"]}

    def refused(self, **params: Any) -> str:
        """Run one change; assert that it was refused before anything was changed, and return the reason."""
        before = {name: config_of(self.lab, name) for name in (MIRROR, CHECKPOINT)}
        evidence = self.run(**params)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "plan_change"), evidence
        assert before == {name: config_of(self.lab, name) for name in (MIRROR, CHECKPOINT)}
        assert set(tasks_of(self.lab, MIRROR)) == {"RUNNING"}
        return evidence["reason_for_outcome"]


@contextmanager
def changes_on(lab: Lab, folder: Path) -> Iterator[Changes]:
    """Yield what runs changes on a lab."""
    topology = yaml.safe_load(lab.topology.read_text())
    deadlines = {**topology.get("deadlines", {}), **DEADLINES}
    lab.topology.write_text(yaml.safe_dump(topology | {"deadlines": deadlines}, sort_keys=False))
    with Stepping(lab, folder) as driver:
        yield Changes(lab, driver)


def traffic_on(lab: Lab, policy: str, **how: Any) -> IdTraffic:
    """Return traffic to a topic that stays in the flow, and to one that leaves it and comes back."""
    prefix = "" if policy == "identity" else f"{SOURCE}."
    return IdTraffic(lab, SOURCE, TARGET, {KEPT: 4, EXTRA: 2}, prefix, **how)


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_topics_leave_and_come_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Taken out: its records stay behind, in order; included again: the interval is copied, once; others unharmed."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with changes_on(lab, tmp_path) as changes, traffic_on(lab, policy) as traffic:
        until(lambda: traffic.copies(EXTRA) and traffic.copies(KEPT), "the first records on the target", 60.0)
        figures = changes.completed(remove_topics=r"extra\..*")
        assert figures["resume_changed_flow"]["partitions_flowing"] > 0
        out, count = traffic.copies(EXTRA), len(traffic.copies(KEPT))
        until(lambda: len(traffic.copies(KEPT)) > count + 100, "records of the other topic", 60.0)
        assert traffic.copies(EXTRA) == out
        assert r"extra\..*" in config_of(lab, MIRROR)["topics.exclude"]
        assert r"extra\..*" in config_of(lab, CHECKPOINT)["topics.exclude"]
        told = changes.refused(add_topics="extra.")
        assert "stands for exactly one character" in told and EXTRA in told
        assert "__consumer_offsets" in changes.refused(add_topics="__consumer_offsets")
        assert EXTRA in changes.refused(add_topics="extra")
        changes.completed(add_topics=r"extra\..*")
        traffic.end()
        traffic.assert_copied_once(KEPT, EXTRA)


def test_a_flow_is_retuned_and_a_broken_one_is_rolled_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """More tasks; then a limit on requests below the size of the records: the former value is back, and they flow."""
    lab = Lab(fresh_lab("identity", airflow=False))
    with changes_on(lab, tmp_path) as changes, traffic_on(lab, "identity", size=4_000) as traffic:
        until(lambda: traffic.copies(KEPT), "the first records on the target", 60.0)
        changes.completed(settings={"tasks.max": "3", "offset.lag.max": "10", "emit.checkpoints.interval.seconds": "2"})
        assert tasks_of(lab, MIRROR) == ["RUNNING"] * 3
        assert config_of(lab, CHECKPOINT)["emit.checkpoints.interval.seconds"] == "2"
        before = config_of(lab, MIRROR)
        evidence = changes.run(settings={"producer.override.max.request.size": "2000"})
        assert (evidence["outcome"], evidence["failing_step"]) == ("returned", "resume_changed_flow")
        assert config_of(lab, MIRROR) == before
        assert set(tasks_of(lab, MIRROR)) == {"RUNNING"}
        time.sleep(2.0)
        traffic.end()
        traffic.assert_copied_once(KEPT, EXTRA)
