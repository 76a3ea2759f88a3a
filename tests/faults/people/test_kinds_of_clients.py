"""Clients of every kind at once: the plan names each rightly, and what it promises to each happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka_dr.domain.clients import kinds
from kafka_dr.errors import NotReady
from kafka_dr.vocabulary import Step

from lab.environment import jvm
from lab.environment.bring_up import up
from lab.environment.take_down import down
from lab.workload.seeding import await_mirrored
from tests.faults.people.client_kinds import PATIENCE, AllKinds, eventually, jars_with_sink
from tests.faults.support.stepping import Run, stepping
from tests.support.facts import figures_of
from tests.support.staged_lab import BEFORE_THE_FENCE, Stage, commit_error

SOURCE, TARGET = "primary", "standby"
APPLICATION, NEWER_APPLICATION, KEYS = "count-orders", "count-newer", 5
INTERNAL = (f"{APPLICATION}-by-key-repartition", f"{APPLICATION}-counts-changelog")
MEMBERS = {
    "classic": {},
    "newer": {"group_protocol": "consumer"},
    "fixed": {"group_instance_id": "fixed-1", "session_timeout_ms": 20_000},
    "fixed newer": {"group_protocol": "consumer", "group_instance_id": "fixed-2"},
    "stays": {"group_instance_id": "stays-1", "session_timeout_ms": 240_000},
}
EXCLUDED = {"stays": "its member stays for longer than the run waits"}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AllKinds]:
    """Clients of every kind at work on the source of a lab under identity naming."""
    folder = tmp_path_factory.mktemp("kinds")
    state, jars = tmp_path_factory.mktemp("lab"), jars_with_sink(folder / "jars")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jvm, "version_folder", lambda _: jars)
        try:
            up(state, airflow=False, policy="identity")
            made = AllKinds(Stage(state), folder / "clients")
            try:
                begin_work(made)
                yield made
            finally:
                made.stop()
        finally:
            down(state)


def begin_work(clients: AllKinds) -> None:
    """Start all clients; return when each group is known, and everything is mirrored."""
    clients.stage.create({"orders": 2, "counts": 2})
    clients.produce(SOURCE, "orders", *(f"k{n % KEYS}" for n in range(100)))
    clients.count(SOURCE, APPLICATION, "orders", "counts")
    clients.count(SOURCE, NEWER_APPLICATION, "orders", "counts", protocol="streams")
    clients.share(SOURCE, "queue", "orders")
    for name, settings in MEMBERS.items():
        clients.consume(SOURCE, name, "orders", **settings)
    clients.commit(SOURCE, "by hand", "orders", 3)
    file = clients.sink(SOURCE, "files", "orders")
    known = {*MEMBERS, APPLICATION, NEWER_APPLICATION, "queue", "by hand", "connect-files"}
    eventually(lambda: known <= clients.groups(SOURCE).keys(), f"all of {sorted(known)}")
    eventually(lambda: file.exists() and len(file.read_text().splitlines()) == 100, "the sink has all records")
    eventually(lambda: all(len(clients.members[name].values) == 100 for name in MEMBERS), "all members have read")
    for application in (APPLICATION, NEWER_APPLICATION):
        eventually(
            lambda one=application: sum(counted(clients, SOURCE, one).values()) == 100, f"counts of {application}"
        )
    newer = [topic.replace(APPLICATION, NEWER_APPLICATION) for topic in INTERNAL]
    await_mirrored(clients.stage.lab.status(), TARGET, dict.fromkeys([*INTERNAL, *newer], 2))


def counted(clients: AllKinds, alias: str, application: str = APPLICATION) -> dict[str, int]:
    """The latest count of each key in an application's changelog on a cluster; {} before the changelog exists."""
    if f"{application}-counts-changelog" not in clients.stage.admin(alias).list_topics(timeout=30).topics:
        return {}
    consumer = Consumer({**clients.stage.properties("admin", alias), "group.id": "looks", "enable.auto.commit": False})
    found: dict[str, int] = {}
    try:
        partitions = [TopicPartition(f"{application}-counts-changelog", number, 0) for number in range(2)]
        left = {p.partition: consumer.get_watermark_offsets(p, timeout=30)[1] for p in partitions}
        consumer.assign(partitions)
        while any(left.values()):
            message = consumer.poll(5.0)
            if message is None:
                break
            if message.error() is None and message.value():
                # A count is the last eight bytes of a value.
                found[message.key().decode()] = int.from_bytes(message.value()[-8:], "big")
            if message.offset() + 1 >= left[message.partition()]:
                left[message.partition()] = 0
    finally:
        consumer.close()
    return found


def planned(plan: dict[str, Any]) -> dict[str, tuple[int | None, list[str]]]:
    """Number and names of the plan's clients by kind."""
    return {one["kind"]: (one["count"], list(one["names"])) for one in plan["clients"]}


def test_a_static_member_that_stays_too_long_ends_the_run_before_the_fence(clients: AllKinds) -> None:
    """The session timeout that the consumer states is read from the source, and compared with the wait."""
    procedure = clients.stage.procedure("too-long")
    with pytest.raises(NotReady, match=r"members_leave: .*beyond 2 min 00 s: stays \(4 min 00 s\)\)"):
        clients.stage.run(procedure, *BEFORE_THE_FENCE[:2])
    procedure.journal.release_lease(procedure.pair, procedure.id, procedure.lease.epoch, "refused")


