"""Whether the source is lost, judged by looks from several views, in several rounds.

A view is a place that sends requests to the source: the orchestrator, Connect, the application. A look is one request.

Invariants
1. Lost means: in every round the orchestrator's own view got no answer from the source, and no other view ever got any.
2. A single answer to any view in any round counts: clients may still use the source.
3. A look that could not be made says nothing about the source. If the orchestrator's view lacks a look in a round, the
   source is not called lost.
4. Only with a lost source may the procedure continue without an override. If the source refuses writes, is slow,
   answers, or its state is undecided, a reason and a second person are needed: the source may recover at any moment,
   and clients that still reach the source would write on the source while other clients write on the target.
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
    """Result of one look: one request from one view to the source.

    ANSWERS: the source gave metadata, and acknowledged a write or refused it for lack of rights (as only a live broker
    can); metadata alone if no write could be tried. REFUSES_WRITES: metadata, but no write was acknowledged: no leader,
    too few replicas, a full disk, no answer in time. SLOW: the source answered, but later than `slow_seconds`.
    GONE: no answer within the time allowed.
    UNKNOWN: the view could not make the request, so the look says nothing about the source.
    """

    ANSWERS = "answers"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    GONE = "gone"
    UNKNOWN = "unknown"


class SourceState(StrEnum):
    """State of the source, judged by all looks of all views together."""

    LOST = "lost"
    REFUSES_WRITES = "refuses_writes"
    SLOW = "slow"
    ANSWERS = "answers"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Look:
    """One look: one request from one view to the source.

    Attributes:
        view: name of the view: `here` (the orchestrator's), `connect` or `application`.
        sight: the result.
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

    def as_fields(self) -> dict[str, Any]:
        """Return when the look began, its result, its observation as text and its seconds, as plain data."""
        return {"at": self.at, "sight": self.sight.value, "words": self.words, "seconds": self.seconds}


@dataclass(frozen=True)
class ViewsStory:
    """Summary of one view's looks over all rounds.

    Attributes:
        saw: result of a look -> number of looks with this result.
        first: the view's first look.
        last: the view's last look.
    """

    view: str
    saw: dict[str, int]
    first: Look
    last: Look

    def as_dict(self) -> dict[str, Any]:
        """Return as plain data: the view's name, its number of looks by result, its first look and its last look."""
        return {"view": self.view, "saw": self.saw, "first": self.first.as_fields(), "last": self.last.as_fields()}

    def __str__(self) -> str:
        counts = ", ".join(f"{sight.replace('_', ' ')} {count}x" for sight, count in self.saw.items())
        return f"from {self.view}: {counts}, last result: {self.last.words}"


@dataclass(frozen=True)
class LossVerdict:
    """The source's state, judged by all looks, and a summary of each view's looks.

    Attributes:
        rounds: number of rounds that were due; in each, every view was to send one request. A round in which a view
            got an answer is the last.
        views: the views in the order of their first looks.
    """

    state: SourceState
    rounds: int
    views: tuple[ViewsStory, ...]

    @property
    def lost(self) -> bool:
        """Whether the source is lost: only then may the procedure continue without an override."""
        return self.state is SourceState.LOST

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data for the journal."""
        return {"state": self.state.value, "rounds": self.rounds, "views": [view.as_dict() for view in self.views]}

    def __str__(self) -> str:
        return "; ".join(map(str, self.views)) or "no view has checked the source"


def verdict_of(looks: Iterable[Look], rounds: int) -> LossVerdict:
    """Return the source's state, judged by all looks together, with a summary of each view's looks.

    Args:
        looks: looks of all views, in the order in which they were taken.
        rounds: number of rounds that were due, including rounds in which no request was made.
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
    """Return REFUSES_WRITES or SLOW: the one that is the last result of more views; UNDECIDED if no view has either.

    REFUSES_WRITES if equally many views have each. Looks that could not be made are left out.
    """
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
