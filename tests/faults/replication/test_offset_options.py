"""Two deployments of MirrorMaker 2, and a custom replication policy class: moved there and back, and refused."""

from __future__ import annotations

import os
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka_dr.domain.mirror_maker.mirror_records import newest_checkpoints
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record import key_and_value
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.vocabulary import MARKER_CONNECTOR

from lab.checker import CheckResult
from lab.environment import connect, jvm, topology_file
from lab.environment.connect import FLOWS, connector_config, connector_name
from lab.environment.state import Lab
from lab.environment.versions.releases import NEWEST
from lab.install.java_compiler import compile_java
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident
from tests.faults.replication.other_workers import (
    change_flow,
    connection_of,
    move_checkpoints,
    process_of,
    seen,
    start_other_worker,
    state_at,
)
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED

HOME, AWAY = "primary", "standby"
RATE = 1_000
#: How long positions would have to be synced in an interval of 1 s.
SYNC_SECONDS = 15.0
POLICY = "switchbacktests.KeepingPolicy"
DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"


def two_deployments(lab: Lab) -> dict[str, str]:
    """Give each flow a second deployment, which runs its checkpoint connector; return their URLs by target."""
    urls = {alias: move_checkpoints(lab, alias) for alias in FLOWS}
    for alias in FLOWS:
        change_flow(lab, alias, offset_option={"option": "two_deployments", "reason": "positions are another team's"})
    return urls


