"""A lab whose flow is checked: a busy topic and idle ones, ways to break what a check looks at, and what was found."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from lab.environment.airflow_settings import airflow_connections
from lab.environment.bring_up import up
from lab.environment.brokers import admin_client
from lab.environment.connect import call_worker, connector_name
from lab.environment.processes import list_processes
from lab.environment.state import Lab, write_private
from lab.environment.take_down import down
from lab.threads import run_beside
from tests.faults.readiness.one_check import SOURCE, TARGET, CheckServer
from tests.faults.support import always_on
from tests.faults.support.scene import until
from tests.faults.support.stepping import more_connections_path
from tests.support.rehearsals import SEED

#: Naming policies take turns by the seed.
NAMING = ("identity", "default")[SEED % 2]
#: Of the last topic brokers set the timestamps, so that copies have other ones than their originals.
BUSY, IDLE, APPENDED, PARTITIONS = "busy", "idle", "appended", 3
GROUP = "readers"
#: Limits in seconds that let faults be found soon, and still leave room for this machine's pauses.
LIMITS = {"record_age_seconds": 20.0, "replication_latency_seconds": 20.0, "checkpoint_latency_seconds": 20.0}
MENDED_SECONDS = 180.0
_SECONDS = 30.0
_SHOWN = ("state", "reasons", "if_now", "lag", "ages", "took_seconds")


@contextmanager
def checked_site(folders: pytest.TempPathFactory, policy: str = NAMING, **choices: Any) -> Iterator[CheckedSite]:
    """A site inside this context; `choices` as of `up`, and those of `CheckedSite`."""
    own = {name: choices.pop(name) for name in ("limits", "reconcile_seconds") if name in choices}
    state = folders.mktemp("lab")
    try:
        up(state, airflow=False, policy=policy, **choices)
        site = CheckedSite(Lab(state), **own)
        try:
            yield site
        finally:
            site.close()
    finally:
        down(state)
        shutil.rmtree(state, ignore_errors=True)


class CheckedSite:
    """A lab with recorder and watcher, a busy topic, idle ones and a group; and what each check has said."""

    def __init__(self, lab: Lab, limits: dict[str, float] = LIMITS, reconcile_seconds: float = 5.0) -> None:
        self.lab, self.policy = lab, lab.load().policy
        self.admins: dict[str, AdminClient] = {alias: admin_client(lab, alias) for alias in (SOURCE, TARGET)}
        self._producer = Producer({**lab.client_properties(SOURCE, "admin"), "linger.ms": 5})
        # Of each topic the broker decides on replicas: one in profile small, three in production.
        by_broker = NewTopic(APPENDED, 1, config={"message.timestamp.type": "LogAppendTime"})
        self.create(NewTopic(BUSY, PARTITIONS), NewTopic(IDLE, 1), by_broker)
        # A marker that nobody has disturbed for two of these periods shows that nobody puts anything back.
        self._write_topology({**self._topology(), "reconcile_seconds": reconcile_seconds})
        with self._flow_edited() as flow:
            flow["readiness"] = dict(limits)
        for dag_id in (always_on.RECORDER, always_on.WATCHER):
            always_on.start(lab, dag_id)
        self.server = CheckServer(lab)
        #: End of the log of the first partition of each topic that was written to.
        self.ends: dict[str, int] = {}
        #: Ids of all findings that documents have called mended.
        self.told_mended: set[str] = set()

    def close(self) -> None:
        """End the server of checks."""
        self.server.close()

    def make_verified(self) -> None:
        """Check until the flow is healthy, then note that a drill has passed."""
        for topic in (IDLE, APPENDED, BUSY):
            self.write(topic, 5)
        until(lambda: self.has_copies(IDLE, APPENDED, BUSY), "the topics to be on the target", MENDED_SECONDS)
        self.commit(GROUP, BUSY, 1)
        healthy = self.mended("topics_match", "recorder_silent", "watcher_silent", "figure_unknown", "record_age")
        assert found(healthy) <= {"drill_missing"}, healthy["reasons"]
        self.server.end_drill()
        self.verified()

    # -- topics and records ---------------------------------------------------------------------------------------

    def create(self, *topics: NewTopic, alias: str = SOURCE) -> None:
        """Create topics."""
        for future in self.admins[alias].create_topics(list(topics)).values():
            future.result(_SECONDS)

    def remote(self, topic: str) -> str:
        """The name of a source topic on the target."""
        return topic if self.policy == "identity" else f"{SOURCE}.{topic}"

    def write(self, topic: str, count: int) -> None:
        """Write so many records, spread over the topic's partitions, and wait for their acknowledgement."""
        for number in range(count):
            self._producer.produce(
                topic,
                f"{topic} {time.time_ns()} {number}",
                partition=number % PARTITIONS * (topic == BUSY),
                on_delivery=self._delivered,
            )
        assert self._producer.flush(_SECONDS) == 0

    def _delivered(self, error: object, message: Message) -> None:
        if error is None and message.partition() == 0:
            self.ends[message.topic()] = message.offset() + 1

    def has_copies(self, *topics: str) -> bool:
        """Whether the target has these source topics."""
        return {*map(self.remote, topics)} <= self.admins[TARGET].list_topics(timeout=_SECONDS).topics.keys()

    @contextmanager
    def member_on_target(self) -> Iterator[None]:
        """A consumer of the moving group works on the target, without committing."""
        login = self.lab.client_properties(TARGET, "admin")
        consumer = Consumer({**login, "group.id": GROUP, "enable.auto.commit": False})
        consumer.subscribe([self.remote(BUSY)])
        try:
            until(lambda: (consumer.poll(0.2), consumer.assignment())[1], "an assignment", 60.0)
            yield
        finally:
            consumer.close()

    def commit(self, group: str, topic: str, position: int) -> None:
        """Commit a position of a group on the first partition of a source topic."""
        place = TopicPartition(topic, 0, position)
        (moved,) = (
            self.admins[SOURCE].alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [place])]).values()
        )
        moved.result(_SECONDS)

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Write to the busy topic inside this context, and let the group follow."""

        def work(ended: threading.Event) -> None:
            while not ended.wait(0.1):
                self.write(BUSY, 20)
                self.commit(GROUP, BUSY, self.ends[BUSY])

        with run_beside(work):
            yield

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self) -> dict[str, Any]:
        """Check once, and print what was said."""
        document = self.server.check()
        self.told_mended |= {finding["id"] for finding in document["mended"]}
        print(time.strftime("%T"), json.dumps({name: document[name] for name in _SHOWN}), flush=True)
        return document

    def finds(self, *ids: str, also: tuple[str, ...] = ()) -> dict[str, Any]:
        """Check once; all of these findings are there, and of others only those in `also`."""
        document = self.check()
        assert {*ids} <= found(document) <= {*ids, *also}, document["reasons"]
        return document

    def mended(self, *ids: str) -> dict[str, Any]:
        """Check until none of these findings is left."""
        return dict(until(lambda: self._without(ids), f"{ids} to be mended", MENDED_SECONDS, pause=0.5))

    def verified(self) -> dict[str, Any]:
        """Check until nothing is found but warnings."""
        document = until(self._healthy, "the flow to be VERIFIED", MENDED_SECONDS, pause=0.5)
        assert document["state"] == "VERIFIED", document["reasons"]
        return dict(document)

    def _healthy(self) -> dict[str, Any] | None:
        document = self.check()
        return None if found(document) else document

    def _without(self, ids: tuple[str, ...]) -> dict[str, Any] | None:
        document = self.check()
        return None if found(document) & {*ids} else document

    # -- Connect --------------------------------------------------------------------------------------------------

    def connector(self, method: str, what: str, body: Any = None, kind: str = "source") -> Any:
        """Ask one of the flow's connectors, or tell it something."""
        name = connector_name(SOURCE, TARGET, kind)
        answer = call_worker(self.lab, TARGET, method, f"/connectors/{name}/{what}", body)
        answer.raise_for_status()
        return answer

    def stands(self) -> bool:
        """Whether the source connector is STOPPED without tasks."""
        status = self.connector("GET", "status").json()
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    def runs(self, kind: str = "source") -> bool:
        """Whether a connector and all of its tasks are RUNNING."""
        status = self.connector("GET", "status", kind=kind).json()
        return {status["connector"]["state"], *(task["state"] for task in status["tasks"])} == {"RUNNING"}

    def configure(self, config: dict[str, str], kind: str = "source") -> None:
        """Give a connector this configuration, also while Connect rebalances."""
        until(lambda: _put(self.lab, TARGET, connector_name(SOURCE, TARGET, kind), config), "a configuration", 60.0)

    @contextmanager
    def configured(self, kind: str = "source", **changes: str) -> Iterator[None]:
        """Change settings of a connector inside this context; it runs again before and after."""
        config = self.connector("GET", "config", kind=kind).json()
        self.configure({**config, **changes}, kind)
        try:
            until(lambda: self.runs(kind), f"the {kind} connector to run", 60.0)
            yield
        finally:
            self.configure(config, kind)
            until(lambda: self.runs(kind), f"the {kind} connector to run", 60.0)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the source connector inside this context."""
        self.connector("PUT", "stop")
        until(self.stands, "the connector to stand", 60.0)
        try:
            yield
        finally:
            self.connector("PUT", "resume")
            until(self.runs, "the source connector to run", 60.0)

    # -- topology, connections, rights ----------------------------------------------------------------------------

    @contextmanager
    def topology(self, edit: Callable[[dict[str, Any]], object]) -> Iterator[None]:
        """Have another topology inside this context."""
        before = self._topology()
        edited = self._topology()
        edit(edited)
        self._write_topology(edited)
        try:
            yield
        finally:
            self._write_topology(before)

    @contextmanager
    def flow(self, **settings: Any) -> Iterator[None]:
        """State these settings of the checked flow in the topology inside this context."""
        with self.topology(lambda topology: _flow_of(topology).update(settings)):
            yield

    @contextmanager
    def connection(self, name: str, like: str | None = None, **changes: Any) -> Iterator[None]:
        """Have another Airflow connection inside this context; of `extra` only what is named changes."""
        path = more_connections_path(self.lab)
        before = path.read_text() if path.exists() else "{}"
        known = airflow_connections(self.lab)[like or name]
        changes["extra"] = known.get("extra", {}) | changes.get("extra", {})
        write_private(path, json.dumps(json.loads(before) | {name: known | changes}))
        try:
            yield
        finally:
            write_private(path, before)

    @contextmanager
    def entry(
        self,
        alias: str,
        principal: str,
        resource: str,
        name: str,
        operation: str,
        permission: str = "ALLOW",
        host: str = "*",
    ) -> Iterator[None]:
        """Have one more literal ACL entry inside this context."""
        binding = AclBinding(
            ResourceType[resource],
            name,
            ResourcePatternType.LITERAL,
            f"User:{principal}",
            host,
            AclOperation[operation],
            AclPermissionType[permission],
        )
        (created,) = self.admins[alias].create_acls([binding]).values()
        created.result(_SECONDS)
        try:
            yield
        finally:
            remove_entries(self.admins[alias], binding)

    def _topology(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.lab.topology.read_text()))

    def _write_topology(self, topology: dict[str, Any]) -> None:
        write_private(self.lab.topology, yaml.safe_dump(topology, sort_keys=False))

    @contextmanager
    def _flow_edited(self) -> Iterator[dict[str, Any]]:
        topology = self._topology()
        yield _flow_of(topology)
        self._write_topology(topology)


def _flow_of(topology: dict[str, Any]) -> dict[str, Any]:
    return next(flow for flow in topology["flows"] if (flow["source"], flow["target"]) == (SOURCE, TARGET))


def _put(lab: Lab, worker: str, name: str, config: dict[str, str]) -> bool:
    return bool(call_worker(lab, worker, "PUT", f"/connectors/{name}/config", config).ok)


def remove_entries(admin: AdminClient, binding: AclBinding) -> None:
    """Delete one ACL entry."""
    from confluent_kafka.admin import AclBindingFilter

    pattern = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    (deleted,) = admin.delete_acls([pattern]).values()
    deleted.result(_SECONDS)


def found(document: dict[str, Any], *severities: str) -> set[str]:
    """The ids of what was found: with one of the severities, or if none is named, all but warnings."""
    wanted = severities or ("failed", "unknown", "unverified")
    return {finding["id"] for finding in document["findings"] if finding["severity"] in wanted}


def changed_items(document: dict[str, Any]) -> set[str]:
    """The items of the fingerprint that were found changed since the drill."""
    return {finding["about"] for finding in document["findings"] if finding["id"] == "changed_since_drill"}


def signal_session(lab: Lab, name: str, number: int) -> None:
    """Send a signal to all processes of one of the lab's sessions."""
    leader = lab.processes.pid(name)
    for seen in list_processes():
        if seen.session == leader:
            os.kill(seen.pid, number)


def ca_certificate(folder: Path, days: float) -> str:
    """The path of a new CA certificate that ends in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{days} days")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"ca-{days}.pem"
    path.write_bytes(made.public_bytes(Encoding.PEM))
    return str(path)


def with_ca(site: CheckedSite, path: str) -> AbstractContextManager[None]:
    """The target's connection names this CA; the lab's brokers have no TLS, so it is only read."""
    return site.connection(f"kafka_{TARGET}", extra={"ssl.ca.location": path})
