"""The fence on real brokers: who is refused, what is named, and that everything comes back exactly as it was."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec, ResourceType
from kafka_dr.actions.fencing.acl_fence import probe_answers
from kafka_dr.errors import DeadlinePassed, FenceNotProven, Refusal
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.vocabulary import Entry, Step

from lab.environment import brokers
from lab.environment.jvm import java_command, properties_text, run_to_end
from lab.environment.ports import free_ports
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, write_private
from tests.support.facts import figures_of
from tests.support.staged_lab import BEFORE_THE_FENCE, Stage, acl, commit_error

REFUSED = "TOPIC_AUTHORIZATION_FAILED"
GROUP_REFUSED = "GROUP_AUTHORIZATION_FAILED"


@pytest.fixture
def stage(fresh_lab: Callable[..., Path]) -> Stage:
    """A lab without Airflow."""
    return Stage(fresh_lab("identity", airflow=False))


# -- ACL entries of every shape ------------------------------------------------------------------------------------

SHAPES = [
    acl("User:literal", "WRITE", "acl-literal"),
    acl("User:literal", "READ", "acl-literal"),
    acl("User:prefixed", "ALL", "acl-pre", pattern="PREFIXED"),
    acl("User:wildcard", "WRITE", "*"),
    acl("User:*", "WRITE", "acl-anybody"),
    acl("User:*", "READ", "acl-anybody"),
    acl("User:hosted", "WRITE", "acl-hosted", host="127.0.0.1"),
    acl("User:hosted", "READ", "acl-hosted", host="10.9.8.7"),
    acl("User:wildcard", "WRITE", "acl-denied", permission="DENY"),
    acl("User:prefixed", "WRITE", "acl-pre-7", permission="DENY", host="10.9.8.7"),
    acl("User:literal", "READ", "group-literal", kind="GROUP"),
    acl("User:prefixed", "READ", "group-pre", kind="GROUP", pattern="PREFIXED"),
    acl("User:*", "READ", "group-anybody", kind="GROUP"),
    acl("User:hosted", "READ", "group-hosted", kind="GROUP", host="127.0.0.1"),
    acl("User:literal", "READ", "group-denied", kind="GROUP", permission="DENY"),
    acl("User:wildcard", "READ", "group-denied", kind="GROUP"),
]
TOPICS = ["acl-literal", "acl-pre-7", "acl-anybody", "acl-hosted", "acl-denied", "acl-none"]
GROUPS = {
    "group-literal": "acl-literal",
    "group-pre-1": "acl-pre-7",
    "group-anybody": "acl-anybody",
    "group-hosted": "acl-hosted",
    "group-denied": "acl-denied",
    "group-none": "acl-none",
}
WRITERS = [
    ("literal", "acl-literal"),
    ("prefixed", "acl-pre-7"),
    ("literal", "acl-anybody"),
    ("hosted", "acl-anybody"),
    ("hosted", "acl-hosted"),
]


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_entries_of_every_shape_come_back_as_they_were(
    allow_everyone: bool, fresh_lab: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of every kind, and none at all: refused meanwhile, and afterwards exactly as found."""
    monkeypatch.setitem(brokers._AUTHORIZATION, "allow.everyone.if.no.acl.found", str(allow_everyone).lower())
    stage = Stage(fresh_lab("identity", airflow=False))
    stage.create(dict.fromkeys(TOPICS, 1))
    stage.add_users("literal", "prefixed", "wildcard", "hosted", "nobody")
    shapes = [s for s in SHAPES if not (allow_everyone and s.restype is ResourceType.TOPIC and s.name == "*")]
    stage.allow(*shapes)
    writers = [
        *WRITERS,
        *([("nobody", "acl-none")] if allow_everyone else [("wildcard", "acl-none"), ("wildcard", "acl-hosted")]),
    ]
    if allow_everyone:
        _only_named_topics_have_entries(stage)
    for writer, topic in writers:
        assert stage.write(writer, topic) == "ok", (writer, topic)
    for group, topic in GROUPS.items():
        assert stage.commit("admin", group, topic, 0) == "ok"
    before = stage.acls()
    procedure = stage.fenced(f"shapes-{allow_everyone}")
    behind = stage.acls()
    assert [entry for entry in before - behind if entry[3] != "User:*"] == [], "only entries for everyone are replaced"
    assert [(w, t) for w, t in writers if stage.write(w, t) != REFUSED] == []
    if allow_everyone:
        assert stage.read("nobody", "acl-none") == [b"x"], "a fence takes no other right away"
    assert stage.write("admin", "acl-none") == "ok", "a super user passes every ACL"
    figures = stage.run(procedure, Step.DRAIN_CONSUMERS)
    assert set(figures["groups"]) >= set(GROUPS)
    readers = [
        ("literal", "group-literal"),
        ("prefixed", "group-pre-1"),
        ("literal", "group-anybody"),
        ("hosted", "group-hosted"),
    ]
    readers += [("nobody", "group-none")] if allow_everyone else []
    assert [(r, g) for r, g in readers if stage.commit(r, g, GROUPS[g], 1) != GROUP_REFUSED] == []
    changed = stage.acls() ^ before
    assert stage.give_back(procedure)["acl_entries_lifted"] == len(changed) > 0
    assert stage.acls() == before
    assert [(w, t) for w, t in writers if stage.write(w, t) != "ok"] == []
    assert [(r, g) for r, g in readers if stage.commit(r, g, GROUPS[g], 1) not in ("ok", REFUSED)] == []
    assert stage.write("wildcard", "acl-denied") == REFUSED, "what was denied before stays denied"


