"""A lab with clients, a procedure with a fault, and the look afterwards at source and world."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import requests
import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from kafka_dr.hooks.journal.journal import Journal

from lab.checker import CheckResult
from lab.checker.readers import ClusterReader
from lab.environment.bring_up import up
from lab.environment.brokers import start_broker
from lab.environment.connect import call_worker, connector_name, start_worker
from lab.environment.state import Lab
from lab.environment.take_down import down
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal
from tests.faults.support.fault_proxy import FaultProxy
from tests.faults.support.stepping import Run, Stepping
from tests.faults.support.world import World

PAIR = "primary+standby"
PARAMS = {"source": SOURCE, "target": TARGET, "reason": "a fault will come"}
DEADLINES = {"stop_seconds": 15.0, "fence_seconds": 15.0, "zero_lag_seconds": 20.0, "drain_seconds": 3.0}
DEADLINES |= {"transaction_seconds": 10.0, "return_seconds": 120.0, "max_fence_seconds": 90.0, "verify_seconds": 60.0}
#: How long past its deadline a step may still take to say so: an operating system, two cores, a request on its way.
SLACK_SECONDS = 15.0
USABLE_SECONDS = 45.0
_SECONDS = 30.0
Place = tuple[str, int]


def planned_without_findings(made: Rehearsal, driver: Stepping) -> tuple[dict[str, Any], CheckResult]:
    """Move a rehearsal's clients by a planned failover, step by step; assert that the check passes, return its result.

    Topics are seeded, and clients and load run.
    """
    evidence = driver.whole(Run(PARAMS))
    assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
    return evidence, moved_without_findings(made, evidence)


def moved_without_findings(made: Rehearsal, evidence: dict[str, Any]) -> CheckResult:
    """Assert that the check of a completed move passes, and return its result."""
    unsettled = made.settle()
    verdict = made.check(evidence, "approver")
    verdict.add(unsettled)
    print(f"seconds {evidence['seconds']}, {dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["exact"] == verdict.figures["positions"] > 0
    assert verdict.figures["new_records_consumed"] > 0
    return verdict


def until(
    holds: Callable[[], Any], what: str | Callable[[], str], seconds: float = _SECONDS, pause: float = 0.2
) -> Any:
    """Wait for a true value and return it, or fail with the text `what`, which may be a function."""
    ends_at = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < ends_at, f"{what() if callable(what) else what}: not within {seconds:.0f} s"
        time.sleep(pause)
    return found


class Diary:
    """Reads the demo clients' event logs, each time from where the last reading ended."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._read = folder, defaultdict(int)
        self.acknowledged: dict[str, list[tuple[Place, int, int, int]]] = defaultdict(list)
        self.started: dict[tuple[str, str], dict[Place, int]] = {}
        self.consumed: dict[tuple[str, str], dict[Place, set[int]]] = defaultdict(lambda: defaultdict(set))

    def read(self) -> Diary:
        """Read the events since the last call."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as lines:
                lines.seek(self._read[path])
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    self._read[path] += len(line)
                    self._take(json.loads(line))
        return self

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "acknowledged":
            self.acknowledged[event["cluster"]].append(
                ((event["topic"], event["partition"]), event["offset"], event["digest"], event["at"])
            )
        elif event["event"] == "consumed":
            self.consumed[event["cluster"], event["group"]][event["topic"], event["partition"]].add(event["offset"])
        elif event["event"] == "started":
            found = {
                (topic, partition): offset for topic, partition, offset in event["positions"] if offset is not None
            }
            self.started.setdefault((event["cluster"], event["group"]), found)


class Admins:
    """Superusers' clients by alias, new ones per request: librdkafka aborts when a timed-out coordinator returns."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._newest = lab, {}

    def __getitem__(self, alias: str) -> AdminClient:
        self._newest[alias] = AdminClient({**self._lab.client_properties(alias, "admin"), "log_level": 0})
        return self._newest[alias]


