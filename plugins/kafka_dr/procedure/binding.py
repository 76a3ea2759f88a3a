"""Binds a run to the clusters, addresses and topology with which it began, and refuses every act under others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kafka_dr import __version__
from kafka_dr.config.topology import Topology
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.logins.client_login import user_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.terms import BoundCluster, Terms
from kafka_dr.errors import BindingBroken, SwitchbackError
from kafka_dr.hooks.brokers.client import client_config
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.procedure.entries import Binding, ProcedureOpened, facts_in
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Step

if TYPE_CHECKING:
    from kafka_dr.procedure.run import Run

#: How long a cluster has to state its id, in seconds. A cluster that does not answer delays no step longer than this.
_ID_SECONDS = 3.0


class BoundConnections:
    """Airflow connections of one run; a connection whose address changed since the run began is refused.

    Args:
        connections: reads Airflow's connections.
        binding: the addresses with which the run began.
    """

    def __init__(self, connections: Any, binding: Binding) -> None:
        self.unbound = self._connections = connections
        self._addresses = binding.addresses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connections, name)

    def systems(self, request: Any, topology: Topology) -> Any:
        """Return the clients of all outside systems, which read their connections here."""
        systems = self._connections.systems(request, topology)
        systems.connections = self
        return systems

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return librdkafka's configuration; raise BindingBroken if the connection leads elsewhere by now."""
        config: dict[str, Any] = self._connections.kafka(connection_id)
        self._compare(connection_id, address_of_kafka(config))
        return config

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """Return URL, login and password; raise BindingBroken if the connection leads elsewhere by now."""
        login: tuple[str, str, str] = self._connections.login(connection_id)
        self._compare(connection_id, address_of_login(login))
        return login

    def dns(self, connection_id: str) -> DnsLogin:
        """Return a zone's server and key; raise BindingBroken if the connection leads elsewhere by now."""
        login: DnsLogin = self._connections.dns(connection_id)
        self._compare(connection_id, address_of_dns(login))
        return login

    def archive_options(self, connection_id: str) -> dict[str, Any]:
        """Return the archive's options; raise BindingBroken if they lead elsewhere by now."""
        options: dict[str, Any] = self._connections.archive_options(connection_id)
        self._compare(connection_id, address_of_archive(options))
        return options

    def check_spark(self, connection_id: str) -> None:
        """Refuse what `Connections.check_spark` refuses, and a Spark master other than the run began with."""
        self.login(connection_id)
        self._connections.check_spark(connection_id)

    def _compare(self, connection_id: str, address: str) -> None:
        began_with = self._addresses.get(connection_id)
        if began_with is not None and address != began_with:
            raise _broken([f"connection {connection_id}: {address}, began with {began_with}"])


def address_of_kafka(config: Mapping[str, Any]) -> str:
    """Return where a Kafka client with this configuration connects, and as which user, without secrets."""
    return _address(str(config["bootstrap.servers"]), user_of(config))


def address_of_login(login: tuple[str, str, str]) -> str:
    """Return where an HTTP client with this URL, user and password connects, and as which user, without secrets."""
    return _address(login[0], login[1])


def address_of_dns(login: DnsLogin) -> str:
    """Return where a zone is updated and asked, and by which key, without the secret."""
    return _address(login.address, login.key_name)


def address_of_archive(options: Mapping[str, Any]) -> str:
    """Return the endpoint of an archive's file system, and as which user, without secrets."""
    endpoint = options.get("endpoint_url") or (options.get("client_kwargs") or {}).get("endpoint_url")
    return _address(str(endpoint or "the default endpoint"), options.get("key"))


def _address(where: str, user: Any) -> str:
    # A host, or an issuer, may be written as a URL with a login in it.
    return re.sub(r"//[^/@]*@", "//", f"{where} as {user}" if user else where)


def bound_to(opened: ProcedureOpened | None, connections: Any) -> Any:
    """Return the connections of a run that began as `opened` states; unchanged if `opened` binds the run to none."""
    if opened is None or opened.binding is None:
        return connections
    return BoundConnections(connections, opened.binding)


