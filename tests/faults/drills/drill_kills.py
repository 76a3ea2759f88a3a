"""Canary drills on one lab that are killed, continued or given up, and the look at what they have left."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import GatePassed, PassEnded
from kafka_dr.vocabulary import Entry

from lab.environment.bring_up import up
from lab.environment.connect import call_worker
from lab.environment.state import ALIASES, Lab
from lab.environment.take_down import down
from tests.faults.support.stepping import STEPS, Run, Stepping
from tests.support.lab_clients import acl_filter, client, without_marker

PARAMS = {"source": "primary", "target": "standby", "reason": "it will be killed", "kind": "canary"}
LEASE = "drill:primary+standby"
SECONDS = 30.0
#: By then every time to live is over, and a drill that has written nothing counts as given up.
LATER_DAYS = 9
#: A drill's passes in order, and the DAG of each.
PASSES = {
    "run_planned_failover": "planned_failover",
    "run_failback": "failback",
    "run_unplanned_failover": "unplanned_failover",
    "run_second_failback": "failback",
}
#: The pass that must really have run before a pass: after the others the clients are where the drill began.
NEEDED = {"run_failback": "run_planned_failover", "run_second_failback": "run_unplanned_failover"}
AFTER_PASSES = ("clean_drill", "sign_off_drill", "close_procedure")
OWN = tuple(step for step in (*STEPS["failover_drill"], "close_procedure") if step not in PASSES)


class GivenUp(Exception):
    """A pass ended in the middle of a step, and nobody goes on with it; the text is the state of the step's process."""


