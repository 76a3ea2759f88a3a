"""Commit positions that were translated without the source."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.recheck import (
    group_sync_stopped,
)
from kafka_dr.procedure.entries import GroupsCommitted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.commit_groups import CommitGroups


class CommitWithoutSource(CommitGroups):
    """Commit the positions once MirrorMaker 2's own group sync can move them no more."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """The checkpoint connector was asked to stop a while ago; only now it is waited for."""
        group_sync_stopped(procedure, self.task_id)
        return super().act(procedure, context)
