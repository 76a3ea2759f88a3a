"""A failed readiness check; and those checks that `switchback doctor` makes, too, so that both say the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MOST_LISTED = 20


@dataclass(frozen=True)
class Blocker:
    """One failed readiness check: its name (`gate`), why it failed, what was observed, and what to do."""

    gate: str
    reason: str
    seen: str
    next_step: str

    def as_dict(self) -> dict[str, str]:
        """Return the blocker as a dict: gate, reason, seen, next_step."""
        return asdict(self)


def one_cluster(source: str, target: str, cluster_id: str) -> Blocker:
    """Return the blocker of two aliases whose connections lead to one cluster."""
    return Blocker(
        "clusters_differ",
        f"The connections of {source} and {target} lead to one cluster",
        f"both have the cluster id {cluster_id}",
        "Correct bootstrap.servers in the Airflow connection that leads to the wrong cluster.",
    )


def worker_elsewhere(worker_cluster: str, target_cluster: str) -> Blocker:
    """Return the blocker of a flow whose Connect worker uses another cluster than the target as its own."""
    return Blocker(
        "worker_writes_to_target",
        "The Connect worker of the flow does not write to the target",
        f"cluster id of the worker {worker_cluster}, of the target {target_cluster}",
        "Run the flow's connectors in the target's Connect cluster, or correct `connect` in the topology.",
    )


def missing_connector(name: str) -> Blocker:
    """Return the blocker of a connector that the topology names, and its Connect worker lacks."""
    return Blocker(
        "connectors_run",
        f"The flow has no connector {name}",
        "the Connect worker has no connector of the name that the topology states",
        "Correct the connector's name under `connectors` of the flow in the topology, or create the connector.",
    )


def worker_too_old(flow: str, version: str) -> Blocker:
    """Return the blocker of a Connect worker that cannot set offsets; `flow`: `source->target`."""
    return Blocker(
        "versions_suffice",
        f"The Connect worker of {flow} is too old to stop a connector and set its offsets safely",
        f"version {version or 'unknown'}; the worker does not know the request PATCH /connectors/NAME/offsets",
        "Upgrade Connect to Kafka 3.6 or newer. If Connect is newer, let this request through whatever stands"
        " between Switchback and the worker.",
    )
