"""Converts a Strimzi resource KafkaMirrorMaker2 into a topology, whose flows can be observed only.

Strimzi resumes a connector that is stopped over Connect's REST API, and puts ACL entries back: so no procedure may act
on such a flow while Strimzi reconciles it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kafka_dr.config.importing.mirror_maker_properties import Converted, FlowHandle, topology_from_settings
from kafka_dr.errors import BadInput

KIND = "KafkaMirrorMaker2"
_MECHANISMS = {"scram-sha-512": "SCRAM-SHA-512", "scram-sha-256": "SCRAM-SHA-256", "plain": "PLAIN"}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_PORT = 8083
_OBSERVED = (
    "Strimzi manages the flows, so Switchback observes them (readiness_check, diagnose_replication, record_positions,"
    " reconcile_clusters); a procedure that acts is refused unless Strimzi's reconciliation is paused and the run"
    " acknowledges the owner"
)
_PRINCIPAL = (
    "state MirrorMaker 2's principal under `principals.mirror_maker`: User:CN=, and the name of its KafkaUser, which is"
    " often that of its Secret"
)


def topology_from_strimzi(resource: Mapping[str, Any], template: str | None) -> Converted:
    """Return the topology, connections and notes made from a resource, of the API v1beta2 or v1; write no file.

    Passwords and certificates are in Secrets, which the resource only names: the notes say which.

    Args:
        resource: the resource's content.
        template: how a custom replication policy class names topics, as of `topology_from_properties`.

    Raises:
        BadInput: the resource is another one, or has no cluster or no mirror that can be read.
    """
    try:
        settings, notes = _settings_of(resource)
        name = str(resource["metadata"]["name"])
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"The resource {KIND} cannot be read",
            f"{type(error).__name__}: {error}",
            f"give the resource as `kubectl get kafkamirrormaker2 NAME -o yaml` prints it, of kind {KIND}",
        ) from None

    def handle(source: str, target: str) -> FlowHandle:
        kinds = {"source": "Source", "checkpoint": "Checkpoint"}
        names = {kind: f"{source}->{target}.Mirror{word}Connector" for kind, word in kinds.items()}
        return FlowHandle(f"connect_{target}", names, {"managed_by": "strimzi"})

    converted = topology_from_settings(settings, handle, template, lambda *_: (None, _PRINCIPAL))
    address = f"http://{name}-mirrormaker2-api:{_PORT}"
    network = (
        f"Connect's REST API is {address} inside Kubernetes; Strimzi's NetworkPolicy admits only its own pods, so add a"
        " policy that admits Airflow's workers"
    )
    return replace(converted, notes=[*converted.notes, *notes, network, _OBSERVED])


def _settings_of(resource: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return settings by the keys of an mm2.properties file, and notes on what the resource does not hold."""
    if resource.get("kind") != KIND:
        raise KeyError(f"kind {resource.get('kind')!a}")
    spec = resource["spec"]
    clusters = {str(cluster["alias"]): cluster for cluster in _clusters(spec)}
    settings, notes = {"clusters": ", ".join(clusters)}, list[str]()
    for alias, cluster in clusters.items():
        client, missing = _client(alias, cluster)
        settings |= {f"{alias}.{key}": value for key, value in client.items()}
        notes += missing
    for mirror in spec["mirrors"]:
        source = str(mirror["sourceCluster"] if "sourceCluster" in mirror else mirror["source"]["alias"])
        target = str(mirror["targetCluster"] if "targetCluster" in mirror else spec["target"]["alias"])
        flow = f"{source}->{target}"
        settings[f"{flow}.enabled"] = "true"
        for part in ("checkpointConnector", "sourceConnector"):
            stated = (mirror.get(part) or {}).get("config") or {}
            settings |= {f"{flow}.{key}": _text(value) for key, value in stated.items()}
        settings |= {f"{flow}.{key}": str(mirror[name]) for name, key in _PATTERNS.items() if name in mirror}
    return settings, notes


def _clusters(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the clusters of a resource: v1beta2 lists them, v1 has one target and the source of each mirror."""
    if "clusters" in spec:
        yield from spec["clusters"]
        return
    yield from (mirror["source"] for mirror in spec["mirrors"])
    yield spec["target"]


def _client(alias: str, cluster: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the connection settings of a cluster, and notes on what stands in Secrets."""
    login, tls = cluster.get("authentication") or {}, cluster.get("tls")
    kind = str(login.get("type", ""))
    client = {"bootstrap.servers": str(cluster["bootstrapServers"])}
    notes = []
    if kind in _MECHANISMS:
        module = "plain.PlainLoginModule" if kind == "plain" else "scram.ScramLoginModule"
        user = str(login.get("username", ""))
        client["sasl.mechanism"] = _MECHANISMS[kind]
        client["sasl.jaas.config"] = f'org.apache.kafka.common.security.{module} required username="{user}";'
        secret = login.get("passwordSecret") or {}
        notes.append(
            f"kafka_{alias}: put the password of {user}, key {secret.get('password')} of the Secret"
            f" {secret.get('secretName')}, into the connection as sasl.password"
        )
    elif kind:
        notes.append(f"kafka_{alias}: the login of type {kind} stands in Secrets; add its settings to the connection")
    if tls is not None:
        names = [str(one.get("secretName")) for one in (tls or {}).get("trustedCertificates") or []]
        secrets = f"the Secrets {', '.join(names)}" if names else "the CA, as the resource names no Secret"
        notes.append(f"kafka_{alias}: add ssl.ca.pem with the certificates of {secrets}")
    secure = "SSL" if tls is not None else "PLAINTEXT"
    client["security.protocol"] = f"SASL_{secure}" if kind in _MECHANISMS else secure
    return client, notes


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
