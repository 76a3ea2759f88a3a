"""Make the returned cluster's topics like the new primary's topics: existence, number of partitions, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.actions.failback.topic_recreation import TopicBefore
from kafka_dr.actions.scope.topic_settings import portable_configs
from kafka_dr.actions.topic_creation import add_partitions, create_topics
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.descriptions import TopicToCreate
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TopicsToCreate
from kafka_dr.procedure.run import Run

#: Settings that decide how a broker stores a record; if these differ between two logs, the records will differ, too.
_DECIDING = ("cleanup.policy", "message.timestamp.type", "max.message.bytes")
_SYNC = "sync.topic.configs.enabled"
_NAMED = 10
_UNKNOWN = TopicBefore("", 0, {})


def make_alike(
    procedure: Run, step: str, scope: Mapping[str, str], before: Mapping[str, TopicBefore]
) -> tuple[list[str], list[str]]:
    """Create topics that the returned cluster lacks, and partitions that its topics lack.

    Args:
        scope: topic of the new primary -> its name on the returned cluster.
        before: deleted topics of the returned cluster; a topic created again gets the replication factor and
            cluster-specific settings that it had. All other settings are copied from the new primary.

    Returns:
        Names of the created topics, and of the topics with added partitions; sorted.

    Raises:
        NotReady: a topic has more partitions on the returned cluster than on the new primary; or MirrorMaker 2 does not
            copy settings, and cleanup.policy, message.timestamp.type or max.message.bytes differs. Nothing is created.
    """
    here, there = procedure.systems.source.topics(scope), procedure.systems.target.topics(scope.values())
    counts = {scope[topic]: len(info.partitions) for topic, info in here.items()}
    refuse_wider(
        procedure, {name: (counts[name], len(info.partitions)) for name, info in there.items() if name in counts}
    )
    refuse_other_settings(procedure, scope)
    missing = {topic: scope[topic] for topic in here if scope[topic] not in there}
    smaller = sorted(name for name, info in there.items() if len(info.partitions) < counts.get(name, 0))
    if missing or smaller:
        intent = TopicsToCreate(creates_topics=sorted(missing.values()), grows_topics=smaller)
        record_fact(procedure.authority, step, intent)
    configs = procedure.systems.source.configs(missing)
    topics = {
        name: TopicToCreate(
            counts[name],
            before.get(name, _UNKNOWN).replicas or -1,
            {**portable_configs(configs[topic]), **before.get(name, _UNKNOWN).settings},
        )
        for topic, name in sorted(missing.items())
    }
    create_topics(procedure, topics)
    add_partitions(procedure, {name: counts[name] for name in smaller})
    return sorted(missing.values()), smaller


def refuse_wider(procedure: Run, counts: Mapping[str, tuple[int, int]]) -> None:
    """Refuse topics with more partitions on the returned cluster than on the new primary.

    Kafka cannot remove partitions, and with more partitions producers would send keys to other partitions.

    Args:
        counts: topic of the returned cluster -> (partitions on the new primary, partitions on the returned cluster).
    """
    wider = [
        f"{name}: {here} partitions on {procedure.request.source}, {there} on {procedure.request.target}"
        for name, (here, there) in sorted(counts.items())
        if there > here
    ]
    if wider:
        raise NotReady(
            "Topics have more partitions on the returned cluster than on the new primary",
            first_few(wider, separator="; "),
            f"Add partitions to these topics on {procedure.request.source}, then start a new run. Or start a new run"
            " with mode recreate: after an export of the stranded records and an approval, that run deletes and"
            f" recreates the flow's topics on {procedure.request.target}.",
        )


def refuse_other_settings(procedure: Run, scope: Mapping[str, str]) -> None:
    """Refuse if settings that decide how records are stored differ, and MirrorMaker 2 does not copy settings.

    These settings are cleanup.policy, message.timestamp.type and max.message.bytes.
    """
    flow = procedure.flow
    if procedure.mirror_maker(flow).source_config().get(_SYNC, "true") != "false":
        return
    differ = [line for line in settings_that_differ(procedure, scope) if line["setting"] in _DECIDING]
    if differ:
        named = "; ".join(
            f"{line['topic']} {line['setting']}: {line['here']} on {procedure.request.source}, {line['there']} on"
            f" {procedure.request.target}"
            for line in differ[:_NAMED]
        )
        raise NotReady(
            "Topic settings that decide how records are stored differ between the clusters",
            named,
            f"MirrorMaker 2 does not copy topic settings in this flow ({_SYNC}=false). Make these settings equal on"
            " both clusters, then start a new run. Or start a new run with mode recreate: after an export of the"
            " stranded records and an approval, that run deletes and recreates the flow's topics on"
            f" {procedure.request.target}.",
        )


def settings_that_differ(procedure: Run, scope: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one row per topic setting that differs between the clusters: topic, setting, here, there.

    Compared are values that were set on a topic itself, without settings that only have a meaning on one cluster.
    `topic` is the name on the returned cluster, `here` the value on the new primary, `there` the value on the returned
    cluster; None if not set.
    """
    here, there = procedure.systems.source.configs(scope), procedure.systems.target.configs(scope.values())
    differing = []
    for topic, name in sorted(scope.items()):
        if topic in here and name in there:
            source_settings, target_settings = portable_configs(here[topic]), portable_configs(there[name])
            differing += [
                {"topic": name, "setting": key, "here": source_settings.get(key), "there": target_settings.get(key)}
                for key in sorted(source_settings.keys() | target_settings.keys())
                if source_settings.get(key) != target_settings.get(key)
            ]
    return differing
