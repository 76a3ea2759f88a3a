"""Armed fences: a source that could not be fenced when its clients left is fenced as soon as it answers.

Invariants
1. Which fences are armed follows from journal entries alone; a journal entry that is repeated changes nothing.
2. A fence stays armed until it is proven, a procedure lets clients onto the source again, or an operator disarms it.
3. Neither the end of the procedure that armed a fence nor the start of another procedure disarms it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import (
    Fact,
    FenceDisarmed,
    FenceToArm,
    Intent,
    Line,
    OldMirrorMakerStopped,
    OldSourceAnswers,
    ProcedureOpened,
    SourceFenced,
    SourceReturned,
    SourceToFence,
    SourceToReopen,
    StepOutcome,
    WatchedFact,
    facts_of,
)
from kafka_dr.vocabulary import Step

#: Values of `fenced` in the outcome of fence_source: fenced by ACL, by the fence hook, or not yet: the fence is armed.
BY_ACL, BY_HOOK, ARMED = "by acl", "by hook", "armed"
#: Steps whose journal entries decide which sources are watched.
TELLING = (Step.OPEN_PROCEDURE, Step.FENCE_SOURCE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE)
#: Steps whose journal entries decide which client move was the last.
MOVING = (Step.OPEN_PROCEDURE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE)


class WatchState(StrEnum):
    """State of the watch over an old source: a source that clients left and whose fence was armed."""

    #: The source is to be fenced as soon as it answers.
    ARMED = "armed"
    #: The source's fence is proven; MirrorMaker 2 is still to be stopped, as soon as its connectors answer.
    FENCED = "fenced"
    #: Nothing is left to do.
    OVER = "over"
    #: An operator ended the watch.
    DISARMED = "disarmed"
    #: A procedure let clients onto the source again; the watcher no longer fences the source.
    REOPENED = "reopened"


@dataclass(frozen=True)
class ArmedFence:
    """A source to be fenced as soon as the source answers.

    Attributes:
        procedure_id: the procedure that moved the clients away from the source.
        topics: the topics to be fenced, by their names on the source.
        source, target: the cluster that clients left, and the cluster that clients moved to.
        since: when the fence was armed.
        answers_since: when the watcher got the source's first answer, ISO 8601; None before the first answer.
    """

    procedure_id: str
    source: str
    target: str
    topics: tuple[str, ...]
    since: datetime
    answers_since: str | None = None


@dataclass(frozen=True)
class WatchedSource:
    """An old source whose fence was armed once, and the state of its watch.

    Attributes:
        reopened_by: id of the procedure that let clients onto the source again; None if none did.
    """

    fence: ArmedFence
    state: WatchState = WatchState.ARMED
    reopened_by: str | None = None


class AcceptedRange(NamedTuple):
    """Records that an old source accepted after its clients had left: [from_offset, to_offset) of one partition.

    Attributes:
        from_offset: the log end when clients left; None if unknown, because every record may then be new.
    """

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


def accepted_ranges(
    known_ends: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[AcceptedRange]:
    """Return the ranges that an old source accepted after clients had left it, sorted; only partitions that grew.

    Args:
        known_ends: the source's log ends recorded when its clients left.
        ends: the source's log ends behind the proven fence.
    """
    grown = [tp for tp in sorted(ends) if ends[tp] > known_ends.get(tp, 0)]
    return [AcceptedRange(*tp, known_ends.get(tp), ends[tp]) for tp in grown]


def shrunk_logs(known_ends: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Return partitions whose log is shorter than in `known_ends`, or deleted, as text: the source lost records."""
    return [
        f"{tp}: {known_ends[tp]} -> {ends.get(tp, 'gone')}"
        for tp in sorted(known_ends)
        if ends.get(tp, -1) < known_ends[tp]
    ]


