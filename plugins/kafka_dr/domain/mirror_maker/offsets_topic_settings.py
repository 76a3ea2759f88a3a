"""Where a flow without a Connect worker's REST API stores offsets, by the settings of its workers or processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_dr.domain.mirror_maker.naming import topic_problem

_TOPIC, _GROUP = "offset.storage.topic", "group.id"
_PARTITIONS, _REPLICAS = "offset.storage.partitions", "offset.storage.replication.factor"
_DEFAULT_PARTITIONS = 25


@dataclass(frozen=True)
class OffsetsTopicSettings:
    """The offsets topic of one flow, on its target.

    Attributes:
        name: the topic.
        group: the group whose members are the flow's processes; None if its id is unknown.
        may_create: whether a missing topic may be created: its name is dedicated mode's own, which no typing error
            makes, and no process of the flow has ever run if the topics `beside` are missing, too.
        partitions: of a topic that is created.
        replicas: replication factor of a topic that is created; None: not stated.
        beside: topics that the first process of dedicated mode creates together with this one.
    """

    name: str
    group: str | None
    may_create: bool
    partitions: int = _DEFAULT_PARTITIONS
    replicas: int | None = None
    beside: tuple[str, ...] = ()


def offsets_topic_settings(source: str, settings: Mapping[str, str]) -> OffsetsTopicSettings:
    """Return where the offsets of the flow from `source` are stored; what is not stated is as in dedicated mode.

    Beside another topic than dedicated mode's own, no group is guessed: a group without members would seem to prove
    that no process runs.

    Args:
        source: the alias of the flow's source.
        settings: those of the flow's workers or processes, by Connect's names.

    Raises:
        ValueError: a setting cannot be used; the text names it.
    """
    stated = settings.get(_TOPIC)
    if problem := topic_problem("any" if stated is None else stated):
        raise ValueError(f"{_TOPIC}: {problem}")
    if not settings.get(_GROUP, "any").strip():
        raise ValueError(f"{_GROUP} is empty; leave it out if the id of the worker group is unknown")
    numbers = {key: settings[key].strip() for key in (_PARTITIONS, _REPLICAS) if key in settings}
    for key, number in numbers.items():
        if not (number.isascii() and number.isdigit() and int(number)):
            raise ValueError(f"{key} is no whole number of 1 or more")
    return OffsetsTopicSettings(
        name=stated or f"mm2-offsets.{source}.internal",
        group=settings.get(_GROUP, None if stated else f"{source}-mm2"),
        may_create=stated is None,
        partitions=int(numbers.get(_PARTITIONS, _DEFAULT_PARTITIONS)),
        replicas=int(numbers[_REPLICAS]) if _REPLICAS in numbers else None,
        beside=(f"mm2-configs.{source}.internal", f"mm2-status.{source}.internal"),
    )
