"""Wait until the groups are empty, fence their reads, and freeze their positions."""

from __future__ import annotations

import time
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
from kafka_dr.actions.scope.plan_scope import (
    excluded_groups,
    planned_groups,
)
from kafka_dr.domain.fencing.fence import FenceScope
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedure.entries import (
    ConsumersDrained,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class DrainConsumers(ProcedureStep):
    """Wait until the groups are empty, fence their reads, and freeze what they committed."""

    expires = True

    def act(self, procedure: Run, context: Any) -> ConsumersDrained:
        """Empty the groups, fence, check that they are empty; read stable positions twice alike or without a commit."""
        procedure.approvals.require_plan()
        planned, left_alone = planned_groups(procedure), [one.group for one in excluded_groups(procedure)]
        self._let_finish(procedure, planned)
        add_fence(procedure, self.task_id, FenceScope.group_reads([*planned, *left_alone]))
        # Groups born since the forecast move too; the review asks about them, since nobody approved them yet.
        groups = groups_now(procedure)
        added = add_fence(procedure, self.task_id, FenceScope.group_reads([*groups, *left_alone]))
        wait_until_empty(procedure, self.task_id, groups)
        frame, since = self._frozen_positions(procedure, groups)
        return ConsumersDrained(
            groups=groups,
            groups_since_forecast=sorted(set(groups) - set(planned)),
            excluded=excluded_now(procedure),
            acl_entries_added=len(added),
            positions=procedure.artifacts.save("source_positions", frame),
            commits_end=since,
        )

    def _let_finish(self, procedure: Run, groups: list[str]) -> None:
        """Give consumers the time they were promised to leave by themselves; then their reads are fenced."""
        limit = procedure.request.deadlines.drain_seconds
        began = procedure.progress.clock(self.task_id)

        def left() -> None:
            active = active_groups(procedure.systems.source, groups)
            if active and time.time() < began + limit:
                raise NotYet(f"{len(active)} groups still have members: {first_few(sorted(active))}")

        procedure.progress.wait(self.task_id, "Consumers leaving", left, limit + 5)

    def _frozen_positions(self, procedure: Run, groups: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
        """The positions, and where commits ended before they were read."""

        def frozen() -> tuple[pd.DataFrame, dict[str, int]]:
            since = commits_end(procedure)
            first = positions_frame(procedure, groups)
            if still_held(procedure, groups, first, since) is None:
                raise NotYet("committed positions still change")
            return first, since

        # The step's clock has run since its beginning: what came before may have used its own deadlines up.
        limits = procedure.request.deadlines
        return procedure.progress.wait(
            self.task_id, "Positions at rest", frozen, limits.drain_seconds + 2 * limits.fence_seconds
        )
