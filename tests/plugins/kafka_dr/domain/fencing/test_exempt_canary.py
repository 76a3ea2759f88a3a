"""The canary's topic is fenced like clients' topics, and its connector mirrors nothing else."""

from __future__ import annotations

import pytest
from kafka_dr.domain.fencing.exempt_canary import canary_config, fenced_canary, note_of_grants, read_canary
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.vocabulary import EXEMPT_TOPIC

COPY, EXEMPT = "east." + EXEMPT_TOPIC, frozenset({"User:mm2", "User:o"})


def allow(principal: str, operation: str = "all", name: str = "*") -> AclEntry:
    """An entry on all topics, or on one."""
    return AclEntry("topic", name, "literal", principal, "*", operation, "allow")


RULES = {
    "named clients": AclRules(frozenset({allow("User:app", "write"), allow("User:mm2", "read")})),
    "no entry": AclRules(frozenset(), allow_everyone=True),
    "entry for everyone": AclRules(frozenset({allow("User:*"), allow("User:app", "write")})),
    "super users": AclRules(frozenset({allow("User:app", "write")}), super_users=EXEMPT),
}


@pytest.mark.parametrize("kind", RULES)
def test_exempt_principals_write_and_clients_do_not(kind: str) -> None:
    """By the rules as they are while the canary is copied; all entries name the canary's topic."""
    rules = RULES[kind]
    entries = fenced_canary(rules, COPY, EXEMPT)
    fenced = rules.with_entries(entries)
    assert {(entry.name, entry.pattern) for entry in entries} == {(COPY, "literal")}
    assert all(fenced.may(principal, "write", "topic", COPY) for principal in EXEMPT)
    assert not fenced.may("User:app", "write", "topic", COPY)
    # One entry on all topics cannot be replaced for one topic: the plan says so.
    open_to_unknown = fenced.may("User:unknown", "write", "topic", COPY)
    assert open_to_unknown == bool(note_of_grants(rules, COPY, EXEMPT)) == (kind == "entry for everyone")


def test_no_entry_is_needed_where_none_decides() -> None:
    """Without an authorizer, and where everyone may read a topic without entries."""
    assert fenced_canary(AclRules(frozenset(), authorizer=False), COPY, EXEMPT) == ()
    assert read_canary(AclRules(frozenset(), authorizer=False), COPY, EXEMPT) == ()
    assert read_canary(RULES["no entry"], COPY, EXEMPT) == ()
    assert {entry.principal for entry in read_canary(RULES["named clients"], COPY, EXEMPT)} == EXEMPT


def test_the_connector_has_the_clients_of_the_reverse_flow() -> None:
    """Servers, logins and overrides are kept; topics, filters and syncs are its own, and it is never disabled."""
    config = {
        "name": "reverse",
        "topics": "orders",
        "topics.blacklist": ".*",
        "enabled": "false",
        "offset-syncs.topic.location": "target",
        "tasks.max": "8",
        "transforms": "route",
        "transforms.route.type": "R",
        "producer.override.sasl.jaas.config": "secret",
        "source.cluster.bootstrap.servers": "h:1",
    }
    made = canary_config(config, OwnNames())
    assert made["producer.override.sasl.jaas.config"] == "secret" and made["source.cluster.bootstrap.servers"] == "h:1"
    assert made["topics"] == r"switchback\-canary\.replica" and made["tasks.max"] == "1"
    assert (
        not {"enabled", "topics.blacklist", "offset-syncs.topic.location"} & set(made)
        and made["name"] == "switchback-canary"
    )
