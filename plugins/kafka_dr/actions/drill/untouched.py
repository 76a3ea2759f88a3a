"""What of production is compared before and after a drill: rights, topics, connectors and their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.drill.names import DRILL
from kafka_dr.domain.kafka_model.acl import Authorizer
from kafka_dr.domain.readiness.fingerprint import digest_of_text
from kafka_dr.procedure.run import Run

State = dict[str, dict[str, str]]


def read_production(procedure: Run) -> State:
    """Return kind -> name -> state of what a drill must not touch; configurations and settings as digests.

    Names that only a drill makes are left out.
    """
    systems, state = procedure.systems, State()
    for cluster, acls in ((systems.source, systems.source_acls), (systems.target, systems.target_acls)):
        topics = {name: info for name, info in cluster.topics().items() if DRILL not in name}
        settings = cluster.configs(topics)
        state[f"topics of {cluster.alias}"] = {
            name: f"id {info.topic_id}, {len(info.partitions)} partitions, {_digest_of(settings.get(name, {}))}"
            for name, info in topics.items()
        }
        if acls.authorizer() is Authorizer.BY_ACL:
            state[f"ACL entries of {cluster.alias}"] = {
                str(entry): "there" for entry in acls.entries() if DRILL not in entry.name
            }
    for worker in production_workers(procedure):
        connectors = systems.drill_connectors(worker).read_all()
        state[f"connectors in {worker}"] = {name: _digest_of(found.config) for name, found in connectors.items()}
        state[f"tasks in {worker}"] = {
            name: text for found in connectors.values() for name, text in found.tasks.items()
        }
    return state


def _digest_of(settings: Mapping[str, Any]) -> str:
    return digest_of_text(json.dumps(dict(settings), sort_keys=True))


def production_workers(procedure: Run) -> list[str]:
    """Return the connections of all Connect workers that production's flows name."""
    return list(dict.fromkeys(worker for flow in procedure.topology.flows for worker in flow.workers))
