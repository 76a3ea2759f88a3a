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
from confluent_kafka.admin import AclPermissionType, AdminClient
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.environment.airflow_settings import own_environment
from lab.environment.connect import connector_name
from lab.environment.state import Lab
from lab.install.jars import jars_folder
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from lab.workload import GroundTruth
from tests.faults.support import always_on
from tests.faults.support.lost_scene import UNPLANNED, figures_of, quicken
from tests.faults.support.scene import until
from tests.faults.support.stepping import ROOT, Run, Stepping, stepping
from tests.faults.support.world import World
from tests.support.lab_clients import acl_filter
from tests.support.rehearsals import SEED
from tests.support.staged_lab import acl

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
PARAMS = {"source": "primary", "target": "standby", "reason": "by hand"}
LOST = {"source": SOURCE, "target": TARGET, "reason": "by hand, and the source is dead"}
LOGIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule"
    ' required username="admin" password="{}";\n'
)


class Person:
    """Somebody with a shell, Kafka's tools and an administrator's login."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        tools = folder / "bin"
        tools.mkdir(parents=True)
        for name, main in TOOLS.items():
            (tools / name).write_text(
                f'#!/bin/sh\nexec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "{jars_folder()}/kafka/*"'
                f' {main} "$@"\n'
            )
            (tools / name).chmod(0o755)
        own = own_environment(lab)
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            **{k: v for k, v in own.items() if k.startswith(("AIRFLOW_CONN", "KAFKA_DR", "NO_PROXY", "no_proxy"))},
            "PATH": path,
            "PYTHONPATH": str(ROOT / "plugins"),
            "USER": "carol",
        }

    def prints(self, *which: str) -> str:
        """Print the commands into a folder of their own, with the logins beside them."""
        out = ["--commands", "--out", str(self.folder / "hand")]
        argv = [sys.executable, "-m", "kafka_dr.commands.plan", *which, *out]
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

    def runs(self, script: str, whole: bool = True) -> str:
        """Run one of the scripts, to its end or, where that cannot be reached, to the command that fails."""
        done = subprocess.run(
            ["bash", str(self.folder / "hand" / script)],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        print(done.stdout[-3000:], done.stderr[-3000:])
        assert (done.returncode == 0) is whole, f"{script}: {done.returncode} {done.stderr[-2000:]}"
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
    """Back: the world as it was, and clients write. Onwards: groups, rights, flows and routing as by the procedure."""
    lab = Lab(fresh_lab(policy, airflow=False))
    made = Rehearsal(lab.root, tmp_path / "r", SEED, scale=0.2, groups=10)
    truth = made.seed_topics()
    world, person, topic = World(lab, truth.positions), Person(lab, tmp_path), min(truth.topics)
    before = world.look()
    with stepping(lab, tmp_path / "s") as driver:
        _back(driver, person, world, before, topic)
        _onwards(driver, Person(lab, tmp_path / "again"), world, topic)


def _back(driver: Stepping, person: Person, world: World, before: dict[str, Any], topic: str) -> None:
    run = Run(PARAMS)
    assert driver.forward(run, until="stop_mirror_maker") and refused(person.lab, "primary", topic)
    printed = person.prints(run.procedure_id)
    assert person.lab.load().passwords["orchestrator"] not in printed
    assert person.lab.load().passwords["admin"] not in printed
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
    assert after["routing"]["cluster"] == "standby" and refused(person.lab, "primary", topic)
    assert not refused(person.lab, "standby", topic)
    assert driver.forward(run, after="translate_offsets"), run.texts
    driver.step(run, "close_procedure")
    assert driver.evidence(run)["outcome"] == "completed"
    assert world.look() == after, "the procedure found nothing left to do"
    _stand_as_translated(driver, run, after)


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_back_and_onwards_by_hand_without_the_source(
    policy: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """With the source's broker and worker dead: back as it was found, or onwards as by the procedure."""
    lab = Lab(fresh_lab(policy, airflow=False))
    quicken(lab)
    truth = _lost(lab, tmp_path / "r")
    world, topic = World(lab, truth.positions, alive=(TARGET,)), min(truth.topics)
    before = world.look()
    # The source stays dead: the watcher has nothing to do but to show life.
    with stepping(
        lab, tmp_path / "s", before=lambda run, step: Journal(f"sqlite:///{lab.journal}").show_life(always_on.WATCHER)
    ) as driver:
        _back_without_source(driver, Person(lab, tmp_path), world, before, topic)
        _onwards_without_source(driver, Person(lab, tmp_path / "again"), world, topic)


def _lost(lab: Lab, folder: Path) -> GroundTruth:
    """A workload that the recorder has seen and whose source is dead; nothing writes or records any more."""
    made = LostSourceRehearsal(lab.root, folder, SEED, scale=0.2, groups=10)
    always_on.start(lab, always_on.RECORDER)
    try:
        truth = made.seed_topics()
        made.lose_source(Accident(after=0.0))
    finally:
        made.stop()
        always_on.stop(lab, always_on.RECORDER)
    return truth


