"""change_replication on a real flow under load: topics added and taken out, retuned, refused, rolled back.

Each case counts by record ids what came to the target: nothing is missing, and nothing is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.environment import connect
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from tests.faults.replication.flow_changes import (
    CHECKPOINT,
    EXTRA,
    KEPT,
    MIRROR,
    SOURCE,
    TARGET,
    changes_on,
    checkpoints_on,
    config_of,
    group_reads,
    tasks_of,
    traffic_on,
)
from tests.faults.support.scene import until
from tests.support.lab_clients import change_or_list_configs

#: MirrorMaker 2's user, and the producer of one task; a quota of a few records a second holds its records back.
THROTTLED = ("users", "mm2", "clients", f"connector-producer-{MIRROR}-0")
SLOW = "producer_byte_rate=30000"
#: What Connect stores in topics of its own.
STORED = ("configs", "offsets", "status")


POLICIES = pytest.mark.parametrize("policy", ["identity", "default"])


@POLICIES
def test_topics_leave_and_come_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Taken out: its records stay behind, in order; included again: the interval is copied, once; others unharmed."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with changes_on(lab, tmp_path) as changes, traffic_on(lab, policy) as traffic:
        traffic.await_first(EXTRA, KEPT)
        figures = changes.completed(remove_topics=r"extra\..*")
        assert figures["resume_changed_flow"]["partitions_flowing"] > 0
        out, count = traffic.copies(EXTRA), len(traffic.copies(KEPT))
        until(lambda: len(traffic.copies(KEPT)) > count + 100, "records of the other topic", 60.0)
        assert traffic.copies(EXTRA) == out
        assert r"extra\..*" in config_of(lab, MIRROR)["topics.exclude"]
        assert r"extra\..*" in config_of(lab, CHECKPOINT)["topics.exclude"]
        told = changes.refused(add_topics="extra.")
        assert "stands for exactly one character" in told and EXTRA in told
        assert "catches internal topics: __consumer_offsets" in changes.refused(add_topics="__consumer.*")
        told = changes.refused(add_topics=".*connect.*", names_to_come=True)
        assert all(f"__connect_{alias}_{kind}" in told for alias in (SOURCE, TARGET) for kind in STORED), told
        assert EXTRA in changes.refused(add_topics="extra")
        changes.completed(add_topics=r"extra\..*")
        traffic.end()
        traffic.assert_copied_once(KEPT, EXTRA)


@POLICIES
def test_a_flow_is_retuned_and_a_broken_one_is_rolled_back(
    policy: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """More tasks, new checkpoints of a group; then a limit below the records' size: the former value is back."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with (
        changes_on(lab, tmp_path) as changes,
        traffic_on(lab, policy, size=4_000) as traffic,
        group_reads(lab, "readers", KEPT),
    ):
        traffic.await_first(KEPT)
        until(lambda: checkpoints_on(lab) > 0, "a checkpoint of the group", 60.0)
        figures = changes.completed(
            settings={"tasks.max": "3", "offset.lag.max": "10", "emit.checkpoints.interval.seconds": "2"}
        )
        assert figures["resume_changed_flow"]["new_checkpoints"] > 0, figures
        assert tasks_of(lab, MIRROR) == ["RUNNING"] * 3
        assert config_of(lab, CHECKPOINT)["emit.checkpoints.interval.seconds"] == "2"
        before = config_of(lab, MIRROR)
        evidence = changes.run(settings={"producer.override.max.request.size": "2000"})
        assert (evidence["outcome"], evidence["failing_step"]) == ("returned", "resume_changed_flow")
        assert config_of(lab, MIRROR) == before
        assert set(tasks_of(lab, MIRROR)) == {"RUNNING"}
        time.sleep(2.0)
        traffic.end()
        traffic.assert_copied_once(KEPT, EXTRA)


@contextmanager
def held_back(lab: Lab) -> Iterator[None]:
    """Let one task write a few records a second for the block: it does not stop within five seconds."""
    entity = [part for pair in zip(("--entity-type", "--entity-name") * 2, THROTTLED, strict=True) for part in pair]
    change_or_list_configs(lab, TARGET, "--alter", "--add-config", SLOW, *entity)
    try:
        time.sleep(8.0)
        yield
    finally:
        change_or_list_configs(lab, TARGET, "--alter", "--delete-config", SLOW.partition("=")[0], *entity)


