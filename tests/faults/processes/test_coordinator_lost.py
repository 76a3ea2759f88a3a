"""The broker that coordinates groups goes and comes back while a process sends requests about groups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster

from lab.environment.brokers import start_broker
from lab.environment.state import Lab
from tests.faults.deployment.one_broker import one_broker
from tests.faults.support.scene import until

ALIAS, TOPIC, GROUPS, SECONDS = "primary", "__lost", [f"lost-{number}" for number in range(300)], 60.0
BROKER = f"broker-{ALIAS}"
#: Longer than requests are waited for (8 s), so some have ended unanswered when the broker is back.
AWAY = 14.0
#: Does one thing again and again until its input ends; prints how it went, each time.
USER = """
import json, sys, threading
config, groups, topic, use = json.loads(sys.stdin.readline())
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.cluster import KafkaCluster
cluster, ended = KafkaCluster("primary", config), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()

def good():
    if use == "positions":
        return all(cluster.positions(groups, timeout=8).values())
    if use == "descriptions":
        return len(cluster._described_groups(groups, 8)) == len(groups)
    if use == "commits":
        wanted = {group: {TopicPartition(topic, 0): 1} for group in groups}
        return all(set(o.values()) == {"ok"} for o in cluster.commit_many(wanted.items(), timeout=8).values())
    return set(cluster.delete_groups([f"no-{group}" for group in groups], timeout=8).values()) == {"ok"}

while not ended.wait(0.2):
    try:
        print("good" if good() else "bad", flush=True)
    except KafkaUnavailable:
        print("bad", flush=True)
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One broker with the groups."""
    with one_broker(tmp_path_factory.mktemp("lab") / "state", "scram") as started:
        cluster = KafkaCluster(ALIAS, started.client_properties(ALIAS, "admin"))
        cluster.create_topic(TOPIC, 1, 1, {})

        def committed() -> bool:
            """A position that is committed just after the topic was created may be dropped, without an error."""
            wanted = {group: {TopicPartition(TOPIC, 0): 1} for group in GROUPS}
            cluster.commit_many(wanted.items())
            return all(cluster.positions(GROUPS).values())

        until(committed, "all positions", SECONDS)
        yield started


def killed(lab: Lab) -> None:
    """Killed with -9, and started again."""
    os.kill(lab.processes.pid(BROKER), signal.SIGKILL)
    time.sleep(AWAY)
    start_broker(lab, ALIAS)


def frozen(lab: Lab) -> None:
    """Frozen: connections stay, and nothing answers."""
    os.kill(lab.processes.pid(BROKER), signal.SIGSTOP)
    time.sleep(AWAY)
    os.kill(lab.processes.pid(BROKER), signal.SIGCONT)


@pytest.mark.parametrize("away", [killed, frozen])
@pytest.mark.parametrize("use", ["positions", "descriptions", "commits", "deletions"])
def test_the_process_outlives_its_coordinator(lab: Lab, use: str, away: Callable[[Lab], None], tmp_path: Path) -> None:
    """Three times; librdkafka would abort a process in which a request had timed out (issue 4605)."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "plugins")}
    shown = tmp_path / "shown.log"
    with (
        shown.open("a") as out,
        subprocess.Popen(
            [sys.executable, "-c", USER], stdin=subprocess.PIPE, stdout=out, text=True, env=environment
        ) as user,
    ):
        user.stdin.write(json.dumps([lab.client_properties(ALIAS, "admin"), GROUPS, TOPIC, use]) + "\n")
        user.stdin.flush()

        def went_well() -> bool:
            assert user.poll() is None, f"ended with {user.returncode}: {shown.read_text()}"
            return shown.read_text().endswith("good\n")

        for _ in range(3):
            until(went_well, f"{use} with the broker", SECONDS)
            away(lab)
            with shown.open("a") as log:
                log.write("the broker is back\n")
            until(went_well, f"{use} after the broker is back", SECONDS)
        user.stdin.close()
        assert user.wait(SECONDS) == 0
    assert "bad" in shown.read_text(), "no request ended without an answer"


def test_a_commit_that_was_given_up_is_not_sent_late(lab: Lab) -> None:
    """Its outcome says that it timed out, and it stays out when the broker is back."""
    cluster = KafkaCluster(ALIAS, lab.client_properties(ALIAS, "admin"))
    place = TopicPartition(TOPIC, 0)
    assert cluster.commit(GROUPS[0], {place: 1}) == {place: "ok"}
    os.kill(lab.processes.pid(BROKER), signal.SIGKILL)
    assert cluster.commit(GROUPS[0], {place: 99}, timeout=AWAY) == {place: "_TIMED_OUT"}
    start_broker(lab, ALIAS)
    time.sleep(5)
    assert cluster.positions([GROUPS[0]])[GROUPS[0]][place].offset == 1
