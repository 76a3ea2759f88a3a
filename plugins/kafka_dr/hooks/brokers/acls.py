"""Reads, adds and removes ACL entries of one cluster, each by its exact fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.search_end import order_additions, order_removals
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import in_service, kafka_border, outcome_of
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.drill.admin_client import AUTHORIZER_TEST

__all__ = ["AclEntry", "ClusterAcls"]

_SECONDS = 30.0
#: Largest number of ACL entries that one request adds: KRaft's controller writes at most 10,000 records for a request.
MOST_ADDED = 5_000
#: Largest number of ACL entries that one request removes: for each of them KRaft's controller compares all entries of
#: the cluster, and does nothing else meanwhile. A request to remove 5,000 of 20,000 entries took longer than 30 s.
MOST_REMOVED = 100
#: librdkafka calls the cluster resource "broker"; its name is always kafka-cluster.
_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
#: Errors of brokers whose authorizer knows no ACL entries.
_NO_ACLS = frozenset((KafkaError.UNKNOWN, KafkaError.UNSUPPORTED_VERSION))
_TYPE_NAMES = {kind: name for name, kind in _TYPES.items()}


class ClusterAcls:
    """Reads and changes one cluster's ACL entries; adding an existing or removing a missing entry changes nothing."""

    def __init__(self, cluster: KafkaCluster) -> None:
        """Store the cluster's client, because requests of a client that Python has freed are never answered."""
        self._cluster = cluster
        self._admin = cluster.admin
        self._alias = cluster.alias

    def __repr__(self) -> str:
        return f"ClusterAcls({self._alias!r})"

    def authorizer(self, timeout: float = _SECONDS) -> Authorizer:
        """Return what decides in the cluster who may do what.

        The test is to remove an ACL entry that cannot exist. Reading ACL entries is no test: librdkafka does not report
        the broker's error, and a cluster without authorizer looks like a cluster without ACL entries. An authorizer
        without ACL entries fails, which the broker reports as its own unknown error.
        """
        with kafka_border(self._alias, "testing for an authorizer"):
            futures = self._admin.delete_acls([AUTHORIZER_TEST], request_timeout=timeout)
            outcome = next(outcome_of(future, timeout + 5) for future in futures.values())
            if not isinstance(outcome, KafkaError) or outcome.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return Authorizer.BY_ACL
            if outcome.code() == KafkaError.SECURITY_DISABLED:
                return Authorizer.NONE
            if outcome.code() in _NO_ACLS:
                return Authorizer.OTHER
            raise KafkaException(outcome)

    def entries(self, timeout: float = _SECONDS) -> frozenset[AclEntry]:
        """Return all ACL entries on topics, groups, transactional ids and the cluster; empty without an authorizer.

        Raises:
            KafkaUnavailable: also if the connection's principal lacks the right to read ACL entries, although
                librdkafka then reports no error.
        """
        with kafka_border(self._alias, "reading ACL entries"):
            futures = [self._admin.describe_acls(_any_of(kind), request_timeout=timeout) for kind in _TYPES.values()]
            entries = frozenset(_entry(binding) for future in futures for binding in future.result(timeout + 5))
            if not entries:
                self._refuse_unreadable(timeout)
            return self._shown(entries)

    def entries_for(self, topic: str, timeout: float = _SECONDS) -> frozenset[AclEntry]:
        """Return the ACL entries that cover a topic: literal, prefixed and for all topics; reads no other entry."""
        covering = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        with kafka_border(self._alias, "reading ACL entries"):
            found = self._admin.describe_acls(covering, request_timeout=timeout).result(timeout + 5)
            if not found:
                self._refuse_unreadable(timeout)
            return self._shown(_entry(binding) for binding in found)

    def entries_by_broker(self, topic: str | None = None) -> dict[int, frozenset[AclEntry] | KafkaUnavailable]:
        """Return the ACL entries that each live broker has applied, by the broker's id.

        Brokers apply a change one after the other. A broker that does not answer has the error in place of its entries.

        Args:
            topic: only literal entries on this topic; None: all entries.
        """
        brokers = [broker.id for broker in self._cluster.brokers()]
        return {
            broker: found if isinstance(found, KafkaUnavailable) else self._shown(found)
            for broker, found in self._cluster.every_broker.acl_entries(brokers, topic).items()
        }

    def _shown(self, entries: Iterable[AclEntry]) -> frozenset[AclEntry]:
        """Return the entries that the run is to see: in a drill those that concern the drill, else all."""
        scope = self._cluster.scope
        return frozenset(entry for entry in entries if scope is None or scope.shows_entry(entry))

    def _refuse_unreadable(self, timeout: float) -> None:
        in_service(self._admin, timeout)
        cluster = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=timeout).result(
            timeout + 5
        )
        if AclOperation.DESCRIBE not in (cluster.authorized_operations or ()):
            raise KafkaException(
                KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no DESCRIBE right on the cluster")
            )

    def add(self, entries: Iterable[AclEntry], timeout: float = _SECONDS) -> None:
        """Add ACL entries in the given order, `SEARCH_END` first; ACL entries that exist already are left unchanged.

        Adjacent entries of one resource are added by one request, because the first entry of a topic without entries
        refuses every operation to all principals that no ALLOW entry names.

        Args:
            timeout: limit of each request, in seconds.
        """
        for part in in_requests(order_additions(entries), MOST_ADDED):
            with kafka_border(self._alias, f"adding {len(part)} ACL entries"):
                bindings = [_binding(entry) for entry in part]
                for future in self._admin.create_acls(bindings, request_timeout=timeout).values():
                    future.result(timeout + 5)

    def remove(self, entries: Iterable[AclEntry], timeout: float = _SECONDS) -> frozenset[AclEntry]:
        """Remove exactly these ACL entries, and no similar entry; return the entries that existed.

        All entries of one resource are removed by one request, `SEARCH_END` by the last.

        Args:
            timeout: limit of each request, in seconds.
        """
        existed: set[AclEntry] = set()
        for part in in_requests(order_removals(entries), MOST_REMOVED):
            with kafka_border(self._alias, f"removing {len(part)} ACL entries"):
                futures = self._admin.delete_acls([_filter(entry) for entry in part], request_timeout=timeout).values()
                existed |= {_entry(binding) for future in futures for binding in future.result(timeout + 5)}
        return frozenset(existed)

    def holds(self, entry: AclEntry, timeout: float = _SECONDS) -> bool:
        """Whether the cluster has exactly this ACL entry; reads no other entry."""
        with kafka_border(self._alias, "reading an ACL entry"):
            found = self._admin.describe_acls(_filter(entry), request_timeout=timeout).result(timeout + 5)
            if not found:
                self._refuse_unreadable(timeout)
            return bool(found)

    def missing(self, entries: Iterable[AclEntry], timeout: float = _SECONDS) -> list[AclEntry]:
        """Return the given ACL entries that the cluster lacks, sorted.

        Just after `add`, an added ACL entry may still be in the list, because brokers learn of changes with a delay.
        """
        return sorted(set(entries) - self.entries(timeout))


