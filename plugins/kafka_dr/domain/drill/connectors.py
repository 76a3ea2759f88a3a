"""Configurations of a drill's own MirrorMaker 2, made of those of the drilled flow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kafka_dr.domain.drill.names import SEPARATOR

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
#: A filter that excludes nothing: no topic or group has this name.
_NOTHING = "switchback-drill-excludes-nothing"
#: Filters are the drill's own; transformations could write to topics of other names, and offsets into production's.
_NEVER_TAKEN_OVER = re.compile(
    r"name|topics|topics\.(exclude|blacklist)|groups|groups\.(exclude|blacklist)"
    r"|(transforms|predicates)(\..*)?|offsets\.storage\.topic|exactly\.once\.support"
)
#: A second writer of ACLs, settings or positions, and heartbeats of a second flow between the same aliases, would reach
#: beyond the drill.
_ALWAYS = {
    "key.converter": _BYTES,
    "value.converter": _BYTES,
    "header.converter": _BYTES,
    "replication.policy.separator": SEPARATOR,
    "heartbeats.replication.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "errors.tolerance": "none",
    "enabled": "true",
    "tasks.max": "2",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "2",
    "topics.exclude": _NOTHING,
    "groups.exclude": _NOTHING,
}


def drill_config(
    production: Mapping[str, str], topics: Iterable[str], groups: Iterable[str], aliases: tuple[str, str]
) -> dict[str, str]:
    """Return the configuration of one of a drill's connectors.

    Args:
        production: configuration of the drilled flow's connector of the same kind; its logins and client settings are
            taken over.
        topics: names of all topics that the drill's flow mirrors.
        groups: names of all groups of which the drill's flow writes checkpoints.
        aliases: of the flow's source and target.
    """
    kept = {key: value for key, value in production.items() if not _NEVER_TAKEN_OVER.fullmatch(key)}
    return kept | {
        **_ALWAYS,
        "topics": _literal(topics),
        "groups": _literal(groups),
        "source.cluster.alias": aliases[0],
        "target.cluster.alias": aliases[1],
    }


def without_source(config: Mapping[str, str]) -> dict[str, str]:
    """Return a connector's configuration in which the source's address leads nowhere."""
    return dict(config) | {"source.cluster.bootstrap.servers": "127.0.0.1:9"}


def _literal(names: Iterable[str]) -> str:
    """Return a list of regular expressions that match these names alone, as MirrorMaker 2 reads it."""
    return ",".join(re.escape(name).replace(r"\-", "-") for name in sorted(names))
