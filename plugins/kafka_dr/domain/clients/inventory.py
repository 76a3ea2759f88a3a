"""The clients of the source, by kind: what a plan says of each, so that none is left behind without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_dr.domain.clients import kinds
from kafka_dr.domain.clients.kinds import ClientKind
from kafka_dr.domain.clients.logged_clients import NO_LOG, LoggedClients, as_logged
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.transactions import KnownTransaction
from kafka_dr.domain.plain_text import first_few, format_duration, table_cell

#: Names of the topics in which registries keep their schemas: Confluent's and Karapace's, and Apicurio's.
SCHEMA_TOPICS = frozenset({"_schemas", "kafkasql-journal", "kafkasql-snapshots", "registry-events"})
STREAMS_ASSIGNOR = "stream"
_STREAMS_TOPICS = ("-changelog", "-repartition")
_SINK_PREFIX, _OWN_PREFIX = "connect-", "__switchback"
_PROTOCOLS = {"connect": kinds.WORKERS, "sr": kinds.SCHEMA_REGISTRIES}
_TYPES = {"share": kinds.SHARE, "streams": kinds.STREAMS_GROUPS}
_NAMED = 20


@dataclass(frozen=True)
class SeenClients:
    """What was read of the source's clients.

    Attributes:
        groups: groups of every protocol by name.
        moved: groups that move.
        left_out: groups that the flow's filter does not select.
        topics: source topic -> its name on the target; None if the flow does not mirror the topic.
        assignors: name of a group with members -> name of its assignor.
        staying: group that moves -> session timeout in seconds by the `group.instance.id` of its static members; under
            the empty name the longest of its other members, where these stay, too; None if unknown.
        waits: how long, in seconds, drain_consumers waits for a group to be without members.
        transactions: transactional ids; None if they could not be listed.
        connectors: names of the flow's connectors.
        logged: what the source's authorizer logs show.
    """

    groups: Mapping[str, ListedGroup] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    topics: Mapping[str, str | None] = field(default_factory=dict)
    assignors: Mapping[str, str] = field(default_factory=dict)
    staying: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    waits: float = 0.0
    transactions: tuple[KnownTransaction, ...] | None = ()
    connectors: tuple[str, ...] = ()
    logged: LoggedClients = NO_LOG


@dataclass(frozen=True)
class ClientsOfKind:
    """All clients of one kind in a plan.

    Attributes:
        kind: name of the kind.
        fate: whether these clients are moved, not moved, or cannot be seen.
        count: number of these clients; None if it is unknown.
        names: the clients, as far as they are known; empty for groups that the plan lists with their forecast.
        happens, owner: what the move does with these clients, and what their owner must do.
    """

    kind: str
    fate: str
    count: int | None
    names: tuple[str, ...]
    happens: str
    owner: str


def list_clients(seen: SeenClients) -> tuple[ClientsOfKind, ...]:
    """Return the clients of the source by kind; kinds that only the authorizer's logs show are always among them."""
    found: dict[str, list[str]] = {}
    internal, logged = internal_topics(seen.groups, seen.topics), seen.logged
    for name, group in sorted(seen.groups.items()):
        kind = kind_of(name, group, seen, bool(internal.get(name)))
        found.setdefault(kind.name, []).append(_named(name, group, kind, seen, internal.get(name, ())))
    found.setdefault(kinds.SCHEMA_REGISTRIES.name, []).extend(
        _topic_text(topic, seen.topics) for topic in sorted(SCHEMA_TOPICS & seen.topics.keys())
    )
    found[kinds.STAYING.name] = [_staying_text(group, seen.staying[group]) for group in sorted(seen.staying)]
    found[kinds.TRANSACTIONAL.name] = [
        transaction.transactional_id + (" (open now)" if transaction.open else "")
        for transaction in seen.transactions or ()
        if not transaction.transactional_id.startswith(_OWN_PREFIX)
    ]
    found[kinds.MIRROR_MAKER.name] = list(seen.connectors)
    found[kinds.WITHOUT_GROUP.name], found[kinds.WITHOUT_ENTRY.name] = list(logged.readers), list(logged.writers)
    by_logs = {kinds.WITHOUT_GROUP, kinds.WITHOUT_ENTRY}
    unknown = (by_logs if logged.problems else set()) | ({kinds.TRANSACTIONAL} if seen.transactions is None else set())
    return tuple(
        _of_kind(as_logged(kind, logged), found.get(kind.name, ()), kind not in unknown)
        for kind in kinds.KINDS
        if found.get(kind.name) or kind in by_logs | unknown
    )


def list_recorded_clients(seen: SeenClients) -> tuple[ClientsOfKind, ...]:
    """Return what is known of the clients of a source that did not answer, by kind.

    Args:
        seen: with the groups that the recorder has recorded as `moved`, and the flow's topics and connectors.
    """
    recorded = list_clients(
        replace(seen, logged=LoggedClients(problems=("an unplanned failover reads no authorizer log",)))
    )
    return (*recorded, _of_kind(kinds.NOT_RECORDED, (), is_known=False))


