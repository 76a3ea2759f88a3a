"""A canary drill on the profile `production`, beside clients that write and flows of `.*`: it touches nothing.

The checker judges from outside, with clients of its own: `lab/checker/untouched`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from lab.environment.acls import create_bindings
from lab.environment.connect import call_worker, connector_name
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, Lab
from tests.faults.deployment.drill_beside_production import SOURCE, TARGET, DrillBesideProduction, entry_on
from tests.faults.drills.whole_drill import PARAMS, PASSES, make_drills_short
from tests.faults.support.stepping import Run, Stepping, stepping
from tests.support.lab_clients import refusals
from tests.support.rehearsals import kept_if_it_fails

#: Records a second that production's clients write all the time.
RATE = int(os.environ.get("SWITCHBACK_RATE", "2000"))
#: Two cores run three brokers a site, six Connect workers and the load besides: steps take longer than on real sites.
DEADLINES = {"max_fence_seconds": 2_400.0, "fence_seconds": 240.0, "drain_seconds": 300.0, "verify_seconds": 600.0}
DEADLINES |= {"connect_request_seconds": 60.0}


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_drill_touches_nothing_of_production(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """By ids, rights, settings, offsets, tasks, denied requests and heartbeats; and the drill itself completes."""
    lab = Lab(fresh_lab(policy, airflow=False, profile="production"))
    make_drills_short(lab, DEADLINES, records=5_000)
    made = DrillBesideProduction(lab, tmp_path, RATE)
    with kept_if_it_fails(lab.root, tmp_path):
        with made.at_work():
            evidence = made.watch(made.run_drill)
        made.judge_records()
        _refused_where_it_would_touch_production(lab, tmp_path)
        print(dict(made.verdict.figures), flush=True)
        assert made.verdict.passed, "\n".join(made.verdict.lines(limit=5))
        _went_well(evidence)
    figures = made.verdict.figures
    assert figures["records"] > RATE and figures["denied_to_drill"] > 0 and figures["samples"] > 1
    assert figures["offsets_grown"] > 0 and figures["read_by_consumers"] >= 2 * figures["records"]


def _refused_where_it_would_touch_production(lab: Lab, folder: Path) -> None:
    """On real parts: in a worker of production's group, and beside a flow of everything that excludes no drill."""
    with stepping(lab, folder / "refusals") as driver:
        another = {"conn_type": "http", "host": lab.connect_urls(TARGET)[-1]}
        tls = {"extra": {"verify": str(lab.authority.certificate)}}
        driver.environment |= {f"AIRFLOW_CONN_CONNECT_DRILL_{TARGET.upper()}": json.dumps(another | tls)}
        _is_refused(driver, "are workers of one Connect cluster")
    name = connector_name(SOURCE, TARGET, "source")
    config = call_worker(lab, TARGET, "GET", f"/connectors/{name}/config").json()
    without = config | {"topics.exclude": config["topics.exclude"].removesuffix(",.*switchback-drill.*")}
    assert without != config and call_worker(lab, TARGET, "PUT", f"/connectors/{name}/config", without).ok
    with stepping(lab, folder / "refusals") as driver:
        _is_refused(driver, f"{name} in connect_{TARGET} would take up")


def _is_refused(driver: Stepping, reason: str) -> None:
    """Assert that a drill is refused before it makes anything."""
    run = Run(PARAMS, dag_id="failover_drill")
    assert driver.step(run, "open_procedure") == "refused" and reason in run.texts["open_procedure"], run.texts
    driver.step(run, "close_procedure")
    for alias in ALIASES:
        assert not requests.get(f"{driver.lab.drill_connect_url(alias)}/connectors", **_tls(driver.lab)).json()


def _tls(lab: Lab) -> dict[str, Any]:
    return {"timeout": 60, "verify": str(lab.authority.certificate) if lab.load().is_production else True}


def _went_well(evidence: dict[str, Any]) -> None:
    """Assert that every pass completed, by the drill's own count without a loss that it did not list."""
    assert evidence["outcome"] == "completed", (evidence["failing_step"], evidence["reason_for_outcome"])
    drill = evidence["drill"]
    assert {one["name"]: one["outcome"] for one in drill["passes"]} == dict.fromkeys(PASSES, "completed")
    for one in drill["passes"]:
        print(f"{one['name']}: {one['integrity']}, {one.get('seconds')}", flush=True)
        assert one["integrity"]["lost_unlisted"] == one["integrity"]["positions_ahead"] == 0, one["name"]
    assert drill["untouched"]["held"] is True and drill["left_over"] == [] and drill["scope_refusals"] == []


def test_what_touches_production_is_found(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """On real parts the checker sees a restarted task, a changed setting, a new entry, a new topic, a denied write."""
    lab = Lab(fresh_lab("identity", airflow=False))
    made = DrillBesideProduction(lab, tmp_path, rate=200)
    with made.at_work():
        made.watch(lambda: _touch(lab))
    made.judge_records()
    texts = [finding.text for finding in made.verdict.findings]
    for begin in (
        f"settings of topics of {SOURCE}: orders.us was",
        f"ACL entries of {SOURCE}: ",
        f"topics of {SOURCE}: refunds was absent",
        f"a request of production was denied: User:producer WRITE Topic:LITERAL:refunds by Produce in broker-{TARGET}",
        "production's Connect workers noted: __connect_standby_status: status-task-primary-to-standby-source-0",
        f"no broker of {SOURCE} has logged a write of the drill",
    ):
        assert any(text.startswith(begin) for text in texts), (begin, texts)


def _touch(lab: Lab) -> None:
    """Do what no drill may do."""
    admin = AdminClient(lab.client_properties(SOURCE, "admin"))
    setting = ConfigEntry("retention.ms", "60000000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, "orders.us", incremental_configs=[setting])
    for future in admin.incremental_alter_configs([changed]).values():
        future.result()
    create_bindings(admin, [entry_on(ResourceType.TOPIC, "payments.", "DESCRIBE")])
    admin.create_topics([NewTopic("refunds", 1, -1)])["refunds"].result()
    wait_until(lambda: refusals(lab, TARGET, "refunds") == ["TOPIC_AUTHORIZATION_FAILED"], "a refusal", 60.0)
    restart = f"/connectors/{connector_name(SOURCE, TARGET, 'source')}/restart?includeTasks=true"
    wait_until(lambda: call_worker(lab, TARGET, "POST", restart).ok, "a restart", 60.0)
    time.sleep(5.0)
