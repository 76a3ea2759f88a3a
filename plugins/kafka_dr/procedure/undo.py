"""List which acts a rollback must still undo, from the intents in the journal; map one intent to its undo.

There is no undo for created or deleted topics, aborted transactions, seeded offsets and committed positions. What a
failback changed on the returned cluster stays, for the next run.

Invariants
1. An act counts as done from its intent on, whether it took place or not; repeating an undo changes nothing.
2. Clients first: the target is closed before the source is opened, and MirrorMaker 2 is resumed last.
3. Nothing is left to undo after the outcome of open_target; after a rollback, only what later intents changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.acl import AclChange
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    ChangedFlowToStop,
    ConnectorsToStop,
    Fact,
    FenceHookToAsk,
    GrantsToReplace,
    Line,
    ProcessesToStop,
    SettingsToChange,
    SourceReturned,
    TargetOpened,
    TargetToOpen,
    facts_in,
)
from kafka_dr.vocabulary import Entry, Step

#: Steps that stop the flow from the source; a rollback does not resume flows stopped by other steps.
_STOPPING = (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE)


@dataclass(frozen=True)
class CloseTarget:
    """Close the target to clients: revert the change that open_target made to the target's ACL entries."""

    opening: AclChange


@dataclass(frozen=True)
class RemoveFence:
    """Revert the change that a fence made to the ACL entries of the cluster `cluster`; None means the source."""

    fence: AclChange
    cluster: str | None = None


@dataclass(frozen=True)
class LiftFenceHook:
    """Ask the fence hook to lift its fence of a cluster, so that clients reach the cluster again."""

    cluster: str


@dataclass(frozen=True)
class ResumeReplication:
    """Resume the named connectors, which were asked to stop; in dedicated mode, the named flow."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class RestoreSettings:
    """Give connectors their former settings: connector -> setting -> value; None removes a setting."""

    former: Mapping[str, Mapping[str, str | None]]


Undo = CloseTarget | RemoveFence | LiftFenceHook | ResumeReplication | RestoreSettings


def undo_of(intent: Fact) -> Undo | None:
    """Return what undoes the act that an intent announced; None if there is no undo for the act."""
    match intent:
        case TargetToOpen():
            return CloseTarget(opening_change_of(intent))
        case AclEntriesToAdd():
            return RemoveFence(AclChange(adds=tuple(intent.adds_acl_entries)), intent.cluster)
        case GrantsToReplace():
            return RemoveFence(AclChange(removes=tuple(intent.replaces_acl_entries)), intent.cluster)
        case FenceHookToAsk():
            return LiftFenceHook(intent.asks_fence_hook)
        case ConnectorsToStop():
            return ResumeReplication(tuple(intent.stops_connectors))
        case ProcessesToStop():
            return ResumeReplication((intent.stops_processes,))
        case ChangedFlowToStop():
            return ResumeReplication(tuple(intent.stops_connectors_to_change))
        case SettingsToChange():
            return RestoreSettings(intent.former_settings)
    return None


def left_to_undo(entries: Iterable[Line], source: str, parts: Collection[str], only_asked: bool) -> list[Undo]:
    """List the undos that a rollback to the source must do, in the order in which to do them.

    Args:
        entries: journal entries of the procedure, and of the watcher about this procedure, in the journal's order.
        source: alias of the cluster whose fence the rollback lifts.
        parts: names in the journal of what replicates from the source: both connectors, or in dedicated mode the flow.
        only_asked: whether only parts that an intent names are resumed. True for a run whose source is declared lost:
            other parts may be STOPPED since an earlier procedure, and must stay STOPPED.
    """
    ordered = list(entries)
    if facts_in(ordered, TargetOpened):
        return []
    returned = max((n for n, entry in enumerate(ordered, 1) if facts_in([entry], SourceReturned)), default=0)
    since = ordered[returned:]
    opening, fence = opening_change(since), fence_change(since, source)
    hooks = dict.fromkeys(intent.asks_fence_hook for intent in facts_in(since, FenceHookToAsk))
    names = _parts_to_resume(since, parts, only_asked)
    return [
        *([CloseTarget(opening)] if opening else []),
        *([RemoveFence(fence, source)] if fence else []),
        *map(LiftFenceHook, hooks),
        *([ResumeReplication(names)] if names else []),
    ]


def changed_flow_to_undo(entries: Iterable[Line]) -> tuple[RestoreSettings, ResumeReplication] | None:
    """Return what undoes a change of a flow, by the intents; None if no connector was asked to stop for a change."""
    ordered = list(entries)
    stops = facts_in(ordered, ChangedFlowToStop)
    if not stops:
        return None
    former: dict[str, dict[str, str | None]] = {}
    for intent in facts_in(ordered, SettingsToChange):
        for name, settings in intent.former_settings.items():
            former[name] = {**settings, **former.get(name, {})}
    return RestoreSettings(former), ResumeReplication(tuple(stops[0].stops_connectors_to_change))


def opening_change(entries: Iterable[Line]) -> AclChange:
    """Return what the procedure changed, or meant to change, in the target's ACL entries to open the target."""
    changes = [opening_change_of(intent) for intent in facts_in(entries, TargetToOpen)]
    return AclChange(
        adds=tuple(dict.fromkeys(acl for change in changes for acl in change.adds)),
        removes=tuple(dict.fromkeys(acl for change in changes for acl in change.removes)),
    )


def opening_change_of(intent: TargetToOpen) -> AclChange:
    """Return the change of the target's ACL entries that one intent to open the target announces."""
    adds = (*(intent.adds_acl_entries or ()), *(intent.denies_old_flow or ()))
    return AclChange(adds, tuple(intent.removes_acl_entries))


def fence_change(entries: Iterable[Line], cluster: str) -> AclChange:
    """Return what the procedure, or the watcher for it, changed or meant to change on a cluster as a fence.

    An intent of an older version names no cluster: the cluster is then the source, because older versions added ACL
    entries to no other cluster.
    """
    ordered = list(entries)
    added = [intent for intent in facts_in(ordered, AclEntriesToAdd) if intent.cluster in (None, cluster)]
    replaced = [intent for intent in facts_in(ordered, GrantsToReplace) if intent.cluster == cluster]
    return AclChange(
        adds=tuple(dict.fromkeys(acl for intent in added for acl in intent.adds_acl_entries)),
        removes=tuple(dict.fromkeys(acl for intent in replaced for acl in intent.replaces_acl_entries)),
    )


def _parts_to_resume(entries: Collection[Line], parts: Collection[str], only_asked: bool) -> tuple[str, ...]:
    """Return which of `parts` are to be resumed: all as soon as the stop of one has begun, else none.

    With `only_asked`, only the parts that an intent names are returned. For the parameters see `left_to_undo`.
    """
    stopping = [entry for entry in entries if entry.step in _STOPPING]
    asked = {name for intent in facts_in(stopping, ConnectorsToStop) for name in intent.stops_connectors}
    asked |= {intent.stops_processes for intent in facts_in(stopping, ProcessesToStop)}
    if only_asked:
        return tuple(name for name in parts if name in asked)
    begun = any((entry.step, entry.kind) == (Step.STOP_MIRROR_MAKER, Entry.INTENT) for entry in stopping)
    return tuple(parts) if begun or asked.intersection(parts) else ()
