"""Shared by a failback's steps: what the flow back mirrors, the failover before it, and refusals."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.config.settings import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.procedure.entries import (
    FlowBackSeeded,
    StrandedRecordsFound,
)
from kafka_dr.procedure.run import Run

_ASK_SECONDS = 10.0


def refuse_dedicated(procedure: Run) -> None:
    """Refuse a pair with a dedicated flow: in dedicated mode no offset can be set, and nothing can be resumed."""
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
    """The procedure that took clients from the returned cluster to the present one, by find_stranded_records.

    Raises:
        Contradiction: the journal does not know it, or it moved clients the other way.
    """
    name = procedure.progress.require(StrandedRecordsFound).after
    found = procedure.other(name)
    ends = (procedure.request.target, procedure.request.source)
    if found is None or (found.request.source, found.request.target) != ends:
        raise Contradiction(
            f"{name} is not the failover that this run goes back from",
            (
                "the journal does not know it"
                if found is None
                else f"it went from {found.request.source} to {found.request.target}"
            ),
            "Look at the journal; start a new run.",
        )
    return found


def topics_back(procedure: Run) -> dict[str, str]:
    """Topics of the new primary that the flow back mirrors -> their names on the returned cluster."""
    return scope_now(procedure, procedure.systems.source.topics())


def partitions_of(procedure: Run, topics: Iterable[str]) -> list[TopicPartition]:
    """All partitions of those of the topics that are on the returned cluster, sorted."""
    infos = procedure.systems.target.topics(sorted(set(topics)))
    return [TopicPartition(topic, p) for topic, info in sorted(infos.items()) for p in sorted(info.partitions)]


def written_since(procedure: Run, ends: dict[TopicPartition, int]) -> list[str]:
    """Partitions of the returned cluster with records above these ends, with the newest; no transaction ends."""
    now = procedure.systems.target.ends(list(ends))
    return newest_records(procedure.reversed, {tp: end for tp, end in ends.items() if now[tp] > end})


def refuse_replaced(procedure: Run) -> None:
    """Topics that the flow back fills are those in which it was told where to begin; no other procedure has told it.

    Raises:
        Contradiction: one was deleted since, by hand or by a process that came too late: what had been copied to it is
            gone.
    """
    seeded = procedure.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    infos = procedure.systems.target.topics(ids) if ids else {}
    other = [name for name, topic_id in sorted(ids.items()) if name not in infos or infos[name].topic_id != topic_id]
    if other:
        told = first_few(other)
        raise Contradiction(
            "Topics of the returned cluster were deleted since the flow back was told where to begin",
            told,
            "Find who deleted them; then start a new run with mode recreate, which copies them whole.",
        )


def refuse_lacking(procedure: Run, prepared: Iterable[str]) -> dict[str, str]:
    """Refuse prepared topics that are gone though the flow back fills them; return ids of all it fills.

    Those that were born since, by clients or for a quarantine, MirrorMaker 2 makes and fills from their beginnings.

    Raises:
        Contradiction: one is gone. MirrorMaker 2 would make it again, and nobody would see that its beginning is not
            copied.
    """
    names = sorted(topics_back(procedure).values())
    infos = procedure.systems.target.topics(names)
    lacking = sorted(set(prepared).intersection(names).difference(infos))
    if lacking:
        told = first_few(lacking)
        raise Contradiction(
            "Topics of the returned cluster are gone since they were prepared",
            told,
            "Find who deleted them; then start a new run, which makes them again.",
        )
    return {name: infos[name].topic_id for name in names if name in infos}


def flow_runs(procedure: Run, flow: Flow) -> bool:
    """Whether a flow's source connector is there and anything but STOPPED without tasks."""
    worker, name = procedure.mirror_maker(flow), flow.connectors.source
    return name in worker.connectors() and not worker.status(name).stopped


def stop_flows(procedure: Run, step: str, flows: Iterable[Flow]) -> dict[str, str]:
    """Have connectors of these flows STOPPED without tasks; states by connector.

    A process that comes too late resumes nothing: a flow that stands does no harm while clients stay where they are.

    Raises:
        DeadlinePassed: some did not stop in time.
    """
    states: dict[str, str] = {}
    for flow in flows:
        procedure.authority.hold()
        states |= stop_flow(procedure.reversed, step, flow, _ASK_SECONDS, procedure.request.deadlines.stop_seconds)
    left = [f"{name}: {state}" for name, state in states.items() if state != STOPPED]
    if left:
        raise DeadlinePassed(
            "MirrorMaker 2 did not stop", "; ".join(left), "Look at its worker's log; then start a new run."
        )
    return states
