"""Let clients write on the target after the source was declared lost."""

from __future__ import annotations

from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.offsets.review import require_reviewed
from kafka_dr.actions.old_source.armed_fence import watcher_seen
from kafka_dr.actions.recheck import (
    group_sync_stopped,
    mirror_maker_still_stopped,
    source_reopened,
    target_ends_are_boundary,
)
from kafka_dr.actions.scope.plan_scope import groups_of, topics_of
from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import SourceFenced
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.open_target import OpenTarget


class OpenWithoutSource(OpenTarget):
    """Recheck the target, then let clients write on the target. The intent is the point of no return."""

    def look_again(self, procedure: Run, begun: bool) -> str:
        """Recheck what earlier steps proved, on the target alone; return that the source's positions were not read.

        Args:
            begun: whether the intent is written: then only the stop of MirrorMaker 2 is checked, because clients may
                already use the target.
        """
        if source_reopened(procedure):
            raise Refusal(
                "The procedure already returns to the source",
                f"return_to_source has begun to lift the fence on {procedure.request.source}",
                "Wait for return_to_source, or clear return_to_source if that step failed; then start a new run.",
            )
        refuse_reopened_by_pair(procedure)
        mirror_maker_still_stopped(procedure)
        group_sync_stopped(procedure, self.task_id)
        if not begun:
            require_reviewed(procedure)
            refuse_living_groups(procedure)
            if procedure.progress.require(SourceFenced).fenced == ARMED:
                watcher_seen(procedure)
            # Checked last: only stable target ends show that a connector that is still stopping writes nothing.
            target_ends_are_boundary(procedure)
        return "not checked: the source was given up"

    def client_scopes(self, procedure: Run) -> list[tuple[FenceScope, frozenset[str]]]:
        """Return operations to allow on the target, each with the principals that have an ALLOW entry on the target."""
        rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
        scopes = (
            FenceScope.writes(topics_of(procedure)),
            FenceScope.group_reads(groups_of(procedure)),
        )
        return [(scope, client_principals(rules, scope, exempt)) for scope in scopes]


def refuse_reopened_by_pair(procedure: Run) -> None:
    """Refuse if another run of the common plan returns to the source: its rollback may lift what fences the source."""
    other = procedure.approvals.pair_in("reopens")
    if other is not None and procedure.progress.require(SourceFenced).fenced != ARMED:
        raise Refusal(
            "Another pair of the common plan returns to the lost cluster",
            f"{other} may have lifted the fence of {procedure.request.source}, on which this run relies",
            "The procedure returns to the source by itself. Start a new run of unplanned_failover for this pair alone.",
        )


def refuse_living_groups(procedure: Run) -> None:
    """Refuse if a group that moves with this run has a member on the target."""
    active = active_groups(procedure.systems.target, groups_of(procedure))
    if active:
        raise Refusal(
            f"Groups have members on {procedure.request.target}",
            first_few(sorted(active)),
            "The procedure returns to the source by itself. Find out which consumers joined these groups on"
            f" {procedure.request.target}, and stop these consumers; then start a new run.",
        )
