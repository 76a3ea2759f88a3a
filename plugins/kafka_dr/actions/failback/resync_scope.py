"""Scope of the flow back (source -> returned cluster), the failover before the failback, and shared refusals."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.config.settings import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.procedure.entries import FlowBackSeeded, StrandedRecordsFound
from kafka_dr.procedure.run import Run

_ASK_SECONDS = 10.0


def refuse_dedicated(procedure: Run) -> None:
    """Refuse a pair with a flow in dedicated mode: offsets cannot be set there, nor connectors resumed."""
    dedicated = [
        f"{flow.source}->{flow.target}"
        for flow in (procedure.flow, procedure.reverse_flow)
        if flow is not None and flow.connect is None
    ]
    if dedicated:
        raise NotReady(
            f"MirrorMaker 2 of {' and '.join(dedicated)} runs in dedicated mode, without a REST API",
            "a flow that cannot be told where to begin would copy everything again",
            "Run its connectors in a Connect worker, and name that under `connect` in the topology; then start a new"
            " run.",
        )


def failed_over(procedure: Run) -> Run:
    """The procedure that moved clients off the returned cluster, as find_stranded_records named it.

    Raises:
        Contradiction: the procedure is not in the journal, or moved clients in the other direction.
    """
    name = procedure.progress.require(StrandedRecordsFound).after
    failover = procedure.other(name)
    direction = (procedure.request.target, procedure.request.source)
    if failover is None or (failover.request.source, failover.request.target) != direction:
        raise Contradiction(
            f"{name} is not the failover that this run goes back from",
            (
                "the journal does not know it"
                if failover is None
                else f"it went from {failover.request.source} to {failover.request.target}"
            ),
            "Look at the journal; start a new run.",
        )
    return failover


def topics_back(procedure: Run) -> dict[str, str]:
    """Topics of the new primary that the flow back mirrors -> their names on the returned cluster."""
    return scope_now(procedure, procedure.systems.source.topics())


def partitions_of(procedure: Run, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of those topics that exist on the returned cluster, sorted."""
    infos = procedure.systems.target.topics(sorted(set(topics)))
    return [TopicPartition(topic, p) for topic, info in sorted(infos.items()) for p in sorted(info.partitions)]


def written_since(procedure: Run, ends: dict[TopicPartition, int]) -> list[str]:
    """Partitions of the returned cluster with records since these ends, each with its newest; no markers."""
    now = procedure.systems.target.ends(list(ends))
    return newest_records(procedure.reversed, {tp: end for tp, end in ends.items() if now[tp] > end})


def refuse_replaced(procedure: Run) -> None:
    """Refuse if a topic of the returned cluster was deleted or recreated after this run seeded the flow back.

    Raises:
        Contradiction: a topic has another id or is gone, so that its copied records are lost; it was deleted manually
            or by a superseded process.
    """
    seeded = procedure.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    infos = procedure.systems.target.topics(ids) if ids else {}
    replaced = [name for name, topic_id in sorted(ids.items()) if name not in infos or infos[name].topic_id != topic_id]
    if replaced:
        names = first_few(replaced)
        raise Contradiction(
            "Topics of the returned cluster were deleted since the flow back was told where to begin",
            names,
            "Find who deleted them; then start a new run with mode recreate, which copies them whole.",
        )


def refuse_lacking(procedure: Run, prepared: Iterable[str]) -> dict[str, str]:
    """Refuse if a prepared topic that the flow back fills is gone; return topic -> id of the existing topics.

    Topics created since by clients, or for a quarantine, are created by MirrorMaker 2 and mirrored from the beginning.

    Raises:
        Contradiction: a prepared topic is gone. MirrorMaker 2 would recreate the topic without its older records,
            unnoticed.
    """
    names = sorted(topics_back(procedure).values())
    infos = procedure.systems.target.topics(names)
    missing = sorted(set(prepared).intersection(names).difference(infos))
    if missing:
        listed = first_few(missing)
        raise Contradiction(
            "Topics of the returned cluster are gone since they were prepared",
            listed,
            "Find who deleted them; then start a new run, which makes them again.",
        )
    return {name: infos[name].topic_id for name in names if name in infos}


def flow_runs(procedure: Run, flow: Flow) -> bool:
    """Whether a flow's source connector exists and is not STOPPED without tasks."""
    worker, name = procedure.mirror_maker(flow), flow.connectors.source
    return name in worker.connectors() and not worker.status(name).stopped


def stop_flows(procedure: Run, step: str, flows: Iterable[Flow]) -> dict[str, str]:
    """Stop the connectors of these flows and wait for STOPPED without tasks; connector -> state.

    A superseded process does not resume the connectors: a stopped flow does no harm as long as clients do not move.

    Raises:
        DeadlinePassed: a connector did not stop in time.
    """
    states: dict[str, str] = {}
    for flow in flows:
        procedure.authority.hold()
        states |= stop_flow(procedure.reversed, step, flow, _ASK_SECONDS, procedure.request.deadlines.stop_seconds)
    unstopped = [f"{name}: {state}" for name, state in states.items() if state != STOPPED]
    if unstopped:
        raise DeadlinePassed(
            "MirrorMaker 2 did not stop", "; ".join(unstopped), "Look at its worker's log; then start a new run."
        )
    return states
