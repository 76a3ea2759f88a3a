"""Armed fences: sources that could not be fenced when their clients left, and that are fenced as soon as they
answer.

Invariants
1. What is armed follows from journal entries alone; repeated entries change nothing.
2. A fence stays armed until it was proven, the source was given back or opened to clients again, or somebody disarmed
   it.
3. Nobody's silence disarms: neither the end of the procedure nor another procedure's beginning does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.vocabulary import Entry, Step

#: Keys of payloads that arm, disarm, and say since when an armed source answers.
ARMS, DISARMS, ANSWERS_SINCE = "arms_fence", "disarms_fence", "answers_since"
#: What fence_source says of a source: how it is fenced, or that it could only be armed.
BY_ACL, BY_HOOK, ARMED = "by acl", "by hook", "armed"
#: Steps whose entries are looked at.
TELLING = (Step.OPEN_PROCEDURE, Step.FENCE_SOURCE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE, Step.WATCH_OLD_SOURCE)
#: Steps whose entries say which way clients were moved last.
MOVING = (Step.OPEN_PROCEDURE, Step.OPEN_TARGET, Step.RETURN_TO_SOURCE)


class Line(Protocol):
    """One journal entry, as far as it is looked at."""

    @property
    def procedure_id(self) -> str:
        """Whose entry it is."""

    @property
    def step(self) -> str:
        """The step that wrote it."""

    @property
    def kind(self) -> str:
        """Which kind of entry."""

    @property
    def at(self) -> datetime:
        """When, in UTC."""

    @property
    def payload(self) -> Any:
        """What it says."""


class Watch(StrEnum):
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
class Watched:
    """An old source that was armed once, and how far its watch is.

    Attributes:
        reopened_by: the procedure that let clients onto it again.
    """

    fence: ArmedFence
    state: Watch = Watch.ARMED
    reopened_by: str | None = None


class Accepted(NamedTuple):
    """Records that an old source accepted after it was left: [from_offset, to_offset) of one partition.

    Attributes:
        from_offset: None where nobody knows how far the partition had been read: then everything in it may be new.
    """

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


def accepted(known: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[Accepted]:
    """What lies above the ends that were known when the source was left, sorted; a partition without a row took
    nothing.

    Args:
        ends: log ends behind the proven fence.
    """
    grown = [tp for tp in sorted(ends) if ends[tp] > known.get(tp, 0)]
    return [Accepted(*tp, known.get(tp), ends[tp]) for tp in grown]


def shrunk(known: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions whose log is shorter than it was known to be, or gone: the source lost records when it died."""
    return [f"{tp}: {known[tp]} -> {ends.get(tp, 'gone')}" for tp in sorted(known) if ends.get(tp, -1) < known[tp]]


