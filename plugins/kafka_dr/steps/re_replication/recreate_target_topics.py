"""Delete the chosen topics on the target and create them again; or keep them, if the run was asked to."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.re_replication.recreation import ends_to_begin_at, recreate_topics, refuse_filled
from kafka_dr.actions.re_replication.scope import planned_copies, planned_topics, require_approved
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.procedure.entries import FlowStopped, TargetTopicsReady
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class RecreateTargetTopics(ProcedureStep):
    """The point of no return, if topics are deleted: from its intent on the run only goes forward."""

    def act(self, procedure: Run, context: Any) -> TargetTopicsReady:
        """Delete and create again, or keep; return the log ends at which the new copies begin."""
        approval = require_approved(procedure)
        procedure.progress.require(FlowStopped)
        plan, _ = planned_copies(procedure)
        recreated = recreate_topics(procedure, self.task_id) if plan.deletes else 0
        chosen = planned_topics(procedure)
        begins = ends_to_begin_at(chosen)
        if plan.deletes:
            refuse_filled(procedure, begins)
        return TargetTopicsReady(
            approval=approval,
            recreated=recreated,
            kept=len(chosen.target_topics) - recreated,
            topic_ids={name: info.topic_id for name, info in sorted(chosen.target_topics.items())},
            begins=procedure.artifacts.save("copies_begin", partitions_frame(begins, "offset")),
        )
