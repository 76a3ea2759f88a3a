"""Owners: programs that put connectors or ACL entries back, found by labels and by markers.

A *label* is a name of such a program in a configuration. A *marker* is a connector or an ACL entry that nothing uses:
whoever changes or removes it owns the others, too. Markers are kept by the watcher. What an owner has not changed for
two of its periods it leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kafka_dr.domain.kafka_model.acl import ANY_HOST, AclEntry
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment
from kafka_dr.domain.readiness.blocker import Blocker
from kafka_dr.vocabulary import MARKER_CONNECTOR, MARKER_PRINCIPAL, MARKER_TOPIC

MARKER_ENTRY = AclEntry("topic", MARKER_TOPIC, "literal", MARKER_PRINCIPAL, ANY_HOST, "write", "deny")
#: Words in configurations and principals that name a program which reconciles connectors or ACL entries.
_LABELS = {"strimzi": "Strimzi", "platform.confluent.io": "Confluent for Kubernetes", "koperator": "Koperator"}
_CHECK = "nobody_puts_back"


def acl_marker_place(alias: str) -> str:
    """Return the place of a cluster's marker, as in the journal."""
    return f"ACL entry on {alias}"


def connector_marker_place(connection: str) -> str:
    """Return the place of a Connect worker's marker, as in the journal."""
    return f"connector {MARKER_CONNECTOR} of {connection}"


@dataclass(frozen=True)
class MarkerView:
    """One marker as it is now.

    Attributes:
        place: where the marker is.
        kept: whether the watcher has ever set the marker.
        now: what differs from the marker as it was set; "" if nothing does; None if it could not be read.
        held_since: when the marker was set, or last disturbed by somebody else.
        disturbance: what somebody else last did to the marker; None if nobody ever did.
    """

    place: str
    kept: bool
    now: str | None = ""
    held_since: datetime | None = None
    disturbance: str | None = None

    def held_seconds(self, at: datetime) -> float:
        """Return for how long nobody has disturbed the marker; 0 if it is disturbed now or could not be read."""
        if not self.kept or self.now != "" or self.held_since is None:
            return 0.0
        return max(0.0, (at - self.held_since).total_seconds())


@dataclass(frozen=True)
class OwnerView:
    """What is known of owners of the clusters and Connect workers of a procedure.

    Attributes:
        labels: where a configuration names an owner, as text.
        markers: all markers of these clusters and workers.
        reconcile_seconds: longest time, by the topology, after which an owner puts something back.
        acknowledged: whether the run's params say that the owner does not act during the run.
        at: time of the observation; None if markers were not looked at.
    """

    labels: tuple[str, ...] = ()
    markers: tuple[MarkerView, ...] = ()
    reconcile_seconds: float = 120.0
    acknowledged: bool = False
    at: datetime | None = None

    @property
    def proving_seconds(self) -> float:
        """How long a marker must have held to prove that nobody puts things back: two periods."""
        return 2 * self.reconcile_seconds

    @property
    def all_hold(self) -> bool:
        """Whether every marker has held for two periods."""
        at = self.at
        return at is not None and all(m.held_seconds(at) >= self.proving_seconds for m in self.markers)


def labels_in(place: str, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each key or value of a configuration that names an owner; no value is shown."""
    for key, value in sorted(settings.items()):
        owner = next((name for word, name in _LABELS.items() if word in f"{key}={value}".lower()), None)
        if owner is not None:
            yield f"{key} of {place} names {owner}"


def labels_of_flow(flow: str, managed_by: str | None) -> Iterator[str]:
    """Yield a text if the topology states which program manages a flow, by its name `source->target`."""
    if managed_by is not None:
        yield f"the topology says that {_LABELS.get(managed_by, managed_by)} manages {flow}"


def labels_of_principals(alias: str, principals: Iterable[str]) -> Iterator[str]:
    """Yield a text for each principal of a cluster that names an owner."""
    for principal in sorted(set(principals)):
        owner = next((name for word, name in _LABELS.items() if word in principal.lower()), None)
        if owner is not None:
            yield f"principal {principal} of {alias} names {owner}"


def owner_blockers(view: OwnerView) -> Iterator[Blocker]:
    """Yield a blocker for each label, and for each marker that somebody else changed within two periods."""
    if view.labels and not (view.acknowledged and view.all_hold):
        yield Blocker(
            _CHECK,
            "A configuration names a program that puts connectors or ACL entries back",
            first_few(view.labels),
            "Pause this program's reconciliation for the time of the run. When the markers have held for"
            f" {format_duration(view.proving_seconds)}, start a new run with acknowledge_owner.",
        )
    for marker in view.markers:
        if (seen := _disturbed(view, marker)) is not None:
            yield Blocker(
                _CHECK,
                f"Somebody else changes what Switchback sets: {marker.place}",
                seen,
                "Find out which program does it, such as an operator, a GitOps tool or Terraform, and pause it for the"
                f" time of the run. When the markers have held for {format_duration(view.proving_seconds)}, start a"
                " new run. If the program acts less often, set reconcile_seconds in the topology.",
            )


def _disturbed(view: OwnerView, marker: MarkerView) -> str | None:
    """Return what somebody else did to a marker, and when; None if nobody did within two periods."""
    if not marker.kept or view.at is None or marker.now is None:
        return None
    if marker.now:
        return f"the marker is {marker.now} now, {format_moment(view.at.isoformat())}"
    if marker.disturbance is None or marker.held_since is None or marker.held_seconds(view.at) >= view.proving_seconds:
        return None
    return (
        f"the marker was {marker.disturbance}, last at {format_moment(marker.held_since.isoformat())}; it has held for"
        f" {format_duration(marker.held_seconds(view.at))} of {format_duration(view.proving_seconds)}"
    )


def owner_notes(view: OwnerView) -> Iterator[str]:
    """Yield notes to the approver about markers that prove nothing, and about labels that are acknowledged."""
    at = view.at
    if at is None:
        return
    unproven = [m.place for m in view.markers if m.held_seconds(at) < view.proving_seconds]
    if unproven:
        yield (
            "That no program puts connectors or ACL entries back is not proven:"
            f" {count_of(len(unproven), 'marker')} not there, or not for {format_duration(view.proving_seconds)}"
            f" ({first_few(unproven, 4)}). watch_old_source keeps the markers."
        )
    if view.labels and view.acknowledged:
        yield f"An owner is acknowledged, and must stay paused during the run: {first_few(view.labels)}."
