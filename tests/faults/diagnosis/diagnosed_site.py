"""A lab whose flow is diagnosed: faults to provoke, each taken back again, and what a diagnosis said."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import javaproperties
import pytest
import requests
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from lab.environment.airflow_settings import airflow_connections
from lab.environment.connect import MIRROR_MAKER, call_worker, connector_name
from lab.environment.jvm import properties_text
from lab.environment.state import write_private
from tests.faults.readiness.checked_site import BUSY, GROUP, IDLE, CheckedSite, checked_site, signal_session
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.fault_proxy import FaultProxy
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping, stepping

SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR = (connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint"))
HEARTBEAT_CONNECTOR = connector_name(TARGET, SOURCE, "heartbeat")
CONNECTORS = {"source": SOURCE_CONNECTOR, "checkpoint": CHECKPOINT_CONNECTOR, "heartbeat": HEARTBEAT_CONNECTOR}
SOURCE_JAAS, TARGET_JAAS = (f"{role}.cluster.sasl.jaas.config" for role in ("source", "target"))
#: Limits that let faults be seen soon.
LIMITS = {"record_age_seconds": 10.0, "replication_latency_seconds": 10.0, "checkpoint_latency_seconds": 20.0}
#: MirrorMaker 2 writes group positions here, so that this can be seen to fail, too.
GROUP_SYNC = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
_SECONDS, _SETTLED_SECONDS = 30.0, 60.0
_NUMBERS = count(1)


def new_topic(prefix: str = "fresh") -> str:
    """A name that no topic of this lab has had."""
    return f"{prefix}-{next(_NUMBERS)}"


def jaas(user: str, password: str) -> str:
    """A SCRAM login, as a Java client's setting."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


@contextmanager
def diagnosed_site(folders: pytest.TempPathFactory, policy: str) -> Iterator[DiagnosedSite]:
    """A flow without a finding, whose group positions are written to the target."""
    with checked_site(folders, policy, limits=LIMITS) as checked, ExitStack() as stack:
        stack.enter_context(checked.flow(connectors=CONNECTORS, readiness=LIMITS))
        stack.enter_context(checked.configured("checkpoint", **GROUP_SYNC))
        for topic in (BUSY, IDLE):
            checked.write(topic, 6)
        until(lambda: checked.has_copies(IDLE, BUSY), "the topics to be on the target", 90.0)
        checked.commit(GROUP, BUSY, checked.ends[BUSY])
        driver = stack.enter_context(stepping(checked.lab, folders.mktemp("steps")))
        made = DiagnosedSite(checked, driver)
        made.is_healthy()
        yield made
        print(f"{len(made.took)} diagnoses, longest {max(made.took):.1f} s", flush=True)


