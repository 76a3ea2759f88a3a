"""Let clients write on the target: the point of no return."""

from __future__ import annotations

from typing import Any

from kafka_dr.actions.clients import (
    begun_opening,
    open_to_clients,
    plan_opening,
    rules_listing_clients,
    write_canary,
)
from kafka_dr.actions.fencing.hook_fence import hook_fences_target, let_clients_in
from kafka_dr.actions.fencing.old_flow import old_flow_text
from kafka_dr.actions.fencing.rules import source_rules, target_rules
from kafka_dr.actions.offsets.review import require_reviewed
from kafka_dr.actions.recheck import (
    groups_still_at_rest,
    mirror_maker_still_stopped,
    source_ends_are_cut_off,
    source_reopened,
    source_still_fenced,
    target_ends_are_boundary,
)
from kafka_dr.actions.scope.plan_scope import fenced_groups, topics_of
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.errors import Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TargetOpened, TargetToOpen
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class OpenTarget(ProcedureStep):
    """Recheck what earlier steps proved, then let clients write on the target.

    The intent, written after the rechecks, is the point of no return.
    """

    # An interrupt after the intent would leave the target half open; no wait of this step is long.
    bounded = False

    def intend(self, procedure: Run, context: Any) -> None:
        """Write no intent, because `act` writes it after the rechecks."""

    def act(self, procedure: Run, context: Any) -> TargetOpened:
        """Recheck, write the intent, revert the target's fences, read the ACLs back, write and read a canary."""
        scopes = self.client_scopes(procedure)
        begun = procedure.progress.began(self.task_id) is not None
        newest_entry = procedure.journal.entries(procedure.id)[-1].sequence
        unchanged = self.look_again(procedure, begun)
        if not begun:
            planned = plan_opening(procedure, scopes)
            procedure.authority.hold()
            intent = TargetToOpen(
                removes_acl_entries=planned.removes,
                adds_acl_entries=planned.grants or None,
                denies_old_flow=planned.denials or None,
                looked_at_entry=newest_entry,
                lifts_fence_hook=hook_fences_target(procedure) or None,
            )
            record_fact(procedure.authority, self.task_id, intent)
        change = begun_opening(procedure)
        refused = open_to_clients(procedure, change, scopes)
        let_clients_in(procedure)
        return TargetOpened(
            acl_entries_removed=len(change.removes),
            old_flow=old_flow_text(procedure, target_rules(procedure), change.adds),
            clients_refused=refused[:100],
            positions_unchanged=unchanged,
            canary=write_canary(procedure),
            opened_at=procedure.now(),
        )

    def look_again(self, procedure: Run, begun: bool) -> str:
        """Recheck what earlier steps proved; after the intent only on the source, as clients may use the target.

        Args:
            begun: whether the intent is written; then approvals and the fence's deadline are not checked.

        Returns:
            How it was proven that no group's position on the source changed.
        """
        if source_reopened(procedure):
            raise Refusal(
                "The procedure already returns to the source",
                f"return_to_source has begun to lift the fence on {procedure.request.source}",
                "Wait for return_to_source, or clear return_to_source if that step failed; then start a new run.",
            )
        source_still_fenced(procedure)
        source_ends_are_cut_off(procedure)
        mirror_maker_still_stopped(procedure)
        unchanged = groups_still_at_rest(
            procedure, [procedure.systems.source] if begun else [procedure.systems.source, procedure.systems.target]
        )
        if not begun:
            require_reviewed(procedure)
            procedure.progress.check_fence_clock()
            target_ends_are_boundary(procedure)
        return unchanged

    def client_scopes(self, procedure: Run) -> list[tuple[FenceScope, frozenset[str]]]:
        """Return operations to allow on the target, each with the clients' principals that may do it on the source."""
        rules, exempt = rules_listing_clients(procedure, source_rules(procedure), target_rules(procedure))
        writes, reads = FenceScope.writes(topics_of(procedure)), FenceScope.group_reads(fenced_groups(procedure))
        return [(scope, client_principals(rules, scope, exempt)) for scope in (writes, reads)]
