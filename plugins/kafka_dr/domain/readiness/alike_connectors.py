"""Readiness checks of a flow's connectors against each other, and against those that the topology names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kafka_dr.domain.mirror_maker.patterns import PATTERN_KEYS, group_filter_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker
from kafka_dr.domain.readiness.observation import ConnectorView, FlowView, Observation

_LOCATION = "offset-syncs.topic.location"


def topics_mirrored_once(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for source connectors of one flow that mirror the same topics, which doubles their records."""
    for flow, topics in [(f, c.topics) for f, c in ((o.flow, o.source), (o.reverse, o.target)) if f is not None]:
        for connectors, mirrored in flow.mirrors.mirrored_twice(topics).items():
            yield Blocker(
                "topics_mirrored_once",
                f"Several source connectors of {flow.source}->{flow.target} mirror the same topics",
                f"the topic filters of {' and '.join(connectors)} select, on {flow.source}:"
                f" {first_few(mirrored, MOST_LISTED)}",
                "Correct `topics` or `topics.exclude` of these connectors, so that one connector mirrors each topic:"
                " each of them copies all records.",
            )


def stated_topics_agree(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if the topology's topic filter selects other topics than several source connectors together.

    The filter of a lone source connector is compared with the topology's by `stated_settings_agree`.
    """
    for flow, topics in [(f, c.topics) for f, c in ((o.flow, o.source), (o.reverse, o.target)) if f is not None]:
        if len(flow.source_connectors) < 2 or not any(PATTERN_KEYS.get(key) == "topic" for key in flow.stated):
            continue
        stated = replace(flow.mirrors, configs={"topology": flow.stated})
        differing = sorted(topic for topic in topics if stated.selects(topic) != flow.mirrors.selects(topic))
        if differing:
            yield Blocker(
                "stated_topics_agree",
                f"The topology's topic filter of {flow.source}->{flow.target} and its connectors' filters differ",
                f"topics on {flow.source} that one selects and the other does not: {first_few(differing, MOST_LISTED)}",
                "Correct `topics` or `topics.exclude` under `mirror_maker` of the flow in the topology, so that it"
                " selects what the source connectors mirror together, or remove it there.",
            )


def connectors_named(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each connector that works on a flow's topics or groups unknown to the topology.

    No procedure stops such a connector: it would go on copying, or write group positions over those that a procedure
    has committed.
    """
    for flow, topics in [(f, c.topics) for f, c in ((o.flow, o.source), (o.reverse, o.target)) if f is not None]:
        for connector in [one for one in flow.unnamed if not one.stopped]:
            if work := _work_of(connector, flow, topics, o.groups):
                yield Blocker(
                    "connectors_named",
                    f"A connector of {flow.source}->{flow.target} is not named in the topology",
                    f"{connector.name} is {connector.state}, and {work}",
                    "Delete this connector, or have it STOPPED, or name it under `connectors` of the flow in the"
                    " topology: Switchback stops only connectors that the topology names.",
                )


def _work_of(connector: ConnectorView, flow: FlowView, topics: Iterable[str], groups: Iterable[str]) -> str:
    """Return what a connector does that the flow's own connectors do, too; "" if nothing."""
    config = connector.config
    if config.get("connector.class", "").endswith("MirrorSourceConnector"):
        own = replace(flow.mirrors, configs={connector.name: config})
        shared = [
            topic
            for topic in sorted(topics)
            if own.selects(topic) and flow.mirrors.selects(topic) and not own.naming.is_heartbeats(topic)
        ]
        return f"copies {first_few(shared, MOST_LISTED)}" if shared else ""
    if config.get("sync.group.offsets.enabled", "false").strip().lower() != "true":
        return ""
    written = list(filter(group_filter_of(config).selects, sorted(groups)))
    return f"writes positions of {first_few(written, MOST_LISTED)}" if written else ""


def connectors_agree(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker for each setting in which the source connectors of a flow must not differ, but do."""
    for flow in [f for f in (o.flow, o.reverse) if f is not None]:
        stated = {c.name: (isolation_of(c.config), c.config.get(_LOCATION, "source")) for c in flow.source_connectors}
        for n, key in enumerate(("source.consumer.isolation.level", _LOCATION)):
            if len({values[n] for values in stated.values()}) > 1:
                yield Blocker(
                    "connectors_agree",
                    f"Source connectors of {flow.source}->{flow.target} differ in {key}",
                    "; ".join(f"{name}: {values[n]}" for name, values in stated.items()),
                    f"Set {key} to the same value in all source connectors of the flow.",
                )


def isolation_of(config: Mapping[str, str]) -> str:
    """Return the isolation level with which a source connector of this configuration reads the source."""
    return config.get("source.consumer.isolation.level") or config.get("consumer.isolation.level") or "read_uncommitted"
