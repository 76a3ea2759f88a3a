"""Every fault ends in a named state by its deadline, with the source usable and the world as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
import yaml
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka_dr.domain.plain_text import table_cell

from lab.environment.brokers import LARGEST_MESSAGE, start_broker
from lab.environment.connect import connector_name, start_worker
from tests.faults.support.scene import SOURCE, TARGET, Scene, until
from tests.faults.support.stepping import Run

FENCED_FOR_LONG = "Clients have been fenced for as long as allowed"
ADDING, REMOVING, STOPPING, COMMITTING = (
    "brokers.acls.ClusterAcls.add",
    "brokers.acls.ClusterAcls.remove",
    "connect.mirror_maker.MirrorMaker.stop",
    "brokers.cluster.KafkaCluster.commit_many",
)


# -- the checks themselves -----------------------------------------------------------------------------------------


def test_a_fence_that_is_left_on_is_found(scene: Scene) -> None:
    """The look afterwards fails while clients are fenced, and passes after the return."""
    run = scene.run()
    assert scene.driver.forward(run, until="drain_consumers"), run.texts
    assert any("acknowledged no record" in text for text in scene.unusable(8.0))
    assert any("DENY" in text for text in scene.changed(0.0))
    assert scene.give_back(run)["outcome"] == "returned"
    assert scene.changed() + scene.unusable() == []


def test_the_checks_of_records_can_fail(scene: Scene) -> None:
    """A record that was acknowledged and is not in the log, and one that a group was not given, are both named."""
    logs = scene._source_logs()
    assert scene._lost(logs) == scene._skipped(logs) == []
    place = next(iter(scene.diary.consumed[SOURCE, scene.client_groups[0]]))
    given = scene.diary.consumed[SOURCE, scene.client_groups[0]][place]
    middle = sorted(given)[len(given) // 2]
    given.discard(middle)
    assert any(f"the first at {middle}" in text for text in scene._skipped(logs))
    given.add(middle)
    told = next(entry for entry in scene.diary.acknowledged[SOURCE] if entry[1] < max(logs[entry[0]]))
    del logs[told[0]][told[1]]
    assert any(f"offset {told[1]} was acknowledged" in text for text in scene._lost(logs))


# -- processes that die --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "write"), [("drain_consumers", 3), ("wait_for_zero_lag", 2)])
def test_source_broker_killed_during_the_drain(scene: Scene, step: str, write: int) -> None:
    """kill -9 after the step's intent; the return waits for the broker, which is started again some seconds later."""
    scene.when_returning(lambda: start_broker(scene.lab, SOURCE), 8.0)
    run = scene.run(max_fence_seconds=30.0)
    scene.driver.whole(run, **{step: {"freeze_at": write, "meanwhile": lambda: scene.kill("broker", SOURCE)}})
    scene.returned(run, step, f"{SOURCE}|{FENCED_FOR_LONG}")


def test_standby_broker_away_during_the_commit(scene: Scene) -> None:
    """It stays away until clients have been fenced for too long: their source is given back."""
    scene.when_returning(lambda: start_broker(scene.lab, TARGET), 8.0)
    run = scene.run(max_fence_seconds=75.0)
    scene.driver.whole(
        run, commit_groups={"freeze_before": COMMITTING, "meanwhile": lambda: scene.kill("broker", TARGET)}
    )
    scene.returned(
        run, "commit_groups", f"{TARGET}|positions on the target differ from the committed positions|{FENCED_FOR_LONG}"
    )


def test_connect_worker_killed_during_the_stop(scene: Scene) -> None:
    """kill -9 when the source connector was just told to stop; the return waits for the worker."""
    scene.when_returning(lambda: start_worker(scene.lab, TARGET), 3.0)
    source = connector_name(SOURCE, TARGET, "source")
    scene.at["stop_mirror_maker"] = lambda run: scene.proxy.when(
        "PUT", f"/{source}/stop", lambda: scene.kill("connect", TARGET)
    )
    run = scene.run()
    scene.driver.whole(run)
    scene.returned(run, "stop_mirror_maker", "Connect")


# -- a Connect worker that answers wrongly -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "methods", "seen"),
    [
        (409, ("PUT",), "HTTP 409"),
        (500, ("GET", "PUT"), "HTTP 500"),
        ("never", ("GET", "PUT"), "no answer within"),
        ("never", ("PUT",), "no answer within"),
    ],
)
def test_rest_answers(scene: Scene, fault: int | str, methods: tuple[str, ...], seen: str) -> None:
    """Wrong answers through the step's deadline; they end while the return waits."""
    scene.when_returning(scene.proxy.heal, 20.0)
    scene.at["stop_mirror_maker"] = lambda run: scene.proxy.answer(fault, methods)
    run = scene.run()
    scene.driver.whole(run)
    assert scene.proxy.refused
    scene.returned(run, "stop_mirror_maker", seen)


