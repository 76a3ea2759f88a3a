"""Armed fences: a source that could not be fenced when its clients left is fenced as soon as it answers.

Invariants
1. The armed fences follow from journal entries alone; repeated entries change nothing.
2. A fence stays armed until the fence is proven, the source is returned or reopened to clients, or an operator disarms
   the fence.
3. Neither the end of the procedure nor the start of another procedure disarms a fence.
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

#: Values of `fenced` in the outcome of fence_source: how the source is fenced, or that its fence is only armed.
BY_ACL, BY_HOOK, ARMED = "by acl", "by hook", "armed"
#: Steps whose entries decide which sources are watched.
TELLING = (Step.OPEN_PROCEDURE, Step.FENCE_SOURCE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE)
#: Steps whose entries decide the last client move.
MOVING = (Step.OPEN_PROCEDURE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE)


class WatchState(StrEnum):
    """State of the watch over an old source."""

    #: The source is to be fenced as soon as it answers.
    ARMED = "armed"
    #: The source's fence is proven; its MirrorMaker 2 has not answered completely, and is to be stopped once it does.
    FENCED = "fenced"
    #: Nothing is left to do.
    OVER = "over"
    #: An operator ended the watch.
    DISARMED = "disarmed"
    #: Clients were let onto the source again: the source must not be fenced any more.
    REOPENED = "reopened"


@dataclass(frozen=True)
class ArmedFence:
    """A source to be fenced as soon as the source answers.

    Attributes:
        procedure_id: the procedure that moved the clients away from the source.
        topics: names on the source of the topics to be fenced.
        since: when the fence was armed.
        answers_since: when the watcher got the source's first answer, ISO 8601; None before.
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
        reopened_by: the procedure that let clients onto the source again.
    """

    fence: ArmedFence
    state: WatchState = WatchState.ARMED
    reopened_by: str | None = None


class AcceptedRange(NamedTuple):
    """Records that an old source accepted after its clients had left: [from_offset, to_offset) of one partition.

    Attributes:
        from_offset: None if the log end at that time is unknown: then every record of the partition may be new.
    """

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


def accepted_ranges(
    known_ends: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[AcceptedRange]:
    """List the ranges above the log ends known when clients left the source, sorted; omit unchanged partitions.

    Args:
        known_ends: log ends known when clients left the source.
        ends: log ends behind the proven fence.
    """
    grown = [tp for tp in sorted(ends) if ends[tp] > known_ends.get(tp, 0)]
    return [AcceptedRange(*tp, known_ends.get(tp), ends[tp]) for tp in grown]


def shrunk_logs(known_ends: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions whose log is shorter than last known, or gone: the source lost records when it died."""
    return [
        f"{tp}: {known_ends[tp]} -> {ends.get(tp, 'gone')}"
        for tp in sorted(known_ends)
        if ends.get(tp, -1) < known_ends[tp]
    ]


def armed_fences(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Sources to be fenced as soon as they answer, the earliest armed first.

    Args:
        entries: journal entries of the steps in `TELLING`, in the journal's order.
    """
    return _fences_in_state(watched_sources(entries), WatchState.ARMED)


def unstopped_sources(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Fenced sources whose MirrorMaker 2 is to be stopped as soon as it answers; entries as of `armed_fences`."""
    return _fences_in_state(watched_sources(entries), WatchState.FENCED)


def watched_sources(entries: Iterable[Line]) -> dict[str, WatchedSource]:
    """Every source whose fence was ever armed, by procedure id; entries as of `armed_fences`."""
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
    """A client move: from then on the flow source->target must not run, unless naming separates directions."""

    procedure_id: str
    source: str
    target: str

    @property
    def pair(self) -> frozenset[str]:
        """Both clusters, unordered."""
        return frozenset((self.source, self.target))


def last_moves(entries: Iterable[Line]) -> dict[frozenset[str], LatestMove]:
    """The last client move of each pair of clusters that was begun and not undone, by pair.

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
    """Arm a fence; a fence that is armed already keeps its first times."""
    fence = ArmedFence(entry.procedure_id, to_fence.source, to_fence.target, tuple(to_fence.topics), entry.at)
    if earlier is None or earlier.state is not WatchState.ARMED:
        return fence
    return replace(fence, since=earlier.fence.since, answers_since=earlier.fence.answers_since)


def _reopened(watched: WatchedSource, entry: Line) -> WatchedSource:
    return replace(watched, state=WatchState.REOPENED, reopened_by=entry.procedure_id)


def _procedure_of(entry: Line, fact: Fact) -> str | None:
    """The procedure whose source the fact concerns."""
    if isinstance(fact, FenceDisarmed):
        return fact.disarms_fence
    return fact.procedure_id if isinstance(fact, WatchedFact) and fact.procedure_id else entry.procedure_id


def _watch_after(watched: WatchedSource, entry: Line, fact: Fact) -> WatchedSource:
    """The watch after a fact: armed, then fenced, then over; only a new FenceToArm restarts a watch that ended."""
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
