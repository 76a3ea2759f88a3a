"""What the watcher does once an old source answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from kafka_dr.actions.concurrently import run_concurrently
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.actions.old_source.lost_source_fence import fence_old_source, source_answers
from kafka_dr.actions.old_source.writes_after_failover import log_ends, producers_since, writes_after_failover
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.config.topology import Flow
from kafka_dr.domain.fencing.armed_fence import (
    BY_ACL,
    ArmedFence,
    armed_fences,
    unstopped_sources,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import FenceNotProven, KafkaUnavailable, SwitchbackError
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    FenceDisarmed,
    OldMirrorMakerStopped,
    OldSourceAnswers,
    OldSourceFenced,
    facts_in,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher.authority import STEP, watch_over

#: A system that does not answer must not keep the next look waiting.
ASK_SECONDS = 1.0
_ENDS_SECONDS = 5.0
STOP_SECONDS = 20.0


def fence_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """One look at an armed source; says what was seen or done.

    Raises:
        SwitchbackError: it answers and could not be fenced yet; the next look goes on.
    """
    answers = source_answers(procedure, ASK_SECONDS)
    if answers and fence.answers_since is None:
        record_fact(procedure.authority, STEP, OldSourceAnswers(answers_since=procedure.now()))
    with run_concurrently() as start:
        # Beside the fence: a worker that is slow, or away, must not leave clients writing.
        stopping = start(stop_replication, procedure, answers)
        if not answers:
            return " ".join([f"{fence.source} does not answer", *not_stopped(stopping.result())])
        seen = start(_ends_if_known, procedure, fence.topics)
        made, topics = fence_old_source(procedure, STEP, fence.topics)
        fenced_at = procedure.now()
        if not made.authorizer:
            raise FenceNotProven(
                "The old source answers and has no authorizer",
                "nothing but an ACL can fence it from here",
                "Keep clients from it by other means, or disarm it with a failback.",
            )
        since = _answers_since(procedure, fence) or fenced_at
        accepted, first, states = writes_after_failover(procedure, topics), seen.result(), stopping.result()
    ends = None if first is None else procedure.artifacts.save("ends_when_seen", partitions_frame(first, "offset"))
    done = OldSourceFenced(
        source=fence.source,
        fenced=BY_ACL,
        fenced_at=fenced_at,
        answers_since=since,
        # In which it may have accepted writes beside the new source.
        window_seconds=round((datetime.fromisoformat(fenced_at) - datetime.fromisoformat(since)).total_seconds(), 3),
        acl_entries_added=made.added,
        brokers_refusing=made.refusing,
        ends_when_seen=ends,
        mirror_maker=states,
        mirror_maker_stopped=not not_stopped(states),
        **vars(accepted),
    )
    record_fact(procedure.authority, STEP, done)
    if not not_stopped(states):
        tell_producers(procedure)
    return " ".join(
        [
            (
                f"{fence.source} is fenced; it answered since {since}, and accepted at most"
                f" {done.records_at_most} records on {done.partitions_written} partitions"
            ),
            *not_stopped(states),
        ]
    )


def stop_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """One look at the MirrorMaker 2 of a source that is fenced: its worker may come back later than the brokers."""
    states = stop_replication(procedure, True)
    if not not_stopped(states):
        stopped = OldMirrorMakerStopped(source=fence.source, mirror_maker=states, mirror_maker_stopped=True)
        record_fact(procedure.authority, STEP, stopped)
        tell_producers(procedure)
    return " ".join([f"{fence.source} is fenced", *not_stopped(states)])


def tell_producers(procedure: Run) -> None:
    """Note who wrote meanwhile, as brokers know; last, as it takes seconds, and the fence and the list come first."""
    every = facts_in(procedure.journal.entries(step=STEP, kind=Entry.OUTCOME), OldSourceFenced)
    done = [fact for fact in every if fact.procedure_id == procedure.id]
    producers = producers_since(procedure, done[-1].accepted) if done else None
    if producers is not None:
        record_fact(procedure.authority, STEP, producers)


def stop_replication(procedure: Run, answers: bool) -> dict[str, str]:
    """Stop flows from or to the old source; states by connector or flow, with the reason where one is not stopped.

    Args:
        answers: whether the source answers; before, the flow from it is stopped only if the procedure has begun to stop
            it.
    """
    states: dict[str, str] = {}
    for flow in (
        _flows(procedure) if answers else [procedure.flow] if procedure.progress.began(Step.STOP_MIRROR_MAKER) else []
    ):
        try:
            # A dead source keeps its connectors for a minute: whoever waited for that would miss its first answer.
            states |= stop_flow(
                procedure, STEP, flow, ASK_SECONDS, STOP_SECONDS if answers else 0.0, trusted=not answers
            )
        except SwitchbackError as error:
            states[f"{flow.source}->{flow.target}"] = str(error)
    return states


def _flows(procedure: Run) -> list[Flow]:
    """The flow from the old source, and the one to it, unless names protect against loops: that one does no harm."""
    reverse = procedure.reverse_flow
    return (
        [procedure.flow]
        if reverse is None or procedure.topology.naming.policy == "default"
        else [procedure.flow, reverse]
    )


def not_stopped(states: Mapping[str, str]) -> list[str]:
    """What of MirrorMaker 2 is not stopped, a phrase each."""
    return [f"({name}: {state})" for name, state in states.items() if state != STOPPED]


def _answers_since(procedure: Run, fence: ArmedFence) -> str | None:
    """When the watcher saw the source answer first, by the journal now."""
    now = watch_over(procedure.journal, procedure.id)
    return now.fence.answers_since if now and now.fence.answers_since else fence.answers_since


def _ends_if_known(procedure: Run, topics: Iterable[str]) -> dict[TopicPartition, int] | None:
    """Ends as the fence is begun; None where the source does not say in time."""
    try:
        return log_ends(procedure, topics, _ENDS_SECONDS)
    except KafkaUnavailable:
        return None


def disarm_fences(procedure: Run, alias: str, reason: str) -> tuple[ArmedFence, ...]:
    """End every watch over a cluster that a procedure has fenced itself; returns what was disarmed.

    What the watcher added stays: it is part of that fence by now.
    """
    entries = telling_entries(procedure.journal)
    ended = tuple(fence for fence in (*armed_fences(entries), *unstopped_sources(entries)) if fence.source == alias)
    for fence in ended:
        disarmed = FenceDisarmed(disarms_fence=fence.procedure_id, source=alias, reason=reason)
        record_fact(procedure.authority, STEP, disarmed)
    return ended
