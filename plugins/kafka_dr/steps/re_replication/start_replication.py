"""Resume the source connectors of the flow, so that the chosen topics are copied again."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka_dr.actions.re_replication.first_record import refuse_other_reset
from kafka_dr.actions.re_replication.scope import planned_copies
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import ReplicationSeeded, ReplicationStarted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class StartReplication(ProcedureStep):
    """Resume the source connectors; the checkpoint connector stays stopped until the groups have their positions."""

    def act(self, procedure: Run, context: Any) -> ReplicationStarted:
        """Resume each source connector, and wait until connector and tasks are RUNNING."""
        procedure.progress.require(ReplicationSeeded)
        plan, _ = planned_copies(procedure)
        worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
        needing_tasks = worker.connectors_with([topic.topic for topic in plan.copied_topics])
        refuse_loop(procedure)
        refuse_other_reset(procedure, plan.resets)
        for name in worker.sources:
            with acting_under(procedure.authority, partial(worker.stop, name, deadline=seconds)):
                worker.resume(name, deadline=seconds, needs_tasks=name in needing_tasks)
        return ReplicationStarted(connectors=worker.sources)
