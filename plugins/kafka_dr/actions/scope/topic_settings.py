"""What topics' settings mean for mirroring: compaction, timestamps, what can be carried over."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_dr.actions.scope.plan_scope import topics_of
from kafka_dr.hooks.brokers.descriptions import Settings
from kafka_dr.procedure.run import Run


def timestamps_comparable(procedure: Run) -> dict[str, bool]:
    """By source topic: whether records keep their timestamps (the target topic does not stamp its own)."""
    topics = topics_of(procedure)
    names = {t: procedure.naming.remote(procedure.flow.source, t) for t in topics}
    stamped = append_time_in(procedure.systems.target.configs(list(names.values())))
    return {t: remote not in stamped for t, remote in names.items()}


def compacted_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Topics that the cleaner compacts, of those with these settings."""
    return {topic for topic, config in configs.items() if "compact" in config.get("cleanup.policy", "delete")}


def append_time_in(configs: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Topics whose records get their time from the broker, so that a copy has another one."""
    return {topic for topic, config in configs.items() if uses_append_time(config)}


def uses_append_time(config: Mapping[str, str]) -> bool:
    """Whether a topic with these settings gives records the time at which it took them."""
    return config.get("message.timestamp.type", "CreateTime") != "CreateTime"


_NOT_PORTABLE = ("replicas", "min.insync.replicas", "unclean.leader.election.enable")


def portable_configs(configs: Settings) -> dict[str, str]:
    """A topic's own settings that mean the same on another cluster."""
    return {
        k: v
        for k, v in configs.items()
        if k in configs.overrides and not k.endswith(_NOT_PORTABLE[0]) and k not in _NOT_PORTABLE
    }
