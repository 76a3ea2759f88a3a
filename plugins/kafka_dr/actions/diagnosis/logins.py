"""Try logins to both clusters: Switchback's own, and those in the connectors' configurations."""

from __future__ import annotations

from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.importing.client_settings import for_librdkafka, principal_of
from kafka_dr.domain.diagnosis.clusters import NOT_TRIED, ClusterReach, Reach
from kafka_dr.errors import BadInput, KafkaUnavailable, SystemUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.hooks.open_ports import accepts_connection
from kafka_dr.procedure.run import Run

_LOGIN_SECONDS, _CONNECT_SECONDS = 8.0, 2.0
#: Errors of the Kafka client that only a running broker can cause.
_REFUSED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"})
ROLES = ("source", "target")


def alias_of(procedure: Run, role: str) -> str:
    """Return the alias of the cluster in a role, `source` or `target`."""
    return procedure.request.source if role == "source" else procedure.request.target


def try_own_logins(procedure: Run) -> dict[str, ClusterReach]:
    """Return role -> what came of Switchback's own login to that cluster."""

    def tried(role: str) -> ClusterReach:
        alias = alias_of(procedure, role)
        try:
            settings = procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)
            cluster = procedure.systems.cluster(alias)
        except BadInput as error:
            return ClusterReach(Reach.UNREACHABLE, str(error))
        return _try_login(cluster, str(settings.get("bootstrap.servers", "")))

    with run_concurrently() as start:
        answers = {role: start(tried, role) for role in ROLES}
    return {role: answer.result() for role, answer in answers.items()}


def try_connectors_login(procedure: Run, connectors: FlowConnectors, name: str, role: str) -> ClusterReach:
    """Return what comes of the login to one side in a connector's configuration.

    Of a login that the configuration only refers to (`${file:...}`), that Connect masks, or that the Kafka client here
    cannot do, only the addresses are tried.
    """
    java = connectors.client_settings(name, role)
    settings = for_librdkafka(java).extra
    hidden = any("${" in value or (value and not value.strip("*")) for value in java.values())
    needs_store = "ssl.truststore.location" in java and not {"ssl.ca.location", "ssl.ca.pem"} & settings.keys()
    servers = settings.get("bootstrap.servers", "${")
    if "${" in servers:
        return NOT_TRIED
    if hidden or needs_store:
        return NOT_TRIED if _open_ones(servers) else _unreachable(servers)
    try:
        cluster = procedure.systems.cluster_as(alias_of(procedure, role), settings)
    except (BadInput, SystemUnavailable):
        return NOT_TRIED
    return _try_login(cluster, servers)


def principals_of(procedure: Run, connectors: FlowConnectors | None, role: str) -> frozenset[str]:
    """Return as whom MirrorMaker 2 works on one side: by the connectors' own logins, else by the topology.

    Args:
        connectors: None if no worker answers.
    """
    stated = frozenset(procedure.topology.cluster(alias_of(procedure, role)).principals.mirror_maker)
    if connectors is None:
        return stated
    logins = {principal_of(connectors.client_settings(name, role)) for name in connectors.existing()}
    return frozenset(filter(None, logins)) or stated


def _open_ones(servers: str) -> list[str]:
    """Return those of the bootstrap servers that accept a connection."""
    addresses = [address.strip() for address in servers.split(",")]
    return [address for address in addresses if accepts_connection(address, _CONNECT_SECONDS)]


def _unreachable(servers: str) -> ClusterReach:
    return ClusterReach(Reach.UNREACHABLE, f"no connection to {servers}")


def _try_login(cluster: KafkaCluster, servers: str) -> ClusterReach:
    try:
        return ClusterReach(Reach.ANSWERS, cluster_id=cluster.cluster_id(timeout=_LOGIN_SECONDS))
    except KafkaUnavailable as error:
        if cluster.complaints() & _REFUSED:
            return ClusterReach(Reach.REFUSES_LOGIN, error.seen)
        if open_ones := _open_ones(servers):
            return ClusterReach(Reach.SILENT, f"{', '.join(open_ones)} accepts connections; {error.seen}")
        return _unreachable(servers)
    except BadInput as error:
        return ClusterReach(Reach.UNKNOWN, error.reason)
    finally:
        cluster.close()
