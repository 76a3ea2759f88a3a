"""What is left to undo of a procedure, by the intents in its journal; and what undoes one intent.

Nothing undoes a topic that was made or deleted, an aborted transaction, a seeded offset or a committed position. What a
failback did on the returned cluster stays there for the next run.

Invariants
1. An act counts from its intent on, whether it took place or not: every undo may be repeated, and finds nothing to do.
2. Clients first: the target is closed before the source is opened, and MirrorMaker 2 comes last.
3. Once the target is open, or the source was given back, nothing is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    ConnectorsToStop,
    Fact,
    FenceHookToAsk,
    Line,
    ProcessesToStop,
    SourceReturned,
    TargetOpened,
    TargetToOpen,
    facts_in,
)
from kafka_dr.vocabulary import Entry, Step

#: Steps that stop the flow from the source; what others stop, a return does not start.
_STOPPING = (Step.STOP_MIRROR_MAKER, Step.WATCH_OLD_SOURCE)


@dataclass(frozen=True)
class CloseTarget:
    """Add denials of the target that were removed to let clients in."""

    entries: tuple[AclEntry, ...]


@dataclass(frozen=True)
class RemoveFence:
    """Remove ACL entries that were added to a cluster to keep clients out; `cluster` is None if it is the source."""

    entries: tuple[AclEntry, ...]
    cluster: str | None = None


@dataclass(frozen=True)
class LiftFenceHook:
    """Have the fence hook let clients in to a cluster."""

    cluster: str


@dataclass(frozen=True)
class ResumeReplication:
    """Resume connectors, or a flow in dedicated mode, that were asked to stop."""

    names: tuple[str, ...]


Undo = CloseTarget | RemoveFence | LiftFenceHook | ResumeReplication


def undo_of(intent: Fact) -> Undo | None:
    """What undoes an act that came too late, by its intent; None if nothing does."""
    match intent:
        case TargetToOpen():
            return CloseTarget(tuple(intent.removes_acl_entries))
        case AclEntriesToAdd():
            return RemoveFence(tuple(intent.adds_acl_entries), intent.cluster)
        case FenceHookToAsk():
            return LiftFenceHook(intent.asks_fence_hook)
        case ConnectorsToStop():
            return ResumeReplication(tuple(intent.stops_connectors))
        case ProcessesToStop():
            return ResumeReplication((intent.stops_processes,))
    return None


def left_to_undo(entries: Iterable[Line], source: str, parts: Collection[str], continues: bool) -> list[Undo]:
    """What a return to the source has to do, in this order.

    Args:
        entries: of the procedure, and those that the watcher of old sources wrote for it, in the journal's order.
        source: the cluster that is given back.
        parts: what replicates from it, as the journal names it: both connectors, or the flow in dedicated mode.
        continues: another procedure had begun before this one; what that one stopped, its own return resumes.
    """
    known = list(entries)
    if facts_in(known, TargetOpened):
        return []
    returned = max((n for n, entry in enumerate(known, 1) if facts_in([entry], SourceReturned)), default=0)
    since = known[returned:]
    removed, added = removed_acl_entries(since), added_acl_entries(since, source)
    hooks = dict.fromkeys(intent.asks_fence_hook for intent in facts_in(since, FenceHookToAsk))
    names = _stopped(since, parts, continues)
    return [
        *([CloseTarget(removed)] if removed else []),
        *([RemoveFence(added, source)] if added else []),
        *map(LiftFenceHook, hooks),
        *([ResumeReplication(names)] if names else []),
    ]


def removed_acl_entries(entries: Iterable[Line]) -> tuple[AclEntry, ...]:
    """The target's denials that the procedure meant to remove, each once."""
    return tuple(dict.fromkeys(one for intent in facts_in(entries, TargetToOpen) for one in intent.removes_acl_entries))


def added_acl_entries(entries: Iterable[Line], cluster: str) -> tuple[AclEntry, ...]:
    """ACL entries that the procedure, or the watcher for it, meant to add to a cluster, each once.

    An intent that names no cluster is of a time when entries were added to the source only.
    """
    intents = [intent for intent in facts_in(entries, AclEntriesToAdd) if intent.cluster in (None, cluster)]
    return tuple(dict.fromkeys(one for intent in intents for one in intent.adds_acl_entries))


def _stopped(entries: Collection[Line], parts: Collection[str], continues: bool) -> tuple[str, ...]:
    """Parts of the flow that the procedure or its watcher began to stop: all of them, unless it continues another."""
    stopping = [entry for entry in entries if entry.step in _STOPPING]
    asked = {name for intent in facts_in(stopping, ConnectorsToStop) for name in intent.stops_connectors}
    asked |= {intent.stops_processes for intent in facts_in(stopping, ProcessesToStop)}
    if continues:
        return tuple(name for name in parts if name in asked)
    begun = any((entry.step, entry.kind) == (Step.STOP_MIRROR_MAKER, Entry.INTENT) for entry in stopping)
    return tuple(parts) if begun or asked.intersection(parts) else ()
