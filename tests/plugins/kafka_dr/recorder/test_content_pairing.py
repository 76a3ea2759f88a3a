"""The recorder's offset pairs, found by content."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.recorder.sampler import Looker

from tests.support.sampled_site import FLOW, ORDERS, OtherWorker, Reader, flow_back, pairs, rows, told


def test_under_read_committed_pairs_end_below_an_open_transaction(site: Any) -> None:
    """No reader gets further; MirrorMaker 2 did not either."""
    site.east.stable = {ORDERS: 2}
    site.looker = Looker(
        FLOW, site.looker.naming, replace(site.looker.access, source_records=Reader(site.east, "read_committed"))
    )
    sample = site.looker.look(True)
    assert rows(sample, "pair") == [
        {"topic": "orders", "partition": 0, "upstream": 1, "downstream": 1, "source_end": 2, "records": 0}
    ]


def three_partitions(site: Any) -> list[TopicPartition]:
    """Each with ten records, the last of which is not mirrored."""
    partitions = [TopicPartition("orders", p) for p in range(3)]
    for tp in partitions:
        for cluster, count in ((site.east, 10), (site.west, 9)):
            cluster.logs[tp] = []
            cluster.write(tp, *(f"{tp} {n}".encode() for n in range(count)))
    return partitions


@pytest.mark.parametrize("late", ["source", "target"])
def test_a_partition_that_is_late_keeps_no_pair_from_the_others(site: Any, late: str) -> None:
    """It is named, and has its own at the next sample at which it can be read, though nothing has changed since."""
    partitions = three_partitions(site)
    reader = getattr(site.looker.access, f"{late}_records")
    reader.late = {partitions[1]}
    sample = site.looker.look(True)
    assert pairs(sample) == [(0, 8, 8), (2, 8, 8)]
    assert told(sample)["problems"] == ["own pairs: 1 of 3 partitions have no new content pair: orders-1"]
    assert sum(asked.startswith("west orders-1 from") for asked in site.asked) == 1
    assert pairs(site.looker.look(False)) == []
    reader.late = set()
    sample = site.looker.look(False)
    assert pairs(sample) == [(1, 8, 8)] and told(sample)["problems"] == []
    site.asked.clear()
    site.looker.look(False)
    assert not any(" orders-" in asked for asked in site.asked)


def test_what_was_looked_through_without_a_pair_is_not_looked_through_again(site: Any) -> None:
    """The target's newest record is none of the source's: at rest nothing is read for it."""
    three_partitions(site)
    site.west.write(ORDERS, b"of another writer")
    assert told(site.looker.look(True))["problems"] == [
        "own pairs: 1 of 3 partitions have no new content pair: orders-0"
    ]
    site.asked.clear()
    assert told(site.looker.look(False))["problems"] == []
    assert not any(" orders-" in asked for asked in site.asked)


def test_what_changed_while_nothing_could_be_paired_is_paired_later(site: Any) -> None:
    """The other flow may have mirrored, or the source was away for one look."""
    three_partitions(site)
    other = OtherWorker("RUNNING", ("RUNNING",))
    site.looker.access.flow_back = flow_back(other, "back")
    assert pairs(site.looker.look(True)) == []
    other.state, other.tasks = "STOPPED", ()
    assert pairs(site.looker.look(False)) == [(p, 8, 8) for p in range(3)]


def test_no_record_is_kept_while_pairs_are_looked_for(site: Any) -> None:
    """They may be a megabyte each, and hundreds of thousands."""
    three_partitions(site)
    site.looker.look(True)
    access = site.looker.access
    assert access.source_records.taken
    assert "orders-0 8" not in str(access.source_records.taken + access.target_records.taken)


def test_the_next_pair_is_looked_for_where_the_record_must_stand(site: Any) -> None:
    """However much was mirrored since the last one."""
    three_partitions(site)
    site.looker.look(True)
    site.east.write(ORDERS, *(b"%d" % n for n in range(100)))
    site.west.write(ORDERS, b"orders-0 9", *(b"%d" % n for n in range(95)))
    site.asked.clear()
    assert pairs(site.looker.look(False)) == [(0, 104, 104)]
    assert [asked for asked in site.asked if asked.startswith("east orders")] == ["east orders-0 from 104"]


def test_after_repeats_a_pair_is_found_all_the_same(site: Any) -> None:
    """In the same sample: MirrorMaker 2 began anew, and wrote more than the source holds."""
    three_partitions(site)
    site.looker.look(True)
    site.west.write(ORDERS, *(b"orders-0 %d" % n for n in range(5, 10)))
    site.asked.clear()
    assert pairs(site.looker.look(False)) == [(0, 9, 13)]
    site.east.write(ORDERS, b"a", b"b")
    site.west.write(ORDERS, b"a")
    assert pairs(site.looker.look(False)) == [(0, 10, 14)]


def test_behind_a_transactions_marker_the_newest_record_is_found(site: Any) -> None:
    """MirrorMaker 2 writes in transactions where it delivers exactly once."""
    site.west.logs[ORDERS].append(None)
    assert pairs(site.looker.look(True)) == [(0, 1, 1)]


def test_of_more_than_may_be_read_those_that_waited_longest_come_first(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of partitions at once, as at the start: a part of them at each sample."""
    monkeypatch.setattr("kafka_dr.recorder.content_pairing._MOST_RECORDS", 10)
    monkeypatch.setattr("kafka_dr.recorder.content_pairing._LEAST_SHARE", 5)
    partitions = three_partitions(site)
    assert pairs(site.looker.look(True)) == [(0, 8, 8), (1, 8, 8)]
    for tp in partitions:
        site.east.write(tp, *(b"%d" % n for n in range(20)))
        site.west.write(tp, *(b"%d" % n for n in range(17)))
    assert pairs(site.looker.look(True)) == [(2, 26, 25), (0, 26, 25)]
    assert pairs(site.looker.look(False)) == [(1, 26, 25)]


