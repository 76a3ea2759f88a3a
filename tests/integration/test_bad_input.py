"""Bad params and a bad topology, given to Airflow as an operator gives them: refused, with a reason, before
anything is touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.airflow_api import AirflowApi, Refused
from lab.bring_up import up
from lab.mirror_maker import call
from lab.procedure_run import run
from lab.state import ALIASES, Lab
from lab.take_down import down

GOOD = {"source": "primary", "target": "standby", "reason": "bad input"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that no procedure ever touches."""
    state = tmp_path_factory.mktemp("lab")
    up(state)
    yield Lab(state)
    down(state)


def world(lab: Lab) -> dict[str, Any]:
    """Everything a procedure could touch: rights, topics and groups of both clusters, connectors, the routing
    record.
    """
    found: dict[str, Any] = {"routing": lab.routing.read_text()}
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for alias in ALIASES:
        admin = AdminClient(lab.client_properties(alias, "admin"))
        connectors = call(lab, alias, "GET", "/connectors?expand=status").json()
        found[alias] = {
            "acls": sorted(map(str, admin.describe_acls(anything).result(30))),
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
def test_airflow_accepts_no_run_with_values_of_a_wrong_kind(lab: Lab, change: dict[str, Any]) -> None:
    """There is no run at all: the API answers 400 and names the param."""
    with pytest.raises(Refused, match=next(iter(change))) as refused:
        AirflowApi.of(lab, "operator").trigger("planned_failover", {**GOOD, **change})
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


def refused_run(lab: Lab, conf: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    """Run with a conf that must be refused; return the last line of what is printed."""
    before = world(lab)
    assert run(lab.root, "planned_failover", conf, approve_as="approver", timeout=300) == 1
    assert world(lab) == before
    return capsys.readouterr().out.strip().splitlines()[-1]


@pytest.mark.parametrize(("change", "said"), REFUSED_BY_THE_PROCEDURE.values(), ids=REFUSED_BY_THE_PROCEDURE)
def test_the_procedure_refuses_before_anything_is_touched(
    lab: Lab, change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outcome refused, everything wrong is named, and neither rights nor connectors nor positions have changed."""
    evidence_before = set(lab.evidence.iterdir())
    told = refused_run(lab, {**GOOD, **change}, capsys)
    assert told.startswith("outcome=refused failing_step=open_procedure") and said in told
    (folder,) = set(lab.evidence.iterdir()) - evidence_before
    evidence = json.loads((folder / "evidence.json").read_text())
    assert evidence["outcome"] == "refused" and evidence["approvals"] == [] and (folder / "evidence.html").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("naming:", "nameing:", "nameing"),
        ("clusters:", "clusters: &c\n  x: *c\nclusters:", "anchor"),
    ],
    ids=["a misspelt key", "an alias bomb and a key twice"],
)
def test_a_topology_that_cannot_be_read_stops_every_run(
    lab: Lab, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing begins without a topology; the run is red."""
    good = lab.topology.read_text()
    assert old in good
    try:
        lab.topology.write_text(good.replace(old, new, 1))
        told = refused_run(lab, GOOD, capsys)
    finally:
        lab.topology.write_text(good)
    assert told.startswith("outcome=failed")
    newest = max(lab.logs.rglob("task_id=open_procedure/*.log"), key=lambda path: path.stat().st_mtime)
    assert said in newest.read_text()
