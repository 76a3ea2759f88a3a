"""What the watcher may do about a client move that somebody undoes, by journal entries alone.

Invariants
1. A move is guarded from the outcome of open_target until another procedure takes the lease of the pair.
2. Within `CONTESTED_SECONDS` the watcher acts once; a second contradiction makes the move contested.
3. A contested move stays contested until another procedure takes the lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from kafka_dr.domain.fencing.armed_fence import LatestMove
from kafka_dr.domain.plain_text import first_few, format_moment
from kafka_dr.procedure.entries import (
    Fact,
    Line,
    MoveContested,
    MoveDefended,
    RecordsPassed,
    TargetOpened,
    WatchedFact,
    facts_of,
    newest_fact,
)
from kafka_dr.vocabulary import Step

#: A second contradiction within this time makes a move contested.
CONTESTED_SECONDS = 600.0
#: Steps whose journal entries decide how a move is guarded.
GUARDING = (Step.OPEN_TARGET, Step.WATCH_OLD_SOURCE)


class GuardState(StrEnum):
    """Whether the watcher guards a move."""

    #: The target was not opened, or another procedure has the lease: only two flows that run at once are stopped.
    NOT_GUARDED = "not guarded"
    GUARDED = "guarded"
    #: The watcher acts no more.
    CONTESTED = "contested"


@dataclass(frozen=True)
class Tenure:
    """Who holds the lease of the pair, or held it last.

    Attributes:
        holder: the procedure's id; None if no procedure ever took the lease.
        released: whether this procedure has ended.
        since: when this procedure took the lease.
    """

    holder: str | None
    released: bool = False
    since: datetime | None = None


@dataclass(frozen=True)
class GuardedMove:
    """How a move is guarded.

    Attributes:
        defended_at: when the watcher last acted for the move; None if it did not.
        contested: what made the move contested, as text.
        passed: what passed boundary and cut-off of a contested move; None before this was listed.
    """

    state: GuardState
    defended_at: datetime | None = None
    contested: tuple[str, ...] = ()
    passed: RecordsPassed | None = None

    def is_spent(self, now: datetime) -> bool:
        """Whether the watcher has acted within the last `CONTESTED_SECONDS`, and may not act again."""
        return self.defended_at is not None and now - self.defended_at < timedelta(seconds=CONTESTED_SECONDS)


def guard_of(entries: Iterable[Line], move: LatestMove | None, tenure: Tenure) -> GuardedMove:
    """Return how the last move of a pair of clusters is guarded.

    Args:
        entries: journal entries of the steps in `GUARDING`, in the journal's order.
        move: the last client move of the pair; None if clients never moved.
    """
    own = move is not None and tenure.holder == move.procedure_id
    if move is None or tenure.holder is None or not (own or tenure.released):
        return GuardedMove(GuardState.NOT_GUARDED)
    guard = GuardedMove(GuardState.NOT_GUARDED)
    for entry, fact in facts_of(entries, Fact):
        by = fact.procedure_id if isinstance(fact, WatchedFact) and fact.procedure_id else entry.procedure_id
        if by != move.procedure_id:
            continue
        # What happened before a later procedure, which has ended without a move, is over.
        counts = own or tenure.since is None or entry.at > tenure.since
        match fact:
            case TargetOpened():
                guard = GuardedMove(GuardState.GUARDED)
            case MoveDefended() if counts:
                guard = GuardedMove(guard.state, entry.at)
            case MoveContested() if counts:
                guard = GuardedMove(GuardState.CONTESTED, guard.defended_at, tuple(fact.contested))
            case RecordsPassed() if counts:
                guard = replace(guard, passed=fact)
    return guard


def contested_text(entries: Iterable[Line], target: str) -> str | None:
    """Return that a procedure's move to the cluster `target` is contested, in sentences; None if it is not.

    Args:
        entries: journal entries of the procedure, and of the watcher about it.
    """
    fact = newest_fact(entries, MoveContested)
    if fact is None:
        return None
    return (
        f"Somebody undoes the move to {target} again and again, last seen at {format_moment(fact.contested_at)}:"
        f" {first_few(fact.contested)}. The watcher acts no more on these clusters until another procedure has begun."
        f" Find out which program does it, and stop this program; then stop the flow to {target}."
    )
