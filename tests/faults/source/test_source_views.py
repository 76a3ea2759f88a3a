"""How a source looks from here, from the target's worker and from the application: one lab, cases in order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kafka_dr.vocabulary import PROBE_TOPIC

from lab.checker.readers import ClusterReader
from lab.clients.drain_hook import serve_hooks
from lab.environment.bring_up import up
from lab.environment.brokers import admin_client
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.environment.take_down import down
from lab.rehearsal.planned import SOURCE, TARGET
from tests.faults.support import always_on
from tests.faults.support.black_hole import black_holed, source_ports
from tests.faults.support.lost_scene import LostScene, figures_of, sights
from tests.faults.support.scene import until

#: Not mirrored: it begins like a topic of Kafka's own.
APPLICATIONS_TOPIC = "__case_application"
#: The application's patience, for metadata and for its write; its answer must come within a look.
TRY_SECONDS = 1.2
#: Four rounds of three seconds; heartbeats come once a second.
WINDOW = {"confirm_seconds": 12.0, "slow_seconds": 2.0}
ROUNDS = 4
#: Three rounds of six seconds: the source wakes up later than is slow, and sooner than is gone.
SLOW_WINDOW = {"confirm_seconds": 18.0, "slow_seconds": 4.0}
WAKES_AFTER, SLEEPS_AFTER = 4.3, 5.7
#: What was on its way is on the target after this.
SETTLED_SECONDS = 3.0
HEARTBEATS = "heartbeats"
SECONDS = 30.0


class Application:
    """Tells how the source looks by a write for each question; ``when_asked`` is called at each."""

    def __init__(self, lab: Lab) -> None:
        self._properties = {
            **lab.client_properties(SOURCE, "producer"),
            "message.timeout.ms": int(1000 * TRY_SECONDS),
            "log_level": 0,
        }
        self.when_asked: Callable[[], object] = lambda: None

    def source(self) -> dict[str, Any]:
        """As the source probe's contract has it."""
        self.when_asked()
        producer, said = Producer(self._properties), list[str]()
        try:
            producer.list_topics(APPLICATIONS_TOPIC, timeout=TRY_SECONDS)
        except KafkaException as error:
            return {"reachable": False, "writable": None, "detail": error.args[0].name()}
        producer.produce(
            APPLICATIONS_TOPIC,
            b"does it take a write?",
            partition=0,
            on_delivery=lambda error, _: said.append(error.name() if error else "acknowledged"),
        )
        producer.flush(TRY_SECONDS)
        return {"reachable": True, "writable": said == ["acknowledged"], "detail": said}

    def state(self) -> dict[str, Any]:
        """No client runs."""
        return {"producers": {"running": 0}, "consumers": {"running": 0}, "drained_for": None}

    def drain(self, procedure_id: str) -> dict[str, Any]:
        """Nothing is to be stopped."""
        return self.state()

    def resume(self, procedure_id: str) -> dict[str, Any]:
        """Nothing is to be started."""
        return self.state()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LostScene]:
    """A lab with a watcher; no clients, no load, no recorder: nobody but the views looks at the source."""
    state = tmp_path_factory.mktemp("lab")
    try:
        up(state, airflow=False)
        made = LostScene(state, tmp_path_factory.mktemp("scene"), rate=0, recorded=False, clients=False)
        always_on.start(made.lab, always_on.WATCHER)
        client = admin_client(made.lab, SOURCE)
        for future in client.create_topics(
            [NewTopic(topic, 1, 1) for topic in (PROBE_TOPIC, APPLICATIONS_TOPIC)]
        ).values():
            future.result(SECONDS)
        yield made
        made.close()
    finally:
        down(state)


@pytest.fixture(scope="module")
def application(scene: LostScene) -> Iterator[Application]:
    """The application's source probe, answering."""
    made = Application(scene.lab)
    with serve_hooks(scene.lab.drain_url, made):
        yield made


def beats(scene: LostScene) -> int:
    """How many heartbeats of the source have arrived on the target so far."""
    reader, topic = ClusterReader(TARGET, scene.lab.status()), f"{SOURCE}.{HEARTBEATS}"
    return reader.ends([(topic, 0)])[topic, 0] if topic in reader.partitions() else 0


def await_beats(scene: LostScene) -> None:
    """Wait until heartbeats come, as they do from a source that lives."""
    before = beats(scene)
    until(lambda: beats(scene) >= before + 3, f"heartbeats of {SOURCE} on {TARGET}", 90.0, pause=0.5)


def refused(scene: LostScene, window: dict[str, float]) -> dict[str, Any]:
    """A run that ends at its look at the source; the figures of that look."""
    evidence = scene.driver.whole(scene.run(**window))
    row = next(row for row in evidence["steps"] if row["id"] == "confirm_source_lost")
    print(f"{evidence['outcome']} at {evidence['failing_step']}: {evidence['reason_for_outcome']}", flush=True)
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "confirm_source_lost")
    told = next(note for note in reversed(row["notes"]) if "verdict" in note)
    return {
        "state": told["state"],
        "rounds": told["verdict"]["rounds"],
        "sights": sights(evidence),
        "why": evidence["reason_for_outcome"],
    }


