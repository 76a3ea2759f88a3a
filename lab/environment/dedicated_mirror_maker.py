"""MirrorMaker 2 in dedicated mode for the flow primary->standby: one process, no REST API, no Connect worker."""

from __future__ import annotations

import os
from pathlib import Path

from lab.environment.brokers import admin_client
from lab.environment.connect import (
    FLOWS,
    KINDS,
    POLICIES,
    READY_SECONDS,
    cluster_client,
    login_provider,
    settings_of,
    write_login,
)
from lab.environment.jvm import java_command, properties_text
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, DEDICATED, Lab, write_private

#: The worker group of the process.
GROUP = f"__mm2_{FLOWS['standby'][0]}"
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


def start_dedicated(lab: Lab) -> None:
    """Start MirrorMaker 2's process unless it runs, and wait until the standby has MirrorMaker 2's status topic."""
    source, target = FLOWS["standby"]
    if lab.processes.pid(DEDICATED) is None:
        write_login(lab)
        write_private(_properties_path(lab), properties_text(mirror_maker_properties(lab)))
        heap = os.environ.get("SWITCHBACK_CONNECT_HEAP", "512m")
        # With this target only: else the process too would write heartbeats to the primary, besides its Connect worker.
        argv = java_command(lab, DEDICATED, heap, _MAIN, str(_properties_path(lab)), "--clusters", target)
        lab.processes.start(DEDICATED, argv, dict(os.environ), lab.home)
    client = admin_client(lab, target)
    wait_until(
        lambda: f"mm2-status.{source}.internal" in client.list_topics(timeout=2.0).topics,
        f"{DEDICATED} to work on {target}",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(DEDICATED),
    )


def mirror_maker_properties(lab: Lab) -> dict[str, object]:
    """Return the content of MirrorMaker 2's properties file, with the connector settings of a Connect worker."""
    source, target = FLOWS["standby"]
    flow = f"{source}->{target}"
    return {
        "clusters": ",".join(ALIASES),
        **cluster_client(lab, source, f"{source}."),
        **cluster_client(lab, target, f"{target}."),
        f"{flow}.enabled": "true",
        f"{flow}.tasks.max": "2",
        f"{flow}.errors.tolerance": "none",
        **{f"{flow}.{key}": value for key, value in all_settings(lab).items()},
        "replication.policy.class": POLICIES[lab.load().policy],
        # Settings with a cluster's alias as prefix apply to the worker of the flows to that cluster.
        f"{target}.group.id": GROUP,
        f"{target}.offset.flush.interval.ms": 1000,
        f"{target}.scheduled.rebalance.max.delay.ms": 0,
        f"{target}.plugin.discovery": "service_load",
        "plugin.discovery": "service_load",
        **{f"{part}.storage.replication.factor": 1 for part in ("config", "offset", "status")},
        "offset.storage.partitions": 5,
        "status.storage.partitions": 2,
        **login_provider(lab),
    }


def all_settings(lab: Lab) -> dict[str, str]:
    """Return the settings of all three connectors together, because in dedicated mode each connector gets them all."""
    return {key: value for kind in KINDS for key, value in settings_of(lab, kind).items()}


def _properties_path(lab: Lab) -> Path:
    return lab.home / "arguments" / f"{DEDICATED}.properties"
