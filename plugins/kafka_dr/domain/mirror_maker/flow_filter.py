"""Which topics a flow mirrors, and which of its source connectors mirrors a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.mirror_maker.patterns import TopicFilter, topic_filter_of


@dataclass(frozen=True)
class FlowFilter:
    """Selects the topics that a flow mirrors: those that the filter of any of its source connectors selects.

    Attributes:
        configs: source connector -> its configuration, which has its topic filter. Where no connector could be asked:
            one entry with the settings that the topology states.
        target: alias of the flow's target.
        version: the Connect worker's version, on which the filters' defaults depend; empty if unknown.
    """

    configs: Mapping[str, Mapping[str, str]]
    naming: Naming
    target: str
    version: str = ""

    @cached_property
    def _filters(self) -> dict[str, TopicFilter]:
        return {
            name: topic_filter_of(config, self.naming, self.target, self.version)
            for name, config in self.configs.items()
        }

    def selects(self, name: str) -> bool:
        """Whether the flow mirrors the topic; each source connector mirrors topics of heartbeats besides its own."""
        return any(one.selects(name) for one in self._filters.values())

    def connectors_of(self, topic: str) -> tuple[str, ...]:
        """Return the source connectors in which an offset of the topic counts, and is to be seeded.

        These are the connectors that mirror the topic. If none does, these are all: whichever mirrors the topic later
        must not begin at the log start.
        """
        if len(self.configs) == 1:
            return tuple(self.configs)
        return tuple(name for name, one in self._filters.items() if one.selects(topic)) or tuple(self.configs)

    def connectors_with(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the source connectors that mirror one of the flow's topics; the others have no tasks, and need none.

        Args:
            topics: topics that the flow mirrors.
        """
        return frozenset(name for topic in topics for name in self.connectors_of(topic))

    def mirrored_twice(self, topics: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
        """Return source connectors -> the topics that all of them mirror; heartbeats are left out."""
        shared: dict[tuple[str, ...], list[str]] = {}
        for topic in sorted(topics) if len(self.configs) > 1 else ():
            if self.selects(topic) and not self.naming.is_heartbeats(topic):
                shared.setdefault(self.connectors_of(topic), []).append(topic)
        return {names: found for names, found in shared.items() if len(names) > 1}
