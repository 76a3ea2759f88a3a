"""Which ACL entries make the old flow harmless, once clients have moved from its source to its target.

The *old flow* replicates from the cluster that clients left. The *data topics* are the topics of the target to which
this flow copies the scope; offset-syncs, checkpoints, heartbeats and Connect's own topics are none of them. A *writer*
is a principal of MirrorMaker 2 on the target.

Invariants
1. The entries change one answer of the authorizer only: whether a writer may write to a data topic.
2. Only entries that the cluster lacks are returned; so removing them restores the earlier ACL entries exactly.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.kafka_model.acl import ANY_HOST, ANY_PRINCIPAL, AclEntry, AclRules


def writer_denials(rules: AclRules, topics: Iterable[str], writers: frozenset[str]) -> tuple[AclEntry, ...]:
    """Return the ACL entries to add so that no writer may write to the data topics; () if entries bind no writer.

    Where the brokers allow everything on a topic without entries, the first entry would end that: everyone then gets an
    ALLOW entry for all operations, too.

    Args:
        rules: the target's ACL entries and its authorizer's settings, as they are once clients may work there.
    """
    bound = sorted(writers - rules.super_users)
    if not rules.authorizer or not bound:
        return ()
    names = sorted(set(topics))
    unlisted = set(rules.rights("write", "topic", names).names_without_entry() if rules.allow_everyone else ())
    wanted = [
        AclEntry("topic", name, "literal", principal, ANY_HOST, operation, permission)
        for name in names
        for principal, operation, permission in (
            *([(ANY_PRINCIPAL, "all", "allow")] if name in unlisted else []),
            *((writer, "write", "deny") for writer in bound),
        )
    ]
    return tuple(entry for entry in wanted if entry not in rules.entries)


def why_not_harmless(rules: AclRules, alias: str, writers: frozenset[str]) -> str | None:
    """Return why ACL entries do not make the old flow harmless, in a sentence; None if they do."""
    unbound = sorted(writers & rules.super_users)
    if not rules.authorizer:
        reason = f"{alias} has no authorizer"
    elif not writers:
        reason = f"the topology names no principal of MirrorMaker 2 for {alias}"
    elif unbound:
        reason = f"no ACL entry binds a super user of {alias}: {', '.join(unbound)}"
    else:
        return None
    return (
        f"The old flow is not made harmless after the opening: {reason}. If somebody resumes this flow, it copies until"
        " the watcher stops it."
    )
