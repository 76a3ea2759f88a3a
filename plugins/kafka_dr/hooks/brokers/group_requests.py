"""Requests to group coordinators about positions and groups: many in flight, each with its own outcome."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
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
#: Seconds that librdkafka waits for a group's coordinator: the longest that it accepts. After a request has timed out
#: in librdkafka, it aborts the process when the coordinator's broker comes back (librdkafka issue 4605). So the wait
#: ends here, and the client is dropped together with the unanswered request.
UNENDING_SECONDS = 3600.0


class Position(NamedTuple):
    """A group's committed position of one partition: the next offset that the group will read."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class PositionColumns(NamedTuple):
    """Committed positions of many groups as four columns of equal length, one row per group and partition."""

    group: list[str]
    topic: list[str]
    partition: list[int]
    position: list[int]

    def add(self, group: str, held: Iterable[Any]) -> None:
        """Add one group's committed positions.

        Args:
            group: the group's name.
            held: the partitions in the coordinator's answer; a partition with a negative offset has no position and
                is left out.
        """
        committed = [p for p in held if p.offset >= 0]
        self.group.extend([group] * len(committed))
        self.topic.extend([p.topic for p in committed])
        self.partition.extend([p.partition for p in committed])
        self.position.extend([p.offset for p in committed])


class GroupCommit:
    """One group's positions to commit, and their outcomes by partition."""

    def __init__(self, group: str, wanted: Mapping[TopicPartition, int | Position]) -> None:
        self.group = group
        self.wanted = dict(wanted)
        self.plain = self.wanted if _all_plain(self.wanted) else None
        if not group:
            self.outcomes = dict.fromkeys(self.wanted, "INVALID_GROUP_ID")
        elif self._is_plain_and_valid():
            self.outcomes = {}
        else:
            invalid = [tp for tp, p in self.wanted.items() if _offset(p) < 0 or tp.partition < 0 or not tp.topic]
            self.outcomes = dict.fromkeys(invalid, "INVALID_POSITION")

    def _is_plain_and_valid(self) -> bool:
        """Whether each position is a plain offset (an int, without metadata) of 0 or more, on a valid partition."""
        if not self.plain or min(self.plain.values()) < 0:
            return False
        topics, partitions = zip(*self.wanted, strict=True)
        return min(partitions) >= 0 and all(topics)

    @property
    def done(self) -> bool:
        """Whether each of the group's partitions has an outcome."""
        return len(self.outcomes) == len(self.wanted)

    def requests(self) -> Iterator[CommitRequest]:
        """Return the requests for the positions without an outcome, each of at most 5,000 positions."""
        if not self.outcomes and 0 < len(self.wanted) <= _COMMIT_LIMIT:
            return iter([CommitRequest(self, self.wanted)])
        unsent = [tp for tp in self.wanted if tp not in self.outcomes]
        return (CommitRequest(self, batch) for batch in in_batches(unsent, _COMMIT_LIMIT))


@dataclass
class CommitRequest:
    """A request to commit at most 5,000 positions of one group.

    Attributes:
        commit: all positions of the group, with the outcomes so far.
        partitions: the partitions whose positions are in this request.
    """

    commit: GroupCommit
    partitions: Collection[TopicPartition]

    def wire(self) -> list[WirePartition]:
        """Return the request's positions as confluent-kafka's TopicPartition objects."""
        wanted, plain = self.commit.wanted, self.commit.plain
        if plain and self.partitions is wanted:
            return [WirePartition(topic, partition, offset) for (topic, partition), offset in plain.items()]
        if plain:
            return [WirePartition(tp[0], tp[1], plain[tp]) for tp in self.partitions]
        return [_wire(tp, wanted[tp]) for tp in self.partitions]

    def settled(self, outcome: Any, last: bool) -> CommitRequest | None:
        """Store the final outcomes; return a request for the positions to send again, None if all outcomes are final.

        Args:
            outcome: the answer to this request, or the KafkaError with which the request failed.
            last: whether no time is left to send again, so that transient errors are final, too.
        """
        if not isinstance(outcome, KafkaError) and not any(p.error for p in outcome.topic_partitions):
            done = dict.fromkeys(self.partitions, OK)
            self.commit.outcomes = self.commit.outcomes | done if self.commit.outcomes else done
            return None
        if isinstance(outcome, KafkaError):
            errors = dict.fromkeys(self.partitions, outcome)
        else:
            errors = {TopicPartition(p.topic, p.partition): p.error for p in outcome.topic_partitions}
        unsettled = [tp for tp in self.partitions if not last and is_transient(errors.get(tp))]
        for tp in set(self.partitions).difference(unsettled):
            self.commit.outcomes[tp] = commit_word(errors.get(tp))
        return CommitRequest(self.commit, unsettled) if unsettled else None


