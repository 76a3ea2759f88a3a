"""Whether connectors of production would take up what a drill makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, pattern_list, topic_filter_of
from kafka_dr.errors import BadInput

#: The one exclusion that keeps MirrorMaker 2's flows from everything that a drill makes.
EXCLUSION = r".*switchback-drill.*"
_SOURCE, _CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"


class TakenUp(NamedTuple):
    """A connector that would mirror or read a topic, or write checkpoints of a group, of a drill."""

    connector: str
    worker: str
    name: str

    def __str__(self) -> str:
        return f"{self.connector} in {self.worker} would take up {self.name}"


def taken_up(
    configs: Mapping[tuple[str, str], Mapping[str, str]],
    naming: Naming,
    version: str,
    topics: Iterable[str],
    groups: Iterable[str],
) -> list[TakenUp]:
    """Return the first name that each connector of production would take up, if it would take up any.

    Args:
        configs: (worker, connector) -> its configuration; of all connectors, whatever they do.
        naming: of production.
        version: of the Connect workers, on which the filters' defaults depend.
        topics: names of all topics that a drill makes, on either cluster, internal ones included.
        groups: names of all groups that a drill makes.
    """
    topics, groups, found = sorted(topics), sorted(groups), []
    for (worker, name), config in sorted(configs.items()):
        kind = config.get("connector.class", "").rpartition(".")[2]
        if kind == _SOURCE:
            taken = _mirrored(config, naming, version, topics)
        elif kind == _CHECKPOINT:
            taken = _checkpointed(config, groups)
        else:
            taken = _consumed(config, topics)
        if taken is not None:
            found.append(TakenUp(name, worker, taken))
    return found


def _mirrored(config: Mapping[str, str], naming: Naming, version: str, topics: list[str]) -> str | None:
    chosen = topic_filter_of(config, naming, config.get("target.cluster.alias", ""), version)
    return next((topic for topic in topics if chosen.selects(topic)), None)


def _checkpointed(config: Mapping[str, str], groups: list[str]) -> str | None:
    chosen = group_filter_of(config)
    return next((group for group in groups if chosen.selects(group)), None)


def _consumed(config: Mapping[str, str], topics: list[str]) -> str | None:
    """Return the first topic that a sink connector's `topics.regex` matches; any, if the expression is unreadable."""
    if not (regex := config.get("topics.regex", "")):
        return None
    try:
        wanted = pattern_list(regex, "topic")
    except BadInput:
        return topics[0]
    return next((topic for topic in topics if wanted.matches(topic)), None)
