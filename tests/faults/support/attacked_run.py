"""One failover as an attacker reaches it: Airflow's REST API, database, command line, and the journal's file."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import EXEMPT_TOPIC, Entry

from lab.environment.airflow_api import AirflowClient
from lab.environment.airflow_settings import airflow_environment
from lab.environment.connect import call_worker
from lab.environment.state import ALIASES, Lab
from lab.rehearsal.run import procedure_id
from lab.workload.seeding import await_mirrored
from tests.faults.support.stepping import STEPS
from tests.support.lab_clients import acl_filter, without_marker

REVIEW = "review_translation"
TOPIC, PARTITIONS = "orders", 2
PAIR = "primary+standby"
#: An answer that comes before the gate's process has ended fails the try, and the question is asked again.
_PARKED_SECONDS = 1.5


@dataclass(frozen=True)
class Attackable:
    """A procedure: its plan's gate, the step that writes the plan, and whether the translation's gate also asks."""

    dag_id: str
    gate: str
    planning: str
    reviewed: bool

    def after(self, step: str) -> str:
        """Return the next step."""
        order = STEPS[self.dag_id]
        return order[order.index(step) + 1]

    @property
    def acting(self) -> str:
        """Return the first step that acts under the approval."""
        return self.after(self.gate)


PLANNED = Attackable("planned_failover", "approve_failover", "forecast", False)
WITHOUT_SOURCE = Attackable("unplanned_failover", "approve_data_loss", "assess_data_loss", True)
#: As other files name them.
DAG_ID, GATE = PLANNED.dag_id, PLANNED.gate


class AttackedLab(Lab):
    """A lab, the procedure that is attacked on this lab, and the aliases of the clusters that answer."""

    def __init__(self, state: Path, attacked: Attackable = PLANNED) -> None:
        super().__init__(state)
        self.attacked, self.alive = attacked, ALIASES


class User(AirflowClient):
    """One of the lab's users, who can send requests that no page offers."""

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send any request, of a path below `/api/v2`, and return the answer; only a GET is repeated."""

        def send(_request_timeout: float) -> Any:
            headers = {"Accept": "application/json", "Content-Type": "application/json"}
            request = self._client.param_serialize(
                method, f"/api/v2{path}", header_params=headers, body=body, auth_settings=["HTTPBearer"]
            )
            return self._client.call_api(*request, _request_timeout=_request_timeout).response

        send.__name__ = f"{method.lower()}_{path}"
        return self._call(send)


class AttackedRun:
    """A run, and the actions of an attacker on this run."""

    def __init__(self, lab: Lab, run_id: str) -> None:
        self.lab, self.run_id, self.attacked = lab, run_id, attacked_on(lab)
        self.dag_id, self.gate = self.attacked.dag_id, self.attacked.gate
        self.id = procedure_id(self.dag_id, run_id)
        self.before: dict[str, Any] = {}
        self.path = f"/dags/{self.dag_id}/dagRuns/{quote(run_id, safe='')}"

    @classmethod
    def start(cls, lab: Lab, **params: Any) -> AttackedRun:
        """Trigger a run over the API as the operator."""
        conf = {"source": "primary", "target": "standby", "reason": "an attack", **params}
        return cls(lab, User.of(lab, "operator").trigger(attacked_on(lab).dag_id, conf))

    @classmethod
    def start_by_command_line(cls, lab: Lab, as_name: str) -> AttackedRun:
        """Trigger a run by Airflow's command line, which takes the starter's name from the environment."""
        conf = json.dumps({"source": "primary", "target": "standby", "reason": "an attack"})
        run_id = f"by_hand_{time.time_ns()}"
        dag_id = attacked_on(lab).dag_id
        argv = [*"-m airflow dags trigger".split(), dag_id, "--conf", conf, "--run-id", run_id]
        own = airflow_environment(lab) | {"LOGNAME": as_name, "USER": as_name}
        subprocess.run([sys.executable, *argv], env=own, cwd=lab.airflow_home, check=True, capture_output=True)
        return cls(lab, run_id)

    def user(self, name: str) -> User:
        """Return one of the lab's users."""
        return User.of(self.lab, name)

    def task(self, task_id: str) -> dict[str, Any]:
        """Return a task as it is now."""
        return self.user("viewer").send("GET", f"{self.path}/taskInstances/{task_id}")

    def until(self, task_id: str, *states: str, seconds: float = 90.0) -> dict[str, Any]:
        """Wait for a task to be in one of the states and return the task; TimeoutError if the run ends before."""

        def look() -> dict[str, Any] | None:
            over = self.user("viewer").run(self.dag_id, self.run_id)["state"] in ("success", "failed")
            found = self.task(task_id)
            if over and found["state"] not in states:
                raise TimeoutError(f"the run has ended with {task_id} {found['state']}")
            return found if found["state"] in states else None

        return awaited(look, f"{task_id} in {states}", seconds)

    def asked(self, gate: str | None = None, attempt: int | None = None) -> dict[str, Any]:
        """Wait until a gate is parked on this try, and some seconds more: an answer during the parking is lost."""
        gate = gate or self.gate
        found = self.until(gate, "awaiting_input")
        while attempt is not None and found["try_number"] < attempt:
            time.sleep(0.2)
            found = self.until(gate, "awaiting_input")
        time.sleep(_PARKED_SECONDS)
        return found

    def answered(self, user: str, option: str = "Approve", gate: str | None = None) -> None:
        """Answer a gate; repeat the answer if Airflow lost it because the gate's process had not ended yet."""
        gate = gate or self.gate
        attempt = self.asked(gate)["try_number"]
        for _ in range(3):
            self.answer(user, option, gate)
            found = self.until(gate, "awaiting_input", "success", "failed")
            if found["state"] != "awaiting_input" or found["try_number"] == attempt:
                return
            attempt = self.asked(gate)["try_number"]

    def answer(self, user: str, option: str = "Approve", gate: str | None = None, **forged: Any) -> dict[str, Any]:
        """Answer a gate."""
        body = {"chosen_options": [option], "params_input": {}, **forged}
        return self.user(user).send("PATCH", self.details(gate), body)

    def details(self, gate: str | None = None) -> str:
        """Return the API's path of a gate's question and answer."""
        return f"{self.path}/taskInstances/{gate or self.gate}/-1/hitlDetails"

    def ignored(self, user: str, gate: str | None = None, **forged: Any) -> dict[str, Any]:
        """Answer a gate until the procedure records that the answer does not count; return Airflow's reply."""
        gate = gate or self.gate
        before = len(self.notes(gate))
        for _ in range(3):
            attempt = self.asked(gate)["try_number"]
            replied = self.answer(user, gate=gate, **forged)
            self.asked(gate, attempt + 1)
            if len(self.notes(gate)) > before:
                return replied
        raise TimeoutError(f"no answer of {user} was taken")

    def notes(self, gate: str) -> list[Any]:
        """Return what a gate recorded in the journal."""
        return Journal(f"sqlite:///{self.lab.journal}").entries(self.id, gate, Entry.NOTE)

    def begun(self, step: str) -> None:
        """Wait until a step has begun in the journal."""
        journal = Journal(f"sqlite:///{self.lab.journal}")
        awaited(lambda: journal.last(self.id, step, Entry.INTENT), f"{step} begun", 60.0)

    def mark(self, task_id: str, user: str = "operator", state: str = "success") -> None:
        """Set a task's state manually."""
        self.user(user).send("PATCH", f"{self.path}/taskInstances/{task_id}", {"new_state": state})

    def forge(self, task_id: str, value: Any, user: str = "operator", key: str = "return_value") -> None:
        """Write a task's XCom, or overwrite it."""
        entries = f"{self.path}/taskInstances/{task_id}/xcomEntries"
        present = {entry["key"] for entry in self.user(user).send("GET", entries)["xcom_entries"]}
        if key in present:
            self.user(user).send("PATCH", f"{entries}/{key}", {"value": value})
        else:
            self.user(user).send("POST", entries, {"key": key, "value": value})

    def clear(self, task_id: str, user: str = "operator", downstream: bool = False) -> None:
        """Clear a task."""
        body = {"dry_run": False, "dag_run_id": self.run_id, "task_ids": [task_id], "only_failed": False}
        body |= {"include_downstream": downstream}
        self.user(user).send("POST", f"/dags/{self.dag_id}/clearTaskInstances", body)

    def sql(self, statement: str, *values: Any) -> None:
        """Change Airflow's database directly."""
        with closing(sqlite3.connect(self.lab.airflow_home / "airflow.db", timeout=30)) as database, database:
            database.execute(statement, values)

    def forget_starter(self) -> None:
        """Delete the starter from Airflow's database."""
        self.sql("UPDATE dag_run SET triggering_user_name = NULL WHERE run_id = ?", self.run_id)

    def rewrite_journal(self, step: str, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the newest entry of a kind in the journal's file, as a user with a database tool would."""
        with closing(sqlite3.connect(self.lab.journal, timeout=30)) as database, database:
            where = (self.id, step, kind)
            sequence, text = database.execute(
                "SELECT sequence, payload FROM entries WHERE procedure_id = ? AND step = ? AND kind = ? ORDER BY"
                " sequence DESC LIMIT 1",
                where,
            ).fetchone()
            payload = json.loads(text)
            change(payload)
            database.execute(
                "UPDATE entries SET payload = ? WHERE sequence = ?",
                (json.dumps(payload, sort_keys=True, separators=(",", ":")), sequence),
            )

    def write_journal(self, step: str, figures: dict[str, Any]) -> None:
        """Append an outcome to the journal as the product itself would, with valid hashes."""
        journal = Journal(f"sqlite:///{self.lab.journal}")
        epoch = journal.entries(self.id)[-1].epoch
        journal.append(self.id, step, Entry.OUTCOME, epoch, figures)

    def ended(self, seconds: float = 150.0) -> dict[str, Any]:
        """Wait for the run's end; return its evidence."""
        viewer = self.user("viewer")
        awaited(
            lambda: viewer.run(self.dag_id, self.run_id)["state"] in ("success", "failed"),
            f"the end of {self.run_id}",
            seconds,
        )
        return json.loads((self.lab.evidence / self.id / "evidence.json").read_text())


def attacked_on(lab: Lab) -> Attackable:
    """The procedure that is attacked on a lab."""
    return lab.attacked if isinstance(lab, AttackedLab) else PLANNED


def seed(lab: Lab) -> None:
    """Create a mirrored topic of a hundred records and a group half-way through it; wait until nothing changes."""
    admin = AdminClient(lab.client_properties("primary", "admin"))
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(lab.client_properties("primary", "producer"))
    for number in range(100):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    producer.flush(30)
    commit(lab, "billing", 25)
    await_mirrored(lab.status(), "standby", {TOPIC: PARTITIONS})
    at_rest(lab)


def at_rest(lab: Lab, window: float = 6.0) -> None:
    """Wait until two views of the world, ``window`` seconds apart, are equal."""
    before: dict[str, Any] = {}
    while (now := world(lab)) != before:
        before = now
        time.sleep(window)


def commit(lab: Lab, group: str, offset: int) -> None:
    """Place a group on every partition of the topic."""
    at = [TopicPartition(TOPIC, p, offset) for p in range(PARTITIONS)]
    admin = AdminClient(lab.client_properties("primary", "admin"))
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, at)])[group].result(30)


