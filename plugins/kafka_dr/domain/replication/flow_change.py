"""A change of a flow: the new settings of its connectors, and what each pattern does to the names that exist.

A pattern is added to `topics` or `groups`, and removed from the list of excluded names if it stands there. A pattern is
removed from `topics` or `groups` if it stands there, and added to the list of excluded names, so that no name that it
matches is mirrored, whatever is created later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_dr.domain.kafka_model.kafka_version import kafka_version
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.mirror_maker.patterns import ALL, GROUPS_EXCLUDE, TOPICS_EXCLUDE, Kind, list_items, pattern_list
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.replication.tuning import ConnectorKind, settings_for

#: Names that Connect's own topics usually have; its REST API does not state them.
_CONNECT_TOPIC = re.compile(r"(?i).*connect.*[._-](configs?|offsets?|status(es)?)")
_OWN_TOPIC = re.compile(r"switchback-(canary|drill).*")
_TOPICS_EXCLUDE_BEFORE_4_0 = r".*[\-\.]internal, .*\.replica, __.*"
_EXCLUDE_KEYS: Mapping[Kind, tuple[str, str]] = {
    "topic": ("topics.exclude", "topics.blacklist"),
    "group": ("groups.exclude", "groups.blacklist"),
}
_SHOWN = 12


@dataclass(frozen=True)
class RequestedChange:
    """What a person asks to change in a flow.

    Attributes:
        add, remove: patterns by kind of names.
        settings: setting -> new value; "" removes the setting.
        connector: the source connector whose topics and settings change; None: the only one, settings in all.
        names_to_come: whether a pattern may change nothing for the names that exist now.
        skip_interval: whether records written while a topic was excluded are skipped when it is included again.
    """

    add: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    remove: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    connector: str | None = None
    names_to_come: bool = False
    skip_interval: bool = False

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> RequestedChange:
        """Return the change that a run's params ask for."""
        kinds: tuple[Kind, Kind] = ("topic", "group")
        lists = {
            verb: {kind: list_items(choices.get(f"{verb}_{kind}s", "")) for kind in kinds} for verb in ("add", "remove")
        }
        return cls(
            add=lists["add"],
            remove=lists["remove"],
            settings=dict(choices.get("settings", {})),
            connector=choices.get("connector"),
            names_to_come=bool(choices.get("names_to_come", False)),
            skip_interval=choices.get("excluded_interval") == "skip",
        )

    def patterns(self, kind: Kind) -> list[tuple[str, bool]]:
        """Return each pattern of a kind of names with whether it is added."""
        return [(one, True) for one in self.add.get(kind, ())] + [(one, False) for one in self.remove.get(kind, ())]


def changed_config(
    change: RequestedChange, kind: ConnectorKind, config: Mapping[str, str], version: str, with_topics: bool = True
) -> dict[str, str | None]:
    """Return the settings of a connector that change: setting -> new value, None if it is removed.

    Args:
        kind: the connector's kind. A checkpoint connector has topics of its own, and checkpoints no others.
        version: the worker's version, on which defaults depend.
        with_topics: whether the change concerns this connector's topics.
    """
    wanted = settings_for(kind, change.settings)
    kinds: list[Kind] = [*(["topic"] if with_topics else []), *(["group"] if kind is ConnectorKind.CHECKPOINT else [])]  # type: ignore[list-item]  # literals
    for names in kinds:
        wanted |= _changed_lists(change, names, config, version)
    return {key: value for key, value in wanted.items() if config.get(key) != value}


def _changed_lists(
    change: RequestedChange, kind: Kind, config: Mapping[str, str], version: str
) -> dict[str, str | None]:
    patterns = change.patterns(kind)
    if not patterns:
        return {}
    include_key, exclude_key = f"{kind}s", next((k for k in _EXCLUDE_KEYS[kind] if k in config), _EXCLUDE_KEYS[kind][0])
    include = list(list_items(config.get(include_key, ALL)))
    exclude = list(list_items(config.get(exclude_key, _default_exclude(kind, version))))
    for pattern, is_added in patterns:
        if is_added:
            exclude = [one for one in exclude if one != pattern]
            include += [] if pattern in include or ALL in include else [pattern]
        else:
            include = [one for one in include if one != pattern] or include
            exclude += [] if pattern in exclude else [pattern]
    # A list that means the same keeps its text.
    changed: dict[str, str | None] = {}
    if tuple(include) != list_items(config.get(include_key, ALL)):
        changed[include_key] = ",".join(include)
    if tuple(exclude) != list_items(config.get(exclude_key, _default_exclude(kind, version))):
        changed[exclude_key] = ",".join(exclude)
    return changed


