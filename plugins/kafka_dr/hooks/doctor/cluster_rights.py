"""Asks brokers which operations the connection's principal may do; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, TopicCollection

from kafka_dr.hooks.brokers.client import in_service, kafka_border, outcome_of, raise_error, send_in_batches
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.group_requests import UNENDING_SECONDS

_AUTHORIZATION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_SECONDS = 20.0
_AT_ONCE = 200


class ClusterRights:
    """What the principal of one cluster's connection may do; operations in lower case, as in ACL entries."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Store the cluster's client, because requests of a client that Python has freed are never answered."""
        self._cluster = cluster

    def on_cluster(self) -> frozenset[str]:
        """Return the operations on the cluster itself; empty if it may not even be described."""
        admin = self._cluster.admin
        with kafka_border(self._cluster.alias, "listing brokers"):
            # describe_cluster aborts the process if the answer names no broker.
            in_service(admin, _SECONDS)
        future = admin.describe_cluster(include_authorized_operations=True, request_timeout=_SECONDS)
        return self._operations("asking for rights on the cluster", future) or frozenset()

    def on_topics(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the operations by topic; topics that do not exist are left out."""
        admin = self._cluster.admin

        def send(batch: list[str]) -> dict[str, Future[Any]]:
            topics = TopicCollection(batch)
            return admin.describe_topics(topics, include_authorized_operations=True, request_timeout=_SECONDS)

        return self._by_name("asking for rights on topics", send_in_batches(sorted(names), _AT_ONCE, send))

    def on_groups(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the operations by group, also of groups that do not exist."""
        admin = self._cluster.admin

        def send(batch: list[str]) -> dict[str, Future[Any]]:
            # An unanswered request stays with the client; the command ends long before librdkafka's limit.
            return admin.describe_consumer_groups(
                batch, include_authorized_operations=True, request_timeout=UNENDING_SECONDS
            )

        return self._by_name("asking for rights on groups", send_in_batches(sorted(names), _AT_ONCE, send))

    def _by_name(self, what: str, futures: Iterable[tuple[str, Future[Any]]]) -> dict[str, frozenset[str]]:
        asked = {name: self._operations(what, future) for name, future in list(futures)}
        return {name: operations for name, operations in asked.items() if operations is not None}

    def _operations(self, what: str, future: Future[Any]) -> frozenset[str] | None:
        """Return the operations in an answer: none if the broker refuses; None for what does not exist."""
        outcome = outcome_of(future, _SECONDS + 5)
        if isinstance(outcome, KafkaError):
            if outcome.code() in _AUTHORIZATION:
                return frozenset()
            if outcome.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND):
                return None
        with kafka_border(self._cluster.alias, what, self._cluster.complaint):
            raise_error(outcome)
        return frozenset(operation.name.lower() for operation in outcome.authorized_operations or ())
