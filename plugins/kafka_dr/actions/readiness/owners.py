"""Observe owners, which put connectors or ACL entries back: labels in configurations, and markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_dr.actions.fencing.old_flow import writers_on_target
from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.config.topology import Flow
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.fencing.old_flow import why_not_harmless
from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.readiness.owners import (
    MARKER_ENTRY,
    MarkerView,
    OwnerView,
    acl_marker_place,
    connector_marker_place,
    labels_in,
    labels_of_flow,
    labels_of_principals,
    owner_blockers,
    owner_notes,
)
from kafka_dr.errors import NotReady, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import MarkerDisturbed, MarkerKept, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_SECONDS = 5.0


def sign_of_marker(place: str) -> str:
    """Return the name under which the journal keeps when somebody else last changed a marker."""
    return f"marker {digest_of(place)[:40]}"


def owner_view(
    procedure: Run, rules: Mapping[str, AclRules], configs: Mapping[str, Mapping[str, str]], flows: Iterable[Flow]
) -> OwnerView:
    """Return what is known of owners of these clusters and Connect workers.

    Args:
        rules: ACL rules by alias of the clusters that are looked at.
        configs: configurations that are searched for labels, by connector.
        flows: the flows whose Connect workers' markers are looked at.
    """
    entries = procedure.journal.entries(Step.WATCH_OLD_SOURCE, Step.WATCH_OLD_SOURCE)
    markers = [
        _marker(procedure.journal, entries, acl_marker_place(alias), _change_of_entry(procedure, alias, of))
        for alias, of in rules.items()
        if of.authorizer
    ]
    listed = list(flows)
    configs = {f"connector {name}": config for name, config in configs.items()}
    configs |= {f"{flow.source}->{flow.target} in the topology": flow.mirror_maker for flow in listed}
    for connection in sorted({connection for flow in listed for connection in flow.workers}):
        marker = _marker(procedure.journal, entries, connector_marker_place(connection), None)
        markers.append(_read_connector(procedure, connection, marker) if marker.kept else marker)
    return OwnerView(
        labels=(
            *(text for place, config in configs.items() for text in labels_in(place, config)),
            *(text for flow in listed for text in labels_of_flow(f"{flow.source}->{flow.target}", flow.managed_by)),
            *_labels_of_clusters(procedure, rules),
        ),
        markers=tuple(markers),
        reconcile_seconds=procedure.topology.reconcile_seconds,
        acknowledged=bool(procedure.request.choices.get("acknowledge_owner", False)),
        at=procedure.journal.now(),
    )


def _marker(journal: Journal, entries: Iterable[JournalEntry], place: str, now: str | None) -> MarkerView:
    """Return a marker by the journal; `now`: what differs from the marker as it was set."""
    ordered = list(entries)
    kept = [entry.at for entry, fact in facts_of(ordered, MarkerKept) if fact.marker_kept == place]
    disturbed = [
        (entry.at, fact) for entry, fact in facts_of(ordered, MarkerDisturbed) if fact.marker_disturbed == place
    ]
    if not kept:
        return MarkerView(place, kept=False)
    moments = [kept[0], *(at for at, _ in disturbed), journal.last_sign(sign_of_marker(place))]
    return MarkerView(
        place,
        kept=True,
        now=now,
        held_since=max(at for at in moments if at is not None),
        disturbance=disturbed[-1][1].disturbance if disturbed else None,
    )


def _change_of_entry(procedure: Run, alias: str, rules: AclRules) -> str:
    """Return what differs from a cluster's marker entry; "" if nothing does.

    A missing entry is read again: the watcher may have set it after the rules were read and before the journal was.
    """
    holds = MARKER_ENTRY in rules.entries or procedure.systems.acls_of(alias).holds(MARKER_ENTRY)
    return "" if holds else "deleted"


def _read_connector(procedure: Run, connection: str, marker: MarkerView) -> MarkerView:
    try:
        now = procedure.systems.marker_connector(connection).find_change()
    except SystemUnavailable:
        return marker
    return MarkerView(marker.place, marker.kept, now, marker.held_since, marker.disturbance)


def _labels_of_clusters(procedure: Run, rules: Mapping[str, AclRules]) -> Iterable[str]:
    for alias, of in rules.items():
        cluster = procedure.topology.cluster(alias)
        stated = [*cluster.super_users, *procedure.exempt(alias)]
        yield from labels_of_principals(alias, [*stated, *(entry.principal for entry in of.entries)])


def refuse_owned_target(procedure: Run) -> list[str]:
    """Refuse an unplanned failover to a cluster that somebody else owns, unless its params acknowledge the owner.

    Returns:
        Notes to the approver.

    Raises:
        NotReady: a label or a marker shows an owner of the target, or of the Connect worker beside it.
    """
    target, flow = procedure.request.target, procedure.flow
    view = owner_view(procedure, {target: target_rules(procedure)}, _readable_configs(procedure, flow), [flow])
    blockers = list(owner_blockers(view))
    if blockers and not view.acknowledged:
        raise NotReady(
            "Somebody else owns connectors or ACL entries of the target",
            "; ".join(f"{b.reason} ({b.seen})" for b in blockers),
            "No client was moved. " + " ".join(dict.fromkeys(b.next_step for b in blockers)) + " If clients cannot wait"
            " for that: start a new run with acknowledge_owner; the watcher then stops what the owner resumes once, and"
            " says so.",
        )
    harm = why_not_harmless(target_rules(procedure), target, writers_on_target(procedure))
    owned = [f"An owner is acknowledged: {b.reason} ({b.seen})." for b in blockers]
    return [*owned, *owner_notes(view), *([harm] if harm else [])]


def _readable_configs(procedure: Run, flow: Flow) -> dict[str, dict[str, str]]:
    """Return the configurations of a flow's connectors, as far as their Connect worker answers."""
    if flow.connect is None:
        return {}
    connectors = procedure.systems.flow_connectors(flow)
    try:
        return {name: connectors.config(name, _SECONDS) for name in connectors.existing(_SECONDS)}
    except SystemUnavailable:
        return {}
