"""Wait until the groups have no members, fence their reads on the source, and freeze their positions."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kafka_dr.actions.fencing.acl_fence import add_fence
from kafka_dr.actions.groups.at_rest import (
    active_groups,
    commits_end,
    excluded_now,
    positions_frame,
    still_held,
    wait_until_empty,
)
from kafka_dr.actions.groups.selected import groups_now
from kafka_dr.actions.scope.plan_scope import excluded_groups, planned_groups
from kafka_dr.domain.fencing.fence import FenceScope
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedure.entries import ConsumersDrained
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class DrainConsumers(ProcedureStep):
    """Wait until the groups have no members, fence their reads on the source, and freeze their committed offsets."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ConsumersDrained:
        """Let consumers leave, fence their groups' reads on the source; return positions that no longer change."""
        procedure.approvals.require_plan()
        planned, excluded = planned_groups(procedure), [exclusion.group for exclusion in excluded_groups(procedure)]
        self._let_finish(procedure, planned)
        add_fence(procedure, self.task_id, FenceScope.group_reads([*planned, *excluded], procedure.source_stays_open))
        # Groups created since the forecast move too; no approval covers them yet, so review_translation asks.
        groups = groups_now(procedure)
        fence_entries = add_fence(
            procedure, self.task_id, FenceScope.group_reads([*groups, *excluded], procedure.source_stays_open)
        )
        wait_until_empty(procedure, self.task_id, groups)
        frame, since = self._frozen_positions(procedure, groups)
        return ConsumersDrained(
            groups=groups,
            groups_since_forecast=sorted(set(groups) - set(planned)),
            excluded=excluded_now(procedure),
            acl_entries_added=len(fence_entries),
            positions=procedure.artifacts.save("source_positions", frame),
            commits_end=since,
        )

    def _let_finish(self, procedure: Run, groups: list[str]) -> None:
        """Give consumers `drain_seconds` to leave by themselves, before their reads are fenced."""
        limit = procedure.request.deadlines.drain_seconds
        began = procedure.progress.clock(self.task_id)

        def require_empty() -> None:
            active = active_groups(procedure.systems.source, groups)
            if active and procedure.progress.now() < began + limit:
                raise NotYet(f"{len(active)} groups still have members: {first_few(sorted(active))}")

        procedure.progress.wait(self.task_id, "Consumers leaving their groups", require_empty, limit + 5)

    def _frozen_positions(self, procedure: Run, groups: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        """Wait until the groups' positions on the source no longer change; return these positions, and log ends.

        The log ends are those of the source's __consumer_offsets from before the positions were read.
        """

        def read_frozen() -> tuple[pd.DataFrame, dict[str, int]]:
            since = commits_end(procedure)
            positions = positions_frame(procedure, groups)
            if still_held(procedure, groups, positions, since) is None:
                raise NotYet("committed positions still change")
            return positions, since

        # A wait is measured from the step's beginning, so this limit includes the time of the waits before.
        limits = procedure.request.deadlines
        return procedure.progress.wait(
            self.task_id,
            "Unchanged positions on the source",
            read_frozen,
            limits.drain_seconds + 2 * limits.fence_seconds,
        )
