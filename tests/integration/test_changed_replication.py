"""A flow changed through Airflow: a topic leaves it, a wrong pattern is refused, and the topic comes back."""

from __future__ import annotations

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.rehearsal.run import run_dag
from tests.support.traffic.id_traffic import IdTraffic

SOURCE, TARGET = "primary", "standby"
CONF = {"source": SOURCE, "target": TARGET, "reason": "other topics"}


def change(lab: Lab, **params: object) -> int:
    """Run change_replication, approved by a second person; return the exit code."""
    return run_dag(lab, "change_replication", {**CONF, **params}, approve_as="approver", timeout=300)


def test_a_topic_leaves_the_flow_and_comes_back(planned_lab: Lab) -> None:
    """Under load, everything comes to the target once; a pattern that means something else changes nothing."""
    prefix = "" if planned_lab.load().policy == "identity" else f"{SOURCE}."
    path = f"/connectors/{connector_name(SOURCE, TARGET, 'source')}/config"
    with IdTraffic(planned_lab, SOURCE, TARGET, {"kept-a": 2, "extra.b": 2}, prefix) as traffic:
        traffic.await_first("kept-a", "extra.b")
        assert change(planned_lab, remove_topics=r"extra\..*") == 0
        excluded = call_worker(planned_lab, TARGET, "GET", path).json()
        assert excluded["topics.exclude"].endswith(r",extra\..*")
        assert change(planned_lab, add_topics="extra.") != 0
        assert call_worker(planned_lab, TARGET, "GET", path).json() == excluded
        assert change(planned_lab, add_topics=r"extra\..*") == 0
        traffic.end()
        traffic.assert_copied_once("kept-a", "extra.b")
    traffic.delete()
