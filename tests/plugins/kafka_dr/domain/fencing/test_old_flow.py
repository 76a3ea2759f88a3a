"""Entries that make the old flow harmless: only MirrorMaker 2 loses a right, and only to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.old_flow import why_not_harmless, writer_denials
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

WRITERS = frozenset({"User:mm2"})
TOPICS, OTHER = ("orders", "bills"), "mm2-offset-syncs.standby.internal"
PRINCIPALS = ("User:mm2", "User:app", "User:orchestrator", "User:anyone")
OPERATIONS = ("read", "write", "create", "describe", "alter", "delete")
entries = st.sets(
    st.builds(
        AclEntry,
        st.just("topic"),
        st.sampled_from((*TOPICS, OTHER, "*")),
        st.just("literal"),
        st.sampled_from(("User:mm2", "User:app", "User:*")),
        st.just("*"),
        st.sampled_from(("read", "write", "all", "describe")),
        st.sampled_from(("allow", "deny")),
    ),
    max_size=6,
)


@given(entries, st.booleans())
def test_only_writes_of_mirror_maker_to_data_topics_change(given_entries: set[AclEntry], allow_everyone: bool) -> None:
    """Whatever the cluster has: no other answer of the authorizer changes, also where no entry means everything."""
    rules = AclRules(frozenset(given_entries), frozenset({"User:admin"}), allow_everyone)
    changed = rules.with_entries(writer_denials(rules, TOPICS, WRITERS))
    for name in (*TOPICS, OTHER):
        for principal in PRINCIPALS:
            for operation in OPERATIONS:
                now = changed.may(principal, operation, "topic", name)
                if principal == "User:mm2" and operation == "write" and name in TOPICS:
                    assert not now
                else:
                    assert now == rules.may(principal, operation, "topic", name), (principal, operation, name)


@given(entries, st.booleans())
def test_only_missing_entries_are_added(given_entries: set[AclEntry], allow_everyone: bool) -> None:
    """To remove them restores the cluster's entries."""
    rules = AclRules(frozenset(given_entries), allow_everyone=allow_everyone)
    added = writer_denials(rules, TOPICS, WRITERS)
    assert not set(added) & rules.entries
    assert writer_denials(rules.with_entries(added), TOPICS, WRITERS) == ()


@pytest.mark.parametrize(
    ("rules", "writers", "reason"),
    [
        (AclRules(frozenset(), authorizer=False), WRITERS, "standby has no authorizer"),
        (AclRules(frozenset()), frozenset(), "names no principal of MirrorMaker 2 for standby"),
        (AclRules(frozenset(), WRITERS), WRITERS, "no ACL entry binds a super user of standby: User:mm2"),
    ],
)
def test_what_entries_cannot_do_is_said(rules: AclRules, writers: frozenset[str], reason: str) -> None:
    """Nothing is added, and the approver reads why."""
    assert writer_denials(rules, TOPICS, writers) == ()
    assert reason in (why_not_harmless(rules, "standby", writers) or "")


def test_a_bound_writer_is_no_problem() -> None:
    """Then there is nothing to say."""
    assert why_not_harmless(AclRules(frozenset()), "standby", WRITERS) is None
