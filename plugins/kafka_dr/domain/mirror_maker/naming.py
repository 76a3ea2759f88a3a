"""MirrorMaker 2's replication policies: from a topic's name on the source to its name on the target, and back.

A prefix counts as a source alias only if the topology has the alias: if no cluster is called `ho`, `ho.orders-eu.v1`
is an ordinary topic. MirrorMaker 2 itself takes everything before the first separator for an alias; docstrings say
where this difference matters.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from kafka_dr.errors import BadInput

HEARTBEATS = "heartbeats"
DEFAULT_SEPARATOR = "."
SOURCE, TOPIC = "<source>", "<topic>"
LONGEST_TOPIC = 249

#: MirrorMaker 2's own replication policy classes.
POLICY_CLASSES = {
    "identity": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "default": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
}

_ILLEGAL_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_JAVA_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*", re.ASCII)


@dataclass(frozen=True)
class NamingSpec:
    """How the topology file states a naming policy.

    Attributes:
        policy: MirrorMaker 2's Identity- or DefaultReplicationPolicy, or a custom policy class as a template.
        separator: `replication.policy.separator`, which also separates the parts of internal topics' names.
        internal_topic_separator: `replication.policy.internal.topic.separator.enabled`; if false, the parts of internal
            topics' names are separated by `.` whatever the separator is.
        template: only for policy `template`: text that contains `<source>` and `<topic>` once each, such as
            `replicated-<source>-<topic>`.
        policy_class: the custom class in `replication.policy.class`, whose names are those of policy `identity` or
            `template`; None: MirrorMaker 2's own class, or with `template` any custom class.
    """

    __pydantic_config__ = {"extra": "forbid"}

    policy: Literal["identity", "default", "template"]
    separator: str = DEFAULT_SEPARATOR
    internal_topic_separator: bool = True
    template: str | None = None
    policy_class: str | None = None


def topic_problem(name: str) -> str | None:
    """Return why Kafka would refuse a topic of this name; None if the name is legal."""
    if not name:
        return "the name is empty"
    if name in (".", ".."):
        return "`.` and `..` cannot be topic names"
    if len(name) > LONGEST_TOPIC:
        return f"the name has {len(name)} characters; Kafka allows {LONGEST_TOPIC}"
    illegal = _ILLEGAL_IN_TOPIC.search(name)
    return (
        f"{illegal.group()!a} is not allowed in a topic name; allowed: letters, digits, dot, hyphen, underscore"
        if illegal
        else None
    )


@dataclass(frozen=True)
class Naming(ABC):
    """Returns the names of mirrored and internal topics for the aliases of a topology; made by `naming_of`."""

    spec: NamingSpec
    aliases: tuple[str, ...]

    @abstractmethod
    def remote(self, source_alias: str, topic: str) -> str:
        """Return the name on the target of `topic`, mirrored from `source_alias`; BadInput for an unknown alias."""

    @abstractmethod
    def source_alias(self, topic: str) -> str | None:
        """Return the source alias in a mirrored topic's name; None if the name contains no alias of the topology."""

    @abstractmethod
    def upstream(self, topic: str) -> str | None:
        """Return a mirrored topic's name on the cluster that it was mirrored from; None if its name shows no source."""

    @property
    def heartbeats_topic(self) -> str:
        """The topic that the heartbeat connector writes to on its target; no policy or separator changes this name."""
        return HEARTBEATS

    def offset_syncs_topic(self, other_alias: str) -> str:
        """Return an offset-syncs topic's name; `other_alias`: the flow's cluster that does *not* host the topic."""
        between = self._internal_separator
        return f"mm2-offset-syncs{between}{self._checked(other_alias)}{between}internal"

    def checkpoints_topic(self, source_alias: str) -> str:
        """Return the name of the checkpoints topic on the target, the same for every policy."""
        return self._checked(source_alias) + self._checkpoints_suffix

    def is_checkpoints(self, topic: str) -> bool:
        """Whether MirrorMaker 2 treats a topic as a checkpoints topic, with whatever alias in its name."""
        return topic.endswith(self._checkpoints_suffix)

    def is_internal(self, topic: str) -> bool:
        """Whether a topic is internal to Kafka or MirrorMaker 2; MirrorMaker 2 from 4.0 on mirrors no such topic."""
        own = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return topic.startswith(("__", ".")) or own or self.is_checkpoints(topic)

    def is_heartbeats(self, topic: str) -> bool:
        """Whether MirrorMaker 2 treats a topic as a heartbeats topic, after any number of hops, with any aliases."""
        # not endswith: with separator `__`, the last part of `a___heartbeats` is `_heartbeats`
        return topic.rsplit(self.spec.separator, maxsplit=1)[-1] == HEARTBEATS

    def original(self, topic: str) -> str:
        """Return the topic's name on the cluster where its records were first written, by repeated `upstream`."""
        while (upstream := self.upstream(topic)) not in (None, topic):
            topic = upstream
        return topic

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether a topic was mirrored from `target_alias` at any hop: a flow to that cluster skips the topic."""
        hop: str | None = topic
        while hop is not None and (source := self.source_alias(hop)) is not None:
            if source == target_alias:
                return True
            hop = self.upstream(hop)
        return False

    @property
    def _internal_separator(self) -> str:
        return self.spec.separator if self.spec.internal_topic_separator else DEFAULT_SEPARATOR

    @property
    def _checkpoints_suffix(self) -> str:
        between = self._internal_separator
        return f"{between}checkpoints{between}internal"

    def _checked(self, alias: str) -> str:
        if alias in self.aliases:
            return alias
        raise BadInput(
            f"{alias!r} is not a cluster of the topology",
            next_step=f"write one of the topology's aliases instead: {', '.join(self.aliases)}",
        )


@dataclass(frozen=True)
class DefaultNaming(Naming):
    """DefaultReplicationPolicy: `<source alias><separator><topic>`; if several aliases fit, the longest counts."""

    def remote(self, source_alias: str, topic: str) -> str:
        """Return `<source alias><separator><topic>`."""
        return self._checked(source_alias) + self.spec.separator + topic

    def source_alias(self, topic: str) -> str | None:
        """Return the topology's longest alias that, with a separator, begins the name; None if no alias does."""
        prefixes = (alias for alias in self.aliases if topic.startswith(alias + self.spec.separator))
        alias = max(prefixes, key=len, default=None)
        return alias if alias and topic.removeprefix(alias).replace(self.spec.separator, "") else None

    def upstream(self, topic: str) -> str | None:
        """Return the name without its source alias and separator; None if the name has no alias of the topology."""
        alias = self.source_alias(topic)
        return None if alias is None else topic[len(alias + self.spec.separator) :]

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether MirrorMaker 2 detects a cycle, for which any prefix counts as an alias, in the topology or not."""
        parts = topic.split(self.spec.separator)
        while parts and not parts[-1]:  # Java's split drops empty parts at the end
            parts.pop()
        return target_alias in parts[:-1]


@dataclass(frozen=True)
class IdentityNaming(DefaultNaming):
    """IdentityReplicationPolicy keeps names, but topics that *end with* `heartbeats` get the default policy's names.

    MirrorMaker 2 makes this exception for all topics: an application's `device-heartbeats`, mirrored from `primary`,
    is `primary.device-heartbeats` on the target.
    """

    def remote(self, source_alias: str, topic: str) -> str:
        """Return the same name, or the default policy's name for a topic that ends with `heartbeats`."""
        renamed = super().remote(source_alias, topic)
        return renamed if topic.endswith(HEARTBEATS) else topic

    def source_alias(self, topic: str) -> str | None:
        """Return the alias in the name of a renamed heartbeats topic; None for any other topic, which has no prefix."""
        return super().source_alias(topic) if topic.endswith(HEARTBEATS) else None

    def upstream(self, topic: str) -> str | None:
        """Return the same name, or what the default policy returns for a topic that ends with `heartbeats`."""
        return super().upstream(topic) if topic.endswith(HEARTBEATS) else topic

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether a heartbeats topic came from `target_alias`; false for any other topic, which may therefore loop."""
        return topic.endswith(HEARTBEATS) and super().is_cycle(topic, target_alias)


@dataclass(frozen=True)
class TemplateNaming(Naming):
    """A custom policy class, described by a template such as `replicated-<source>-<topic>`."""

    def remote(self, source_alias: str, topic: str) -> str:
        """Return the template filled with alias and topic."""
        before, after = self._around(self._checked(source_alias))
        return before + topic + after

    def source_alias(self, topic: str) -> str | None:
        """Return the alias with which the template gives this name (at most one alias can); None if no alias does."""
        return next((alias for alias in self.aliases if self._strip(alias, topic)), None)

    def upstream(self, topic: str) -> str | None:
        """Return the part of the name that stands for the template's `<topic>`; None if the template does not fit."""
        return next(filter(None, (self._strip(alias, topic) for alias in self.aliases)), None)

    def is_internal(self, topic: str) -> bool:
        """Whether a topic is internal, which includes every name that ends with `.internal`.

        Custom policy classes usually keep that rule from the older ReplicationPolicy interface.
        """
        return super().is_internal(topic) or topic.endswith(".internal")

    def is_heartbeats(self, topic: str) -> bool:
        """Whether a topic is a heartbeats topic after any number of hops between aliases of the topology."""
        return self.original(topic) == HEARTBEATS

    def _around(self, alias: str) -> tuple[str, str]:
        before, after = self.spec.template.split(TOPIC)  # type: ignore[union-attr]  # policy `template` has one
        return before.replace(SOURCE, alias), after.replace(SOURCE, alias)

    def _strip(self, alias: str, topic: str) -> str | None:
        before, after = self._around(alias)
        fits = topic.startswith(before) and topic.endswith(after) and len(topic) > len(before + after)
        return topic[len(before) : len(topic) - len(after)] if fits else None


