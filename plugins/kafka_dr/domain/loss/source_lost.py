"""Whether the source is lost, by what several views saw of it in several rounds over a window.

Invariants
1. Lost means: in every round at least one view could look, every view that could look found nobody, and the view from
   here was among them.
2. Whoever saw the source answer, in whichever round, is believed: somebody may still use it.
3. A view that could not look says nothing, neither for nor against.
4. Only a lost source lets the procedure go on by itself. One that refuses writes, is slow, answers, or of which nobody
   can tell, needs a reason and a second person: in a moment it may be what it was, and clients that still reach it
   would write on both sides.
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
    """What one look of one view found.

    ANSWERS: metadata, and a write was acknowledged or refused for want of rights (by a broker that lives); metadata
    alone where no write could be tried. REFUSES_WRITES: metadata, but no write was acknowledged: no leader, too few
    replicas, a full disk, no answer in time. SLOW: it answered, later than the stated limit.
    GONE: nothing within the time allowed.
    UNKNOWN: this view could not look; it says nothing about the source.
    """

    ANSWERS = "answers"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    GONE = "gone"
    UNKNOWN = "unknown"


class SourceState(StrEnum):
    """What all looks together say."""

    LOST = "lost"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    ANSWERS = "answers"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Look:
    """One look of one view.

    Attributes:
        view: who looked.
        words: what was seen, for people.
        seconds: how long the look took.
        at: when it began, ISO 8601 UTC.
        round: in which round, from 0.
    """

    view: str
    sight: Sight
    words: str
    seconds: float
    at: str
    round: int = 0

    def told(self) -> dict[str, Any]:
        """What was seen and when, as plain data."""
        return {"at": self.at, "sight": self.sight.value, "words": self.words, "seconds": self.seconds}


@dataclass(frozen=True)
class ViewsStory:
    """What one view saw, over all rounds.

    Attributes:
        saw: how many looks found what.
        first: its first look.
        last: its last look.
    """

    view: str
    saw: dict[str, int]
    first: Look
    last: Look

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"view": self.view, "saw": self.saw, "first": self.first.told(), "last": self.last.told()}

    def __str__(self) -> str:
        counts = ", ".join(f"{sight.replace('_', ' ')} {count}x" for sight, count in self.saw.items())
        return f"from {self.view}: {counts}, at last {self.last.words}"


@dataclass(frozen=True)
class LossVerdict:
    """The source's state over a window, and who saw what.

    Attributes:
        rounds: how often every view was to look.
        views: in the order in which they first looked.
    """

    state: SourceState
    rounds: int
    views: tuple[ViewsStory, ...]

    @property
    def lost(self) -> bool:
        """Whether the procedure may go on by itself."""
        return self.state is SourceState.LOST

    def as_dict(self) -> dict[str, Any]:
        """As plain data for the journal."""
        return {"state": self.state.value, "rounds": self.rounds, "views": [view.as_dict() for view in self.views]}

    def __str__(self) -> str:
        return "; ".join(map(str, self.views)) or "nobody looked"


def verdict_of(looks: Iterable[Look], rounds: int) -> LossVerdict:
    """What all looks say together.

    Args:
        looks: of all views, in the order in which they were taken.
        rounds: how many rounds there were; one without looks is one in which nobody could look.
    """
    taken = sorted(looks, key=lambda look: look.round)
    return LossVerdict(_state(taken, rounds), rounds, _stories(taken))


def _state(looks: Sequence[Look], rounds: int) -> SourceState:
    if any(look.sight is Sight.ANSWERS for look in looks):
        return SourceState.ANSWERS
    gone_from_here = {look.round for look in looks if look.view == FROM_HERE and look.sight is Sight.GONE}
    nobody_saw_it = all(look.sight in (Sight.GONE, Sight.UNKNOWN) for look in looks)
    if nobody_saw_it and rounds > 0 and gone_from_here >= set(range(rounds)):
        return SourceState.LOST
    return _at_last(looks)


def _at_last(looks: Sequence[Look]) -> SourceState:
    """What most views saw when each could look for the last time; of equally many, the refused writes."""
    last = {look.view: look.sight for look in looks if look.sight is not Sight.UNKNOWN}
    seen = Counter(last.values())
    if not seen[Sight.REFUSES_WRITES] and not seen[Sight.SLOW]:
        return SourceState.UNDECIDED
    return SourceState.REFUSES_WRITES if seen[Sight.REFUSES_WRITES] >= seen[Sight.SLOW] else SourceState.SLOW


def _stories(looks: Sequence[Look]) -> tuple[ViewsStory, ...]:
    by_view: dict[str, list[Look]] = {}
    for look in looks:
        by_view.setdefault(look.view, []).append(look)
    return tuple(
        ViewsStory(view, dict(Counter(look.sight.value for look in mine)), mine[0], mine[-1])
        for view, mine in by_view.items()
    )
