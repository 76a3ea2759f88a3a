"""Whether the source is lost, by the looks of several views in several rounds over a window.

Invariants
1. Lost means: in every round the view from here got no answer from the source, and no other view got an answer.
2. A single answer to any view in any round counts: clients may still use the source.
3. A view that could not look counts neither for nor against.
4. Only a lost source lets the procedure go on by itself. A source that refuses writes, is slow, answers, or whose state
   is undecided needs a reason and a second person: it may recover at any moment, and clients that still reach it would
   write on both clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: The view without which a source is never called lost: the orchestrator's own.
FROM_HERE = "here"
FROM_CONNECT = "connect"
FROM_APPLICATION = "application"


class Sight(StrEnum):
    """Result of one look of one view.

    ANSWERS: metadata, and a write was acknowledged or refused for want of rights (by a broker that is alive); metadata
    alone if no write could be tried. REFUSES_WRITES: metadata, but no write was acknowledged: no leader, too few
    replicas, a full disk, no answer in time. SLOW: the source answered, later than the stated limit.
    GONE: no answer within the time allowed.
    UNKNOWN: this view could not look; the look says nothing about the source.
    """

    ANSWERS = "answers"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    GONE = "gone"
    UNKNOWN = "unknown"


class SourceState(StrEnum):
    """State of the source by all looks together."""

    LOST = "lost"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    ANSWERS = "answers"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Look:
    """One look of one view.

    Attributes:
        view: name of the view: here, Connect's, the application's.
        words: the observation, as text for people.
        seconds: how long the look took.
        at: when the look began, ISO 8601 UTC.
        round: number of the round, from 0.
    """

    view: str
    sight: Sight
    words: str
    seconds: float
    at: str
    round: int = 0

    def told(self) -> dict[str, Any]:
        """The look's time and result, as plain data."""
        return {"at": self.at, "sight": self.sight.value, "words": self.words, "seconds": self.seconds}


@dataclass(frozen=True)
class ViewsStory:
    """One view's looks over all rounds.

    Attributes:
        saw: number of looks by result.
        first: the view's first look.
        last: the view's last look.
    """

    view: str
    saw: dict[str, int]
    first: Look
    last: Look

    def as_dict(self) -> dict[str, Any]:
        """One view of the source as plain data: how often each sight was seen, the first look and the last."""
        return {"view": self.view, "saw": self.saw, "first": self.first.told(), "last": self.last.told()}

    def __str__(self) -> str:
        counts = ", ".join(f"{sight.replace('_', ' ')} {count}x" for sight, count in self.saw.items())
        return f"from {self.view}: {counts}, at last {self.last.words}"


@dataclass(frozen=True)
class LossVerdict:
    """The source's state over a window, and each view's looks.

    Attributes:
        rounds: how often every view was to look.
        views: the views in the order of their first looks.
    """

    state: SourceState
    rounds: int
    views: tuple[ViewsStory, ...]

    @property
    def lost(self) -> bool:
        """Whether the procedure may go on by itself."""
        return self.state is SourceState.LOST

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain data for the journal."""
        return {"state": self.state.value, "rounds": self.rounds, "views": [view.as_dict() for view in self.views]}

    def __str__(self) -> str:
        return "; ".join(map(str, self.views)) or "nobody looked"


def verdict_of(looks: Iterable[Look], rounds: int) -> LossVerdict:
    """The verdict of all looks together.

    Args:
        looks: looks of all views, in the order in which they were taken.
        rounds: number of rounds; in a round without looks no view could look.
    """
    taken = sorted(looks, key=lambda look: look.round)
    return LossVerdict(_state(taken, rounds), rounds, _stories(taken))


def _state(looks: Sequence[Look], rounds: int) -> SourceState:
    if any(look.sight is Sight.ANSWERS for look in looks):
        return SourceState.ANSWERS
    gone_from_here = {look.round for look in looks if look.view == FROM_HERE and look.sight is Sight.GONE}
    no_view_saw_it = all(look.sight in (Sight.GONE, Sight.UNKNOWN) for look in looks)
    if no_view_saw_it and rounds > 0 and gone_from_here >= set(range(rounds)):
        return SourceState.LOST
    return _state_by_last_looks(looks)


def _state_by_last_looks(looks: Sequence[Look]) -> SourceState:
    """The commonest result among the last looks of each view; refused writes in a tie."""
    last_sights = {look.view: look.sight for look in looks if look.sight is not Sight.UNKNOWN}
    counts = Counter(last_sights.values())
    if not counts[Sight.REFUSES_WRITES] and not counts[Sight.SLOW]:
        return SourceState.UNDECIDED
    return SourceState.REFUSES_WRITES if counts[Sight.REFUSES_WRITES] >= counts[Sight.SLOW] else SourceState.SLOW


def _stories(looks: Sequence[Look]) -> tuple[ViewsStory, ...]:
    by_view: dict[str, list[Look]] = {}
    for look in looks:
        by_view.setdefault(look.view, []).append(look)
    return tuple(
        ViewsStory(view, dict(Counter(look.sight.value for look in view_looks)), view_looks[0], view_looks[-1])
        for view, view_looks in by_view.items()
    )