def kind_of(name: str, group: ListedGroup, seen: SeenClients, has_internal_topics: bool) -> ClientKind:
    """Return the kind of a group.

    Args:
        name: the group's name.
        group: as the source lists it.
        seen: tells which groups move, and the assignors of groups with members.
        has_internal_topics: whether a changelog or repartition topic begins with the group's name.
    """
    own = _TYPES.get(group.group_type) or _PROTOCOLS.get(group.protocol_type)
    if own is not None:
        return own
    if group.protocol_type not in ("", "consumer"):
        return kinds.OTHER
    moves = name in seen.moved
    if name.startswith(_SINK_PREFIX):
        return kinds.MOVED_SINKS if moves else kinds.SINKS
    if not moves:
        return kinds.LEFT_OUT if name in seen.left_out else kinds.NO_POSITION
    if has_internal_topics or seen.assignors.get(name) == STREAMS_ASSIGNOR:
        return kinds.STREAMS
    if not group.protocol_type:
        return kinds.NEVER_ACTIVE
    return kinds.CONSUMER if group.group_type == "consumer" else kinds.CLASSIC


def internal_topics(groups: Iterable[str], topics: Iterable[str]) -> dict[str, list[str]]:
    """Return group -> the changelog and repartition topics that Kafka Streams made for it, sorted.

    Such a topic is called `<application.id>-<name>-changelog` or `-repartition`, and the application's group has its
    application.id as name. Of several groups that fit, the one with the longest name has made the topic.
    """
    known = frozenset(groups)
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        if topic.endswith(_STREAMS_TOPICS):
            parts = topic.split("-")
            fitting = [name for end in range(1, len(parts) - 1) if (name := "-".join(parts[:end])) in known]
            if fitting:
                found.setdefault(fitting[-1], []).append(topic)
    return found


def missing_state(seen: SeenClients) -> dict[str, list[str]]:
    """Return Streams application that moves -> its internal topics that are not on the target under their own names."""
    return {
        name: missing
        for name, topics in internal_topics(seen.groups, seen.topics).items()
        if name in seen.moved and (missing := [topic for topic in topics if seen.topics[topic] != topic])
    }


def staying_beyond(seen: SeenClients) -> dict[str, float]:
    """Return group -> longest session timeout of members that stay, in seconds, where it exceeds the drain's wait."""
    longest = {
        group: max((seconds for seconds in members.values() if seconds is not None), default=0.0)
        for group, members in seen.staying.items()
    }
    return {group: seconds for group, seconds in longest.items() if seconds > seen.waits}


def staying_unknown(seen: SeenClients) -> list[str]:
    """Return the groups with a member that stays and whose session timeout could not be read, sorted."""
    return sorted(group for group, members in seen.staying.items() if None in members.values())


def clients_markdown(clients: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of a plan's clients as Markdown lines; [] for a plan of a version without them."""
    if not clients:
        return []
    return [
        "",
        "Clients by kind; the page runbooks/kinds_of_clients.md has a heading for each:",
        "",
        "| kind | number | moved? | what happens | what the owner must do | names |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            f"| {table_cell(c['kind'])} | {'unknown' if c['count'] is None else c['count']} | {c['fate']} |"
            f" {table_cell(c['happens'])} | {table_cell(c['owner'])} | {table_cell(first_few(c['names'], _NAMED))} |"
            for c in clients
        ),
        "",
    ]


def _of_kind(kind: ClientKind, names: Sequence[str], is_known: bool) -> ClientsOfKind:
    listed = tuple(names) if kind.listed else ()
    return ClientsOfKind(kind.name, kind.fate, len(names) if is_known else None, listed, kind.happens, kind.owner)


def _named(name: str, group: ListedGroup, kind: ClientKind, seen: SeenClients, internal: Iterable[str]) -> str:
    if kind is kinds.OTHER:
        return f"{name} (protocol {group.protocol_type})"
    listed = [_topic_text(topic, seen.topics) for topic in internal]
    return f"{name} ({'; '.join(listed)})" if listed and kind in (kinds.STREAMS, kinds.STREAMS_GROUPS) else name


def _topic_text(topic: str, topics: Mapping[str, str | None]) -> str:
    on_target = topics[topic]
    if on_target is None:
        return f"{topic}: not mirrored"
    return f"{topic}: mirrored" if on_target == topic else f"{topic}: on the target {on_target}"


def _staying_text(group: str, members: Mapping[str, float | None]) -> str:
    shown = ", ".join(
        f"{member or 'its members'}: " + ("unknown" if seconds is None else format_duration(seconds))
        for member, seconds in sorted(members.items())
    )
    return f"{group} (session timeout of {shown})"