@pytest.mark.parametrize(("fault", "methods"), [(409, ("PUT",)), ("never", ("GET", "PUT"))])
def test_rest_answers_while_the_procedure_returns(scene: Scene, fault: int | str, methods: tuple[str, ...]) -> None:
    """Clients get their source back at once; the return is done when both connectors run again."""
    open_then: list[list[str]] = []
    run = scene.run()
    assert scene.driver.forward(run, until="stop_mirror_maker"), run.texts
    scene.proxy.answer(fault, methods)
    # Longer than `stop_seconds`, which each look at a connector may take.
    scene.when_returning(lambda: (open_then.append(scene.unusable(10.0)), scene.proxy.heal()), 20.0)
    assert scene.give_back(run)["outcome"] == "returned", run.texts
    assert open_then == [[]], "clients were kept waiting for Connect"
    assert scene.changed() + scene.unusable() == []


# -- groups --------------------------------------------------------------------------------------------------------


def test_a_group_active_on_the_target(scene: Scene) -> None:
    """A living group is never touched: the commit refuses and names it."""
    group, around = scene.idle_group, ExitStack()

    def comes_alive(_: Run) -> None:
        around.enter_context(scene.member(TARGET, group, scene.idle_topic))
        until(lambda: scene.alive(TARGET, group), "the group on the target")

    scene.at["commit_groups"] = comes_alive
    run = scene.run()
    with around:
        evidence = scene.driver.whole(run)
    assert group in evidence["reason_for_outcome"]
    scene.returned(run, "commit_groups", "Groups have members on the target")


def test_a_group_active_on_the_target_from_the_beginning(scene: Scene) -> None:
    """Readiness says so, and nothing is touched."""
    run = scene.run()
    with scene.member(TARGET, scene.idle_group, scene.idle_topic):
        until(lambda: scene.alive(TARGET, scene.idle_group), "the group on the target")
        scene.driver.whole(run)
    assert (
        scene.ended(run, "refused", "check_readiness", "Groups already have members on the target")
        + scene.changed()
        + scene.unusable()
        == []
    )


def test_a_super_users_member_that_keeps_restarting(scene: Scene) -> None:
    """No ACL holds it: the step names the member and the way out, and the source is given back."""
    run = scene.run()
    with scene.member(SOURCE, scene.idle_group, scene.idle_topic, lives=2.0, together=2):
        until(lambda: scene.alive(SOURCE, scene.idle_group), "the member")
        scene.driver.whole(run)
    scene.returned(run, "drain_consumers", "Groups empty on the source.*stubborn-.*exclude_groups")


# -- topics --------------------------------------------------------------------------------------------------------


def test_target_topic_missing(scene: Scene) -> None:
    """Before readiness: refused, and the topic is named."""
    name = "case-without-copy"
    scene.no_copy_of(name)
    scene.create(SOURCE, name)
    run = scene.run()
    scene.driver.whole(run)
    assert (
        scene.ended(run, "refused", "check_readiness", f"Topics are not on the target yet.*{name}")
        + scene.changed()
        + scene.unusable()
        == []
    )


def test_target_topic_deleted_after_the_forecast(scene: Scene) -> None:
    """It cannot be drained: named, and the source is given back although the target lacks the topic."""
    name = scene.topic(records=0)
    scene.no_copy_of(name)
    scene.at["fence_producers"] = lambda run: scene.delete(TARGET, name)
    run = scene.run()
    scene.driver.whole(run)
    scene.returned(run, "wait_for_zero_lag|stop_mirror_maker", name)


def test_partition_count_different_on_the_target(scene: Scene) -> None:
    """Keys would land elsewhere: refused."""
    name = scene.topic(partitions=2)
    scene.grow(TARGET, name, 3)
    run = scene.run()
    scene.driver.whole(run)
    assert (
        scene.ended(
            run, "refused", "check_readiness", f"{name} on the source and {name} on the target differ in partitions"
        )
        + scene.changed()
        + scene.unusable()
        == []
    )


