"""Readiness checks of groups: none is active on the target, and none that the flow selects is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_dr.domain.clients.inventory import staying_beyond
from kafka_dr.domain.plain_text import first_few, format_duration
from kafka_dr.domain.readiness.blocker import MOST_LISTED, Blocker
from kafka_dr.domain.readiness.observation import Observation

IMMOVABLE_REMEDY = (
    "If brokers of the source are being upgraded to Kafka 3.8 or newer, finish the upgrade. Else move these groups by"
    " another way, and exclude them by `groups.exclude` of the checkpoint connector. Then start a new run."
)


def groups_idle_on_target(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if groups have members on the target: positions of such groups cannot be committed."""
    active = sorted(g for g in o.groups if g in o.target.groups and not o.target.groups[g].empty)
    if active:
        yield Blocker(
            "groups_idle_on_target",
            "Groups already have members on the target",
            first_few(active, MOST_LISTED),
            "Stop the consumers of these groups on the target.",
        )


def groups_can_move(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker that names all selected groups of an unknown type that have positions in scope.

    The list is not cut: each of these groups would be left behind.
    """
    if o.immovable:
        yield Blocker(
            "groups_can_move",
            "The flow selects groups that cannot be moved, because their type is unknown",
            types_of_groups(o.immovable),
            IMMOVABLE_REMEDY,
        )


def members_leave(o: Observation) -> Iterator[Blocker]:
    """Yield a blocker if a stopped member would stay in its group for longer than drain_consumers waits for it."""
    beyond = staying_beyond(o.clients)
    if beyond:
        named = [f"{group} ({format_duration(seconds)})" for group, seconds in sorted(beyond.items())]
        yield Blocker(
            "members_leave",
            "Stopped members would stay in their groups for longer than drain_consumers waits",
            f"session timeouts beyond {format_duration(o.clients.waits)}: {first_few(named, MOST_LISTED)}",
            "A static member, and a member of a Kafka Streams application, that is stopped stays in its group until its"
            " session has timed out. Start a new run with drain_seconds above these session timeouts, and with"
            " max_fence_seconds above drain_seconds; or restart the consumers with a smaller session.timeout.ms; or"
            " name the groups in the param exclude_groups.",
        )


def types_of_groups(groups: Mapping[str, str]) -> str:
    """Return all groups with their types as text, from name -> type."""
    return ", ".join(f"{name} (type {kind})" for name, kind in sorted(groups.items()))