def cancelled(lab: Lab) -> int:
    """Return how often the worker says that it has cancelled a task."""
    logs = [path for path in lab.logs.glob(f"connect-{TARGET}.*") if path.is_file()]
    return sum(path.read_text(errors="replace").count("Graceful stop of task") for path in logs)


@pytest.fixture
def seldom_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect workers of labs that start now store offsets once a minute, as without a setting, not every second."""
    properties = connect.worker_properties
    changed = {"offset.flush.interval.ms": 60_000}
    monkeypatch.setattr(connect, "worker_properties", lambda *which: {**properties(*which), **changed})


@POLICIES
@pytest.mark.usefixtures("seldom_stored")
def test_a_cancelled_task_repeats_nothing(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """A task whose producer has no room left hangs and is cancelled: Connect then stores no offset of it.

    One topic leaves the flow: no record of the other is repeated. A plain change of the configuration repeats records.
    """
    lab = Lab(fresh_lab(policy, airflow=False))
    assert reconfigured(lab, **{"producer.override.buffer.memory": "100000"}).ok
    with changes_on(lab, tmp_path) as changes, traffic_on(lab, policy, size=2_000) as traffic:
        traffic.await_first(KEPT, EXTRA)
        before = cancelled(lab)
        with held_back(lab):
            figures = changes.completed(remove_topics=r"extra\..*")
        assert cancelled(lab) > before, "no task was cancelled: this run shows nothing"
        print(f"corrected: {figures['change_connectors']['corrected']}", flush=True)
        assert figures["change_connectors"]["corrected"] > 0
        changes.completed(add_topics=r"extra\..*")
        until(lambda: traffic.is_whole(KEPT), "the backlog on the target", 120.0)
        assert (traffic.repeats(KEPT), traffic.repeats(EXTRA)) == (0, 0)
        before = cancelled(lab)
        with held_back(lab):
            assert reconfigured(lab, **{"offset.lag.max": "60"}).ok
            time.sleep(8.0)
        assert cancelled(lab) > before
        traffic.end()
        until(lambda: traffic.is_whole(KEPT) and traffic.is_whole(EXTRA), "everything on the target", 120.0)
        assert traffic.repeats(KEPT) + traffic.repeats(EXTRA) > 0, "the plain change repeated nothing"


def reconfigured(lab: Lab, **settings: str) -> Any:
    """Change settings of the running source connector, as Connect's users do; return the answer."""
    return call_worker(lab, TARGET, "PUT", f"/connectors/{MIRROR}/config", config_of(lab, MIRROR) | settings)


def test_a_loop_is_refused(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Under identity naming, while the reverse flow runs; for names of both directions that nobody has yet."""
    lab = Lab(fresh_lab("identity", airflow=False))
    back = connector_name(TARGET, SOURCE, "source")
    with changes_on(lab, tmp_path) as changes:
        changes.completed(remove_topics="back-.*", names_to_come=True)
        config = config_of(lab, back, SOURCE) | {"topics": "back-.*"}
        assert call_worker(lab, SOURCE, "PUT", f"/connectors/{back}/config", config).ok
        assert call_worker(lab, SOURCE, "PUT", f"/connectors/{back}/resume").ok
        until(lambda: "RUNNING" in call_worker(lab, SOURCE, "GET", f"/connectors/{back}/status").text, "the way back")
        told = changes.refused(add_topics="back-.*", names_to_come=True)
        assert "Records would be copied in a circle" in told and back in told
        changes.completed(settings={"tasks.max": "1"})


@POLICIES
def test_an_idle_flow_is_tried_with_a_record_of_our_own(
    policy: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Nobody writes, no heartbeats either; a connector with the new settings copies a record, and is deleted."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with changes_on(lab, tmp_path) as changes:
        heartbeat = connector_name(TARGET, SOURCE, "heartbeat")
        assert call_worker(lab, SOURCE, "PUT", f"/connectors/{heartbeat}/stop").ok
        time.sleep(3.0)
        before = call_worker(lab, TARGET, "GET", "/connectors").json()
        shown = changes.completed(settings={"offset.lag.max": "50"})["resume_changed_flow"]
        assert (shown["tasks"], shown["proof_seconds"] > 0) == (0, True), shown
        assert sorted(call_worker(lab, TARGET, "GET", "/connectors").json()) == sorted(before)