def test_partitions_that_took_the_time_of_a_search_come_last_in_the_next(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that cannot be read on the target delays no other partition twice."""
    monkeypatch.setattr("kafka_dr.recorder.content_pairing._PARTITIONS_AT_ONCE", 1)
    partitions = three_partitions(site)
    reader, now = site.looker.access.target_records, [time.monotonic()]
    monkeypatch.setattr("kafka_dr.recorder.content_pairing.time.monotonic", lambda: now[0])
    scan = reader.scan

    def scan_slowly(spans: Any, *more: Any, **named: Any) -> Any:
        now[0] += 1_000 if partitions[0] in spans else 0
        return scan(spans, *more, **named)

    monkeypatch.setattr(reader, "scan", scan_slowly)
    reader.late = {partitions[0]}
    samples = [site.looker.look(False) for _ in range(2)]
    assert [pairs(sample) for sample in samples] == [[], [(1, 8, 8), (2, 8, 8)]]
    assert [told(sample)["pairs_waiting"] for sample in samples] == [3, 1]
    reader.late = set()
    assert pairs(site.looker.look(False)) == [(0, 8, 8)]


def test_a_topic_made_anew_has_pairs_from_its_beginning(site: Any) -> None:
    """The last pair spoke of another log."""
    three_partitions(site)
    site.looker.look(True)
    for cluster in (site.east, site.west):
        cluster.made += 1
        cluster.logs[ORDERS] = []
        cluster.write(ORDERS, b"new")
    assert pairs(site.looker.look(False)) == [(0, 0, 0), (1, 8, 8), (2, 8, 8)]


def test_what_waits_for_a_pair_is_counted(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how long the oldest has waited: thousands of partitions may take turns."""
    partitions = three_partitions(site)
    reader = site.looker.access.source_records
    reader.late = {partitions[1], partitions[2]}
    assert told(site.looker.look(True))["pairs_waiting"] == 2
    now = time.monotonic()
    monkeypatch.setattr("kafka_dr.recorder.content_pairing.time.monotonic", lambda: now + 300)
    reader.late = {partitions[2]}
    sample = told(site.looker.look(False))
    assert sample["pairs_waiting"] == 1 and 290 < sample["pairs_wait_seconds"] < 310
    reader.late = set()
    sample = told(site.looker.look(False))
    assert (sample["pairs_waiting"], sample["pairs_wait_seconds"]) == (0, 0.0)
