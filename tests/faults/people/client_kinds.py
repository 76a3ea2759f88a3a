"""Clients of every kind on a lab: consumers of both protocols, static members, Streams, a share group, a sink."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.every_broker import EveryBroker
from kafka_dr.hooks.brokers.group_requests import OK

from lab.environment.connect import call_worker
from lab.environment.jvm import java_program
from lab.environment.logins.clients import scram_login
from lab.environment.versions.releases import NEWEST
from lab.environment.versions.version_jars import version_folder
from lab.install.jars import INSTALL, JarList, ensure_jars
from lab.install.java_compiler import compile_java
from lab.install.java_flags import FLAGS
from lab.install.setup import VENV, find_java
from tests.support.staged_lab import Stage, acl

SOURCE_CODE = Path(__file__).with_name("CountingStreams.java")
STREAMS = JarList(INSTALL / "streams.xml", INSTALL / "streams.sha256", "streams")
USER = "app"
#: A start of a Java program may take a minute on a machine with other work.
PATIENCE = 180.0


def streams_jars() -> Path:
    """Return the folder with the jars of Kafka Streams and of the file sink; fetch them once a user."""
    (ivy,) = VENV.resolve().glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar")
    return ensure_jars(ivy, find_java(), STREAMS) / "streams"


def jars_with_sink(folder: Path) -> Path:
    """Return a folder with the lab's jars and that of the file sink, for Connect workers."""
    folder.mkdir()
    for jar in (*version_folder(NEWEST).iterdir(), *streams_jars().glob("connect-file-*.jar")):
        (folder / jar.name).symlink_to(jar)
    return folder