def _only_named_topics_have_entries(stage: Stage) -> None:
    """Grant by name what the lab grants on all topics and groups: acl-none and group-none have no entry."""
    others = [name for name in [*TOPICS, "lab-readiness"] if name != "acl-none"]
    named = [acl("User:mm2", "ALL", name) for name in others]
    named += [
        acl("User:orchestrator", operation, name) for operation in ("READ", "DESCRIBE_CONFIGS") for name in others
    ]
    named += [
        acl(f"User:{user}", "READ", name, kind="GROUP")
        for user in ("mm2", "orchestrator")
        for name in GROUPS
        if name != "group-none"
    ]
    stage.allow(*named)
    for alias in ALIASES:
        stage.remove_acls(alias, [ResourceType.TOPIC, ResourceType.GROUP])
    stage.describe_clusters(allow_everyone_if_no_acl_found=True)


# -- who is refused ------------------------------------------------------------------------------------------------


def test_a_probes_write_is_refused_on_every_broker(stage: Stage) -> None:
    """Both of two brokers accept it before the fence, refuse it behind it, accept it after the return."""
    _start_second_broker(stage)
    procedure = stage.procedure("brokers")
    stage.run(procedure, *BEFORE_THE_FENCE)
    assert {type(answer) for answer in probe_answers(procedure).values()} == {WriteAccepted}
    figures = stage.run(procedure, Step.FENCE_PRODUCERS)
    assert figures["brokers_refusing"] == [1, 2] and figures["fenced_at"]
    assert stage.give_back(procedure)["probe_refused_by"] == {}
    answers = probe_answers(procedure)
    assert sorted(answers) == [1, 2] and {type(answer) for answer in answers.values()} == {WriteAccepted}


def _start_second_broker(stage: Stage) -> None:
    """A second broker beside the source's first one."""
    lab, port = stage.lab, free_ports(["second"])["second"]
    own = {
        "process.roles": "broker",
        "node.id": 2,
        "listeners": f"CLIENTS://127.0.0.1:{port}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{port}",
        "log.dirs": lab.home / "brokers" / "second",
    }
    path = lab.home / "arguments" / "broker-second.properties"
    write_private(path, properties_text(brokers._properties(lab, "primary") | own))
    format_as = ["format", "-t", lab.load().cluster_ids["primary"], "-c", str(path)]
    run_to_end("format-second", java_command(lab, "format-second", "256m", "kafka.tools.StorageTool", *format_as))
    lab.processes.start(
        "broker-second",
        java_command(lab, "broker-second", "512m", "kafka.Kafka", str(path)),
        dict(os.environ),
        lab.home,
    )
    wait_until(
        lambda: len(stage.admin().list_topics(timeout=5).brokers) == 2,
        "the second broker",
        90.0,
        still_possible=lambda: lab.processes.must_live("broker-second"),
    )


