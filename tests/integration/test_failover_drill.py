"""A real canary drill: its clients move there and back twice, and both clusters are as before."""

from __future__ import annotations

import json
from typing import Any

import requests
from confluent_kafka.admin import AdminClient

from lab.environment.connect import call_worker
from lab.environment.state import ALIASES, Lab
from lab.rehearsal.run import run_dag
from tests.support.lab_clients import acl_filter, without_marker

CONF = {"source": "primary", "target": "standby", "reason": "the quarterly drill"}
MARKER = "switchback-marker"
PASSES = ("run_planned_failover", "run_failback", "run_unplanned_failover", "run_second_failback")


def seen(lab: Lab) -> dict[str, Any]:
    """Return what a drill must leave as it was: topics, groups, ACL entries, connectors, tasks, routing record."""
    state: dict[str, Any] = {"routing": lab.routing.read_text(encoding="utf-8")}
    for alias in ALIASES:
        admin = AdminClient(dict(lab.status()["clusters"][alias]["client_properties"]["admin"]))
        state[alias] = {
            "topics": sorted(admin.list_topics(timeout=30).topics),
            "groups": sorted(group.group_id for group in admin.list_consumer_groups().result(30).valid),
            "acls": sorted(map(str, without_marker(admin.describe_acls(acl_filter()).result(30)))),
            "connectors": call_worker(lab, alias, "GET", "/connectors?expand=status&expand=info").json(),
            "drill connectors": call_drill_worker(lab, alias),
        }
    return state


def call_drill_worker(lab: Lab, alias: str) -> Any:
    """Return the connectors of a site's Connect worker for drills."""
    return requests.get(f"{lab.drill_connect_url(alias)}/connectors", timeout=10).json()


def test_a_canary_drill_moves_its_own_clients_and_leaves_nothing(planned_lab: Lab) -> None:
    """Every pass completes, by the drill's own count no record is missing, and production is untouched."""
    before = seen(planned_lab)
    assert run_dag(planned_lab, "failover_drill", CONF, approve_as="approver", timeout=1_500) == 0
    (path,) = planned_lab.evidence.glob("failover_drill-*/evidence.json")
    evidence = json.loads(path.read_text(encoding="utf-8"))
    drill = evidence["drill"]
    assert {one["name"]: one["outcome"] for one in drill["passes"]} == dict.fromkeys(PASSES, "completed")
    for one in drill["passes"]:
        counted = one["integrity"]
        assert counted["written"] >= 5_000 and counted["lost_unlisted"] == 0, one["name"]
        assert counted["positions_ahead"] == 0 and counted["positions_exact"] > 0, one["name"]
    planned, back, unplanned, again = (one["integrity"] for one in drill["passes"])
    assert planned["lost_listed"] == back["lost_listed"] == again["lost_listed"] == 0 < unplanned["lost_listed"]
    assert drill["untouched"]["held"] is True and drill["left_over"] == [] and drill["scope_refusals"] == []
    assert evidence["loss"] == [] and drill["verdict"] in ("passed", "conditional")
    assert (path.parent / "drill_report.html").exists() and (path.parent / "drill_report.json").exists()
    after = seen(planned_lab)
    # The journal's anchors, as of every procedure; and the watcher's marker, which it makes when it begins.
    kept = {"__switchback_journal", MARKER}
    for alias in ALIASES:
        for what in before[alias]:
            then, now = before[alias][what], after[alias][what]
            added = set(now) - set(then) - kept
            assert added == set() and set(then) <= set(now), (alias, what)
        assert _settings(after[alias]["connectors"]) == _settings(before[alias]["connectors"])
        assert after[alias]["acls"] == before[alias]["acls"] and after[alias]["drill connectors"] == []
    assert after["routing"] == before["routing"]


def _settings(connectors: dict[str, Any]) -> dict[str, Any]:
    """Return each connector's configuration and the states and workers of its tasks."""
    return {name: (one["info"]["config"], one["status"]["tasks"]) for name, one in connectors.items() if name != MARKER}
