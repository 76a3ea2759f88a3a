"""Deleting single positions of groups: which broker is asked, and what is a refusal."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable, OutsideDrill
from kafka_dr.hooks.brokers import broker_requests
from kafka_dr.hooks.brokers.position_deletion import PositionDeletion

from tests.support.brokers.answering_brokers import AnsweringBrokers, sent
from tests.support.drills.scopes import NAMES, scope

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import OffsetDeleteResponse
    from kafka.protocol.metadata import FindCoordinatorResponse

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 2), TopicPartition("pay", 1)]
NOT_COORDINATOR, NO_GROUP, SUBSCRIBED, REFUSED = 16, 69, 86, 30


def answer(request: Any, error: int = 0, first: int = 0) -> Any:
    """What a coordinator answers: an error for the group, or for the first partition."""
    topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
    topics = [
        topic(
            name=asked.name,
            partitions=[
                topic.OffsetDeleteResponsePartition(
                    partition_index=part.partition_index, error_code=first if (i, j) == (0, 0) else 0
                )
                for j, part in enumerate(asked.partitions)
            ],
        )
        for i, asked in enumerate(request.topics)
    ]
    return sent(OffsetDeleteResponse, 0, error_code=error, topics=[] if error else topics)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> AnsweringBrokers:
    """Broker 2 coordinates the groups that begin with z, broker 1 all others."""
    made = AnsweringBrokers(1, 2)
    made.answers["FindCoordinatorRequest"] = lambda _, request: sent(
        FindCoordinatorResponse,
        3,
        error_code=0,
        error_message=None,
        node_id=2 if request.key.startswith("z") else 1,
        host="h",
        port=1,
    )
    made.answers["OffsetDeleteRequest"] = lambda _, request: answer(request)
    monkeypatch.setattr(broker_requests, "_BrokerClient", made.connect)
    monkeypatch.setattr(broker_requests, "_ALL_TRIES_SECONDS", 0.5)
    return made


@pytest.fixture
def deletion(brokers: AnsweringBrokers) -> PositionDeletion:
    """The client of these brokers."""
    return PositionDeletion({"bootstrap.servers": "b:1"}, "east")


def test_each_groups_coordinator_deletes(brokers: AnsweringBrokers, deletion: PositionDeletion) -> None:
    """Only the positions that are named, over one connection."""
    assert deletion.delete({"a": PLACES, "z": PLACES[:1]}) == {} == deletion.delete({})
    asked = [(broker, one) for broker, one in brokers.asked if type(one).__name__ == "OffsetDeleteRequest"]
    assert [
        (broker, one.group_id, [(t.name, [p.partition_index for p in t.partitions]) for t in one.topics])
        for broker, one in asked
    ] == [(1, "a", [("orders", [0, 2]), ("pay", [1])]), (2, "z", [("orders", [0])])]
    assert brokers.made == brokers.closed == 1


def test_a_refused_group_is_named_and_the_others_go_on(brokers: AnsweringBrokers, deletion: PositionDeletion) -> None:
    """Also where a single partition is refused; a group that does not exist holds no position."""
    errors = {"busy": {"first": SUBSCRIBED}, "denied": {"error": REFUSED}, "gone": {"error": NO_GROUP}, "plain": {}}
    brokers.answers["OffsetDeleteRequest"] = lambda _, request: answer(request, **errors[request.group_id])
    refused = deletion.delete(dict.fromkeys(errors, PLACES))
    assert set(refused) == {"busy", "denied"} and "GroupSubscribedToTopic" in refused["busy"].seen
    assert "grant DELETE on the group 'denied', and READ on its topics, to" in refused["denied"].next_step


def test_a_coordinator_that_moves_is_looked_for_again(brokers: AnsweringBrokers, deletion: PositionDeletion) -> None:
    """Until the limit; then the step tries again, and no position counts as deleted."""
    answers = iter([NOT_COORDINATOR, 0])
    brokers.answers["OffsetDeleteRequest"] = lambda _, request: answer(request, next(answers))
    assert deletion.delete({"a": PLACES}) == {} and brokers.made == 2
    brokers.answers["OffsetDeleteRequest"] = lambda _, request: answer(request, NOT_COORDINATOR)
    with pytest.raises(KafkaUnavailable, match="deleting positions of 'a' on broker 1 of east failed"):
        deletion.delete({"a": PLACES})


def test_a_drill_deletes_positions_of_its_own_groups(brokers: AnsweringBrokers) -> None:
    """Of no other: nobody is asked."""
    ours = PositionDeletion({"bootstrap.servers": "b:1"}, "east", scope())
    for group in ("app", NAMES.group("unknown")):
        with pytest.raises(OutsideDrill):
            ours.delete({group: PLACES})
    assert brokers.asked == []
