"""Enable one of two opposite flows, and disable the other: a disabled flow copies nothing when resumed.

Under identity naming two flows that both run copy records in a circle. When a program resumes a STOPPED connector, the
connector copies within a second, before anybody can stop it; with `enabled` false MirrorMaker 2 starts no task then.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.config.topology import Flow
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import SourcesToDisable, SourcesToEnable
from kafka_dr.procedure.run import Run


def disable_sources(procedure: Run, step: str, flow: Flow | None) -> tuple[str, ...]:
    """Disable a flow's STOPPED source connectors, and return them; those that are not STOPPED are left alone.

    Nothing is done without a flow, in dedicated mode, and where the directions write to topics of different names.
    """
    if flow is None or flow.connect is None or names_separate_directions(procedure):
        return ()
    worker = procedure.mirror_maker(flow)
    running, there = {status.name for status in worker.not_stopped()}, worker.existing()
    names = tuple(name for name in worker.sources if name in there and name not in running)
    _set_enabled(procedure, step, flow, names, enabled=False)
    return names


def enable_sources(procedure: Run, step: str, flow: Flow) -> None:
    """Enable a flow's source connectors, as a flow needs that is to run."""
    if flow.connect is not None:
        _set_enabled(procedure, step, flow, flow.connectors.source, enabled=True)


def _set_enabled(procedure: Run, step: str, flow: Flow, names: Iterable[str], enabled: bool) -> None:
    worker = procedure.mirror_maker(flow)
    others = [name for name in names if worker.is_enabled(name) != enabled]
    if others:
        intent = SourcesToEnable(enables_connectors=others) if enabled else SourcesToDisable(disables_connectors=others)
        record_fact(procedure.authority, step, intent)
    for name in others:
        procedure.authority.hold()
        worker.set_enabled(name, enabled)
