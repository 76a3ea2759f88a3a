"""Groups as brokers list them: with types from 3.8 on, without types before."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import GroupInfo

CLASSIC, CONSUMER, UNKNOWN = ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER, ConsumerGroupType.UNKNOWN


class Listing:
    """The client's listing: brokers with and without types, as librdkafka passes on what they answer.

    Args:
        typed: groups of brokers from 3.8 on, by name; UNKNOWN is a type that the client has no name for.
        untyped: groups of brokers before 3.8, which ignore a filter by type.
        busy: those of them that have members.
    """

    def __init__(
        self, typed: Mapping[str, Any] | None = None, untyped: tuple[str, ...] = (), busy: tuple[str, ...] = ()
    ) -> None:
        self.typed, self.untyped, self.busy = typed or {}, untyped, busy
        self.asked: list[Any] = []
        self.described: list[str] = []
        self.errors: list[KafkaError] = []
        #: Leaders of the topic of groups, one after the other; the last one stays.
        self.leaders = [1]
        self.replicas = [1]
        #: How many listings leave all groups out before one names the groups.
        self.silent = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert topic == "__consumer_offsets"
        leader = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        partition = SimpleNamespace(id=0, leader=leader, replicas=self.replicas)
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: partition})})

    def list_consumer_groups(self, request_timeout: float, types: set[Any] | None = None) -> Future[Any]:
        self.asked.append(types)
        if self.silent:
            self.silent -= 1
            return done(SimpleNamespace(valid=[], errors=[]))
        listed = {name: kind for name, kind in self.typed.items() if types is None or kind in types}
        return done(
            SimpleNamespace(
                valid=[
                    self._group(name, kind) for name, kind in {**listed, **dict.fromkeys(self.untyped, UNKNOWN)}.items()
                ],
                errors=self.errors,
            )
        )

    def _group(self, name: str, kind: Any) -> Any:
        state = ConsumerGroupState.STABLE if name in self.busy else ConsumerGroupState.EMPTY
        return SimpleNamespace(
            group_id=name, state=state, type=kind, is_simple_consumer_group=name.startswith("by-admin")
        )

    def poll(self, timeout: float) -> int:
        return 0

    def describe_consumer_groups(self, names: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        self.described += names
        return {
            name: done(
                SimpleNamespace(
                    group_id=name,
                    state=ConsumerGroupState.STABLE,
                    type=self.typed.get(name, CLASSIC),
                    is_simple_consumer_group=False,
                    partition_assignor="range",
                    members=[],
                )
            )
            for name in names
        }


def done(value: Any) -> Future[Any]:
    """Return a future that has its result."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def groups_of(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> dict[str, GroupInfo]:
    """Return the groups that the hook makes of a listing."""
    cluster = KafkaCluster("east", {"bootstrap.servers": "127.0.0.1:9"})
    monkeypatch.setattr(cluster, "_admin", listing)
    monkeypatch.setattr(cluster, "_coordinators", lambda: listing)
    return cluster.groups(timeout=1)


def test_an_idle_group_of_an_old_broker_is_classic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.8 no type is stated: idle, busy and known by an admin's commits alone, all are groups like any other."""
    listing = Listing(untyped=("idle", "busy", "by-admin"), busy=("busy",))
    found = groups_of(listing, monkeypatch)
    assert {name: (group.type, group.empty) for name, group in found.items()} == {
        "idle": ("classic", True),
        "busy": ("classic", False),
        "by-admin": ("classic", True),
    }
    assert (found["idle"].protocol_type, found["by-admin"].protocol_type) == ("consumer", "")
    assert listing.described == ["busy"]


def test_groups_are_listed_again_if_a_coordinator_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the former nor the new coordinator may have listed its groups."""
    listing = Listing(typed={"old": CLASSIC})
    listing.leaders = [1, 2]
    assert set(groups_of(listing, monkeypatch)) == {"old"}
    assert listing.asked == [None, None]


def test_one_of_several_brokers_may_leave_groups_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are listed again, until a list names no group that the one before lacks."""
    monkeypatch.setattr("kafka_dr.hooks.brokers.groups._BETWEEN_LOOKS", 0.0)
    listing = Listing(typed={"old": CLASSIC})
    listing.replicas, listing.silent = [1, 2, 3], 1
    assert set(groups_of(listing, monkeypatch)) == {"old"}


def test_a_list_that_names_all_groups_of_the_list_before_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has listed before lists once; it lists again if a group is missing."""
    monkeypatch.setattr("kafka_dr.hooks.brokers.groups._BETWEEN_LOOKS", 0.0)
    listing = Listing(typed={"old": CLASSIC})
    listing.replicas = [1, 2, 3]
    cluster = KafkaCluster("east", {"bootstrap.servers": "127.0.0.1:9"})
    monkeypatch.setattr(cluster, "_admin", listing)
    monkeypatch.setattr(cluster, "_coordinators", lambda: listing)
    counts = []
    for silent in (0, 0, 1):
        listing.silent, listing.asked = silent, []
        assert set(cluster.groups(timeout=1)) == {"old"}
        counts.append(len(listing.asked))
    assert counts == [2, 1, 3]


def test_a_broker_that_states_types_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question is for brokers without types only."""
    listing = Listing(typed={"old": CLASSIC, "new": CONSUMER})
    assert {name: group.type for name, group in groups_of(listing, monkeypatch).items()} == {
        "old": "classic",
        "new": "consumer",
    }
    assert listing.asked == [None]


def test_a_type_without_a_name_is_not_taken_for_classic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while brokers are being upgraded, and whether or not the group has members."""
    typed = {"odd": UNKNOWN, "odd-busy": UNKNOWN, "plain": CLASSIC}
    listing = Listing(typed=typed, untyped=("idle",), busy=("odd-busy",))
    found = groups_of(listing, monkeypatch)
    assert {name: group.type for name, group in found.items()} == {
        "odd": "unknown",
        "odd-busy": "unknown",
        "plain": "classic",
        "idle": "classic",
    }
    assert (found["odd"].empty, found["odd-busy"].empty) == (True, False)


def test_a_partial_listing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer would be a broker without groups."""
    listing = Listing(untyped=("idle",))
    listing.errors = [KafkaError(KafkaError._TRANSPORT)]
    with pytest.raises(KafkaUnavailable, match="east"):
        groups_of(listing, monkeypatch)
