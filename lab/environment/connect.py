"""Start the Connect workers beside each cluster, and create the three MirrorMaker 2 connectors of each flow."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from lab.environment.brokers import LARGEST_MESSAGE
from lab.environment.jvm import java_command, properties_text
from lab.environment.layout.flows import LabFlow
from lab.environment.logins.clients import java_login, java_settings
from lab.environment.production.profile import member_name
from lab.environment.production.transport import rest_settings
from lab.environment.progress import wait_until
from lab.environment.state import DEDICATED, Lab, write_private
from lab.environment.versions.releases import RELEASES, Release

READY_SECONDS = 240.0
KINDS = {
    "source": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "checkpoint": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "heartbeat": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
}
POLICIES = {
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
}
FLOWS = {"standby": ("primary", "standby"), "primary": ("standby", "primary")}
#: The user of MirrorMaker 2 and of Connect's workers.
MIRROR_MAKER = "mm2"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True)
class WorkerProcess:
    """One Connect worker of the lab.

    Args:
        alias: the cluster beside which the worker runs, and in which it keeps its topics.
        name: name of its process, also of its files and of its certificate.
        group: id of its group, also the beginning of the names of its topics.
        url: URL of its REST API.
        heap: value of Java's option -Xmx.
    """

    alias: str
    name: str
    group: str
    url: str
    heap: str


def connector_name(source: str, target: str, kind: str) -> str:
    """Return the name of a connector of the flow `source`->`target`.

    Args:
        source: alias of the cluster that the flow reads.
        target: alias of the cluster to which the flow writes.
        kind: `source`, `checkpoint` or `heartbeat`.
    """
    return f"{source}-to-{target}-{kind}"


def flow_worker(lab: Lab, alias: str, number: int = 1) -> WorkerProcess:
    """Return the Connect worker in which the flow to a cluster runs.

    Args:
        lab: the lab.
        alias: the cluster's alias.
        number: which of the cluster's workers; only the profile `production` has a second one.
    """
    heap = os.environ.get("SWITCHBACK_CONNECT_HEAP", "384m" if lab.load().is_production else "512m")
    name, url = f"connect-{member_name(alias, number)}", lab.connect_urls(alias)[number - 1]
    return WorkerProcess(alias, name, group=f"__connect_{alias}", url=url, heap=heap)


def start_worker(lab: Lab, alias: str, number: int = 1) -> bool:
    """Start the Connect worker of the flow to a cluster, as `serve_worker` does; arguments as of `flow_worker`."""
    return serve_worker(lab, flow_worker(lab, alias, number))


def serve_worker(lab: Lab, worker: WorkerProcess) -> bool:
    """Start a Connect worker unless it runs, and wait for its REST API; return True if it did not run."""
    if started := lab.processes.pid(worker.name) is None:
        write_worker_settings(lab, worker)
        lab.processes.start(worker.name, worker_command(lab, worker), dict(os.environ), lab.home)
    wait_until(
        lambda: call_url(lab, "GET", f"{worker.url}/connectors").status_code == requests.codes.ok,
        f"{worker.name} to serve its connectors",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(worker.name),
    )
    return started


def write_worker_settings(lab: Lab, worker: WorkerProcess) -> None:
    """Write the properties file of a Connect worker, and the file with MirrorMaker 2's login."""
    write_login(lab)
    write_private(_properties_path(lab, worker), properties_text(worker_properties(lab, worker)))


def worker_command(lab: Lab, worker: WorkerProcess) -> list[str]:
    """Write the Java argument file of a Connect worker; return the command that runs the worker."""
    main, version = "org.apache.kafka.connect.cli.ConnectDistributed", lab.load().connect_of(worker.alias)
    return java_command(lab, worker.name, worker.heap, main, str(_properties_path(lab, worker)), version=version)


def create_flows(lab: Lab, worker: str) -> None:
    """Create the connectors of the flows to a worker's cluster: RUNNING or STOPPED, as the lab's layout says.

    The heartbeat connector always runs and writes to the cluster beside its worker; mirrored heartbeats on the other
    cluster show that the worker runs.
    """
    for flow in lab.load().layout.flows:
        if flow.target == worker:
            _create_flow(lab, flow)


