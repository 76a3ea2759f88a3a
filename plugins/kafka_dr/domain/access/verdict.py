"""What the trials of applications' own logins mean for a move: blockers, notes, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_dr.domain.access.trial import NEEDED, AccessTrial, Act
from kafka_dr.domain.fencing.fence import ANYONE, FenceScope, opening_entries
from kafka_dr.domain.readiness.blocker import Blocker
from kafka_dr.domain.readiness.observation import Observation

_NOUNS = {Act.LOG_IN: "login", Act.WRITE: "write", Act.READ: "read", Act.COMMIT: "commit of a position"}


def applications_work_on_target(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each application whose own login failed on the target, unless open_target ends the cause."""
    for trial in o.trials:
        if trial.failed is not None and not is_fenced(o, trial):
            yield Blocker(
                "applications_work_on_target",
                f"Application {trial.application} cannot {trial.failed} on {trial.cluster}",
                f"connection {trial.connection}: {trial.seen}",
                _next_step(trial),
            )


def is_fenced(o: Observation, trial: AccessTrial) -> bool:
    """Whether a trial failed because of ACL entries that open_target removes or replaces."""
    if trial.failed not in NEEDED:
        return False
    principal, (operation, resource_type) = trial.principal or ANYONE, NEEDED[trial.failed]
    scope = FenceScope.group_reads(o.groups) if resource_type == "group" else FenceScope.writes(o.scope)
    opens = scope.operation == operation
    denials = opening_entries(o.target.rules, scope, frozenset({principal})) if opens else []
    fence, rules = o.target_fence, o.target.rules
    opened = rules.without_entries([*denials, *fence.adds]).with_entries(fence.removes)
    right = (principal, operation, resource_type, trial.resource)
    return not rules.may(*right) and opened.may(*right)


def access_notes(o: Observation) -> Iterator[str]:
    """Yield a sentence for each application whose access to the target was not tried as a whole."""
    for trial in o.trials:
        if trial.failed is not None and is_fenced(o, trial):
            yield (
                f"Application {trial.application}: that it can {trial.failed} on {trial.cluster} cannot be tried before"
                " open_target, because ACL entries that open_target removes refuse it. Its login works."
            )
        elif trial.untried:
            yield (
                f"Application {trial.application}: its access to {trial.cluster} was not tried, because"
                f" {trial.untried}."
            )


def proven_access(o: Observation) -> dict[str, str]:
    """Return by application what its own login showed on the target, such as `login, write`, or `nothing`."""
    return {t.application: ", ".join(_NOUNS[act] for act in t.shown) or "nothing" for t in o.trials}


def _next_step(trial: AccessTrial) -> str:
    if trial.next_step:
        return trial.next_step
    if trial.failed is Act.CONNECT:
        return (
            f"Give the orchestrator's principal the rights CREATE and DELETE on the topic {trial.topic}, and DELETE on"
            f" the group {trial.group}; or take `prefix` out of the application in the topology, so that only its login"
            " is tried."
        )
    if trial.failed is Act.LOG_IN:
        return (
            f"Compare user and password of {trial.connection} with those that the application has on {trial.cluster}."
            " If the user does not exist there, create it, because MirrorMaker 2 copies no users."
        )
    if trial.failed in NEEDED and "AUTHORIZATION" in trial.seen:
        operation, resource_type = NEEDED[trial.failed]
        return (
            f"Give {trial.principal or 'the principal of this login'} the right {operation.upper()} on"
            f" {resource_type}s such as {trial.resource} on {trial.cluster}, or remove the DENY entry against it. If"
            " the application has other names, correct `prefix` or `group_prefix` under `applications` in the topology."
        )
    return f"Find out in the logs of the brokers of {trial.cluster} why they do not answer as expected; then try again."
