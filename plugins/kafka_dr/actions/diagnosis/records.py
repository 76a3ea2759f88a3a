"""Derive what the trees ask about topics and lagging partitions, from an observation of both clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka_dr.actions.readiness.observe import sample_ends
from kafka_dr.domain.diagnosis.connectors import ConnectorFacts
from kafka_dr.domain.diagnosis.partitions import LaggingPartition
from kafka_dr.domain.diagnosis.topics import TOPIC_TREE, TopicFacts
from kafka_dr.domain.diagnosis.tree import walk_tree
from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import topic_problem
from kafka_dr.domain.mirror_maker.patterns import topic_filter_of
from kafka_dr.domain.plain_text import format_duration
from kafka_dr.domain.readiness.lag import FlowLag, PartitionLag, missing_copies
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.readiness import standing_still
from kafka_dr.procedure.run import Run

CLUSTER = "kafka-cluster"
#: Default of MirrorMaker 2's refresh.topics.interval.seconds, and how long it may take to create topics after that.
_REFRESH_SECONDS, _CREATION_SECONDS = 600.0, 30.0


@dataclass(frozen=True)
class MirrorMakerRights:
    """What MirrorMaker 2's principals may do on one cluster, as far as ACL entries tell.

    Attributes:
        principals: as whom it works there; empty if unknown.
    """

    rules: AclRules
    principals: frozenset[str]

    def allowed(self, operation: str, resource_type: str, names: Collection[str]) -> dict[str, bool] | None:
        """Return by name whether every principal may do an operation; None if ACL entries do not tell."""
        if not self.rules.authorizer or self.rules.rights_elsewhere or not self.principals:
            return None
        rights = self.rules.rights(operation, resource_type, names)
        refused = {name for principal in self.principals for name in rights.names_refused(principal)}
        return {name: name not in refused for name in names}


def _of(rights: Mapping[str, bool] | None, name: str) -> bool | None:
    return None if rights is None else rights.get(name)


def topic_facts(
    procedure: Run,
    o: Observation,
    foreign: Mapping[TopicPartition, str],
    connectors: Iterable[ConnectorFacts],
    rights: Mapping[str, MirrorMakerRights],
    now: float,
) -> list[TopicFacts]:
    """Return what the tree of the topics asks, of each topic of the source that could be mirrored.

    Args:
        foreign: partition -> what shows that the target's newest record is another writer's.
        rights: of MirrorMaker 2, by role.
        now: seconds since 1970.
    """
    naming, source, target = procedure.naming, o.flow.source, o.flow.target
    names = [
        topic
        for topic in sorted(o.source.topics)
        if not (naming.is_internal(topic) or naming.is_heartbeats(topic) or naming.is_cycle(topic, target))
    ]
    remote = {topic: naming.remote(source, topic) for topic in names}
    working = {connector.name for connector in connectors if connector.works}
    describable = rights["source"].allowed("describe", "topic", names)
    creatable = rights["target"].allowed("create", "topic", list(remote.values()))
    create_any = _of(rights["target"].allowed("create", "cluster", [CLUSTER]), CLUSTER)
    expected, older = _expected_topics(procedure, o, names), _older_topics(procedure, o, remote, now)
    refresh, refreshes = _refresh_of(o)
    taken = {tp.topic: f"{tp}, {text}" for tp, text in foreign.items()}
    emptied = {tp.topic for tp in missing_copies(o.last.source_ends, o.last.target_ends, o.flow.replicated)}
    return [
        TopicFacts(
            name=topic,
            remote=remote[topic],
            partitions=o.source.topics[topic].partitions,
            remote_partitions=there.partitions if (there := o.target.topics.get(remote[topic])) else None,
            selected=o.flow.mirrors.selects(topic),
            filter_text=_filter_text(o),
            expected=expected.get(topic, ""),
            connector_works=bool(working & set(o.flow.mirrors.connectors_of(topic))),
            describable=_of(describable, topic),
            creatable=True if create_any else _of(creatable, remote[topic]),
            impossible=_why_impossible(remote[topic], o.target.topics),
            refreshes=refreshes,
            refresh_seconds=refresh,
            older=topic in older,
            taken=taken.get(topic, ""),
            emptied=topic in emptied,
        )
        for topic in names
        if o.flow.mirrors.selects(topic) or topic in expected or _by_default(topic)
    ]


def _by_default(topic: str) -> bool:
    """Whether MirrorMaker 2's default filter selects a topic: that it leaves one out needs no explanation."""
    return topic_filter_of({}).selects(topic)


def _filter_text(o: Observation) -> str:
    keys = ("topics", "topics.exclude", "topics.blacklist")
    texts = [
        f"{name}: " + ", ".join(f"{key}={config[key]}" for key in keys if key in config)
        for name, config in o.flow.mirrors.configs.items()
    ]
    return "; ".join(texts)


def _expected_topics(procedure: Run, o: Observation, names: Iterable[str]) -> dict[str, str]:
    """Return topic -> why it is meant to be replicated: the topology says so, or it was replicated before."""
    copied = {tp.topic for tp, last in o.flow.replicated.items() if last is not None}
    stated = {key: value for key, value in procedure.flow.mirror_maker.items() if key.startswith("topics")}
    selects = topic_filter_of(stated, procedure.naming, o.flow.target) if "topics" in stated else None
    return {
        topic: f"the topology states topics={stated['topics']}"
        if selects and selects(topic)
        else "it was copied before"
        for topic in names
        if (selects and selects(topic)) or topic in copied
    }


