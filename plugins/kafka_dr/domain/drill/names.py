"""The names of everything that a drill makes or changes on the real clusters, each computed from the drill's id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from kafka_dr.domain.mirror_maker.naming import Naming, NamingSpec, naming_of, topic_problem
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.errors import BadInput

#: In every name that a drill makes.
DRILL = "switchback-drill"
#: `replication.policy.separator` of a drill's flows, by which their internal topics differ from production's.
SEPARATOR = f".{DRILL}."
_SHORT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class DrillNames:
    """Names of one drill.

    Attributes:
        drill_id: the id of the drill's procedure.
    """

    drill_id: str

    @cached_property
    def short(self) -> str:
        """The id in the drill's names: ten hexadecimal digits."""
        return short_id(self.drill_id)

    def topic(self, name: str) -> str:
        """Return the topic with this short name; its ending is in MirrorMaker 2's default of `topics.exclude`."""
        return f"{self._begin}.{_checked(name)}.replica"

    def group(self, name: str) -> str:
        """Return the group with this short name; its beginning is in MirrorMaker 2's default of `groups.exclude`."""
        return f"__{self._begin}.{_checked(name)}"

    def transactional_id(self, name: str) -> str:
        """Return the transactional id with this short name."""
        return self.group(name)

    def source_connector(self, source: str, target: str) -> str:
        """Return the name of the source connector of the drill's flow between two clusters."""
        return f"{self._begin}.{source}-{target}.source"

    def checkpoint_connector(self, source: str, target: str) -> str:
        """Return the name of the checkpoint connector of the drill's flow between two clusters."""
        return f"{self._begin}.{source}-{target}.checkpoint"

    @cached_property
    def own(self) -> OwnNames:
        """Names of Switchback's own topics, connector and transactional ids in the drill."""
        return OwnNames(
            probe=self.topic("probe"),
            canary=self.topic("canary"),
            progress=self.topic("replayed"),
            exempt_topic=self.topic("exempt-canary"),
            exempt_connector=f"{self._begin}.exempt-canary",
            check=self.transactional_id("check"),
            replay=self.transactional_id("replay"),
        )

    @property
    def _begin(self) -> str:
        return f"{DRILL}.{self.short}"


def short_id(drill_id: str) -> str:
    """Return the id that stands in a drill's names; BadInput without a drill's id."""
    if not drill_id:
        raise BadInput(
            "a drill's names need the drill's id", "the id is empty", "report this as a defect of Switchback"
        )
    return sha256(drill_id.encode()).hexdigest()[:10]


def drill_naming(production: NamingSpec, aliases: Iterable[str]) -> Naming:
    """Return the naming of a drill's flows: production's policy, with the separator of drills."""
    return naming_of(replace(production, separator=SEPARATOR, internal_topic_separator=True), aliases)


def internal_topics(naming: Naming, aliases: Iterable[str]) -> frozenset[str]:
    """Return MirrorMaker 2's topics of the flows between clusters: offset syncs on either cluster, and checkpoints.

    All drills between these clusters share these topics.
    """
    makers = (naming.offset_syncs_topic, naming.checkpoints_topic)
    return frozenset(make(alias) for alias in aliases for make in makers)


def mirrored_topics(naming: Naming, aliases: Iterable[str], topics: Iterable[str]) -> frozenset[str]:
    """Return the names that these topics have where they are mirrored to, from each of the clusters."""
    mirrored = frozenset(naming.remote(alias, topic) for topic in topics for alias in aliases)
    if problems := sorted(f"{name}: {problem}" for name in mirrored if (problem := topic_problem(name))):
        raise BadInput(
            "a drill's topics cannot be mirrored", "; ".join(problems), "shorten the aliases in the topology"
        )
    return mirrored


def _checked(name: str) -> str:
    if not _SHORT_NAME.fullmatch(name):
        raise BadInput(
            "a short name in a drill has letters, digits, hyphens and underscores",
            repr(name),
            "report this message as a defect of Switchback",
        )
    return name
