"""Read what the trees ask about workers and connectors: from Connect alone, whether or not the clusters answer."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace

from kafka_dr.actions.diagnosis.logins import ROLES, try_connectors_login
from kafka_dr.domain.diagnosis.clusters import ClusterReach
from kafka_dr.domain.diagnosis.connectors import ConnectorFacts
from kafka_dr.domain.diagnosis.workers import WorkerFacts
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.errors import BadInput, ConnectUnavailable, SystemUnavailable
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.run import Run

_WORKER_SECONDS = 15.0
#: How long Connect may take for a rebalance, and how often its state is read meanwhile, in seconds.
_SETTLED_SECONDS, _LOOK_AGAIN_SECONDS = 15.0, 0.5
_NO_LOGIN = re.compile(r"\bHTTP 40[13]\b")


def read_workers(procedure: Run, connectors: FlowConnectors, target_id: str | None) -> list[WorkerFacts]:
    """Return what each of the flow's Connect workers answers."""
    names = [name for name in (*procedure.flow.workers, procedure.flow.stop_hook) if name]
    workers = []
    for (host, hosted), name in zip(connectors.workers, names, strict=False):
        try:
            info = host.worker(timeout=_WORKER_SECONDS)
            if procedure.flow.stop_hook is not None:
                # Of a process without REST API nothing was asked so far.
                host.status(hosted[0], timeout=_WORKER_SECONDS)
            overridden = any(
                "producer.override.bootstrap.servers" in host.config(connector)
                for connector in host.existing(hosted, timeout=_WORKER_SECONDS)
            )
        except SystemUnavailable as error:
            workers.append(WorkerFacts(name, error.seen or error.reason, bool(_NO_LOGIN.search(error.seen))))
        else:
            workers.append(WorkerFacts(name, "", False, info.kafka_cluster_id, target_id, overridden))
    return workers


def read_connectors(
    procedure: Run, connectors: FlowConnectors, own_logins: Mapping[str, ClusterReach]
) -> list[ConnectorFacts]:
    """Return the state of each connector of the flow, and what comes of the logins in its configuration.

    Raises:
        SystemUnavailable: a worker does not answer any more.
    """
    existing, resting = connectors.existing(), _why_at_rest(procedure)
    facts = []
    for name in connectors.names:
        kind = "checkpoint" if name == connectors.checkpoint else "source"
        if name not in existing:
            facts.append(ConnectorFacts(name, kind, state=""))
            continue
        status = _settled_status(connectors, name)
        facts.append(
            ConnectorFacts(
                name=name,
                kind=kind,
                state=status.state,
                tasks=status.tasks,
                traces=status.causes or status.traces,
                enabled=connectors.is_enabled(name) if procedure.flow.stop_hook is None else True,
                logins={role: try_connectors_login(procedure, connectors, name, role) for role in ROLES},
                own_logins=own_logins,
                resting=resting,
            )
        )
    return facts


def _settled_status(connectors: FlowConnectors, name: str) -> ConnectorStatus:
    """Return a connector's state; while Connect assigns or starts it, or a task of it, look again for some seconds."""
    ends_at = time.monotonic() + _SETTLED_SECONDS
    while True:
        status = connectors.status(name)
        stands = status.state in ("STOPPED", "PAUSED")
        passing = not stands and {status.state, *status.tasks.values()} - {"RUNNING", "FAILED", "UNKNOWN"}
        if not passing or time.monotonic() >= ends_at:
            return status
        time.sleep(_LOOK_AGAIN_SECONDS)


def with_needed_tasks(connectors: list[ConnectorFacts], o: Observation) -> list[ConnectorFacts]:
    """Return the connectors, each source connector with whether a topic is there for which it needs a task.

    A checkpoint connector has no task either while it has not looked for a new group, or may not see one: the tree of
    the groups tells these apart.
    """
    sources = o.flow.mirrors.connectors_with(o.scope) if o.scope else frozenset()
    return [replace(one, needs_tasks=one.kind == "source" and one.name in sources) for one in connectors]


def _why_at_rest(procedure: Run) -> str:
    """Return why a stopped connector may be stopped on purpose; "" if no reason is known."""
    lease = procedure.journal.lease(procedure.topology.pair_key(procedure.request.source, procedure.request.target))
    if lease is not None and lease.released_at is None:
        return "procedure"
    reverse = procedure.reverse_flow
    if reverse is None or reverse.stop_hook is not None:
        return ""
    try:
        opposite = procedure.mirror_maker(reverse)
        sources = opposite.workers[0][0].existing(opposite.sources, timeout=_WORKER_SECONDS)
        runs = [opposite.status(name, timeout=_WORKER_SECONDS).running for name in sources]
    except (BadInput, ConnectUnavailable):
        return ""
    return "opposite flow" if runs and all(runs) else ""
