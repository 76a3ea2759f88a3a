"""One Kafka cluster through one confluent-kafka AdminClient.

Figures come as frozen values; nothing is decided here. Every call ends within its timeout (seconds).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as WirePartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, ReadBackFailed
from kafka_dr.hooks.brokers.group_requests import (
    Commit,
    CommitRequest,
    Position,
    PositionColumns,
    Window,
    commit_requests,
    deletion_word,
    failed,
    pipelined,
)
from kafka_dr.hooks.brokers.client import (
    batches,
    border,
    client_config,
    described,
    error_in,
    in_service,
    is_error,
    outcome_of,
    pauses,
    raised,
    transient,
)

_T = TypeVar("_T")

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"

_REQUEST_SECONDS = 30.0
_COORDINATOR_SECONDS = 10.0
_BATCH = 500
_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}


@dataclass(frozen=True)
class Broker:
    """One broker as clients see it."""

    id: int
    host: str
    port: int


@dataclass(frozen=True)
class TopicInfo:
    """One topic. A topic made anew under the same name has another id.

    Attributes:
        partitions: leader by partition; None while it has none.
        replicas: brokers by partition.
        in_sync: brokers in sync by partition.
    """

    name: str
    topic_id: str
    partitions: dict[int, int | None]
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    in_sync: dict[int, tuple[int, ...]] = field(default_factory=dict)
    internal: bool = False


class Metadata(NamedTuple):
    """What one broker, whichever answered, knows of the cluster.

    Attributes:
        brokers: ids of the live ones, sorted.
        leaders: by topic, the leader of each partition; None while it has none.
    """

    brokers: tuple[int, ...]
    leaders: dict[str, dict[int, int | None]]


class Settings(dict[str, str]):
    """Configuration of one topic or broker, by key.

    Attributes:
        non_default: keys whose value is not Kafka's own default.
        overrides: keys set on this very topic or broker at run time.
        hidden: keys whose value the broker does not show.
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__({key: entry.value for key, entry in entries.items() if entry.value is not None})
        source = {key: ConfigSource(entry.source) for key, entry in entries.items()}
        own = {ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG}
        self.non_default = frozenset(key for key in self if source[key] is not ConfigSource.DEFAULT_CONFIG)
        self.overrides = frozenset(key for key in self if source[key] in own)
        self.hidden = frozenset(entries) - frozenset(self)


class Member(NamedTuple):
    """One member of a group, and what it reads now."""

    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupInfo:
    """One consumer group.

    Attributes:
        state: Kafka's word: Empty, Stable, PreparingRebalance, CompletingRebalance, Dead, or Unknown.
        type: classic or consumer (the newer protocol), or unknown.
        protocol_type: `consumer`, or empty for a group known only through commits of an admin or of a simple consumer.
        members: of groups that are not empty.
    """

    name: str
    state: str
    type: str
    protocol_type: str
    members: tuple[Member, ...] = ()

    @property
    def empty(self) -> bool:
        """Nobody is in it: its positions may be written. An unknown state counts as not empty."""
        return self.state in ("Empty", "Dead") and not self.members


