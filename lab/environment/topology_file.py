"""Write a lab's topology file (for the product) and routing record (for clients)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from lab.environment.connect import KINDS, connector_name
from lab.environment.dedicated_mirror_maker import GROUP, all_settings
from lab.environment.drills.markers import ENVIRONMENT
from lab.environment.logins.clients import principal_name
from lab.environment.production.profile import BUCKET, STORE
from lab.environment.signing_keys import public_key_of
from lab.environment.state import ALIASES, DRILL_CLIENT, Lab, write_private

#: Objectives of both flows, so that every run shows how it compares with them.
OBJECTIVES = {"rto_seconds": 300, "rpo_seconds": 60, "tier": "1", "basis": "lab"}
NAMING = {"identity": {"policy": "identity"}, "default": {"policy": "default", "separator": "."}}


def write_topology(lab: Lab) -> None:
    """Write the topology file; addresses and passwords are in the Airflow connections that the topology names."""
    write_private(lab.topology, yaml.safe_dump(topology_settings(lab), sort_keys=False))


def write_routing(lab: Lab) -> None:
    """Write a routing record that names the primary; leave an existing record, which a failover may have written."""
    if not lab.routing.exists():
        record = {"cluster": "primary", "bootstrap_servers": lab.bootstrap_servers("primary"), "version": 1}
        lab.routing.write_text(json.dumps(record))


def topology_settings(lab: Lab) -> dict[str, Any]:
    """Return the content of the topology file, in the form in which the product reads it."""
    record = lab.load()
    return {
        "clusters": {alias: _cluster(lab, alias) for alias in record.aliases},
        "naming": NAMING[record.policy],
        "flows": [_flow(lab, flow.source, flow.target) for flow in record.layout.flows],
        "drain": {"connection": "drain_app"},
        # The demo application serves drain hook and source probe; while it does not run, the probe gets no answer.
        "source_probe": {"connection": "drain_app"},
        "routing": _routing(lab),
        "journal": {"connection": "kafka_dr_journal", "public_keys": [public_key_of(lab.journal_key)]},
        "airflow_api": {"connection": "airflow_api"},
        "spark": {"connection": "spark_default"},
        "evidence": str(lab.evidence),
        "evidence_kept_days": 1826,
        **_storage(lab),
        "metrics": {"connection": "switchback_metrics"},
        "cool_down_seconds": 0,
        **({} if record.published else {"drill": _drill(lab)}),
    }


def _storage(lab: Lab) -> dict[str, Any]:
    """Return the topology's settings of the recorder's archive, and of the store, if the lab has one."""
    keys = {"public_keys": [public_key_of(lab.recorder_key)]}
    if STORE not in lab.load().hosts:
        return {"recorder": {"archive": f"file://{lab.archive}", **keys}}
    connection = {"connection": "switchback_store"}
    return {
        "store": {"uri": store_uri(lab, lab.evidence), **connection},
        "recorder": {"archive": store_uri(lab, lab.archive), **connection, **keys},
    }


def store_uri(lab: Lab, folder: Path) -> str:
    """Return the URI in the lab's store for the files that belong into a folder of the lab."""
    return f"s3://{BUCKET}/{folder.relative_to(lab.root).as_posix()}"


def _drill(lab: Lab) -> dict[str, Any]:
    """Return the topology's settings of drills; without workers only drills that observe can run."""
    own: dict[str, Any] = {"environment": ENVIRONMENT, "scheduled": False}
    if lab.load().has_drill_workers:
        own |= {"connect": {alias: f"connect_drill_{alias}" for alias in ALIASES}}
        own |= {"clients": {alias: f"kafka_{alias}_drill" for alias in ALIASES}}
        own |= {"principals": sorted({_principal(lab, alias, DRILL_CLIENT) for alias in ALIASES})}
    return own


def _routing(lab: Lab) -> dict[str, str]:
    """Return the topology's routing settings: a file, or for a lab in containers the application's HTTP hook."""
    if lab.load().published:
        return {"kind": "http", "connection": "client_routing"}
    return {"kind": "file", "path": str(lab.routing)}


def _cluster(lab: Lab, alias: str) -> dict[str, Any]:
    users = {"mirror_maker": "mm2", "orchestrator": "orchestrator", "exempt": "admin"}
    return {
        "connection": f"kafka_{alias}",
        "probe_connection": f"kafka_{alias}_probe",
        "principals": {role: [_principal(lab, alias, user)] for role, user in users.items()},
    }


def _principal(lab: Lab, alias: str, user: str) -> str:
    return f"User:{principal_name(lab.load().login_of(alias), user)}"


def _flow(lab: Lab, source: str, target: str) -> dict[str, Any]:
    if lab.load().runs_dedicated(target):
        return _dedicated_flow(lab, source, target)
    return {
        "source": source,
        "target": target,
        **({"runs": "always"} if lab.load().layout.always else {}),
        "connect": f"connect_{target}",
        "connectors": {kind: connector_name(source, target, kind) for kind in KINDS},
        "objectives": dict(OBJECTIVES),
        **_offset_option(lab),
    }


def _dedicated_flow(lab: Lab, source: str, target: str) -> dict[str, Any]:
    """Return the topology's settings of a flow in dedicated mode.

    The settings include MirrorMaker 2's, because in dedicated mode no REST API returns MirrorMaker 2's settings.
    """
    return {
        "source": source,
        "target": target,
        "stop_hook": "stop_mirror_maker",
        "connectors": {kind: name.rpartition(".")[2] for kind, name in KINDS.items()},
        "isolation": lab.load().isolation,
        "mirror_maker": {**all_settings(lab), "group.id": GROUP},
        "objectives": dict(OBJECTIVES),
        **_offset_option(lab),
    }


def _offset_option(lab: Lab) -> dict[str, Any]:
    """Return the topology's record of the flow's offset option: none where MirrorMaker 2 syncs no position."""
    if lab.load().policy != "default":
        return {}
    return {"offset_option": {"option": "prefix_in_application", "reason": "the lab's clients subscribe to both names"}}
