"""Commit positions that were translated without the source."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import group_sync_stopped
from kafka_dr.procedure.entries import GroupsCommitted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.commit_groups import CommitGroups


class CommitWithoutSource(CommitGroups):
    """Commit the positions on the target once MirrorMaker 2's group sync can no longer overwrite these positions."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """Wait until the checkpoint connector, which stop_mirror_maker asked to stop, is STOPPED; then commit."""
        group_sync_stopped(procedure, self.task_id)
        return super().act(procedure, context)
