"""Reads what each broker of a cluster knows by itself: ACLs, producers, quotas, groups, transactional ids."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, Producer
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.broker_requests import REQUEST_SECONDS, BrokerRequests, raise_code, require_answer

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import SecurityDisabledError, for_code
    from kafka.protocol.admin import (
        DescribeAclsRequest,
        DescribeClientQuotasRequest,
        DescribeConfigsRequest,
        ListGroupsRequest,
    )
    from kafka.protocol.admin.transactions import DescribeProducersRequest, ListTransactionsRequest

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


class EveryBroker(BrokerRequests):
    """Asks brokers of one cluster, all at once; connections are kept for the next request."""

    def acl_entries(
        self, brokers: Iterable[int], topic: str | None = None, timeout: float = REQUEST_SECONDS
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
        self, leaders: Mapping[TopicPartition, int], timeout: float = REQUEST_SECONDS
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
        for answer in self._all("reading producers", requests, _producers_in, timeout, "READ on the topics"):
            found |= answer
        return found

    def client_quotas(self, broker: int, timeout: float = REQUEST_SECONDS) -> dict[QuotaEntity, dict[str, float]]:
        """Return the limits by name of each entity that has client quotas, as one broker knows them.

        Raises:
            KafkaUnavailable: the broker does not answer, or refuses.
        """
        everything = DescribeClientQuotasRequest(components=[], strict=False)
        answer = self._ask("reading client quotas", {broker: everything}, _quotas_in, timeout)[broker]
        if isinstance(answer, KafkaUnavailable):
            raise answer
        return answer

    def groups(self, brokers: Iterable[int], timeout: float = REQUEST_SECONDS) -> dict[str, ListedGroup]:
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

    def transactional_ids(self, brokers: Iterable[int], timeout: float = REQUEST_SECONDS) -> list[KnownTransaction]:
        """Return the transactional ids that these brokers coordinate and the principal may describe, by name.

        Raises:
            KafkaUnavailable: a broker does not answer, refuses, or is older than Kafka 3.0.
        """
        requests = {broker: ListTransactionsRequest(state_filters=[], producer_id_filters=[]) for broker in brokers}
        answers = self._all("listing transactional ids", requests, _transactions_in, timeout)
        return sorted((found for answer in answers for found in answer), key=lambda found: found.transactional_id)

    def session_seconds(self, broker: int, groups: Iterable[str], timeout: float = REQUEST_SECONDS) -> dict[str, float]:
        """Return by name the session timeout that the broker applies to groups of the newer protocol, in seconds.

        A group whose settings the broker does not show is left out.

        Raises:
            KafkaUnavailable: the broker does not answer, or is older than Kafka 3.8.
        """
        (answer,) = self._all("reading settings of groups", {broker: _describe_groups(groups)}, _sessions_in, timeout)
        return answer


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
    for topic in require_answer(answer).topics:
        for partition in topic.partitions:
            raise_code(partition)
            producers = [
                Producer(
                    p.producer_id,
                    _if_known(p.last_timestamp),
                    p.producer_epoch,
                    p.last_sequence,
                    p.coordinator_epoch,
                    _if_known(p.current_txn_start_offset),
                )
                for p in partition.active_producers
            ]
            producers.sort(key=lambda producer: (-(producer.last_ms or 0), producer.producer_id))
            found[TopicPartition(topic.name, partition.partition_index)] = producers
    return found


def _if_known(number: int) -> int | None:
    return None if number < 0 else number


def _quotas_in(answer: Any) -> dict[QuotaEntity, dict[str, float]]:
    raise_code(require_answer(answer))
    return {
        QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


def _groups_in(answer: Any) -> dict[str, ListedGroup]:
    raise_code(require_answer(answer))
    return {
        group.group_id: ListedGroup(group.protocol_type, (group.group_type or "").lower()) for group in answer.groups
    }


def _transactions_in(answer: Any) -> list[KnownTransaction]:
    raise_code(require_answer(answer))
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
        for group in require_answer(answer).results
        for setting in group.configs or ()
        if setting.name == _SESSION_TIMEOUT and setting.value
    }


def _entries_in(answer: Any) -> frozenset[AclEntry]:
    if for_code(require_answer(answer).error_code) is SecurityDisabledError:
        return frozenset()
    raise_code(answer)
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
