"""A flow changed through Airflow: a topic leaves it, and comes back."""

from __future__ import annotations

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.rehearsal.run import run_dag
from tests.support.traffic.id_traffic import IdTraffic

SOURCE, TARGET = "primary", "standby"
TOPICS = {"kept-a": 2, "extra.b": 2}
CONF = {"source": SOURCE, "target": TARGET, "reason": "other topics"}


def change(lab: Lab, **params: object) -> int:
    """Run change_replication, approved by a second person; return the exit code."""
    return run_dag(lab, "change_replication", {**CONF, **params}, approve_as="approver", timeout=300)


def configs(lab: Lab) -> list[dict[str, str]]:
    """Return the configurations of the source and the checkpoint connector."""
    names = (connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint"))
    return [call_worker(lab, TARGET, "GET", f"/connectors/{name}/config").json() for name in names]


def refuse_repeats(lab: Lab, traffic: IdTraffic, when: str) -> None:
    """Fail if a record was copied twice, with what the Connect worker says of tasks that it has cancelled."""
    repeats = {topic: count for topic in TOPICS if (count := traffic.repeats(topic))}
    logs = [path.read_text(errors="replace") for path in lab.logs.glob(f"connect-{TARGET}.*") if path.is_file()]
    lines = [line for log in logs for line in log.splitlines() if "Graceful stop of task" in line or "rebalanc" in line]
    assert not repeats, f"repeated {when}: {repeats}; Connect: {lines[-20:]}"


def test_a_topic_leaves_the_flow_and_comes_back(planned_lab: Lab) -> None:
    """Under load, everything comes to the target once; the source connector is configured as before."""
    prefix = "" if planned_lab.load().policy == "identity" else f"{SOURCE}."
    before = configs(planned_lab)
    with IdTraffic(planned_lab, SOURCE, TARGET, TOPICS, prefix, pause=0.02) as traffic:
        traffic.await_first(*TOPICS)
        refuse_repeats(planned_lab, traffic, "by MirrorMaker 2 itself, before the change")
        assert change(planned_lab, remove_topics=r"extra\..*") == 0
        changed = configs(planned_lab)
        assert [config["topics.exclude"].endswith(r",extra\..*") for config in changed] == [True, True]
        refuse_repeats(planned_lab, traffic, "by the first change")
        assert change(planned_lab, add_topics=r"extra\..*") == 0
        refuse_repeats(planned_lab, traffic, "by the second change")
        traffic.end()
        traffic.assert_copied_once(*TOPICS)
    source, checkpoint = configs(planned_lab)
    assert source == before[0] and "extra" not in checkpoint["topics.exclude"]
    traffic.delete()
