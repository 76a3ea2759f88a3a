"""A topology made from a Strimzi resource KafkaMirrorMaker2, of both API versions."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from kafka_dr.config.importing.mirror_maker_properties import Converted
from kafka_dr.config.importing.strimzi import topology_from_strimzi
from kafka_dr.config.settings import check_topology
from kafka_dr.domain.readiness.owners import OwnerView, labels_of_flow, owner_blockers
from kafka_dr.errors import BadInput

V1BETA2 = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  connectCluster: west
  clusters:
    - alias: east
      bootstrapServers: east-kafka-bootstrap:9093
      tls: {trustedCertificates: [{secretName: east-ca, pattern: "*.crt"}]}
      authentication:
        type: scram-sha-512
        username: mm2
        passwordSecret: {secretName: mm2-east, password: password}
    - alias: west
      bootstrapServers: west-kafka-bootstrap:9093
      tls: {trustedCertificates: [{secretName: west-ca}]}
      authentication: {type: tls, certificateAndKey: {secretName: mm2-west, certificate: user.crt, key: user.key}}
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector:
        tasksMax: 4
        config: {replication.factor: 3, offset-syncs.topic.location: target, sync.topic.acls.enabled: false}
      checkpointConnector: {config: {sync.group.offsets.enabled: "false"}}
      topicsPattern: "orders.*"
      groupsPattern: ".*"
"""
V1 = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  target: {alias: west, bootstrapServers: "west:9092", groupId: mirror}
  mirrors:
    - source: {alias: east, bootstrapServers: "east:9092"}
      sourceConnector: {}
      topicsExcludePattern: "private.*"
"""


def made(text: str) -> Converted:
    """What is made of a resource."""
    return topology_from_strimzi(yaml.safe_load(text), None)


def test_a_resource_with_a_list_of_clusters() -> None:
    """Filters and settings are the flow's; what stands in Secrets is named; the connectors have Strimzi's names."""
    converted = made(V1BETA2)
    topology = check_topology(converted.topology, "made")
    flow = topology.flow("east", "west")
    assert flow.managed_by == "strimzi"
    assert flow.connectors.names == ("east->west.MirrorSourceConnector", "east->west.MirrorCheckpointConnector")
    assert flow.mirror_maker["topics"] == "orders.*" and flow.mirror_maker["sync.topic.acls.enabled"] == "false"
    assert topology.clusters["east"].principals.mirror_maker == ("User:mm2",)
    extras: dict[str, Any] = {alias: converted.connections[f"kafka_{alias}"]["extra"] for alias in ("east", "west")}
    assert extras["east"]["security.protocol"] == "SASL_SSL" and extras["east"]["sasl.username"] == "mm2"
    assert extras["west"]["security.protocol"] == "SSL"
    notes = "\n".join(converted.notes)
    for expected in (
        "key password of the Secret mm2-east",
        "certificates of the Secrets east-ca",
        "type tls stands in Secrets",
        "http://mirror-mirrormaker2-api:8083",
        "Strimzi manages the flows",
        "User:CN=",
    ):
        assert expected in notes


def test_a_resource_with_one_target() -> None:
    """The newer API: the target stands alone, and each mirror has its source."""
    flow = check_topology(made(V1).topology, "made").flow("east", "west")
    assert (flow.connect, dict(flow.mirror_maker)) == ("connect_west", {"topics.exclude": "private.*"})


@pytest.mark.parametrize(
    "resource",
    [
        {},
        {"kind": "Kafka"},
        {"kind": "KafkaMirrorMaker2", "metadata": {"name": "m"}},
        {"kind": "KafkaMirrorMaker2", "metadata": {"name": "m"}, "spec": {"mirrors": [{"sourceCluster": "a"}]}},
        {"kind": "KafkaMirrorMaker2", "metadata": {"name": "m"}, "spec": {"clusters": [{"alias": "a"}], "mirrors": []}},
    ],
)
def test_another_resource(resource: dict[str, Any]) -> None:
    """It says what is missing, and how the resource is printed."""
    with pytest.raises(BadInput, match="kubectl get kafkamirrormaker2"):
        topology_from_strimzi(resource, None)


def test_a_managed_flow_has_an_owner() -> None:
    """As a configuration that names one: no procedure acts unless the owner is paused, acknowledged, and stays away."""
    (label,) = labels_of_flow("east->west", "strimzi")
    assert label == "the topology says that Strimzi manages east->west"
    assert list(labels_of_flow("east->west", None)) == []
    (blocker,) = owner_blockers(OwnerView(labels=(label,), acknowledged=True))
    assert blocker.gate == "nobody_puts_back" and label in blocker.seen
