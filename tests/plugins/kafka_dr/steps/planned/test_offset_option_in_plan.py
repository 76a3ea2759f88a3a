"""The plan of each move says which offset option its flow has, and what that means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka_dr.actions.scope.offset_option import option_of
from kafka_dr.steps.planned import forecast
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.domain.readiness.test_readiness import seen
from tests.support.bench import Bench
from tests.support.drills.scopes import scope

RECORD = {"option": "accept_replication_only", "reason": "idempotent readers", "date": "2026-11-20", "person": "J. Doe"}
SPLIT = {"source": "p.source", "checkpoint": {"connect": "connect_offsets", "name": "p.checkpoint"}}


def record_option(bench: Bench, source: str = "primary", **changes: Any) -> None:
    """Record the option of the flow from a cluster, with other changes of the flow."""
    topology = json.loads(bench.topology.read_text())
    for flow in topology["flows"]:
        if flow["source"] == source:
            flow.update({"offset_option": RECORD} | changes)
    bench.topology.write_text(json.dumps(topology))


def planned(bench: Bench) -> dict[str, Any]:
    """What the plan says of the option; the observed checkpoint connector syncs nothing."""
    procedure = bench.opened()
    bench.done(procedure, Step.CHECK_READINESS, notes=[])
    return dict(forecast._build_plan(procedure, seen(), ()).offset_option)


def test_a_recorded_option_stands_in_the_plan(bench: Bench) -> None:
    """With reason, date and person, and with what the running connector contradicts."""
    record_option(bench)
    option = planned(bench)
    assert {name: option[name] for name in RECORD} == RECORD and option["recorded"] is True
    assert "finds no position on standby" in option["means"]
    (differs,) = option["differs"]
    assert "sync.group.offsets.enabled=true" in differs


def test_without_a_record_the_plan_says_which_option_is_in_force(bench: Bench) -> None:
    """And that the topology records none: nothing can contradict it."""
    option = planned(bench)
    assert (option["option"], option["recorded"], option["differs"]) == ("accept_replication_only", False, [])


def test_two_deployments_are_named_by_their_workers(bench: Bench) -> None:
    """As the topology names their connections."""
    record_option(bench, connectors=SPLIT, offset_option={"option": "two_deployments", "reason": "scale"})
    means = planned(bench)["means"]
    assert "source connectors by connect_standby, the checkpoint connector by connect_offsets" in means


def test_a_lost_sources_plan_goes_by_the_topology(bench: Bench) -> None:
    """Connect is not asked; what the topology states of the flow's settings counts, if it states any."""
    record_option(bench)
    bench.opened()
    assert "by the time of two syncs and more" in option_of(bench.procedure(), None)["means"]
    record_option(bench, mirror_maker={"sync.group.offsets.enabled": True, "sync.group.offsets.interval.seconds": 30})
    assert "up to 90 s old" in option_of(bench.procedure(), None)["means"]


def test_a_drill_has_connectors_of_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its plan says nothing of production's option."""
    procedure = bench.opened()
    assert option_of(procedure, None)
    monkeypatch.setattr(procedure.systems, "scope", scope())
    assert option_of(procedure, None) == {}
