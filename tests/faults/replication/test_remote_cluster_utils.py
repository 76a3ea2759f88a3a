"""MirrorMaker 2's checkpoints as Switchback reads them are those that its own client library reads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka_dr.domain.mirror_maker.mirror_records import newest_checkpoints
from kafka_dr.hooks.brokers.record import key_and_value
from kafka_dr.hooks.brokers.record_reader import RecordReader

from lab.environment.jvm import java_program, properties_text, version_folder
from lab.environment.logins.clients import java_login, java_settings
from lab.environment.state import Lab, write_private
from lab.environment.versions.releases import NEWEST
from lab.install.java_compiler import compile_java
from tests.faults.support.scene import until
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED

HOME, AWAY = "primary", "standby"
Positions = set[tuple[str, str, int, int]]


def read_by_switchback(trips: SteppedTrips) -> Positions:
    """Group, topic, partition and position of each newest checkpoint on the target."""
    settings = dict(trips.status["clusters"][AWAY]["client_properties"]["admin"])
    records = RecordReader(settings, AWAY).read_all(f"{HOME}.checkpoints.internal", take=key_and_value)
    read = newest_checkpoints(list(records))
    return {*zip(read.group, read.topic, read.partition, read.downstream, strict=True)}


def read_by_library(trips: SteppedTrips, folder: Path, groups: list[str]) -> Positions:
    """The same by RemoteClusterUtils.translateOffsets, in a process of its own."""
    who = (trips.lab.load(), trips.lab.authority, AWAY, "admin")
    login = {"bootstrap.servers": trips.lab.bootstrap_servers(AWAY), "sasl.jaas.config": java_login(*who)}
    settings: dict[str, object] = {**java_settings(*who), **login}
    write_private(folder / "client.properties", properties_text(settings))
    jars = f"{version_folder(NEWEST)}/*"
    classes = compile_java([Path(__file__).with_name("TranslateOffsets.java")], jars)
    command = [java_program(), "-cp", f"{classes}:{jars}", "TranslateOffsets", str(folder / "client.properties"), HOME]
    told = subprocess.run([*command, *groups], capture_output=True, text=True, timeout=300, check=True).stdout
    rows = [line.split("\t") for line in told.splitlines() if line.count("\t") == 3]
    return {(group, topic, int(partition), int(offset)) for group, topic, partition, offset in rows}


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_both_read_the_same_positions(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Of every group with a checkpoint; the alias stands in the name of the topic under either policy."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with stepped_trips(lab.root, tmp_path, SEED, 0, recorded=False, watched=False, clients=False) as trips:
        until(lambda: {group for group, *_ in read_by_switchback(trips)} >= set(trips.truth.positions), "checkpoints")
        ours = read_by_switchback(trips)
        theirs = read_by_library(trips, tmp_path, sorted({group for group, *_ in ours}))
        print(f"{len(ours)} positions of {len({group for group, *_ in ours})} groups", flush=True)
        assert ours == theirs and ours
        assert {topic.startswith(f"{HOME}.") for _, topic, *_ in ours} == {policy == "default"}
