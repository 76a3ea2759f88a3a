"""What fences have changed in a cluster's ACL entries, and no procedure has reverted.

Clients leave a cluster behind its fence. A later procedure that moves clients to this cluster reverts the fence: to
remove DENY entries is not enough, because a fence may also replace ALLOW entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    Fact,
    FenceHookToAsk,
    GrantsToReplace,
    Line,
    ProcedureOpened,
    SourceReturned,
    TargetOpened,
    TargetToOpen,
    facts_of,
)
from kafka_dr.procedure.undo import fence_change
from kafka_dr.vocabulary import Step

#: Steps whose journal entries say what stands of a fence.
FENCING = (
    Step.OPEN_PROCEDURE,
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.FENCE_SOURCE,
    Step.FENCE_RETURNED_CLUSTER,
    Step.WATCH_OLD_SOURCE,
    Step.RETURN_TO_SOURCE,
    Step.OPEN_TARGET,
)

#: Steps whose journal entries say which entries make a flow harmless.
OPENING = (Step.OPEN_PROCEDURE, Step.OPEN_TARGET)


def standing_fence(entries: Iterable[Line], cluster: str) -> AclChange:
    """Return what all fences of a cluster changed since the cluster was last open to clients.

    Args:
        entries: journal entries of the steps in `FENCING`, of all procedures, in the journal's order.
        cluster: alias of the cluster.
    """
    standing: list[tuple[str, AclChange]] = []
    moves: dict[str, ProcedureOpened] = {}
    for entry, fact in facts_of(entries, Fact):
        move = moves.get(entry.procedure_id)
        match fact:
            case ProcedureOpened():
                moves[entry.procedure_id] = fact
            case SourceReturned() if move is not None and move.source == cluster and fact.touched:
                standing = [(by, change) for by, change in standing if by != entry.procedure_id]
            case TargetOpened() if move is not None and move.target == cluster:
                standing = []
            case AclEntriesToAdd() | GrantsToReplace():
                by = fact.procedure_id or entry.procedure_id
                source = moves[by].source if by in moves else None
                if cluster == (fact.cluster or source):
                    standing.append((by, fence_change([entry], cluster)))
    return AclChange(
        adds=tuple(dict.fromkeys(acl for _, change in standing for acl in change.adds)),
        removes=tuple(dict.fromkeys(acl for _, change in standing for acl in change.removes)),
    )


def hook_fence_stands(entries: Iterable[Line], cluster: str) -> bool:
    """Whether a procedure had the fence hook fence a cluster, and no procedure has had this fence lifted since.

    Args:
        entries: journal entries of the steps in `FENCING`, of all procedures, in the journal's order.
        cluster: alias of the cluster.
    """
    asking: set[str] = set()
    targets: dict[str, str] = {}
    for entry, fact in facts_of(entries, Fact):
        match fact:
            case ProcedureOpened():
                targets[entry.procedure_id] = fact.target
            case FenceHookToAsk() if fact.asks_fence_hook == cluster:
                asking.add(entry.procedure_id)
            case SourceReturned() if fact.touched:
                asking.discard(entry.procedure_id)
            case TargetOpened() if targets.get(entry.procedure_id) == cluster:
                asking.clear()
    return bool(asking)


def own_denials(entries: Iterable[Line], cluster: str) -> tuple[AclEntry, ...]:
    """Return all entries that procedures have added on a cluster to make the flow to it harmless, each once.

    Entries that were removed since are among them: only those that the cluster still has are left to remove.

    Args:
        entries: journal entries of the steps in `OPENING`, of all procedures, in the journal's order.
    """
    targets: dict[str, str] = {}
    added: dict[AclEntry, None] = {}
    for entry, fact in facts_of(entries, Fact):
        match fact:
            case ProcedureOpened():
                targets[entry.procedure_id] = fact.target
            case TargetToOpen() if targets.get(entry.procedure_id) == cluster:
                added |= dict.fromkeys(fact.denies_old_flow or ())
    return tuple(added)
