"""Find the topics of the flow back (new primary -> returned cluster) and the failover to undo; shared refusals.

Source and target of a failback are the new primary and the returned cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.failback.stranded_decision import mode_of
from kafka_dr.actions.fencing.stable_log_ends import newest_records
from kafka_dr.actions.replication.group_sync import group_sync_runs
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.actions.scope.flow_scope import scope_now
from kafka_dr.config.settings import Flow
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.connect_checks import hook_blockers
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.procedure.entries import FlowBackSeeded, StrandedRecordsFound
from kafka_dr.procedure.run import Run

_ASK_SECONDS = 10.0


def refuse_unusable_flows(procedure: Run) -> None:
    """Refuse if a flow without a Connect worker cannot be started by its hook, or if its offsets cannot be set."""
    for flow in (procedure.flow, procedure.reverse_flow):
        if flow is None or flow.connect is not None:
            continue
        connectors, name = procedure.mirror_maker(flow), f"{flow.source}->{flow.target}"
        for blocker in hook_blockers(name, connectors.can_resume(), connectors.offsets_problem()):
            raise NotReady(
                f"MirrorMaker 2 of {name} cannot be seeded and started",
                f"{blocker.reason}: {blocker.seen}",
                f"Nothing was changed. {blocker.next_step} Then start a new run.",
            )


def refuse_unusable_pair(procedure: Run) -> None:
    """Refuse what a failback cannot do where clients stay on the new primary that did not come from the old cluster.

    Such a failback does not delete the flow back's copies, which have records of those clients, too; and a flow back
    that runs on must not overwrite positions.
    """
    if not procedure.source_stays_open:
        return
    source, target, flow = procedure.request.source, procedure.request.target, procedure.flow
    if mode_of(procedure) is Mode.RECREATE:
        raise NotReady(
            f"Mode recreate is not possible while other clients stay on {source}",
            f"by the flows of the topology {source} also has clients that did not come from {target}, and the copies of"
            f" {source}->{target} have their records, too",
            f"Nothing was changed. Start a new run with mode append: stranded records stay where they are on {target}.",
        )
    if procedure.flow_runs_on and group_sync_runs(procedure) is not False:
        raise NotReady(
            f"MirrorMaker 2 may overwrite positions of the groups that return to {target}",
            f"{flow.connectors.checkpoint.name} has sync.group.offsets.enabled=true, or does not answer, and the flow"
            f" {source}->{target} runs on",
            "Nothing was changed. Set sync.group.offsets.enabled of this connector to false, then start a new run.",
        )


def refuse_overlapping(procedure: Run) -> None:
    """Refuse if several source connectors of the flow back mirror the same topics, and so copy all records twice."""
    flow = procedure.flow
    if len(flow.connectors.source) == 1:
        return
    mirrors = procedure.mirror_maker(flow).topic_filter()
    for connectors, topics in mirrors.mirrored_twice(procedure.systems.source.topics()).items():
        raise NotReady(
            f"Several source connectors of {flow.source}->{flow.target} mirror the same topics",
            f"the topic filters of {' and '.join(connectors)} select, on {flow.source}: {first_few(topics)}",
            "Nothing was changed. Correct `topics` or `topics.exclude` of these connectors, so that one connector"
            " mirrors each topic; then start a new run.",
        )


def failed_over(procedure: Run) -> Run:
    """Return the procedure that, as find_stranded_records recorded, moved clients to the new primary.

    Raises:
        Contradiction: the journal lacks the procedure that find_stranded_records recorded, or that procedure has
            another source or target.
    """
    name = procedure.progress.require(StrandedRecordsFound).after
    failover = procedure.other(name)
    direction = (procedure.request.target, procedure.request.source)
    if failover is None or (failover.request.source, failover.request.target) != direction:
        raise Contradiction(
            f"The journal does not show that {name} moved clients from {procedure.request.target} to"
            f" {procedure.request.source}",
            (
                f"find_stranded_records recorded {name} as the failover; the journal has no procedure of this id"
                if failover is None
                else f"find_stranded_records recorded {name} as the failover; by the journal {name} goes from"
                f" {failover.request.source} to {failover.request.target}"
            ),
            "The journal was changed after find_stranded_records. Restore the journal from a backup, then start a new"
            " run.",
        )
    return failover


def topics_back(procedure: Run) -> dict[str, str]:
    """Return topic of the new primary that the flow back mirrors -> name on the returned cluster."""
    return scope_now(procedure, procedure.systems.source.topics())


def partitions_of(procedure: Run, topics: Iterable[str]) -> list[TopicPartition]:
    """Return all partitions of these topics on the returned cluster, sorted; missing topics are left out."""
    infos = procedure.systems.target.topics(sorted(set(topics)))
    return [TopicPartition(topic, p) for topic, info in sorted(infos.items()) for p in sorted(info.partitions)]


def written_since(procedure: Run, ends: dict[TopicPartition, int]) -> list[str]:
    """Return, as text, the returned cluster's partitions with records from these log ends on; [] if none has.

    The text describes each partition's newest record. Transaction markers are no records.
    """
    now = procedure.systems.target.ends(list(ends))
    return newest_records(procedure.reversed, {tp: end for tp, end in ends.items() if now[tp] > end})


def refuse_replaced(procedure: Run) -> None:
    """Refuse if a topic of the returned cluster was deleted or recreated after this run seeded the flow back.

    Raises:
        Contradiction: a topic has another id or is missing, which means that its copied records were deleted with it,
            manually or by a superseded process.
    """
    seeded = procedure.progress.done(FlowBackSeeded)
    ids = seeded.topic_ids if seeded else {}
    infos = procedure.systems.target.topics(ids) if ids else {}
    replaced = [name for name, topic_id in sorted(ids.items()) if name not in infos or infos[name].topic_id != topic_id]
    if replaced:
        names = first_few(replaced)
        raise Contradiction(
            "Topics of the returned cluster were deleted or recreated after the flow back was seeded",
            f"on {procedure.request.target}: {names}",
            "Find out which user deleted these topics. Then start a new run with mode recreate: after an export of the"
            " stranded records and an approval, that run deletes and recreates the flow's topics on"
            f" {procedure.request.target}, and copies all records again.",
        )


def refuse_lacking(procedure: Run, prepared: Iterable[str]) -> dict[str, str]:
    """Refuse if a topic that prepare_topics prepared is missing on the returned cluster.

    A topic that was created on the new primary after prepare_topics, by clients or for quarantined records, is allowed
    to be missing, because MirrorMaker 2 creates such a topic and mirrors it from its beginning.

    Returns:
        Topic of the returned cluster to which the flow back writes -> topic id; missing topics are left out.

    Args:
        prepared: topics of the returned cluster that prepare_topics prepared.

    Raises:
        Contradiction: a prepared topic is missing. MirrorMaker 2 would recreate the topic without its older records.
    """
    names = sorted(topics_back(procedure).values())
    infos = procedure.systems.target.topics(names)
    missing = sorted(set(prepared).intersection(names).difference(infos))
    if missing:
        listed = first_few(missing)
        raise Contradiction(
            "Topics that prepare_topics had prepared are missing on the returned cluster",
            f"on {procedure.request.target}: {listed}",
            "Find out which user deleted these topics. Then start a new run, which creates these topics again.",
        )
    return {name: infos[name].topic_id for name in names if name in infos}


def flow_runs(procedure: Run, flow: Flow) -> bool:
    """Whether a source connector of a flow exists in Connect and still has a task or a state other than STOPPED."""
    return bool(procedure.mirror_maker(flow).not_stopped())


def stop_flows(procedure: Run, step: str, flows: Iterable[Flow]) -> dict[str, str]:
    """Stop the connectors of these flows and wait for STOPPED without tasks; return connector -> state.

    A process that has lost the lease does not resume the connectors, because a stopped flow does no harm as long as
    clients are not moved.

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
            "MirrorMaker 2 did not stop",
            f"after {procedure.request.deadlines.stop_seconds:.0f} s: {'; '.join(unstopped)}",
            "Read the log of the Connect worker that runs these connectors; restart the worker if it hangs. Then start"
            " a new run, which asks the connectors to stop again.",
        )
    return states
