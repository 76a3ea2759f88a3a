"""One look at a flow: what differs is written down, what cannot be read is named, and the order of looking holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_dr.domain.mirror_records import Checkpoint, OffsetSync, encode_checkpoint, encode_heartbeat, encode_offset_sync, Heartbeat
from kafka_dr.domain.naming import NamingSpec, naming_of
from kafka_dr.domain.recorded import Rows
from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.group_requests import PositionColumns
from kafka_dr.hooks.kafka_cluster import GroupInfo
from kafka_dr.hooks.kafka_records import Record, Span, Tail
from kafka_dr.recorder.looking import Access, Looker
from kafka_dr.topology import Connectors, Flow

ORDERS, COMMITS = TopicPartition("orders", 0), TopicPartition("__consumer_offsets", 0)
FLOW = Flow(source="east", target="west", connect="connect", connectors=Connectors(source="s", checkpoint="c"))
SYNCS, CHECKPOINTS, BEATS = "mm2-offset-syncs.east.internal", "east.checkpoints.internal", "east.heartbeats"


class Cluster:
    """A cluster of logs: records by partition; `away` makes every question fail."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked, self.away = name, asked, False
        self.logs: dict[TopicPartition, list[Record]] = {}
        self.positions: dict[str, dict[TopicPartition, int]] = {}
        self.read: list[str] = []

    def write(self, tp: TopicPartition, *values: bytes, key: bytes | None = b"k") -> None:
        """Append records."""
        log = self.logs.setdefault(tp, [])
        log += [Record(*tp, len(log) + n, 1, False, key, value, ()) for n, value in enumerate(values)]

    def _answer(self, what: str) -> None:
        self.asked.append(f"{self.name} {what}")
        if self.away:
            raise KafkaUnavailable(f"{what} on {self.name} failed", "no answer in time", "look")

    def topics(self, names: Iterable[str] | None = None, timeout: float = 0) -> dict[str, Any]:
        """Topics by name."""
        self._answer("topics")
        there = sorted({tp.topic for tp in self.logs} & set(names if names is not None else (tp.topic for tp in self.logs)))
        return {name: SimpleNamespace(topic_id=f"id-{name}", partitions={tp.partition: 1 for tp in self.logs if tp.topic == name}) for name in there}

    def ends(self, partitions: Iterable[TopicPartition], timeout: float = 0) -> dict[TopicPartition, int]:
        """Log ends."""
        self._answer("ends")
        return {tp: len(self.logs[tp]) for tp in partitions}

    def starts(self, partitions: Iterable[TopicPartition], timeout: float = 0) -> dict[TopicPartition, int]:
        """Log starts."""
        return dict.fromkeys(partitions, 0)

    def groups(self, timeout: float = 0) -> dict[str, GroupInfo]:
        """Groups, all idle."""
        self._answer("groups")
        return {name: GroupInfo(name, "Empty", "classic", "consumer") for name in self.positions}

    def position_columns(self, groups: Iterable[str], require_stable: bool = True, timeout: float = 0) -> PositionColumns:
        """Positions of the groups that were asked for."""
        self.read = list(groups)
        rows = [(group, *tp, position) for group in self.read for tp, position in self.positions[group].items()]
        return PositionColumns(*(list(column) for column in zip(*rows, strict=True))) if rows else PositionColumns([], [], [], [])


