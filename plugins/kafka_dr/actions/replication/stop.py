"""Stop a flow's MirrorMaker 2, wherever it runs: connectors in a Connect worker, or processes in dedicated mode."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import partitions_of_plan
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.site.stop import StopHook
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import (
    ConnectorsToStop,
    Fact,
    MirrorMakerStopped,
    OldMirrorMakerStopped,
    ProcessesToStop,
    facts_of,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import ResumeReplication, undo_of
from kafka_dr.vocabulary import Step

STOPPED = "STOPPED"
_POLL_SECONDS = 0.2


def parts_of(flow: Flow) -> tuple[str, ...]:
    """Return the names, as in the journal, of the flow's parts that can be stopped.

    The parts are the source connectors and the checkpoint connector; in dedicated mode one part, `source->target`.
    """
    return (f"{flow.source}->{flow.target}",) if flow.connect is None else flow.connectors.names


def stop_flow(
    procedure: Run, step: str, flow: Flow, ask_seconds: float, stop_seconds: float, trusted: bool = True
) -> dict[str, str]:
    """Ask a flow's connectors (dedicated mode: its processes) to stop, and wait; stopped parts get no request.

    The answer of a Connect worker or stop hook does not prove that the flow writes no more; stable log ends of the
    flow's target do.

    Args:
        ask_seconds: timeout of each status request and of each stop request.
        stop_seconds: how long to wait for all connectors together after the requests; 0: do not wait.
        trusted: whether connectors that the worker reports as STOPPED get no request. False for a worker that may have
            been frozen, because such a worker reports states from before the freeze and then executes older requests.
            A request to stop is then sent for every connector, and is the last request that the worker executes.

    Returns:
        Part (connector, or flow in dedicated mode) -> `STOPPED`, or the last state that was read.

    Raises:
        SystemUnavailable: the worker or the hook does not answer; it may have got the request to stop all the same.
    """
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        return _end_processes(procedure, step, hook, flow, ask_seconds)
    states: dict[str, str] = {}
    # The source connectors' worker first: they alone write to clients' topics, and stop if the other worker is away.
    for worker, names in procedure.systems.flow_connectors(flow).workers:
        states |= _stop_connectors(procedure, step, worker, names, ask_seconds, stop_seconds, trusted)
    return states


def _stop_connectors(
    procedure: Run,
    step: str,
    worker: MirrorMaker,
    flow_names: tuple[str, ...],
    ask_seconds: float,
    stop_seconds: float,
    trusted: bool,
) -> dict[str, str]:
    """Stop the flow's connectors of one Connect worker; for parameters and result see `stop_flow`."""
    names = worker.existing(flow_names, timeout=ask_seconds)
    running = [name for name in names if not worker.status(name, timeout=ask_seconds).stopped]
    asked = running if trusted else names
    if asked:
        _ask_connectors(procedure, step, worker, asked, running, ask_seconds)
    return dict.fromkeys(sorted(names), STOPPED) | _wait_for_states(worker, asked, ask_seconds, stop_seconds)


def _ask_connectors(
    procedure: Run, step: str, worker: MirrorMaker, names: list[str], running: list[str], seconds: float
) -> None:
    """Ask the named connectors to stop; if the lease was lost meanwhile, resume the connectors in `running`."""
    new = [name for name in names if stopping_since(procedure, name) is None]
    if new:
        record_fact(procedure.authority, step, ConnectorsToStop(stops_connectors=new))

    def undo() -> None:
        for name in running:
            worker.resume(name, deadline=procedure.request.deadlines.stop_seconds, needs_tasks=False)

    with acting_under(procedure.authority, undo), run_concurrently() as start:
        # Connect ends the connectors' tasks one after the other, and a source that does not answer delays each by a
        # minute. All connectors are asked at once, because no request must wait for another.
        requests = [start(worker.ask_to_stop, name, timeout=seconds) for name in names]
        for request in requests:
            request.result()


def _wait_for_states(worker: MirrorMaker, names: list[str], ask_seconds: float, stop_seconds: float) -> dict[str, str]:
    """Wait until all connectors are STOPPED without tasks, at most `stop_seconds`; return connector -> state."""
    ends_at = time.monotonic() + stop_seconds
    while True:
        statuses = {name: worker.status(name, timeout=ask_seconds) for name in names}
        if all(status.stopped for status in statuses.values()) or time.monotonic() >= ends_at:
            return {name: STOPPED if status.stopped else str(status) for name, status in statuses.items()}
        time.sleep(_POLL_SECONDS)


def stopping_since(procedure: Run, part: str) -> float | None:
    """Return when this run asked a part to stop, in seconds since 1970, by the journal.

    A part is a connector, or in dedicated mode the flow `source->target`. None if the run did not ask, or if the part
    was STOPPED after that.
    """
    entries = [
        entry
        for step in (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE)
        for entry in procedure.journal.entries(procedure.id, step)
    ]
    since = None
    for entry, fact in facts_of(sorted(entries, key=lambda entry: entry.sequence), Fact):
        undo = undo_of(fact)
        match fact:
            case _ if isinstance(undo, ResumeReplication) and part in undo.names:
                since = since or entry.at.timestamp()
            case MirrorMakerStopped(states=states) | OldMirrorMakerStopped(mirror_maker=states) if states:
                since = None if states.get(part) == STOPPED else since
    return since


def _end_processes(procedure: Run, step: str, hook: StopHook, flow: Flow, seconds: float) -> dict[str, str]:
    (name,) = parts_of(flow)
    running = hook.running(name, timeout=seconds)
    if running:
        if stopping_since(procedure, name) is None:
            record_fact(procedure.authority, step, ProcessesToStop(stops_processes=name))
        procedure.authority.hold()
        running = hook.stop(name)
    return {name: STOPPED if running == 0 else f"{running} processes still run"}


def wait_for_stable_target_ends(
    procedure: Run, step: str, remote: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, int]:
    """Wait until no log end of the target moves for `stable_seconds`; return target partition -> log end.

    Once MirrorMaker 2 is stopped, these log ends are the boundary.

    Args:
        remote: target partitions to watch; None: the target partitions of the plan's partitions.
    """
    watched = sorted(remote_partitions(procedure, partitions_of_plan(procedure)).values()) if remote is None else remote

    def still() -> dict[TopicPartition, int]:
        before = procedure.systems.target.ends(watched)
        time.sleep(procedure.request.deadlines.stable_seconds)
        after = procedure.systems.target.ends(watched)
        moving = [str(tp) for tp in watched if after[tp] != before[tp]]
        if moving:
            raise NotYet(f"log ends of the target still move: {first_few(moving)}")
        return after

    return procedure.progress.wait(
        step, "Stable log ends on the target", still, procedure.request.deadlines.stop_seconds
    )
