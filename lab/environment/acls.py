"""ACL entries of the two clusters, among them DENY entries by which a new standby refuses producers' writes."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.environment.layout.flows import LAYOUTS, PAIR, Layout
from lab.environment.state import ALIASES, DRILL_CLIENT

REQUEST_SECONDS = 30.0
CLUSTER_NAME = "kafka-cluster"
_LITERAL, _PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_TRANSACTION, _CLUSTER = ResourceType.TRANSACTIONAL_ID, ResourceType.BROKER

_EVERYTHING = ("ALL",)
# By principal and resource type: the operations allowed on every resource of this type.
_WILDCARD_RIGHTS: dict[str, dict[ResourceType, tuple[str, ...]]] = {
    "producer": {
        _TOPIC: ("WRITE", "DESCRIBE", "CREATE", "DESCRIBE_CONFIGS"),
        _TRANSACTION: ("WRITE", "DESCRIBE"),
        _GROUP: ("READ", "DESCRIBE"),
        _CLUSTER: ("IDEMPOTENT_WRITE",),
    },
    "consumer": {_TOPIC: ("READ", "DESCRIBE", "DESCRIBE_CONFIGS"), _GROUP: ("READ", "DESCRIBE")},
    "mm2": {_TOPIC: _EVERYTHING, _GROUP: _EVERYTHING, _TRANSACTION: _EVERYTHING, _CLUSTER: _EVERYTHING},
    "orchestrator": {
        _TOPIC: ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CREATE", "ALTER", "DELETE"),
        _GROUP: ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS"),
        _TRANSACTION: ("DESCRIBE", "WRITE"),
        _CLUSTER: ("DESCRIBE", "ALTER", "DESCRIBE_CONFIGS"),
    },
}


def client_rights() -> Iterator[AclBinding]:
    """Yield the ALLOW ACL entries of all principals except super users; both clusters have the same ALLOW entries."""
    for principal, resources in _WILDCARD_RIGHTS.items():
        for resource, operations in resources.items():
            name = CLUSTER_NAME if resource is _CLUSTER else "*"
            for operation in operations:
                yield _binding(principal, resource, name, _LITERAL, operation)
    yield _binding("orchestrator", _TOPIC, "__switchback", _PREFIXED, "ALL")
    for operation in ("WRITE", "DESCRIBE"):
        yield _binding("probe", _TOPIC, "__switchback_probe", _LITERAL, operation)
    yield _binding("probe", _CLUSTER, CLUSTER_NAME, _LITERAL, "IDEMPOTENT_WRITE")
    yield from _drill_rights()


def _drill_rights() -> Iterator[AclBinding]:
    """Yield the ACL entries of drills' clients: the names of a drill's topics and groups have these prefixes.

    MirrorMaker 2's prefix of a drill's mirrored topics under default naming ends with the drill's own separator.
    """
    for prefix in ("switchback-drill.", *(f"{alias}.switchback-drill." for alias in ALIASES)):
        for operation in ("READ", "WRITE", "DESCRIBE"):
            yield _binding(DRILL_CLIENT, _TOPIC, prefix, _PREFIXED, operation)
    for resource, operations in ((_GROUP, ("READ", "DESCRIBE")), (_TRANSACTION, ("WRITE", "DESCRIBE"))):
        for operation in operations:
            yield _binding(DRILL_CLIENT, resource, "__switchback-drill.", _PREFIXED, operation)


def standing_fence(alias: str, policy: str, layout: Layout = LAYOUTS[PAIR]) -> list[AclBinding]:
    """Return the DENY ACL entries that a cluster has before any procedure has run; [] if the cluster has none.

    The standby of a pair refuses all writes of the user `producer` until a failover's `open_target`. Under default
    naming every cluster refuses this user's writes to mirrored topics (prefix: the other cluster's alias), also after a
    failover.
    """
    everything = _binding("producer", _TOPIC, "*", _LITERAL, "WRITE", AclPermissionType.DENY)
    mirrored = [
        _binding("producer", _TOPIC, f"{other}.", _PREFIXED, "WRITE", AclPermissionType.DENY)
        for other in layout.sources_of(alias)
    ]
    return [everything] * (alias in layout.fenced) + mirrored * (policy == "default")


def create_bindings(client: AdminClient, bindings: list[AclBinding]) -> None:
    """Create ACL entries and wait until the cluster has accepted each one."""
    for future in client.create_acls(bindings, request_timeout=REQUEST_SECONDS).values():
        future.result(timeout=REQUEST_SECONDS)


def _binding(
    principal: str,
    resource: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    operation: str,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(resource, name, pattern, f"User:{principal}", "*", AclOperation[operation], permission)