class Reader:
    """Reads a cluster's logs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def spans(self, partitions: Iterable[TopicPartition], timeout: float = 0) -> dict[TopicPartition, Span]:
        """Whole logs."""
        return {tp: Span(0, len(self.cluster.logs[tp])) for tp in partitions}

    def scan(self, spans: Mapping[TopicPartition, Span], timeout: float = 0) -> list[Record]:
        """Records of all spans."""
        return [record for tp, span in spans.items() for record in self.cluster.logs[tp][span.start : span.end]]

    def ranges(self, spans: Mapping[TopicPartition, Span], limit: int | None = None, timeout: float = 0) -> dict[TopicPartition, list[Record]]:
        """Records by partition."""
        return {tp: self.cluster.logs[tp][span.start : span.end] for tp, span in spans.items()}

    def last_records(self, partitions: Iterable[TopicPartition], n: int = 1, timeout: float = 0) -> dict[TopicPartition, Tail]:
        """The last record of each."""
        return {tp: Tail(tuple(self.cluster.logs[tp][-1:]), 0, len(self.cluster.logs[tp])) for tp in partitions}


class Worker:
    """A Connect worker of a flow that runs."""

    def status(self, name: str, timeout: float) -> str:
        """A state."""
        return f"{name} RUNNING"

    def config(self, name: str, timeout: float) -> dict[str, str]:
        """What the recorder needs of it."""
        return {"topics": "orders", "groups": ".*", "offset-syncs.topic.location": "target"}

    def offsets(self, name: str, timeout: float) -> Any:
        """Two records were replicated."""
        return SimpleNamespace(of=lambda alias: {ORDERS: 1})


@pytest.fixture
def site() -> Any:
    """Two clusters, three records, two of them mirrored, and a group at the second."""
    asked: list[str] = []
    east, west = Cluster("east", asked), Cluster("west", asked)
    east.write(ORDERS, b"1", b"2", b"3")
    west.write(ORDERS, b"1", b"2")
    east.write(COMMITS, b"")
    east.positions = {"billing": {ORDERS: 1}}
    for topic, (key, value) in ((SYNCS, encode_offset_sync(OffsetSync("orders", 0, 1, 1))), (CHECKPOINTS, encode_checkpoint(Checkpoint("billing", "orders", 0, 1, 1))), (BEATS, encode_heartbeat(Heartbeat("east", "west", 77)))):
        west.write(TopicPartition(topic, 0), value, key=key)
    looker = Looker(FLOW, naming_of(NamingSpec(policy="identity"), ("east", "west")), Access(east, west, Reader(east), Reader(west), Worker()))
    return SimpleNamespace(east=east, west=west, looker=looker, asked=asked)


def rows(sample: Rows, kind: str) -> list[dict[str, Any]]:
    """A sample's rows of one kind, without what they do not have."""
    found = [{name: column[n] for name, column in sample.columns.items() if column[n] is not None} for n in range(len(sample))]
    return [{k: v for k, v in row.items() if k not in ("at", "kind")} for row in found if row["kind"] == kind]


def told(sample: Rows) -> dict[str, Any]:
    """What the sample's own row says."""
    return json.loads(rows(sample, "sample")[0]["details"])


