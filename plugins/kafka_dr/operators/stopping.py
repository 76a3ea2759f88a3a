"""Stop a flow's MirrorMaker 2, wherever it runs: connectors in a Connect worker, or processes in dedicated mode."""

from __future__ import annotations

from kafka_dr.errors import DeadlinePassed
from kafka_dr.hooks.mirror_maker import MirrorMaker
from kafka_dr.hooks.stop_hook import StopHook
from kafka_dr.operators.procedure import Procedure
from kafka_dr.topology import Flow
from kafka_dr.vocabulary import Entry

STOPPED = "STOPPED"


def stop_flow(procedure: Procedure, step: str, flow: Flow, ask_seconds: float, stop_seconds: float) -> dict[str, str]:
    """Stop what replicates a flow; what stands already is not asked, and leaves no entry in the journal.

    What a stop hook says is no proof: the target's still log ends are.

    Args:
        ask_seconds: how long each may take to say how it stands.
        stop_seconds: how long each may take to stop.

    Returns:
        State by connector, or by flow in dedicated mode; `STOPPED` where it stands.

    Raises:
        SystemUnavailable: the worker or the hook does not answer.
        DeadlinePassed: a connector does not stop in time.
    """
    hook = procedure.stop_hook(flow)
    if hook is not None:
        return _end_processes(procedure, step, hook, flow, ask_seconds)
    worker = procedure.mirror_maker(flow)
    there = set(worker.connectors(timeout=ask_seconds)) & {flow.connectors.source, flow.connectors.checkpoint}
    runs = [name for name in sorted(there, key=lambda n: n != flow.connectors.source) if not worker.status(name, timeout=ask_seconds).stopped]
    if runs:
        _stop_connectors(procedure, step, worker, runs, stop_seconds)
    return dict.fromkeys(sorted(there), STOPPED)


def _stop_connectors(procedure: Procedure, step: str, worker: MirrorMaker, names: list[str], seconds: float) -> None:
    procedure.write(step, Entry.INTENT, {"stops_connectors": names})

    def undo() -> None:
        for name in names:
            worker.resume(name, deadline=seconds, needs_tasks=False)

    late: list[DeadlinePassed] = []
    with procedure.acting(undo):
        for name in names:
            try:
                worker.stop(name, deadline=seconds)
            except DeadlinePassed as error:
                # The others are asked all the same.
                late.append(error)
    if late:
        raise late[0]


def _end_processes(procedure: Procedure, step: str, hook: StopHook, flow: Flow, seconds: float) -> dict[str, str]:
    name = f"{flow.source}->{flow.target}"
    running = hook.running(name, timeout=seconds)
    if running:
        procedure.write(step, Entry.INTENT, {"stops_processes": name})
        procedure.hold_lease()
        running = hook.stop(name)
    return {name: STOPPED if running == 0 else f"{running} processes still run"}