class KafkaCluster:
    """Topics, offsets, groups and positions of one cluster."""

    def __init__(self, alias: str, config: Mapping[str, Any]) -> None:
        """Make the client; nothing is asked of the cluster yet.

        Args:
            alias: what the topology calls the cluster; stands in every error.
            config: librdkafka keys, see `ALLOWED_KEYS`.
        """
        self.alias = alias
        self._servers = str(config.get("bootstrap.servers", ""))
        self._last_error = ""
        self._complaints: set[str] = set()
        self._settings = {**client_config(config, alias), "error_cb": self._complain}
        self._group_client: AdminClient | None = None
        with border(alias, "making a client"):
            self._admin = AdminClient(self._settings)

    def __repr__(self) -> str:
        return f"KafkaCluster({self.alias!r}, {self._servers!r})"

    @property
    def admin(self) -> AdminClient:
        """The client itself, for the ACL hook; keep this object while results of it are awaited."""
        return self._admin

    def complaint(self) -> str:
        """What the client last said about its connections (often the true reason of a timeout); empty when nothing."""
        for client in filter(None, (self._admin, self._group_client)):
            client.poll(0)
        return self._last_error

    def complaints(self) -> frozenset[str]:
        """Kafka's names of everything the client said about its connections so far."""
        self.complaint()
        return frozenset(self._complaints)

    # -- the cluster ---------------------------------------------------------------------------------------------

    def metadata(self, timeout: float = _REQUEST_SECONDS) -> Metadata:
        """Brokers and leaders by one request that any broker may answer: those that are down need not."""
        with self._border("asking for metadata"):
            found = self._admin.list_topics(timeout=timeout)
        leaders = {
            name: {p.id: p.leader if p.leader >= 0 else None for p in topic.partitions.values()}
            for name, topic in found.topics.items()
        }
        return Metadata(tuple(sorted(found.brokers)), leaders)

    def cluster_id(self, timeout: float = _REQUEST_SECONDS) -> str:
        """The id that the cluster was formatted with."""
        with self._border("asking for the cluster's id"):
            cluster_id: str = self._admin.list_topics(timeout=timeout).cluster_id
        return cluster_id

    def brokers(self, timeout: float = _REQUEST_SECONDS) -> list[Broker]:
        """All live brokers by id, at least one; KafkaUnavailable also where the cluster answers and names none."""
        with self._border("asking for brokers"):
            return sorted((Broker(n.id, n.host, n.port) for n in in_service(self._admin, timeout)), key=lambda b: b.id)

    def users(self, timeout: float = _REQUEST_SECONDS) -> frozenset[str] | None:
        """Names of SCRAM users; None where they may not be listed."""
        try:
            asked: Any = self._admin.describe_user_scram_credentials(request_timeout=timeout)
            return frozenset(asked.result(timeout + 5))
        except (KafkaException, FutureTimeout):
            return None

    # -- topics --------------------------------------------------------------------------------------------------

    def topics(self, names: Iterable[str] | None = None, timeout: float = 60.0) -> dict[str, TopicInfo]:
        """Topics by name, all of them when none is named; those that do not exist are left out."""
        with self._border("listing topics"):
            wanted = sorted(self._admin.list_topics(timeout=timeout).topics if names is None else set(names))
            asked = [
                self._admin.describe_topics(TopicCollection(batch), request_timeout=timeout)
                for batch in batches(wanted, _BATCH)
            ]
        found = self._existing("describing topics", asked, timeout)
        return {name: _topic(description) for name, description in found.items()}

    def configs(self, topics: Iterable[str], timeout: float = 60.0) -> dict[str, Settings]:
        """Configuration of topics by name; those that do not exist are left out."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(set(topics))]
        with self._border("reading topic configurations"):
            asked = [
                self._admin.describe_configs(batch, request_timeout=timeout) for batch in batches(resources, _BATCH)
            ]
        found = self._existing("reading topic configurations", asked, timeout)
        return {resource.name: Settings(entries) for resource, entries in found.items()}

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: list[list[int]] | None = None,
        timeout: float = _REQUEST_SECONDS,
    ) -> bool:
        """Create a topic and wait until every partition has a leader.

        Args:
            replication_factor: -1 for the cluster's default; ignored with an assignment.
            assignment: replica brokers per partition.

        Returns:
            False when it was already there.

        Raises:
            ReadBackFailed: it exists with another number of partitions.
        """
        replicas = {"replica_assignment": assignment} if assignment else {"replication_factor": replication_factor}
        with self._border(f"creating topic {name!r}"):
            new = NewTopic(name, num_partitions=partitions, config=dict(configs or {}), **replicas)
            future = self._admin.create_topics([new], request_timeout=timeout, operation_timeout=timeout)[name]
        created = self._done(f"creating topic {name!r}", future, timeout, already=KafkaError.TOPIC_ALREADY_EXISTS)
        self._await_partitions(name, partitions, timeout)
        return created

    def create_partitions(self, topic: str, total: int, timeout: float = _REQUEST_SECONDS) -> bool:
        """Raise a topic's partitions to a total and wait until each has a leader; False when it already has as many."""
        found = self.topics([topic], timeout).get(topic)
        if found is None:
            raise BadInput(f"topic {topic!r} of {self.alias} does not exist")
        if len(found.partitions) >= total:
            self._await_partitions(topic, total, timeout)
            return False
        with self._border(f"adding partitions to {topic!r}"):
            self._admin.create_partitions([NewPartitions(topic, total)], request_timeout=timeout)[topic].result(
                timeout + 5
            )
        self._await_partitions(topic, total, timeout)
        return True

    def delete_topic(self, name: str, timeout: float = _REQUEST_SECONDS) -> bool:
        """Delete a topic and wait until it is gone; False when there was none."""
        return bool(self.delete_topics([name], timeout))

    def delete_topics(self, names: Iterable[str], timeout: float = _REQUEST_SECONDS) -> list[str]:
        """Delete topics with all their records, and wait until they are gone; answers those that were there, sorted.

        Raises:
            ReadBackFailed: some are still there when the time is over.
        """
        ends_at, wanted = time.monotonic() + timeout, sorted(set(names))
        deleted = [name for batch in batches(wanted, _BATCH) for name in self._deleted(batch, timeout)]
        while left := sorted(self.topics(wanted, timeout)) if wanted else []:
            if time.monotonic() > ends_at:
                raise ReadBackFailed(f"topics of {self.alias} were deleted and are still there", first_few(left, 10))
            time.sleep(0.1)
        return deleted

    def _deleted(self, names: list[str], timeout: float) -> list[str]:
        """Those that were there, of one request."""
        with self._border(f"deleting {len(names)} topics"):
            futures = self._admin.delete_topics(names, request_timeout=timeout, operation_timeout=timeout)
        return [
            name
            for name, future in futures.items()
            if self._done(f"deleting topic {name!r}", future, timeout, already=KafkaError.UNKNOWN_TOPIC_OR_PART)
        ]

    # -- offsets -------------------------------------------------------------------------------------------------

    def starts(self, partitions: Iterable[TopicPartition], timeout: float = 60.0) -> dict[TopicPartition, int]:
        """First offset of each partition, thousands in one call."""
        return self._offsets(partitions, OffsetSpec.earliest(), READ_UNCOMMITTED, timeout)

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: str = READ_UNCOMMITTED, timeout: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Log end of each partition; under read_committed its last stable offset. Thousands in one call."""
        return self._offsets(partitions, OffsetSpec.latest(), isolation, timeout)

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: str, timeout: float
    ) -> dict[TopicPartition, int]:
        """Ask for all at once; again for those whose leader is just moving."""
        level = {READ_UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED, READ_COMMITTED: IsolationLevel.READ_COMMITTED}[
            isolation
        ]

        def send(wanted: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, Future[Any]]]:
            asked = {WirePartition(topic, partition): spec for topic, partition in wanted}
            if asked:
                futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=timeout)
                yield from ((TopicPartition(wire.topic, wire.partition), future) for wire, future in futures.items())

        answers = self._settled("listing offsets", dict.fromkeys(partitions), send, timeout, of_groups=False)
        return {partition: info.offset for partition, info in answers}

    # -- groups and positions ------------------------------------------------------------------------------------

    def groups(self, timeout: float = 60.0) -> dict[str, GroupInfo]:
        """All consumer groups by name, those known only through admin commits included; members of those not empty."""
        with self._border("listing groups"):
            listing = self._admin.list_consumer_groups(request_timeout=timeout).result(timeout + 5)
            if listing.errors:
                # Half a list would silently drop groups.
                raise KafkaException(listing.errors[0])
        busy = [group.group_id for group in listing.valid if _state(group.state) not in ("Empty", "Dead")]
        described_groups = self._described_groups(busy, timeout)
        return {g.group_id: described_groups.get(g.group_id) or _listed(g) for g in listing.valid}

    def positions(
        self, groups: Iterable[str], require_stable: bool = True, timeout: float = 120.0
    ) -> dict[str, dict[TopicPartition, Position]]:
        """Read all committed positions of groups, 128 requests in flight; {} for a group without any (or unknown).

        Args:
            require_stable: wait for transactions that are just committing positions.
            timeout: for all groups together.
        """
        return {group: _positions(answer) for group, answer in self._position_answers(groups, require_stable, timeout)}

    def position_columns(
        self, groups: Iterable[str], require_stable: bool = True, timeout: float = 120.0
    ) -> PositionColumns:
        """The same positions as columns, which take a third of the time, in no particular order."""
        columns = PositionColumns([], [], [], [])
        for group, answer in self._position_answers(groups, require_stable, timeout):
            columns.add(group, answer.topic_partitions or ())
        return columns

    def _position_answers(
        self, groups: Iterable[str], require_stable: bool, timeout: float
    ) -> Iterator[tuple[str, Any]]:
        """Each group's answer, 128 requests in flight."""

        def send(wanted: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            def ask(group: str) -> Future[Any]:
                request = [ConsumerGroupTopicPartitions(group)]
                asked = self._coordinators().list_consumer_group_offsets(
                    request, require_stable=require_stable, request_timeout=min(timeout, _COORDINATOR_SECONDS)
                )
                return asked[group]

            yield from pipelined(wanted, ask, window)

        window = Window(128, self._forget_coordinators)
        return self._settled("reading positions", dict.fromkeys(groups), send, timeout, window)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int | Position], timeout: float = 60.0
    ) -> dict[TopicPartition, str]:
        """Commit one group's positions; see `commit_many`."""
        return self.commit_many([(group, positions)], timeout=timeout)[group]

    def commit_many(
        self,
        commits: Iterable[tuple[str, Mapping[TopicPartition, int | Position]]],
        in_flight: int = 128,
        on_result: Callable[[str, dict[TopicPartition, str]], None] | None = None,
        timeout: float = 300.0,
    ) -> dict[str, dict[TopicPartition, str]]:
        """Commit positions of many groups, in requests of at most 5,000 partitions.

        What a coordinator could not take just now (it moves, loads, does not answer) is sent again with growing pauses;
        every other refusal is final. Nothing is raised for a refusal: each partition has its own outcome.

        Args:
            commits: groups with their positions; may be a generator. Offsets alone carry no metadata.
            on_result: called with each group's outcomes as soon as they are final, in the caller's thread.
            timeout: for all groups together; what was not sent by then says so.

        Returns:
            Per group and partition: `OK`, `GROUP_IS_ACTIVE` (members, or a rebalance), or Kafka's name of the error.
        """
        results: dict[str, dict[TopicPartition, str]] = {}

        def settle(commit: Commit) -> None:
            results[commit.group] = (
                results[commit.group] | commit.outcomes if commit.group in results else commit.outcomes
            )
            if on_result:
                on_result(commit.group, dict(commit.outcomes))

        pending: Iterable[CommitRequest] = commit_requests(commits, settle)
        window = Window(in_flight, self._forget_coordinators)
        ends_at = time.monotonic() + timeout
        for pause in pauses():
            again = []
            for request, future in pipelined(pending, lambda r: self._send_commit(r, ends_at), window):
                left = request.settled(
                    outcome_of(future, _REQUEST_SECONDS + 5), last=time.monotonic() + pause > ends_at
                )
                window.saw(good=left is None)
                if left:
                    again.append(left)
                elif request.commit.done:
                    settle(request.commit)
            if not again:
                break
            time.sleep(pause)
            pending = again
        return results

    def delete_groups(self, names: Iterable[str], timeout: float = 60.0) -> dict[str, str]:
        """Delete groups with all their positions; a group that does not exist is `OK`.

        confluent-kafka offers no DeleteConsumerGroupOffsets: single positions cannot be taken away. To restore a group
        that did not exist before, delete it; a partition without a position before keeps the one it was given.
        """
        with self._border("deleting groups"):
            futures = pipelined(
                dict.fromkeys(names),
                lambda group: self._send_deletion(group, timeout),
                Window(128, self._forget_coordinators),
            )
            return {group: deletion_word(outcome_of(future, timeout + 5)) for group, future in futures}

    # -- how it is asked -----------------------------------------------------------------------------------------

    def _coordinators(self) -> AdminClient:
        """The client for requests to group coordinators: one of its own, see `_forget_coordinators`."""
        if self._group_client is None:
            with border(self.alias, "making a client"):
                self._group_client = AdminClient(self._settings)
        return self._group_client

    def _forget_coordinators(self) -> None:
        """Drop that client after a failure, once nothing is under way.

        librdkafka aborts the whole process when a broker comes back after a request to it, as coordinator, has timed
        out.
        """
        self._group_client = None

    def _complain(self, error: KafkaError) -> None:
        self._complaints.add(error.name())
        # "All brokers are down" only sums up: it must not hide what a broker said before it.
        if not (self._last_error and error.code() == KafkaError._ALL_BROKERS_DOWN):
            self._last_error = described(error)

    def _border(self, what: str) -> Any:
        return border(self.alias, what, self.complaint)

    def _described_groups(self, names: list[str], timeout: float) -> dict[str, GroupInfo]:
        def send(wanted: Iterable[str]) -> Iterator[tuple[str, Future[Any]]]:
            for batch in batches(list(wanted), _BATCH):
                yield from self._coordinators().describe_consumer_groups(batch, request_timeout=timeout).items()

        return {name: _group(answer) for name, answer in self._settled("describing groups", names, send, timeout)}

    def _existing(self, what: str, asked: list[dict[_T, Future[Any]]], timeout: float) -> dict[_T, Any]:
        """Results by key, without the topics that do not exist."""
        found = {key: outcome_of(future, timeout + 5) for futures in asked for key, future in futures.items()}
        with self._border(what):
            return {
                key: raised(value)
                for key, value in found.items()
                if not is_error(value, KafkaError.UNKNOWN_TOPIC_OR_PART)
            }

    def _settled(
        self,
        what: str,
        items: Iterable[_T],
        send: Callable[[Iterable[_T]], Iterator[tuple[_T, Future[Any]]]],
        timeout: float,
        window: Window | None = None,
        of_groups: bool = True,
    ) -> Iterator[tuple[_T, Any]]:
        """Send requests for all items, and again after transient errors until the timeout; raise any other error.

        Args:
            of_groups: whether coordinators are asked; other questions may be put while these are under way, and leave
                their client alone.
        """
        ends_at, pending = time.monotonic() + timeout, items
        for pause in pauses():
            again = []
            with self._border(what):
                for item, future in send(pending):
                    value = outcome_of(future, max(0.0, ends_at - time.monotonic()) + 5)
                    repeat = transient(value) and time.monotonic() + pause < ends_at
                    if window:
                        window.saw(good=not repeat)
                    if repeat:
                        again.append(item)
                    else:
                        yield item, self._named(what, item, value, of_groups)
            if not again:
                return
            if of_groups:
                self._forget_coordinators()
            time.sleep(pause)
            pending = again

    def _named(self, what: str, item: Any, value: Any, of_groups: bool) -> Any:
        if isinstance(error := error_in(value), KafkaError):
            if of_groups:
                self._forget_coordinators()
            with self._border(f"{what} ({item})"):
                raise KafkaException(error)
        return value

    def _send_commit(self, request: CommitRequest, ends_at: float) -> Future[Any]:
        if time.monotonic() > ends_at:
            return failed(KafkaError(KafkaError._TIMED_OUT, "not sent: out of time"))
        wire = ConsumerGroupTopicPartitions(request.commit.group, request.wire())
        seconds = max(0.1, min(ends_at - time.monotonic(), _COORDINATOR_SECONDS))
        try:
            return self._coordinators().alter_consumer_group_offsets([wire], request_timeout=seconds)[
                request.commit.group
            ]
        except KafkaException as error:
            return failed(error.args[0])

    def _send_deletion(self, group: str, timeout: float) -> Future[Any]:
        return self._coordinators().delete_consumer_groups([group], request_timeout=timeout)[group]

    def _done(self, what: str, future: Future[Any], timeout: float, already: int) -> bool:
        """Wait for a change; False when the cluster says that it was already so."""
        outcome = outcome_of(future, timeout + 5)
        if is_error(outcome, already):
            return False
        with self._border(what):
            raised(outcome)
        return True

    def _await_partitions(self, topic: str, total: int, timeout: float) -> None:
        """Read back a created topic: brokers learn of it one after the other."""
        ends_at = time.monotonic() + timeout
        while True:
            found = self.topics([topic], timeout).get(topic)
            leaders = list(found.partitions.values()) if found else []
            if len(leaders) == total and None not in leaders:
                return
            if time.monotonic() > ends_at or len(leaders) > total:
                seen = f"{len(leaders)} partitions, {leaders.count(None)} without leader"
                raise ReadBackFailed(f"topic {topic!r} of {self.alias} should have {total} partitions", seen)
            time.sleep(0.1)