def naming_problems(spec: NamingSpec, aliases: Iterable[str]) -> list[str]:
    """Return reasons why a naming policy is unusable for these aliases; empty if the policy can be used.

    An alias that contains the default policy's separator is no problem for this module, but for MirrorMaker 2; the
    topology's checks refuse such an alias.
    """
    if not spec.separator or _ILLEGAL_IN_TOPIC.search(spec.separator):
        return [f"separator {spec.separator!a}: expected one or more letters, digits, dots, hyphens or underscores"]
    if (spec.policy == "template") != (spec.template is not None):
        return ["policy `template` needs the key `template`, and no other policy has this key"]
    if problem := _class_problem(spec):
        return [problem]
    return _template_problems(spec.template, sorted(aliases)) if spec.template is not None else []


def naming_of(spec: NamingSpec, aliases: Iterable[str]) -> Naming:
    """Return the naming for the clusters of a topology.

    Raises:
        BadInput: the policy cannot be used for these aliases; for an ambiguous template, the error shows two topics of
            different sources that would get one name.
    """
    sorted_aliases = tuple(sorted(aliases))
    if problems := naming_problems(spec, sorted_aliases):
        raise BadInput(
            "the naming policy cannot be used",
            seen="; ".join(problems),
            next_step="correct `naming` in the topology file",
        )
    kinds = {"identity": IdentityNaming, "default": DefaultNaming, "template": TemplateNaming}
    return kinds[spec.policy](spec, sorted_aliases)


