"""What is read in brokers' answers about groups and transactional ids, as each version of the protocol writes them."""

from __future__ import annotations

import warnings

import pytest
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.transactions import KnownTransaction
from kafka_dr.hooks.brokers import every_broker

from tests.support.brokers.answering_brokers import sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import ClusterAuthorizationFailedError, KafkaError
    from kafka.protocol.admin import DescribeConfigsResponse, ListGroupsResponse
    from kafka.protocol.admin.transactions import ListTransactionsResponse

REFUSED = ClusterAuthorizationFailedError.errno


@pytest.mark.parametrize(("version", "known_type"), [(0, ""), (2, ""), (4, ""), (5, "share")])
def test_groups_have_a_type_where_the_broker_states_one(version: int, known_type: str) -> None:
    """Brokers before 3.8 do not."""
    group = ListGroupsResponse.ListedGroup(
        group_id="queue", protocol_type="share", group_state="Stable", group_type="Share"
    )
    answer = sent(ListGroupsResponse, version, error_code=0, groups=[group])
    assert every_broker._groups_in(answer) == {"queue": ListedGroup("share", known_type)}


def test_transactional_ids_have_their_state() -> None:
    """By which a transaction that is open now is known."""
    state = ListTransactionsResponse.TransactionState(
        transactional_id="pay", producer_id=7, transaction_state="Ongoing"
    )
    answer = sent(ListTransactionsResponse, 0, error_code=0, unknown_state_filters=[], transaction_states=[state])
    assert every_broker._transactions_in(answer) == [KnownTransaction("pay", 7, "Ongoing")]


def test_a_refusal_is_an_error() -> None:
    """Not an empty list; nor is an error that stands in place of an answer."""
    for kind, parse, lists in (
        (ListGroupsResponse, every_broker._groups_in, {"groups": []}),
        (
            ListTransactionsResponse,
            every_broker._transactions_in,
            {"unknown_state_filters": [], "transaction_states": []},
        ),
    ):
        with pytest.raises(ClusterAuthorizationFailedError):
            parse(sent(kind, 0, error_code=REFUSED, **lists))
        with pytest.raises(KafkaError):
            parse(ClusterAuthorizationFailedError())


def test_a_group_whose_settings_are_hidden_has_no_session_timeout() -> None:
    """The others have theirs, in seconds."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    setting = result.DescribeConfigsResourceResult(
        name="consumer.session.timeout.ms",
        value="45000",
        read_only=False,
        config_source=5,
        is_sensitive=False,
        synonyms=[],
        config_type=3,
        documentation=None,
    )
    shown = result(error_code=0, error_message=None, resource_type=32, resource_name="shown", configs=[setting])
    hidden = result(error_code=REFUSED, error_message="no", resource_type=32, resource_name="hidden", configs=[])
    answer = sent(DescribeConfigsResponse, 4, results=[shown, hidden])
    assert every_broker._sessions_in(answer) == {"shown": 45.0}
