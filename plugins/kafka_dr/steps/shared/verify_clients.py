"""Verify that clients have arrived on the target."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.scope.plan_scope import boundary_of, groups_of, topics_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedure.entries import ClientsVerified
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class VerifyClients(ProcedureStep):
    """Wait until the groups active at the forecast are active on the target, and no group is active on the source.

    A source that was declared lost is not read.
    """

    def act(self, procedure: Run, context: Any) -> ClientsVerified:
        """Wait up to `verify_seconds` for the groups; then count the target's offsets past the boundary."""
        expected = list(procedure.progress.move().active_groups)
        procedure.progress.wait(
            self.task_id,
            "Active groups on the target",
            lambda: self._require_arrived(procedure, expected),
            procedure.request.deadlines.verify_seconds,
        )
        return ClientsVerified(
            expected_groups=len(expected),
            left_on_source=None if procedure.progress.without_source else 0,
            records_since_opening=self._count_written(procedure),
            note=None if expected else "no group was active when the plan was made: verify_clients waited for no group",
        )

    def _require_arrived(self, procedure: Run, expected: list[str]) -> None:
        still_on_source = (
            []
            if procedure.progress.without_source
            else sorted(active_groups(procedure.systems.source, groups_of(procedure)))
        )
        if still_on_source:
            raise NotYet(
                f"{len(still_on_source)} groups still have members on the source: {first_few(still_on_source)}"
            )
        missing = sorted(set(expected) - set(active_groups(procedure.systems.target, expected)))
        if missing:
            raise NotYet(
                f"{len(missing)} of {len(expected)} groups are not active on the target yet: {first_few(missing)}"
            )

    def _count_written(self, procedure: Run) -> int:
        boundary, topics = boundary_of(procedure), procedure.systems.target.topics(topics_of(procedure))
        ends = procedure.systems.target.ends(
            [TopicPartition(t, p) for t, info in topics.items() for p in info.partitions]
        )
        return sum(end - boundary.get(tp, 0) for tp, end in ends.items())
