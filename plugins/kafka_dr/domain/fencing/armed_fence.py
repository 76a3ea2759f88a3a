"""Armed fences: sources not fenced when their clients left; they are fenced as soon as they answer.

Invariants
1. What is armed follows from journal entries alone; repeated entries change nothing.
2. A fence stays armed until it was proven, the source was given back or opened to clients again, or somebody disarmed
   it.
3. Nobody's silence disarms: neither the end of the procedure nor another procedure's beginning does.
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

#: What fence_source says of a source: how it is fenced, or that it could only be armed.
BY_ACL, BY_HOOK, ARMED = "by acl", "by hook", "armed"
#: Steps whose entries are looked at.
TELLING = (Step.OPEN_PROCEDURE, Step.FENCE_SOURCE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE)
#: Steps whose entries say which way clients were moved last.
MOVING = (Step.OPEN_PROCEDURE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE)


class WatchState(StrEnum):
    """How far the watch over an old source is."""

    #: It is fenced as soon as it answers.
    ARMED = "armed"
    #: It is fenced and that is proven; some MirrorMaker 2 of it did not answer yet, and is stopped as soon as it does.
    FENCED = "fenced"
    #: Nothing is left to do.
    OVER = "over"
    #: Somebody took it over.
    DISARMED = "disarmed"
    #: Clients were let onto it again: it must not be fenced any more.
    REOPENED = "reopened"


@dataclass(frozen=True)
class ArmedFence:
    """A source to be fenced as soon as it answers.

    Attributes:
        procedure_id: which procedure its clients left it with.
        topics: what clients may not write to, by names on the source.
        since: when it was armed.
        answers_since: when the watcher first saw it answer, ISO 8601; None while it did not.
    """

    procedure_id: str
    source: str
    target: str
    topics: tuple[str, ...]
    since: datetime
    answers_since: str | None = None


@dataclass(frozen=True)
class WatchedSource:
    """An old source that was armed once, and how far its watch is.

    Attributes:
        reopened_by: the procedure that let clients onto it again.
    """

    fence: ArmedFence
    state: WatchState = WatchState.ARMED
    reopened_by: str | None = None


class AcceptedRange(NamedTuple):
    """Records that an old source accepted after it was left: [from_offset, to_offset) of one partition.

    Attributes:
        from_offset: None where nobody knows how far the partition had been read: then everything in it may be new.
    """

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


def accepted_ranges(known: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[AcceptedRange]:
    """List what lies above the ends known when the source was left, sorted; omit partitions that took nothing.

    Args:
        ends: log ends behind the proven fence.
    """
    grown = [tp for tp in sorted(ends) if ends[tp] > known.get(tp, 0)]
    return [AcceptedRange(*tp, known.get(tp), ends[tp]) for tp in grown]


def shrunk_logs(known: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions whose log is shorter than it was known to be, or gone: the source lost records when it died."""
    return [f"{tp}: {known[tp]} -> {ends.get(tp, 'gone')}" for tp in sorted(known) if ends.get(tp, -1) < known[tp]]


def armed_fences(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Sources to be fenced as soon as they answer, those armed first first.

    Args:
        entries: of the steps of `TELLING`, in the journal's order.
    """
    return _in(watched_sources(entries), WatchState.ARMED)


def unstopped_sources(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Sources that are fenced and whose MirrorMaker 2 must be stopped as soon as it answers."""
    return _in(watched_sources(entries), WatchState.FENCED)


def watched_sources(entries: Iterable[Line]) -> dict[str, WatchedSource]:
    """By procedure, every source that was ever armed; entries as of `armed_fences`."""
    known: dict[str, WatchedSource] = {}
    targets: dict[str, str] = {}
    for entry, fact in facts_of(entries, Fact):
        match fact:
            case ProcedureOpened():
                targets[entry.procedure_id] = fact.target
            case FenceToArm():
                known[entry.procedure_id] = WatchedSource(_armed(known.get(entry.procedure_id), entry, fact.arms_fence))
            case Intent() if entry.step == Step.OPEN_TARGET:
                opened = targets.get(entry.procedure_id)
                known |= {key: _reopened(one, entry) for key, one in known.items() if one.fence.source == opened}
            case _:
                procedure_id = _concerned(entry, fact)
                if procedure_id in known:
                    known[procedure_id] = _after(known[procedure_id], entry, fact)
    return known


class ClientMove(NamedTuple):
    """A change of sides: from then on the flow source->target must not run, where names do not part directions."""

    procedure_id: str
    source: str
    target: str

    @property
    def pair(self) -> frozenset[str]:
        """The clusters, in no order."""
        return frozenset((self.source, self.target))


def last_moves(entries: Iterable[Line]) -> dict[frozenset[str], ClientMove]:
    """By pair of clusters, the last change of sides that was begun and not taken back.

    Args:
        entries: of the steps of `MOVING`, in the journal's order.
    """
    opened: dict[str, ClientMove] = {}
    made: dict[str, ClientMove] = {}
    for entry, fact in facts_of(entries, Fact):
        if isinstance(fact, ProcedureOpened):
            opened[entry.procedure_id] = ClientMove(entry.procedure_id, fact.source, fact.target)
        elif entry.step == Step.OPEN_TARGET and isinstance(fact, Intent | StepOutcome) and entry.procedure_id in opened:
            made.setdefault(entry.procedure_id, opened[entry.procedure_id])
        elif isinstance(fact, SourceToReopen):
            made.pop(entry.procedure_id, None)
    return {move.pair: move for move in made.values()}


def _in(known: Mapping[str, WatchedSource], state: WatchState) -> tuple[ArmedFence, ...]:
    found = (one.fence for one in known.values() if one.state is state)
    return tuple(sorted(found, key=lambda fence: (fence.since, fence.procedure_id)))


def _armed(before: WatchedSource | None, entry: Line, wanted: SourceToFence) -> ArmedFence:
    """Armed again while it is armed, it is so since the first time."""
    fence = ArmedFence(entry.procedure_id, wanted.source, wanted.target, tuple(wanted.topics), entry.at)
    if before is None or before.state is not WatchState.ARMED:
        return fence
    return replace(fence, since=before.fence.since, answers_since=before.fence.answers_since)


def _reopened(known: WatchedSource, entry: Line) -> WatchedSource:
    return replace(known, state=WatchState.REOPENED, reopened_by=entry.procedure_id)


def _concerned(entry: Line, fact: Fact) -> str | None:
    """The procedure whose source a fact is about."""
    if isinstance(fact, FenceDisarmed):
        return fact.disarms_fence
    return fact.procedure_id if isinstance(fact, WatchedFact) and fact.procedure_id else entry.procedure_id


def _after(known: WatchedSource, entry: Line, fact: Fact) -> WatchedSource:
    """The watch after a fact: it goes on from armed to fenced to over, and what ended is not begun again."""
    match fact:
        case SourceToReopen() | SourceReturned():
            return _reopened(known, entry)
        case OldSourceAnswers() if known.state is WatchState.ARMED:
            first = known.fence.answers_since or fact.answers_since
            return replace(known, fence=replace(known.fence, answers_since=first))
        case SourceFenced() if fact.fenced != ARMED:
            state = WatchState.OVER
        case OldMirrorMakerStopped():
            state = WatchState.OVER if fact.mirror_maker_stopped else WatchState.FENCED
        case FenceDisarmed():
            state = WatchState.DISARMED
        case _:
            return known
    return replace(known, state=state) if known.state in (WatchState.ARMED, WatchState.FENCED) else known