class Scene:
    """One lab, its workload and its clients, and actions that cause faults."""

    def __init__(self, state: Path, folder: Path, seed: int = 4242) -> None:
        up(state, airflow=False)
        self.lab, self.folder = Lab(state), folder
        self._shorten_deadlines()
        self.rehearsal = Rehearsal(state, folder / "rehearsal", seed, scale=0.05, groups=6)
        # Cases before kill brokers and workers, and write the same records again.
        self.rehearsal.crashed = True
        self.truth = self.rehearsal.seed_topics()
        self.rehearsal.start_clients()
        self.diary = Diary(folder / "rehearsal" / f"clients-{seed}")
        self.client_groups = sorted({group for _, group in self.diary.read().started})
        self.client_topics = sorted({place[0] for place, *_ in self.diary.acknowledged[SOURCE]})
        self.idle_groups = sorted(set(self.truth.positions) - set(self.client_groups))
        #: One whose name every page shows as it is.
        self.idle_group = next(
            (group for group in self.idle_groups if re.fullmatch(r"[\w. /-]+", group, re.ASCII)), self.idle_groups[0]
        )
        self.idle_topic = next(iter(self.truth.positions[self.idle_group]))
        self.admins = Admins(self.lab)
        self.proxy = FaultProxy(self.lab.connect_url(TARGET))
        self.driver = Stepping(self.lab, folder / "steps", self._before, self._asked)
        self.driver.environment["AIRFLOW_CONN_CONNECT_STANDBY"] = json.dumps(
            {"conn_type": "http", "host": self.proxy.url}
        )
        self.spent = False
        self._made = 0
        self._reset()
        # Positions without a commit yet begin at `latest`: what is written while the clients are away would look
        # skipped.
        until(self._all_places_read, "every client group reading every partition that is written to", 60.0)
        self.found = self.look()

    def _shorten_deadlines(self) -> None:
        topology = yaml.safe_load(self.lab.topology.read_text())
        self.lab.topology.write_text(yaml.safe_dump(topology | {"deadlines": DEADLINES}, sort_keys=False))

    def _all_places_read(self) -> bool:
        self.diary.read()
        written = {place for place, *_ in self.diary.acknowledged[SOURCE]}
        return all(written <= set(self.diary.consumed[SOURCE, group]) for group in self.client_groups)

    def _reset(self) -> None:
        self.at: dict[str, Callable[[Run], None]] = {}
        self.answers: Callable[[Run, str, float], str | None] = lambda run, gate, seconds: "Approve"
        self._afterwards: tuple[float, Callable[[], object]] | None = None
        self._timers: list[threading.Timer] = []
        self._topics: list[str] = []
        self._undo: list[Callable[[], object]] = []
        self._run: Run | None = None

    def close(self) -> None:
        """End everything."""
        self.rehearsal.stop()
        self.driver.close()
        self.proxy.close()
        down(self.lab.root)

    # -- one procedure ---------------------------------------------------------------------------------------------

    def run(self, **params: Any) -> Run:
        """Return a new run."""
        self._run = Run(PARAMS | params)
        return self._run

    def cool_down(self, seconds: float) -> None:
        """Set the cool-down after a run's end for the pair of clusters, until the case is over."""
        text = self.lab.topology.read_text()
        self._undo.append(lambda: self.lab.topology.write_text(text))
        self.lab.topology.write_text(
            yaml.safe_dump(yaml.safe_load(text) | {"cool_down_seconds": seconds}, sort_keys=False)
        )

    def when_returning(self, act: Callable[[], object], seconds: float = 5.0) -> None:
        """Call a function some seconds after `return_to_source` was begun."""
        self._afterwards = (seconds, act)

    @property
    def world(self) -> World:
        """The lab's world, with new clients, as `Admins` has; no case changes the routing record and continues."""
        lab = Lab(self.lab.root)
        # `put_back` writes the record in place: a client that reads it at that moment finds it empty, and ends.
        lab.routing = self.folder / "routing.json"
        lab.routing.write_text(self.lab.routing.read_text())
        return World(lab, sorted(self.truth.positions))

    def _before(self, run: Run, step: str) -> None:
        if step in self.at:
            self.at.pop(step)(run)
        if step == "return_to_source" and self._afterwards:
            timer = threading.Timer(*self._afterwards)
            self._afterwards = None
            self._timers.append(timer)
            timer.start()

    def _asked(self, run: Run, gate: str, seconds: float) -> str | None:
        return self.answers(run, gate, seconds)

    def give_back(self, run: Run) -> dict[str, Any]:
        """Return to the source and close the run; return the evidence."""
        self.driver.step(run, "return_to_source")
        self.driver.step(run, "close_procedure")
        return self.driver.evidence(run)

    def journal(self) -> Journal:
        """The journal."""
        return Journal(f"sqlite:///{self.lab.journal}")

    def frozen(self, run: Run, step: str, **where: Any) -> dict[str, Any]:
        """Start one process of a step, which freezes at the given point; return its state."""
        run.attempts[step] = 1
        (found,) = self.driver.processes(run, step, **where)
        assert found["state"] == "frozen", found
        return found

    def without_room(self, run: Run, step: str) -> dict[str, Any]:
        """Run a step in a process that cannot write to any file but can read, as on a full disk."""
        with closing(sqlite3.connect(self.lab.journal)) as reading:
            reading.execute("SELECT count(*) FROM entries").fetchone()
            return self.driver.processes(run, step, full_disk=True)[0]

    # -- the look afterwards ---------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """Return rights, connectors with their tasks, routing and idle groups' positions, as plain data."""
        seen = self.world.look()
        return {
            "acls": seen["acls"],
            "connectors": self._connectors(),
            "routing": json.loads(self.lab.routing.read_text()),
            "idle": self._idle_positions(),
        }

    def _seen(self) -> dict[str, Any]:
        """Return the result of `look`; {} while a Connect worker is starting."""
        try:
            return self.look()
        except (requests.RequestException, KeyError):
            return {}

    def _connectors(self) -> dict[str, list[str]]:
        names = [connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint")]
        found = {name: call_worker(self.lab, TARGET, "GET", f"/connectors/{name}/status").json() for name in names}
        return {
            name: sorted({status["connector"]["state"], *(task["state"] for task in status["tasks"])})
            for name, status in found.items()
        }

    def _idle_positions(self) -> dict[str, dict[str, int]]:
        found = {}
        for group in self.idle_groups:
            future = self.admins[SOURCE].list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
            found[group] = {f"{tp.topic}/{tp.partition}": tp.offset for tp in future.result(_SECONDS).topic_partitions}
        return found

    def changed(self, seconds: float = 15.0) -> list[str]:
        """Return the differences from the world before the case; tasks that are starting get some seconds."""
        ends_at = time.monotonic() + seconds
        while (now := self._seen()) != self.found and time.monotonic() < ends_at:
            time.sleep(0.5)
        return [text for part, was in self.found.items() for text in _differences(part, was, now.get(part))]

    def unusable(self, seconds: float = USABLE_SECONDS) -> list[str]:
        """Return why clients cannot work on the source; by record ids no record may be lost or skipped."""
        since = int(time.time() * 1000)
        wrong = self._new_records(since, seconds)
        logs = self._source_logs()
        wrong += self._lost(logs)[:5] + self._skipped(logs)[:5]
        strangers = self.diary.acknowledged[TARGET]
        return wrong + ([f"{len(strangers)} records of clients were acknowledged by {TARGET}"] if strangers else [])

    def _new_records(self, since: int, seconds: float) -> list[str]:
        ends_at = time.monotonic() + seconds
        while True:
            new: dict[Place, int] = {}
            for place, offset, _, at in self.diary.read().acknowledged[SOURCE]:
                if since < at:
                    new.setdefault(place, offset)
            behind = {
                group: [
                    place for place, offset in new.items() if offset not in self.diary.consumed[SOURCE, group][place]
                ]
                for group in self.client_groups
            }
            if new and not any(behind.values()):
                return []
            if time.monotonic() > ends_at:
                return (
                    [f"{group} was not given new records of {places[:3]}" for group, places in behind.items() if places]
                    if new
                    else [f"{SOURCE} acknowledged no record in {seconds:.0f} s"]
                )
            time.sleep(0.5)

    def _source_logs(self) -> dict[Place, dict[int, int]]:
        reader = ClusterReader(SOURCE, self.lab.status())
        partitions = reader.partitions()
        logs = reader.read(
            [(topic, p) for topic in self.client_topics for p in range(partitions[topic])], "read_committed"
        )
        return {place: {held.offset: held.digest for held in log} for place, log in logs.items()}

    def _lost(self, logs: dict[Place, dict[int, int]]) -> list[str]:
        newest = {place: max(log, default=-1) for place, log in logs.items()}
        return [
            f"{place} offset {offset} was acknowledged and is not in the log"
            for place, offset, digest, _ in self.diary.acknowledged[SOURCE]
            if offset < newest[place] and logs[place].get(offset) != digest
        ]

    def _skipped(self, logs: dict[Place, dict[int, int]]) -> list[str]:
        found = []
        for group in self.client_groups:
            started = self.diary.started[SOURCE, group]
            for place, offsets in self.diary.consumed[SOURCE, group].items():
                first, last = started.get(place, min(offsets)), max(offsets)
                missed = [offset for offset in logs[place] if first <= offset < last and offset not in offsets]
                found += (
                    [f"{group} skipped {len(missed)} records of {place}, the first at {missed[0]}"] if missed else []
                )
        return found

    def ended(self, run: Run, outcome: str, step: str, reason: str) -> list[str]:
        """Return what ended otherwise than expected: outcome, failing step, reason, deadline, lease, journal, page."""
        evidence = self.driver.evidence(run)
        wrong = [
            f"{key} is not {wanted}"
            for key, wanted in (("outcome", outcome), ("failing_step", step))
            if not re.fullmatch(wanted, str(evidence[key]))
        ]
        wrong += [] if re.search(reason, evidence["reason_for_outcome"]) else [f"the reason does not say {reason!r}"]
        wrong += [] if re.search(reason, self.page(run)) else [f"the page does not say {reason!r}"]
        wrong += _too_late(evidence)
        lease, broken = self.journal().lease(PAIR), self.journal().verify()
        wrong += [] if lease.released_at else ["the lease is still held"]
        wrong += [] if broken is None else [f"the journal's chain breaks at {broken}"]
        return [
            f"{text} ({evidence['outcome']} at {evidence['failing_step']}: {evidence['reason_for_outcome']})"
            for text in wrong
        ]

    def page(self, run: Run) -> str:
        """Return the text of the evidence page."""
        text = (self.lab.evidence / run.procedure_id / "evidence.html").read_text()
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))

    def returned(self, run: Run, step: str, reason: str) -> None:
        """Assert that the run returned for this reason, the world is as before, and the source is usable."""
        wrong = self.ended(run, "returned", step, reason) + self.changed() + self.unusable()
        assert not wrong, "\n".join(wrong)

    # -- what faults are made of -----------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, records: int = 3) -> str:
        """Create a mirrored topic on the source; it is deleted when the case is over. Return its name."""
        self._made += 1
        name = f"case-{self._made}"
        self.create(SOURCE, name, partitions)
        for _ in range(records):
            assert self.write(SOURCE, "producer", name) == ""
        until(
            lambda: self.partitions(TARGET, name) == partitions and (not records or self.end(TARGET, name) >= records),
            f"{name} on {TARGET}",
            60.0,
        )
        return name

    def create(self, alias: str, name: str, partitions: int = 1) -> None:
        """Create a topic; it is deleted on both clusters when the case is over."""
        self._topics += [] if name in self._topics else [name]
        self.admins[alias].create_topics([NewTopic(name, partitions, 1)])[name].result(_SECONDS)

    def delete(self, alias: str, name: str) -> None:
        """Delete a topic and wait until it no longer exists."""
        if self.partitions(alias, name):
            self.admins[alias].delete_topics([name])[name].result(_SECONDS)
        until(lambda: not self.partitions(alias, name), f"{name} gone from {alias}")

    def grow(self, alias: str, name: str, partitions: int) -> None:
        """Add partitions."""
        self.admins[alias].create_partitions([NewPartitions(name, partitions)])[name].result(_SECONDS)

    def partitions(self, alias: str, name: str) -> int:
        """Return a topic's number of partitions; 0 if there is no such topic."""
        topic = self.admins[alias].list_topics(timeout=_SECONDS).topics.get(name)
        return len(topic.partitions) if topic and topic.error is None else 0

    def end(self, alias: str, name: str, partition: int = 0) -> int:
        """Return a partition's log end."""
        place = TopicPartition(name, partition)
        return self.admins[alias].list_offsets({place: OffsetSpec.latest()})[place].result(_SECONDS).offset

    def write(self, alias: str, principal: str, topic: str) -> str:
        """Write one record; return Kafka's name of the error, or "" if the record was accepted."""
        said: list[str] = []
        own = {"message.timeout.ms": 10_000, "message.send.max.retries": 0, "log_level": 0}
        producer = Producer(self.lab.client_properties(alias, principal) | own)
        producer.produce(
            topic,
            f"written by {principal} at {time.time_ns()}".encode(),
            b"case",
            0,
            on_delivery=lambda error, _: said.append(error.name() if error else ""),
        )
        producer.flush(15)
        return said[0] if said else "no answer"

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit a position of a group on the source, as an administrator."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
        self.admins[SOURCE].alter_consumer_group_offsets([asked])[group].result(_SECONDS)

    def born(self) -> str:
        """Create a group on the source after the forecast; it is deleted when the case is over. Return its name."""
        self._made += 1
        name = f"late-{self._made}"
        self.commit(name, self.client_topics[0], 1)
        self._undo.append(
            lambda: [
                self.admins[alias].delete_consumer_groups([name])[name].exception(_SECONDS)
                for alias in (SOURCE, TARGET)
            ]
        )
        return name

    def lift_one_denial(self) -> None:
        """Remove one ACL entry with which the source refuses the ordinary producer's writes."""
        asked = AclBindingFilter(
            ResourceType.TOPIC,
            None,
            ResourcePatternType.ANY,
            "User:producer",
            None,
            AclOperation.WRITE,
            AclPermissionType.DENY,
        )
        removed = self.admins[SOURCE].delete_acls([asked])[asked].result(_SECONDS)
        assert removed, "there was no fence"

    def no_copy_of(self, topic: str) -> None:
        """Forbid MirrorMaker 2 to create this topic on the target, until the case is over."""
        entries = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, "User:mm2", "*", AclOperation.CREATE, AclPermissionType.DENY
            )
            for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.BROKER, "kafka-cluster"))
        ]
        for future in self.admins[TARGET].create_acls(entries).values():
            future.result(_SECONDS)
        # What the case itself put there is not what the procedure has to put back.
        was = self.found
        self.found = self.look()
        self._undo.append(lambda: setattr(self, "found", was))

    @contextmanager
    def member(
        self, alias: str, group: str, topic: str, principal: str = "admin", lives: float = 3600.0, together: int = 1
    ) -> Iterator[None]:
        """Run consumers of a group, ``together`` at a time; each leaves after ``lives`` seconds."""
        stopped = threading.Event()
        threads = [
            threading.Thread(target=self._restarting, args=(alias, group, topic, principal, lives, n, stopped))
            for n in range(together)
        ]
        for thread in threads:
            thread.start()
            time.sleep(lives / 2 if together > 1 else 0.0)
        try:
            yield
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def _restarting(
        self, alias: str, group: str, topic: str, principal: str, lives: float, number: int, stopped: threading.Event
    ) -> None:
        own = {"group.id": group, "client.id": f"stubborn-{number}", "session.timeout.ms": 6000, "log_level": 0}
        own |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        while not stopped.is_set():
            consumer = Consumer({**self.lab.client_properties(alias, principal), **own})
            consumer.subscribe([topic])
            ends_at = time.monotonic() + lives
            while time.monotonic() < ends_at and not stopped.is_set():
                consumer.poll(0.2)
            consumer.close()
            stopped.wait(0.1)

    def alive(self, alias: str, group: str) -> bool:
        """Whether a group has members."""
        described = self.admins[alias].describe_consumer_groups([group])[group].result(_SECONDS)
        return bool(described.members)

    def kill(self, kind: str, alias: str) -> None:
        """Kill a broker or a Connect worker with -9, and wait until its process has ended."""
        name = f"{kind}-{alias}"
        os.kill(self.lab.processes.pid(name), signal.SIGKILL)
        until(lambda: self.lab.processes.pid(name) is None, f"the end of {name}")

    # -- between cases ---------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Remove leases, faults and topics of the case and restore the world; on failure the scene is not reused."""
        try:
            self._tidy()
        except Exception:
            self.spent = True
            raise

    def _tidy(self) -> None:
        self.proxy.heal()
        for timer in self._timers:
            timer.join()
        self._let_go()
        # Records that clients wrote on the target cannot be taken back: the next case gets another lab.
        self.spent = self.spent or self.journal().lease(PAIR).outcome == "completed"
        if self.spent:
            return
        for alias in (SOURCE, TARGET):
            start_broker(self.lab, alias)
            start_worker(self.lab, alias)
        for undo in reversed(self._undo):
            undo()
        self._remove_topics()
        seen = self.world.look()
        if seen["positions"] or self.changed(0.0):
            for name in self._forward():
                call_worker(self.lab, TARGET, "POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
            wanted = {
                "acls": self.found["acls"],
                "positions": {},
                "connectors": dict.fromkeys(self._forward(), "RUNNING") | self._reverse(),
                "routing": self.found["routing"],
            }
            self.world.put_back(seen | wanted)
            until(lambda: not self.changed(0.0), "the world as it was found", 60.0)
        self._reset()

    def _forward(self) -> list[str]:
        return [connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint")]

    def _reverse(self) -> dict[str, str]:
        return {connector_name(TARGET, SOURCE, kind): "STOPPED" for kind in ("source", "checkpoint")}

    def _let_go(self) -> None:
        journal = self.journal()
        lease = journal.lease(PAIR)
        if lease is not None and lease.released_at is None:
            journal.release_lease(PAIR, lease.holder, lease.epoch, "failed")
            requests.post(f"{self.lab.drain_url}/resume", json={"procedure_id": lease.holder}, timeout=10)

    def _remove_topics(self) -> None:
        for name in self._topics:
            self.delete(SOURCE, name)
        if self._topics:
            # MirrorMaker 2 looks once a second: before it has seen that they are gone, it would make them again.
            time.sleep(3.0)
        for name in self._topics:
            self.delete(TARGET, name)


def _differences(part: str, was: Any, now: Any) -> list[str]:
    if part != "acls" or now is None:
        return [] if was == now else [f"{part}: {now} instead of {was}"]
    return [
        f"{alias}: {what} {entry}"
        for alias in was
        for what, here, there in (("added", now, was), ("gone", was, now))
        for entry in sorted(set(here[alias]) - set(there[alias]))
    ]


def _too_late(evidence: dict[str, Any]) -> list[str]:
    """Return the steps that took longer than their deadlines."""
    deadlines = (evidence["plan"] or {}).get("deadlines") or DEADLINES
    ends = {step["id"]: step for step in evidence["steps"]}
    fence, back = ends.get("fence_producers"), ends.get("return_to_source")
    found = []
    if (
        fence
        and back
        and _between(fence["started_at"], back["started_at"]) > deadlines["max_fence_seconds"] + SLACK_SECONDS
    ):
        found.append(f"the return began {_between(fence['started_at'], back['started_at']):.0f} s after the fence")
    if back and _between(back["started_at"], back["ended_at"]) > deadlines["return_seconds"]:
        found.append(f"the return took {_between(back['started_at'], back['ended_at']):.0f} s")
    return found


def _between(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


class Stage:
    """The scene that the cases of a file share; replaced by a new scene if a case left it in disorder."""

    def __init__(self, folder: Callable[[str], Path], kind: type[Scene] = Scene) -> None:
        self._folder, self._kind, self._scene = folder, kind, None

    def scene(self) -> Scene:
        """Return a scene in order."""
        if self._scene is not None and self._scene.spent:
            self.close()
        if self._scene is None:
            self._scene = self._kind(self._folder("lab"), self._folder("scene"))
        return self._scene

    def close(self) -> None:
        """Take the lab down."""
        if self._scene is not None:
            self._scene.close()
        self._scene = None