def armed_fences(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Return the fences of sources that are to be fenced as soon as they answer, the earliest armed first.

    Args:
        entries: journal entries of the steps in `TELLING`, in the journal's order.
    """
    return _fences_in_state(watched_sources(entries), WatchState.ARMED)


def unstopped_sources(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Return the fences of fenced sources whose MirrorMaker 2 must still be stopped, the earliest armed first.

    Args:
        entries: journal entries of the steps in `TELLING`, in the journal's order.
    """
    return _fences_in_state(watched_sources(entries), WatchState.FENCED)


def watched_sources(entries: Iterable[Line]) -> dict[str, WatchedSource]:
    """Return every source whose fence was ever armed, by the id of the procedure that armed the fence.

    Args:
        entries: journal entries of the steps in `TELLING`, in the journal's order.
    """
    sources: dict[str, WatchedSource] = {}
    targets: dict[str, str] = {}
    for entry, fact in facts_of(entries, Fact):
        match fact:
            case ProcedureOpened():
                targets[entry.procedure_id] = fact.target
            case FenceToArm():
                sources[entry.procedure_id] = WatchedSource(
                    _armed_fence(sources.get(entry.procedure_id), entry, fact.arms_fence)
                )
            case Intent() if entry.step == Step.OPEN_TARGET:
                opened_cluster = targets.get(entry.procedure_id)
                sources |= {
                    key: _reopened(watched, entry)
                    for key, watched in sources.items()
                    if watched.fence.source == opened_cluster
                }
            case _:
                procedure_id = _procedure_of(entry, fact)
                if procedure_id in sources:
                    sources[procedure_id] = _watch_after(sources[procedure_id], entry, fact)
    return sources


class LatestMove(NamedTuple):
    """A client move from source to target. After the move the flow source->target must not run.

    Otherwise records would be copied in a circle, unless each direction writes to topics of its own.
    """

    procedure_id: str
    source: str
    target: str

    @property
    def pair(self) -> frozenset[str]:
        """The aliases of both clusters, without order: the same for a move in either direction."""
        return frozenset((self.source, self.target))


def last_moves(entries: Iterable[Line]) -> dict[frozenset[str], LatestMove]:
    """Return pair of aliases -> the last client move between these clusters that was begun and not undone.

    Args:
        entries: journal entries of the steps in `MOVING`, in the journal's order.
    """
    opened_moves: dict[str, LatestMove] = {}
    begun_moves: dict[str, LatestMove] = {}
    for entry, fact in facts_of(entries, Fact):
        if isinstance(fact, ProcedureOpened):
            opened_moves[entry.procedure_id] = LatestMove(entry.procedure_id, fact.source, fact.target)
        elif (
            entry.step == Step.OPEN_TARGET
            and isinstance(fact, Intent | StepOutcome)
            and entry.procedure_id in opened_moves
        ):
            begun_moves.setdefault(entry.procedure_id, opened_moves[entry.procedure_id])
        elif isinstance(fact, SourceToReopen):
            begun_moves.pop(entry.procedure_id, None)
    return {move.pair: move for move in begun_moves.values()}


def _fences_in_state(sources: Mapping[str, WatchedSource], state: WatchState) -> tuple[ArmedFence, ...]:
    fences = (watched.fence for watched in sources.values() if watched.state is state)
    return tuple(sorted(fences, key=lambda fence: (fence.since, fence.procedure_id)))


def _armed_fence(earlier: WatchedSource | None, entry: Line, to_fence: SourceToFence) -> ArmedFence:
    """Return the armed fence; if the fence was armed before (`earlier`), its `since` and `answers_since` remain."""
    fence = ArmedFence(entry.procedure_id, to_fence.source, to_fence.target, tuple(to_fence.topics), entry.at)
    if earlier is None or earlier.state is not WatchState.ARMED:
        return fence
    return replace(fence, since=earlier.fence.since, answers_since=earlier.fence.answers_since)


def _reopened(watched: WatchedSource, entry: Line) -> WatchedSource:
    return replace(watched, state=WatchState.REOPENED, reopened_by=entry.procedure_id)


def _procedure_of(entry: Line, fact: Fact) -> str | None:
    """Return the id of the procedure whose old source a journal entry is about: by the fact, else by the entry."""
    if isinstance(fact, FenceDisarmed):
        return fact.disarms_fence
    return fact.procedure_id if isinstance(fact, WatchedFact) and fact.procedure_id else entry.procedure_id


def _watch_after(watched: WatchedSource, entry: Line, fact: Fact) -> WatchedSource:
    """Return the watch as it is after a journal entry; unchanged if the entry is of no importance to the watch.

    Only a new FenceToArm, which `watched_sources` handles, restarts a watch that ended.
    """
    match fact:
        case SourceToReopen() | SourceReturned():
            return _reopened(watched, entry)
        case OldSourceAnswers() if watched.state is WatchState.ARMED:
            answers_since = watched.fence.answers_since or fact.answers_since
            return replace(watched, fence=replace(watched.fence, answers_since=answers_since))
        case SourceFenced() if fact.fenced != ARMED:
            state = WatchState.OVER
        case OldMirrorMakerStopped():
            state = WatchState.OVER if fact.mirror_maker_stopped else WatchState.FENCED
        case FenceDisarmed():
            state = WatchState.DISARMED
        case _:
            return watched
    return replace(watched, state=state) if watched.state in (WatchState.ARMED, WatchState.FENCED) else watched