def eventually(reached: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that clients or clusters do on their own."""
    ends_at = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < ends_at, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)


class Member:
    """A consumer that polls in a thread of its own; `values` has what it was given."""

    def __init__(self, settings: dict[str, object], topic: str) -> None:
        self.values: list[bytes] = []
        self._consumer = Consumer({"auto.offset.reset": "earliest", "auto.commit.interval.ms": 500, **settings})
        self._consumer.subscribe([topic])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")

    def stop(self) -> None:
        """Stop as an application does that is shut down."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join(30)
            self._consumer.close()


class AllKinds:
    """Starts and stops clients of each kind on a lab's clusters.

    Args:
        stage: the lab.
        folder: for settings, states and output of the Java programs.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.folder = stage, folder
        self.members: dict[str, Member] = {}
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()
        stage.add_users(USER)
        stage.allow(*(acl(f"User:{USER}", "ALL", "*", kind=kind) for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")))

    def produce(self, alias: str, topic: str, *keys: str) -> None:
        """Write one record a key."""
        producer = Producer(self.stage.properties(USER, alias))
        for number, key in enumerate(keys):
            producer.produce(topic, key=key, value=f"{alias} {number}")
        assert producer.flush(60) == 0

    def pay(self, alias: str, transactional_id: str, topic: str) -> None:
        """Write one record in a transaction."""
        producer = Producer({**self.stage.properties(USER, alias), "transactional.id": transactional_id})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, f"{alias} paid")
        producer.commit_transaction(60)

    def consume(self, alias: str, group: str, topic: str, **settings: object) -> Member:
        """Start a member of a group, in place of the one that was started before."""
        own = {name.replace("_", "."): value for name, value in settings.items()}
        self.members[group] = Member({**self.stage.properties(USER, alias), "group.id": group, **own}, topic)
        return self.members[group]

    def count(self, alias: str, application: str, topic: str, result: str, protocol: str = "classic") -> None:
        """Start a Streams application that counts records by key, with a local state of its own for each cluster."""
        settings = {
            "application.id": application,
            "group.protocol": protocol,
            "state.dir": self.folder / f"{application}-{alias}",
            "commit.interval.ms": 500,
            "replication.factor": 1,
            "auto.offset.reset": "earliest",
        }
        jars = streams_jars()
        path = f"{version_folder(NEWEST)}/*:{jars}/*"
        classes = compile_java([SOURCE_CODE], path)
        self._start(application, alias, settings, f"{path}:{classes}", "CountingStreams", "{settings}", topic, result)

    def share(self, alias: str, group: str, topic: str) -> None:
        """Start a member of a share group."""
        main = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
        servers = str(self.stage.properties(USER, alias)["bootstrap.servers"])
        asked = ("--bootstrap-server", servers, "--topic", topic, "--group", group, "--command-config", "{settings}")
        self._start(group, alias, {}, f"{version_folder(NEWEST)}/*", main, *asked)

    def sink(self, alias: str, name: str, topic: str) -> Path:
        """Create a sink connector in the cluster's Connect worker; return the file to which it writes."""
        file = self.folder / f"{name}.txt"
        config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1"}
        config |= {"topics": topic, "file": str(file)}
        call_worker(self.stage.lab, alias, "PUT", f"/connectors/{name}/config", config).raise_for_status()
        return file

    def commit(self, alias: str, group: str, topic: str, offset: int) -> None:
        """Commit a position as an administrator does, without a member."""
        first = TopicPartition(topic, 0)
        cluster = KafkaCluster(alias, self.stage.lab.client_properties(alias, "admin"))
        assert cluster.commit(group, {first: offset}) == {first: OK}

    def commit_ends(self, alias: str, group: str, *topics: str) -> None:
        """Let a group without members begin at the log ends of topics with two partitions."""
        cluster = KafkaCluster(alias, self.stage.lab.client_properties(alias, "admin"))
        ends = cluster.ends([TopicPartition(topic, partition) for topic in topics for partition in range(2)])
        assert set(cluster.commit(group, ends).values()) == {OK}

    def begin_share(self, alias: str, group: str, topic: str) -> None:
        """Let a share group begin with the records that are written from now on, by Kafka's own tool."""
        main, now = "org.apache.kafka.tools.consumer.group.ShareGroupCommand", datetime.now(UTC)
        servers = str(self.stage.properties(USER, alias)["bootstrap.servers"])
        asked = ("--bootstrap-server", servers, "--command-config", "{settings}", "--reset-offsets", "--execute")
        asked += ("--group", group, "--topic", topic, "--to-datetime", now.isoformat(timespec="milliseconds")[:23])
        name = f"{group}-reset"
        self._start(name, alias, {}, f"{version_folder(NEWEST)}/*", main, *asked)
        assert self.programs.pop(name).wait(PATIENCE) == 0, self.told(name, alias)

    def groups(self, alias: str) -> dict[str, ListedGroup]:
        """Return the groups of every protocol as the cluster's broker lists them."""
        asked = EveryBroker(self.stage.lab.client_properties(alias, "admin"), alias)
        try:
            return asked.groups([1], timeout=30.0)
        finally:
            asked.close()

    def stop(self, *names: str) -> None:
        """Stop these clients, or all; each as one that is shut down."""
        for name, member in self.members.items():
            if not names or name in names:
                member.stop()
        stopped = {name: one for name, one in self.programs.items() if not names or name in names}
        for program in stopped.values():
            # A Streams application closes when its input ends, a consumer on the console when it is terminated.
            program.stdin.close()
            if "CountingStreams" not in program.args:
                program.terminate()
        for name, program in stopped.items():
            try:
                program.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait(30)
            del self.programs[name]

    def told(self, name: str, alias: str) -> str:
        """Return the end of what a Java program printed."""
        return (self.folder / f"{name}-{alias}.log").read_text(errors="replace")[-2000:]

    def _start(self, name: str, alias: str, settings: dict[str, object], path: str, main: str, *arguments: str) -> None:
        known = self.stage.properties(USER, alias)
        login = {
            "bootstrap.servers": known["bootstrap.servers"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": scram_login(USER, str(known["sasl.password"])),
        }
        file = self.folder / f"{name}-{alias}.properties"
        file.write_text("\n".join(f"{key}={value}" for key, value in (login | settings).items()))
        asked = [str(file) if argument == "{settings}" else argument for argument in arguments]
        with (self.folder / f"{name}-{alias}.log").open("wb") as log:
            self.programs[name] = subprocess.Popen(
                [java_program(), "-Xmx192m", *FLAGS, "-cp", path, main, *asked],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
