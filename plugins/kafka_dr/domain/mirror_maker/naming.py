"""What a topic is called on the other cluster, and the way back: MirrorMaker 2's replication policies.

A prefix counts as a source alias only when the topology knows that alias, so `ho.orders-eu.v1` stays an ordinary topic.
MirrorMaker 2 itself takes everything before the first separator for an alias; where that difference matters the
docstring says so.
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

_ILLEGAL_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class NamingSpec:
    """How the topology file states a naming policy.

    Attributes:
        policy: MirrorMaker 2's Identity- or DefaultReplicationPolicy, or a policy class of one's own as a template.
        separator: `replication.policy.separator`; it also parts the internal topics' names.
        internal_topic_separator: `replication.policy.internal.topic.separator.enabled`; false keeps `.` in internal
            names.
        template: for policy `template`: text with `<source>` and `<topic>` once each, such as
            `replicated-<source>-<topic>`.
    """

    __pydantic_config__ = {"extra": "forbid"}

    policy: Literal["identity", "default", "template"]
    separator: str = DEFAULT_SEPARATOR
    internal_topic_separator: bool = True
    template: str | None = None


def topic_problem(name: str) -> str | None:
    """Says why Kafka would refuse a topic of this name; None when it is legal."""
    if not name:
        return "the name is empty"
    if name in (".", ".."):
        return "`.` and `..` cannot be topic names"
    if len(name) > LONGEST_TOPIC:
        return f"the name has {len(name)} characters; Kafka allows {LONGEST_TOPIC}"
    illegal = _ILLEGAL_IN_TOPIC.search(name)
    return (
        f"{illegal.group()!a} cannot stand in a topic name; letters, digits, dot, hyphen, underscore can"
        if illegal
        else None
    )


@dataclass(frozen=True)
class Naming(ABC):
    """Names of mirrored and internal topics for a set of known aliases; `naming_of` makes one."""

    spec: NamingSpec
    aliases: tuple[str, ...]

    @abstractmethod
    def remote(self, source_alias: str, topic: str) -> str:
        """Name the target's copy of `topic` mirrored from `source_alias`; raises BadInput for an unknown alias."""

    @abstractmethod
    def source_alias(self, topic: str) -> str | None:
        """Gives the known alias that a mirrored topic's name states; None when the name states none."""

    @abstractmethod
    def upstream(self, topic: str) -> str | None:
        """Gives a mirrored topic's name on its source, one hop back; None for a topic that names no source."""

    @property
    def heartbeats_topic(self) -> str:
        """The heartbeat connector's topic on its own target; no separator and no policy changes this name."""
        return HEARTBEATS

    def offset_syncs_topic(self, other_alias: str) -> str:
        """Names the offset-syncs topic; it carries the alias of the cluster it does *not* live on."""
        between = self._internal_separator
        return f"mm2-offset-syncs{between}{self._known(other_alias)}{between}internal"

    def checkpoints_topic(self, source_alias: str) -> str:
        """Names the checkpoints topic, which lives on the target; identity naming does not change it."""
        return self._known(source_alias) + self._checkpoints_suffix

    def is_checkpoints(self, topic: str) -> bool:
        """Tells a checkpoints topic, of any alias, as MirrorMaker 2 does."""
        return topic.endswith(self._checkpoints_suffix)

    def is_internal(self, topic: str) -> bool:
        """Tells a topic that MirrorMaker 2 (4.0 and later) never mirrors: Kafka's own and its own."""
        own = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return topic.startswith(("__", ".")) or own or self.is_checkpoints(topic)

    def is_heartbeats(self, topic: str) -> bool:
        """Tell a heartbeats topic after any number of hops, with unknown aliases too, as MirrorMaker 2 does."""
        # not endswith: with separator `__`, the last part of `a___heartbeats` is `_heartbeats`
        return topic.rsplit(self.spec.separator, maxsplit=1)[-1] == HEARTBEATS

    def original(self, topic: str) -> str:
        """Follows `upstream` to the name the records were first written under."""
        while (upstream := self.upstream(topic)) not in (None, topic):
            topic = upstream
        return topic

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Tells whether a topic came from `target_alias`, at any hop, so that a flow to it leaves the topic out."""
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

    def _known(self, alias: str) -> str:
        if alias in self.aliases:
            return alias
        raise BadInput(
            f"{alias!r} is not a cluster of the topology", next_step=f"use one of: {', '.join(self.aliases)}"
        )


@dataclass(frozen=True)
class DefaultNaming(Naming):
    """DefaultReplicationPolicy: `<source alias><separator><topic>`; of several known aliases that fit, the longest."""

    def remote(self, source_alias: str, topic: str) -> str:
        """Gives `<source alias><separator><topic>`."""
        return self._known(source_alias) + self.spec.separator + topic

    def source_alias(self, topic: str) -> str | None:
        """Gives the longest known alias that stands before a separator and a rest of more than separators."""
        prefixes = (alias for alias in self.aliases if topic.startswith(alias + self.spec.separator))
        alias = max(prefixes, key=len, default=None)
        return alias if alias and topic.removeprefix(alias).replace(self.spec.separator, "") else None

    def upstream(self, topic: str) -> str | None:
        """Gives what follows the alias and the separator."""
        alias = self.source_alias(topic)
        return None if alias is None else topic[len(alias + self.spec.separator) :]

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Tells a cycle as MirrorMaker 2 does, which skips over prefixes that are no alias of ours."""
        parts = topic.split(self.spec.separator)
        while parts and not parts[-1]:  # Java's split drops empty parts at the end
            parts.pop()
        return target_alias in parts[:-1]