def _create_flow(lab: Lab, flow: LabFlow) -> None:
    source, worker = flow.source, flow.target
    existing = call_worker(lab, worker, "GET", "/connectors").json()
    for kind in KINDS:
        name = connector_name(source, worker, kind)
        state = "RUNNING" if flow.runs or kind == "heartbeat" else "STOPPED"
        chosen = {"initial_state": state} if release_of_worker(lab, worker).stops_connectors else {}
        if name not in existing:
            body = {"name": name, "config": connector_config(lab, source, worker, kind), **chosen}
            wait_until(partial(_created, lab, worker, body), f"{name} to be created", READY_SECONDS)
        if state == "STOPPED" and not chosen:
            wait_until(partial(_paused, lab, worker, name), f"{name} to be PAUSED", READY_SECONDS)


def release_of_worker(lab: Lab, alias: str) -> Release:
    """Return what the Kafka version of a cluster's Connect worker needs."""
    return RELEASES[lab.load().connect_of(alias)]


def flow_is_stopped(lab: Lab, worker: str) -> bool:
    """Whether the flow to a cluster mirrors nothing: its source connector is STOPPED or PAUSED.

    In dedicated mode: whether MirrorMaker 2's process has ended.

    Args:
        lab: the lab.
        worker: alias of the cluster to which the flow writes, beside which its Connect worker runs.
    """
    if lab.load().runs_dedicated(worker):
        return lab.processes.pid(DEDICATED) is None
    name = connector_name(*FLOWS[worker], "source")
    answer = call_worker(lab, worker, "GET", f"/connectors/{name}/status")
    return answer.ok and answer.json()["connector"]["state"] in ("STOPPED", "PAUSED")


def call_worker(
    lab: Lab, alias: str, method: str, path: str, body: dict[str, Any] | None = None, number: int = 1
) -> requests.Response:
    """Send one request to the Connect worker of the flow to a cluster; return the answer, also an error."""
    return call_url(lab, method, f"{lab.connect_urls(alias)[number - 1]}{path}", body)


def call_url(lab: Lab, method: str, url: str, body: dict[str, Any] | None = None) -> requests.Response:
    """Send one request to a Connect worker, never through a proxy; return the answer, also an error."""
    with requests.Session() as session:
        session.trust_env = False
        if lab.load().is_production:
            session.verify = str(lab.authority.certificate)
        return session.request(method, url, json=body, timeout=10)


def _created(lab: Lab, worker: str, body: dict[str, Any]) -> bool:
    answer = call_worker(lab, worker, "POST", "/connectors", body)
    # Connect answers 409 also during a rebalance: only a listed name proves that the connector exists.
    return answer.ok or body["name"] in call_worker(lab, worker, "GET", "/connectors").json()


def _paused(lab: Lab, worker: str, name: str) -> bool:
    """Pause a connector of a worker that knows no STOPPED; return whether the connector is PAUSED.

    Until then nothing is copied in a circle: such a worker has default naming only.
    """
    call_worker(lab, worker, "PUT", f"/connectors/{name}/pause")
    state: str = call_worker(lab, worker, "GET", f"/connectors/{name}/status").json()["connector"]["state"]
    return state == "PAUSED"


def connector_config(lab: Lab, source: str, target: str, kind: str) -> dict[str, str]:
    """Return the configuration of a connector of the flow `source`->`target`; it contains no secret.

    In place of the login the configuration has a reference to a file that the Connect worker reads.

    Args:
        lab: the lab.
        source: alias of the cluster that the flow reads.
        target: alias of the cluster to which the flow writes.
        kind: `source`, `checkpoint` or `heartbeat`.
    """
    record = lab.load()
    return {
        "connector.class": KINDS[kind],
        "tasks.max": "2",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        **cluster_client(lab, source, "source.cluster."),
        **cluster_client(lab, target, "target.cluster."),
        "replication.policy.class": POLICIES[record.policy],
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        "errors.tolerance": "none",
        **release_of_worker(lab, target).named(settings_of(lab, kind)),
        **({"heartbeats.replication.enabled": "false"} if kind == "source" and _is_way_back(lab, source) else {}),
    }


def _is_way_back(lab: Lab, source: str) -> bool:
    """Whether the flows that read a cluster are STOPPED in a new lab."""
    return source == "standby" and not lab.load().layout.always


def settings_of(lab: Lab, kind: str) -> dict[str, str]:
    """Return those settings of a kind of connector that are the same in a Connect worker and in dedicated mode.

    Args:
        lab: the lab.
        kind: `source`, `checkpoint` or `heartbeat`.
    """
    lab_settings: dict[str, Callable[[], dict[str, str]]] = {
        "checkpoint": _checkpoint_intervals,
        "source": lambda: {"source.consumer.isolation.level": lab.load().isolation},
    }
    own = {**_OF_KIND[kind], **lab_settings.get(kind, dict)()}
    replicas = str(lab.load().replicas)
    return {key: replicas if key.endswith("replication.factor") else value for key, value in own.items()}


