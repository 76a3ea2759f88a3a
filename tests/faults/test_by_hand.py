"""A person pastes what `plan --commands` prints, with Kafka's own tools and curl: back, and onwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Producer
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType

from lab.airflow_settings import own_environment
from lab.jars import jars_folder
from lab.mirror_maker import connector_name
from lab.rehearsal import Rehearsal
from lab.state import Lab
from tests.faults.stepping import ROOT, Run, Stepping, stepping
from tests.faults.world import World
from tests.rehearsed import SEED

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
PARAMS = {"source": "primary", "target": "standby", "reason": "by hand"}
LOGIN = 'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="{}";\n'


class Person:
    """Somebody with a shell, Kafka's tools and an administrator's login."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        tools = folder / "bin"
        tools.mkdir(parents=True)
        for name, main in TOOLS.items():
            (tools / name).write_text(f'#!/bin/sh\nexec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "{jars_folder()}/kafka/*" {main} "$@"\n')
            (tools / name).chmod(0o755)
        own = own_environment(lab)
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, **{k: v for k, v in own.items() if k.startswith(("AIRFLOW_CONN", "KAFKA_DR", "NO_PROXY", "no_proxy"))}, "PATH": path, "PYTHONPATH": str(ROOT / "plugins"), "USER": "carol"}

    def prints(self, *which: str) -> str:
        """Print the commands into a folder of their own, with the logins beside them."""
        argv = [sys.executable, "-m", "kafka_dr.commands.plan", *which, "--commands", "--out", str(self.folder / "hand")]
        done = subprocess.run(argv, env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        for end in ("source", "target"):
            (self.folder / "hand" / f"{end}.properties").write_text(LOGIN.format(self.lab.load().passwords["admin"]))
        return done.stdout

    def notes(self, procedure_id: str, mark: str) -> str:
        """Note in the journal what is done by hand."""
        argv = [sys.executable, "-m", "kafka_dr.commands.plan", procedure_id, "--by-hand", mark, "--as", "carol"]
        done = subprocess.run(argv, env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def runs(self, script: str) -> str:
        """Run one of the scripts to its end."""
        done = subprocess.run(["bash", str(self.folder / "hand" / script)], env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
        print(done.stdout[-3000:], done.stderr[-3000:])
        assert done.returncode == 0, f"{script}: {done.stderr[-2000:]}"
        return done.stdout


def refused(lab: Lab, alias: str, topic: str) -> bool:
    """Whether a client's write is refused."""
    errors: list[Any] = []
    producer = Producer({**lab.client_properties(alias, "producer"), "message.timeout.ms": 15_000, "log_level": 0})
    producer.produce(topic, b"by hand", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0] is not None


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_back_and_onwards_by_hand(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Back: the world is as it was, and clients write. Onwards: groups, rights, reverse flow and routing as the procedure would have left them."""
    lab = Lab(fresh_lab(policy, airflow=False))
    made = Rehearsal(lab.root, tmp_path / "r", SEED, scale=0.2, groups=10)
    truth = made.seed_topics()
    world, person, topic = World(lab, truth.positions), Person(lab, tmp_path), sorted(truth.topics)[0]
    before = world.look()
    with stepping(lab, tmp_path / "s") as driver:
        _back(driver, person, world, before, topic)
        _onwards(driver, Person(lab, tmp_path / "again"), world, topic)


def _back(driver: Stepping, person: Person, world: World, before: dict[str, Any], topic: str) -> None:
    run = Run(PARAMS)
    assert driver.forward(run, until="stop_mirror_maker") and refused(person.lab, "primary", topic)
    printed = person.prints(run.procedure_id)
    assert person.lab.load().passwords["orchestrator"] not in printed and person.lab.load().passwords["admin"] not in printed
    person.runs("to_return.sh")
    assert world.look() == before and not refused(person.lab, "primary", topic)
    assert driver.step(run, "translate_offsets") == "refused", "no step goes forward any more"
    driver.step(run, "return_to_source")
    driver.step(run, "close_procedure")
    assert driver.evidence(run)["outcome"] == "returned" and world.look() == before


def _onwards(driver: Stepping, person: Person, world: World, topic: str) -> None:
    run = Run(PARAMS)
    assert driver.forward(run, until="translate_offsets")
    person.prints("--source", "primary", "--target", "standby")
    person.runs("to_go_on.sh")
    after = world.look()
    assert after["routing"]["cluster"] == "standby" and refused(person.lab, "primary", topic) and not refused(person.lab, "standby", topic)
    assert driver.forward(run, after="translate_offsets"), run.texts
    driver.step(run, "close_procedure")
    assert driver.evidence(run)["outcome"] == "completed"
    assert world.look() == after, "the procedure found nothing left to do"
    ledger = _wanted(driver, run)
    assert {(g, f"{t}/{p}"): o for g, t, p, o in ledger} == {(g, place): o for g, held in after["positions"].items() for place, o in held.items() if (g, place) in {(g2, f"{t}/{p}") for g2, t, p, _ in ledger}} != {}


def test_opened_by_hand_without_positions(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nobody translated: the run goes on to its end from there, and its evidence claims no position."""
    lab = Lab(fresh_lab("identity", airflow=False))
    made = Rehearsal(lab.root, tmp_path / "r", SEED, scale=0.2, groups=3)
    made.seed_topics()
    person = Person(lab, tmp_path)
    with stepping(lab, tmp_path / "s") as driver:
        run = Run({**PARAMS, "start_reverse_replication": False})
        assert driver.forward(run, until="stop_mirror_maker")
        person.prints(run.procedure_id)
        assert driver.step(run, "redirect_clients") == "refused", "nobody opened"
        person.notes(run.procedure_id, "opening")
        seeds = (tmp_path / "hand" / "reverse_offsets.json").read_text()
        url = f"{lab.connect_url('primary')}/connectors/{connector_name('standby', 'primary', 'source')}/offsets"
        requests.patch(url, data=seeds, headers={"Content-Type": "application/json"}, timeout=30).raise_for_status()
        with pytest.raises(AssertionError, match="still there"):
            person.notes(run.procedure_id, "opened")
        denied = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.DENY)
        admin = AdminClient(lab.client_properties("standby", "admin"))
        for lifted in admin.delete_acls([denied]).values():
            assert lifted.result(30)
        person.notes(run.procedure_id, "opened")
        assert driver.forward(run, after="open_target"), run.texts
        driver.step(run, "close_procedure")
        told = driver.evidence(run)
        page = (lab.evidence / run.procedure_id / "evidence.html").read_text()
    assert told["outcome"] == "completed" and told["classes"] == {} and "carol opened standby by hand" in page
    assert "placed and read back" not in page and "No record was lost" not in page


def _wanted(driver: Stepping, run: Run) -> list[tuple[str, str, int, int]]:
    """The positions that the translation found, read from its file."""
    import pandas as pd

    figures = next(s["figures"] for s in driver.evidence(run)["steps"] if s["id"] == "translate_offsets")
    rows = pd.read_parquet(driver.lab.evidence / run.procedure_id / figures["translation"]["file"])
    rows = rows[rows["target_position"].notna()]
    return [(g, t, int(p), int(o)) for g, t, p, o in zip(rows["group"], rows["target_topic"], rows["partition"], rows["target_position"], strict=True)]
