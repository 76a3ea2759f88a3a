"""A topology made from the connectors that Connect's REST API reports."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.config.importing.connect_workers import topology_from_connect
from kafka_dr.config.importing.mirror_maker_properties import Converted
from kafka_dr.config.settings import check_topology
from kafka_dr.errors import BadInput

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="mm2" password="hunter2";'


def config(kind: str, source: str = "east", target: str = "west", **more: str) -> dict[str, str]:
    """The configuration of one of MirrorMaker 2's connectors."""
    clusters = {
        f"{role}.cluster.{key}": value
        for role, alias in (("source", source), ("target", target))
        for key, value in (
            ("alias", alias),
            ("bootstrap.servers", f"{alias}-1:9092"),
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.jaas.config", JAAS),
        )
    }
    return {"connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector", **clusters, **more}


def made(workers: dict[str, dict[str, dict[str, str]]], template: str | None = None) -> Converted:
    """What is made of the workers' connectors."""
    return topology_from_connect(workers, template, lambda *_: (None, ""))


def extra(converted: Converted, name: str) -> Any:
    """The extra of a connection."""
    return converted.connections[name]["extra"]


def test_flows_by_their_own_names_and_workers() -> None:
    """Two source connectors share the topics; the checkpoint connector runs elsewhere; the other flow is a way back."""
    converted = made(
        {
            "connect_west": {
                "orders": config("Source", topics="orders,items", **{"offset-syncs.topic.location": "target"}),
                "payments": config("Source", topics="payments"),
                "beats": config("Heartbeat"),
                "sink": {"connector.class": "com.example.Sink", "topics": "x"},
            },
            "connect_checkpoints": {"points": config("Checkpoint", groups=".*")},
            "connect_east": {
                "back": config("Source", "west", "east"),
                "back-points": config("Checkpoint", "west", "east"),
            },
        }
    )
    topology = check_topology(converted.topology, "made")
    flow, back = topology.flow("east", "west"), topology.flow("west", "east")
    assert (flow.connect, flow.connectors.source) == ("connect_west", ("orders", "payments"))
    assert (flow.connectors.checkpoint.name, flow.connectors.checkpoint.connect) == ("points", "connect_checkpoints")
    assert flow.connectors.heartbeat == "beats"
    assert flow.mirror_maker == {
        "topics": "orders,items,payments",
        "groups": ".*",
        "offset-syncs.topic.location": "target",
    }
    assert (back.connect, back.connectors.names) == ("connect_east", ("back", "back-points"))
    assert topology.clusters["east"].principals.mirror_maker == ("User:mm2",)
    assert extra(converted, "kafka_west")["sasl.password"] == "hunter2"
    assert "hunter2" not in f"{converted.topology} {converted.notes} {converted!r}"
    # The workers' connections exist already.
    assert sorted(converted.to_make) == ["airflow_api", "kafka_dr_journal", "spark_default"]


def test_a_reference_to_a_config_provider_is_no_login() -> None:
    """Connect reports the reference, not the value: a person is told to complete the connection."""
    reference = {"source.cluster.sasl.jaas.config": "${file:/secrets:jaas}"}
    converted = made({"c": {"s": config("Source") | reference, "p": config("Checkpoint") | reference}})
    assert "principals" not in converted.topology["clusters"]["east"]
    assert "sasl.password" not in extra(converted, "kafka_east")
    assert any("kafka_east" in note and "config provider" in note for note in converted.notes)


def test_naming_is_that_of_the_connectors() -> None:
    """A custom class needs its template."""
    custom = {"replication.policy.class": "com.example.Policy"}
    workers = {"c": {"s": config("Source", **custom), "p": config("Checkpoint", **custom)}}
    with pytest.raises(BadInput, match="is a custom replication policy"):
        made(workers)
    assert made(workers, "copy.<source>.<topic>").topology["naming"]["policy_class"] == "com.example.Policy"


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ({"c": {}}, "The Connect workers have no source connector of MirrorMaker 2"),
        ({"c": {"points": config("Checkpoint")}}, "The Connect workers have no source connector of MirrorMaker 2"),
        ({"c": {"s": config("Source")}}, "checkpoint connectors: none"),
        ({"c": {"s": config("Source"), "a": config("Checkpoint"), "b": config("Checkpoint")}}, "connectors: a, b"),
        ({"c": {"s": config("Source"), "p": config("Checkpoint")}, "d": {"t": config("Source")}}, "connectors on c, d"),
    ],
)
def test_what_is_no_flow(workers: dict[str, dict[str, dict[str, str]]], message: str) -> None:
    """What was seen is named, and what to do."""
    with pytest.raises(BadInput) as refused:
        made(workers)
    assert message in str(refused.value)


def test_a_login_that_a_config_provider_holds_leaves_the_principal_unknown_and_says_so() -> None:
    """A topology without MirrorMaker 2's principal would have the fence refuse it."""
    held = {f"{role}.cluster.sasl.jaas.config": "${file:/etc/logins.properties:jaas}" for role in ("source", "target")}
    converted = made({"connect_west": {"source": config("Source", **held), "points": config("Checkpoint", **held)}})
    assert all("principals" not in cluster for cluster in converted.topology["clusters"].values())
    for alias in ("east", "west"):
        (note,) = [note for note in converted.notes if note.startswith(f"{alias}: ")]
        assert "`principals.mirror_maker`" in note and "the fence refuses MirrorMaker 2" in note
    plain = made({"connect_west": {"source": config("Source"), "points": config("Checkpoint")}})
    assert not any("principals.mirror_maker" in note for note in plain.notes)
