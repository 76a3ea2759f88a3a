"""ACL entries: what is checked before anything is asked. The rest needs an authorizer: see tests/integration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, ResourceType
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.acls import ClusterAcls, _binding, _entry, _filter, in_requests
from kafka_dr.hooks.brokers.cluster import KafkaCluster

GOOD = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")


@pytest.fixture
def acls() -> ClusterAcls:
    """A cluster that nobody serves."""
    return ClusterAcls(KafkaCluster("east", {"bootstrap.servers": "127.0.0.1:9"}))


@pytest.mark.parametrize("resource_type", ["topic", "group", "transactional_id", "cluster"])
@pytest.mark.parametrize("pattern", ["literal", "prefixed"])
@pytest.mark.parametrize("operation", [o.name.lower() for o in AclOperation if o.name not in ("UNKNOWN", "ANY")])
def test_every_kind_of_entry_survives_the_client(resource_type: str, pattern: str, operation: str) -> None:
    """To the client's words and back nothing is lost, unicode names included."""
    for permission in ("allow", "deny"):
        entry = AclEntry(resource_type, "bestellungen-ü", pattern, "User:CN=app,O=x", "10.0.0.1", operation, permission)
        assert _entry(_binding(entry)) == entry


def test_a_removal_asks_for_exactly_one_entry() -> None:
    """The filter has every field set: nothing that merely resembles the entry can go."""
    found = _filter(GOOD)
    assert isinstance(found, AclBindingFilter)
    assert (found.restype, found.name, found.principal, found.host) == (ResourceType.TOPIC, "orders", "User:app", "*")
    assert tuple(getattr(found, f) for f in vars(_binding(GOOD))) == tuple(vars(_binding(GOOD)).values())
    assert isinstance(_binding(GOOD), AclBinding)


@pytest.mark.parametrize(
    "field",
    [
        {"resource_type": "any"},
        {"resource_type": "broker"},
        {"pattern": "match"},
        {"pattern": "any"},
        {"pattern": "regex"},
        {"operation": "any"},
        {"operation": "fly"},
        {"permission": "any"},
        {"permission": "maybe"},
        {"name": ""},
        {"principal": ""},
        {"host": ""},
    ],
)
def test_filter_words_never_reach_the_cluster(acls: ClusterAcls, field: dict) -> None:
    """An entry that would match more than itself is refused before anything is asked, to add as to remove."""
    entry = AclEntry(**{**vars(GOOD), **field})
    for act in (acls.add, acls.remove):
        with pytest.raises(BadInput, match="ACL entry"):
            act([GOOD, entry])


def test_nothing_to_do_asks_nobody(acls: ClusterAcls) -> None:
    """Empty lists need no cluster."""
    acls.add([])
    assert acls.remove([]) == frozenset()


@pytest.mark.parametrize(
    "ask",
    [
        lambda a: a.entries(timeout=1),
        lambda a: a.add([GOOD], timeout=1),
        lambda a: a.remove([GOOD], timeout=1),
        lambda a: a.missing([GOOD], timeout=1),
        lambda a: a.authorizer(timeout=1),
    ],
)
def test_a_dead_cluster_is_named(acls: ClusterAcls, ask) -> None:
    """Silence is never read as 'no entries' or 'no authorizer'."""
    with pytest.raises(KafkaUnavailable, match="east"):
        ask(acls)


def of_topic(name: str, count: int) -> list[AclEntry]:
    """Entries of one topic."""
    return [AclEntry("topic", name, "literal", f"User:{n}", "*", "write", "deny") for n in range(count)]


def test_requests_are_small_and_hold_whole_resources() -> None:
    """The entries of a topic stay together; one resource alone may be larger than a request should be."""
    parts = list(in_requests([*of_topic("a", 3), *of_topic("b", 2), *of_topic("c", 6), *of_topic("d", 1)], 4))
    assert [[e.name for e in part] for part in parts] == [["a"] * 3, ["b"] * 2, ["c"] * 6, ["d"]]
    assert list(in_requests([], 4)) == []


def test_many_entries_are_removed_a_hundred_at_once(acls: ClusterAcls, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller compares each of them with all entries of the cluster, and does nothing else meanwhile."""
    sent = []

    def delete_acls(filters: list[Any], **_: Any) -> dict[Any, Any]:
        sent.append(len(filters))
        return {}

    monkeypatch.setattr(acls, "_admin", SimpleNamespace(delete_acls=delete_acls))
    acls.remove(entry for n in range(125) for entry in of_topic(f"orders-{n}", 2))
    assert sent == [100, 100, 50]
