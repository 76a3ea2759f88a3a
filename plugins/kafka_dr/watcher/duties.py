"""Acts of the watcher, for one old source at a time: fence the source, stop MirrorMaker 2, disarm a fence.

An old source is the cluster that clients left in an unplanned failover; it is the source of the procedure that armed
the fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.actions.old_source.lost_source_fence import fence_old_source, source_answers
from kafka_dr.actions.old_source.writes_after_failover import log_ends, producers_since, writes_after_failover
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.topology import Flow
from kafka_dr.domain.fencing.armed_fence import BY_ACL, ArmedFence, armed_fences, unstopped_sources
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import FenceNotProven, KafkaUnavailable, SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.binding import refuse_other_cluster
from kafka_dr.procedure.entries import FenceDisarmed, OldMirrorMakerStopped, OldSourceAnswers, OldSourceFenced, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher.authority import STEP, watch_over

#: Timeout of each request, in seconds: a system that does not answer must not delay the watcher's next check.
ASK_SECONDS = 1.0
_ENDS_SECONDS = 5.0
STOP_SECONDS = 20.0


def fence_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """Check once whether a source with an armed fence answers; if so, fence the source; return the result as text.

    Raises:
        SwitchbackError: the source answers, but could not be fenced; the watcher tries again a second later.
    """
    answers = source_answers(procedure, ASK_SECONDS)
    if answers:
        procedure.anchors.refuse_contradicted_journal()
        refuse_other_cluster(procedure, fence.source, procedure.systems.source)
    if answers and fence.answers_since is None:
        record_fact(procedure.authority, STEP, OldSourceAnswers(answers_since=procedure.now()))
    with run_concurrently() as start:
        # Concurrent with the fence: a Connect worker that is slow or does not answer must not delay the fence.
        stopping = start(stop_replication, procedure, answers)
        if not answers:
            return " ".join([f"{fence.source} does not answer", *not_stopped(stopping.result())])
        reading_ends = start(_try_read_ends, procedure, fence.topics)
        write_fence, topics = fence_old_source(procedure, STEP, fence.topics)
        fenced_at = procedure.now()
        if not write_fence.authorizer:
            raise FenceNotProven(
                "The old source answers and has no authorizer",
                f"{fence.source} is not fenced and accepts writes: the watcher can fence a cluster only by ACLs",
                f"Disconnect {fence.source} from clients in the network, or run failback with target {fence.source},"
                " which disarms the fence.",
            )
        since = _answers_since(procedure, fence) or fenced_at
        accepted, first_ends, states = (
            writes_after_failover(procedure, topics),
            reading_ends.result(),
            stopping.result(),
        )
    ends = (
        None
        if first_ends is None
        else procedure.artifacts.save("ends_when_seen", partitions_frame(first_ends, "offset"))
    )
    outcome = OldSourceFenced(
        source=fence.source,
        fenced=BY_ACL,
        fenced_at=fenced_at,
        answers_since=since,
        # The time in which both clusters may have accepted writes.
        window_seconds=round((datetime.fromisoformat(fenced_at) - datetime.fromisoformat(since)).total_seconds(), 3),
        acl_entries_added=write_fence.added,
        brokers_refusing=write_fence.refusing,
        ends_when_seen=ends,
        mirror_maker=states,
        mirror_maker_stopped=not not_stopped(states),
        **vars(accepted),
    )
    record_fact(procedure.authority, STEP, outcome)
    if not not_stopped(states):
        tell_producers(procedure)
    return " ".join(
        [
            (
                f"{fence.source} is fenced; it answered since {since}, and accepted at most"
                f" {outcome.records_at_most} records on {outcome.partitions_written} partitions"
            ),
            *not_stopped(states),
        ]
    )


def stop_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """Try once to stop MirrorMaker 2 between a fenced source and the target; return the result as text.

    The Connect worker may come back later than the source's brokers.
    """
    states = stop_replication(procedure, True)
    if not not_stopped(states):
        outcome = OldMirrorMakerStopped(source=fence.source, mirror_maker=states, mirror_maker_stopped=True)
        record_fact(procedure.authority, STEP, outcome)
        tell_producers(procedure)
    return " ".join([f"{fence.source} is fenced", *not_stopped(states)])


def tell_producers(procedure: Run) -> None:
    """Record in the journal the last producers on those partitions of the old source that got most late records.

    Late records are records that the old source accepted after its clients had left. Nothing is recorded if none exist.
    Brokers may take seconds to answer, so this function is called only after the source is fenced and MirrorMaker 2 is
    stopped.
    """
    outcomes = facts_in(procedure.journal.entries(step=STEP, kind=Entry.OUTCOME), OldSourceFenced)
    of_procedure = [fact for fact in outcomes if fact.procedure_id == procedure.id]
    producers = producers_since(procedure, of_procedure[-1].accepted) if of_procedure else None
    if producers is not None:
        record_fact(procedure.authority, STEP, producers)


def stop_replication(procedure: Run, answers: bool) -> dict[str, str]:
    """Stop the flow from the old source, and the flow to the old source.

    Under default naming only the flow from the old source is stopped: topic prefixes prevent that records are copied in
    a circle.

    Args:
        procedure: the procedure that armed the fence.
        answers: whether the source answers. If False, only the flow from the source is stopped, and only if
            stop_mirror_maker of the procedure has begun; the function then does not wait until connectors have stopped.

    Returns:
        State by connector, or by flow in dedicated mode; for a flow that could not be stopped, the reason.
    """
    states: dict[str, str] = {}
    for flow in (
        _flows_to_stop(procedure)
        if answers
        else [procedure.flow]
        if procedure.progress.began(Step.STOP_MIRROR_MAKER)
        else []
    ):
        try:
            # If the source does not answer, connectors take a minute to stop: no wait, or its first answer is missed.
            states |= stop_flow(
                procedure, STEP, flow, ASK_SECONDS, STOP_SECONDS if answers else 0.0, trusted=not answers
            )
        except SwitchbackError as error:
            states[f"{flow.source}->{flow.target}"] = str(error)
    return states


def _flows_to_stop(procedure: Run) -> list[Flow]:
    """Return the flow from the old source and, except under default naming, the flow to the old source."""
    reverse = procedure.reverse_flow
    return (
        [procedure.flow]
        if reverse is None or procedure.topology.naming.policy == "default"
        else [procedure.flow, reverse]
    )


def not_stopped(states: Mapping[str, str]) -> list[str]:
    """Return a phrase for each connector that is not stopped, or in dedicated mode for each flow; [] if all stopped.

    Args:
        states: state or error by connector, or by flow in dedicated mode, as `stop_replication` returns them.
    """
    return [f"({name}: {state})" for name, state in states.items() if state != STOPPED]


def _answers_since(procedure: Run, fence: ArmedFence) -> str | None:
    """Return when the source first answered the watcher (ISO 8601); None if the journal has no such time.

    The journal is read again, because `fence` may be from before the source's first answer.
    """
    watch = watch_over(procedure.journal, procedure.id)
    return watch.fence.answers_since if watch and watch.fence.answers_since else fence.answers_since


def _try_read_ends(procedure: Run, topics: Iterable[str]) -> dict[TopicPartition, int] | None:
    """Return the old source's log ends while the fence is being set; None if the source does not answer in time."""
    try:
        return log_ends(procedure, topics, _ENDS_SECONDS)
    except KafkaUnavailable:
        return None


def disarm_fences(procedure: Run, alias: str, reason: str) -> tuple[ArmedFence, ...]:
    """Disarm earlier procedures' fences on a cluster that this procedure has fenced itself; return these fences.

    The watcher then leaves the cluster alone. ACL entries that the watcher added to the cluster stay, because these
    ACL entries are part of this procedure's fence now.
    """
    entries = telling_entries(procedure.journal)
    disarmed_fences = tuple(
        fence for fence in (*armed_fences(entries), *unstopped_sources(entries)) if fence.source == alias
    )
    for fence in disarmed_fences:
        disarmed = FenceDisarmed(disarms_fence=fence.procedure_id, source=alias, reason=reason)
        record_fact(procedure.authority, STEP, disarmed)
    return disarmed_fences
