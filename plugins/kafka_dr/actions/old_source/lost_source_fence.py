"""Fence a source that may be out of reach: by ACLs if it answers, else from outside, else once it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from threading import Lock
from typing import Any, TypeVar

from kafka_dr.actions.concurrently import run_in_background
from kafka_dr.actions.fencing.acl_fence import WriteFence, fence_writes
from kafka_dr.actions.old_source.writes_after_failover import known_ends, writes_after_failover
from kafka_dr.actions.scope.flow_scope import mirrored_now
from kafka_dr.domain.fencing.armed_fence import BY_ACL
from kafka_dr.domain.loss.source_lost import SourceState
from kafka_dr.errors import (
    DeadlinePassed,
    FenceNotProven,
    KafkaUnavailable,
    Superseded,
)
from kafka_dr.procedure.authority import Authority
from kafka_dr.procedure.entries import (
    Approval,
    DataLossAssessed,
    SourceConfirmedLost,
    SourceFencedByAcl,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

T = TypeVar("T")

#: One that was found lost is hardly waited for: if it is back and slow, the watcher fences it.
ANSWER_SECONDS, LOST_ANSWER_SECONDS = 5.0, 1.0
#: Brokers that have just come back lead no partition for a moment: that nothing could be proven on them then means
#: nothing.
_COMING_BACK_SECONDS, _LOOK_AGAIN_SECONDS = 5.0, 0.5


class TimedFenceAttempt:
    """Authority for a call that may hang with the source: once given up, the call can act or write no more."""

    def __init__(self, authority: Authority) -> None:
        self._authority, self._given_up, self._writing = authority, False, Lock()

    def hold(self) -> None:
        """Refuse once the attempt was given up, too."""
        self._refuse_given_up()
        self._authority.hold()

    def may_undo(self) -> bool:
        """As under the authority that it narrows."""
        return self._authority.may_undo()

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry, unless the attempt was given up."""
        with self._writing:
            self._refuse_given_up()
            self._authority.write(step, kind, payload)

    def give_up(self) -> None:
        """End the attempt; an entry that is being written is waited for."""
        with self._writing:
            self._given_up = True

    def _refuse_given_up(self) -> None:
        if self._given_up:
            raise Superseded(
                "This attempt to fence the source was given up", "its time was over", "Nothing: the step has gone on."
            )


def attempt_within(procedure: Run, seconds: float, work: Callable[[Run], T]) -> T:
    """Do something as the procedure, with clients of its own, on a thread that is left behind when the time is over.

    Raises:
        DeadlinePassed: it is over; whatever was added to the source by then stands in the journal as an intent.
    """
    authority, own = TimedFenceAttempt(procedure.authority), procedure.systems.anew()
    attempt = Run(procedure.identity, procedure.request, procedure.journal, own, authority)
    done = run_in_background(lambda: work(attempt))
    wait([done], seconds)
    if done.done():
        return done.result()
    authority.give_up()
    raise DeadlinePassed(
        f"The source answered and was not fenced within {seconds:.0f} s",
        "it stopped answering in the middle, or is too slow",
        "Look at its brokers, or keep clients from it by a fence hook; then start a new run.",
    )


def fence_with_grace(procedure: Run, step: str, topics: Iterable[str], approval: Approval) -> SourceFencedByAcl | None:
    """As `fence_by_acl`; for a lost source that answers again, the first seconds without proof are no refusal."""
    ends_at = time.monotonic() + (_COMING_BACK_SECONDS if found_lost(procedure) else 0.0)
    while True:
        try:
            return fence_by_acl(procedure, step, topics, approval)
        except FenceNotProven:
            if time.monotonic() >= ends_at:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def fence_by_acl(procedure: Run, step: str, topics: Iterable[str], approval: Approval) -> SourceFencedByAcl | None:
    """Fence a source that answers, and list what it accepted since it was left; None where it has no authorizer."""
    fence, every = fence_old_source(procedure, step, topics)
    if not fence.authorizer:
        return None
    return SourceFencedByAcl(
        approval=approval,
        fenced=BY_ACL,
        answer=None,
        acl_entries_added=fence.added,
        brokers_refusing=fence.refusing,
        fenced_at=procedure.now() if fence.proven else None,
        **vars(writes_after_failover(procedure, every)),
    )


def found_lost(procedure: Run) -> bool:
    """Whether the source did not answer when it was looked for."""
    return procedure.progress.require(SourceConfirmedLost).state == SourceState.LOST


def source_answers(procedure: Run, seconds: float = ANSWER_SECONDS) -> bool:
    """Whether the source answers within a short time."""
    try:
        return bool(procedure.systems.source.brokers(timeout=seconds))
    except KafkaUnavailable:
        return False


def fence_old_source(procedure: Run, step: str, topics: Iterable[str]) -> tuple[WriteFence, list[str]]:
    """Fence clients' writes on a source that answers: on these topics at once, then on topics made since.

    Nobody saw the topics that were made after the last look at the source, or after it came back. Returns all of them.
    """
    known = set(topics)
    fence = fence_writes(procedure, step, sorted(known))
    since = mirrored_now(procedure) - known
    every = sorted(known | since)
    return (fence_writes(procedure, step, every) if since else fence), every


def topics_left(procedure: Run) -> list[str]:
    """Topics that clients of a lost source leave there, by the inventory; also those without a known log end."""
    assessed = procedure.progress.done(DataLossAssessed)
    planned = {one.topic for one in assessed.planned.topics} if assessed else set()
    return sorted({tp.topic for tp in known_ends(procedure)} | planned)
