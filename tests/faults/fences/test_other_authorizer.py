"""A source whose authorizer knows no ACL entries: refused without a fence hook, fenced with one."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaException, Producer
from kafka_dr.errors import FenceNotProven, NotReady
from kafka_dr.vocabulary import Step

from lab.environment import acls, brokers, jvm
from lab.environment.versions.releases import NEWEST
from lab.install.java_compiler import compile_java
from lab.rehearsal.planned import SOURCE, Rehearsal
from tests.faults.support.scene import planned_without_findings
from tests.faults.support.stepping import stepping
from tests.support.facts import figures_of
from tests.support.json_server import JsonHandler, served
from tests.support.rehearsals import SEED, kept_if_it_fails
from tests.support.staged_lab import BEFORE_THE_FENCE, LabConnections, Stage

SOURCE_CODE = Path(__file__).parents[1] / "support" / "RoleAuthorizer.java"
WRITERS = ("User:producer", "User:probe", "User:mm2", "User:orchestrator")
CLIENTS = ("User:producer", "User:probe")


@pytest.fixture
def writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says who may write on the source; the lab's brokers of the source decide by it alone."""
    file = tmp_path / "writers.txt"
    file.write_text("\n".join(WRITERS))
    jars = jvm.version_folder(NEWEST)
    classes, folder = compile_java([SOURCE_CODE], f"{jars}/*"), tmp_path / "jars"
    folder.mkdir()
    for jar in jars.iterdir():
        (folder / jar.name).symlink_to(jar)
    with zipfile.ZipFile(folder / "roles.jar", "w") as archive:
        for path in classes.rglob("*.class"):
            archive.write(path, path.relative_to(classes))
    settings, create = brokers._properties, acls.create_bindings
    roles = {"authorizer.class.name": "switchbacktests.RoleAuthorizer", "switchback.test.writers": str(file)}

    def create_where_there_are_entries(client: object, bindings: list[object]) -> None:
        """The source has no ACL entries to create."""
        try:
            create(client, bindings)
        except KafkaException as error:
            assert "UNKNOWN" in error.args[0].name(), error

    monkeypatch.setattr(jvm, "version_folder", lambda _: folder)
    monkeypatch.setattr(
        brokers, "_properties", lambda lab, alias: settings(lab, alias) | (roles if alias == SOURCE else {})
    )
    monkeypatch.setattr(acls, "create_bindings", create_where_there_are_entries)
    return file


@contextmanager
def hooked(stage: Stage, writers: Path, known: tuple[str, ...]) -> Iterator[str]:
    """Serve a fence hook that takes the role of a writer from the principals that it knows; name it in the topology."""
    taken: set[str] = set()

    class Roles(JsonHandler):
        """Changes the file of the source; no other cluster is fenced."""

        def do_GET(self) -> None:  # noqa: N802
            """Answer with the state."""
            self.answer(200, {"fenced": SOURCE in self.path and bool(taken), "by": "roles"})

        def do_POST(self) -> None:  # noqa: N802
            """Take the roles, or give them back."""
            asked = json.loads(self.content())
            now = set(known) if self.path == "/fence" and asked["cluster"] == SOURCE else set()
            lines = set(writers.read_text().split()) | taken
            writers.write_text("\n".join(sorted(lines - now)))
            taken.clear()
            taken.update(now)
            self.answer(200, {"fenced": bool(taken), "by": "roles"})

    with served(Roles) as url:
        topology = yaml.safe_load(stage.lab.topology.read_text())
        topology["fence_hook"] = {"connection": "roles", "spares_mirror_maker": True}
        stage.lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))
        yield url


def knowing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the staged steps, too, find the hook."""
    known = LabConnections.__init__

    def with_roles(self: LabConnections, lab: object) -> None:
        known(self, lab)
        self._known["roles"] = {"conn_type": "http", "host": url}

    monkeypatch.setattr(LabConnections, "__init__", with_roles)


def test_without_a_hook_it_is_refused_before_anything_is_touched(fresh_lab: Callable[..., Path], writers: Path) -> None:
    """No ACL entry can stop a client there: the refusal says what can."""
    stage = Stage(fresh_lab("identity", airflow=False))
    procedure = stage.procedure("no-hook")
    with pytest.raises(NotReady, match=r"fence_possible.*spares_mirror_maker"):
        stage.run(procedure, *BEFORE_THE_FENCE[:2])
    assert stage.write("producer", "lab-readiness") == "ok"


def test_with_a_hook_clients_move(fresh_lab: Callable[..., Path], writers: Path, tmp_path: Path) -> None:
    """Every broker let the probe in before and refuses it behind the fence; judged by record ids."""
    stage = Stage(fresh_lab("identity", airflow=False))
    with hooked(stage, writers, CLIENTS) as url:
        made = Rehearsal(stage.lab.root, tmp_path / "rehearsal", SEED, 500, scale=0.1, groups=6)
        try:
            with kept_if_it_fails(stage.lab.root, tmp_path), stepping(stage.lab, tmp_path / "steps") as driver:
                driver.environment["AIRFLOW_CONN_ROLES"] = json.dumps({"conn_type": "http", "host": url})
                made.seed_topics()
                made.start_clients()
                made.start_load()
                evidence, _ = planned_without_findings(made, driver)
        finally:
            made.stop()
    fence = next(step["figures"] for step in evidence["steps"] if step["id"] == Step.FENCE_PRODUCERS)
    assert fence["who_may_write"] == "fence hook" and fence["fence_hook"]["fenced"]
    assert fence["brokers_accepting"] == fence["brokers_refusing"] == [1] and fence["fenced_at"]


def test_a_writer_of_whom_the_hook_does_not_know_is_found(
    fresh_lab: Callable[..., Path], writers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe is refused, and yet somebody writes: by a role that the hook does not take away."""
    stage = Stage(fresh_lab("identity", airflow=False))
    stage.create({"ledger": 1})
    stage.add_users("hidden")
    writers.write_text("\n".join([*WRITERS, "User:hidden"]))
    ended = threading.Event()

    def write_until_the_end() -> None:
        producer = Producer({**stage.properties("hidden"), "enable.idempotence": True})
        while not ended.wait(0.2):
            producer.produce("ledger", b"hidden")
            producer.flush(5)

    with hooked(stage, writers, CLIENTS) as url:
        knowing(url, monkeypatch)
        writing = threading.Thread(target=write_until_the_end)
        writing.start()
        try:
            procedure = stage.procedure("hidden", fence_seconds=10)
            stage.run(procedure, *BEFORE_THE_FENCE)
            with pytest.raises(FenceNotProven, match=r"ledger-0.*producer \d+"):
                stage.run(procedure, Step.FENCE_PRODUCERS)
            assert stage.write("producer", "ledger") == "TOPIC_AUTHORIZATION_FAILED"
            stage.give_back(procedure)
        finally:
            ended.set()
            writing.join()
        assert stage.write("producer", "ledger") == "ok"
        assert figures_of(procedure, Step.RETURN_TO_SOURCE)["fence_hook"]["fenced"] is False