def in_requests(entries: Iterable[AclEntry], most: int) -> Iterator[list[AclEntry]]:
    """Yield the entries in parts for one request each; a part ends only between two resources.

    A part has at most `most` entries, unless a single resource has more.
    """
    part: list[AclEntry] = []
    for _, group in groupby(entries, key=lambda entry: (entry.resource_type, entry.name, entry.pattern)):
        of_resource = list(group)
        if part and len(part) + len(of_resource) > most:
            yield part
            part = []
        part += of_resource
    if part:
        yield part


def _any_of(kind: ResourceType) -> AclBindingFilter:
    return AclBindingFilter(kind, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


def _fields(entry: AclEntry) -> tuple[Any, ...]:
    """Return an ACL entry's fields in the client's types; BadInput for unknown words, empty names and filters."""
    try:
        pattern = ResourcePatternType[entry.pattern.upper()]
        operation, permission = AclOperation[entry.operation.upper()], AclPermissionType[entry.permission.upper()]
        fields = (_TYPES[entry.resource_type], entry.name, pattern, entry.principal, entry.host, operation, permission)
    except KeyError as error:
        raise BadInput(
            f"the Kafka client does not know the word {error} of an ACL entry",
            str(entry),
            "no ACL entry was added or removed. The entry comes from the rules of the fence, or from an intent in the"
            " journal: run the version of Switchback that wrote the intent, with the packages of its requirements.lock",
        ) from None
    exact = pattern in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    if not exact or not all((entry.name, entry.principal, entry.host)) or "ANY" in (operation.name, permission.name):
        raise BadInput(
            "an ACL entry must be exact: a name, a principal, a host, and neither `any` nor `match`",
            str(entry),
            "no ACL entry was added or removed: an inexact entry could remove other entries. Report this message as a"
            " defect of Switchback",
        )
    return fields


def _binding(entry: AclEntry) -> AclBinding:
    return AclBinding(*_fields(entry))


def _filter(entry: AclEntry) -> AclBindingFilter:
    return AclBindingFilter(*_fields(entry))


def _entry(binding: AclBinding) -> AclEntry:
    return AclEntry(
        resource_type=_TYPE_NAMES[binding.restype],
        name=binding.name,
        pattern=binding.resource_pattern_type.name.lower(),
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation.name.lower(),
        permission=binding.permission_type.name.lower(),
    )
