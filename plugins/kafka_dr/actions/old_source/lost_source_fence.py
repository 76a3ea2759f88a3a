"""Fence a source that may not answer: by ACLs, within a time limit, also on topics that the plan does not list."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from threading import Lock
from typing import Any, TypeVar

from kafka_dr.actions.fencing.acl_fence import WriteFence, fence_writes
from kafka_dr.actions.old_source.writes_after_failover import known_ends, writes_after_failover
from kafka_dr.actions.scope.flow_scope import mirrored_now
from kafka_dr.concurrently import run_in_background
from kafka_dr.domain.fencing.armed_fence import BY_ACL
from kafka_dr.domain.loss.source_lost import SourceState
from kafka_dr.errors import DeadlinePassed, FenceNotProven, KafkaUnavailable, Superseded
from kafka_dr.procedure.authority import Authority
from kafka_dr.procedure.binding import refuse_other_cluster
from kafka_dr.procedure.entries import Approval, DataLossAssessed, SourceConfirmedLost, SourceFencedByAcl
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

T = TypeVar("T")

#: How long a source has to answer, in seconds. A source that was confirmed lost has only one second: if the source is
#: back but slow, the watcher fences it.
ANSWER_SECONDS, LOST_ANSWER_SECONDS = 5.0, 1.0
#: How long, and at which interval, to try again if a fence cannot be proven, in seconds, because brokers that have just
#: restarted lead no partition.
_COMING_BACK_SECONDS, _LOOK_AGAIN_SECONDS = 5.0, 0.5


class TimedFenceAttempt:
    """The authority of a call that may hang if the source hangs.

    After `give_up`, the call can no longer act on the clusters, and can no longer write to the journal.
    """

    def __init__(self, authority: Authority) -> None:
        self._authority, self._abandoned, self._writing = authority, False, Lock()

    def hold(self) -> None:
        """Check that the run still holds its lease; raise Superseded after `give_up`."""
        self._refuse_abandoned()
        self._authority.hold()

    def may_undo(self) -> bool:
        """Whether the call must undo an act that took place after the run had lost its lease.

        The answer is that of the run's own authority, also after `give_up`.
        """
        return self._authority.may_undo()

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry to the journal; raise Superseded after `give_up`."""
        with self._writing:
            self._refuse_abandoned()
            self._authority.write(step, kind, payload)

    def give_up(self) -> None:
        """End the attempt; if the attempt is writing a journal entry, wait until the entry is written."""
        with self._writing:
            self._abandoned = True

    def _refuse_abandoned(self) -> None:
        if self._abandoned:
            raise Superseded(
                "This attempt to fence the source was given up",
                "the time limit of the attempt was over",
                "Do nothing: the step continued without this attempt.",
            )


def attempt_within(procedure: Run, seconds: float, work: Callable[[Run], T]) -> T:
    """Return the result of `work`, which runs with Kafka clients of its own on a thread, for at most `seconds`.

    Raises:
        DeadlinePassed: the time is over, and `work` can neither act nor write any more; the journal has the intents of
            all ACL entries that `work` may have added.
    """
    authority, systems = TimedFenceAttempt(procedure.authority), procedure.systems.with_own_clients()
    attempt = Run(procedure.identity, procedure.request, procedure.journal, systems, authority)
    future = run_in_background(lambda: work(attempt))
    wait([future], seconds)
    if future.done():
        return future.result()
    authority.give_up()
    raise DeadlinePassed(
        f"The source answered and was not fenced within {seconds:.0f} s",
        f"{procedure.request.source} stopped answering during the attempt, or answers too slowly",
        "The procedure returns to the source by itself, and removes the ACL entries that it added. Find out in the logs"
        f" of the brokers of {procedure.request.source} why these brokers answer so slowly, or have a fence hook fence"
        f" {procedure.request.source}; then start a new run.",
    )


def fence_with_grace(procedure: Run, step: str, topics: Iterable[str], approval: Approval) -> SourceFencedByAcl | None:
    """Fence a source that answers, as `fence_by_acl` does.

    If the source was confirmed lost and the fence cannot be proven, try again for 5 s, because brokers that have just
    restarted lead no partition.

    Args:
        approval: approval of the plan, which becomes part of the outcome.

    Returns:
        The outcome, with the records that the source accepted after clients left; None if the source has no authorizer,
        and so was not fenced.

    Raises:
        FenceNotProven, DeadlinePassed: clients' writes still succeed, or no test could prove that they are refused.
    """
    ends_at = time.monotonic() + (_COMING_BACK_SECONDS if is_source_lost(procedure) else 0.0)
    while True:
        try:
            return fence_by_acl(procedure, step, topics, approval)
        except FenceNotProven:
            if time.monotonic() >= ends_at:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def fence_by_acl(procedure: Run, step: str, topics: Iterable[str], approval: Approval) -> SourceFencedByAcl | None:
    """Fence a source that answers, and list the records that the source accepted after clients left.

    Args:
        approval: approval of the plan, which becomes part of the outcome.

    Returns:
        The outcome, with the fence and these records; None if the source has no authorizer, and so was not fenced.

    Raises:
        FenceNotProven, DeadlinePassed: clients' writes still succeed, or no test could prove that they are refused.
    """
    fence, fenced_topics = fence_old_source(procedure, step, topics)
    if not fence.authorizer:
        return None
    return SourceFencedByAcl(
        approval=approval,
        fenced=BY_ACL,
        answer=None,
        acl_entries_added=fence.added,
        brokers_refusing=fence.refusing,
        fenced_at=procedure.now() if fence.proven else None,
        **vars(writes_after_failover(procedure, fenced_topics)),
    )


def is_source_lost(procedure: Run) -> bool:
    """Whether confirm_source_lost judged the source to be lost."""
    return procedure.progress.require(SourceConfirmedLost).state == SourceState.LOST


def source_answers(procedure: Run, seconds: float = ANSWER_SECONDS) -> bool:
    """Whether the source answers a metadata request within `seconds`."""
    try:
        return bool(procedure.systems.source.brokers(timeout=seconds))
    except KafkaUnavailable:
        return False


def fence_old_source(procedure: Run, step: str, topics: Iterable[str]) -> tuple[WriteFence, list[str]]:
    """Fence clients' writes on a source that answers: first on `topics`, then on all other topics of the flow.

    The other topics were created while the procedure could not read the source.

    Returns:
        The fence, and all fenced topics.

    Raises:
        BindingBroken: another cluster answers than the source with which the run began.
    """
    refuse_other_cluster(procedure, procedure.request.source, procedure.systems.source)
    planned = set(topics)
    fence = fence_writes(procedure, step, sorted(planned))
    newer = mirrored_now(procedure) - planned
    all_topics = sorted(planned | newer)
    return (fence_writes(procedure, step, all_topics) if newer else fence), all_topics


def topics_left(procedure: Run) -> list[str]:
    """Return the topics that clients leave on the source, by the loss assessment, also those without a log end."""
    assessed = procedure.progress.done(DataLossAssessed)
    plan = procedure.progress.with_plan(assessed).planned if assessed else None
    planned = {topic.topic for topic in plan.topics} if plan else set()
    return sorted({tp.topic for tp in known_ends(procedure)} | planned)