def _class_problem(spec: NamingSpec) -> str | None:
    name = spec.policy_class
    if name is None:
        return None
    if not _JAVA_CLASS.fullmatch(name):
        return f"policy_class {name!a}: expected the full name of a Java class, such as com.example.DrPolicy"
    if name in POLICY_CLASSES.values():
        return f"policy_class {name!a} is MirrorMaker 2's own class; leave `policy_class` out"
    if spec.policy == "default":
        return (
            f"policy_class {name!a}: policy `default` relies on MirrorMaker 2's own class to stop loops; describe a"
            " custom class with policy `identity` if topics keep their names, else with `template`"
        )
    return None


def _template_problems(template: str, aliases: list[str]) -> list[str]:
    if template.count(SOURCE) != 1 or template.count(TOPIC) != 1:
        keeping = "a class that keeps all names is policy `identity` with `policy_class`"
        return [f"template {template!a}: the template must contain {SOURCE} once and {TOPIC} once; {keeping}"]
    if _ILLEGAL_IN_TOPIC.search(template.replace(SOURCE, "").replace(TOPIC, "")):
        return [
            f"template {template!a}: only letters, digits, dots, hyphens and underscores around {SOURCE} and {TOPIC}"
        ]
    return [text for pair in combinations(aliases, 2) if (text := _ambiguity(template, *pair))]


def _ambiguity(template: str, first: str, second: str) -> str | None:
    """Return a sentence if the template can give topics of two sources (aliases) the same name; None if it cannot."""
    spec = NamingSpec("template", template=template)
    naming = TemplateNaming(spec, (first, second))
    # With each alias, the template has a text before the topic (prefix) and one after it (suffix). Two aliases can give
    # equal names only if the prefix of one begins the other's prefix, and its suffix ends the other's suffix.
    for alias, other in ((first, second), (second, first)):
        (prefix, suffix), (longer_prefix, longer_suffix) = naming._around(alias), naming._around(other)  # noqa: SLF001
        if longer_prefix.startswith(prefix) and longer_suffix.endswith(suffix):
            name = naming.remote(other, "orders")
            return (
                f"template {template!a} is ambiguous: {name!a} is topic 'orders' of {other!a}"
                f" or topic {naming._strip(alias, name)!a} of {alias!a}"  # noqa: SLF001
            )
    return None
