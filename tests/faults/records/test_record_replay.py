"""Stranded records are replayed once on a real broker, also by processes that are killed, frozen, and two at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.topics import READ_UNCOMMITTED

from lab.environment.bring_up import up
from lab.environment.take_down import down
from tests.support.replay_process import MANY, answer, failback, found_stranded, many, opened, origins, process, seen

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The primary of a lab as admin."""
    state = tmp_path_factory.mktemp("lab")
    try:
        yield up(state, airflow=False)["clusters"]["primary"]["client_properties"]["admin"]
    finally:
        down(state)


@pytest.fixture
def topic(config: dict[str, Any]) -> Iterator[str]:
    """A topic of four partitions that is not mirrored."""
    name, cluster = f"__replay-{uuid.uuid4().hex[:8]}", KafkaCluster("primary", config)
    cluster.create_topic(name, 4, 1)
    yield name
    cluster.delete_topic(name)


def eventually_written(config: dict[str, Any], topic: str, at_least: int, seconds: float = 60) -> None:
    """Wait until so many offsets of a topic are taken."""
    cluster, ends_at = KafkaCluster("primary", config), time.monotonic() + seconds
    while sum(cluster.ends([TopicPartition(topic, p) for p in range(4)]).values()) < at_least:
        assert time.monotonic() < ends_at, "nothing was written"
        time.sleep(0.01)


@pytest.mark.parametrize("whom", ["task", "both"])
def test_killed_again_and_again_it_is_there_once(config: dict[str, Any], topic: str, tmp_path: Path, whom: str) -> None:
    """The last of killed processes writes what is missing; tasks' leftovers are committed, dead writers' aborted."""
    records, chance = many(topic), random.Random(4711)
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, records)
    for round_ in range(4):
        started = process(tmp_path, config)
        eventually_written(config, topic, (round_ + 1) * MANY // 6)
        time.sleep(chance.random() * 0.2)
        for pid in [started.pid, *(children(started.pid) if whom == "both" else [])]:
            os.kill(pid, signal.SIGKILL)
        started.wait()
    last = answer(process(tmp_path, config))
    committed, everything = origins(seen(config, topic)), origins(seen(config, topic, READ_UNCOMMITTED))
    assert sorted(committed) == sorted((r.partition, r.offset) for r in records)
    assert [[offset for p, offset in committed if p == partition] for partition in range(4)] == [
        sorted(r.offset for r in records if r.partition == partition) for partition in range(4)
    ]
    assert last["replayed"] == MANY
    assert last["aborted"] == len(everything) - len(committed) <= (4_000 if whom == "both" else 0)
    assert last["aborted_are_mirrored"] == (last["aborted"] > 0)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def frozen_in_the_middle(
    folder: Path, config: dict[str, Any], topic: str, whom: str
) -> tuple[subprocess.Popen, list[int]]:
    """A process that stands still before it has written all, alone or with its writer, and what to wake."""
    first = process(folder, config)
    eventually_written(config, topic, 1)
    frozen = [first.pid, *(children(first.pid) if whom == "both" else [])]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    return first, frozen


@pytest.mark.parametrize("whom", ["task", "both"])
def test_a_frozen_process_that_thaws_adds_nothing(
    config: dict[str, Any], topic: str, tmp_path: Path, whom: str
) -> None:
    """A second one goes on; the first, thawed, is fenced off, also in the middle of its transaction."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, many(topic))
    first, frozen = frozen_in_the_middle(tmp_path, config, topic, whom)
    second = answer(process(tmp_path, config))
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    assert second.get("replayed") == MANY, second
    said = answer(first)
    assert said.get("error") == "Superseded", said
    assert Counter(origins(seen(config, topic))).most_common(1)[0][1] == 1 and len(origins(seen(config, topic))) == MANY


def test_two_at_once_end_in_one_result(config: dict[str, Any], topic: str, tmp_path: Path) -> None:
    """Neither writes what the other wrote; whoever ends has everything proven, and at least one does."""
    procedure = opened(failback(tmp_path, config))
    found_stranded(procedure, many(topic))
    both = [process(tmp_path, config, waits=True) for _ in range(2)]
    for one in both:
        one.stdin.close()
    said = [answer(one) for one in both]
    ends = [one.get("error", one.get("replayed")) for one in said]
    assert set(ends) <= {MANY, "Superseded"} and MANY in ends
    assert sorted(origins(seen(config, topic))) == sorted((r.partition, r.offset) for r in many(topic))