class Drills:
    """Drills on one lab.

    Attributes:
        before: what both clusters and all workers had before the first drill.
        points: every point at which a drill was killed, and what came of it.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.driver = lab, Stepping(lab, folder)
        self._clients = list[dict[str, Any]]()
        self.points: list[tuple[str, str]] = []
        self.before = self.seen()

    # -- what there is ---------------------------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """Return what a drill must leave as it was; without the topic of the journal's anchors."""
        state: dict[str, Any] = {"routing": self.lab.routing.read_text(encoding="utf-8")}
        for alias in ALIASES:
            admin = AdminClient(client(self.lab, alias, "admin"))
            flows = call_worker(self.lab, alias, "GET", "/connectors?expand=status&expand=info").json()
            state[alias] = {
                "topics": sorted({*admin.list_topics(timeout=SECONDS).topics} - {"__switchback_journal"}),
                "groups": sorted(group.group_id for group in admin.list_consumer_groups().result(SECONDS).valid),
                "acls": sorted(map(str, without_marker(admin.describe_acls(acl_filter()).result(SECONDS)))),
                "connectors": {name: (one["info"]["config"], one["status"]["tasks"]) for name, one in flows.items()},
                "drill connectors": requests.get(f"{self.lab.drill_connect_url(alias)}/connectors", timeout=10).json(),
                "drill offsets": self._kept_offsets(alias),
            }
        return state

    def _kept_offsets(self, alias: str) -> list[str]:
        """Return the partitions of which the Connect worker for drills still keeps an offset."""
        group = {"group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({**client(self.lab, alias, "admin"), **group})
        kept: dict[str, bool] = {}
        try:
            topic = f"__connect_switchback-drill_{alias}_offsets"
            for number in consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions:
                place = TopicPartition(topic, number)
                low, high = consumer.get_watermark_offsets(place, timeout=SECONDS)
                consumer.assign([TopicPartition(topic, number, low)])
                while low < high and consumer.position([place])[0].offset < high:
                    for message in consumer.consume(500, timeout=1.0):
                        kept[message.key().decode()] = message.value() is not None
        finally:
            consumer.close()
        return sorted(key for key, is_kept in kept.items() if is_kept)

    # -- the way to a point ----------------------------------------------------------------------------------------

    def opened(self, until: str = "announce_drill") -> Run:
        """Return a drill that has really come so far; what follows before prepare_drill changes nothing."""
        run = Run(PARAMS, dag_id="failover_drill")
        assert self.driver.forward(run, until=until), run.texts
        return run

    def prepared(self, clients: bool = True) -> Run:
        """Return a drill with its topics, groups and connectors; its checks and gates before count as passed.

        Without `clients` no pass of the drill begins.
        """
        run = self.opened("open_procedure")
        self._write(run, "announce_drill", GatePassed(asked=False))
        assert self.driver.step(run, "prepare_drill") == "done", run.texts
        if clients:
            self.start_clients(run)
        return run

    def start_clients(self, run: Run) -> None:
        """Start the drill's clients."""
        self._clients.append(self.driver.beside(run, "run_drill_clients"))

    def kill_clients(self) -> None:
        """Kill the drill's clients with -9, once they have begun."""
        time.sleep(3.0)
        for process in self._clients:
            os.kill(process["pid"], signal.SIGKILL)

    def reached(self, a_pass: str) -> Run:
        """Return a drill whose passes before this one have ended; only the pass that it needs has really run."""
        run = self.prepared()
        self.driver.run_triggered = self.driver.whole_triggered
        order = tuple(PASSES)
        for earlier in order[: order.index(a_pass)]:
            if earlier == NEEDED.get(a_pass):
                assert self.driver.step(run, earlier) == "done", run.texts
            else:
                self._write(run, earlier, PassEnded(ran=True, pass_outcome="completed"))
        return run

    def _write(self, run: Run, step: str, fact: Any) -> None:
        journal = self.journal()
        journal.append(run.procedure_id, step, Entry.OUTCOME, journal.lease(LEASE).epoch, fact.payload())

    # -- killed and given up ---------------------------------------------------------------------------------------

    def given_up_in_pass(self, a_pass: str, step: str, **how: Any) -> bool:
        """Run a drill until a step of a pass, whose process is killed; return whether it was."""
        return self._given_up(self.reached(a_pass), a_pass, step, **how)

    def _given_up(self, run: Run, a_pass: str, step: str, **how: Any) -> bool:
        def given_up(passed: Run) -> str:
            for each in (*passed.steps, "close_procedure"):
                if each == step:
                    self.driver.killed_at(passed, each, **how)
                    raise GivenUp(passed.ended[each])
                assert self.driver.step(passed, each) == "done", passed.texts
            raise AssertionError(step)

        self.driver.run_triggered = given_up
        try:
            self.driver.step(run, a_pass)
        except GivenUp as ended:
            assert str(ended) in ("killed", "done", "waiting"), str(ended)
            return str(ended) == "killed"
        raise AssertionError(run.texts)

    def given_up_in_own(self, step: str, **how: Any) -> bool:
        """Run a drill until a step of its own, whose process is killed; return whether it was.

        The steps after the passes follow a pass that ended behind its fence, with the drill's clients at work.
        """
        if step in PASSES:
            run = self.reached(step)
        elif step in AFTER_PASSES:
            run = self.prepared()
            assert self._given_up(run, "run_planned_failover", "drain_consumers", kill_unwritten="outcome")
            for each in AFTER_PASSES[: AFTER_PASSES.index(step)]:
                assert self.driver.step(run, each) == "done", run.texts
        else:
            run = Run(PARAMS, dag_id="failover_drill")
            for each in OWN[: OWN.index(step)]:
                assert self.driver.step(run, each) == "done", run.texts
        return self.driver.killed_at(run, step, **how)

    # -- the janitor -----------------------------------------------------------------------------------------------

    def clean(self, **how: Any) -> tuple[str, dict[str, str]]:
        """Have schedule_drills clean up days later; return the state of its process, and what became of each drill."""
        run = Run({}, dag_id="schedule_drills")
        (found,) = self.driver.processes(run, "clean_left_drills", days_ahead=LATER_DAYS, **how)
        return found["state"], found["value"] if found["state"] == "done" else {"message": found.get("text", "")}

    def problems(self, drill_is_made: bool = True) -> list[str]:
        """Clean up a drill that was given up; return what is not as before, and what of the drill is not closed."""
        state, answers = self.clean()
        wrong = [] if state == "done" and (answers or not drill_is_made) else [f"the clean-up: {state}, {answers}"]
        return wrong + self.differences()

    def differences(self) -> list[str]:
        """Return what is not as before the first drill, and what of the drills is not closed."""
        for process in self._clients:
            self.driver.thaw(process)
        self._clients.clear()
        now = self.seen()
        wrong = [] if now["routing"] == self.before["routing"] else [f"routing record: {now['routing']}"]
        wrong += [
            f"{alias} {what}: {now[alias][what]} instead of {was}"
            for alias in ALIASES
            for what, was in self.before[alias].items()
            if now[alias][what] != was
        ]
        journal = self.journal()
        lease, broken = journal.lease(LEASE), journal.verify()
        if lease is not None and lease.released_at is None:
            wrong.append(f"the lease is held by {lease.holder}")
        closed = lease is None or journal.last(lease.holder, "close_procedure", Entry.CLOSED) is not None
        # A drill that was killed between its lease and its first entry has nothing to close.
        if lease is not None and not closed and journal.entries(lease.holder):
            wrong.append(f"{lease.holder} is not closed")
        if broken is not None:
            wrong.append(f"the journal's chain breaks at {broken}")
        if wrong:
            # The next drill is judged by what it leaves itself.
            self.before = now
            self._release()
        return wrong

    def note(self, where: str, wrong: list[str]) -> list[str]:
        """Note what came of a point, and print it; return it with the point's name."""
        told = "; ".join(wrong) or "nothing left"
        self.points.append((where, told))
        print(f"{where}: {told}", flush=True)
        return [f"{where}: {text}" for text in wrong]

    def journal(self) -> Journal:
        """Return production's journal."""
        return Journal(f"sqlite:///{self.lab.journal}")

    def _release(self) -> None:
        journal = self.journal()
        lease = journal.lease(LEASE)
        if lease is not None and lease.released_at is None:
            journal.release_lease(LEASE, lease.holder, lease.epoch, "failed")

    def close(self) -> None:
        """End the helpers."""
        self.driver.close()


def evidence_of(drills: Drills, run: Run) -> dict[str, Any]:
    """Return a drill's evidence."""
    found: dict[str, Any] = json.loads((drills.lab.evidence / run.procedure_id / "evidence.json").read_text())
    return found


def drills_on_a_lab(state: Path, folder: Path) -> Iterator[Drills]:
    """Bring up a lab without Airflow, on which a drill writes few records, and take it down."""
    try:
        up(state, airflow=False)
        lab = Lab(state)
        topology = yaml.safe_load(lab.topology.read_text(encoding="utf-8"))
        topology["drill"] |= {"records": 100}
        lab.topology.write_text(yaml.safe_dump(topology), encoding="utf-8")
        made = Drills(lab, folder)
        try:
            yield made
        finally:
            made.close()
    finally:
        down(state)