def bind_run(procedure: Run) -> Binding:
    """Return what a run that begins now is bound to.

    An unplanned failover does not ask its source for the cluster id: it takes the id that an earlier run recorded.
    """
    topology, request = procedure.topology, procedure.request
    connections = procedure.systems.connections
    asked = {alias: procedure.systems.cluster(alias) for alias in answering_clusters(procedure)}
    probe = topology.cluster(request.source).probe_connection
    if probe and request.source in asked:
        # Else a login that the client cannot do would be refused behind the fence.
        client_config(connections.kafka(probe), request.source)
    ids, before = _cluster_ids(asked), _ids_of_last_run(procedure.journal)
    clusters = {}
    for alias in (request.source, request.target):
        servers = str(connections.kafka(topology.cluster(alias).connection)["bootstrap.servers"])
        now, last = ids.get(alias), before.get(alias)
        clusters[alias] = BoundCluster(now or last, servers, last if now and last not in (None, now) else None)
    addresses = _addresses_now(procedure, connections)
    return Binding(clusters=clusters, topology_digest=topology_digest(topology), addresses=addresses)


def topology_digest(topology: Topology) -> str:
    """Return the SHA-256 of the topology's canonical JSON without defaults, in hexadecimal.

    Without defaults, so that a later version, which may have more settings, computes the same digest in the same run.
    Without `notifications`, `metrics`, `drill` and `evidence_kept_days`, so that a recipient, a scrape or a worker of
    drills that is added during a run does not stop the run; nor does a decision that is written down meanwhile, as
    `offset_option` of a flow.
    """
    excluded: Any = dict.fromkeys(("notifications", "metrics", "drill", "evidence_kept_days"), True)
    excluded["flows"] = {"__all__": {"offset_option"}}
    return digest_of(topology.model_dump(mode="json", exclude_defaults=True, exclude=excluded))


def terms_of(procedure: Run) -> dict[str, Any]:
    """Return the terms that the run's plan states, as of `Terms.as_dict`; {} if the run is bound to nothing."""
    opened, topology = procedure.progress.opened, procedure.topology
    if opened is None or opened.binding is None:
        return {}
    stated = topology.deadlines.model_dump()
    changed = {
        name: (stated[name], seconds)
        for name, seconds in procedure.request.deadlines.model_dump().items()
        if seconds != stated[name]
    }
    return Terms(
        opened.binding.clusters,
        opened.binding.topology_digest,
        changed,
        topology.approvers.users,
        topology.approvers.roles,
    ).as_dict()


def refuse_broken_binding(procedure: Run) -> None:
    """Raise BindingBroken if topology, address or cluster differs from the run's beginning; name all differences.

    Raise BindingBroken also if a newer version of Switchback opened the run.

    A cluster that does not answer is not compared; the step's note on anchors names it, too. In an unplanned failover
    only the target is compared: the steps that act on the source call `refuse_other_cluster`.
    """
    opened = procedure.progress.opened
    if opened is None or opened.binding is None:
        return
    _refuse_older_code(opened)
    binding, differences = opened.binding, []
    digest = topology_digest(procedure.topology)
    if digest != binding.topology_digest:
        differences.append(f"topology: digest {digest[:12]}, began with {binding.topology_digest[:12]}")
    for name, address in sorted(_addresses_now(procedure, procedure.systems.connections).items()):
        if address != (began_with := binding.addresses.get(name)):
            differences.append(f"connection {name}: {address}, began with {began_with}")
    if differences:
        raise _broken(differences)
    asked = {alias: _client(procedure, alias) for alias in answering_clusters(procedure)}
    ids = _cluster_ids({alias: client for alias, client in asked.items() if binding.clusters[alias].id})
    differences = [_other_id(alias, now, binding) for alias, now in sorted(ids.items())]
    if any(differences):
        raise _broken([difference for difference in differences if difference])