class DiagnosedSite:
    """A checked site, and a driver that runs the DAG's steps on it."""

    def __init__(self, site: CheckedSite, driver: Stepping) -> None:
        self.site, self.driver = site, driver
        self.took: list[float] = []
        self._flow = {"source": SOURCE, "target": TARGET}

    # -- diagnoses ------------------------------------------------------------------------------------------------

    def diagnose(self) -> dict[str, Any]:
        """Run the DAG once; return the evidence, whose outcome is `completed` whatever was found."""
        run = Run({**self._flow, "reason": "a fault was provoked"}, dag_id="diagnose_replication")
        began = time.monotonic()
        evidence = self.driver.whole(run)
        self.took.append(time.monotonic() - began)
        assert evidence["outcome"] == "completed", (evidence["reason_for_outcome"], run.texts)
        figures = figures_of(evidence)
        said = {one["id"]: (one["about"], one["seen"]) for one in (*figures["findings"], *figures["choices"])}
        print(time.strftime("%T"), f"{self.took[-1]:.1f} s", json.dumps(said), figures["not_asked"], flush=True)
        return evidence

    def finds(self, *expected: str, choices: tuple[str, ...] = ()) -> dict[str, list[str]]:
        """Diagnose until exactly these findings and choices are named; return what each is about."""
        evidence: dict[str, Any] = {}

        def named() -> bool:
            evidence.update(self.diagnose())
            return (found(evidence), found(evidence, "choices")) == (set(expected), set(choices))

        # A fault shows only after MirrorMaker 2 has met it.
        until(named, lambda: f"{expected}, {choices} of {named_in(evidence)}", _SETTLED_SECONDS, pause=2.0)
        assert [one in evidence["reason_for_outcome"] for one in expected] == [True] * len(expected)
        return {one["id"]: one["about"] for one in figures_of(evidence)["findings"]}

    def is_healthy(self) -> None:
        """Diagnose until nothing is found."""
        self.finds()

    @contextmanager
    def turned(self) -> Iterator[None]:
        """Diagnose the opposite flow inside this context."""
        self._flow = {"source": TARGET, "target": SOURCE}
        try:
            yield
        finally:
            self._flow = {"source": SOURCE, "target": TARGET}

    # -- topics, records, groups ----------------------------------------------------------------------------------

    def create(self, topic: str, records: int = 3) -> None:
        """Create a topic on the source, with records."""
        self.site.create(NewTopic(topic, 1, 1))
        self.site.write(topic, records)

    def delete(self, topic: str) -> None:
        """Delete a source topic with its copy, as far as these exist."""
        for alias, name in ((SOURCE, topic), (TARGET, self.site.remote(topic))):
            with suppress(KafkaException):
                self.delete_from(alias, name)

    def delete_from(self, alias: str, topic: str) -> None:
        """Delete a topic of one cluster."""
        (deleted,) = self.site.admins[alias].delete_topics([topic]).values()
        deleted.result(_SECONDS)

    @contextmanager
    def on_target(self, topic: str) -> Iterator[None]:
        """The target has one more topic inside this context."""
        self.site.create(NewTopic(topic, 1, 1), alias=TARGET)
        try:
            yield
        finally:
            self.delete_from(TARGET, topic)

    @contextmanager
    def fresh(self, prefix: str = "fresh", name: str | None = None) -> Iterator[str]:
        """A new topic of the source inside this context; its name."""
        topic = name or new_topic(prefix)
        self.create(topic)
        try:
            yield topic
        finally:
            self.delete(topic)

    def has_records(self, topic: str, count: int = 3) -> bool:
        """Whether the first partition of the target's topic has so many records."""
        return self.site.has_copies(topic) and self._span(self.site.remote(topic), TARGET)[1] >= count

    def copied(self, topic: str) -> bool:
        """Whether the first partition of the target's topic has as many records as the source's."""
        return self.has_records(topic, self._span(topic, SOURCE)[1])

    def records_left(self, topic: str, alias: str) -> int:
        """How many offsets the first partition of a topic spans."""
        begin, end = self._span(topic, alias)
        return end - begin

    def _span(self, topic: str, alias: str) -> tuple[int, int]:
        watched = Consumer({**self.site.lab.client_properties(alias, "admin"), "group.id": "ends"})
        try:
            begin, end = watched.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)
        finally:
            watched.close()
        return int(begin), int(end)

    def write_as_other(self, topic: str, alias: str, count: int = 1, size: int = 0, at: int = 0) -> None:
        """Another client writes to the first partition of a topic.

        Args:
            size: of each record, at least, in bytes.
            at: timestamp in milliseconds since 1970; 0: now.
        """
        producer = Producer(self.site.lab.client_properties(alias, "admin"))
        for _ in range(count):
            producer.produce(topic, f"other {time.time_ns()}".ljust(size), partition=0, timestamp=at)
        assert producer.flush(_SECONDS) == 0

    def damage(self, topic: str) -> None:
        """Change a byte of the first record of a source topic's only partition, in the broker's file."""
        (path,) = self.site.lab.home.glob(f"brokers/{SOURCE}/{topic}-0/{0:020}.log")
        at = path.read_bytes().index(topic.encode())
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"!")

    @contextmanager
    def topic_setting(self, alias: str, topic: str, name: str, value: str) -> Iterator[None]:
        """A topic has another setting inside this context."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (described,) = self.site.admins[alias].describe_configs([resource]).values()
        before = described.result(_SECONDS)[name].value

        def put(value: str) -> None:
            entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
            (altered,) = self.site.admins[alias].incremental_alter_configs([change]).values()
            altered.result(_SECONDS)

        put(value)
        try:
            yield
        finally:
            put(before)

    def delete_group(self, alias: str, group: str) -> None:
        """Delete a group, if it exists."""
        for future in self.site.admins[alias].delete_consumer_groups([group]).values():
            with suppress(KafkaException):
                future.result(_SECONDS)

    @contextmanager
    def denied(
        self, alias: str, resource: str, name: str, *operations: str, user: str = MIRROR_MAKER, host: str = "*"
    ) -> Iterator[None]:
        """MirrorMaker 2's principal is denied operations inside this context."""
        with ExitStack() as entries:
            for operation in operations:
                entries.enter_context(self.site.entry(alias, user, resource, name, operation, "DENY", host))
            yield

    @contextmanager
    def user(self, name: str, password: str) -> Iterator[None]:
        """A SCRAM user on both clusters inside this context."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter(UserScramCredentialUpsertion(name, credential, password.encode()))
        try:
            yield
        finally:
            self._alter(UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))

    def _alter(self, change: Any) -> None:
        for admin in self.site.admins.values():
            (altered,) = admin.alter_user_scram_credentials([change]).values()
            altered.result(_SECONDS)

    # -- Connect --------------------------------------------------------------------------------------------------

    @contextmanager
    def put(self, kind: str = "source", without: str = " ", **changes: str) -> Iterator[None]:
        """Change settings of a connector, which may then fail; it runs again afterwards.

        Args:
            kind: of the connector.
            without: settings that begin so are left out.
            changes: by name, the new values.
        """
        config = self.site.connector("GET", "config", kind=kind).json()
        kept = {key: value for key, value in config.items() if not key.startswith(without)}
        self.site.configure({**kept, **changes}, kind)
        time.sleep(3.0)
        try:
            yield
        finally:
            self.site.configure(config, kind)
            self.restart(kind)

    def restart(self, kind: str = "source") -> None:
        """Restart a connector with its tasks, and wait until it runs."""
        with suppress(Exception):
            self.site.connector("POST", "restart?includeTasks=true", kind=kind)
        until(lambda: self.site.runs(kind), f"the {kind} connector to run", 90.0)

    def ask_restart(self) -> None:
        """Ask Connect to restart the source connector, and wait for nothing."""
        with suppress(requests.RequestException):
            self.site.connector("POST", "restart?includeTasks=true")

    def restart_tasks(self) -> None:
        """Restart the source connector's tasks, and not the connector itself."""
        for task in self.site.connector("GET", "tasks").json():
            self.site.connector("POST", f"tasks/{task['id']['task']}/restart")

    def await_failed(self, kind: str = "source") -> None:
        """Wait until a connector, or a task of it, has failed."""
        until(lambda: "FAILED" in self.site.connector("GET", "status", kind=kind).text, "a task to fail", 60.0)

    @contextmanager
    def wrong_file(self, key: str) -> Iterator[None]:
        """The file to which the source connector's login refers has a wrong password there inside this context."""
        name, _, entry = self.site.connector("GET", "config").json()[key].removeprefix("${file:").partition(":")
        path = Path(name)
        before = path.read_text()
        logins: dict[str, object] = {**javaproperties.loads(before), entry.removesuffix("}"): jaas("mm2", "wrong")}
        write_private(path, properties_text(logins))
        try:
            yield
        finally:
            write_private(path, before)

    @contextmanager
    def wrong_reference(self, key: str) -> Iterator[None]:
        """The connector's configuration refers to a file with a wrong login, which nobody outside Connect can try."""
        config = self.site.connector("GET", "config").json()
        kept = Path(config[key].removeprefix("${file:").partition(":")[0])
        wrong = kept.with_name("wrong.properties")
        write_private(wrong, f"login={jaas('mm2', 'wrong')}\n")
        try:
            with self.put(**{key: f"${{file:{wrong}:login}}"}):
                yield
        finally:
            wrong.unlink()

    @contextmanager
    def paused(self, worker: str, name: str, ask: str = "stop", back: str = "resume") -> Iterator[None]:
        """Tell a connector of a worker something inside this context."""

        def tell(what: str) -> None:
            path = f"/connectors/{name}/{what}"
            until(lambda: call_worker(self.site.lab, worker, "PUT", path).ok, what, 60.0)

        tell(ask)
        time.sleep(2.0)
        try:
            yield
        finally:
            tell(back)

    @contextmanager
    def reverse_running(self, topics: str) -> Iterator[None]:
        """The opposite flow runs for some topics inside this context."""
        name = connector_name(TARGET, SOURCE, "source")
        config = call_worker(self.site.lab, SOURCE, "GET", f"/connectors/{name}/config").json()

        def put(what: str, body: Any = None) -> None:
            until(lambda: call_worker(self.site.lab, SOURCE, "PUT", f"/connectors/{name}/{what}", body).ok, what, 60.0)

        put("config", {**config, "topics": topics})
        put("resume")
        time.sleep(5.0)
        try:
            yield
        finally:
            put("stop")
            put("config", config)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """Processes of the lab do not run inside this context."""
        for name in names:
            signal_session(self.site.lab, name, signal.SIGSTOP)
        try:
            yield
        finally:
            for name in names:
                signal_session(self.site.lab, name, signal.SIGCONT)

    # -- Switchback's own settings --------------------------------------------------------------------------------

    @contextmanager
    def connection(self, name: str, like: str | None = None, **changes: Any) -> Iterator[None]:
        """Have another Airflow connection inside this context; of `extra` only what is named changes."""
        known = airflow_connections(self.site.lab)[like or name]
        changes["extra"] = known.get("extra", {}) | changes.get("extra", {})
        before, key = self.driver.environment, f"AIRFLOW_CONN_{name.upper()}"
        self.driver.environment = before | {key: json.dumps(known | changes)}
        try:
            yield
        finally:
            self.driver.environment = before

    @contextmanager
    def worker_answers(self, status: int) -> Iterator[None]:
        """Something before the Connect worker answers with a status itself."""
        proxy = FaultProxy(self.site.lab.connect_url(TARGET))
        proxy.answer(status)
        try:
            with self.connection(f"connect_{TARGET}", host=proxy.url):
                yield
        finally:
            proxy.close()

    def add_partitions(self, alias: str, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""
        (grown,) = self.site.admins[alias].create_partitions([NewPartitions(topic, total)]).values()
        grown.result(_SECONDS)

    def delete_records(self, topic: str, alias: str = SOURCE, left: int = 1) -> None:
        """Delete all records but so many of a topic's only partition."""
        place = TopicPartition(topic, 0, self._span(topic, alias)[1] - left)
        (deleted,) = self.site.admins[alias].delete_records([place]).values()
        deleted.result(_SECONDS)


def figures_of(evidence: dict[str, Any]) -> dict[str, Any]:
    """What the step diagnose_replication stated."""
    return next(step["figures"] for step in evidence["steps"] if step["id"] == "diagnose_replication")


def found(evidence: dict[str, Any], what: str = "findings") -> set[str]:
    """The ids of findings, or of choices."""
    return {one["id"] for one in figures_of(evidence)[what]}


def named_in(evidence: dict[str, Any]) -> str:
    """Findings and choices as text."""
    figures = figures_of(evidence) if evidence else {"findings": [], "choices": []}
    return json.dumps({what: figures[what] for what in ("findings", "choices")})[:3_000]
