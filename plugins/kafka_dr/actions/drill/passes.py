"""What a drill's passes need: whether they run, clients that read, the cut of the source, and their evidence."""

from __future__ import annotations

import json
from typing import Any

from kafka_dr.config.drill_topology import drill_settings
from kafka_dr.domain.drill.connectors import without_source
from kafka_dr.procedure.drill_run import ACTIVE_GROUP, PrivateInstallation
from kafka_dr.procedure.entries import DrillPrepared, PassEnded
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Outcome, Step

PASSES = (Step.RUN_PLANNED_FAILOVER, Step.RUN_FAILBACK, Step.RUN_UNPLANNED_FAILOVER, Step.RUN_SECOND_FAILBACK)


def why_not_run(procedure: Run, kind: str, step: str) -> str:
    """Return why a pass is not run; empty if it is."""
    if kind != "canary":
        return f"a drill of kind {kind} has no passes of its own"
    prepared = procedure.progress.done(DrillPrepared)
    if prepared is None or not prepared.prepared:
        return "the drill's topics, groups and connectors were not made"
    for earlier in PASSES[: PASSES.index(Step(step))]:
        ended = next(iter(reversed(procedure.progress.facts(PassEnded, earlier))), None)
        if ended is None or ended.pass_outcome != Outcome.COMPLETED:
            return f"{earlier} did not complete"
    return ""


def require_reading_clients(private: PrivateInstallation, procedure: Run, alias: str) -> None:
    """Look whether the drill's consumer has committed a position on a cluster.

    A pass awaits on the other cluster only groups that were active when the pass made its plan.

    Raises:
        NotYet: the drill's group has no position there.
    """
    systems, group = private.systems_of(procedure), private.names.group(ACTIVE_GROUP)
    cluster = systems.source if alias == procedure.request.source else systems.target
    if not any(position.offset > 0 for position in cluster.positions([group])[group].values()):
        raise NotYet(f"{group} has committed no position on {alias}")


def pass_evidence(private: PrivateInstallation, procedure_id: str) -> tuple[str | None, dict[str, Any]]:
    """Return path and content of a pass's evidence; (None, {}) if it left none that can be read."""
    path = private.folder / procedure_id / "evidence.json"
    try:
        return str(path), json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None, {}


def begin_cut(private: PrivateInstallation, procedure: Run) -> None:
    """Give the drill's MirrorMaker 2 an address of the source that leads nowhere, as if the source were lost."""
    _change_source(private, procedure, cut=True)


def end_cut(private: PrivateInstallation, procedure: Run) -> None:
    """Give the drill's MirrorMaker 2 the source's address again."""
    _change_source(private, procedure, cut=False)


def _change_source(private: PrivateInstallation, procedure: Run, cut: bool) -> None:
    production = procedure.topology.flow(private.source, private.target)
    flow = private.topology.flow(private.source, private.target)
    systems = private.systems_of(procedure)
    worker = systems.drill_connectors(drill_settings(procedure.topology, flow.source, flow.target).connect[flow.target])
    like = production.connectors.source[0]
    stated = procedure.systems.drill_connectors(production.worker).read_config(like)
    address = {"source.cluster.bootstrap.servers": stated["source.cluster.bootstrap.servers"]}
    for name in flow.connectors.names:
        worker.change(name, lambda config: without_source(config) if cut else dict(config) | address)
