"""Let clients write on the target, send them there, and see them arrive."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.fencing.fence import FenceScope, client_principals, opening_entries, refused_to_clients
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ReadBackFailed, Refusal
from kafka_dr.hooks.site.routing import Route
from kafka_dr.hooks.brokers.records import Accepted
from kafka_dr.actions.fencing.acl_fence import (
    active_groups,
    boundary_of,
    drain_hook_answer,
    fenced_groups,
    groups_of,
    topics_of,
)
from kafka_dr.actions.readiness.observe import source_rules, target_rules
from kafka_dr.actions.offsets.commit import require_reviewed
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.actions.recheck import (
    groups_still_at_rest,
    mirror_maker_still_stopped,
    source_ends_are_cut_off,
    source_reopened,
    source_still_fenced,
    target_ends_are_boundary,
)
from kafka_dr.procedure.authority import acting, record
from kafka_dr.procedure.entries import ClientsRedirected, ClientsVerified, DrainHookAnswer, TargetOpened, TargetToOpen
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.undo import removed_acl_entries
from kafka_dr.vocabulary import CANARY_TOPIC, Entry


class OpenTarget(ProcedureStep):
    """Look again at all that waiting may have changed, then let clients write. The intent is the point of no return."""

    # Interrupted after its intent, the target would be half open; none of its waits is long.
    bounded = False

    def intend(self, procedure: Run, context: Any) -> None:
        """Nothing is meant yet: the intent is written only after the last look."""

    def act(self, procedure: Run, context: Any) -> TargetOpened:
        """Look, write the intent, remove the target's denials, read back, write and read a canary."""
        scopes = self.client_scopes(procedure)
        begun = procedure.progress.began(self.task_id) is not None
        newest = procedure.journal.entries(procedure.id)[-1].sequence
        unchanged = self.look_again(procedure, begun)
        if not begun:
            closed = [
                e for scope, principals in scopes for e in opening_entries(target_rules(procedure), scope, principals)
            ]
            _refuse_unplanned(procedure, closed)
            procedure.authority.hold()
            intent = TargetToOpen(removes_acl_entries=closed, looked_at_entry=newest)
            record(procedure.authority, self.task_id, intent)
        lifted = removed_entries(procedure)
        with acting(procedure.authority, lambda: procedure.systems.target_acls.add(lifted)):
            procedure.systems.target_acls.remove(lifted)
        rules = target_rules(procedure)
        refused = [
            f"{scope.operation} {r}"
            for scope, principals in scopes
            for r in refused_to_clients(rules, scope, principals)
        ]
        if any(e in rules.entries for e in lifted):
            raise ReadBackFailed(
                "The target's fence is still there",
                first_few(lifted),
                "Clear open_target: it goes on from here.",
            )
        return TargetOpened(
            acl_entries_removed=len(lifted),
            clients_refused=refused[:100],
            positions_unchanged=unchanged,
            canary=write_canary(procedure),
            opened_at=procedure.now(),
        )

    def look_again(self, procedure: Run, begun: bool) -> str:
        """Check what still must hold; once begun, only the source: clients may be on the target, approval was checked.

        Answers what shows that no position changed.
        """
        if source_reopened(procedure):
            raise Refusal(
                "The source was given back to its clients",
                "return_to_source had begun",
                "Clear return_to_source until it is done; then start a new procedure.",
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
        """What clients will do on the target, and the principals that do it on the source."""
        rules, exempt = source_rules(procedure), procedure.exempt(procedure.request.source)
        writes, reads = FenceScope.writes(topics_of(procedure)), FenceScope.group_reads(fenced_groups(procedure))
        return [(scope, client_principals(rules, scope, exempt)) for scope in (writes, reads)]


def _refuse_unplanned(procedure: Run, closed: list[AclEntry]) -> None:
    """Only denials that the approved plan names are removed."""
    unplanned = sorted({str(e) for e in closed} - set(procedure.progress.move().planned.opening))
    if unplanned:
        raise Refusal(
            "Somebody denied clients something on the target after the forecast",
            first_few(unplanned),
            "The procedure returns; find out why, then start a new one.",
        )


def removed_entries(procedure: Run) -> list[AclEntry]:
    """The target's denials this procedure meant to remove, by its intent in the journal."""
    return list(removed_acl_entries(procedure.progress.entries(Entry.INTENT)))


def write_canary(procedure: Run) -> dict[str, Any]:
    """One record into a topic of our own on the target, and read back."""
    procedure.systems.target.create_topic(CANARY_TOPIC, partitions=1, configs={"retention.ms": "604800000"})
    answer = procedure.systems.writer(procedure.request.target).write(
        CANARY_TOPIC, 0, procedure.now().encode(), key=procedure.id.encode()
    )
    if not isinstance(answer, Accepted):
        raise ReadBackFailed(
            "The target did not take a record", str(answer), "Look at the target's brokers; clear open_target to go on."
        )
    tp = TopicPartition(CANARY_TOPIC, 0)
    back = procedure.systems.reader(procedure.request.target).range(tp, answer.offset, answer.offset + 1)
    if [r.key for r in back] != [procedure.id.encode()]:
        raise ReadBackFailed(
            "The canary could not be read back",
            f"offset {answer.offset} of {CANARY_TOPIC}",
            "Look at the target's brokers; clear open_target to go on.",
        )
    return {"topic": CANARY_TOPIC, "offset": answer.offset}


class RedirectClients(ProcedureStep):
    """Change where clients connect, read it back, and tell the applications to go on."""

    def act(self, procedure: Run, context: Any) -> ClientsRedirected:
        """The routing record names the target; the drain hook is told to resume."""
        require_opened(procedure)
        procedure.authority.hold()
        servers = procedure.systems.connections.kafka(procedure.topology.cluster(procedure.request.target).connection)[
            "bootstrap.servers"
        ]
        done = procedure.systems.routing.redirect(Route(procedure.request.target, servers))
        return ClientsRedirected(
            changed=done.changed,
            answered=done.answered,
            clients_see=asdict(done.seen),
            drain_hook=tell_to_resume(procedure),
        )


def require_opened(procedure: Run) -> None:
    """Require an open target: by this procedure with valid approvals, or by hand, as asking would undo nothing."""
    if procedure.progress.require(TargetOpened).by_hand is None:
        require_reviewed(procedure)


def tell_to_resume(procedure: Run) -> DrainHookAnswer:
    """Tell the application's drain hook to follow the routing record; its silence is reported, not fatal."""
    answer = drain_hook_answer(procedure, lambda hook: hook.tell_to_resume(procedure.id))
    return replace(answer, told=answer.answered is not None)


class VerifyClients(ProcedureStep):
    """Groups that were active at the forecast become active on the target; nobody is left on the source."""

    def act(self, procedure: Run, context: Any) -> ClientsVerified:
        """Wait for the groups; count what was written past the boundary."""
        expected = list(procedure.progress.move().active_groups)
        procedure.progress.wait(
            self.task_id,
            "Groups on the target",
            lambda: self._arrived(procedure, expected),
            procedure.request.deadlines.verify_seconds,
        )
        return ClientsVerified(
            expected_groups=len(expected),
            left_on_source=None if procedure.progress.without_source else 0,
            records_since_opening=self._written(procedure),
            note=None if expected else "no group was active at the forecast: nothing to wait for",
        )

    def _arrived(self, procedure: Run, expected: list[str]) -> None:
        left = (
            []
            if procedure.progress.without_source
            else sorted(active_groups(procedure.systems.source, groups_of(procedure)))
        )
        if left:
            raise NotYet(f"{len(left)} groups are still on the source: {first_few(left)}")
        missing = sorted(set(expected) - set(active_groups(procedure.systems.target, expected)))
        if missing:
            raise NotYet(
                f"{len(missing)} of {len(expected)} groups are not active on the target yet: {first_few(missing)}"
            )

    def _written(self, procedure: Run) -> int:
        boundary, topics = boundary_of(procedure), procedure.systems.target.topics(topics_of(procedure))
        ends = procedure.systems.target.ends(
            [TopicPartition(t, p) for t, info in topics.items() for p in info.partitions]
        )
        return sum(end - boundary.get(tp, 0) for tp, end in ends.items())