def _refuse_older_code(opened: ProcedureOpened) -> None:
    """Refuse if a newer version of Switchback opened the run: this one may not know what that one recorded.

    A run that an older version opened goes on, because each version reads the entries of those before.
    """
    if opened.version and _numbers(opened.version) > _numbers(__version__):
        raise BindingBroken(
            "The run began with a newer version of Switchback",
            f"{opened.version} opened the run, this machine has {__version__}",
            f"Install version {opened.version} or newer on every machine that runs a part of Airflow; then clear the"
            " red step.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def refuse_other_cluster(procedure: Run, alias: str, cluster: KafkaCluster) -> None:
    """Raise BindingBroken if `cluster` has another cluster id than the run's cluster `alias`; it must answer."""
    opened = procedure.progress.opened
    if opened is None or opened.binding is None or opened.binding.clusters[alias].id is None:
        return
    if difference := _other_id(alias, cluster.cluster_id(timeout=_ID_SECONDS), opened.binding):
        raise _broken([difference])


def _other_id(alias: str, cluster_id: str | None, binding: Binding) -> str:
    began_with = binding.clusters[alias].id
    same = cluster_id in (None, began_with)
    return "" if same else f"{alias}: cluster id {cluster_id}, began with {began_with}"


def _broken(differences: list[str]) -> BindingBroken:
    return BindingBroken(
        "The run began with another topology, address or cluster",
        first_few(differences, 20),
        "Find out who changed this, and put it back: nothing acts under other terms than those that were approved. Then"
        " clear the red step; or, before open_target has begun, start a new run, whose plan names the new state.",
    )


def _client(procedure: Run, alias: str) -> KafkaCluster:
    systems = procedure.systems
    return systems.source if alias == procedure.request.source else systems.target


def answering_clusters(procedure: Run) -> tuple[str, ...]:
    """Return the aliases of the clusters that have to answer in this procedure."""
    return clusters_to_answer(procedure.identity.dag_id, procedure.request.source, procedure.request.target)


def clusters_to_answer(dag_id: str, source: str, target: str) -> tuple[str, ...]:
    """Return the aliases of the clusters that have to answer in a run of a DAG."""
    definition = PROCEDURES.get(dag_id)
    return (source, target) if definition is None or definition.needs_source else (target,)


def _cluster_ids(clusters: dict[str, KafkaCluster]) -> dict[str, str | None]:
    """Ask the clusters for their ids at once; None for a cluster that does not answer."""

    def ask(cluster: KafkaCluster) -> str | None:
        try:
            return cluster.cluster_id(timeout=_ID_SECONDS)
        except SwitchbackError:
            return None

    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        return dict(zip(clusters, pool.map(ask, clusters.values()), strict=True))


def _ids_of_last_run(journal: Journal) -> dict[str, str]:
    """Return the newest cluster id that the journal has of each alias."""
    openings = facts_in(journal.entries_of_steps([Step.OPEN_PROCEDURE]), ProcedureOpened)
    return {
        alias: cluster.id
        for opened in openings
        if opened.binding
        for alias, cluster in opened.binding.clusters.items()
        if cluster.id
    }


def _addresses_now(procedure: Run, connections: Any) -> dict[str, str]:
    """Return by id where the connections that a run may use lead now, but those of Airflow's API and of the journal."""
    unbound = getattr(connections, "unbound", connections)
    topology, request = procedure.topology, procedure.request
    clusters = [topology.cluster(alias) for alias in (request.source, request.target)]
    flows = [flow for flow in (procedure.flow, procedure.reverse_flow) if flow]
    hooks = [hook for hook in (topology.drain, topology.source_probe, topology.fence_hook, topology.spark) if hook]
    routing = topology.routing
    dns: list[str | None] = [routing.connection] if routing.kind == "dns" else []
    archive = [files.connection for files in (topology.recorder, topology.store) if files]
    kafka = [name for cluster in clusters for name in (cluster.connection, cluster.probe_connection)]
    logins = [name for flow in flows for name in (*flow.workers, flow.stop_hook)]
    logins += [*(hook.connection for hook in hooks), *([routing.connection] if routing.kind == "http" else [])]
    readers: list[tuple[list[str | None], Callable[[str], str]]] = [
        (kafka, lambda name: address_of_kafka(unbound.kafka(name))),
        (logins, lambda name: address_of_login(unbound.login(name))),
        (dns, lambda name: address_of_dns(unbound.dns(name))),
        (archive, lambda name: address_of_archive(unbound.archive_options(name))),
    ]
    return {name: _read_address(read, name) for names, read in readers for name in names if name}


def _read_address(read: Callable[[str], str], connection_id: str) -> str:
    """Return a connection's address; a text that says why it has none, as a run may never use the connection."""
    try:
        return read(connection_id)
    except Exception as error:  # noqa: BLE001 (Airflow and secrets backends raise errors of their own)
        return f"unreadable: {type(error).__name__}"
