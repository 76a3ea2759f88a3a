"""Bad params and topologies, as an operator gives them: refused with a reason, and nothing is touched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from lab.environment.airflow_api import AirflowClient, RequestRefused
from lab.environment.connect import call_worker
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, Lab
from lab.rehearsal.run import procedure_id
from tests.support.lab_clients import acl_filter, without_marker

DAG_ID = "planned_failover"
GOOD = {"source": "primary", "target": "standby", "reason": "bad input"}


def world(lab: Lab) -> dict[str, Any]:
    """All that a procedure could touch: rights, topics, groups, connectors, the routing record."""
    found: dict[str, Any] = {"routing": lab.routing.read_text()}
    for alias in ALIASES:
        admin = AdminClient(lab.client_properties(alias, "admin"))
        connectors = call_worker(lab, alias, "GET", "/connectors?expand=status").json()
        found[alias] = {
            "acls": sorted(map(str, without_marker(admin.describe_acls(acl_filter()).result(30)))),
            "topics": sorted(admin.list_topics(timeout=30).topics),
            "groups": sorted(group.group_id for group in admin.list_consumer_groups().result(30).valid),
            "connectors": {name: entry["status"]["connector"]["state"] for name, entry in connectors.items()},
        }
    return found


REFUSED_BY_AIRFLOW = {
    "no reason": {"reason": ""},
    "a number for a cluster": {"source": 7},
    "a deadline of zero": {"max_fence_seconds": 0},
    "a deadline below zero": {"drain_seconds": -1},
    "a deadline in words": {"drain_seconds": "10; drop"},
    "a deadline beyond all bounds": {"zero_lag_seconds": 2**63},
    "no cluster": {"source": ""},
    "a list for a pattern": {"topics": [".*"]},
    "a word for a switch": {"start_reverse_replication": "yes"},
}


@pytest.mark.parametrize("change", REFUSED_BY_AIRFLOW.values(), ids=REFUSED_BY_AIRFLOW)
def test_airflow_accepts_no_run_with_values_of_a_wrong_kind(planned_lab: Lab, change: dict[str, Any]) -> None:
    """There is no run at all: the API answers 400 and names the param."""
    with pytest.raises(RequestRefused, match=next(iter(change))) as refused:
        AirflowClient.of(planned_lab, "operator").trigger(DAG_ID, {**GOOD, **change})
    assert refused.value.status == 400


REFUSED_BY_THE_PROCEDURE = {
    "a cluster that is none": (
        {"source": "../../etc/passwd"},
        "'../../etc/passwd' is not a cluster; clusters of the topology: primary, standby",
    ),
    "the same cluster twice": ({"target": "primary"}, "the same cluster as the source"),
    "a reason of two lines, with a template": (
        {"reason": "{{ 7*7 }}\nINFO approved"},
        "control or invisible character",
    ),
    "a pattern that takes for ever": ({"topics": "(a+)+"}, "topics: "),
    "half of a flow": ({"groups": "billing-.*"}, "narrower than the flow"),
    "a param that is none, beside two other faults": (
        {"mode": "append", "source": "nowhere", "reason": " "},
        "3 problems",
    ),
}


@pytest.fixture(scope="module")
def refused_runs(planned_lab: Lab) -> dict[str, str]:
    """Run ids by case. All runs stand side by side, and neither rights nor connectors nor positions have changed."""
    api, before = AirflowClient.of(planned_lab, "operator"), world(planned_lab)
    runs = {case: api.trigger(DAG_ID, {**GOOD, **change}) for case, (change, _) in REFUSED_BY_THE_PROCEDURE.items()}
    wait_until(lambda: all(api.run(DAG_ID, run)["state"] == "failed" for run in runs.values()), "six red runs", 300)
    assert world(planned_lab) == before
    return runs


@pytest.mark.parametrize(("case", "said"), [(case, said) for case, (_, said) in REFUSED_BY_THE_PROCEDURE.items()])
def test_the_procedure_refuses_before_anything_is_touched(
    planned_lab: Lab, refused_runs: dict[str, str], case: str, said: str
) -> None:
    """Outcome refused at the first step, and everything wrong is named."""
    folder = planned_lab.evidence / procedure_id(DAG_ID, refused_runs[case])
    evidence = json.loads((folder / "evidence.json").read_text())
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "open_procedure")
    assert said in evidence["reason_for_outcome"] and evidence["approvals"] == []
    assert (folder / "evidence.html").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("naming:", "nameing:", "nameing"), ("clusters:", "clusters: &c\n  x: *c\nclusters:", "anchor")],
    ids=["a misspelt key", "an alias bomb and a key twice"],
)
def test_a_topology_that_cannot_be_read_stops_every_run(planned_lab: Lab, old: str, new: str, said: str) -> None:
    """Nothing begins without a topology; the run is red."""
    good, before = planned_lab.topology.read_text(), world(planned_lab)
    assert old in good
    api = AirflowClient.of(planned_lab, "operator")
    try:
        planned_lab.topology.write_text(good.replace(old, new, 1))
        run_id = api.trigger(DAG_ID, GOOD)
        wait_until(lambda: api.run(DAG_ID, run_id)["state"] == "failed", "a red run", 300)
    finally:
        planned_lab.topology.write_text(good)
    assert world(planned_lab) == before
    (log,) = planned_lab.logs.rglob(f"run_id={run_id}/task_id=open_procedure/*.log")
    assert said in log.read_text()
