"""A site that the flight recorder samples, in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from kafka_dr.config.connectors import Connectors
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.recorder_rows import RecorderRows
from kafka_dr.errors import ConnectUnavailable, KafkaUnavailable
from kafka_dr.hooks.brokers.descriptions import GroupInfo, TopicInfo
from kafka_dr.hooks.brokers.group_requests import PositionColumns
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, Tail
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.recorder.clients import FlowBack

from tests.support.clusters import Message

ORDERS, COMMITS = TopicPartition("orders", 0), TopicPartition("__consumer_offsets", 0)
FLOW = Flow(source="east", target="west", connect="connect", connectors=Connectors(source="s", checkpoint="c"))
NAMING = naming_of(NamingSpec(policy="identity"), ("east", "west"))
SYNCS, CHECKPOINTS, BEATS = "mm2-offset-syncs.east.internal", "east.checkpoints.internal", "east.heartbeats"


class Cluster:
    """A cluster of logs: records by partition, None for an offset without a record; `away` makes every call fail."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked, self.away, self.made = name, asked, False, 0
        self.logs: dict[TopicPartition, list[Record]] = {}
        self.positions: dict[str, dict[TopicPartition, int]] = {}
        self.types: dict[str, str] = {}
        self.read: list[str] = []
        self.failing = ""
        self.stable: dict[TopicPartition, int] = {}
        self.seen_id = f"id-{name}"
        self.leaderless: set[TopicPartition] = set()

    def write(self, tp: TopicPartition, *values: bytes, key: bytes | None = b"k") -> None:
        """Append records."""
        log = self.logs.setdefault(tp, [])
        log += [Record(*tp, len(log) + n, 1, False, key, value, ()) for n, value in enumerate(values)]

    def _answer(self, what: str) -> None:
        self.asked.append(f"{self.name} {what}")
        if self.away or what == self.failing:
            raise KafkaUnavailable(f"{what} on {self.name} failed", "no answer in time", "look")

    def topics(self, names: Iterable[str] | None = None, timeout: float = 0) -> dict[str, Any]:
        """Return the topics by name."""
        self._answer("topics")
        there = sorted(
            {tp.topic for tp in self.logs} & set(names if names is not None else (tp.topic for tp in self.logs))
        )
        return {
            name: TopicInfo(
                name,
                f"id-{name}-{self.made}",
                {tp.partition: None if tp in self.leaderless else 1 for tp in sorted(self.logs) if tp.topic == name},
            )
            for name in there
        }

    def partition_count(self, timeout: float = 0) -> int:
        """Return the number of partitions."""
        if self.away:
            self._answer("topics")
        return len(self.logs)

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: str = "read_uncommitted", timeout: float = 0
    ) -> dict[TopicPartition, int]:
        """Return log ends; under read_committed the last stable offsets."""
        self._answer("ends")
        partitions = list(partitions)
        if self.leaderless.intersection(partitions):
            raise KafkaUnavailable(f"ends on {self.name} failed", "LEADER_NOT_AVAILABLE", "look")
        return {
            tp: self.stable.get(tp, len(self.logs[tp])) if isolation == "read_committed" else len(self.logs[tp])
            for tp in partitions
        }

    def starts(self, partitions: Iterable[TopicPartition], timeout: float = 0) -> dict[TopicPartition, int]:
        """Return log starts."""
        return dict.fromkeys(partitions, 0)

    def groups(self, timeout: float = 0) -> dict[str, GroupInfo]:
        """Return the groups, all without members."""
        self._answer("groups")
        return {name: GroupInfo(name, "Empty", self.types.get(name, "classic"), "consumer") for name in self.positions}

    def position_columns(
        self, groups: Iterable[str], require_stable: bool = True, timeout: float = 0
    ) -> PositionColumns:
        """Return the positions of the given groups."""
        self._answer("positions")
        self.read = list(groups)
        rows = [(group, *tp, position) for group in self.read for tp, position in self.positions[group].items()]
        return (
            PositionColumns(*(list(column) for column in zip(*rows, strict=True)))
            if rows
            else PositionColumns([], [], [], [])
        )


