"""What of production is compared before and after a drill: rights, topics, connectors and their tasks."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.kafka_model.acl import Authorizer
from kafka_dr.hooks.brokers.descriptions import Settings
from kafka_dr.hooks.connect.connector_state import without_secrets
from kafka_dr.procedure.run import Run

State = dict[str, dict[str, Any]]
#: Beside a connector's settings: differs also if a setting differs that is not shown, such as a password.
_ALL_SETTINGS = "the digest of all settings, hidden ones included,"


def read_production(procedure: Run) -> State:
    """Return kind -> name -> state of what a drill must not touch: a text, or settings by key without secrets.

    Names that only a drill makes are left out.
    """
    systems, state = procedure.systems, State()
    for cluster, acls in ((systems.source, systems.source_acls), (systems.target, systems.target_acls)):
        names = [name for name in cluster.topics() if DRILL not in name]
        settings = cluster.configs(names)
        state[f"topics of {cluster.alias}"] = {
            name: {key: own[key] for key in own.non_default}
            for name in names
            for own in [settings.get(name, Settings({}))]
        }
        if acls.authorizer() is Authorizer.BY_ACL:
            state[f"ACL entries of {cluster.alias}"] = {
                str(entry): "there" for entry in acls.entries() if DRILL not in entry.name
            }
    for worker in production_workers(procedure):
        connectors = systems.drill_connectors(worker).read_all()
        state[f"connectors in {worker}"] = {
            name: {**without_secrets(found.config), _ALL_SETTINGS: digest_of(dict(found.config))[:12]}
            for name, found in connectors.items()
        }
        state[f"tasks in {worker}"] = {
            name: text for found in connectors.values() for name, text in found.tasks.items()
        }
    return state


def production_workers(procedure: Run) -> list[str]:
    """Return the connections of all Connect workers that production's flows name."""
    return list(dict.fromkeys(worker for flow in procedure.topology.flows for worker in flow.workers))
