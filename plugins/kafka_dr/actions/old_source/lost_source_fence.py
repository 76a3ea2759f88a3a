"""Fence a source that may be out of reach: by ACLs if it answers, else from outside, else once it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeVar

from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK, TELLING, Watched, watched
from kafka_dr.domain.loss.source_lost import SourceState
from kafka_dr.errors import (
    BadInput,
    ConnectUnavailable,
    DeadlinePassed,
    FenceNotProven,
    HookUnavailable,
    KafkaUnavailable,
    NotReady,
    ReadBackFailed,
    Superseded,
)
from kafka_dr.hooks.journal.journal import Journal, JournalEntry
from kafka_dr.actions.old_source.writes_after_failover import accepted_since, known_ends
from kafka_dr.actions.fencing.acl_fence import WriteFence, fence_writes
from kafka_dr.actions.readiness.observe import scope_now, scope_of
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.old_source.views import in_background
from kafka_dr.procedure.authority import Authority, acting, record
from kafka_dr.procedure.entries import (
    Approval,
    DataLossAssessed,
    FenceHookAnswer,
    FenceHookToAsk,
    FenceToArm,
    SourceConfirmedLost,
    SourceFenceArmed,
    SourceFenced,
    SourceFencedByAcl,
    SourceFencedByHook,
    SourceToFence,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

T = TypeVar("T")

#: One that was found lost is hardly waited for: if it is back and slow, the watcher fences it.
_ANSWER_SECONDS, _LOST_ANSWER_SECONDS = 5.0, 1.0
_CONFIG_SECONDS = 2.0
#: A source that was found lost, answers and is not fenced by then is armed, or left to the hook.
_FENCE_SECONDS = 20.0
#: Brokers that have just come back lead no partition for a moment: that nothing could be proven on them then means
#: nothing.
_COMING_BACK_SECONDS, _LOOK_AGAIN_SECONDS = 5.0, 0.5
#: A watcher that showed no life for so long is taken for dead; it does every few seconds.
_SILENT_SECONDS = 60.0


class FenceSource(ProcedureStep):
    """Fence what can be reached; what cannot is armed: the watcher fences it as soon as it answers."""

    expires = True

    def act(self, procedure: Run, context: Any) -> SourceFenced:
        """Fence by ACL or fence hook, or arm the fence; the inventory's approval covers the time until then, too."""
        approval = procedure.approvals.require_plan()
        topics = topics_left(procedure)
        unproven: FenceNotProven | DeadlinePassed | None = None
        try:
            if source_answers(procedure, _LOST_ANSWER_SECONDS if found_lost(procedure) else _ANSWER_SECONDS):
                fenced = attempt_within(
                    procedure,
                    _fence_limit(procedure),
                    lambda attempt: fenced_coming_back(attempt, self.task_id, topics, approval),
                )
                if fenced is not None:
                    return fenced
                unproven = FenceNotProven(
                    "The source answers and has no authorizer",
                    "nothing but an ACL can fence it from here",
                    "Keep clients from it by a fence hook, or by other means until it does not answer; then start a new"
                    " run.",
                )
        except KafkaUnavailable as error:
            self.log.info("The source is out of reach: %s", error)
        except (FenceNotProven, DeadlinePassed) as error:
            unproven = error
        return self._from_outside(procedure, topics, approval, unproven)

    def _from_outside(
        self,
        procedure: Run,
        topics: list[str],
        approval: Approval,
        unproven: FenceNotProven | DeadlinePassed | None,
    ) -> SourceFenced:
        """Arm the fence before asking the hook, as the source may answer meanwhile; a fence by hook replaces it."""
        # A source that works, and lets clients in: both sides would accept writes, and no watcher could change that.
        works = unproven if unproven is not None and source_answers(procedure) else None
        armed_at = "" if works is not None else arm(procedure, self.task_id, topics).fence.since.isoformat()
        answer = ask_fence_hook(procedure, self.task_id)
        if answer is not None and answer.fenced:
            return SourceFencedByHook(approval=approval, fenced=BY_HOOK, answer=answer, fenced_at=procedure.now())
        if works is not None:
            raise works
        return SourceFenceArmed(
            approval=approval,
            fenced=ARMED,
            answer=answer,
            armed_at=armed_at,
            topics=len(topics),
            watcher_seen_at=watcher_seen(procedure),
        )


class TimedAttempt:
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
    authority, own = TimedAttempt(procedure.authority), procedure.systems.anew()
    attempt = Run(procedure.identity, procedure.request, procedure.journal, own, authority)
    done = in_background(lambda: work(attempt))
    wait([done], seconds)
    if done.done():
        return done.result()
    authority.give_up()
    raise DeadlinePassed(
        f"The source answered and was not fenced within {seconds:.0f} s",
        "it stopped answering in the middle, or is too slow",
        "Look at its brokers, or keep clients from it by a fence hook; then start a new run.",
    )


def _fence_limit(procedure: Run) -> float:
    """Seconds an ACL fence may take: short for a lost source, as clients stand still; longer for one left alive."""
    return _FENCE_SECONDS if found_lost(procedure) else max(_FENCE_SECONDS, procedure.request.deadlines.fence_seconds)


