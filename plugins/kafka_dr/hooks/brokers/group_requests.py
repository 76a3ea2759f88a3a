"""Requests to group coordinators on their way: many at once, each settled on its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as WirePartition

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.client import in_batches, is_transient

_T = TypeVar("_T")

OK = "ok"
GROUP_IS_ACTIVE = "group is active"
_ACTIVE = frozenset(
    getattr(KafkaError, name)
    for name in (
        "UNKNOWN_MEMBER_ID",
        "NON_EMPTY_GROUP",
        "ILLEGAL_GENERATION",
        "REBALANCE_IN_PROGRESS",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
    )
)
_COMMIT_LIMIT = 5_000


class Position(NamedTuple):
    """A committed position: the next offset to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class PositionColumns(NamedTuple):
    """Committed positions of many groups, column by column: ten thousand groups hold a million of them."""

    group: list[str]
    topic: list[str]
    partition: list[int]
    position: list[int]

    def add(self, group: str, held: Iterable[Any]) -> None:
        """Take in one group's answer; librdkafka marks a partition without a position by a negative offset."""
        committed = [p for p in held if p.offset >= 0]
        self.group.extend([group] * len(committed))
        self.topic.extend([p.topic for p in committed])
        self.partition.extend([p.partition for p in committed])
        self.position.extend([p.offset for p in committed])


class GroupCommit:
    """One group's positions on their way; done when each has an outcome."""

    def __init__(self, group: str, wanted: Mapping[TopicPartition, int | Position]) -> None:
        self.group = group
        self.wanted = dict(wanted)
        self.plain = self.wanted if _all_plain(self.wanted) else None
        if not group:
            self.outcomes = dict.fromkeys(self.wanted, "INVALID_GROUP_ID")
        elif self._clean():
            self.outcomes = {}
        else:
            invalid = [tp for tp, p in self.wanted.items() if _offset(p) < 0 or tp.partition < 0 or not tp.topic]
            self.outcomes = dict.fromkeys(invalid, "INVALID_POSITION")

    def _clean(self) -> bool:
        """Tell whether all positions are plain and valid; in bulk, since ten thousand groups hold a million."""
        if not self.plain or min(self.plain.values()) < 0:
            return False
        topics, partitions = zip(*self.wanted, strict=True)
        return min(partitions) >= 0 and all(topics)

    @property
    def done(self) -> bool:
        """Whether every partition has its outcome."""
        return len(self.outcomes) == len(self.wanted)

    def requests(self) -> Iterator[CommitRequest]:
        """What is to be sent, in parts."""
        if not self.outcomes and 0 < len(self.wanted) <= _COMMIT_LIMIT:
            return iter([CommitRequest(self, self.wanted)])
        left = [tp for tp in self.wanted if tp not in self.outcomes]
        return (CommitRequest(self, batch) for batch in in_batches(left, _COMMIT_LIMIT))


@dataclass
class CommitRequest:
    """A part of one group's positions that fits into one request; most often all of them."""

    commit: GroupCommit
    partitions: Collection[TopicPartition]

    def wire(self) -> list[WirePartition]:
        """The client's own form of it."""
        wanted, plain = self.commit.wanted, self.commit.plain
        if plain and self.partitions is wanted:
            return [WirePartition(topic, partition, offset) for (topic, partition), offset in plain.items()]
        if plain:
            return [WirePartition(tp[0], tp[1], plain[tp]) for tp in self.partitions]
        return [_wire(tp, wanted[tp]) for tp in self.partitions]

    def settled(self, outcome: Any, last: bool) -> CommitRequest | None:
        """Note what is final; returns what is to be sent again."""
        if not isinstance(outcome, KafkaError) and not any(p.error for p in outcome.topic_partitions):
            done = dict.fromkeys(self.partitions, OK)
            self.commit.outcomes = self.commit.outcomes | done if self.commit.outcomes else done
            return None
        if isinstance(outcome, KafkaError):
            errors = dict.fromkeys(self.partitions, outcome)
        else:
            errors = {TopicPartition(p.topic, p.partition): p.error for p in outcome.topic_partitions}
        again = [tp for tp in self.partitions if not last and is_transient(errors.get(tp))]
        for tp in set(self.partitions).difference(again):
            self.commit.outcomes[tp] = commit_word(errors.get(tp))
        return CommitRequest(self.commit, again) if again else None


def commit_requests(
    commits: Iterable[tuple[str, Mapping[TopicPartition, int | Position]]], settle: Callable[[GroupCommit], None]
) -> Iterator[CommitRequest]:
    """Requests of all groups, made while they are sent; a group with nothing to send is settled at once."""
    for group, wanted in commits:
        commit = GroupCommit(group, wanted)
        if commit.done:
            settle(commit)
        yield from commit.requests()


def commit_word(error: KafkaError | None) -> str:
    """How a commit of one partition ended, in a word."""
    if error is None:
        return OK
    return GROUP_IS_ACTIVE if error.code() in _ACTIVE else error.name()


def _all_plain(wanted: dict[TopicPartition, int | Position]) -> TypeGuard[dict[TopicPartition, int]]:
    return set(map(type, wanted.values())) == {int}


def _offset(position: int | Position) -> int:
    return position.offset if isinstance(position, Position) else position


def _wire(tp: TopicPartition, position: int | Position) -> WirePartition:
    if not isinstance(position, Position):
        return WirePartition(tp.topic, tp.partition, position)
    given: dict[str, Any] = {"metadata": position.metadata or None, "leader_epoch": position.leader_epoch}
    return WirePartition(
        tp.topic, tp.partition, position.offset, **{key: value for key, value in given.items() if value is not None}
    )


def deletion_word(outcome: Any) -> str:
    """How the deletion of a group ended, in a word; a group that did not exist is `OK`."""
    gone = not isinstance(outcome, KafkaError) or outcome.code() == KafkaError.GROUP_ID_NOT_FOUND
    return OK if gone else commit_word(outcome)


class RequestWindow:
    """How many requests may be under way: `limit` while answers come; after a failure one, until the next success."""

    def __init__(self, limit: int, drained: Callable[[], None]) -> None:
        self.limit = self.now = limit
        self.draining = False
        self._drained = drained

    def saw(self, good: bool) -> None:
        """Note how a request ended; after a failure all others under way are waited for first."""
        if not good:
            self.now, self.draining = 1, True
        elif not self.draining:
            self.now = self.limit

    def is_empty(self) -> None:
        """Nothing is under way: after a failure this is the moment to begin afresh."""
        if self.draining:
            self.draining = False
            self._drained()


def send_pipelined(
    items: Iterable[_T], send: Callable[[_T], Future[Any]], window: RequestWindow
) -> Iterator[tuple[_T, Future[Any]]]:
    """Send items one by one, never more than the window ahead of the result that is looked at."""
    waiting: deque[tuple[_T, Future[Any]]] = deque()
    for item in items:
        while waiting and (window.draining or len(waiting) >= window.now):
            yield waiting.popleft()
        if not waiting:
            window.is_empty()
        waiting.append((item, send(item)))
    while waiting:
        yield waiting.popleft()
    window.is_empty()


def failed_future(error: KafkaError) -> Future[Any]:
    """A future that has already ended with an error."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(error))
    return future