def _older_topics(procedure: Run, o: Observation, remote: Mapping[str, str], now: float) -> set[str]:
    """Return the missing topics of which the source has a record older than MirrorMaker 2 may take to create them."""
    refresh, _ = _refresh_of(o)
    at = round((now - refresh - _CREATION_SECONDS) * 1000)
    partitions = [tp for tp in o.source_starts if tp.topic in remote and remote[tp.topic] not in o.target.topics]
    first_newer = procedure.systems.source.offsets_at(dict.fromkeys(partitions, at)) if partitions else {}
    return {
        tp.topic
        for tp, offset in first_newer.items()
        if o.last.source_ends.get(tp, 0) > o.source_starts[tp] and (offset < 0 or offset > o.source_starts[tp])
    }


def _refresh_of(o: Observation) -> tuple[float, bool]:
    """Return how often MirrorMaker 2 looks for new topics, in seconds, and whether it does at all."""
    config = o.flow.source_config
    seconds = float(config.get("refresh.topics.interval.seconds", _REFRESH_SECONDS))
    return seconds, seconds > 0 and config.get("refresh.topics.enabled", "true").strip().lower() != "false"


def _why_impossible(name: str, existing: Collection[str]) -> str:
    if problem := topic_problem(name):
        return f"{name[:40]}: {problem}"
    # Kafka refuses a name that differs from another topic's only by dots and underscores: metrics mix them up.
    plain = name.replace(".", "_")
    alike = [other for other in existing if other != name and other.replace(".", "_") == plain]
    return f"{name} collides with the target's topic {alike[0]}" if alike else ""


def lagging_partitions(
    procedure: Run,
    o: Observation,
    lag: FlowLag,
    topics: Iterable[TopicFacts],
    rights: Mapping[str, MirrorMakerRights],
    tasks: Mapping[str, tuple[str, int]],
) -> list[LaggingPartition]:
    """Return the partitions of which records wait too long, or that stand still while the source's log grows.

    Args:
        tasks: partition, such as `orders-3` -> connector and task that copies it.
    """
    limit, lags = procedure.flow.readiness.record_age_seconds, {one.partition: one for one in lag.lagging}
    grown = {tp for tp, end in o.last.target_ends.items() if end > o.first.target_ends.get(tp, end)}
    # An unknown age is not taken for good, unless the copies are seen to come.
    late = {tp for tp, one in lags.items() if _age(lag, one) > limit or (one.since is None and tp not in grown)}
    wanted = sorted({*late, *standing_still(o.first, o.last), *_overtaken(o)})
    if not wanted:
        return []
    later = sample_ends(procedure, [*o.last.source_ends], o.target)
    moved = {tp for tp, end in later.target_ends.items() if end > o.first.target_ends.get(tp, end)}
    troubled = {
        topic.name for topic in topics if topic.remote_partitions is None or walk_tree(TOPIC_TREE.root, topic)[0]
    }
    broken = {topic.name for topic in topics if not topic.connector_works}
    # Their own copies are written to the source again, so that the lag never ends.
    circling = set(topics_in_circle(o))
    led = {f"{tp}" for cluster in (o.source, o.target) for tp in cluster.leaderless}
    names = sorted({tp.topic for tp in wanted})
    readable = rights["source"].allowed("read", "topic", names)
    busy_tasks = {tasks.get(str(tp)) for tp in moved}
    return [
        LaggingPartition(
            partition=str(tp),
            lag=_lag_text(lag, lags.get(tp)),
            task=" task ".join(map(str, tasks.get(str(tp), ()))),
            explained=tp.topic in troubled | broken | circling or str(tp) in led,
            lost=_overtaken(o).get(tp, ""),
            readable=_of(readable, tp.topic),
            moves=tp in moved,
            flow_moves=bool(moved),
            task_moves=str(tp) in tasks and tasks[str(tp)] in busy_tasks,
        )
        for tp in wanted
    ]


def topics_in_circle(o: Observation) -> list[str]:
    """Return the topics of one name on both clusters that both directions copy, while both run."""
    if o.reverse is None or o.naming_policy == "default":
        return []
    back, both = o.reverse.mirrors.selects, (o.flow, o.reverse)
    run = all(any(one.runs and one.tasks for one in flow.source_connectors) for flow in both)
    return [topic for topic, remote in o.scope.items() if run and topic == remote and back(topic)]


def _age(lag: FlowLag, one: PartitionLag) -> float:
    return 0.0 if one.since is None else lag.at - one.since / 1000


def _lag_text(lag: FlowLag, one: PartitionLag | None) -> str:
    if one is None:
        return "the source's log grew, the target's did not"
    return f"{one.records:,} records wait, the oldest for {format_duration(round(max(0.0, _age(lag, one))))}"


def _overtaken(o: Observation) -> dict[TopicPartition, str]:
    """Return partition -> what the source's retention deleted before it was copied."""
    return {
        tp: f"next offset to copy {last + 1}, first offset in the source's log {start}"
        for tp, start in o.source_starts.items()
        if (last := o.flow.replicated.get(tp)) is not None and last + 1 < start < o.last.source_ends.get(tp, start + 1)
    }
