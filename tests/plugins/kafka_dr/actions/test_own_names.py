"""What Switchback itself makes on the clusters has the names of the run: production's, or a drill's."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.clients import write_canary
from kafka_dr.actions.fencing.acl_fence import fence_writes, refuse_probe_without_rights
from kafka_dr.actions.fencing.exempt_canary import copy_canary
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused
from kafka_dr.vocabulary import Step

from tests.support.drills.scopes import NAMES
from tests.support.fake_systems import FakeSystems

PRODUCT = Path(__file__).parents[4] / "plugins" / "kafka_dr"
CONSTANTS = {
    "PROBE_TOPIC",
    "CANARY_TOPIC",
    "PROGRESS_TOPIC",
    "EXEMPT_TOPIC",
    "EXEMPT_CONNECTOR",
    "CHECK_TRANSACTIONAL_ID",
}
REFUSED = WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 1)


@pytest.fixture
def drilled(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bench whose runs have the names of a drill."""
    monkeypatch.setattr(FakeSystems, "own_names", NAMES.own)
    bench.clusters["primary"].acls = {AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")}
    return bench


def made(bench: Any) -> set[str]:
    """Return the topics on both clusters, but those that a bench begins with."""
    return {name for cluster in bench.clusters.values() for name in cluster.partitions} - {
        "orders",
        "__switchback_probe",
    }


def test_no_action_knows_productions_names() -> None:
    """Each asks its run: a constant in an action would be production's name in a drill, which compares no clusters."""
    knowing = {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        if CONSTANTS & {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    }
    assert knowing == {
        "vocabulary.py",
        "domain/access/acl_differences.py",
        # doctor looks at an installation, and is no procedure.
        "domain/doctor/rights.py",
        "domain/doctor/rights_page.py",
        "domain/own_names.py",
        "domain/readiness/notes.py",
        "hooks/connect/canary_connector.py",
    }


def test_a_drill_is_fenced_and_proven_by_its_own_probe(drilled: Any) -> None:
    """Its entries, its topic, and the topic that a message tells an operator to look at."""
    procedure = drilled.opened()
    drilled.probe_answers = {0: REFUSED}
    with pytest.raises(NotReady, match=NAMES.own.probe):
        refuse_probe_without_rights(procedure)
    fence_writes(procedure, Step.FENCE_PRODUCERS, [NAMES.topic("orders")])
    denied = {entry.name for entry in drilled.clusters["primary"].acls if entry.permission == "deny"}
    assert denied == {NAMES.topic("orders"), NAMES.own.probe} and made(drilled) == {NAMES.own.probe}


def test_a_drill_writes_its_own_canary(drilled: Any) -> None:
    """After the opening, on the target."""
    assert write_canary(drilled.opened()) == {"topic": NAMES.own.canary, "offset": 0}
    assert made(drilled) == {NAMES.own.canary}


def test_a_drill_has_its_own_exempt_canary_copied(drilled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topic, connector and ACL entries."""
    started: list[dict[str, str]] = []
    copies, primary = TopicPartition(NAMES.own.exempt_topic, 0), drilled.clusters["primary"]
    values: list[Any] = []

    def start(like: str, change: Any) -> None:
        started.append(change({"name": like}))
        primary.log_ends[copies] = 1

    def write(topic: str, partition: int, value: bytes) -> WriteAccepted:
        assert topic == NAMES.own.exempt_topic
        values.append(SimpleNamespace(value=value))
        return WriteAccepted(0, 1)

    connector = SimpleNamespace(start=start, refusal=lambda: "", delete=lambda: None)
    monkeypatch.setattr(FakeSystems, "canary_connector", lambda *_: connector)
    monkeypatch.setattr(FakeSystems, "writer", lambda *_: SimpleNamespace(write=write))
    monkeypatch.setattr(FakeSystems, "reader", lambda *_: SimpleNamespace(range=lambda *_: values))
    monkeypatch.setattr("kafka_dr.actions.fencing.exempt_canary._COPY_SECONDS", 2.0)
    assert copy_canary(drilled.opened(), Step.CHECK_READINESS).proven
    assert started[0]["name"] == NAMES.own.exempt_connector and made(drilled) == {NAMES.own.exempt_topic}
