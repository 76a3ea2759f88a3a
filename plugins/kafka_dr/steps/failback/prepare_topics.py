"""Prepare the returned cluster's topics for the flow back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_dr.actions.failback.replay_plan import decided_on, refuse_without_place
from kafka_dr.actions.failback.resync_scope import topics_back
from kafka_dr.actions.failback.stranded_decision import mode_of, require_decided
from kafka_dr.actions.failback.topic_alignment import make_alike, settings_that_differ
from kafka_dr.actions.failback.topic_recreation import TopicRecreation, ids_frame, made_by, settings_before_deletion
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.procedure.entries import TopicsPrepared
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class PrepareTopics(ProcedureStep):
    """Create missing topics on the returned cluster; mode recreate first deletes, with decision and verified export."""

    def act(self, procedure: Run, context: Any) -> TopicsPrepared:
        """Topics of the same names and partitions on both sides; the ids of those that were made anew."""
        approval, scope, mode = require_decided(procedure), topics_back(procedure), mode_of(procedure)
        # Done once, it is not begun again: the flow back may have filled the topics since.
        before = procedure.progress.done(TopicsPrepared)
        if before is None:
            # What has no place to be replayed to is refused before anything is deleted.
            refuse_without_place(procedure, decided_on(procedure))
        anew = TopicRecreation(procedure, self.task_id, scope) if mode is Mode.RECREATE and before is None else None
        deleted = anew.delete() if anew else {}
        made, grown = make_alike(procedure, self.task_id, scope, settings_before_deletion(procedure))
        figures: dict[str, Any] = {
            "approval": approval,
            "mode": mode,
            "topics": len(scope),
            "created": made,
            "grown": grown,
            "settings_differ": settings_that_differ(procedure, scope),
            "prepared": procedure.artifacts.save("prepared", ids_frame(procedure, scope.values())),
        }
        if before:
            return replace(before, **figures)
        if anew:
            anew.refuse_filled()
        recreated = procedure.artifacts.save("recreated", ids_frame(procedure, made_by(procedure, self.task_id)))
        return TopicsPrepared(**figures, **deleted, recreated=recreated)