def fenced_coming_back(
    procedure: Run, step: str, topics: Iterable[str], approval: Approval
) -> SourceFencedByAcl | None:
    """As `fenced_by_acl`; for a lost source that answers again, the first seconds without proof are no refusal."""
    ends_at = time.monotonic() + (_COMING_BACK_SECONDS if found_lost(procedure) else 0.0)
    while True:
        try:
            return fenced_by_acl(procedure, step, topics, approval)
        except FenceNotProven:
            if time.monotonic() >= ends_at:
                raise
        time.sleep(_LOOK_AGAIN_SECONDS)


def fenced_by_acl(procedure: Run, step: str, topics: Iterable[str], approval: Approval) -> SourceFencedByAcl | None:
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
        **vars(accepted_since(procedure, every)),
    )


def found_lost(procedure: Run) -> bool:
    """Whether the source did not answer when it was looked for."""
    return procedure.progress.require(SourceConfirmedLost).state == SourceState.LOST


def source_answers(procedure: Run, seconds: float = _ANSWER_SECONDS) -> bool:
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


def mirrored_now(procedure: Run) -> set[str]:
    """Topics that the source has now and the flow mirrors."""
    return mirrored_of(procedure, procedure.systems.source.topics())


def mirrored_of(procedure: Run, topics: Iterable[str]) -> set[str]:
    """Those of the source's topics that the flow mirrors, by its worker's configuration, else by the stated one."""
    topics = list(topics)
    try:
        return set(scope_now(procedure, topics, timeout=_CONFIG_SECONDS))
    except (BadInput, ConnectUnavailable):
        return set(scope_of(procedure, topics, procedure.flow.mirror_maker))


def topics_left(procedure: Run) -> list[str]:
    """Topics that clients of a lost source leave there, by the inventory; also those without a known log end."""
    assessed = procedure.progress.done(DataLossAssessed)
    planned = {one.topic for one in assessed.planned.topics} if assessed else set()
    return sorted({tp.topic for tp in known_ends(procedure)} | planned)


def ask_fence_hook(procedure: Run, step: str) -> FenceHookAnswer | None:
    """Ask the fence hook to keep clients from the source, and look whether it says so again; None without a hook."""
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None:
        return None
    record(procedure.authority, step, FenceHookToAsk(asks_fence_hook=source))
    try:
        with acting(procedure.authority, lambda: hook.unfence(procedure.id, source)):
            answer = hook.fence(procedure.id, source)
        return FenceHookAnswer(answer.fenced and hook.state(source).fenced, answer.by, answer.detail)
    except HookUnavailable as error:
        return FenceHookAnswer(False, "", error=str(error))


def asked_fence_hook(procedure: Run) -> bool:
    """Whether this procedure asked the fence hook to keep clients from the source, by its intents in the journal."""
    return bool(procedure.progress.facts(FenceHookToAsk))


def lift_fence_hook(procedure: Run) -> FenceHookAnswer | None:
    """Have the fence hook let clients in again where this procedure asked it to keep them out; None if it did not.

    Raises:
        HookUnavailable: it does not answer.
        ReadBackFailed: it still keeps them out.
    """
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None or not asked_fence_hook(procedure):
        return None
    procedure.authority.hold()
    hook.unfence(procedure.id, source)
    answer = hook.state(source)
    if answer.fenced:
        raise ReadBackFailed(
            "The fence hook still keeps clients from the source",
            answer.by,
            "Clear return_to_source: it goes on from here.",
        )
    return FenceHookAnswer(**vars(answer))


def arm(procedure: Run, step: str, topics: Iterable[str]) -> Watched:
    """Have the watcher fence the source as soon as it answers; read back from the journal."""
    source = SourceToFence(procedure.request.source, procedure.request.target, sorted(topics))
    record(procedure.authority, step, FenceToArm(arms_fence=source))
    armed = watched(telling_entries(procedure.journal)).get(procedure.id)
    if armed is None:
        raise ReadBackFailed("The armed fence is not in the journal", procedure.id, "Look at the journal's database.")
    return armed


def watcher_seen(procedure: Run) -> str:
    """When the watcher of old sources showed life last, ISO 8601 UTC.

    Raises:
        NotReady: not for a minute: an armed fence would be nobody's, and its window measured by nobody.
    """
    seen, now = procedure.journal.last_sign(Step.WATCH_OLD_SOURCE), datetime.now(UTC)
    if seen is None or (now - seen).total_seconds() > _SILENT_SECONDS:
        told = (
            "it never showed life"
            if seen is None
            else (
                f"it showed life last at {seen.isoformat(timespec='seconds')}, {(now - seen).total_seconds():.0f} s ago"
            )
        )
        raise NotReady(
            "Nobody watches for the old source: watch_old_source does not run",
            told,
            "Unpause that DAG, or run `python -m kafka_dr.commands.watch_old_source`; then start a new run. A fence"
            " hook that keeps clients from the source does without it.",
        )
    return seen.isoformat()


def fence_ahead(procedure: Run) -> str:
    """How the source will be kept from its clients, as far as can be said before it is tried."""
    if not found_lost(procedure):
        return BY_ACL
    return ARMED if procedure.systems.fence_hook is None else BY_HOOK


def telling_entries(journal: Journal) -> list[JournalEntry]:
    """Entries that say what is armed, in order; of all procedures."""
    if not journal.entries(step=Step.FENCE_SOURCE):
        return []
    return sorted((entry for step in TELLING for entry in journal.entries(step=step)), key=lambda entry: entry.sequence)
