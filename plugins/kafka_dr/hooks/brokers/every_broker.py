"""Sends a request to each broker of a cluster by itself, which librdkafka cannot do."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, Producer
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config
from kafka_dr.hooks.brokers.python_client import for_python
from kafka_dr.hooks.redaction import one_line

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError, SecurityDisabledError, for_code
    from kafka.future import Future
    from kafka.protocol.admin import (
        DescribeAclsRequest,
        DescribeClientQuotasRequest,
        DescribeConfigsRequest,
        ListGroupsRequest,
    )
    from kafka.protocol.admin.transactions import DescribeProducersRequest, ListTransactionsRequest

T = TypeVar("T")

# kafka-python logs its whole configuration, with passwords.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

_SECONDS = 10.0
#: Requests that change nothing.
_READS = frozenset(
    {
        "DescribeAclsRequest",
        "DescribeClientQuotasRequest",
        "DescribeConfigsRequest",
        "DescribeProducersRequest",
        "ListGroupsRequest",
        "ListTransactionsRequest",
    }
)
_ANY, _TOPIC, _LITERAL = 1, 2, 3
#: Kafka's number for groups among the resources that have settings.
_GROUP_SETTINGS = 32
_SESSION_TIMEOUT = "consumer.session.timeout.ms"
#: Kafka's numbers in its protocol; other types of resources are never fenced.
_RESOURCE_TYPES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional_id"}
_PATTERNS = {3: "literal", 4: "prefixed"}
_PERMISSIONS = {2: "deny", 3: "allow"}
_OPERATIONS = dict(
    enumerate(
        (
            "all read write create delete alter describe cluster_action describe_configs alter_configs"
            " idempotent_write create_tokens describe_tokens two_phase_commit"
        ).split(),
        2,
    )
)


class _BrokerReader:
    """kafka-python's client, with what it does not offer: one request to each of several brokers. It only reads.

    Args:
        settings: kafka-python's.
    """

    def __init__(self, **settings: Any) -> None:
        self._client = KafkaAdminClient(**settings)
        self._manager = self._client._manager  # noqa: SLF001 (sends a request to one given broker)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def ask_each(self, requests: Mapping[int, Any], timeout: float) -> dict[int, Any]:
        """Send each broker its request, all at once; return by broker its answer, or a KafkaError.

        Raises:
            BadInput: a request is none of those that change nothing.
        """
        if foreign := sorted({type(request).__name__ for request in requests.values()} - _READS):
            raise BadInput(
                "a request to each broker may only read",
                ", ".join(foreign),
                "no request was sent; report this message as a defect of Switchback",
            )
        answers: dict[int, Any] = self._manager.run(self._ask_each, requests, int(timeout * 1000))
        return answers

    async def _ask_each(self, requests: Mapping[int, Any], timeout_ms: int) -> dict[int, Any]:
        sent = {broker: self._sent_to(broker, request, timeout_ms) for broker, request in requests.items()}
        return {broker: await _answer_or_error(future) for broker, future in sent.items()}

    def _sent_to(self, broker: int, request: Any, timeout_ms: int) -> Any:
        try:
            return self._manager.send(request, node_id=broker, request_timeout_ms=timeout_ms)
        except KafkaError as error:
            return Future().failure(error)


async def _answer_or_error(future: Any) -> Any:
    try:
        return await future
    except KafkaError as error:
        return error


class EveryBroker:
    """Asks brokers of one cluster, all at once; connections are kept for the next request."""

    def __init__(self, config: Mapping[str, Any], alias: str) -> None:
        """Check the settings; no request is sent yet.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
        """
        self._config, self._alias = client_config(config, alias), alias
        self._client: _BrokerReader | None = None
        self._using = Lock()

    def __repr__(self) -> str:
        return f"EveryBroker({self._alias!r})"

    def acl_entries(
        self, brokers: Iterable[int], topic: str | None = None, timeout: float = _SECONDS
    ) -> dict[int, frozenset[AclEntry] | KafkaUnavailable]:
        """Return the ACL entries that each of these brokers has applied, by the broker's id.

        No entry for a broker without an authorizer. A broker that refuses, or does not answer within `timeout` seconds,
        has the error in place of its entries.

        Args:
            topic: only literal entries on this topic; None: all entries.
            timeout: limit of the requests, in seconds.
        """
        requests = {broker: _describe_acls(topic) for broker in brokers}
        return self._ask("reading ACL entries", requests, _entries_in, timeout)

    def producers(
        self, leaders: Mapping[TopicPartition, int], timeout: float = _SECONDS
    ) -> dict[TopicPartition, list[Producer]]:
        """Return the idempotent producers that each partition's leader lists, the latest writer first.

        Args:
            leaders: by partition, the broker id of its leader.
            timeout: limit of the requests, in seconds.

        Raises:
            KafkaUnavailable: a broker does not answer, leads a partition no more, or is older than Kafka 2.8; or the
                connection's principal lacks the right READ on a topic.
        """
        led: dict[int, list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            led.setdefault(leader, []).append(partition)
        requests = {leader: _describe_producers(partitions) for leader, partitions in led.items()}
        found: dict[TopicPartition, list[Producer]] = {}
        for answer in self._all("reading producers", requests, _producers_in, timeout):
            found |= answer
        return found

    def client_quotas(self, broker: int, timeout: float = _SECONDS) -> dict[QuotaEntity, dict[str, float]]:
        """Return the limits by name of each entity that has client quotas, as one broker knows them.

        Raises:
            KafkaUnavailable: the broker does not answer, or refuses.
        """
        everything = DescribeClientQuotasRequest(components=[], strict=False)
        answer = self._ask("reading client quotas", {broker: everything}, _quotas_in, timeout)[broker]
        if isinstance(answer, KafkaUnavailable):
            raise answer
        return answer

    def groups(self, brokers: Iterable[int], timeout: float = _SECONDS) -> dict[str, ListedGroup]:
        """Return the groups of every protocol that these brokers coordinate, by name.

        Raises:
            KafkaUnavailable: a broker does not answer, or refuses.
        """
        found: dict[str, ListedGroup] = {}
        for answer in self._all(
            "listing groups", {broker: ListGroupsRequest(min_version=0) for broker in brokers}, _groups_in, timeout
        ):
            found |= answer
        return found

    def transactional_ids(self, brokers: Iterable[int], timeout: float = _SECONDS) -> list[KnownTransaction]:
        """Return the transactional ids that these brokers coordinate and the principal may describe, by name.

        Raises:
            KafkaUnavailable: a broker does not answer, refuses, or is older than Kafka 3.0.
        """
        requests = {broker: ListTransactionsRequest(state_filters=[], producer_id_filters=[]) for broker in brokers}
        answers = self._all("listing transactional ids", requests, _transactions_in, timeout)
        return sorted((found for answer in answers for found in answer), key=lambda found: found.transactional_id)

    def session_seconds(self, broker: int, groups: Iterable[str], timeout: float = _SECONDS) -> dict[str, float]:
        """Return by name the session timeout that the broker applies to groups of the newer protocol, in seconds.

        A group whose settings the broker does not show is left out.

        Raises:
            KafkaUnavailable: the broker does not answer, or is older than Kafka 3.8.
        """
        (answer,) = self._all("reading settings of groups", {broker: _describe_groups(groups)}, _sessions_in, timeout)
        return answer

    def close(self) -> None:
        """Disconnect; the next request connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(
        self, what: str, requests: Mapping[int, Any], parse: Callable[[Any], T], timeout: float
    ) -> dict[int, T | KafkaUnavailable]:
        """Send each broker its request; return the parsed answer, or the error, by the broker's id."""
        answers: dict[int, T | KafkaUnavailable] = {}
        with self._using, self._border(what):
            for broker, answer in self._connected(timeout).ask_each(requests, timeout).items():
                try:
                    answers[broker] = parse(answer)
                except KafkaError as error:
                    answers[broker] = self._unavailable(f"{what} on broker {broker}", error)
        if any(isinstance(answer, KafkaUnavailable) for answer in answers.values()):
            # A broker that has moved, or came back, is known to a new client only.
            self.close()
        return answers

    def _all(self, what: str, requests: Mapping[int, Any], parse: Callable[[Any], T], timeout: float) -> list[T]:
        """Return the parsed answers of all brokers; raise the first error."""
        answers = []
        for answer in self._ask(what, requests, parse, timeout).values():
            if isinstance(answer, KafkaUnavailable):
                raise answer
            answers.append(answer)
        return answers

    def _connected(self, timeout: float) -> _BrokerReader:
        if self._client is None:
            limits = {"bootstrap_timeout_ms": int(timeout * 1000), "request_timeout_ms": int(timeout * 1000)}
            settings = for_python(self._config, self._alias)
            if tokens := settings.get("sasl_oauth_token_provider"):
                # kafka-python drops the connection without a word if it gets no token.
                tokens.token()
            self._client = _BrokerReader(**settings, **limits)
        return self._client

    @contextmanager
    def _border(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self.close()
            raise self._unavailable(what, error) from None

    def _unavailable(self, what: str, error: KafkaError) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"{what} of {self._alias} failed",
            one_line(f"{type(error).__name__}: {error}"),
            f"find out in the logs of the brokers of {self._alias} why they do not answer, or refuse; compare the"
            f" rights of the connection's principal on {self._alias} with README.md, Install",
            error.retriable,
        )