class Reading:
    """A consumer of the ordinary principal that reads and commits every moment until it is stopped."""

    def __init__(self, stage: Stage, group: str, topic: str, session_seconds: int = 6) -> None:
        own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        own |= {"session.timeout.ms": session_seconds * 1000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer({**stage.properties("consumer"), **own})
        self._consumer.subscribe([topic])
        self.read, self.committed, self.refused = 0, 0, ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                message = self._consumer.poll(0.2)
                if message is not None and message.error():
                    self.refused = message.error().name()
                elif message is not None:
                    self.read += 1
                    self._consumer.commit(message, asynchronous=False)
                    self.committed += 1
            except Exception as error:
                self.refused = error.args[0].name()

    def stop(self) -> None:
        """Leave."""
        self._stopped.set()
        self._thread.join(30)
        self._consumer.close()


def test_consumers_that_stay_or_restart_cannot_commit(stage: Stage) -> None:
    """One that goes on loses its group, a restarted one is refused; the frozen position counts last."""
    stage.create({"orders": 1})
    for _ in range(5):
        assert stage.write("producer", "orders") == "ok"
    staying = Reading(stage, "billing", "orders")
    wait_until(lambda: staying.committed == 5, "the consumer to read", 30.0)
    procedure = stage.fenced("consumers", drain_seconds=2)
    figures = stage.run(procedure, Step.DRAIN_CONSUMERS)
    frozen = procedure.artifacts.load(figures["positions"])
    assert frozen.loc[frozen["group"] == "billing", "position"].tolist() == [5]
    wait_until(lambda: staying.refused == GROUP_REFUSED, "the staying consumer to be refused", 30.0)
    staying.stop()
    restarted = Reading(stage, "billing", "orders")
    wait_until(lambda: restarted.refused == GROUP_REFUSED, "the restarted consumer to be refused", 30.0)
    restarted.stop()
    assert (restarted.read, restarted.committed) == (0, 0)
    assert stage.commit("consumer", "billing", "orders", 1) == GROUP_REFUSED
    assert stage.positions("billing") == {("orders", 0): 5}
    stage.give_back(procedure)
    assert stage.commit("consumer", "billing", "orders", 1) == "ok"


# -- who writes all the same ---------------------------------------------------------------------------------------


def test_a_super_user_that_writes_is_found_by_its_records(stage: Stage) -> None:
    """No ACL holds it: the partition and its newest record are named, and the procedure gets no cut-off."""
    stage.create({"orders": 2, "quiet": 1})
    before, stopped = stage.acls(), threading.Event()

    def write() -> None:
        while not stopped.is_set():
            stage.write("admin", "orders", 1, key=b"customer-4711", value=b"v" * 100)

    writer = threading.Thread(target=write)
    writer.start()
    procedure = stage.procedure("stray", fence_seconds=8)
    try:
        with pytest.raises(FenceNotProven) as error:
            stage.run(procedure, *BEFORE_THE_FENCE, Step.FENCE_PRODUCERS)
    finally:
        stopped.set()
        writer.join()
    said = error.value.seen
    assert "orders-1: newest record at offset" in said and "113 bytes" in said and "key with SHA-256" in said
    assert "orders-0" not in said and "quiet" not in said and "customer" not in str(error.value)
    assert figures_of(procedure, Step.FENCE_PRODUCERS) is None
    stage.give_back(procedure)
    assert stage.acls() == before


# -- open transactions ---------------------------------------------------------------------------------------------


def test_transactions_are_waited_for_until_the_broker_ends_them(stage: Stage) -> None:
    """They are named and not aborted; the broker's own timeout ends them, and then the cut-off is taken."""
    stage.create({"pay": 2})
    application = stage.open_transaction("pay 1", "pay", (0, 1), seconds=45)
    procedure = stage.fenced("waiting", transaction_seconds=180)
    figures = figures_of(procedure, Step.FENCE_PRODUCERS)
    assert [
        (t["topic"], t["partition"], t["start_offset"], t["transactional_id"], t["state"], t["timeout_ms"])
        for t in figures["open_transactions"]
    ] == [("pay", 0, 0, "pay 1", "Ongoing", 45000), ("pay", 1, 0, "pay 1", "Ongoing", 45000)]
    assert figures["transactions_aborted"] == [] and figures["still_after_seconds"] > 3
    cut_off = {
        (r["topic"], r["partition"]): r["offset"]
        for r in procedure.artifacts.load(figures["cut_off"]).to_dict("records")
    }
    assert cut_off[("pay", 0)] == 4 == stage.end("pay", 0, stable=True)
    stage.give_back(procedure)
    assert commit_error(application) != "ok"


def test_transactions_that_outlast_the_wait_end_the_run(stage: Stage) -> None:
    """The run is refused with their names and the ways out, and the application commits after all."""
    stage.create({"pay": 1})
    application = stage.open_transaction("pay-1", "pay")
    procedure = stage.procedure("refused", transaction_seconds=15)
    with pytest.raises(FenceNotProven, match="Transactions stay open") as error:
        stage.run(procedure, *BEFORE_THE_FENCE, Step.FENCE_PRODUCERS)
    assert "pay-0 from offset 0, producer" in error.value.seen and "'pay-1'" in error.value.seen
    assert "aborted by the broker after 600 s" in error.value.seen
    assert "abort_open_transactions" in error.value.next_step
    stage.give_back(procedure)
    assert commit_error(application) == "ok"
    wait_until(lambda: stage.end("pay", stable=True) == 4, "the end of the transaction in the log", 30.0)
    assert stage.read("consumer", "pay", "read_committed") == [b"pay-1-0", b"pay-1-1", b"pay-1-2"]


def test_transactions_are_aborted_by_decision(stage: Stage) -> None:
    """Held open: ended by its coordinator; forgotten: on its partition; one that ends or is foreign: left alone."""
    stage.create({"pay": 2, "hung": 1})
    hanging = stage.open_transaction("lost", "hung")
    _let_the_coordinator_forget(stage, "lost")
    live, quick = stage.open_transaction("pay-1", "pay", (0, 1)), stage.open_transaction("pay-2", "pay", (1,))
    threading.Timer(16.0, lambda: commit_error(quick)).start()
    procedure = stage.procedure("aborting", abort_open_transactions=True)
    stage.run(procedure, *BEFORE_THE_FENCE)
    assert procedure.progress.move().plan["abort_open_transactions"] is True
    figures = stage.run(procedure, Step.FENCE_PRODUCERS)
    named = {(t["topic"], t["partition"], t["transactional_id"]) for t in figures["open_transactions"]}
    assert named >= {("hung", 0, None), ("pay", 0, "pay-1"), ("pay", 1, "pay-1")}
    aborted = {(t["topic"], t["partition"], t["transactional_id"]) for t in figures["transactions_aborted"]}
    assert aborted - {("pay", 1, "pay-2")} == {("hung", 0, None), ("pay", 0, "pay-1"), ("pay", 1, "pay-1")}
    intents = [
        e
        for e in procedure.journal.entries(procedure.id, Step.FENCE_PRODUCERS, Entry.INTENT)
        if "aborts_transactions" in e.payload
    ]
    first_named = next(
        e
        for e in procedure.journal.entries(procedure.id, Step.FENCE_PRODUCERS, Entry.NOTE)
        if "open_transactions" in e.payload
    )
    assert intents and (intents[0].at - first_named.at).total_seconds() >= 5
    for topic, partition in (("pay", 0), ("pay", 1), ("hung", 0)):
        assert stage.end(topic, partition, stable=True) == stage.end(topic, partition)
    ends = [stage.end("pay", 0), stage.end("pay", 1), stage.end("hung")]
    assert commit_error(live) != "ok", "a commit that succeeded now would have lost its records"
    assert [stage.end("pay", 0), stage.end("pay", 1), stage.end("hung")] == ends, "nothing comes after the cut-off"
    assert stage.read("consumer", "hung", "read_committed") == [] == stage.read("consumer", "pay", "read_committed")
    stage.give_back(procedure)
    del hanging


def _let_the_coordinator_forget(stage: Stage, name: str) -> None:
    """Remove the id's entry, as a bug or a lost log would; the transaction stays open on its partition."""
    superuser = Producer({**stage.properties("admin"), "client.id": "__admin_client"})
    for partition in range(4):
        superuser.produce(
            "__transaction_state", key=struct.pack(">hh", 0, len(name)) + name.encode(), value=None, partition=partition
        )
    assert superuser.flush(15) == 0
    os.kill(stage.lab.processes.pid("broker-primary"), signal.SIGKILL)
    wait_until(lambda: stage.lab.processes.pid("broker-primary") is None, "the broker to be gone", 30.0)
    brokers.start_broker(stage.lab, "primary")
    token = f"again {time.time()}".encode()
    wait_until(
        lambda: stage.write("producer", "lab-readiness", value=token) == "ok", "the broker to take records", 60.0
    )
    standby = stage.admin("standby")
    before = _sum_of_ends(standby)
    wait_until(
        lambda: stage.write("producer", "lab-readiness") == "ok" and _sum_of_ends(standby) > before,
        "MirrorMaker 2 to go on",
        90.0,
    )


def _sum_of_ends(client: Any) -> int:
    tp = TopicPartition("lab-readiness", 0)
    return client.list_offsets({tp: OffsetSpec.latest()})[tp].result(30).offset


def test_aborting_is_refused_where_it_could_not_be_done(stage: Stage) -> None:
    """Rights that are missing are found by check_readiness, before anybody is fenced."""
    before = stage.acls()
    denied = acl("User:orchestrator", "WRITE", "*", kind="TRANSACTIONAL_ID", permission="DENY")
    stage.allow(denied, aliases=["primary"])
    procedure = stage.procedure("unable", abort_open_transactions=True)
    with pytest.raises(Refusal, match="Open transactions cannot be aborted") as error:
        stage.run(procedure, *BEFORE_THE_FENCE)
    assert "grant WRITE on the transactional id '__switchback_check'" in str(error.value)
    assert not [password for password in stage.lab.load().passwords.values() if password in str(error.value)]
    assert len(stage.acls() - before) == 1


# -- a group that will not empty -----------------------------------------------------------------------------------


def test_a_group_that_will_not_empty_can_be_excluded(stage: Stage) -> None:
    """Without authority over it the run names the way out; excluded, its reads are fenced, its position not frozen."""
    stage.create({"orders": 1})
    assert stage.write("producer", "orders") == "ok"
    staying = Reading(stage, "reports", "orders", session_seconds=45)
    wait_until(lambda: staying.committed == 1, "the consumer to read", 30.0)
    assert stage.commit("admin", "billing", "orders", 1) == "ok"
    try:
        misspelt = stage.procedure("misspelt", exclude_groups={"report": "its owner is away"})
        with pytest.raises(Refusal, match="do not move") as unknown:
            stage.run(misspelt, *BEFORE_THE_FENCE)
        assert "'report' (similar: 'reports')" in str(unknown.value)
        stage.give_back(misspelt)
        excluding = stage.procedure("excluding", exclude_groups={"reports": "its owner is away"}, drain_seconds=2)
        stage.run(excluding, *BEFORE_THE_FENCE)
        plan = excluding.progress.move().plan
        assert [(g["group"], g["reason"], g["policy"], g["active"]) for g in plan["excluded"]] == [
            ("reports", "its owner is away", "earliest", True)
        ]
        assert [g["group"] for g in plan["groups"]] == ["billing"]
        assert figures_of(excluding, Step.FORECAST)["active_groups"] == []
        figures = stage.run(excluding, Step.FENCE_PRODUCERS, Step.DRAIN_CONSUMERS)
        assert figures["groups"] == ["billing"] and figures["excluded"] == [
            {"group": "reports", "reason": "its owner is away", "policy": "earliest", "members": 1}
        ]
        assert excluding.artifacts.load(figures["positions"])["group"].unique().tolist() == ["billing"]
        assert stage.commit("consumer", "reports", "orders", 0) == GROUP_REFUSED
        stage.give_back(excluding)
    finally:
        staying.stop()


def test_a_group_of_a_super_user_fails_with_the_way_out(stage: Stage) -> None:
    """No ACL holds its consumer: the message names the member and how to leave the group out."""
    stage.create({"orders": 1})
    stage.write("producer", "orders")
    own = {"group.id": "reports", "auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": "stubborn"}
    consumer = Consumer({**stage.properties("admin"), **own})
    consumer.subscribe(["orders"])
    message = consumer.poll(30.0)
    consumer.commit(message, asynchronous=False)
    stopped = threading.Event()
    polling = threading.Thread(target=lambda: [consumer.poll(0.2) for _ in iter(stopped.is_set, True)])
    polling.start()
    procedure = stage.fenced("stubborn", drain_seconds=1, fence_seconds=5)
    try:
        with pytest.raises(DeadlinePassed) as error:
            stage.run(procedure, Step.DRAIN_CONSUMERS)
    finally:
        stopped.set()
        polling.join()
        consumer.close()
    assert "reports: stubborn at" in error.value.seen
    assert 'exclude_groups={"reports": "reason"}' in error.value.next_step
    stage.give_back(procedure)
