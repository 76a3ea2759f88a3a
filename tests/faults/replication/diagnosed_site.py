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

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from lab.environment.airflow_settings import airflow_connections
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import write_private
from tests.faults.readiness.checked_site import BUSY, GROUP, CheckedSite, signal_session
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.fault_proxy import FaultProxy
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping

SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR = (connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint"))
HEARTBEAT_CONNECTOR = connector_name(TARGET, SOURCE, "heartbeat")
SOURCE_JAAS, TARGET_JAAS = (f"{role}.cluster.sasl.jaas.config" for role in ("source", "target"))
_SECONDS, _SETTLED_SECONDS = 30.0, 60.0
_NUMBERS = count(1)


def new_topic(prefix: str = "fresh") -> str:
    """A name that no topic of this lab has had."""
    return f"{prefix}-{next(_NUMBERS)}"


def jaas(user: str, password: str) -> str:
    """A SCRAM login, as a Java client's setting."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


class DiagnosedSite:
    """A checked site, and a driver that runs the DAG's steps on it."""

    def __init__(self, site: CheckedSite, driver: Stepping) -> None:
        self.site, self.driver = site, driver
        self.took: list[float] = []

    # -- diagnoses ------------------------------------------------------------------------------------------------

    def diagnose(self) -> dict[str, Any]:
        """Run the DAG once; return the evidence, whose outcome is `completed` whatever was found."""
        run = Run({"source": SOURCE, "target": TARGET, "reason": "a fault was provoked"}, dag_id="diagnose_replication")
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

    # -- topics, records, groups ----------------------------------------------------------------------------------

    def create(self, topic: str, records: int = 3) -> None:
        """Create a topic on the source, with records."""
        self.site.create(NewTopic(topic, 1, 1))
        self.site.write(topic, records)

    def delete(self, *topics: str) -> None:
        """Delete source topics with their copies, as far as these exist."""
        for alias, names in ((SOURCE, topics), (TARGET, [self.site.remote(topic) for topic in topics])):
            for future in self.site.admins[alias].delete_topics(list(names)).values():
                with suppress(Exception):
                    future.result(_SECONDS)

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
        """Whether the target's only partition of a topic has so many records."""
        remote = self.site.remote(topic)
        if not self.site.has_copies(topic):
            return False
        watched = Consumer({**self.site.lab.client_properties(TARGET, "admin"), "group.id": "ends"})
        end = watched.get_watermark_offsets(TopicPartition(remote, 0), timeout=_SECONDS)[1]
        watched.close()
        return bool(end >= count)

    def write_to_target(self, topic: str) -> None:
        """Another client writes a record to a topic of the target."""
        producer = Producer(self.site.lab.client_properties(TARGET, "admin"))
        producer.produce(topic, f"foreign {time.time_ns()}")
        assert producer.flush(_SECONDS) == 0

    @contextmanager
    def denied(self, alias: str, resource: str, name: str, *operations: str, user: str = "mm2") -> Iterator[None]:
        """MirrorMaker 2's principal is denied operations inside this context."""
        with ExitStack() as entries:
            for operation in operations:
                entries.enter_context(self.site.entry(alias, user, resource, name, operation, "DENY"))
            yield

    @contextmanager
    def member_on_target(self) -> Iterator[None]:
        """A consumer of the group works on the target, without committing."""
        login = self.site.lab.client_properties(TARGET, "admin")
        consumer = Consumer({**login, "group.id": GROUP, "enable.auto.commit": False})
        consumer.subscribe([self.site.remote(BUSY)])
        try:
            until(lambda: (consumer.poll(0.2), consumer.assignment())[1], "an assignment", 60.0)
            yield
        finally:
            consumer.close()

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

    def delete_records(self, topic: str) -> None:
        """Delete all records but the last of a source topic's only partition."""
        watched = Consumer({**self.site.lab.client_properties(SOURCE, "admin"), "group.id": "ends"})
        end = watched.get_watermark_offsets(TopicPartition(topic, 0), timeout=_SECONDS)[1]
        watched.close()
        (deleted,) = self.site.admins[SOURCE].delete_records([TopicPartition(topic, 0, end - 1)]).values()
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
