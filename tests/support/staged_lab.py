"""Run steps of a procedure in this process on a real lab, with stand-ins for Airflow and its connections only."""

from __future__ import annotations

import time
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka_dr.config.settings import check_params, load_topology
from kafka_dr.connections import Connections
from kafka_dr.hooks.airflow_api import DagRun, HitlAnswer
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.spark_place import SparkPlace
from kafka_dr.procedure.progress import WaitLonger
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.steps.planned.check_readiness import CheckReadiness
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.planned.forecast import Forecast
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import APPROVE, Entry, Step

from lab.environment.airflow_settings import airflow_connections
from lab.environment.brokers import admin_client
from lab.environment.state import ALIASES, Lab
from lab.workload.seeding import await_mirrored
from tests.support.facts import figures_of
from tests.support.lab_clients import acl_filter, without_marker

OPERATORS = {
    Step.OPEN_PROCEDURE: OpenProcedure,
    Step.CHECK_READINESS: CheckReadiness,
    Step.FORECAST: Forecast,
    Step.FENCE_PRODUCERS: FenceProducers,
    Step.DRAIN_CONSUMERS: DrainConsumers,
    Step.RETURN_TO_SOURCE: ReturnToSource,
}
BEFORE_THE_FENCE = (Step.OPEN_PROCEDURE, Step.CHECK_READINESS, Step.FORECAST)
_SECONDS = 30.0
Acl = tuple[str, str, str, str, str, str, str]


class LabConnections(Connections):
    """The lab's connections, without Airflow."""

    def __init__(self, lab: Lab) -> None:
        self._known = airflow_connections(lab)

    def kafka(self, connection_id: str) -> dict[str, Any]:
        """Return librdkafka's configuration."""
        return dict(self._known[connection_id]["extra"])

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """Return base URL, login and password."""
        known = self._known[connection_id]
        return known["host"], known.get("login", ""), known.get("password", "")

    def tls(self, connection_id: str) -> HttpTls:
        """Return the certificates in the connection's extra."""
        return HttpTls.of_extra(self._known[connection_id].get("extra", {}), connection_id)

    def check_spark(self, connection_id: str) -> None:
        """Do nothing: the lab's Spark runs in the task, and no login is on its command line."""
        assert self._known[connection_id]["host"].startswith("local")

    def spark_place(self, connection_id: str) -> SparkPlace:
        """Return that Spark runs in the task."""
        return SparkPlace("task")

    def journal_url(self, connection_id: str) -> str:
        """Return the journal's URL."""
        return self._known[connection_id]["extra"]["url"]


class Answers:
    """Stand-in for Airflow's API, as far as steps use it: one person started the run, another person answers."""

    username = "switchback"

    def __init__(self) -> None:
        self._given: dict[str, HitlAnswer] = {}

    def dag_run(self, dag_id: str, run_id: str) -> DagRun:
        """Return the run."""
        return DagRun(dag_id, run_id, "running", "operator")

    def hitl(self, dag_id: str, run_id: str, task_id: str) -> HitlAnswer | None:
        """Return the gate's answer."""
        given = self._given.get(task_id)
        return given and replace(given, read_at=datetime.now(UTC))

    def approve(self, gate: str, digest: str) -> None:
        """Store the approver's approval of this digest."""
        self._given[gate] = HitlAnswer(
            f"Plan {digest}", "", (APPROVE,), (APPROVE,), "approver", "approver", datetime.now(UTC), {}, None
        )