def _default_exclude(kind: Kind, version: str) -> str:
    if kind == "group":
        return GROUPS_EXCLUDE
    return _TOPICS_EXCLUDE_BEFORE_4_0 if (kafka_version(version) or (4, 0)) < (4, 0) else TOPICS_EXCLUDE


def with_changes(config: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration with changed settings; None removes a setting."""
    return {key: value for key, value in {**config, **changes}.items() if value is not None}


def is_internal_topic(naming: Naming, topic: str) -> bool:
    """Whether a topic is one of Kafka's, Connect's, MirrorMaker 2's or Switchback's own."""
    return (
        naming.is_internal(topic)
        or naming.is_heartbeats(topic)
        or _CONNECT_TOPIC.fullmatch(topic) is not None
        or _OWN_TOPIC.fullmatch(topic) is not None
    )


@dataclass(frozen=True)
class PatternEffect:
    """What one pattern does to the names that exist.

    Attributes:
        matches: names that the pattern matches, by cluster alias.
        changes: those of the source that it adds to the flow, or takes out of it.
        internal: names that it matches on either cluster, and that are internal.
        similar: names of the source that begin like the pattern, if the pattern changes nothing.
        held_back: names that it matches, and that a list of excluded names still excludes.
    """

    kind: Kind
    pattern: str
    is_added: bool
    matches: Mapping[str, tuple[str, ...]]
    changes: tuple[str, ...]
    internal: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the pattern with what is done with it."""
        return f"{'add' if self.is_added else 'remove'}_{self.kind}s {self.pattern}"


def effect_of(
    pattern: str,
    is_added: bool,
    kind: Kind,
    names: Mapping[str, Iterable[str]],
    selected: tuple[Iterable[str], Iterable[str]],
    internal: Iterable[str],
) -> PatternEffect:
    """Return what one pattern does to the names that exist.

    Args:
        names: names by alias of the cluster, the source first.
        selected: names of the source that the flow selects before and after the whole change.
        internal: the internal ones of all names.
    """
    matcher = pattern_list(pattern, kind)
    matches = {alias: tuple(sorted(filter(matcher.matches, there))) for alias, there in names.items()}
    before, after = map(set, selected)
    moved = (after - before) if is_added else (before - after)
    of_source = next(iter(matches.values()), ())
    changes = tuple(name for name in of_source if name in moved)
    begins = re.match(r"[A-Za-z0-9_-]*", pattern)
    prefix = begins[0] if begins else ""
    hidden = set(internal)
    source_names = next(iter(names.values()), ())
    return PatternEffect(
        kind,
        pattern,
        is_added,
        matches,
        changes,
        internal=tuple(sorted({name for found in matches.values() for name in found if name in hidden})),
        similar=tuple(
            sorted(name for name in source_names if prefix and name.startswith(prefix) and name not in hidden)
        ),
        held_back=tuple(name for name in of_source if is_added and name not in after and name not in hidden),
    )


def problems_of(effect: PatternEffect, names_to_come: bool) -> Iterator[str]:
    """Yield why a pattern is refused, each with the names that the pattern would match."""
    found = "; ".join(f"on {alias} it matches {_listed(names)}" for alias, names in effect.matches.items())
    if effect.is_added and effect.kind == "topic" and effect.internal and effect.pattern != ALL:
        yield f"{effect.title}: catches internal topics: {_listed(effect.internal)}; {found}"
    if re.search(r"(?:^|[^\\])\.$", effect.pattern):
        meant = effect.pattern + "*"
        like = f"; {meant} would match on the source: {_listed(_matching(meant, effect))}"
        yield f"{effect.title}: ends with a dot, which stands for exactly one character; {found}{like}"
    elif not effect.changes and not names_to_come:
        kept = f"; still excluded: {_listed(effect.held_back)}" if effect.held_back else ""
        near = f"; names that begin like it: {_listed(effect.similar)}" if effect.similar else ""
        yield f"{effect.title}: changes nothing for the {effect.kind}s that exist; {found}{kept}{near}"
    elif effect.held_back:
        yield f"{effect.title}: these stay excluded by another expression: {_listed(effect.held_back)}"


def _matching(pattern: str, effect: PatternEffect) -> Sequence[str]:
    matcher = pattern_list(pattern, effect.kind)
    return [name for name in effect.similar if matcher.matches(name)]


def _listed(names: Sequence[str]) -> str:
    return first_few(names, _SHOWN) or "nothing"
