"""What the trial of an application's login means: a blocker, a note, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.access.trial import AccessTrial, Act
from kafka_dr.domain.access.verdict import access_notes, applications_work_on_target, proven_access
from kafka_dr.domain.kafka_model.acl import AclChange, AclRules
from kafka_dr.domain.readiness.notes import list_notes
from kafka_dr.domain.readiness.readiness import find_blockers

from tests.plugins.kafka_dr.domain.readiness.test_readiness import RIGHTS, acl, cluster, seen

TOPIC, GROUP = "orders-switchback-access.replica", "orders-switchback-access"
REFUSED = "TOPIC_AUTHORIZATION_FAILED"


def trial(failed: Act | None = None, answer: str = "", **changes: Any) -> AccessTrial:
    """A trial of one application."""
    whole = {
        "connection": "orders_standby",
        "principal": "User:app",
        "topic": TOPIC,
        "group": GROUP,
        "failed": failed,
        "seen": answer,
    }
    return AccessTrial("orders", "standby", **(whole | changes))


@pytest.mark.parametrize(
    ("tried", "reason", "to_do"),
    [
        (trial(Act.LOG_IN, "_AUTHENTICATION"), "cannot log in", "Compare user and password of orders_standby"),
        (
            trial(Act.WRITE, REFUSED),
            "cannot write a record",
            f"Give User:app the right WRITE on topics such as {TOPIC}",
        ),
        (trial(Act.READ, REFUSED), "cannot read its record", "the right READ on topics"),
        (
            trial(Act.COMMIT, "GROUP_AUTHORIZATION_FAILED", principal=""),
            "cannot commit a position of its group",
            f"Give the principal of this login the right READ on groups such as {GROUP}",
        ),
        (trial(Act.WRITE, "NOT_ENOUGH_REPLICAS"), "cannot write a record", "the logs of the brokers of standby"),
        (trial(Act.CONNECT, "no such topic"), "cannot be tried", "the rights CREATE and DELETE"),
        (trial(Act.CONNECT, "missing", next_step="Create it."), "cannot be tried", "Create it."),
    ],
)
def test_a_failed_act_is_a_blocker(tried: AccessTrial, reason: str, to_do: str) -> None:
    """It names application, cluster, connection, the answer, and what to do."""
    (blocker,) = find_blockers(seen(trials=(tried,)))
    assert blocker.gate == "applications_work_on_target"
    assert blocker.reason == f"Application orders {reason} on standby"
    assert blocker.seen == f"connection orders_standby: {tried.seen}"
    assert to_do in blocker.next_step


@pytest.mark.parametrize(
    ("failed", "operation", "kind"), [(Act.WRITE, "write", "topic"), (Act.COMMIT, "read", "group")]
)
def test_what_open_target_removes_is_no_blocker_but_a_note(failed: Act, operation: str, kind: str) -> None:
    """A denial of everything, as a new standby has it, refuses an application that has the right."""
    right, denial = acl("User:app", operation, "*", kind), acl("User:app", operation, "*", kind, permission="deny")
    fenced = seen(target=cluster("standby", rules=AclRules(RIGHTS | {right, denial})), trials=(trial(failed, REFUSED),))
    assert list(applications_work_on_target(fenced)) == []
    (note,) = access_notes(fenced)
    assert "cannot be tried before open_target, because ACL entries that open_target removes refuse it" in note
    assert note in list_notes(fenced)
    without_right = seen(target=cluster("standby", rules=AclRules(RIGHTS | {denial})), trials=(trial(failed, REFUSED),))
    assert len(list(applications_work_on_target(without_right))) == 1


def test_reads_are_not_opened() -> None:
    """A denial of reading topics stays."""
    entries = {acl("User:app", "read", "*"), acl("User:app", "read", "*", permission="deny")}
    tried = seen(target=cluster("standby", rules=AclRules(RIGHTS | entries)), trials=(trial(Act.READ, REFUSED),))
    assert len(list(applications_work_on_target(tried))) == 1


def test_a_fence_that_replaced_grants_of_everyone_is_reverted() -> None:
    """On a returned cluster new topics refuse clients until the failback opens it; so does an unknown principal."""
    everyone = acl("User:*", "write", "*")
    tried = seen(
        target_fence=AclChange((acl("User:mm2", "write", "*"),), (everyone,)),
        trials=(trial(Act.WRITE, REFUSED, principal=""),),
    )
    assert list(applications_work_on_target(tried)) == []


def test_what_was_not_tried_is_a_note() -> None:
    """It is never called proven."""
    tried = seen(trials=(trial(connection="", untried="the topology names no connection of it for standby"),))
    (note,) = access_notes(tried)
    assert note == (
        "Application orders: its access to standby was not tried, because the topology names no connection of it for"
        " standby."
    )
    assert proven_access(tried) == {"orders": "nothing"}


def test_what_is_proven() -> None:
    """Each act that succeeded."""
    shown = (Act.LOG_IN, Act.WRITE, Act.READ, Act.COMMIT)
    tried = seen(trials=(trial(shown=shown),))
    assert proven_access(tried) == {"orders": "login, write, read, commit of a position"}
    assert find_blockers(tried) == []
    assert list(access_notes(tried)) == []