def test_a_first_sample_tells_everything(site: Any) -> None:
    """Both sides, groups, positions, MirrorMaker 2's own statements, and a pair by content."""
    sample = site.looker.look(whole=True)
    assert told(sample)["problems"] == [] and told(sample)["heartbeat_at"] == 77 and told(sample)["whole"] is True
    (partition,) = rows(sample, "partition")
    assert (partition["source_end"], partition["target_end"], partition["replicated"], partition["topic_id"]) == (3, 2, 1, "id-orders")
    assert rows(sample, "group") == [{"group": "billing", "members": 0, "state": "Empty"}]
    assert rows(sample, "position") == [{"group": "billing", "topic": "orders", "partition": 0, "position": 1}]
    assert rows(sample, "sync") == [{"topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "sequence": 0}]
    assert rows(sample, "checkpoint") == [{"group": "billing", "topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "sequence": 0}]
    assert rows(sample, "pair") == [{"topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "source_end": 3, "records": 1}]


def test_the_targets_ends_are_read_before_the_sources(site: Any) -> None:
    """What was written in between must lie above the pair of ends, not below it."""
    site.looker.look(whole=True)
    assert site.asked.index("west ends") < site.asked.index("east ends")


def test_where_nothing_changed_nothing_but_the_sample_is_written(site: Any) -> None:
    """At rest a sample is one row, and no position is read."""
    site.looker.look(whole=True)
    site.east.read = []
    sample = site.looker.look(whole=False)
    assert len(sample) == 1 and told(sample)["problems"] == [] and site.east.read == []


def test_what_changed_is_written(site: Any) -> None:
    """A record mirrored, a commit, a new sync: one row each; a new pair goes on above the last."""
    site.looker.look(whole=True)
    site.west.write(ORDERS, b"3")
    site.east.write(COMMITS, b"")
    site.east.positions["billing"] = {ORDERS: 2}
    key, value = encode_offset_sync(OffsetSync("orders", 0, 2, 2))
    site.west.write(TopicPartition(SYNCS, 0), value, key=key)
    sample = site.looker.look(whole=False)
    assert [row["target_end"] for row in rows(sample, "partition")] == [3]
    assert [row["position"] for row in rows(sample, "position")] == [2]
    assert [(row["upstream"], row["sequence"]) for row in rows(sample, "sync")] == [(2, 1)]
    assert [(row["upstream"], row["downstream"], row["records"]) for row in rows(sample, "pair")] == [(2, 2, 0)]


def test_a_source_that_is_away_is_named_and_the_target_is_still_recorded(site: Any) -> None:
    """Its ends become unknown, never zero."""
    site.looker.look(whole=True)
    site.east.away = True
    site.west.write(ORDERS, b"3")
    sample = site.looker.look(whole=False)
    (partition,) = rows(sample, "partition")
    assert partition["target_end"] == 3 and "source_end" not in partition
    assert any(problem.startswith("the source: ") for problem in told(sample)["problems"])
    assert rows(sample, "pair") == []


def test_a_group_that_is_gone_is_told_once(site: Any) -> None:
    """Its positions are nobody's any more."""
    site.looker.look(whole=True)
    site.east.positions = {}
    site.east.write(COMMITS, b"")
    assert rows(site.looker.look(whole=False), "group") == [{"group": "billing", "state": "Gone"}]
    assert rows(site.looker.look(whole=False), "group") == []


def test_a_record_that_is_no_sync_is_counted(site: Any) -> None:
    """It is skipped, and said."""
    site.west.write(TopicPartition(SYNCS, 0), b"short", key=b"x")
    sample = site.looker.look(whole=True)
    assert len(rows(sample, "sync")) == 1
    assert any("1 of 2 records cannot be what they should be: syncs" in problem for problem in told(sample)["problems"])


def test_in_dedicated_mode_nothing_is_asked_of_mirror_maker(site: Any) -> None:
    """Without a Connect worker the sample has no states and names no problem; what the logs say is recorded."""
    looker = Looker(FLOW, site.looker.naming, replace(site.looker.access, worker=None))
    sample = looker.look(True)
    assert not [problem for problem in told(sample)["problems"] if problem.startswith("Connect")] and rows(sample, "partition")


PAYS = TopicPartition("pays", 0)


@pytest.fixture
def wide(site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same site with a flow of two topics, both mirrored."""
    monkeypatch.setattr(Worker, "config", lambda self, name, timeout: {"topics": "orders,pays", "groups": ".*", "offset-syncs.topic.location": "target"})
    site.east.write(PAYS, b"1")
    site.west.write(PAYS, b"1")
    return site


def gone(site: Any, whole: bool = False) -> list[str]:
    """Topics that a sample says are gone."""
    return [row["topic"] for row in rows(site.looker.look(whole), "topic") if row["state"] == "Gone"]


def test_a_topic_that_the_source_deleted_is_told_at_the_second_look(wide: Any) -> None:
    """Once, and in every whole sample, so that older hours may go; its partition is not written again."""
    wide.looker.look(whole=True)
    del wide.east.logs[PAYS]
    assert [gone(wide), gone(wide), gone(wide), gone(wide, whole=True)] == [[], ["pays"], [], ["pays"]]
    assert {row["topic"] for row in rows(wide.looker.look(whole=True), "partition")} == {"orders"}


def test_a_topic_that_comes_back_is_written_down_again(wide: Any) -> None:
    """Also where it is what it was: nothing else would tell that it is there."""
    wide.looker.look(whole=True)
    log = wide.east.logs.pop(PAYS)
    assert [gone(wide), gone(wide)] == [[], ["pays"]]
    wide.east.logs[PAYS] = log
    assert [row["topic"] for row in rows(wide.looker.look(whole=False), "partition")] == ["pays"]
    assert gone(wide, whole=True) == []


def test_a_topic_that_was_missing_once_is_not_gone(wide: Any) -> None:
    """Nor while the source does not answer: a silence in between neither counts nor is forgotten."""
    wide.looker.look(whole=True)
    log = wide.east.logs.pop(PAYS)
    assert gone(wide) == []
    wide.east.logs[PAYS] = log
    assert gone(wide) == []
    del wide.east.logs[PAYS]
    assert gone(wide) == []
    wide.east.away = True
    assert gone(wide) == []
    wide.east.away = False
    assert gone(wide) == ["pays"]


def test_a_source_without_any_of_its_topics_has_lost_them(wide: Any) -> None:
    """That is what the record is for: none of them was deleted."""
    wide.looker.look(whole=True)
    del wide.east.logs[PAYS], wide.east.logs[ORDERS]
    assert [gone(wide), gone(wide), gone(wide, whole=True)] == [[], [], []]


def test_a_recorder_that_begins_anew_tells_of_topics_deleted_before(wide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what Connect keeps, and by names of copies: not by heartbeats, nor by what Connect forgot."""
    offsets = {ORDERS: 1, PAYS: 0, TopicPartition("forgotten", 0): None, TopicPartition("heartbeats", 0): 5}
    monkeypatch.setattr(Worker, "offsets", lambda self, name, timeout: SimpleNamespace(of=lambda alias: offsets))
    del wide.east.logs[PAYS]
    assert [gone(wide, whole=True), gone(wide)] == [[], ["pays"]]
    wide.west.write(TopicPartition("east.older", 0), b"1")
    wide.looker = Looker(FLOW, naming_of(NamingSpec(policy="default", separator="."), ("east", "west")), replace(wide.looker.access, worker=None))
    assert [gone(wide, whole=True), gone(wide)] == [[], ["older"]]
