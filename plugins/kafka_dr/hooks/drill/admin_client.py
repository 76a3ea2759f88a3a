"""confluent-kafka's AdminClient in a drill: each change is refused unless all that it changes is in the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from kafka_dr.domain.drill.scope import DrillScope

#: A filter by which `delete_acls` tests for an authorizer. No cluster has such an ACL entry, so nothing is removed.
AUTHORIZER_TEST = AclBindingFilter(
    ResourceType.TOPIC,
    "switchback-asks",
    ResourcePatternType.LITERAL,
    "User:switchback-nobody",
    "127.0.0.1",
    AclOperation.READ,
    AclPermissionType.DENY,
)
#: Methods of AdminClient that change nothing on the cluster.
READS = frozenset(
    """
    cluster_id describe_acls describe_cluster describe_configs describe_consumer_groups describe_topics
    describe_user_scram_credentials list_consumer_group_offsets list_consumer_groups list_groups list_offsets
    list_topics poll
    """.split()
)
#: The topic id of a cluster that knows no topic ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_REQUEST_SECONDS = 30.0


def admin_client(settings: Mapping[str, Any], scope: DrillScope | None = None) -> AdminClient:
    """Return a new AdminClient; in a drill, one that changes only what is in the scope."""
    admin = AdminClient(dict(settings))
    return admin if scope is None else cast("AdminClient", DrillAdmin(admin, scope))


class DrillAdmin:
    """An AdminClient with a drill's scope: any of its methods that is not known to be harmless is refused.

    Args:
        admin: the client that sends the requests.
        scope: what may be changed.
    """

    def __init__(self, admin: AdminClient, scope: DrillScope) -> None:
        self._admin, self._scope = admin, scope

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            return getattr(self._admin, name)
        check = CHECKS.get(name)
        if check is None:
            self._scope.refuse("what no drill changes", f"the request {name}")
        return lambda changed, **options: self._send(name, check, changed, options)

    def _send(self, name: str, check: Callable[[DrillScope, Any], None], changed: Iterable[Any], options: Any) -> Any:
        changes = list(changed)
        for change in changes:
            check(self._scope, change)
        return getattr(self._admin, name)(changes, **options)

    def delete_topics(
        self, topics: Iterable[str], topic_ids: Mapping[str, str] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Delete topics that are in the scope and have the given ids; none is deleted if one of them has another id.

        Args:
            topic_ids: topic -> the id that the drill has noted for it; a topic without an id here is refused.
            options: further arguments of `AdminClient.delete_topics`.
        """
        names, noted = list(topics), dict(topic_ids or {})
        for name in names:
            self._scope.require_topic(name, "deleting a topic")
        for name, topic_id in self._ids_of(names, options.get("request_timeout", _REQUEST_SECONDS)).items():
            if topic_id == _NO_ID or noted.get(name) != topic_id:
                ids = f"the cluster has it with the id {topic_id}, noted is {noted.get(name, 'none')}"
                self._scope.refuse(f"topic {name!r} ({ids})", "deleting a topic")
        futures: dict[str, Any] = self._admin.delete_topics(names, **options)
        return futures

    def elect_leaders(self, election_type: Any, partitions: Iterable[Any], **options: Any) -> Any:
        """Elect leaders of partitions whose topics are in the scope.

        Args:
            election_type: confluent-kafka's ElectionType.
            partitions: confluent-kafka's TopicPartition objects.
            options: further arguments of `AdminClient.elect_leaders`.
        """
        wanted = list(partitions)
        for partition in wanted:
            self._scope.require_topic(partition.topic, "electing a leader")
        return self._admin.elect_leaders(election_type, wanted, **options)

    def _ids_of(self, names: list[str], timeout: float) -> dict[str, str]:
        """Return the ids of those of these topics that exist."""
        ids = {}
        for name, future in self._admin.describe_topics(TopicCollection(names), request_timeout=timeout).items():
            try:
                ids[name] = str(future.result(timeout + 5).topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return ids


def _require_config(scope: DrillScope, resource: ConfigResource) -> None:
    call = "changing a configuration"
    if resource.restype is not ConfigResource.Type.TOPIC:
        scope.refuse(f"{resource.restype.name.lower()} {resource.name!r}", call)
    scope.require_topic(resource.name, call)


def _require_entry(scope: DrillScope, entry: Any) -> None:
    if entry is not AUTHORIZER_TEST:
        kind, pattern = entry.restype.name.lower(), entry.resource_pattern_type.name.lower()
        scope.require_resource(kind, entry.name, pattern, "changing an ACL entry")


def _require_positions(scope: DrillScope, commit: Any) -> None:
    scope.require_group(commit.group_id, "committing positions")
    for partition in commit.topic_partitions or ():
        scope.require_topic(partition.topic, f"committing positions of {commit.group_id!r}")


#: Methods of AdminClient that change what is named in their first argument, a list -> what checks one element of it.
CHECKS: Mapping[str, Callable[[DrillScope, Any], None]] = {
    "create_topics": lambda scope, new: scope.require_topic(new.topic, "creating a topic"),
    "create_partitions": lambda scope, new: scope.require_topic(new.topic, "adding partitions"),
    "delete_records": lambda scope, partition: scope.require_topic(partition.topic, "deleting records"),
    "alter_configs": _require_config,
    "incremental_alter_configs": _require_config,
    "create_acls": _require_entry,
    "delete_acls": _require_entry,
    "alter_consumer_group_offsets": _require_positions,
    "delete_consumer_groups": lambda scope, group: scope.require_group(group, "deleting a group"),
}
