"""A canary that MirrorMaker 2 copies to the source, to a topic that is fenced like clients' topics will be.

If the record arrives, the principal as which MirrorMaker 2 writes is one that the fence leaves alone. The fence of the
canary's topic differs in one thing: ALLOW entries for User:* on all topics stay, because they cannot be replaced for
one topic. Then the record proves only that MirrorMaker 2 writes as none of the principals that are denied by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafka_dr.domain.fencing.fence import FenceScope, fence_changes, grants_to_everyone, still_allowed
from kafka_dr.domain.kafka_model.acl import ANY_HOST, AclEntry, AclRules
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.domain.plain_text import first_few

#: Settings of the canary's connector, beside its name and topic, that differ from the source connector's whose
#: configuration it has.
_OWN_SETTINGS = {
    "topics.exclude": "switchback-no-topic",
    "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
    "tasks.max": "1",
    "source.consumer.auto.offset.reset": "earliest",
    "heartbeats.replication.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}
#: Settings that the canary's connector must not have: the older name of `topics.exclude`, a disabled connector's, and
#: those of offset syncs, with which Connect accepts no connector that emits none; and what changes records.
_LEFT_OUT = re.compile(r"topics\.blacklist|enabled|offset-syncs\..*|offset\.lag\.max|(transforms|predicates).*")


def canary_config(config: Mapping[str, str], names: OwnNames) -> dict[str, str]:
    """Return the configuration of a connector that mirrors the canary's topic only, with the clients of another one.

    Args:
        config: the configuration of a source connector.
        names: those of the canary's topic and connector.
    """
    own = {"name": names.exempt_connector, "topics": re.escape(names.exempt_topic), **_OWN_SETTINGS}
    return {key: value for key, value in config.items() if not _LEFT_OUT.fullmatch(key)} | own


def fenced_canary(rules: AclRules, topic: str, exempt: frozenset[str]) -> tuple[AclEntry, ...]:
    """Return the ACL entries that fence the canary's topic on the source, and let exempt principals use it.

    Args:
        rules: the source's ACL entries, without any for the topic itself.
        topic: the topic's name on the source.
    """
    if not rules.authorizer:
        return ()
    scope = FenceScope.writes([topic])
    narrowed = rules.without_entries(grants_to_everyone(rules, scope))
    fence = fence_changes(narrowed, scope, exempt).added
    return tuple(dict.fromkeys((*fence, *_rights_on(rules, topic, exempt))))


def read_canary(rules: AclRules, topic: str, exempt: frozenset[str]) -> tuple[AclEntry, ...]:
    """Return the ACL entries that let exempt principals use the canary's topic on the target.

    None are needed where the brokers allow everything on a topic without entries.
    """
    if not rules.authorizer:
        return ()
    unlisted = rules.allow_everyone and rules.rights("read", "topic", [topic]).names_without_entry()
    return () if unlisted else _rights_on(rules, topic, exempt)


def _rights_on(rules: AclRules, topic: str, exempt: frozenset[str]) -> tuple[AclEntry, ...]:
    bound = sorted(exempt - rules.super_users)
    return tuple(AclEntry("topic", topic, "literal", principal, ANY_HOST, "all", "allow") for principal in bound)


def note_of_grants(rules: AclRules, topic: str, exempt: frozenset[str]) -> str:
    """Return, for the plan, what a copied canary does not prove; "" if it proves all."""
    scope = FenceScope.writes([topic])
    if not still_allowed(rules.with_entries(fenced_canary(rules, topic, exempt)), scope, exempt):
        return ""
    granted = [str(entry) for entry in grants_to_everyone(rules, scope)]
    return (
        f"Everyone may write by {first_few(granted, 2)}, which the fence replaces for all topics at once: that"
        " MirrorMaker 2 writes as an exempt principal is proven only against the principals that are denied by name."
    )
