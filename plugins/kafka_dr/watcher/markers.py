"""Keeps markers on each cluster and Connect worker, and records who else changes them: an owner.

Invariants
1. A marker changes no answer about a name or principal that anybody uses, and runs no task.
2. The first setting of a marker has an intent and an outcome in the journal; to set it again repeats that intent.
3. An owner that acts for ever writes one note, and from then on only the journal's sign of life of the marker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from kafka_dr.actions.readiness.owners import sign_of_marker
from kafka_dr.config.settings import Request
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.kafka_model.acl import Authorizer
from kafka_dr.domain.readiness.owners import MARKER_ENTRY, acl_marker_place, connector_marker_place
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import Fact, MarkerDisturbed, MarkerKept, MarkerToKeep, facts_in
from kafka_dr.vocabulary import Entry
from kafka_dr.watcher.authority import STEP

_SECONDS = 5.0
#: How long a marker must be missing, in seconds, until somebody counts as having deleted it: a worker or a broker that
#: restarts does not show it at once.
_SURE_SECONDS = 5.0


@dataclass(frozen=True)
class Marker:
    """One marker.

    Attributes:
        find_change: returns what somebody else has changed, "" if nothing, None if the place can have no marker.
        restore: sets the marker; returns what still differs, "" if nothing.
    """

    place: str
    acl_entry: bool
    find_change: Callable[[], str | None]
    restore: Callable[[], str]


def markers_of(topology: Topology, connections: Connections) -> Iterator[Marker]:
    """Yield the markers of all clusters and Connect workers of the topology's flows, each once."""
    places: set[str] = set()
    for flow in topology.flows:
        systems = connections.systems(Request(source=flow.source, target=flow.target, reason="markers"), topology)
        of_flow = [
            _acl_marker(acl_marker_place(flow.source), partial(getattr, systems, "source_acls")),
            _acl_marker(acl_marker_place(flow.target), partial(getattr, systems, "target_acls")),
        ]
        for connection in flow.workers:
            connector = systems.marker_connector(connection)
            of_flow.append(Marker(connector_marker_place(connection), False, connector.find_change, connector.restore))
        yield from (marker for marker in of_flow if marker.place not in places)
        places |= {marker.place for marker in of_flow}


def _acl_marker(place: str, open_acls: Callable[[], ClusterAcls]) -> Marker:
    def find_change() -> str | None:
        acls = open_acls()
        if acls.holds(MARKER_ENTRY, timeout=_SECONDS):
            return ""
        return "deleted" if acls.authorizer(timeout=_SECONDS) is Authorizer.BY_ACL else None

    def restore() -> str:
        acls, ends_at = open_acls(), time.monotonic() + _SECONDS
        acls.add([MARKER_ENTRY], timeout=_SECONDS)
        while not acls.holds(MARKER_ENTRY, timeout=_SECONDS):
            if time.monotonic() >= ends_at:
                return "missing although it was added"
            time.sleep(0.2)
        return ""

    return Marker(place, True, find_change, restore)


class MarkerKeeper:
    """Keeps markers; what an owner changes is set again once in the owner's period, so that both do not chase."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._noted: set[str] = set()
        self._due: dict[str, float] = {}
        self._missing: dict[str, float] = {}

    def keep(self, journal: Journal, marker: Marker, period: float) -> str:
        """Look once at a marker; set it if it is missing or changed; return who changes it, "" if nobody does.

        Args:
            period: `reconcile_seconds` of the topology.
        """
        change, place = marker.find_change(), marker.place
        if change is None:
            return ""
        known = self._is_known(journal, place)
        if known and not self._is_sure(place, change):
            return ""
        if change and known and place not in self._noted:
            self._noted.add(place)
            _note_disturbance(journal, marker, change, period)
        if not known:
            _record(journal, MarkerToKeep(keeps_marker=place))
        if change and time.monotonic() >= self._due.get(place, 0.0):
            self._due[place] = time.monotonic() + period
            if left := marker.restore():
                return f"the marker cannot be kept: it is {left}"
            self._noted.discard(place)
        elif change:
            return _told(change)
        if not known:
            _record(journal, MarkerKept(marker_kept=place))
            self._known.add(place)
        return _told(change) if change and known else ""

    def _is_sure(self, place: str, change: str) -> bool:
        """Whether a change can be believed: a deleted marker only when it is missing for some seconds."""
        if change != "deleted":
            self._missing.pop(place, None)
            return True
        now = time.monotonic()
        return now - self._missing.setdefault(place, now) >= _SURE_SECONDS

    def _is_known(self, journal: Journal, place: str) -> bool:
        if place not in self._known:
            facts = facts_in(journal.entries(STEP, STEP, Entry.OUTCOME), MarkerKept)
            self._known |= {fact.marker_kept for fact in facts}
        return place in self._known


def _told(change: str) -> str:
    return f"somebody else owns this: the marker was {change}"


def _note_disturbance(journal: Journal, marker: Marker, change: str, period: float) -> None:
    sign = sign_of_marker(marker.place)
    last = journal.last_sign(sign)
    if last is None or journal.now() - last > timedelta(seconds=2 * period):
        fact = MarkerDisturbed(marker_disturbed=marker.place, disturbance=change, acl_entries=marker.acl_entry)
        _record(journal, fact)
    journal.show_life(sign)


def _record(journal: Journal, fact: Fact) -> None:
    journal.append(STEP, STEP, fact.kind, 0, fact.payload())
