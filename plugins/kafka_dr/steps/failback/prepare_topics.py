"""Prepare the topics on the returned cluster to which the flow back will write."""

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
    """Create missing topics on the returned cluster; mode recreate first deletes topics, after a verified export."""

    def act(self, procedure: Run, context: Any) -> TopicsPrepared:
        """Give the returned cluster the topics and partitions of the new primary; return changes and topic ids."""
        approval, scope, mode = require_decided(procedure), topics_back(procedure), mode_of(procedure)
        # Topics are never deleted twice: after this step's first outcome the flow back may have filled them.
        earlier = procedure.progress.done(TopicsPrepared)
        if earlier is None:
            # Records without a partition to replay to are refused before any topic is deleted.
            refuse_without_place(procedure, decided_on(procedure))
        recreation = (
            TopicRecreation(procedure, self.task_id, scope) if mode is Mode.RECREATE and earlier is None else None
        )
        deleted = recreation.delete() if recreation else {}
        created, grown = make_alike(procedure, self.task_id, scope, settings_before_deletion(procedure))
        figures: dict[str, Any] = {
            "approval": approval,
            "mode": mode,
            "topics": len(scope),
            "created": created,
            "grown": grown,
            "settings_differ": settings_that_differ(procedure, scope),
            "prepared": procedure.artifacts.save("prepared", ids_frame(procedure, scope.values())),
        }
        if earlier:
            return replace(earlier, **figures)
        if recreation:
            recreation.refuse_filled()
        recreated = procedure.artifacts.save("recreated", ids_frame(procedure, made_by(procedure, self.task_id)))
        return TopicsPrepared(**figures, **deleted, recreated=recreated)
