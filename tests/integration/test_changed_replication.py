"""A flow changed through Airflow: a topic leaves it, and comes back."""

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


def configs(lab: Lab) -> list[dict[str, str]]:
    """Return the configurations of the source and the checkpoint connector."""
    names = (connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint"))
    return [call_worker(lab, TARGET, "GET", f"/connectors/{name}/config").json() for name in names]


def test_a_topic_leaves_the_flow_and_comes_back(planned_lab: Lab) -> None:
    """Under load, everything comes to the target once; the source connector is configured as before."""
    prefix = "" if planned_lab.load().policy == "identity" else f"{SOURCE}."
    before = configs(planned_lab)
    with IdTraffic(planned_lab, SOURCE, TARGET, {"kept-a": 2, "extra.b": 2}, prefix, pause=0.02) as traffic:
        traffic.await_first("kept-a", "extra.b")
        assert change(planned_lab, remove_topics=r"extra\..*") == 0
        changed = configs(planned_lab)
        assert [config["topics.exclude"].endswith(r",extra\..*") for config in changed] == [True, True]
        assert change(planned_lab, add_topics=r"extra\..*") == 0
        traffic.end()
        traffic.assert_copied_once("kept-a", "extra.b")
    source, checkpoint = configs(planned_lab)
    assert source == before[0] and "extra" not in checkpoint["topics.exclude"]
    traffic.delete()
