"""The topology of a drill: production's clusters, and everything else of the drill's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kafka_dr.config.connectors import CheckpointConnector, Connectors
from kafka_dr.config.drill import DrillSettings
from kafka_dr.config.routing import FileRoutingSettings
from kafka_dr.config.storage import RecordExports
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.drill.names import SEPARATOR, DrillNames
from kafka_dr.errors import BadInput

ROUTING_FILE, JOURNAL_FILE, PRIVATE_FOLDER = "routing.json", "journal.db", "private"


def drill_settings(topology: Topology, source: str, target: str) -> DrillSettings:
    """Return the settings by which a canary drill can run between two clusters.

    Raises:
        BadInput: the topology lacks the drill's Connect worker or clients beside one of the clusters.
    """
    settings = topology.drill
    missing = [alias for alias in (source, target) if settings is None or alias not in settings.connect]
    if settings is None or missing:
        raise BadInput(
            "A canary drill needs Connect workers of its own",
            f"`drill.connect` in the topology names none for: {', '.join(missing)}",
            "Start the drill with kind observe; or start a Connect worker group for drills beside each cluster, and"
            " name it and the drill's clients in the topology, as runbooks/failover_drill.md says.",
        )
    return settings


def drill_topology(topology: Topology, source: str, target: str, names: DrillNames, folder: Path) -> Topology:
    """Return the topology under which the passes of a canary drill run.

    No hook of the site, no recorder and no notice is part of it: each would reach beyond the drill.

    Args:
        topology: production's.
        source: source of the drilled flow.
        target: target of the drilled flow.
        names: the drill's names.
        folder: the drill's private folder, for its journal, its routing record and the evidence of its passes.
    """
    settings = drill_settings(topology, source, target)
    clusters = {
        alias: topology.cluster(alias).model_copy(update={"probe_connection": settings.clients[alias]})
        for alias in (source, target)
    }
    flows = tuple(_drill_flow(topology, settings, names, *ends) for ends in ((source, target), (target, source)))
    changed = {
        "clusters": clusters,
        "naming": replace(topology.naming, separator=SEPARATOR, internal_topic_separator=True),
        "flows": flows,
        "routing": FileRoutingSettings(kind="file", path=str(folder / ROUTING_FILE)),
        "evidence": str(folder),
        "drain": None,
        "source_probe": None,
        "fence_hook": None,
        "recorder": None,
        "store": None,
        "exports": RecordExports(),
        "groups": (),
        "applications": (),
        "notifications": (),
        "drill": None,
        "cool_down_seconds": 0.0,
    }
    # Not model_copy, which would keep what production's topology has computed of its naming.
    return Topology(**{name: getattr(topology, name) for name in Topology.model_fields} | changed)


def _drill_flow(topology: Topology, settings: DrillSettings, names: DrillNames, source: str, target: str) -> Flow:
    production = topology.find_flow(source, target)
    return Flow(
        source=source,
        target=target,
        connect=settings.connect[target],
        connectors=Connectors(
            source=(names.source_connector(source, target),),
            checkpoint=CheckpointConnector(name=names.checkpoint_connector(source, target)),
        ),
        isolation=production.isolation if production else "read_uncommitted",
        objectives=production.objectives if production else topology.flows[0].objectives,
    )