def lost(scene: LostScene) -> dict[str, Any]:
    """A run that finds the source lost, and is given up there; the figures of that look."""
    run = scene.run(**WINDOW)
    assert scene.driver.forward(run, until="confirm_source_lost"), run.texts
    evidence = scene.give_back(run)
    told = figures_of(evidence, "confirm_source_lost")
    print(told["verdict"], flush=True)
    assert evidence["outcome"] == "refused", evidence["reason_for_outcome"]
    return {"state": told["state"], "rounds": told["verdict"]["rounds"], "sights": sights(evidence)}


def seen(here: str, connect: str, application: str) -> dict[str, set[str]]:
    """The same in every round."""
    return {"here": {here}, "connect": {connect}, "application": {application}}


def set_limit(scene: LostScene, operation: AlterConfigOpType) -> None:
    """Have topics that anybody writes to refuse every record by size, or take records again."""
    client, resources = (
        admin_client(scene.lab, SOURCE),
        [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[ConfigEntry("max.message.bytes", "1", incremental_operation=operation)],
            )
            for topic in (PROBE_TOPIC, HEARTBEATS, APPLICATIONS_TOPIC)
        ],
    )
    for future in client.incremental_alter_configs(resources, request_timeout=SECONDS).values():
        future.result(SECONDS)


@contextmanager
def without_writes(scene: LostScene) -> Iterator[None]:
    """The source answers questions, and acknowledges no write, until the block ends."""
    set_limit(scene, AlterConfigOpType.SET)
    try:
        time.sleep(SETTLED_SECONDS)
        yield
    finally:
        set_limit(scene, AlterConfigOpType.DELETE)
        # The task that wrote heartbeats has failed: its producer gives up what is too large.
        again = f"/connectors/{connector_name(TARGET, SOURCE, 'heartbeat')}/restart?includeTasks=true&onlyFailed=true"
        until(lambda: call_worker(scene.lab, SOURCE, "POST", again).ok, "the heartbeats' task to be started again")


@contextmanager
def asleep(scene: LostScene, application: Application) -> Iterator[None]:
    """The source's broker wakes up for a moment in each round; the worker beside it sleeps throughout."""
    broker, worker = (scene.lab.processes.pid(f"{kind}-{SOURCE}") for kind in ("broker", "connect"))
    timers: list[Timer] = []

    def wake_later() -> None:
        pulse = [
            Timer(WAKES_AFTER, os.kill, (broker, signal.SIGCONT)),
            Timer(SLEEPS_AFTER, os.kill, (broker, signal.SIGSTOP)),
        ]
        timers.extend(pulse)
        for timer in pulse:
            timer.start()

    try:
        os.kill(worker, signal.SIGSTOP)
        time.sleep(SETTLED_SECONDS)
        os.kill(broker, signal.SIGSTOP)
        application.when_asked = wake_later
        yield
    finally:
        application.when_asked = lambda: None
        for timer in timers:
            timer.cancel()
            timer.join()
        for pid in (broker, worker):
            os.kill(pid, signal.SIGCONT)


def test_one_that_lives_is_seen_from_every_side(scene: LostScene, application: Application) -> None:
    """Whoever has an answer ends the looks at once."""
    await_beats(scene)
    found = refused(scene, WINDOW)
    assert (found["state"], found["rounds"]) == ("answers", 1)
    assert found["sights"] == seen("answers", "answers", "answers")
    assert "The source still answers" in found["why"]


def test_one_that_is_slow_is_told_from_one_that_is_gone(scene: LostScene, application: Application) -> None:
    """Whoever waits long enough has an answer; who does not, sees nobody, and is not believed."""
    await_beats(scene)
    with asleep(scene, application):
        found = refused(scene, SLOW_WINDOW)
    assert (found["state"], found["rounds"]) == ("slow", 3)
    assert found["sights"] == seen("slow", "gone", "gone")
    assert "The source is slow" in found["why"]


def test_one_that_takes_no_writes_is_told_from_one_that_answers(scene: LostScene, application: Application) -> None:
    """It describes itself in every round; writes get no acknowledgement, and no heartbeat comes from it."""
    await_beats(scene)
    with without_writes(scene):
        found = refused(scene, WINDOW)
    assert (found["state"], found["rounds"]) == ("refuses_writes", ROUNDS)
    assert found["sights"] == seen("refuses_writes", "gone", "refuses_writes")
    assert "The source answers, but accepts no writes" in found["why"]


def test_one_that_was_killed_is_gone_from_every_side(scene: LostScene, application: Application) -> None:
    """Connections are refused, in every round; MirrorMaker 2's tasks go on running, and prove nothing."""
    await_beats(scene)
    scene.rehearsal.kill_source()
    time.sleep(SETTLED_SECONDS)
    assert lost(scene) == {"state": "lost", "rounds": ROUNDS, "sights": seen("gone", "gone", "gone")}


def test_one_whose_addresses_swallow_everything_is_gone_too(scene: LostScene, application: Application) -> None:
    """Connections hang, in every round."""
    with black_holed(source_ports(scene.lab)):
        assert lost(scene) == {"state": "lost", "rounds": ROUNDS, "sights": seen("gone", "gone", "gone")}