class Reader:
    """Reads a cluster's logs; the end of a `late` partition is not reached in time."""

    def __init__(self, cluster: Cluster, isolation: str = "read_uncommitted") -> None:
        self.cluster, self.isolation = cluster, isolation
        self.late: set[TopicPartition] = set()
        self.taken: list[Any] = []

    def spans(self, partitions: Iterable[TopicPartition], timeout: float = 0) -> dict[TopicPartition, OffsetSpan]:
        """Return the spans of the whole logs."""
        return {tp: OffsetSpan(0, len(self.cluster.logs[tp])) for tp in partitions}

    def scan(
        self,
        spans: Mapping[TopicPartition, OffsetSpan],
        timeout: float = 0,
        limit: int | None = None,
        take: Callable[[Any], Any] = lambda message: message._record,
        given_up: dict[TopicPartition, str] | None = None,
    ) -> Iterator[Any]:
        """Return the records of all spans; of a late partition only the first half."""
        for tp, span in spans.items():
            if span.start < span.end:
                self.cluster.asked.append(f"{self.cluster.name} {tp} from {span.start}")
            records = [record for record in self.cluster.logs[tp][span.start : span.end] if record]
            if tp in self.late:
                assert given_up is not None
                given_up[tp], records = "not reached in time", records[: len(records) // 2]
            self.taken += [take(Message(record)) for record in records[:limit]]
            yield from (take(Message(record)) for record in records[:limit])

    def last_records(
        self, partitions: Iterable[TopicPartition], take: Callable[[Any], Any], timeout: float = 0
    ) -> dict[TopicPartition, Tail]:
        """Return the last record of each partition."""
        logs = {tp: self.cluster.logs[tp] for tp in partitions}
        return {tp: Tail(tuple(take(Message(record)) for record in log[-1:]), 0, len(log)) for tp, log in logs.items()}


class Worker:
    """A Connect worker of a running flow."""

    def __init__(self) -> None:
        self.away, self.version = False, "4.3.1"
        self.settings = {"topics": "orders", "groups": ".*", "offset-syncs.topic.location": "target"}

    def status(self, name: str, timeout: float) -> str:
        """A state."""
        if self.away:
            raise ConnectUnavailable("Connect did not answer", "no connection", "look")
        return f"{name} RUNNING"

    def worker(self, timeout: float) -> Any:
        """Its version."""
        return SimpleNamespace(version=self.version)

    def config(self, name: str, timeout: float) -> dict[str, str]:
        """What the recorder needs of it."""
        return self.settings

    def offsets(self, name: str, timeout: float) -> Any:
        """Two records were replicated."""
        return SimpleNamespace(of=lambda alias: {ORDERS: 1})


def rows(sample: RecorderRows, kind: str) -> list[dict[str, Any]]:
    """Return a sample's rows of one kind, without null values."""
    found = [
        {name: column[n] for name, column in sample.columns.items() if column[n] is not None}
        for n in range(len(sample))
    ]
    return [{k: v for k, v in row.items() if k not in ("at", "kind")} for row in found if row["kind"] == kind]


def told(sample: RecorderRows) -> dict[str, Any]:
    """Return the details in the sample's own row."""
    return json.loads(rows(sample, "sample")[0]["details"])


def commit(site: Any, group: str, **held: int | None) -> None:
    """Commit positions of a group on partitions of orders, named by their number; None deletes a position."""
    known = site.east.positions.setdefault(group, {})
    for number, position in held.items():
        known[TopicPartition("orders", int(number[1:]))] = position
    site.east.positions[group] = {tp: position for tp, position in known.items() if position is not None}
    site.east.write(COMMITS, b"")


def pairs(sample: RecorderRows) -> list[tuple[int, int, int]]:
    """Return partition and both offsets of a sample's content pairs."""
    return [(row["partition"], row["upstream"], row["downstream"]) for row in rows(sample, "pair")]


def flow_back(worker: Any, connector: str = "back") -> FlowBack:
    """Return the flow in the other direction, with this source connector on this worker."""
    flow = FLOW.model_copy(update={"connectors": Connectors(source=connector, checkpoint="c")})
    return FlowBack(FlowConnectors(flow, NAMING, worker))


class OtherWorker:
    """The Connect worker of the flow in the other direction."""

    def __init__(self, state: str, tasks: tuple[str, ...]) -> None:
        self.state, self.tasks, self.away, self.asked = state, tasks, False, 0

    def existing(self, names: Iterable[str], timeout: float) -> list[str]:
        """Return the one there is, if it is asked for; in time."""
        self.asked += 1
        assert timeout <= 2
        if self.away:
            raise ConnectUnavailable("Connect did not answer", "no connection", "look")
        return [name for name in names if name == "back"]

    def status(self, name: str, timeout: float) -> ConnectorStatus:
        """Of the one there is."""
        return ConnectorStatus(name, self.state, dict(enumerate(self.tasks)))
