"""Can the clients move now?"""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.readiness.observe import observed_at_rest
from kafka_dr.actions.readiness.plan import kept_for_forecast, records_per_second
from kafka_dr.actions.readiness.preconditions import known_topic_ids, transactions_can_be_ended
from kafka_dr.domain.readiness.notes import list_notes
from kafka_dr.domain.readiness.readiness import find_blockers, isolation_of
from kafka_dr.errors import NotReady
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    ReadinessBlocked,
    ReadinessChecked,
)
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class CheckReadiness(ProcedureStep):
    """Ask all gates at once; any blocker ends the procedure before anything was touched."""

    def act(self, procedure: Run, context: Any) -> ReadinessChecked:
        """Observe, ask the gates, remember the topic ids for the next time."""
        read_at, acknowledged = procedure.now(), procedure.request.choices.get("acknowledge_recreated_topics", False)
        seen = observed_at_rest(procedure, {} if acknowledged else known_topic_ids(procedure))
        found = find_blockers(seen)
        if found:
            record_fact(procedure.authority, self.task_id, ReadinessBlocked(blockers=[b.as_dict() for b in found]))
            listed = "; ".join(f"{b.gate}: {b.reason} ({b.seen})" for b in found)
            raise NotReady(
                f"{len(found)} readiness gates are closed", listed, " ".join(dict.fromkeys(b.next_step for b in found))
            )
        transactions_can_be_ended(procedure)
        procedure.systems.connections.check_spark(procedure.topology.spark.connection)
        return ReadinessChecked(
            topics=len(seen.scope),
            groups=len(seen.groups),
            notes=list_notes(seen),
            records_per_second=records_per_second(seen),
            isolation=isolation_of(seen.flow.source_config),
            topic_ids={t: seen.source.topics[t].topic_id for t in seen.scope},
            **kept_for_forecast(procedure, seen.positions, read_at),
        )