def test_the_plan_names_each_kind(clients: AllKinds) -> None:
    """Each client once, with the names by which its owner knows it; an open transaction is named as open."""
    paying = clients.stage.open_transaction("pay-1", "counts")
    procedure = clients.stage.procedure("names", exclude_groups=EXCLUDED)
    clients.stage.run(procedure, *BEFORE_THE_FENCE)
    plan = figures_of(procedure, Step.FORECAST)["plan"]
    procedure.journal.release_lease(procedure.pair, procedure.id, procedure.lease.epoch, "refused")
    assert commit_error(paying) == "ok"
    found = planned(plan)
    assert found[kinds.CLASSIC.name][0] == len({"classic", "fixed", "stays"})
    assert found[kinds.CONSUMER.name][0] == len({"newer", "fixed newer"})
    assert found[kinds.NEVER_ACTIVE.name] == (1, ["by hand"])
    assert found[kinds.STREAMS.name] == (
        1,
        [f"{APPLICATION} ({INTERNAL[0]}: mirrored; {INTERNAL[1]}: mirrored)"],
    )
    assert found[kinds.STREAMS_GROUPS.name][0] == 1
    assert found[kinds.STREAMS_GROUPS.name][1][0].startswith(f"{NEWER_APPLICATION} (")
    assert found[kinds.SHARE.name] == (1, ["queue"])
    assert found[kinds.SINKS.name] == (1, ["connect-files"])
    assert found[kinds.WORKERS.name][0] >= 1
    assert found[kinds.STAYING.name] == (
        3,
        [
            f"{APPLICATION} (session timeout of its members: 45 s)",
            "fixed (session timeout of fixed-1: 20 s)",
            "fixed newer (session timeout of fixed-2: 45 s)",
        ],
    )
    assert "pay-1 (open now)" in found[kinds.TRANSACTIONAL.name][1]
    assert found[kinds.WITHOUT_GROUP.name] == found[kinds.WITHOUT_ENTRY.name] == (None, [])
    moved = {group["group"] for group in plan["groups"]} | {group["group"] for group in plan["excluded"]}
    assert moved == {*MEMBERS, "by hand", APPLICATION}


def test_what_is_promised_to_each_happens(clients: AllKinds, tmp_path: Path) -> None:
    """Groups continue behind what they have read; the application goes on counting; sinks and share groups stay."""

    def owners_act(_: Run, step: str) -> None:
        """Stop all clients before the fence, and start those that have moved once they are redirected."""
        if step == Step.FENCE_PRODUCERS:
            clients.stop()
        if step == Step.VERIFY_CLIENTS:
            begin_work_on_target(clients)

    before = {one: counted(clients, SOURCE, one) for one in (APPLICATION, NEWER_APPLICATION)}
    params = {"source": SOURCE, "target": TARGET, "reason": "a test", "exclude_groups": EXCLUDED}
    with stepping(clients.stage.lab, tmp_path / "steps", before=owners_act) as driver:
        run = Run(params | {"verify_seconds": PATIENCE})
        evidence = driver.whole(run)
    assert evidence["outcome"] == "completed", run.texts
    assert evidence["classes"].pop("POLICY", 0) <= 2 and set(evidence["classes"]) <= {"END", "SYNC", "CONTENT"}
    arrived = clients.groups(TARGET)
    assert {*MEMBERS, "by hand", APPLICATION} <= arrived.keys()
    assert "connect-files" not in arrived
    for name in MEMBERS.keys() - EXCLUDED.keys():
        member = clients.members[name]
        eventually(lambda one=member: len(one.values) >= KEYS, f"{name} continues")
        assert all(value.startswith(TARGET.encode()) for value in member.values), f"{name} reads again"
    for application, counts in before.items():
        expected = {key: count + 1 for key, count in counts.items()}
        eventually(
            lambda one=application, then=expected: counted(clients, TARGET, one) == then,
            f"{application} goes on from {counts}: {clients.told(application, TARGET)}",
        )
    eventually(lambda: TARGET in clients.told("queue", TARGET), "the share group is given records")
    assert SOURCE not in clients.told("queue", TARGET)


def begin_work_on_target(clients: AllKinds) -> None:
    """Start the clients that have moved, and the others in the way in which the plan says that owners move them."""
    assert not {"queue", "connect-files", NEWER_APPLICATION} & clients.groups(TARGET).keys()
    clients.commit_ends(TARGET, NEWER_APPLICATION, "orders", f"{NEWER_APPLICATION}-by-key-repartition")
    clients.begin_share(TARGET, "queue", "orders")
    clients.produce(TARGET, "orders", *(f"k{n}" for n in range(KEYS)))
    clients.pay(TARGET, "pay-1", "counts")
    clients.share(TARGET, "queue", "orders")
    clients.count(TARGET, NEWER_APPLICATION, "orders", "counts", protocol="streams")
    for name in MEMBERS.keys() - EXCLUDED.keys():
        clients.consume(TARGET, name, "orders", **MEMBERS[name])
    clients.count(TARGET, APPLICATION, "orders", "counts")
