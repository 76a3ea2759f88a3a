"""Where the clients of two clusters are, and which of the clusters accepts their writes, by the journal.

Invariants
1. A cluster accepts writes, or refuses them, only by the outcome of a step that has proven it; all else is unknown.
2. While a procedure moves clients, nothing is taken from an earlier procedure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kafka_dr.domain.evidence.live_status import ProcedureStatus
from kafka_dr.domain.fencing.armed_fence import ARMED, LatestMove
from kafka_dr.domain.plain_text import format_moment
from kafka_dr.procedure.entries import (
    ClientsRedirected,
    Fact,
    FenceDisarmed,
    Line,
    OldSourceFenced,
    ProducersFenced,
    SourceFenced,
    TargetOpened,
    facts_of,
)
from kafka_dr.vocabulary import Step

_LEFT_OPEN = "clients stay there that were not moved, and no write was fenced"
#: Steps of a procedure by which clients are stopped or let in; from the first of these on, clients may be in between.
_CHANGING = (Step.FENCE_PRODUCERS, Step.FENCE_SOURCE, Step.OPEN_TARGET)


class Writes(StrEnum):
    """Whether a cluster accepts clients' writes."""

    ACCEPTED = "accepts writes"
    REFUSED = "refuses writes"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ClusterWrites:
    """Whether a cluster accepts clients' writes, and how that is known."""

    alias: str
    writes: Writes
    why: str


@dataclass(frozen=True)
class ClientPlace:
    """Where clients of two clusters are.

    Attributes:
        alias: the cluster on which clients work; None if that is unknown, or if clients are being moved.
        words: how that is known, or why it is not.
        since: since when clients are there; None if no procedure moved them, or if they are being moved.
        moved_by: the procedure that moved them; "" without one.
        label: what stands in place of the alias if there is none.
        changed: when clients were last stopped or moved; a check before that says nothing about now. None: never.
    """

    alias: str | None
    words: str
    writes: tuple[ClusterWrites, ...]
    since: datetime | None = None
    moved_by: str = ""
    label: str = "unknown"
    changed: datetime | None = None


def unmoved_place(source: str, target: str, in_use: str | None) -> ClientPlace:
    """Return the place of clients that no procedure has moved.

    Args:
        in_use: source of the flow that is in use between both clusters; None if nothing says which flow that is.
    """
    why = "no procedure has fenced or opened it"
    words = "no procedure has ever moved them"
    if in_use is None:
        words = f"no procedure has moved them: they are on {source}, unless the opposite flow is the one in use"
    return ClientPlace(in_use, words, _both_unknown(source, target, why))


def hidden_place(source: str, target: str, changed: datetime) -> ClientPlace:
    """Return the place of clients for a reader who may not read the procedure that decides on it.

    Args:
        changed: when the last procedure took the pair of clusters or released it.
    """
    why = "you may not read the procedure that says so"
    return ClientPlace(None, why, _both_unknown(source, target, why), label="not shown", changed=changed)


def unread_place(source: str, target: str) -> ClientPlace:
    """Return the place of clients while the journal cannot be read."""
    why = "the journal cannot be read"
    return ClientPlace(None, why, _both_unknown(source, target, why))


def place_while_held(held: ProcedureStatus) -> ClientPlace | None:
    """Return the place of clients that a procedure is moving; None if it has not stopped or moved any client.

    Args:
        held: the procedure that holds the pair of clusters.
    """
    state = {step.id: step.state for step in held.steps}
    begun = [step for step in _CHANGING if state.get(step, "not begun") != "not begun"]
    if not begun or (held.fence and held.fence.state == "over") or state.get(Step.REDIRECT_CLIENTS) == "done":
        return None
    if Step.RETURN_TO_SOURCE in state and state[Step.RETURN_TO_SOURCE] == "done":
        return None
    source = ClusterWrites(held.source, Writes.UNKNOWN, "a fence of it is not proven")
    if held.left_open:
        source = ClusterWrites(held.source, Writes.UNKNOWN, _LEFT_OPEN)
    elif state.get(Step.FENCE_PRODUCERS) == "done" and Step.RETURN_TO_SOURCE not in state:
        source = ClusterWrites(held.source, Writes.REFUSED, "fenced")
    target = ClusterWrites(held.target, Writes.UNKNOWN, "open_target is not done")
    if state.get(Step.OPEN_TARGET) == "done":
        target = ClusterWrites(held.target, Writes.ACCEPTED, "open_target is done")
    doing = "stopped while it moved" if held.outcome else "is moving"
    words = f"{held.id} {doing} clients from {held.source} to {held.target}"
    began = next(step.began for step in held.steps if step.id == begun[0])
    return ClientPlace(None, words, (source, target), label="between the clusters", changed=began)


def place_after(move: LatestMove, lines: Sequence[Line], contested: str = "") -> ClientPlace:
    """Return the place of clients after a procedure has begun to open its target.

    Args:
        move: the last move between the clusters that was not undone.
        lines: entries of the moving procedure's steps that fence, open and redirect, and of the watcher.
        contested: what somebody undoes of the move; "" if nobody does.
    """
    opened = next((line for line, _ in facts_of(lines, TargetOpened)), None)
    sent = next((line for line, _ in facts_of(lines, ClientsRedirected)), None)
    if contested:
        why = "somebody undoes the last move again and again"
        writes = _both_unknown(move.source, move.target, why)
        return ClientPlace(None, why, writes, moved_by=move.procedure_id)
    if opened is None:
        why = f"{move.procedure_id} has begun to open {move.target}, and did not end that"
        return ClientPlace(None, why, _both_unknown(move.source, move.target, why))
    writes = (
        ClusterWrites(
            move.target, Writes.ACCEPTED, f"opened by {move.procedure_id} at {format_moment(opened.at.isoformat())}"
        ),
        _old_source(move, lines),
    )
    if sent is None:
        words = f"{move.target} is open, and clients were not sent there"
        return ClientPlace(None, words, writes, moved_by=move.procedure_id, changed=opened.at)
    return ClientPlace(move.target, "moved there", writes, sent.at, move.procedure_id, changed=sent.at)


def _old_source(move: LatestMove, lines: Iterable[Line]) -> ClusterWrites:
    """Return whether the cluster that clients left accepts writes: its fence proves that it does not."""
    fenced_at: datetime | None = None
    unfenced = "no fence of it is proven"
    for line, fact in facts_of(lines, Fact):
        match fact:
            case SourceFenced() if fact.fenced == ARMED:
                unfenced = "it could not be fenced: watch_old_source fences it as soon as it answers"
            case FenceDisarmed() if fact.disarms_fence == move.procedure_id:
                unfenced = "it was never fenced, and a person ended the watch over it"
            case ProducersFenced(left_open=True):
                unfenced = _LEFT_OPEN
            case ProducersFenced() | SourceFenced():
                fenced_at = line.at
            case OldSourceFenced() if move.procedure_id in (fact.procedure_id, line.procedure_id):
                fenced_at = line.at
    if fenced_at is None:
        return ClusterWrites(move.source, Writes.UNKNOWN, unfenced)
    return ClusterWrites(move.source, Writes.REFUSED, f"fenced at {format_moment(fenced_at.isoformat())}")


def _both_unknown(source: str, target: str, why: str) -> tuple[ClusterWrites, ...]:
    return ClusterWrites(source, Writes.UNKNOWN, why), ClusterWrites(target, Writes.UNKNOWN, why)