def test_settings_that_differ(scene: Scene) -> None:
    """A copy that keeps less and takes smaller messages, and a topology that is out of date: each named with values."""
    name = scene.topic()
    for key, value in (("retention.ms", "3600000"), ("max.message.bytes", "1000")):
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            incremental_configs=[ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)],
        )
        scene.admins[TARGET].incremental_alter_configs([resource])[resource].result(30)
    before = scene.lab.topology.read_text()
    topology = yaml.safe_load(before)
    flow = next(flow for flow in topology["flows"] if flow["source"] == SOURCE)
    flow["mirror_maker"] = {**flow.get("mirror_maker", {}), "groups.exclude": "console-consumer-.*"}
    scene.lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))
    run = scene.run()
    try:
        why = scene.driver.whole(run)["reason_for_outcome"]
    finally:
        scene.lab.topology.write_text(before)
    assert scene.ended(run, "refused", "check_readiness", "") + scene.changed() + scene.unusable() == []
    for part in (
        "target_keeps_as_much",
        f"{name} 604800000 on {SOURCE}, {name} 3600000 on {TARGET}",
        f"{name} {LARGEST_MESSAGE} on {SOURCE}, {name} 1000 on {TARGET}",
        "stated_settings_agree",
        "different values of groups.exclude",
        "console-consumer-.*,connect-.*,__.*",
    ):
        assert part in why, why


def _grown(scene: Scene, name: str) -> None:
    scene.grow(SOURCE, name, 3)


def _recreated(scene: Scene, name: str) -> None:
    scene.delete(SOURCE, name)
    scene.create(SOURCE, name, 2)


@pytest.mark.parametrize("change", [_grown, _recreated])
def test_topic_changed_between_forecast_and_fence(scene: Scene, change: Callable[[Scene, str], None]) -> None:
    """The approved plan is not what is there: returned, and the topic is named."""
    name = scene.topic(partitions=2)
    scene.at["fence_producers"] = lambda run: change(scene, name)
    run = scene.run()
    scene.driver.whole(run)
    scene.returned(run, "fence_producers", f"Topics changed since the forecast.*{name}")


def test_topic_created_between_forecast_and_fence(scene: Scene) -> None:
    """It moves with the others: fenced, with a cut-off, drained, and named for the second person's review."""
    made: list[str] = []
    scene.at["fence_producers"] = lambda run: made.append(scene.topic(partitions=2, records=3))
    run = scene.run()
    assert scene.driver.forward(run, until="review_translation"), run.texts
    (name,) = made
    assert f"1 topics were created after the forecast and move too: {name}." in run.questions["review_translation"]
    assert scene.write(SOURCE, "producer", name) == "TOPIC_AUTHORIZATION_FAILED"
    fenced = scene.journal().last(run.procedure_id, "fence_producers", "outcome").payload
    assert [row[:3] for row in fenced["topics_since_forecast"]] == [[name, name, 2]]
    evidence = scene.give_back(run)
    assert {row["topic"]: row["offset"] for row in evidence["cut_off"] if row["offset"] == 3}[name] == 3
    assert evidence["outcome"] == "returned" and scene.changed() + scene.unusable() == []


# -- one move just after another -----------------------------------------------------------------------------------


def test_a_second_failover_waits_for_the_cool_down_or_says_why_not(scene: Scene) -> None:
    """It is refused with the way on; with a reason, in that run only, it fences, and all places show the reason."""
    scene.cool_down(900.0)
    # The first one's own cool-down is that of the case before, where there was one.
    first, early, urgent, late = (
        scene.run(**more)
        for more in (
            {"acknowledge_cool_down": "another case has just ended"},
            {},
            {"acknowledge_cool_down": "the site burns"},
            {},
        )
    )
    assert scene.driver.forward(first, until="fence_producers"), first.texts
    assert scene.give_back(first)["outcome"] == "returned"
    scene.driver.whole(early)
    told = (
        rf"a cool-down runs for the clusters .*{first.procedure_id} ended as returned at .*, in [789]\d\d s.*start a"
        r" new run with the reason in acknowledge_cool_down"
    )
    assert scene.ended(early, "refused", "open_procedure", told) == []
    assert scene.driver.forward(urgent, until="fence_producers"), urgent.texts
    (opened,) = scene.journal().entries(urgent.procedure_id, "open_procedure", "opened")
    assert (
        opened.payload["cool_down"]
        | {"procedure_id": first.procedure_id, "outcome": "returned", "acknowledged": "the site burns"}
        == opened.payload["cool_down"]
    )
    question = urgent.questions["approve_failover"]
    assert f"**{table_cell(first.procedure_id)} ended as returned at " in question
    assert "The starter does not wait until then, because:** the site burns" in question
    evidence = scene.give_back(urgent)
    assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
    assert evidence["cool_down"] == evidence["plan"]["cool_down"] == opened.payload["cool_down"]
    assert "The starter said why: the site burns" in scene.page(urgent)
    scene.driver.whole(late)
    assert scene.ended(late, "refused", "open_procedure", f"{urgent.procedure_id} ended as returned") == []
    assert scene.changed() + scene.unusable() == []


