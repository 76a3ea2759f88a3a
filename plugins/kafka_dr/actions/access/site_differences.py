"""Compare both clusters as far as clients depend on them, and save the differences with their commands."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.access.all_differences import brief_differences, list_differences, whole_differences
from kafka_dr.domain.access.differences import Difference
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.procedure.run import Run


def find_differences(procedure: Run, observed: Observation) -> list[Difference]:
    """Return how the target differs from the source for clients; [] in a drill, which leaves production alone."""
    if procedure.in_drill:
        return []
    settings = procedure.systems.connections.kafka(procedure.topology.cluster(observed.target.alias).connection)
    return list_differences(observed, str(settings["bootstrap.servers"]))


def keep_differences(procedure: Run, observed: Observation) -> dict[str, Any]:
    """Save all differences beside the evidence, and return what the plan has of them; {} without a difference."""
    differences = find_differences(procedure, observed)
    if not differences:
        return {}
    receipt = procedure.artifacts.save_json("differences", whole_differences(differences))
    return {**brief_differences(differences), "file": receipt.file, "sha256": receipt.sha256}