# Without these settings stopping a connector takes up to a minute if the source does not answer.
_DEAD_SOURCE = {"source.admin.default.api.timeout.ms": "5000", "source.admin.request.timeout.ms": "4000"}
_SYNCS = {"offset-syncs.topic.location": "target", "offset-syncs.topic.replication.factor": "1"}
_OF_KIND = {
    "source": {
        "topics": ".*",
        "topics.exclude": r"__.*,.*\.replica,mm2.*\.internal,.*\.checkpoints\.internal"
        r",heartbeats,(primary|standby|third)\.heartbeats,.*switchback-drill.*",
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "producer.override.max.request.size": str(LARGEST_MESSAGE),
        **_SYNCS,
        **_DEAD_SOURCE,
    },
    "checkpoint": {
        "groups": ".*",
        "groups.exclude": "console-consumer-.*,connect-.*,__.*",
        "sync.group.offsets.enabled": "false",
        "checkpoints.topic.replication.factor": "1",
        **_SYNCS,
        **_DEAD_SOURCE,
    },
    "heartbeat": {"heartbeats.topic.replication.factor": "1", "emit.heartbeats.interval.seconds": "1"},
}


def _checkpoint_intervals() -> dict[str, str]:
    """Return the intervals of group refresh and checkpoints; SWITCHBACK_EMIT_CHECKPOINTS is read at each call.

    MirrorMaker 2 refuses a checkpoint connector whose checkpoints are disabled. A lab without checkpoints has intervals
    of a day instead: the connector has no groups when it starts, and refreshes its groups a day later.
    """
    has_checkpoints = os.environ.get("SWITCHBACK_EMIT_CHECKPOINTS", "true") == "true"
    refresh, emit = ("2", "1") if has_checkpoints else ("86400", "86400")
    return {"refresh.groups.interval.seconds": refresh, "emit.checkpoints.interval.seconds": emit}


def cluster_client(lab: Lab, alias: str, prefix: str) -> dict[str, str]:
    """Return MirrorMaker 2's client settings for a cluster, each key with `prefix`; `write_login` writes the login."""
    record = lab.load()
    settings = {
        "bootstrap.servers": lab.bootstrap_servers(alias),
        **java_settings(record, lab.authority, alias, MIRROR_MAKER),
    }
    if java_login(record, lab.authority, alias, MIRROR_MAKER):
        settings["sasl.jaas.config"] = f"${{file:{_secrets_path(lab)}:login_{alias}}}"
    return {f"{prefix}{key}": value for key, value in settings.items()}


def worker_properties(lab: Lab, worker: WorkerProcess) -> dict[str, object]:
    """Return the content of a Connect worker's properties file."""
    alias, group = worker.alias, worker.group
    return {
        **cluster_client(lab, alias, ""),
        **cluster_client(lab, alias, "producer."),
        **cluster_client(lab, alias, "consumer."),
        **cluster_client(lab, alias, "admin."),
        "group.id": group,
        "listeners": worker.url,
        "rest.advertised.host.name": urlsplit(worker.url).hostname,
        **rest_settings(lab, worker.name, worker.url),
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        **{f"{part}.storage.topic": f"{group}_{part}s" for part in ("config", "offset")},
        "status.storage.topic": f"{group}_status",
        **{f"{part}.storage.replication.factor": lab.load().replicas for part in ("config", "offset", "status")},
        "offset.storage.partitions": 5,
        "status.storage.partitions": 2,
        "offset.flush.interval.ms": 1000,
        "scheduled.rebalance.max.delay.ms": 0,
        "connector.client.config.override.policy": "All",
        **({"plugin.discovery": "service_load"} if release_of_worker(lab, alias).plugin_discovery else {}),
        **login_provider(lab),
    }


def login_provider(lab: Lab) -> dict[str, object]:
    """Return the Connect worker settings by which configurations can refer to the file with MirrorMaker 2's login."""
    return {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": _secrets_path(lab).parent,
    }


def write_login(lab: Lab) -> None:
    """Write MirrorMaker 2's login on both clusters to a file of mode 0600."""
    record = lab.load()
    logins = {f"login_{alias}": java_login(record, lab.authority, alias, MIRROR_MAKER) for alias in record.aliases}
    write_private(_secrets_path(lab), properties_text(dict(logins)))


def _secrets_path(lab: Lab) -> Path:
    return lab.home / "arguments" / "mirror-maker" / "login.properties"


def _properties_path(lab: Lab, worker: WorkerProcess) -> Path:
    return lab.home / "arguments" / f"{worker.name}.properties"
