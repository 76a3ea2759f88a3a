"""One look at a flow: changes are written down, what cannot be read is named, the order holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync, encode_offset_sync
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.recorder_rows import Kind, RecorderRows, RowPlace, commits_partition
from kafka_dr.errors import ArchiveUnavailable, KafkaUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.clients import FlowBack
from kafka_dr.recorder.history import last_known
from kafka_dr.recorder.loop import SAMPLES, SCHEMA
from kafka_dr.recorder.mirror_topics import read_so_far
from kafka_dr.recorder.sampler import Looker
from kafka_dr.vocabulary import COMMITS_TOPIC

from tests.support.sampled_site import (
    CHECKPOINTS,
    COMMITS,
    FLOW,
    ORDERS,
    SYNCS,
    OtherWorker,
    Worker,
    commit,
    flow_back,
    pairs,
    rows,
    told,
)


def test_a_first_sample_tells_everything(site: Any) -> None:
    """Both sides, groups, positions, MirrorMaker 2's own statements, and a pair by content."""
    sample = site.looker.look(whole=True)
    assert told(sample)["problems"] == [] and told(sample)["heartbeat_at"] == 77 and told(sample)["whole"] is True
    (partition,) = rows(sample, "partition")
    found = (partition["source_end"], partition["target_end"], partition["replicated"], partition["topic_id"])
    assert found == (3, 2, 1, "id-orders-0")
    assert rows(sample, "group") == [{"group": "billing", "members": 0, "state": "Empty"}]
    assert rows(sample, "position") == [{"group": "billing", "topic": "orders", "partition": 0, "position": 1}]
    assert rows(sample, "sync") == [{"topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "sequence": 0}]
    assert rows(sample, "checkpoint") == [
        {"group": "billing", "topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "sequence": 0}
    ]
    assert rows(sample, "pair") == [
        {"topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "source_end": 3, "records": 1}
    ]


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


ORDERS_1 = TopicPartition("orders", 1)


def test_a_partition_without_leader_is_named_and_the_others_are_recorded(site: Any) -> None:
    """Its ends become unknown, its topic is not deleted; the other partitions and all groups go on."""
    site.east.write(ORDERS_1, b"a")
    site.west.write(ORDERS_1, b"a")
    site.looker.look(whole=True)
    site.east.leaderless = {ORDERS_1}
    site.east.write(ORDERS, b"3")
    samples = [site.looker.look(whole=False) for _ in range(2)]
    recorded = {row["partition"]: row.get("source_end") for row in rows(samples[0], "partition")}
    assert recorded == {0: 4, 1: None}
    assert "the source: 1 partition without leader: orders-1" in told(samples[0])["problems"]
    assert told(samples[0])["source_answered"] and told(samples[0])["groups_read"] == "changed"
    assert [rows(sample, "topic") for sample in samples] == [[], []]
    site.east.leaderless = set()
    assert [row["source_end"] for row in rows(site.looker.look(whole=False), "partition")] == [1]


def test_a_target_partition_without_leader_has_no_end(site: Any) -> None:
    """The source's end of the same partition is recorded."""
    site.looker.look(whole=True)
    site.west.leaderless = {ORDERS}
    (partition,) = rows(site.looker.look(whole=False), "partition")
    assert partition["source_end"] == 3 and "target_end" not in partition


def test_groups_of_a_commits_partition_without_leader_stay_recorded(site: Any) -> None:
    """The brokers do not list them: they are not deleted, and no listing is called whole."""
    commits = [TopicPartition(COMMITS_TOPIC, number) for number in range(2)]
    for tp in commits:
        site.east.logs.setdefault(tp, [])
    names = {commits_partition(name, 2): name for name in ("a", "b", "c", "d")}
    site.east.positions = {name: {ORDERS: 1} for name in names.values()}
    assert told(site.looker.look(whole=True))["groups_read"] == "whole"
    site.east.leaderless = {commits[1]}
    del site.east.positions[names[1]]
    sample = site.looker.look(whole=True)
    assert told(sample)["groups_read"] == "changed" and rows(sample, "group") == []
    site.east.leaderless = set()
    sample = site.looker.look(whole=False)
    assert told(sample)["groups_read"] == "whole"
    assert {"group": names[1], "state": "Gone"} in rows(sample, "group")


def test_a_source_that_is_away_is_waited_for_once(site: Any) -> None:
    """Its groups, its commits, its offset syncs are not asked for: the next sample must not be late."""
    site.worker.settings["offset-syncs.topic.location"] = "source"
    site.looker.look(whole=True)
    site.asked.clear()
    site.east.away = True
    sample = site.looker.look(whole=False)
    assert [asked for asked in site.asked if asked.startswith("east")] == ["east topics"]
    assert len(told(sample)["problems"]) == 1 and len(rows(sample, "checkpoint")) == 0


def test_checkpoints_are_written_down_while_the_syncs_cannot_be_read(site: Any) -> None:
    """They died with the source."""
    site.worker.settings["offset-syncs.topic.location"] = "source"
    site.east.away = True
    sample = site.looker.look(whole=True)
    assert len(rows(sample, "checkpoint")) == 1 and not rows(sample, "sync")


def test_where_nobody_says_whose_syncs_they_are_none_is_written(site: Any) -> None:
    """The other flow's lie under the same name until Connect says where this one's are; that is named."""
    key, value = encode_offset_sync(OffsetSync("orders", 0, 900, 900))
    site.east.write(TopicPartition("mm2-offset-syncs.west.internal", 0), value, key=key)
    worker = site.worker
    worker.away = True
    sample = site.looker.look(whole=True)
    assert not rows(sample, "sync")
    assert any(
        "offset syncs: the cluster with the offset-syncs topic is unknown" in problem
        for problem in told(sample)["problems"]
    )
    worker.away = False
    assert [row["upstream"] for row in rows(site.looker.look(whole=False), "sync")] == [1]
    worker.away = True
    write_sync(site, 2)
    assert [row["upstream"] for row in rows(site.looker.look(whole=False), "sync")] == [2]


@pytest.mark.parametrize(
    ("stated", "found"),
    [({}, []), ({"offset-syncs.topic.location": "target"}, [1]), ({"offset-syncs.topic.location": "source"}, [7])],
)
def test_in_dedicated_mode_the_topology_says_where_syncs_are(
    site: Any, stated: dict[str, str], found: list[int]
) -> None:
    """Or nobody does."""
    key, value = encode_offset_sync(OffsetSync("orders", 0, 7, 7))
    site.east.write(TopicPartition("mm2-offset-syncs.west.internal", 0), value, key=key)
    flow = FLOW.model_copy(update={"mirror_maker": stated})
    sample = Looker(flow, site.looker.naming, replace(site.looker.access, connectors=None)).look(True)
    assert [row["upstream"] for row in rows(sample, "sync")] == found


@pytest.mark.parametrize(("version", "topics"), [("3.9.2", ["orders"]), ("4.0.0", ["app-internal", "orders"])])
def test_a_worker_before_4_0_mirrors_less(site: Any, version: str, topics: list[str]) -> None:
    """What it takes for internal is no topic of the flow."""
    site.east.write(TopicPartition("app-internal", 0), b"1")
    site.worker.version = version
    site.worker.settings |= {"topics": "orders, app-internal"}
    assert sorted({row["topic"] for row in rows(site.looker.look(True), "partition")}) == topics


def write_sync(site: Any, upstream: int) -> None:
    """MirrorMaker 2 writes another one."""
    key, value = encode_offset_sync(OffsetSync("orders", 0, upstream, upstream))
    site.west.write(TopicPartition(SYNCS, 0), value, key=key)


def again(site: Any, archive: Archive) -> Looker:
    """Another process's, which goes on by the archive."""
    return Looker(FLOW, site.looker.naming, site.looker.access, read_before=lambda: read_so_far(archive))


def keep(archive: Archive, sample: RecorderRows) -> None:
    """As the recorder does."""
    archive.write(SAMPLES, pa.table(sample.columns, SCHEMA), datetime.fromtimestamp(sample.at / 1000, UTC))


def test_another_recorder_goes_on_where_the_first_one_ended(site: Any, tmp_path: Path) -> None:
    """What was written down stands with its own time; a topic made anew is read from its beginning."""
    archive = Archive(f"file://{tmp_path}", "f")
    keep(archive, again(site, archive).look(True))
    write_sync(site, 2)
    second = again(site, archive).look(True)
    assert [row["upstream"] for row in rows(second, "sync")] == [2] and not rows(second, "checkpoint")
    keep(archive, second)
    assert read_so_far(archive) == {
        RowPlace(f"id-{topic}-0", topic, 0): end for topic, end in ((SYNCS, 2), (CHECKPOINTS, 1))
    }
    site.west.made += 1
    assert [row["upstream"] for row in rows(again(site, archive).look(True), "sync")] == [1, 2]


@pytest.mark.parametrize("details", ['{"a":' * 100_000, "{", "[]"])
def test_a_sample_that_cannot_be_read_does_not_end_the_recorder(site: Any, tmp_path: Path, details: str) -> None:
    """Somebody else wrote into the archive: the sample says so, and readers are told that the archive is damaged."""
    archive = Archive(f"file://{tmp_path}", "f")
    rows = RecorderRows(int(time.time() * 1000))
    rows.add(Kind.SAMPLE, details=details)
    keep(archive, rows)
    told = json.loads(again(site, archive).look(True).columns["details"][-1])
    assert any("a sample in the archive cannot be read" in problem for problem in told["problems"])
    with pytest.raises(ArchiveUnavailable, match="a sample in the archive cannot be read"):
        last_known(archive)


def test_what_is_written_down_is_read_back(site: Any, tmp_path: Path) -> None:
    """By the archive's reader: a group made anew, an hour of the other flow, how far checkpoints were read."""
    archive, worker = Archive(f"file://{tmp_path}", "f"), OtherWorker("RUNNING", ("RUNNING",))
    site.looker.access.flow_back = flow_back(worker, "back")
    commit(site, "billing", p0=1, p1=7)
    keep(archive, again(site, archive).look(True))
    assert last_known(archive).floors.empty
    worker.state, worker.tasks = "STOPPED", ()
    site.east.positions = {}
    commit(site, "billing", p0=2)
    time.sleep(0.002)
    second = again(site, archive).look(True)
    keep(archive, second)
    found = last_known(archive)
    assert found.positions[["group", "partition", "position", "position_at"]].values.tolist() == [
        ["billing", 0, 2, second.at]
    ]
    assert found.floors[["source_end", "target_end", "replicated"]].values.tolist() == [[3, 2, 1]]
    assert found.groups_at == second.at
    assert found.read_to == {RowPlace(f"id-{topic}-0", topic, 0): 1 for topic in (SYNCS, CHECKPOINTS)}


def test_nothing_is_read_before_the_archive_tells_how_far_it_was(site: Any) -> None:
    """It is asked again; MirrorMaker 2's topics wait."""
    answers: list[Any] = [
        ArchiveUnavailable("reading in the archive failed", "OSError", "look"),
        ArchiveUnavailable("reading in the archive failed", "OSError", "look"),
        {},
    ]

    def read_before() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    looker = Looker(FLOW, site.looker.naming, site.looker.access, read_before=read_before)
    first = looker.look(True)
    assert not rows(first, "sync") and told(first)["read_to"] is None
    assert any("in the archive failed" in problem for problem in told(first)["problems"])
    assert len(rows(looker.look(False), "sync")) == 1


def test_millions_of_statements_are_read_in_parts(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at one sample, none twice."""
    monkeypatch.setattr("kafka_dr.recorder.mirror_topics._MOST_RECORDS", 2)
    for upstream in range(2, 6):
        write_sync(site, upstream)
    found = [[row["upstream"] for row in rows(site.looker.look(False), "sync")] for _ in range(4)]
    assert found == [[1, 2], [3, 4], [5], []]


FLOWS_BACK = {
    "running": ("RUNNING", ("RUNNING",), "back", True),
    "stopping": ("STOPPED", ("RUNNING",), "back", True),
    "its tasks failed, and may be started again": ("RUNNING", ("FAILED",), "back", True),
    "stopped": ("STOPPED", (), "back", False),
    "paused": ("PAUSED", ("PAUSED",), "back", False),
    "not there": ("RUNNING", ("RUNNING",), "never made", False),
}


@pytest.mark.parametrize(("state", "tasks", "connector", "flows"), FLOWS_BACK.values(), ids=FLOWS_BACK)
def test_a_sample_tells_whether_the_other_flow_may_mirror(
    site: Any, state: str, tasks: tuple[str, ...], connector: str, flows: bool
) -> None:
    """While it does no pair is looked for: positions rest on nothing of that time."""
    site.looker.access.flow_back = flow_back(OtherWorker(state, tasks), connector)
    sample = site.looker.look(True)
    assert told(sample)["flows_back"] is flows and told(sample)["problems"] == [] and bool(pairs(sample)) is not flows


def test_where_no_flow_writes_back_that_is_said(site: Any) -> None:
    """Names differ, or there is none; in dedicated mode nobody can be asked."""
    assert told(site.looker.look(True))["flows_back"] is False
    site.looker.access.flow_back = FlowBack(None)
    assert told(site.looker.look(True))["flows_back"] is None


def test_the_other_flows_worker_is_not_waited_for_beside_a_source_that_is_away(site: Any) -> None:
    """It stands beside it; what it does is not known then, and asked again when the source is back."""
    worker = OtherWorker("STOPPED", ())
    site.looker.access.flow_back = flow_back(worker, "back")
    worker.away = site.east.away = True
    sample = site.looker.look(True)
    assert told(sample)["flows_back"] is None
    assert any(problem.startswith("the reverse flow: ") for problem in told(sample)["problems"])
    site.looker.look(False)
    assert worker.asked == 1
    worker.away = site.east.away = False
    site.looker.look(False)
    assert told(site.looker.look(False))["flows_back"] is False and worker.asked == 2


def test_that_connect_keeps_no_offset_is_told_from_not_knowing(site: Any) -> None:
    """A recorder that is started while Connect is silent knows none; one that was told keeps it."""
    worker = site.worker
    worker.away = True
    assert "replicated" not in rows(site.looker.look(True), "partition")[0]
    worker.away = False
    assert rows(site.looker.look(True), "partition")[0]["replicated"] == 1
    worker.away = True
    assert rows(site.looker.look(True), "partition")[0]["replicated"] == 1
    worker.away, worker.offsets = False, lambda name, timeout: SimpleNamespace(of=lambda alias: {})
    assert rows(site.looker.look(True), "partition")[0]["replicated"] == -1


def test_a_group_of_an_unknown_type_is_named_and_not_recorded(site: Any) -> None:
    """Whoever fails over without the source reads in its last sample which groups it lacks."""
    site.east.positions["odd"] = {ORDERS: 2}
    site.east.types["odd"] = "unknown"
    sample = site.looker.look(whole=True)
    assert [row["group"] for row in rows(sample, "position")] == ["billing"]
    assert told(sample)["problems"] == ["positions of groups of an unknown type: odd"]


def test_a_group_that_is_gone_is_told_once(site: Any) -> None:
    """Its positions are nobody's any more; when it comes back they are all told, also one that is as high."""
    site.looker.look(whole=True)
    site.east.positions = {}
    site.east.write(COMMITS, b"")
    assert rows(site.looker.look(whole=False), "group") == [{"group": "billing", "state": "Gone"}]
    assert rows(site.looker.look(whole=False), "group") == []
    commit(site, "billing", p0=1)
    assert rows(site.looker.look(whole=False), "position") == [
        {"group": "billing", "topic": "orders", "partition": 0, "position": 1}
    ]


@pytest.mark.parametrize("failing", ["groups", "positions", "ends of commits"])
def test_after_a_slow_answer_the_same_groups_are_asked_again(site: Any, failing: str) -> None:
    """They committed, and do not again: what they hold is not forgotten."""
    site.looker.look(whole=True)
    commit(site, "billing", p0=2)
    site.east.failing = failing
    if failing == "ends of commits":
        real = site.east.ends
        site.east.ends = lambda partitions, *rest, **named: (
            site.east._answer(failing)
            if {tp.topic for tp in partitions} == {COMMITS_TOPIC}
            else real(partitions, *rest, **named)
        )
    sample = site.looker.look(whole=False)
    assert told(sample)["groups_read"] is None and not rows(sample, "position")
    assert any(problem.startswith("groups: ") for problem in told(sample)["problems"])
    site.east.failing = ""
    if failing == "ends of commits":
        site.east.ends = real
    sample = site.looker.look(whole=False)
    assert told(sample)["groups_read"] == "changed" and [row["position"] for row in rows(sample, "position")] == [2]


def test_a_whole_listing_that_failed_is_made_up_for(site: Any) -> None:
    """The source was away, or slow, at the beginning of the hour: the next listing repeats everything."""
    site.looker.look(whole=True)
    site.east.away = True
    site.looker.look(whole=True)
    site.east.away, site.east.failing = False, "positions"
    site.looker.look(whole=False)
    site.east.failing = ""
    sample = site.looker.look(whole=False)
    assert told(sample)["groups_read"] == "whole"
    assert len(rows(sample, "group")) == len(rows(sample, "position")) == len(rows(sample, "partition")) + 1 == 1
    assert told(site.looker.look(whole=False))["groups_read"] == "changed"


def test_positions_that_did_not_change_are_not_written_again(site: Any) -> None:
    """Whoever else commits into the same partition of Kafka's topic; what a group holds no more is told once."""
    commit(site, "billing", p0=1, p1=4)
    site.looker.look(whole=True)
    commit(site, "audit", p0=3)
    assert [(row["group"], row["position"]) for row in rows(site.looker.look(whole=False), "position")] == [
        ("audit", 3)
    ]
    assert site.east.read == ["billing", "audit"]
    commit(site, "billing", p0=2, p1=None)
    found = [(row["partition"], row.get("position")) for row in rows(site.looker.look(whole=False), "position")]
    assert found == [(0, 2), (1, None)]
    commit(site, "billing", p0=2)
    assert rows(site.looker.look(whole=False), "position") == []


def test_where_kafka_does_not_show_its_commits_all_groups_are_asked(site: Any) -> None:
    """What did not change is not written all the same."""
    real = site.east.topics

    def hidden(names: Iterable[str] | None = None, timeout: float = 0) -> dict[str, Any]:
        if names:
            error = KafkaUnavailable("describing topics failed", "TOPIC_AUTHORIZATION_FAILED", "look")
            error.from_broker = True
            raise error
        return real(names, timeout)

    site.east.topics = hidden
    site.looker.look(whole=True)
    commit(site, "audit", p0=3)
    sample = site.looker.look(whole=False)
    assert site.east.read == ["billing", "audit"] and [row["group"] for row in rows(sample, "position")] == ["audit"]
    assert told(sample)["problems"] == []


def test_with_a_topic_made_anew_all_positions_are_told_again(site: Any) -> None:
    """A group that has read as much of the new one stands where it stood in the old one, whose rows count no more."""
    site.looker.look(whole=True)
    site.east.made += 1
    sample = site.looker.look(whole=False)
    assert told(sample)["groups_read"] == "whole" and [row["position"] for row in rows(sample, "position")] == [1]


def test_a_record_that_is_no_sync_is_counted(site: Any) -> None:
    """It is skipped, and said."""
    site.west.write(TopicPartition(SYNCS, 0), b"short", key=b"x")
    sample = site.looker.look(whole=True)
    assert len(rows(sample, "sync")) == 1
    assert any("1 of 2 records are not readable as syncs" in problem for problem in told(sample)["problems"])


def test_in_dedicated_mode_nothing_is_asked_of_mirror_maker(site: Any) -> None:
    """Without a Connect worker the sample has no states and names no problem; what the logs say is recorded."""
    looker = Looker(FLOW, site.looker.naming, replace(site.looker.access, connectors=None))
    sample = looker.look(True)
    assert not [problem for problem in told(sample)["problems"] if problem.startswith("Connect")]
    assert rows(sample, "partition")


PAYS = TopicPartition("pays", 0)


@pytest.fixture
def wide(site: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same site with a flow of two topics, both mirrored."""
    monkeypatch.setattr(
        Worker,
        "config",
        lambda self, name, timeout: {"topics": "orders,pays", "groups": ".*", "offset-syncs.topic.location": "target"},
    )
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
    wide.looker = Looker(
        FLOW,
        naming_of(NamingSpec(policy="default", separator="."), ("east", "west")),
        replace(wide.looker.access, connectors=None),
    )
    assert [gone(wide, whole=True), gone(wide)] == [[], ["older"]]


def test_a_sample_says_how_far_behind_the_recorder_is(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the median of its last samples, so that one slow sample is no delay."""
    clock = iter([0.0, 9.0, 40.0, 54.0, 68.0, 82.0, 96.0])
    look = site.looker.look
    for expected in (None, 9.0, 20.0, 14.0, 14.0, 14.0):
        monkeypatch.setattr("kafka_dr.recorder.sampler.time.monotonic", lambda at=next(clock): at)
        assert told(look(False))["every_seconds"] == expected
    assert told(look(False))["interval_seconds"] == 10.0


def test_large_clusters_have_longer_to_answer(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first sample on; one that is away has no longer than a small one from the second sample on."""
    limits: list[float] = []
    listed = site.east.topics

    def topics(names: Any = None, timeout: float = 0) -> Any:
        limits.append(timeout)
        return listed(names, timeout)

    monkeypatch.setattr(site.east, "topics", topics)
    monkeypatch.setattr(site.east, "partition_count", lambda timeout: limits.append(timeout) or 30_000)
    site.looker.look(True)
    assert limits == [4.0, 24.0]
    site.east.away = True
    site.looker.look(False)
    site.looker.look(False)
    # Both samples failed; the last one asked how large the cluster is before it listed topics.
    assert limits[2] < 5.0 and limits[3:] == [4.0, 24.0]