def commit_requests(
    commits: Iterable[tuple[str, Mapping[TopicPartition, int | Position]]], settle: Callable[[GroupCommit], None]
) -> Iterator[CommitRequest]:
    """Yield the requests of all groups, each built when the caller asks for it.

    Args:
        commits: groups with their positions.
        settle: called for a group for which no request is needed, because the group has no positions or because all
            its positions are invalid.
    """
    for group, positions in commits:
        commit = GroupCommit(group, positions)
        if commit.done:
            settle(commit)
        yield from commit.requests()


def commit_word(error: KafkaError | None) -> str:
    """Return the outcome of one partition's commit: `OK`, `GROUP_IS_ACTIVE` or Kafka's name of the error."""
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
    optional: dict[str, Any] = {"metadata": position.metadata or None, "leader_epoch": position.leader_epoch}
    return WirePartition(
        tp.topic, tp.partition, position.offset, **{key: value for key, value in optional.items() if value is not None}
    )


def deletion_word(outcome: Any) -> str:
    """Return a deletion's outcome: `OK` (also if no such group existed), `GROUP_IS_ACTIVE` or Kafka's error name."""
    deleted = not isinstance(outcome, KafkaError) or outcome.code() == KafkaError.GROUP_ID_NOT_FOUND
    return OK if deleted else commit_word(outcome)


class RequestWindow:
    """Limits the requests in flight: to `limit` while requests succeed, to 1 after a failure until one succeeds.

    After a failure, `drained` is called once nobody waits for an answer any more, before the next request is sent.
    """

    def __init__(self, limit: int, drained: Callable[[], None]) -> None:
        self.limit = self.now = limit
        self.draining = False
        self._drained = drained

    def saw(self, good: bool) -> None:
        """Learn whether a request succeeded; after a failure, the next request waits until none is in flight.

        Args:
            good: False if the request failed and must be sent again.
        """
        if not good:
            self.now, self.draining = 1, True
        elif not self.draining:
            self.now = self.limit

    def is_empty(self) -> None:
        """Learn that no answer is waited for; after a failed request, call `drained` once."""
        if self.draining:
            self.draining = False
            self._drained()


def send_pipelined(
    items: Iterable[_T],
    send: Callable[[_T], Future[Any]],
    window: RequestWindow,
    seconds: float,
    ends_at: float = math.inf,
) -> Generator[tuple[_T, Future[Any]]]:
    """Send one request per item, no more in flight than `window` allows; yield each item with its answer, in order.

    Args:
        send: sends an item's request, which has no time limit of its own (`UNENDING_SECONDS`).
        seconds: how long to wait for the answer to one request.
        ends_at: monotonic time at which every wait ends.

    Returns:
        Items with futures that are done. An item without an answer in time has a future with the error `_TIMED_OUT`,
        and the window's `drained` drops the client, with which the request ends.
    """
    in_flight: deque[tuple[_T, Future[Any], float]] = deque()

    def oldest() -> tuple[_T, Future[Any]]:
        item, future, until = in_flight.popleft()
        answer = await_answer(future, until)
        if answer is not future:
            window.saw(good=False)
        return item, answer

    try:
        for item in items:
            while in_flight and (window.draining or len(in_flight) >= window.now):
                yield oldest()
            if not in_flight:
                window.is_empty()
            future = send(item)
            in_flight.append((item, future, min(time.monotonic() + seconds, ends_at)))
        while in_flight:
            yield oldest()
    finally:
        # Else a request that the caller waits for no longer could still be sent when its coordinator comes back.
        if in_flight:
            window.saw(good=False)
        window.is_empty()


def await_answer(future: Future[Any], until: float) -> Future[Any]:
    """Wait for a future; return it if it is done at the monotonic time `until`, else one that failed as timed out."""
    with suppress(FutureTimeout):
        future.exception(max(0.0, until - time.monotonic()))
        return future
    return failed_future(KafkaError(KafkaError._TIMED_OUT, "no answer in time"))


def failed_future(error: KafkaError) -> Future[Any]:
    """Return a future that has already failed with an error."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(error))
    return future
