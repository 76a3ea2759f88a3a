"""Readiness checks that compare settings of topics between source and target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_dr.domain.mirror_maker.patterns import list_items
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.vocabulary import STATE_TOPICS

_POLICY = "cleanup.policy"
#: Kafka's own defaults, for settings that a broker does not report.
_DEFAULTS = {
    _POLICY: "delete",
    "max.message.bytes": "1048588",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
}
#: The cleanup policy under which a setting matters; the others always matter.
_MATTERS_UNDER = {"retention.ms": "delete", "retention.bytes": "delete", "delete.retention.ms": "compact"}


def partitions_led(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each cluster on which partitions that the procedure needs have no leader.

    These are partitions of the topics that move, under every name, of MirrorMaker 2's own topics, and of Kafka's topics
    with the states of groups and transactions.
    """
    moved = {*o.scope, *o.scope.values(), *o.copies, *o.copies.values(), *STATE_TOPICS}
    for cluster in (o.source, o.target):
        needed = [tp for tp in cluster.leaderless if tp.topic in moved or o.flow.mirrors.naming.is_internal(tp.topic)]
        if needed:
            yield Blocker(
                "partitions_led",
                f"Partitions of {cluster.alias} have no leader",
                first_few(needed, MOST_LISTED),
                f"Start the brokers of {cluster.alias} that hold replicas of these partitions. The procedure cannot"
                " read these partitions, and clients cannot use them. If the brokers of the source do not come back,"
                " unplanned_failover moves the clients without the records that only they hold.",
            )


def durability_kept(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each topic with fewer replicas or a lower min.insync.replicas on the target."""
    for topic, remote in sorted(o.scope.items()):
        on_source, on_target = o.source.topics[topic], o.target.topics.get(remote)
        if on_target is None:
            continue
        if on_target.replicas < on_source.replicas:
            yield Blocker(
                "durability_kept",
                f"{remote} on the target has fewer replicas than {topic} on the source",
                f"{on_target.replicas} on the target, {on_source.replicas} on the source",
                "Raise the target topic's replication factor.",
            )
        source_isr, target_isr = (int(view.configs.get("min.insync.replicas", 1)) for view in (on_source, on_target))
        if target_isr < source_isr:
            yield Blocker(
                "durability_kept",
                f"{remote} on the target has a lower min.insync.replicas than {topic} on the source",
                f"{target_isr} on the target, {source_isr} on the source",
                "Raise min.insync.replicas on the target topic.",
            )


def target_keeps_as_much(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each setting by which topics on the target keep less, or take smaller messages.

    Compared are the topics that clients will use: the mirrored topic and, if it has another name and the target has it
    already, the topic of the source's own name. Larger values on the target are fine.
    """
    for key in _DEFAULTS:
        worse = [
            f"{topic} {source_value} on {o.source.alias}, {name} {target_value} on {o.target.alias}"
            for topic, name in sorted({*o.scope.items(), *zip(o.scope, o.scope, strict=True)})
            if name in o.target.topics
            for source, target in [(o.source.topics[topic].configs, o.target.topics[name].configs)]
            for source_value, target_value in [(_value(source, key), _value(target, key))]
            if _is_worse(key, source, source_value, target_value)
        ]
        if worse:
            yield Blocker(
                "target_keeps_as_much",
                f"{key} of topics on the target differs from the source's"
                if key == _POLICY
                else f"{key} of topics is lower on the target than on the source",
                first_few(worse, MOST_LISTED, separator="; "),
                f"Set {key} explicitly on the source's topics, and wait until MirrorMaker 2 has copied it (10 minutes"
                " by default); it copies no default of the source's brokers. Where it copies no settings to a topic of"
                f" the target, set {key} there yourself{'' if key == _POLICY else '; there it may be higher, too'}.",
            )


def _value(configs: Mapping[str, str], key: str) -> str:
    return configs.get(key, _DEFAULTS[key])


def _is_worse(key: str, source: Mapping[str, str], source_value: str, target_value: str) -> bool:
    """Whether a topic with the target's value keeps less than one with the source's, or has another cleanup policy."""
    if key == _POLICY:
        return set(list_items(source_value)) != set(list_items(target_value))
    if _MATTERS_UNDER.get(key, "") not in _value(source, _POLICY):
        return False
    return _amount(target_value) < _amount(source_value)


def _amount(value: str) -> float:
    """Return a setting as a number; a negative one means without limit."""
    return float("inf") if int(value) < 0 else int(value)
