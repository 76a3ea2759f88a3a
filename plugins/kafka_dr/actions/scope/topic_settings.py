"""Read topic settings that matter for mirroring: compaction, timestamps, settings that another cluster can have."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.scope.plan_scope import topics_of
from kafka_dr.hooks.brokers.descriptions import Settings
from kafka_dr.procedure.run import Run


def timestamps_comparable(procedure: Run) -> dict[str, bool]:
    """Return source topic of the plan -> whether its copies have the same timestamps as the source's records.

    True if the topic uses CreateTime on the target.
    """
    topics = topics_of(procedure)
    names = {t: procedure.naming.remote(procedure.flow.source, t) for t in topics}
    append_time = append_time_in(procedure.systems.target.configs(list(names.values())))
    return {t: remote not in append_time for t, remote in names.items()}


def compacted_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the compacted topics in `configs`.

    Args:
        configs: topic -> settings.
    """
    return {topic for topic, config in configs.items() if "compact" in config.get("cleanup.policy", "delete")}


def append_time_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the topics with LogAppendTime in `configs`, whose brokers replace the timestamps of copied records.

    Args:
        configs: topic -> settings.
    """
    return {topic for topic, config in configs.items() if uses_append_time(config)}


def uses_append_time(config: Mapping[str, str]) -> bool:
    """Whether a topic with these settings uses LogAppendTime: the broker replaces records' timestamps."""
    return config.get("message.timestamp.type", "CreateTime") != "CreateTime"


_NOT_PORTABLE = ("replicas", "min.insync.replicas", "unclean.leader.election.enable")


def portable_configs(configs: Settings) -> dict[str, str]:
    """Return name -> value of the topic's own settings, without settings about replicas and leader elections."""
    return {
        k: v
        for k, v in configs.items()
        if k in configs.overrides and not k.endswith(_NOT_PORTABLE[0]) and k not in _NOT_PORTABLE
    }
