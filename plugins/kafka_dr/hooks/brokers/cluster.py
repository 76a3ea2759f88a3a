"""The client of one Kafka cluster, for its brokers, users, quotas, topics, log ends, groups and positions."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource

from kafka_dr.domain.kafka_model.client_quotas import QuotaEntity
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import in_service, outcome_of, raise_error
from kafka_dr.hooks.brokers.connection import REQUEST_SECONDS
from kafka_dr.hooks.brokers.descriptions import Broker, Metadata
from kafka_dr.hooks.brokers.groups import ClusterGroups
from kafka_dr.hooks.brokers.topics import ClusterTopics


class KafkaCluster(ClusterTopics, ClusterGroups):
    """Reads and changes one cluster's topics, groups and positions; reads its brokers, users, quotas and log ends."""

    def metadata(self, timeout: float = REQUEST_SECONDS) -> Metadata:
        """Return the cluster's live brokers and the partitions' leaders, by one request to any live broker."""
        with self._border("reading metadata"):
            answer = self._admin.list_topics(timeout=timeout)
        leaders = {
            name: {p.id: p.leader if p.leader >= 0 else None for p in topic.partitions.values()}
            for name, topic in answer.topics.items()
        }
        return Metadata(tuple(sorted(answer.brokers)), leaders)

    def cluster_id(self, timeout: float = REQUEST_SECONDS) -> str:
        """Return the cluster id, with which Kafka's storage was formatted."""
        with self._border("reading the cluster id"):
            # describe_cluster would ask for less, but aborts the process if the answer names no broker.
            cluster_id: str = self._admin.list_topics(timeout=timeout).cluster_id
        return cluster_id

    def brokers(self, timeout: float = REQUEST_SECONDS) -> list[Broker]:
        """Return all live brokers, sorted by id; KafkaUnavailable also if the cluster's answer names no broker."""
        with self._border("listing brokers"):
            return sorted((Broker(n.id, n.host, n.port) for n in in_service(self._admin, timeout)), key=lambda b: b.id)

    def broker_settings(self, timeout: float = REQUEST_SECONDS) -> frozenset[str]:
        """Return the names of the settings that any broker knows, which differ from one Kafka version to the next.

        Kafka's protocol does not tell a broker's version. The right DESCRIBE_CONFIGS on the cluster is needed. A broker
        that does not answer is asked a second time, unless it is no longer in service.

        Raises:
            KafkaUnavailable: a broker in service does not answer.
        """
        return frozenset(name for settings in self._settings_of_brokers(timeout) for name in settings)

    def mapping_rules(self, timeout: float = REQUEST_SECONDS) -> frozenset[str]:
        """Return the brokers' ssl.principal.mapping.rules: several values if brokers, or their listeners, differ.

        Raises:
            KafkaUnavailable: a broker in service does not answer, or the principal may not read settings.
        """
        return frozenset(
            entry.value or ""
            for settings in self._settings_of_brokers(timeout)
            for name, entry in settings.items()
            if name.endswith("ssl.principal.mapping.rules")
        )

    def _settings_of_brokers(self, timeout: float) -> list[dict[str, Any]]:
        """Return the settings of each broker: name -> confluent-kafka's entry."""
        told: dict[int, Any] = {}
        for _ in range(2):
            # The library takes one broker a request.
            asked = {
                broker.id: self._admin.describe_configs([_broker(broker.id)], request_timeout=timeout)
                for broker in self.brokers(timeout)
                if broker.id not in told
            }
            answers = {
                number: outcome_of(future, timeout + 5) for number, of in asked.items() for future in of.values()
            }
            errors = [value for value in answers.values() if isinstance(value, KafkaError)]
            told |= {number: value for number, value in answers.items() if not isinstance(value, KafkaError)}
            if not errors:
                break
        with self._border("reading the brokers' settings"):
            for error in errors:
                raise_error(error)
        return list(told.values())

    def users(self, timeout: float = REQUEST_SECONDS) -> frozenset[str] | None:
        """Return the names of SCRAM users; None if the cluster refuses to list its users, or does not answer."""
        users = self.scram_users(timeout)
        return None if users is None else frozenset(users)

    def scram_users(self, timeout: float = REQUEST_SECONDS) -> dict[str, dict[str, int]] | None:
        """Return iterations by mechanism of each SCRAM user; None where `users` returns None."""
        try:
            future: Any = self._admin.describe_user_scram_credentials(request_timeout=timeout)
            described = future.result(timeout + 5)
        except (KafkaException, FutureTimeout):
            return None
        return {
            user: {
                info.mechanism.name.replace("_", "-"): info.iterations for info in description.scram_credential_infos
            }
            for user, description in described.items()
        }

    def client_quotas(self, timeout: float = REQUEST_SECONDS) -> dict[QuotaEntity, dict[str, float]] | None:
        """Return the limits of each entity; None if the cluster refuses to list them, or does not answer.

        The right DESCRIBE_CONFIGS on the cluster is needed.
        """
        try:
            return self.every_broker.client_quotas(self.brokers(timeout)[0].id, timeout)
        except KafkaUnavailable:
            return None


def _broker(number: int) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.BROKER, str(number))