# -- no room for the journal ---------------------------------------------------------------------------------------


def test_disk_full_under_the_journal(scene: Scene) -> None:
    """Nothing is done that cannot be written down; with room again, the return goes through."""
    run = scene.run()
    assert scene.driver.forward(run, until="approve_failover"), run.texts
    _does_nothing(scene, run, "fence_producers")
    assert scene.driver.forward(run, after="approve_failover", until="wait_for_zero_lag"), run.texts
    _does_nothing(scene, run, "stop_mirror_maker")
    _does_nothing(scene, run, "return_to_source")
    assert scene.give_back(run)["outcome"] == "returned"
    assert scene.changed() + scene.unusable() == []


def _does_nothing(scene: Scene, run: Run, step: str) -> None:
    before = scene.look()
    found = scene.without_room(run, step)
    assert found["state"] == "again" and "the journal is not" in found["text"], found
    assert scene.look() == before, f"{step} acted without a journal"


# -- processes that stand still ------------------------------------------------------------------------------------


FROZEN = [
    ("fence_producers", ADDING),
    ("drain_consumers", ADDING),
    ("stop_mirror_maker", STOPPING),
    ("stop_mirror_maker", f"{STOPPING}#2"),
    ("commit_groups", COMMITTING),
    ("open_target", REMOVING),
]


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ("fence_producers", {"freeze_at": 3}),
        ("commit_groups", {"freeze_at": 4}),
        *((step, {"freeze_before": hook}) for step, hook in FROZEN),
    ],
)
def test_frozen_while_the_procedure_returns(scene: Scene, step: str, where: dict[str, object]) -> None:
    """A process frozen within an act, and thawed after the return, acts no more, or undoes what it did."""
    run = scene.run()
    before = {
        "fence_producers": "approve_failover",
        "drain_consumers": "fence_producers",
        "stop_mirror_maker": "wait_for_zero_lag",
        "commit_groups": "review_translation",
        "open_target": "seed_reverse_replication",
    }
    assert scene.driver.forward(run, until=before[step]), run.texts
    frozen = scene.frozen(run, step, **where)
    assert scene.give_back(run)["outcome"] == "returned"
    assert scene.changed() + scene.unusable() == []
    found = scene.driver.thaw(frozen)
    assert scene.changed(5.0) + scene.unusable() == [], found
    assert found["state"] in ("again", "refused"), found


@pytest.mark.parametrize(("step", "hook"), [("fence_producers", ADDING), ("commit_groups", COMMITTING)])
def test_frozen_while_a_newer_process_goes_on(scene: Scene, step: str, hook: str) -> None:
    """The older process, thawed, changes nothing of the newer one's work; the return leaves nothing of either."""
    run = scene.run()
    before = {"fence_producers": "approve_failover", "commit_groups": "review_translation"}
    assert scene.driver.forward(run, until=before[step]), run.texts
    frozen = scene.frozen(run, step, freeze_before=hook)
    assert scene.driver.step(run, step) == "done", run.texts
    done = scene.world.look()
    found = scene.driver.thaw(frozen)
    assert found["state"] == "again" and "newer process" in found["text"], found
    assert scene.world.look() == done
    assert scene.give_back(run)["outcome"] == "returned"
    assert scene.changed() + scene.unusable() == []


# -- what must not stop a procedure (these use the lab up) -----------------------------------------------------------


def test_restarts_that_a_procedure_survives(scene: Scene) -> None:
    """A restarting consumer is refused by the fence, and the standby restarts: clients are moved all the same."""
    restarting = ExitStack()
    # After the forecast: a group that is active there must become active on the target, and this one never does.
    scene.at["fence_producers"] = lambda run: restarting.enter_context(
        scene.member(SOURCE, scene.idle_group, scene.idle_topic, "consumer", lives=2.0, together=2)
    )

    def restart() -> None:
        scene.kill("broker", TARGET)
        start_broker(scene.lab, TARGET)

    with restarting:
        run = scene.run(max_fence_seconds=240.0)
        evidence = scene.driver.whole(run, commit_groups={"freeze_before": COMMITTING, "meanwhile": restart})
    scene.spent = True
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    assert scene.rehearsal.settle() == []
    verdict = scene.rehearsal.check(evidence, "approver")
    assert verdict.passed, verdict.lines(limit=5)