def armed_fences(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Sources to be fenced as soon as they answer, those armed first first.

    Args:
        entries: of the steps of `TELLING`, in the journal's order.
    """
    return _in(watched(entries), Watch.ARMED)


def unstopped(entries: Iterable[Line]) -> tuple[ArmedFence, ...]:
    """Sources that are fenced, and whose MirrorMaker 2 has to be stopped as soon as it answers; entries as of
    `armed_fences`.
    """
    return _in(watched(entries), Watch.FENCED)


def watched(entries: Iterable[Line]) -> dict[str, Watched]:
    """By procedure, every source that was ever armed; entries as of `armed_fences`."""
    known: dict[str, Watched] = {}
    targets: dict[str, str] = {}
    for entry in entries:
        if (entry.step, entry.kind) == (Step.OPEN_PROCEDURE, Entry.OPENED):
            targets[entry.procedure_id] = str(entry.payload["target"])
        known |= dict(_changed(known, entry, targets))
    return known


class Move(NamedTuple):
    """A change of sides: since then nothing may be replicated from its source to its target where names do not part
    the directions.
    """

    procedure_id: str
    source: str
    target: str

    @property
    def pair(self) -> frozenset[str]:
        """The clusters, in no order."""
        return frozenset((self.source, self.target))


def last_moves(entries: Iterable[Line]) -> dict[frozenset[str], Move]:
    """By pair of clusters, the last change of sides that was begun and not taken back.

    Args:
        entries: of the steps of `MOVING`, in the journal's order.
    """
    opened: dict[str, Move] = {}
    made: dict[str, Move] = {}
    for entry in entries:
        if (entry.step, entry.kind) == (Step.OPEN_PROCEDURE, Entry.OPENED):
            opened[entry.procedure_id] = Move(
                entry.procedure_id, str(entry.payload["source"]), str(entry.payload["target"])
            )
        elif (
            entry.step == Step.OPEN_TARGET
            and entry.kind in (Entry.INTENT, Entry.OUTCOME)
            and entry.procedure_id in opened
        ):
            made.setdefault(entry.procedure_id, opened[entry.procedure_id])
        elif (
            entry.step == Step.RETURN_TO_SOURCE
            and isinstance(entry.payload, Mapping)
            and "reopens_source" in entry.payload
        ):
            made.pop(entry.procedure_id, None)
    return {move.pair: move for move in made.values()}


def _in(known: Mapping[str, Watched], state: Watch) -> tuple[ArmedFence, ...]:
    found = (one.fence for one in known.values() if one.state is state)
    return tuple(sorted(found, key=lambda fence: (fence.since, fence.procedure_id)))


def _changed(known: Mapping[str, Watched], entry: Line, targets: Mapping[str, str]) -> Iterator[tuple[str, Watched]]:
    """What one entry changes."""
    payload = entry.payload if isinstance(entry.payload, Mapping) else {}
    if entry.step == Step.FENCE_SOURCE and ARMS in payload:
        yield entry.procedure_id, Watched(_armed(known.get(entry.procedure_id), entry, payload[ARMS]))
    elif entry.step == Step.OPEN_TARGET and entry.kind == Entry.INTENT:
        opened = targets.get(entry.procedure_id)
        yield from (
            (key, replace(one, state=Watch.REOPENED, reopened_by=entry.procedure_id))
            for key, one in known.items()
            if one.fence.source == opened
        )
    else:
        key, told = _own(entry, payload)
        if told is not None and key in known:
            yield key, _told(known[key], told, payload, entry)


def _armed(before: Watched | None, entry: Line, told: Mapping[str, Any]) -> ArmedFence:
    """Armed again while it is armed, it is so since the first time."""
    fence = ArmedFence(entry.procedure_id, str(told["source"]), str(told["target"]), tuple(told["topics"]), entry.at)
    if before is None or before.state is not Watch.ARMED:
        return fence
    return replace(fence, since=before.fence.since, answers_since=before.fence.answers_since)


def _own(entry: Line, payload: Mapping[str, Any]) -> tuple[str, Watch | None]:
    """The procedure whose source an entry is about, and how far its watch is then; None where it says nothing of
    that.
    """
    if entry.step == Step.FENCE_SOURCE and entry.kind == Entry.OUTCOME and payload.get("fenced") in (BY_ACL, BY_HOOK):
        return entry.procedure_id, Watch.OVER
    if entry.step == Step.RETURN_TO_SOURCE and (entry.kind == Entry.OUTCOME or "reopens_source" in payload):
        return entry.procedure_id, Watch.REOPENED
    if entry.step != Step.WATCH_OLD_SOURCE:
        return "", None
    if DISARMS in payload:
        return str(payload[DISARMS]), Watch.DISARMED
    about = str(payload.get("procedure_id", ""))
    if entry.kind == Entry.OUTCOME:
        return about, Watch.OVER if payload.get("mirror_maker_stopped") else Watch.FENCED
    return about, Watch.ARMED if ANSWERS_SINCE in payload else None


def _told(known: Watched, state: Watch, payload: Mapping[str, Any], entry: Line) -> Watched:
    """The watch after an entry: it goes on from armed to fenced to over, and what ended is not begun again."""
    if state is Watch.ARMED:
        first = known.fence.answers_since or str(payload[ANSWERS_SINCE])
        return replace(known, fence=replace(known.fence, answers_since=first)) if known.state is Watch.ARMED else known
    if state is Watch.REOPENED:
        return replace(known, state=state, reopened_by=entry.procedure_id)
    if known.state in (Watch.OVER, Watch.DISARMED, Watch.REOPENED):
        return known
    return replace(known, state=state)