def _describe_acls(topic: str | None) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=_ANY if topic is None else _TOPIC,
        resource_name_filter=topic,
        pattern_type_filter=_ANY if topic is None else _LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def _describe_producers(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    of_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        of_topic.setdefault(topic, []).append(partition)
    topic_request = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[topic_request(name=topic, partition_indexes=indexes) for topic, indexes in of_topic.items()]
    )


def _producers_in(answer: Any) -> dict[TopicPartition, list[Producer]]:
    found = {}
    for topic in _good(answer).topics:
        for partition in topic.partitions:
            _raise_code(partition)
            producers = [
                Producer(
                    p.producer_id, None if p.last_timestamp < 0 else p.last_timestamp, p.producer_epoch, p.last_sequence
                )
                for p in partition.active_producers
            ]
            producers.sort(key=lambda producer: (-(producer.last_ms or 0), producer.producer_id))
            found[TopicPartition(topic.name, partition.partition_index)] = producers
    return found


def _quotas_in(answer: Any) -> dict[QuotaEntity, dict[str, float]]:
    _raise_code(_good(answer))
    return {
        QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


def _groups_in(answer: Any) -> dict[str, ListedGroup]:
    _raise_code(_good(answer))
    return {
        group.group_id: ListedGroup(group.protocol_type, (group.group_type or "").lower()) for group in answer.groups
    }


def _transactions_in(answer: Any) -> list[KnownTransaction]:
    _raise_code(_good(answer))
    return [
        KnownTransaction(found.transactional_id, found.producer_id, found.transaction_state)
        for found in answer.transaction_states
    ]


def _describe_groups(groups: Iterable[str]) -> DescribeConfigsRequest:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=_GROUP_SETTINGS, resource_name=group, configuration_keys=[_SESSION_TIMEOUT])
            for group in groups
        ]
    )


def _sessions_in(answer: Any) -> dict[str, float]:
    return {
        group.resource_name: int(setting.value) / 1000
        for group in _good(answer).results
        for setting in group.configs or ()
        if setting.name == _SESSION_TIMEOUT and setting.value
    }


def _good(answer: Any) -> Any:
    """Return the answer; raise the error that stands in place of an answer."""
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def _raise_code(part: Any) -> None:
    """Raise the error that an answer, or a part of it, has."""
    if part.error_code:
        raise for_code(part.error_code)(getattr(part, "error_message", None))


def _entries_in(answer: Any) -> frozenset[AclEntry]:
    if for_code(_good(answer).error_code) is SecurityDisabledError:
        return frozenset()
    _raise_code(answer)
    return frozenset(
        AclEntry(
            _RESOURCE_TYPES[resource.resource_type],
            resource.resource_name,
            _PATTERNS[resource.pattern_type],
            acl.principal,
            acl.host,
            _OPERATIONS[acl.operation],
            _PERMISSIONS[acl.permission_type],
        )
        for resource in answer.resources
        if resource.resource_type in _RESOURCE_TYPES
        for acl in resource.acls
    )