def _at_rest(world: World) -> None:
    """What was asked to stop while its source is dead takes its time: a worker that is just at it does not answer."""
    until(lambda: set(world.look()["connectors"].values()) == {"STOPPED"}, "the flow to stand", 90.0)


def _back_without_source(driver: Stepping, person: Person, world: World, before: dict[str, Any], topic: str) -> None:
    """The script stops where only the dead worker could say that the other direction stands, all else done."""
    run, alone = Run(LOST, dag_id=UNPLANNED), person.lab.load().policy == "identity"
    assert driver.forward(run, until="stop_mirror_maker") and refused(person.lab, TARGET, topic), run.texts
    _at_rest(world)
    printed = person.prints(run.procedure_id)
    assert person.lab.load().passwords["orchestrator"] not in printed
    assert person.lab.load().passwords["admin"] not in printed
    person.runs("to_return.sh", whole=not alone)
    found = before | ({"connectors": dict.fromkeys(before["connectors"], "STOPPED")} if alone else {})
    assert world.look() == found and refused(person.lab, TARGET, topic)
    assert driver.step(run, "translate_offsets") == "refused", "no step goes forward any more"
    assert driver.step(run, "return_to_source") == "done", run.texts
    driver.step(run, "close_procedure")
    told = driver.evidence(run)
    assert told["outcome"] == "returned" and world.look() == found
    assert bool(figures_of(told, "return_to_source").get("replication_left_stopped")) is alone


def _onwards_without_source(driver: Stepping, person: Person, world: World, topic: str) -> None:
    run = Run(LOST, dag_id=UNPLANNED)
    assert driver.forward(run, until="translate_offsets"), run.texts
    _at_rest(world)
    person.prints("--source", SOURCE, "--target", TARGET)
    assert "source.properties" not in (person.folder / "hand" / "to_go_on.sh").read_text()
    person.runs("to_go_on.sh")
    after = world.look()
    assert after["routing"]["cluster"] == TARGET and not refused(person.lab, TARGET, topic)
    # As the script's last words and the runbook have it: positions and opening are noted as done by hand.
    assert driver.forward(run, after="open_target"), run.texts
    driver.step(run, "close_procedure")
    told = driver.evidence(run)
    assert told["outcome"] == "completed", told["reason_for_outcome"]
    assert figures_of(told, "open_target")["by_hand"] == "carol" == figures_of(told, "commit_groups")["by_hand"]
    assert world.look() == after, "the procedure found nothing left to do"
    _stand_as_translated(driver, run, after)


def _stand_as_translated(driver: Stepping, run: Run, after: dict[str, Any]) -> None:
    """Every group is where the translation put it."""
    wanted = {(group, f"{topic}/{partition}"): offset for group, topic, partition, offset in _wanted(driver, run)}
    held = {(group, place): offset for group, places in after["positions"].items() for place, offset in places.items()}
    assert {at: held.get(at) for at in wanted} == wanted != {}


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
        (forecast,) = Journal(f"sqlite:///{lab.journal}").entries(run.procedure_id, "forecast", Entry.OUTCOME)
        harmless = [acl("User:mm2", "WRITE", row[1], permission="DENY") for row in forecast.payload["plan"]["topics"]]
        admin = AdminClient(lab.client_properties("standby", "admin"))
        with pytest.raises(AssertionError, match="missing: deny User:mm2"):
            person.notes(run.procedure_id, "opened")
        _done(admin.create_acls(harmless))
        with pytest.raises(AssertionError, match="not removed: "):
            person.notes(run.procedure_id, "opened")
        _done(admin.delete_acls([acl_filter(AclPermissionType.DENY)]))
        _done(admin.create_acls(harmless))
        person.notes(run.procedure_id, "opened")
        assert driver.forward(run, after="open_target"), run.texts
        driver.step(run, "close_procedure")
        told = driver.evidence(run)
        page = (lab.evidence / run.procedure_id / "evidence.html").read_text()
    assert told["outcome"] == "completed" and told["classes"] == {} and "carol opened standby manually" in page
    assert "placed and read back" not in page and "No record was lost" not in page


def _done(futures: dict[Any, Any]) -> None:
    """Wait until Kafka has done all of a request."""
    assert futures
    for future in futures.values():
        future.result(30)


def _wanted(driver: Stepping, run: Run) -> list[tuple[str, str, int, int]]:
    """The positions that the translation found, read from its file."""
    import pandas as pd

    figures = next(s["figures"] for s in driver.evidence(run)["steps"] if s["id"] == "translate_offsets")
    rows = pd.read_parquet(driver.lab.evidence / run.procedure_id / figures["translation"]["file"])
    rows = rows[rows["target_position"].notna()]
    return [
        (g, t, int(p), int(o))
        for g, t, p, o in zip(
            rows["group"], rows["target_topic"], rows["partition"], rows["target_position"], strict=True
        )
    ]