@dataclass(frozen=True)
class IdentityNaming(DefaultNaming):
    """IdentityReplicationPolicy: keeps names, but renames what *ends with* `heartbeats` as the default does.

    That exception is MirrorMaker 2's own: a user's `device-heartbeats` arrives as `primary.device-heartbeats`.
    """

    def remote(self, source_alias: str, topic: str) -> str:
        """Gives the topic itself, or the default policy's name for one that ends with `heartbeats`."""
        renamed = super().remote(source_alias, topic)
        return renamed if topic.endswith(HEARTBEATS) else topic

    def source_alias(self, topic: str) -> str | None:
        """Gives an alias for renamed heartbeats only: no other name says where its records came from."""
        return super().source_alias(topic) if topic.endswith(HEARTBEATS) else None

    def upstream(self, topic: str) -> str | None:
        """Gives the topic itself, or the default policy's answer for one that ends with `heartbeats`."""
        return super().upstream(topic) if topic.endswith(HEARTBEATS) else topic

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Tells a cycle of renamed heartbeats; ordinary topics have no loop protection at all."""
        return topic.endswith(HEARTBEATS) and super().is_cycle(topic, target_alias)


@dataclass(frozen=True)
class TemplateNaming(Naming):
    """A policy class of one's own, described by a template such as `replicated-<source>-<topic>`."""

    def remote(self, source_alias: str, topic: str) -> str:
        """Fills the template."""
        before, after = self._around(self._known(source_alias))
        return before + topic + after

    def source_alias(self, topic: str) -> str | None:
        """Gives the known alias with which the template yields this name; there is at most one."""
        return next((alias for alias in self.aliases if self._strip(alias, topic)), None)

    def upstream(self, topic: str) -> str | None:
        """Gives what stands in the place of `<topic>`."""
        return next(filter(None, (self._strip(alias, topic) for alias in self.aliases)), None)

    def is_internal(self, topic: str) -> bool:
        """Add what such policy classes usually keep from the older interface: every name ending with `.internal`."""
        return super().is_internal(topic) or topic.endswith(".internal")

    def is_heartbeats(self, topic: str) -> bool:
        """Tells a heartbeats topic after any number of hops between known aliases."""
        return self.original(topic) == HEARTBEATS

    def _around(self, alias: str) -> tuple[str, str]:
        before, after = self.spec.template.split(TOPIC)  # type: ignore[union-attr]  # policy `template` has one
        return before.replace(SOURCE, alias), after.replace(SOURCE, alias)

    def _strip(self, alias: str, topic: str) -> str | None:
        before, after = self._around(alias)
        fits = topic.startswith(before) and topic.endswith(after) and len(topic) > len(before + after)
        return topic[len(before) : len(topic) - len(after)] if fits else None


def naming_problems(spec: NamingSpec, aliases: Iterable[str]) -> list[str]:
    """Lists what makes a naming policy unusable for these aliases; empty when it can be used.

    Aliases that contain the default policy's separator are left to the topology's checks: parsing copes with them,
    MirrorMaker 2 does not.
    """
    if not spec.separator or _ILLEGAL_IN_TOPIC.search(spec.separator):
        return [f"separator {spec.separator!a}: one or more letters, digits, dots, hyphens or underscores"]
    if (spec.policy == "template") != (spec.template is not None):
        return ["policy `template` needs `template`, and no other policy takes one"]
    return _template_problems(spec.template, sorted(aliases)) if spec.template is not None else []


def naming_of(spec: NamingSpec, aliases: Iterable[str]) -> Naming:
    """Makes the naming for the clusters of a topology.

    Raises:
        BadInput: the policy cannot be used for these aliases; the text names, for an ambiguous template, both readings.
    """
    known = tuple(sorted(aliases))
    if problems := naming_problems(spec, known):
        raise BadInput(
            "the naming policy cannot be used",
            seen="; ".join(problems),
            next_step="correct `naming` in the topology file",
        )
    kinds = {"identity": IdentityNaming, "default": DefaultNaming, "template": TemplateNaming}
    return kinds[spec.policy](spec, known)


def _template_problems(template: str, aliases: list[str]) -> list[str]:
    if template.count(SOURCE) != 1 or template.count(TOPIC) != 1:
        return [f"template {template!a}: {SOURCE} and {TOPIC} must each stand in it once"]
    if _ILLEGAL_IN_TOPIC.search(template.replace(SOURCE, "").replace(TOPIC, "")):
        return [
            f"template {template!a}: only letters, digits, dots, hyphens and underscores around {SOURCE} and {TOPIC}"
        ]
    return [text for pair in combinations(aliases, 2) if (text := _two_readings(template, *pair))]


def _two_readings(template: str, one: str, other: str) -> str | None:
    """Finds a name that the template gives to a topic of `one` and to another topic of `other`, if there is any."""
    spec = NamingSpec("template", template=template)
    naming = TemplateNaming(spec, (one, other))
    # Two names can only be equal if what surrounds one topic is the beginning and the end of what surrounds the other.
    for alias, other_alias in ((one, other), (other, one)):
        (before, after), (longer_before, longer_after) = naming._around(alias), naming._around(other_alias)  # noqa: SLF001
        if longer_before.startswith(before) and longer_after.endswith(after):
            name = naming.remote(other_alias, "orders")
            return (
                f"template {template!a} is ambiguous: {name!a} is topic 'orders' of {other_alias!a}"
                f" or topic {naming._strip(alias, name)!a} of {alias!a}"  # noqa: SLF001
            )
    return None
