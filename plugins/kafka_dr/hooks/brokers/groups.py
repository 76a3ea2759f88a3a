"""Consumer groups of one cluster, and their committed positions."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import growing_pauses, in_batches, is_transient, outcome_of, raise_error
from kafka_dr.hooks.brokers.connection import COORDINATOR_SECONDS, MOST_AT_ONCE, ClusterConnection, drop_client
from kafka_dr.hooks.brokers.descriptions import GroupInfo, Member
from kafka_dr.hooks.brokers.group_requests import (
    UNENDING_SECONDS,
    CommitRequest,
    GroupCommit,
    Position,
    PositionColumns,
    RequestWindow,
    await_answer,
    commit_requests,
    deletion_word,
    failed_future,
    send_pipelined,
)
from kafka_dr.vocabulary import COMMITS_TOPIC

_UNKNOWN = "unknown"
_OUT_OF_TIME = KafkaError(KafkaError._TIMED_OUT, "not sent: out of time")
#: Seconds between two lists of groups, and how often groups are listed at most for one answer.
_BETWEEN_LOOKS, _MOST_LOOKS = 1.0, 4
_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}


class ClusterGroups(ClusterConnection):
    """Reads groups and positions of one cluster, commits positions, deletes groups."""

    _listed_before: set[str] | None = None

    def groups(self, timeout: float = 60.0) -> dict[str, GroupInfo]:
        """Return all consumer groups by name, including groups whose positions only an admin client committed.

        Members are read only of groups that are not empty. Groups of another protocol (share groups, streams groups,
        Connect workers) are left out: the client lists groups of the protocol `consumer` and of none.
        """
        listed = self._complete_listing(timeout)
        untyped = [name for name, group in listed.items() if group.type == _UNKNOWN]
        if untyped:
            # Brokers before 3.8 state no type and ignore this filter; all of their groups are classic. Of a newer
            # broker the filter returns no group whose type is unknown to the client: these groups stay `unknown`.
            classic = {group.group_id for group in self._listing(timeout, types={ConsumerGroupType.CLASSIC})[0]}
            listed |= {name: replace(listed[name], type="classic") for name in untyped if name in classic}
        busy = [n for n, group in listed.items() if group.state not in ("Empty", "Dead") and group.type != _UNKNOWN]
        return listed | self._described_groups(busy, timeout)

    def count_members(self, group: str, timeout: float = COORDINATOR_SECONDS) -> int:
        """Return how many members a group has, whatever its protocol, such as that of Connect workers.

        0 also for a group that does not exist. A process that was killed stays a member until its session times out.
        """
        client = self._coordinators()

        def listed(left: float) -> int:
            with warnings.catch_warnings():
                # The methods that are to replace this one know groups of consumers only.
                warnings.simplefilter("ignore", DeprecationWarning)
                answers = client.list_groups(group, timeout=left)
            for answer in answers:
                raise_error(answer.error)
            return sum(len(answer.members) for answer in answers)

        return self._repeated(f"reading the members of group {group}", listed, timeout)

    def positions(
        self, groups: Iterable[str], require_stable: bool = True, timeout: float = 120.0
    ) -> dict[str, dict[TopicPartition, Position]]:
        """Return the committed positions of groups, by group and partition.

        A group without positions, or that does not exist, has {}.

        Args:
            require_stable: wait for open transactions that commit positions.
            timeout: seconds for all groups together.
        """
        return {group: _positions(answer) for group, answer in self._position_answers(groups, require_stable, timeout)}

    def position_columns(
        self, groups: Iterable[str], require_stable: bool = True, timeout: float = 120.0
    ) -> PositionColumns:
        """Return the committed positions of groups as columns, unordered: in a third of the time of `positions`.

        Args:
            require_stable: wait for open transactions that commit positions.
            timeout: seconds for all groups together.
        """
        columns = PositionColumns([], [], [], [])
        for group, answer in self._position_answers(groups, require_stable, timeout):
            columns.add(group, answer.topic_partitions or ())
        return columns

    def _position_answers(
        self, groups: Iterable[str], require_stable: bool, timeout: float
    ) -> Iterator[tuple[str, Any]]:
        """Yield each group with the coordinator's answer, in no order; at most 128 requests are in flight.

        Each reading has a client of its own, which knows no coordinator yet: librdkafka crashes the whole process when
        a broker answers this request with NOT_COORDINATOR, as one does from which the group has moved (issue 5040).
        """
        if not (wanted := dict.fromkeys(groups)):
            return iter(())
        client: AdminClient | None = None

        def forget() -> None:
            nonlocal client
            self.complaint()
            dropped, client, self._reading_client = [client], None, None
            drop_client(dropped)

        def send(names: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            def ask(group: str) -> Future[Any]:
                nonlocal client
                if client is None:
                    client = self._reading_client = self._new_client()
                request = [ConsumerGroupTopicPartitions(group)]
                futures = client.list_consumer_group_offsets(
                    request, require_stable=require_stable, request_timeout=UNENDING_SECONDS
                )
                return futures[group]

            yield from send_pipelined(names, ask, window, min(timeout, COORDINATOR_SECONDS))

        window = RequestWindow(128, forget)
        return self._settled("reading positions", wanted, send, timeout, window, forget)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int | Position], timeout: float = 60.0
    ) -> dict[TopicPartition, str]:
        """Commit one group's positions; return by partition `OK`, `GROUP_IS_ACTIVE` or Kafka's name of the error."""
        return self.commit_many([(group, positions)], timeout=timeout)[group]

    def commit_many(
        self,
        commits: Iterable[tuple[str, Mapping[TopicPartition, int | Position]]],
        in_flight: int = 128,
        on_result: Callable[[str, dict[TopicPartition, str]], None] | None = None,
        timeout: float = 300.0,
    ) -> dict[str, dict[TopicPartition, str]]:
        """Commit positions of many groups, in requests of at most 5,000 partitions.

        If the coordinator moves, loads or does not answer, the request is sent again, with growing pauses; every other
        refusal is final. No refusal raises an error: each partition has its own outcome.

        Args:
            commits: groups with their positions; may be a generator. Plain offsets carry no metadata.
            on_result: called with each group's outcomes as soon as they are final, in the caller's thread.
            timeout: seconds for all groups together; positions not sent or not answered by then have the outcome
                `_TIMED_OUT`. Of these a broker may still commit what it had received, so the caller reads them back.

        Returns:
            Per group and partition: `OK`, Kafka's name of the error, or `GROUP_IS_ACTIVE`: the group has members or
            rebalances.
        """
        results: dict[str, dict[TopicPartition, str]] = {}

        def settle(commit: GroupCommit) -> None:
            results[commit.group] = (
                results[commit.group] | commit.outcomes if commit.group in results else commit.outcomes
            )
            if on_result:
                on_result(commit.group, dict(commit.outcomes))

        pending: Iterable[CommitRequest] = commit_requests(commits, settle)
        window = RequestWindow(in_flight, self._forget_coordinators)
        ends_at = time.monotonic() + timeout
        for pause in growing_pauses():
            unsettled = []
            send = partial(self._send_commit, ends_at=ends_at)
            with closing(send_pipelined(pending, send, window, COORDINATOR_SECONDS, ends_at)) as sent:
                for request, future in sent:
                    repeat = request.settled(outcome_of(future, 0.0), last=time.monotonic() + pause > ends_at)
                    window.saw(good=repeat is None)
                    if repeat:
                        unsettled.append(repeat)
                    elif request.commit.done:
                        settle(request.commit)
            if not unsettled:
                break
            time.sleep(pause)
            pending = unsettled
        return results

    def delete_groups(self, names: Iterable[str], timeout: float = 300.0) -> dict[str, str]:
        """Delete groups with all their positions; for a group that does not exist the outcome is `OK`.

        Args:
            timeout: seconds for all groups together; groups not answered for by then have the outcome `_TIMED_OUT`.

        Returns:
            By group: `OK`, `GROUP_IS_ACTIVE` or Kafka's name of the error.
        """
        window, ends_at = RequestWindow(128, self._forget_coordinators), time.monotonic() + timeout
        send, outcomes = partial(self._send_deletion, ends_at=ends_at), {}
        with (
            self._border("deleting groups"),
            closing(send_pipelined(dict.fromkeys(names), send, window, COORDINATOR_SECONDS, ends_at)) as sent,
        ):
            for group, future in sent:
                outcome = outcome_of(future, 0.0)
                window.saw(good=not is_transient(outcome))
                outcomes[group] = deletion_word(outcome)
        return outcomes

    def delete_positions(self, positions: Mapping[str, Iterable[TopicPartition]]) -> dict[str, KafkaUnavailable]:
        """Delete single positions by group; return the error of each group that the brokers refuse.

        A position that does not exist counts as deleted. Brokers refuse a group that subscribes to the topic.

        Raises:
            KafkaUnavailable: a broker does not answer, or cannot do so now; positions of other groups may be deleted.
        """
        from kafka_dr.hooks.brokers.position_deletion import (  # noqa: PLC0415 (8 MB, which the recorder is spared)
            PositionDeletion,
        )

        return PositionDeletion(self._config, self.alias, self.scope).delete(positions)

    def _complete_listing(self, timeout: float) -> dict[str, GroupInfo]:
        """Return all groups; list again while one of several brokers may have left some out.

        A broker that gives up the coordinators of groups, and the broker that takes these over, both leave the groups
        out for a moment, without an error, and before the brokers' metadata show that the coordinators have moved. A
        list counts as complete if it names all groups of this client's last answer; a first list, if the next list
        names no further group.
        """
        groups, replicated = self._listing(timeout)
        listed = {group.group_id: _listed(group) for group in groups}
        complete = self._listed_before is not None and self._listed_before <= listed.keys()
        for _ in range(_MOST_LOOKS - 1):
            if complete or not replicated:
                break
            time.sleep(_BETWEEN_LOOKS)
            more = {group.group_id: _listed(group) for group in self._listing(timeout)[0]}
            complete = more.keys() <= listed.keys() and (self._listed_before or set()) <= listed.keys()
            listed |= more
        self._listed_before = set(listed)
        return listed

    def _listing(self, timeout: float, **filters: Any) -> tuple[list[Any], bool]:
        """Return the groups that the brokers list, and whether coordinators can move to other brokers."""

        def listed(left: float) -> tuple[list[Any], bool]:
            coordinators = self._coordinators_of_groups(left)
            listing = self._admin.list_consumer_groups(request_timeout=left, **filters).result(left + 5)
            if listing.errors:
                # Some brokers did not answer: a partial list would silently lack their groups.
                raise KafkaException(listing.errors[0])
            if self._coordinators_of_groups(left) != coordinators:
                raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR, "coordinators moved during the listing"))
            # Coordinators that cannot be seen, for lack of rights, may move.
            return listing.valid, any(len(brokers) > 1 for _, brokers in coordinators.values()) or not coordinators

        return self._repeated("listing groups", listed, timeout)

    def _coordinators_of_groups(self, timeout: float) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Return leader and replicas of each partition of the topic of groups; let the client learn of all brokers.

        The client asks the brokers that it knows for their groups. It forgets a broker that restarts, learns of the
        broker again only with the next metadata, up to five minutes later, and until then returns a list without that
        broker's groups, and without an error.
        """
        topic = self._admin.list_topics(COMMITS_TOPIC, timeout=timeout).topics.get(COMMITS_TOPIC)
        return {} if topic is None else {p.id: (p.leader, tuple(p.replicas)) for p in topic.partitions.values()}

    def _described_groups(self, names: list[str], timeout: float) -> dict[str, GroupInfo]:
        until = time.monotonic() + timeout

        def send(pending: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            for batch in in_batches(list(pending), MOST_AT_ONCE):
                sent = self._coordinators().describe_consumer_groups(batch, request_timeout=UNENDING_SECONDS)
                yield from ((name, await_answer(future, until)) for name, future in sent.items())

        described = self._settled("describing groups", names, send, timeout, forget=self._forget_coordinators)
        return {name: _group(answer) for name, answer in described}

    def _send_commit(self, request: CommitRequest, ends_at: float) -> Future[Any]:
        if time.monotonic() > ends_at:
            return failed_future(_OUT_OF_TIME)
        wire = ConsumerGroupTopicPartitions(request.commit.group, request.wire())
        try:
            return self._coordinators().alter_consumer_group_offsets([wire], request_timeout=UNENDING_SECONDS)[
                request.commit.group
            ]
        except KafkaException as error:
            return failed_future(error.args[0])

    def _send_deletion(self, group: str, ends_at: float) -> Future[Any]:
        if time.monotonic() > ends_at:
            return failed_future(_OUT_OF_TIME)
        return self._coordinators().delete_consumer_groups([group], request_timeout=UNENDING_SECONDS)[group]


def _state(state: Any) -> str:
    return _STATES.get(getattr(state, "name", ""), "Unknown")


def _listed(group: Any) -> GroupInfo:
    protocol_type = "" if group.is_simple_consumer_group else "consumer"
    return GroupInfo(group.group_id, _state(group.state), group.type.name.lower(), protocol_type)


def _group(description: Any) -> GroupInfo:
    members = tuple(
        Member(
            m.client_id,
            m.host,
            tuple(TopicPartition(p.topic, p.partition) for p in m.assignment.topic_partitions),
            m.group_instance_id,
        )
        for m in description.members
    )
    protocol_type = "" if description.is_simple_consumer_group else "consumer"
    return GroupInfo(
        description.group_id,
        _state(description.state),
        description.type.name.lower(),
        protocol_type,
        members,
        description.partition_assignor or "",
    )


def _positions(answer: ConsumerGroupTopicPartitions) -> dict[TopicPartition, Position]:
    """Return the committed positions in an answer; a negative offset is librdkafka's mark for no position."""
    # Ten thousand groups hold a million positions: `_make` saves a third of the time.
    topic_partition, position = TopicPartition._make, Position._make
    return {
        topic_partition((p.topic, p.partition)): position(
            (p.offset, p.metadata or "", None if (epoch := p.leader_epoch) is None or epoch < 0 else epoch)
        )
        for p in answer.topic_partitions or []
        if p.offset >= 0
    }
