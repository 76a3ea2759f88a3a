"""Which broker is asked about transactions, what ends one, and that no list is shorter than the truth."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, OpenTransaction
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers import broker_requests
from kafka_dr.hooks.brokers.transactions import ClusterTransactions

from tests.support.brokers.answering_brokers import AnsweringBrokers, sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError
    from kafka.protocol.admin.transactions import (
        DescribeProducersResponse,
        DescribeTransactionsResponse,
        ListTransactionsResponse,
    )
    from kafka.protocol.metadata import FindCoordinatorResponse
    from kafka.protocol.producer.transaction import InitProducerIdResponse, WriteTxnMarkersResponse

COORDINATORS = "__transaction_state"
PAY_0, PAY_1 = TopicPartition("pay", 0), TopicPartition("pay", 1)
CONCURRENT, REFUSED_ID, REFUSED_CLUSTER, NO_ID, NOT_LEADER = 51, 53, 31, 105, 6


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> AnsweringBrokers:
    """Two brokers: 1 leads pay-0, 2 leads pay-1; each coordinates one id; 2 coordinates all ids that begin with z."""
    made = AnsweringBrokers(1, 2)
    made.leaders = {"pay": [1, 2], COORDINATORS: [1, 2]}
    made.answers = {
        "ListTransactionsRequest": lambda broker, _: listed((f"app-{broker}", broker * 10, "Ongoing")),
        "FindCoordinatorRequest": lambda _, request: coordinator(2 if request.key.startswith("z") else 1),
        "DescribeTransactionsRequest": lambda _, request: described(request.transactional_ids),
        "DescribeProducersRequest": lambda _, request: producers(request),
        "InitProducerIdRequest": lambda *_: given(),
        "WriteTxnMarkersRequest": lambda _, request: written(request),
    }
    monkeypatch.setattr(broker_requests, "_BrokerClient", made.connect)
    monkeypatch.setattr(broker_requests, "_ALL_TRIES_SECONDS", 0.5)
    return made


@pytest.fixture
def transactions(brokers: AnsweringBrokers) -> ClusterTransactions:
    """The client of these brokers."""
    return ClusterTransactions({"bootstrap.servers": "b:1"}, "east")


def listed(*states: tuple[str, int, str]) -> Any:
    """What a broker lists."""
    state = ListTransactionsResponse.TransactionState
    found = [state(transactional_id=name, producer_id=number, transaction_state=of) for name, number, of in states]
    return sent(ListTransactionsResponse, 0, error_code=0, unknown_state_filters=[], transaction_states=found)


def coordinator(broker: int) -> Any:
    """Which broker coordinates an id."""
    return sent(FindCoordinatorResponse, 3, error_code=0, error_message=None, node_id=broker, host="h", port=1)


def described(names: list[str]) -> Any:
    """What a coordinator knows: of an id that ends with a dash nothing, of `idle` no transaction."""
    state = DescribeTransactionsResponse.TransactionState
    states = [
        state(
            error_code=NO_ID if name.endswith("-") else 0,
            transactional_id=name,
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=-1 if name == "idle" else 1_000,
            producer_id=1,
            producer_epoch=0,
            topics=[],
        )
        for name in names
    ]
    return sent(DescribeTransactionsResponse, 0, transaction_states=states)


def producers(request: Any, error: int = 0) -> Any:
    """What a leader lists: two open transactions, and a producer without one."""
    topic = DescribeProducersResponse.TopicResponse
    state = topic.PartitionResponse.ProducerState
    rows = [(7, 3, -1, 900, 5), (8, 4, 6, -1, 2), (9, 0, 0, 950, -1)]
    active = [
        state(
            producer_id=number,
            producer_epoch=epoch,
            last_sequence=1,
            last_timestamp=at,
            coordinator_epoch=ended_by,
            current_txn_start_offset=start,
        )
        for number, epoch, ended_by, at, start in rows
    ]
    parts = topic.PartitionResponse
    topics = [
        topic(
            name=asked.name,
            partitions=[
                parts(partition_index=n, error_code=error, error_message=None, active_producers=active)
                for n in asked.partition_indexes
            ],
        )
        for asked in request.topics
    ]
    return sent(DescribeProducersResponse, 0, topics=topics)


def given(error: int = 0) -> Any:
    """The answer of a coordinator that is asked for a producer."""
    return sent(InitProducerIdResponse, 4, error_code=error, producer_id=1, producer_epoch=1)


def written(request: Any, error: int = 0, none: bool = False) -> Any:
    """The answer of a leader that is to write markers."""
    marker = WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = marker.WritableTxnMarkerTopicResult
    part = topic.WritableTxnMarkerPartitionResult
    (asked,) = request.markers
    topics = [
        topic(name=t.name, partitions=[part(partition_index=n, error_code=error) for n in t.partition_indexes])
        for t in asked.topics
    ]
    markers = [] if none else [marker(producer_id=asked.producer_id, topics=topics)]
    answer = WriteTxnMarkersResponse(version=1, markers=markers)
    return WriteTxnMarkersResponse.decode(answer.encode(version=1), version=1)


def requests_of(brokers: AnsweringBrokers, name: str) -> list[tuple[int, Any]]:
    """Return the requests of one kind, with the id of the broker."""
    return [(broker, request) for broker, request in brokers.asked if type(request).__name__ == name]


def test_every_broker_lists_the_ids_that_it_coordinates(
    brokers: AnsweringBrokers, transactions: ClusterTransactions
) -> None:
    """All in one list; the connection is closed again."""
    assert transactions.known() == [KnownTransaction("app-1", 10, "Ongoing"), KnownTransaction("app-2", 20, "Ongoing")]
    assert [broker for broker, _ in brokers.asked] == [1, 2] and brokers.made == brokers.closed == 1


def test_a_broker_that_does_not_answer_is_named(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """The ids of the others are no list; the brokers are asked again until the limit."""
    brokers.answers["ListTransactionsRequest"] = lambda broker, _: (
        listed() if broker == 1 else KafkaConnectionError("gone")
    )
    with pytest.raises(KafkaUnavailable, match="transactional ids on broker 2 of east failed.*gone") as error:
        transactions.known()
    assert error.value.may_pass and brokers.made == brokers.closed > 1


def test_ids_without_a_coordinator_are_missed(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """Brokers that are up do not list them, and say nothing of it."""
    brokers.leaders[COORDINATORS] = [1, -1]
    with pytest.raises(KafkaUnavailable, match=f"{COORDINATORS} has no leader for the partitions 1"):
        transactions.known()
    del brokers.leaders[COORDINATORS]
    assert len(transactions.known()) == 2, "before the first transactional id there is no such topic"


def test_ids_whose_coordinator_moves_are_listed_again(
    brokers: AnsweringBrokers, transactions: ClusterTransactions
) -> None:
    """Asked before and after, no broker may have listed them."""

    def answer(broker: int, _: Any) -> Any:
        moved = brokers.leaders[COORDINATORS] == [2, 2]
        brokers.leaders[COORDINATORS] = [2, 2]
        return listed(("app", 1, "Ongoing")) if broker == 2 and moved and brokers.made > 1 else listed()

    brokers.answers["ListTransactionsRequest"] = answer
    assert [known.transactional_id for known in transactions.known()] == ["app"] and brokers.made == 2


def test_a_broker_that_is_too_old_is_named(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """With the version that it lacks, at once."""
    brokers.answers["ListTransactionsRequest"] = lambda *_: IncompatibleBrokerVersion("no such protocol")
    with pytest.raises(
        KafkaUnavailable, match="on broker 1 .*ListTransactions, which Kafka has since version 3.0"
    ) as e:
        transactions.check()
    assert not e.value.may_pass and brokers.made == 1


def test_times_come_from_each_ids_coordinator(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """In one request to each; what a coordinator does not know is None."""
    assert transactions.starts_and_timeouts(["pay", "z-pay", "idle", "gone-"]) == {
        "pay": (1_000, 60_000),
        "z-pay": (1_000, 60_000),
        "idle": (None, 60_000),
        "gone-": (None, None),
    }
    asked = requests_of(brokers, "DescribeTransactionsRequest")
    assert [(broker, request.transactional_ids) for broker, request in asked] == [
        (1, ["pay", "idle", "gone-"]),
        (2, ["z-pay"]),
    ]
    assert transactions.starts_and_timeouts([]) == {} and brokers.made == 1


def test_producers_come_from_each_partitions_leader(
    brokers: AnsweringBrokers, transactions: ClusterTransactions
) -> None:
    """The latest writer first; open transactions oldest first; a partition without leader is named."""
    assert [p.producer_id for p in transactions.producers_on([PAY_1])[PAY_1]] == [9, 7, 8]
    assert transactions.open_on([PAY_0]) == [
        OpenTransaction("pay", 0, 2, 8, since_ms=None),
        OpenTransaction("pay", 0, 5, 7, since_ms=900),
    ]
    assert [broker for broker, _ in brokers.asked] == [2, 1]
    brokers.leaders["pay"] = [1, -1]
    for missing in (PAY_1, TopicPartition("pay", 2), TopicPartition("none", 0)):
        with pytest.raises(KafkaUnavailable, match=f"without leader, or that do not exist: {missing}"):
            transactions.producers_on([PAY_0, missing])
    brokers.answers["DescribeProducersRequest"] = lambda _, request: producers(request, NOT_LEADER)
    with pytest.raises(KafkaUnavailable, match="NotLeader"):
        transactions.producers_on([PAY_0])


def test_a_transaction_is_ended_by_its_coordinator(
    brokers: AnsweringBrokers, transactions: ClusterTransactions
) -> None:
    """Which is asked for a producer until it has aborted what is open."""
    answers = iter([given(CONCURRENT), given(CONCURRENT), given()])
    brokers.answers["InitProducerIdRequest"] = lambda *_: next(answers)
    transactions.end("z-pay")
    asked = requests_of(brokers, "InitProducerIdRequest")
    assert len(asked) == 3 and {broker for broker, _ in asked} == {2}
    (request,) = {id(one): one for _, one in asked}.values()
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("z-pay", -1, -1)
    assert brokers.made == brokers.closed == 3


def test_a_missing_right_is_named(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """By operation and resource; a second try would not help."""
    brokers.answers["InitProducerIdRequest"] = lambda *_: given(REFUSED_ID)
    with pytest.raises(KafkaUnavailable, match="grant WRITE on the transactional id 'pay' to") as error:
        transactions.end("pay")
    assert not error.value.may_pass and brokers.made == 1
    brokers.answers["WriteTxnMarkersRequest"] = lambda _, request: written(request, REFUSED_CLUSTER)
    with pytest.raises(KafkaUnavailable, match="grant ALTER on the cluster"):
        transactions.abort(PAY_0, 5)


@pytest.mark.parametrize(("start", "marker"), [(5, (7, 3, 0)), (2, (8, 4, 6))])
def test_a_hanging_transaction_is_aborted_on_its_partition(
    brokers: AnsweringBrokers, transactions: ClusterTransactions, start: int, marker: tuple[int, ...]
) -> None:
    """By the leader, as its producer; the coordinator's epoch is that of the last marker, and never below 0."""
    transactions.abort(PAY_1, start)
    ((broker, request),) = requests_of(brokers, "WriteTxnMarkersRequest")
    (sent_marker,) = request.markers
    (topic,) = sent_marker.topics
    assert broker == 2 and (topic.name, topic.partition_indexes) == ("pay", [1])
    assert (sent_marker.producer_id, sent_marker.producer_epoch, sent_marker.coordinator_epoch) == marker
    assert sent_marker.transaction_result is False


def test_what_is_not_open_is_not_aborted(brokers: AnsweringBrokers, transactions: ClusterTransactions) -> None:
    """Nor is an answer without a result taken for an abort."""
    with pytest.raises(KafkaUnavailable, match="broker 1 lists no transaction that is open from this offset on"):
        transactions.abort(PAY_0, 950)
    assert requests_of(brokers, "WriteTxnMarkersRequest") == []
    brokers.answers["WriteTxnMarkersRequest"] = lambda _, request: written(request, none=True)
    with pytest.raises(KafkaUnavailable, match="names no partition"):
        transactions.abort(PAY_0, 5)


def test_the_check_ends_a_transaction_of_our_own_only(
    brokers: AnsweringBrokers, transactions: ClusterTransactions
) -> None:
    """Versions and rights are shown on an id that no application has."""
    transactions.check()
    assert [r.transactional_id for _, r in requests_of(brokers, "InitProducerIdRequest")] == ["__switchback_check"]
    assert [broker for broker, _ in requests_of(brokers, "ListTransactionsRequest")] == [1, 2]