class Stage:
    """One lab, its source cluster as clients use it, and runs of the first steps on it."""

    def __init__(self, state: Path) -> None:
        self.lab = Lab(state)
        self.logins: dict[str, dict[str, str]] = {}

    # -- the procedure -------------------------------------------------------------------------------------------

    def procedure(self, run_id: str, **params: Any) -> Run:
        """Return a run with these params, besides source, target and reason."""
        topology = load_topology(self.lab.topology)
        request = check_params(topology, {"source": "primary", "target": "standby", "reason": "a test", **params})
        made = Run.connected(Identity("planned_failover", run_id), request, topology, LabConnections(self.lab))
        made.systems.__dict__["api"] = Answers()
        return made

    def run(self, procedure: Run, *steps: Step) -> dict[str, Any]:
        """Run steps one after the other; return the figures of the last. A forecast is approved by a second person."""
        for step in steps:
            self._run_one(procedure, OPERATORS[step](task_id=step.value))
            if step is Step.FORECAST:
                procedure.systems.api.approve(
                    Step.APPROVE_FAILOVER, figures_of(procedure, Step.FORECAST)["plan_digest"]
                )
        return figures_of(procedure, steps[-1])

    def _run_one(self, procedure: Run, operator: Any) -> None:
        run = SimpleNamespace(
            dag_id="planned_failover",
            run_id=procedure.identity.run_id,
            start_date=datetime.now(UTC),
            queued_at=None,
            run_after=datetime.now(UTC),
            clear_number=0,
        )
        context, woken = {"dag_run": run, "ti": SimpleNamespace(try_number=1), "params": {}}, False
        while True:
            try:
                operator.run_once(procedure, context, woken)
                return
            except WaitLonger:
                woken = True

    def fenced(self, run_id: str, **params: Any) -> Run:
        """Run the steps up to fence_producers; return the run."""
        procedure = self.procedure(run_id, **params)
        self.run(procedure, *BEFORE_THE_FENCE, Step.FENCE_PRODUCERS)
        return procedure

    def give_back(self, procedure: Run) -> dict[str, Any]:
        """Return to the source and release the lease; return the figures."""
        figures = self.run(procedure, Step.RETURN_TO_SOURCE)
        procedure.journal.release_lease(procedure.pair, procedure.id, procedure.lease.epoch, "returned")
        return figures

    def notes(self, procedure: Run, step: Step) -> list[dict[str, Any]]:
        """Return a step's notes in the journal."""
        return [e.payload for e in procedure.journal.entries(procedure.id, step, Entry.NOTE)]

    # -- the clusters --------------------------------------------------------------------------------------------

    def admin(self, alias: str = "primary") -> AdminClient:
        """Return a super user's admin client."""
        return admin_client(self.lab, alias)

    def create(self, topics: dict[str, int]) -> None:
        """Create topics on the source, and wait until they are mirrored to the target."""
        client = self.admin()
        for future in client.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
            future.result(_SECONDS)
        await_mirrored(self.lab.status(), "standby", topics)

    def add_users(self, *names: str) -> None:
        """Create SCRAM users on both clusters."""
        for alias in ALIASES:
            client = self.admin(alias)
            made = [
                UserScramCredentialUpsertion(
                    name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), f"{name}-password".encode()
                )
                for name in names
            ]
            for future in client.alter_user_scram_credentials(made).values():
                future.result(_SECONDS)
        self.logins |= {name: {"sasl.username": name, "sasl.password": f"{name}-password"} for name in names}

    def properties(self, principal: str, alias: str = "primary") -> dict[str, Any]:
        """Return a principal's client settings."""
        known = self.lab.client_properties(alias, principal if principal not in self.logins else "admin")
        return {**known, **self.logins.get(principal, {}), "log_level": 0}

    def acls(self, alias: str = "primary") -> set[Acl]:
        """Return every ACL entry of a cluster, read as a super user."""
        client = self.admin(alias)
        asked = acl_filter()
        found = client.describe_acls(asked, request_timeout=_SECONDS).result(_SECONDS)
        return {_plain(binding) for binding in without_marker(found)}

    def allow(self, *entries: AclBinding, aliases: Iterable[str] = ALIASES) -> None:
        """Add ACL entries, on both clusters unless an alias is given."""
        for alias in aliases:
            client = self.admin(alias)
            for future in client.create_acls(list(entries), request_timeout=_SECONDS).values():
                future.result(_SECONDS)

    def describe_clusters(self, **settings: Any) -> None:
        """State settings of both clusters in the topology, such as `super_users`."""
        topology = yaml.safe_load(self.lab.topology.read_text())
        for cluster in topology["clusters"].values():
            cluster.update(deepcopy(settings))  # the same object for both would be a YAML anchor
        self.lab.topology.write_text(yaml.safe_dump(topology))

    def remove_acls(self, alias: str, kinds: Iterable[ResourceType], but_for: str = "") -> None:
        """Remove all ACL entries on resources of these kinds whose name is the literal wildcard.

        Args:
            but_for: a principal whose entries stay.
        """
        client = self.admin(alias)
        wildcard = ("*", ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY)
        found = [
            binding
            for kind in kinds
            for binding in client.describe_acls(AclBindingFilter(kind, *wildcard)).result(_SECONDS)
            if binding.principal != but_for
        ]
        filters = [
            AclBindingFilter(
                b.restype, b.name, b.resource_pattern_type, b.principal, b.host, b.operation, b.permission_type
            )
            for b in found
        ]
        for future in client.delete_acls(filters, request_timeout=_SECONDS).values() if filters else ():
            future.result(_SECONDS)

    def write(
        self, principal: str, topic: str, partition: int = 0, key: bytes | None = None, value: bytes = b"x"
    ) -> str:
        """Write one record; return "ok", or Kafka's name of the error."""
        said: list[str] = []
        producer = Producer({**self.properties(principal), "message.timeout.ms": 10_000, "message.send.max.retries": 0})
        producer.produce(
            topic, value, key, partition, on_delivery=lambda error, _: said.append(error.name() if error else "ok")
        )
        producer.flush(15)
        return said[0] if said else "no answer"

    def commit(self, principal: str, group: str, topic: str, offset: int) -> str:
        """Commit a position as a restarted consumer does; return "ok", or Kafka's name of the error."""
        consumer = Consumer({**self.properties(principal), "group.id": group, "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        finally:
            consumer.close()
        return "ok"

    def read(self, principal: str, topic: str, isolation: str = "read_uncommitted") -> str | list[bytes | None]:
        """Return the values of partition 0 as a principal reads them, or Kafka's name of the error."""
        own = {
            "group.id": f"{principal}-reads",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
        consumer = Consumer({**self.properties(principal), **own})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        ends_at = time.monotonic() + _SECONDS
        try:
            while time.monotonic() < ends_at:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error():
                    return found if message.error().code() == KafkaError._PARTITION_EOF else message.error().name()
                found.append(message.value())
        finally:
            consumer.close()
        return "no end"

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        """Return a group's committed positions on the source."""
        held = Consumer({**self.properties("admin"), "group.id": group}).committed(
            [TopicPartition(t, 0) for t in self.topics()], timeout=_SECONDS
        )
        return {(tp.topic, tp.partition): tp.offset for tp in held if tp.offset >= 0}

    def topics(self) -> list[str]:
        """Return the topics of the source that are not internal."""
        return [t for t in self.admin().list_topics(timeout=_SECONDS).topics if not t.startswith("__")]

    def end(self, topic: str, partition: int = 0, stable: bool = False) -> int:
        """Return the log end of a partition, or its last stable offset."""
        client, tp = self.admin(), TopicPartition(topic, partition)
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        return client.list_offsets({tp: OffsetSpec.latest()}, isolation_level=level)[tp].result(_SECONDS).offset

    def open_transaction(
        self, name: str, topic: str, partitions: Iterable[int] = (0,), seconds: float = 600.0
    ) -> Producer:
        """Leave a transaction of the ordinary producer open, with three records per partition."""
        producer = Producer(
            {**self.properties("producer"), "transactional.id": name, "transaction.timeout.ms": int(seconds * 1000)}
        )
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for partition in partitions:
            for number in range(3):
                producer.produce(topic, f"{name}-{number}".encode(), b"k", partition)
        producer.flush(_SECONDS)
        return producer


def commit_error(producer: Producer) -> str:
    """Commit an application's transaction; return "ok", or Kafka's name of the error."""
    try:
        producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        return error.args[0].name()
    return "ok"


def acl(
    principal: str,
    operation: str,
    name: str,
    kind: str = "TOPIC",
    pattern: str = "LITERAL",
    host: str = "*",
    permission: str = "ALLOW",
) -> AclBinding:
    """Return one ACL entry."""
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType[pattern],
        principal,
        host,
        AclOperation[operation],
        AclPermissionType[permission],
    )


def _plain(binding: AclBinding) -> Acl:
    return (
        binding.restype.name,
        binding.name,
        binding.resource_pattern_type.name,
        binding.principal,
        binding.host,
        binding.operation.name,
        binding.permission_type.name,
    )