def _topic(description: Any) -> TopicInfo:
    parts = sorted(description.partitions, key=lambda p: p.id)
    return TopicInfo(
        name=description.name,
        topic_id=str(description.topic_id),
        partitions={p.id: p.leader.id if p.leader and p.leader.id >= 0 else None for p in parts},
        replicas={p.id: tuple(node.id for node in p.replicas) for p in parts},
        in_sync={p.id: tuple(node.id for node in p.isr) for p in parts},
        internal=bool(description.is_internal),
    )


def _state(state: Any) -> str:
    return _STATES.get(getattr(state, "name", ""), "Unknown")


def _listed(group: Any) -> GroupInfo:
    protocol_type = "" if group.is_simple_consumer_group else "consumer"
    return GroupInfo(group.group_id, _state(group.state), group.type.name.lower(), protocol_type)


def _group(description: Any) -> GroupInfo:
    members = tuple(
        Member(m.client_id, m.host, tuple(TopicPartition(p.topic, p.partition) for p in m.assignment.topic_partitions))
        for m in description.members
    )
    protocol_type = "" if description.is_simple_consumer_group else "consumer"
    return GroupInfo(
        description.group_id, _state(description.state), description.type.name.lower(), protocol_type, members
    )


def _positions(answer: ConsumerGroupTopicPartitions) -> dict[TopicPartition, Position]:
    """Committed positions only: librdkafka marks a partition without one by a negative offset."""
    # Ten thousand groups hold a million: `_make` saves a third of the time.
    where, position = TopicPartition._make, Position._make
    return {
        where((p.topic, p.partition)): position(
            (p.offset, p.metadata or "", None if (epoch := p.leader_epoch) is None or epoch < 0 else epoch)
        )
        for p in answer.topic_partitions or []
        if p.offset >= 0
    }
