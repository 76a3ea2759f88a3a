"""Fence a source that may be unreachable."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.fencing.hook_fence import ask_fence_hook
from kafka_dr.actions.old_source.armed_fence import arm_fence, watcher_seen
from kafka_dr.actions.old_source.lost_source_fence import (
    ANSWER_SECONDS,
    LOST_ANSWER_SECONDS,
    attempt_within,
    fence_with_grace,
    is_source_lost,
    source_answers,
    topics_left,
)
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_HOOK
from kafka_dr.errors import DeadlinePassed, FenceNotProven, KafkaUnavailable
from kafka_dr.procedure.entries import Approval, SourceFenceArmed, SourceFenced, SourceFencedByHook
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

#: Seconds that the ACL fence may take if a source confirmed lost answers again; after that, armed fence or hook.
_FENCE_SECONDS = 20.0


class FenceSource(ProcedureStep):
    """Fence a source that answers; else arm the fence, which the watcher sets as soon as the source answers."""

    expires = True

    def act(self, procedure: Run, context: Any) -> SourceFenced:
        """Fence the source by ACLs or by the fence hook, or arm the fence; return which of the three was done.

        Raises:
            FenceNotProven: the source answers and could not be fenced.
            DeadlinePassed: the source answers and was not fenced in time.
        """
        approval = procedure.approvals.require_plan()
        topics = topics_left(procedure)
        unproven: FenceNotProven | DeadlinePassed | None = None
        try:
            if source_answers(procedure, LOST_ANSWER_SECONDS if is_source_lost(procedure) else ANSWER_SECONDS):
                fenced = attempt_within(
                    procedure,
                    _fence_limit(procedure),
                    lambda attempt: fence_with_grace(attempt, self.task_id, topics, approval),
                )
                if fenced is not None:
                    return fenced
                unproven = FenceNotProven(
                    "The source answers and has no authorizer",
                    "without an authorizer no ACL entry can fence the source",
                    "The procedure returns to the source by itself. Have a fence hook fence the source, or disconnect"
                    " the source from its network; then start a new run.",
                )
        except KafkaUnavailable as error:
            self.log.info("The source does not answer: %s", error)
        except (FenceNotProven, DeadlinePassed) as error:
            unproven = error
        return self._fence_without_acls(procedure, topics, approval, unproven)

    def _fence_without_acls(
        self,
        procedure: Run,
        topics: list[str],
        approval: Approval,
        unproven: FenceNotProven | DeadlinePassed | None,
    ) -> SourceFenced:
        """Arm the fence, because the source may answer soon; then ask the fence hook to fence the source.

        Args:
            topics: the topics to fence, by their names on the source.
            approval: the approval of the plan, for the outcome.
            unproven: why the fence by ACLs failed although the source answered; None if the source did not answer.

        Raises:
            FenceNotProven, DeadlinePassed: `unproven`, if the source still answers and the hook does not fence it.
        """
        # If a source answers and cannot be fenced, both clusters would accept writes; no watcher could change this.
        open_source = unproven if unproven is not None and source_answers(procedure) else None
        armed_at = "" if open_source is not None else arm_fence(procedure, self.task_id, topics).fence.since.isoformat()
        answer = ask_fence_hook(procedure, self.task_id)
        if answer is not None and answer.fenced:
            return SourceFencedByHook(approval=approval, fenced=BY_HOOK, answer=answer, fenced_at=procedure.now())
        if open_source is not None:
            raise open_source
        return SourceFenceArmed(
            approval=approval,
            fenced=ARMED,
            answer=answer,
            armed_at=armed_at,
            topics=len(topics),
            watcher_seen_at=watcher_seen(procedure),
        )


def _fence_limit(procedure: Run) -> float:
    """Return how many seconds a fence by ACLs may take: 20 for a lost source, because its clients are down.

    For a source that is not lost, which takes an override: `fence_seconds`, but at least 20.
    """
    return (
        _FENCE_SECONDS if is_source_lost(procedure) else max(_FENCE_SECONDS, procedure.request.deadlines.fence_seconds)
    )