def awaited(look: Callable[[], Any], what: str, seconds: float) -> Any:
    """Poll until there is a result, and return it; TimeoutError names what was awaited."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {seconds:.0f} s")
        time.sleep(0.2)
    return found


def free(lab: Lab) -> None:
    """Abort the run that an attack left behind, so that no procedure holds the lease."""
    lease = Journal(f"sqlite:///{lab.journal}").lease(PAIR)
    if lease is None or lease.released_at is not None:
        return
    operator = User.of(lab, "operator")
    run_id = operator.trigger("abort_procedure", {"source": "primary", "target": "standby", "reason": "a test left it"})
    awaited(lambda: operator.run("abort_procedure", run_id)["state"] in ("success", "failed"), "end of the abort", 120)


@contextmanager
def frozen_scheduler(lab: Lab) -> Iterator[None]:
    """Freeze Airflow's scheduler during the block, so that actions in the block come before its next step."""
    pid = lab.processes.pid("airflow-scheduler")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def world(lab: Lab) -> dict[str, Any]:
    """Return what a procedure changes on running clusters: rights, topics, log ends, positions, connectors, routing."""
    found: dict[str, Any] = {"routing": lab.routing.read_text()}
    alive = lab.alive if isinstance(lab, AttackedLab) else ALIASES
    for alias in alive:
        admin = AdminClient({**lab.client_properties(alias, "admin"), "log_level": 0})
        # A flow whose source is dead cannot be resumed, whoever stopped it; nothing of that is irreversible.
        connectors = call_worker(lab, alias, "GET", "/connectors?expand=status").json() if alive == ALIASES else {}
        # Of the product's own topics the canary's is the only one whose name MirrorMaker 2 must be able to select.
        named = {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")}
        topics = sorted(named - {EXEMPT_TOPIC})
        found[alias] = {
            "acls": sorted(map(str, without_marker(admin.describe_acls(acl_filter()).result(30)))),
            "topics": topics,
            "ends": log_ends(admin) if TOPIC in topics else {},
            "positions": positions(admin),
            "connectors": {name: entry["status"]["connector"]["state"] for name, entry in connectors.items()},
        }
    return found


def log_ends(admin: AdminClient) -> dict[int, int]:
    """Return the log ends of the attacked topic."""
    asked = admin.list_offsets({TopicPartition(TOPIC, p): OffsetSpec.latest() for p in range(PARTITIONS)})
    return {tp.partition: future.result(30).offset for tp, future in asked.items()}


def positions(admin: AdminClient) -> dict[str, list[tuple[str, int, int]]]:
    """Return the committed positions of every group."""
    groups = sorted(group.group_id for group in admin.list_consumer_groups().result(30).valid)
    return {group: position_of(admin, group) for group in groups if not group.startswith("__")}


def position_of(admin: AdminClient, group: str) -> list[tuple[str, int, int]]:
    """Return the committed positions of one group."""
    future = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    return sorted((tp.topic, tp.partition, tp.offset) for tp in future.result(30).topic_partitions)


@contextmanager
def nothing_irreversible(lab: Lab) -> Iterator[None]:
    """Assert that, some seconds after the block, the world is as before the block."""
    before = world(lab)
    yield
    settles(lab, before)


def settles(lab: Lab, before: dict[str, Any], seconds: float = 30.0) -> None:
    """Assert that the world is as ``before`` within some seconds; MirrorMaker 2 takes a moment to run again."""
    deadline = time.monotonic() + seconds
    while (after := world(lab)) != before and time.monotonic() < deadline:
        time.sleep(1)
    assert after == before, "; ".join(differences(before, after))


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Return where two worlds differ, and how."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted(before.keys() | after.keys(), key=str)
            for line in differences(before.get(key), after.get(key), f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list):
        before, after = [x for x in before if x not in after], [x for x in after if x not in before]
    return [f"{place}: {before} -> {after}"] if before != after else []
