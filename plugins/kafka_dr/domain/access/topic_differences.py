"""Settings of the flow's topics that differ between source and target, where a topic of either sets them itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from kafka_dr.domain.access.differences import Difference
from kafka_dr.domain.manual.context import ToolAccess
from kafka_dr.domain.manual.setting_commands import topic_command
from kafka_dr.domain.mirror_maker.patterns import pattern_list
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.domain.readiness.observation import Observation

_NAMED = 10
#: Default of MirrorMaker 2's `config.properties.exclude`: settings that it does not copy.
_NOT_COPIED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
    r" message\.timestamp\.difference\.max\.ms, log\.message\.timestamp\.before\.max\.ms,"
    r" log\.message\.timestamp\.after\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable,"
    r" min\.insync\.replicas"
)
#: Settings for the time of a reassignment, which name brokers of one cluster.
_OF_ONE_CLUSTER = re.compile(r"(follower|leader)\.replication\.throttled\.replicas")


def topic_differences(o: Observation, target: ToolAccess) -> Iterator[Difference]:
    """Yield a difference for each setting and pair of values; one difference may have many topics.

    Compared are the topics that clients will use: the mirrored topic and, if it has another name and the target has it
    already, the topic of the source's own name.

    Args:
        target: how Kafka's tools reach the target.
    """
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for topic, name in sorted({*o.scope.items(), *((topic, topic) for topic in o.scope)}):
        here, there = o.source.topics[topic], o.target.topics.get(name)
        if there is None:
            continue
        for key in here.overrides | there.overrides:
            values = here.configs.get(key, ""), there.configs.get(key, "")
            if values[0] != values[1] and not _OF_ONE_CLUSTER.fullmatch(key):
                alike[key, *values].append(name)
    is_copied = _copied_by(o.flow.source_config)
    for (key, here_value, there_value), names in sorted(alike.items()):
        yield Difference(
            f"{key} is {here_value or 'unknown'} on {o.source.alias} and {there_value or 'unknown'} on"
            f" {o.target.alias}, of {count_of(len(names), 'topic')}: {first_few(names, _NAMED)}."
            f" MirrorMaker 2 {'copies' if is_copied(key) else 'does not copy'} this setting"
            f"{', and has not done so yet' if is_copied(key) else ''}.",
            tuple(topic_command(target, name, key, here_value) for name in names if here_value),
        )


def _copied_by(config: Mapping[str, str]) -> Callable[[str], bool]:
    """Return a function that tells whether a source connector with this configuration copies a setting of topics."""
    excluded = pattern_list(
        config.get("config.properties.exclude", config.get("config.properties.blacklist", _NOT_COPIED)), "topic"
    )
    return cache(lambda key: config.get("sync.topic.configs.enabled", "true") != "false" and not excluded.matches(key))
