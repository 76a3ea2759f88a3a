"""Runs change_replication step by step on a lab without Airflow, and a group that reads meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, TopicPartition

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from tests.faults.support.stepping import Run, Stepping
from tests.support.lab_clients import client
from tests.support.traffic.id_traffic import IdTraffic

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

    def new(self, **params: Any) -> Run:
        """Return a new run."""
        return Run({"source": SOURCE, "target": TARGET, "reason": "a change", **params}, dag_id="change_replication")

    def run(self, **params: Any) -> dict[str, Any]:
        """Run one change to its end; return the evidence."""
        evidence = self.driver.whole(self.new(**params))
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


@contextmanager
def group_reads(lab: Lab, group: str, topic: str) -> Iterator[None]:
    """Let a group read a topic of the source, and commit its positions twice a second, for the block."""
    ended = threading.Event()
    reads = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
    consumer = Consumer({**client(lab, SOURCE, "admin"), "group.id": group, **reads})
    consumer.subscribe([topic])

    def read() -> None:
        while not ended.is_set():
            consumer.consume(500, 0.2)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30.0)
        consumer.close()


def checkpoints_on(lab: Lab) -> int:
    """Return how many checkpoints MirrorMaker 2 has written on the target."""
    consumer = Consumer({**client(lab, TARGET, "admin"), "group.id": "checkpoint-count", "enable.auto.commit": False})
    try:
        return consumer.get_watermark_offsets(TopicPartition(f"{SOURCE}.checkpoints.internal", 0), 30.0)[1]
    finally:
        consumer.close()