def passed(verdict: CheckResult) -> CheckResult:
    """Assert that the checker found nothing."""
    print(f"{dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    return verdict


def assert_runs(lab: Lab, source: str, target: str) -> None:
    """Both connectors of this flow run, each in its deployment, and those of the other flow are STOPPED."""
    found = {name: state for name, state in seen(lab).items() if name != MARKER_CONNECTOR}
    assert len(found) == 4, found
    running = {name for name, state in found.items() if state == "RUNNING"}
    assert running == {connector_name(source, target, kind) for kind in ("source", "checkpoint")}, found
    assert {state for name, state in found.items() if name not in running} == {"STOPPED"}, found


def option_in(trips: SteppedTrips) -> dict[str, Any]:
    """What the plan of the last procedure says of the offset option."""
    assert trips.last is not None
    option: dict[str, Any] = trips.driver.evidence(trips.last)["plan"]["offset_option"]
    return option


def test_two_deployments_there_and_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Every position exact; each deployment of both flows is stopped and resumed as its clients' cluster needs it."""
    lab = Lab(fresh_lab("identity", airflow=False))
    two_deployments(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, recorded=False, scale=0.1, groups=8) as trips:
        figures = passed(trips.leave(Leaving(more=10, standby=True))).figures
        assert figures["exact"] == figures["positions"] > 0
        option = option_in(trips)
        assert (option["option"], option["recorded"]) == ("two_deployments", True)
        assert f"the checkpoint connector by {connection_of(AWAY)}" in option["means"]
        assert_runs(lab, AWAY, HOME)
        passed(trips.come_back(Returning(more=10, born=True)))
        assert connection_of(HOME) in option_in(trips)["means"]
        assert_runs(lab, HOME, AWAY)


def test_two_deployments_of_a_lost_source(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Broker and workers of the source are killed under load; both deployments of the flow are stopped."""
    lab = Lab(fresh_lab("identity", airflow=False))
    two_deployments(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, scale=0.05, groups=6) as trips:
        passed(trips.leave(Leaving(Accident(after=3.0), params={"confirm_seconds": 6})))
        assert option_in(trips)["option"] == "two_deployments"
        stopped = {name: state for name, state in seen(lab).items() if name.startswith(HOME)}
        assert len(stopped) == 2 and set(stopped.values()) == {"STOPPED"}, stopped


def test_a_deployment_that_is_away_is_refused(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Before the fence, with everything as it was; once it is back the next run completes."""
    lab = Lab(fresh_lab("identity", airflow=False))
    urls = two_deployments(lab)
    with stepped_trips(lab.root, tmp_path, SEED, RATE, recorded=False, scale=0.05, groups=6) as trips:
        pid = lab.processes.pid(process_of(AWAY))
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        run = trips.procedure("planned_failover", outage_seconds=10.0)
        evidence = trips.driver.whole(run)
        print(run.texts, flush=True)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness"), run.texts
        assert evidence["fenced_at"] is None and urls[AWAY].rpartition(":")[2] in run.texts["check_readiness"]
        start_other_worker(lab, AWAY, urls[AWAY])
        name = connector_name(HOME, AWAY, "checkpoint")
        until(lambda: state_at(urls[AWAY], name) == "RUNNING", "the checkpoint connector to run", 60.0)
        passed(trips.leave(Leaving(more=10)))


def test_default_names_in_the_second_deployment_place_no_group(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """MirrorMaker 2 syncs nothing to the topics that exist; a run is refused with the names of both classes."""
    lab = Lab(fresh_lab("identity", airflow=False))
    urls = two_deployments(lab)
    name = connector_name(HOME, AWAY, "checkpoint")
    config = connector_config(lab, HOME, AWAY, "checkpoint") | {
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
    }
    put = f"{urls[AWAY]}/connectors/{name}/config"
    # Before any group exists: a checkpoint connector also syncs the checkpoints that it finds when it starts.
    requests.put(put, json=config | {"replication.policy.class": DEFAULT}, timeout=10).raise_for_status()
    with stepped_trips(lab.root, tmp_path, SEED, 0, recorded=False, watched=False, clients=False) as trips:
        groups = list(trips.idle_groups)
        admin = AdminClient(dict(trips.status["clusters"][AWAY]["client_properties"]["admin"]))
        until(lambda: absent_topics(trips), "checkpoints of topics that the target does not have", 60.0)
        time.sleep(SYNC_SECONDS)
        assert synced(admin, groups) == {}
        run = trips.procedure("planned_failover")
        assert trips.driver.whole(run)["failing_step"] == "check_readiness"
        assert DEFAULT in run.texts["check_readiness"] and name in run.texts["check_readiness"]
        requests.put(put, json=config, timeout=10).raise_for_status()
        until(lambda: synced(admin, groups) != {}, "positions to be synced under the flow's own policy", 90.0)


def absent_topics(trips: SteppedTrips) -> set[str]:
    """Topics that checkpoints on the target name, and that the target does not have."""
    settings = dict(trips.status["clusters"][AWAY]["client_properties"]["admin"])
    records = RecordReader(settings, AWAY).read_all(f"{HOME}.checkpoints.internal", take=key_and_value)
    return set(newest_checkpoints(list(records)).topic) - set(KafkaCluster(AWAY, settings).topics())


def synced(admin: AdminClient, groups: list[str]) -> dict[str, dict[str, int]]:
    """Group -> topic -> position, of the groups that have any on the target."""
    found = {}
    for group in groups:
        (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        rows = answer.result().topic_partitions
        found[group] = {row.topic: row.offset for row in rows if row.offset >= 0}
    return {group: rows for group, rows in found.items() if rows}


@pytest.fixture
def policy_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom class that keeps names, in the class path of every worker of a lab that is brought up."""
    jars = jvm.version_folder(NEWEST)
    classes = compile_java([Path(__file__).with_name("KeepingPolicy.java")], f"{jars}/*")
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in jars.iterdir():
        (folder / jar.name).symlink_to(jar)
    with zipfile.ZipFile(folder / "policy.jar", "w") as archive:
        for path in classes.rglob("*.class"):
            archive.write(path, path.relative_to(classes))
    monkeypatch.setattr(jvm, "version_folder", lambda _: folder)
    monkeypatch.setitem(connect.POLICIES, "identity", POLICY)
    monkeypatch.setitem(topology_file.NAMING, "identity", {"policy": "identity", "policy_class": POLICY})


@pytest.mark.usefixtures("policy_class")
def test_a_custom_policy_there_and_back(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Topics keep their names by a class of the site's own; a connector without the class is refused by name."""
    lab = Lab(fresh_lab("identity", airflow=False))
    for alias in FLOWS:
        change_flow(lab, alias, offset_option={"option": "custom_policy", "reason": "names stay"})
    with stepped_trips(lab.root, tmp_path, SEED, RATE, recorded=False, scale=0.1, groups=8) as trips:
        figures = passed(trips.leave(Leaving(more=10, standby=True))).figures
        assert figures["exact"] == figures["positions"] > 0
        assert f"keep their names, because {POLICY}" in option_in(trips)["means"]
        passed(trips.come_back(Returning(more=10, born=True)))
        checkpoint = connector_name(HOME, AWAY, "checkpoint")
        own = connector_config(lab, HOME, AWAY, "checkpoint") | {"replication.policy.class": connect_identity()}
        connect.call_worker(lab, AWAY, "PUT", f"/connectors/{checkpoint}/config", own).raise_for_status()
        run = trips.procedure("planned_failover")
        assert trips.driver.whole(run)["failing_step"] == "check_readiness"
        assert f"topology '{POLICY}'" in run.texts["check_readiness"]


def connect_identity() -> str:
    """MirrorMaker 2's own class, which names topics in the same way."""
    return DEFAULT.replace("Default", "Identity")
