"""A planned failover of an earlier version, SWITCHBACK_BEFORE's commit, is ended by this one after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry, Step

from lab.checker.readers import ClusterReader
from lab.environment.airflow_api import AirflowClient, RequestRefused
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET, Rehearsal, wait_for
from lab.rehearsal.run import procedure_id, proposed_values
from tests.faults.support.attacked_run import User
from tests.faults.support.scene import until as awaited
from tests.faults.support.world import World

BEFORE = os.environ.get("SWITCHBACK_BEFORE", "0f9c26c")
ROOT = Path(__file__).parents[3]
DAG_ID = "planned_failover"
LAST, NEXT = Step.STOP_MIRROR_MAKER, Step.TRANSLATE_OFFSETS
CONF = {"source": SOURCE, "target": TARGET, "reason": "begun by the version before", "max_fence_seconds": 900}
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout of the earlier version, with this version's packages."""
    tree = tmp_path_factory.mktemp("before") / "tree"
    subprocess.run(["git", "worktree", "add", "--detach", str(tree), BEFORE], cwd=ROOT, check=True)
    (tree / ".venv").symlink_to(sys.prefix)
    yield tree
    subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def run_lab(tree: Path, command: str, state: Path) -> None:
    """Run the lab's command of one of the two versions."""
    paths = os.pathsep.join(str(tree / part) for part in ("plugins", "spark", "."))
    line = [sys.executable, "-m", "lab", command, "--state", str(state)]
    subprocess.run(line, cwd=tree, env=os.environ | {"PYTHONPATH": paths}, check=True)


class VersionChange:
    """A lab, clients at work, and one run."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.state, self._tree = folder / "lab", tree
        self.state.mkdir()
        run_lab(tree, "up", self.state)
        self.lab = Lab(self.state)
        self.rehearsal = Rehearsal(self.state, folder / "rehearsal", 4177, scale=0.02, groups=6)
        self.rehearsal.seed_topics()
        self.rehearsal.start_clients()
        self.world = World(self.lab, sorted(self.rehearsal.truth.positions))
        self.journal = Journal(f"sqlite:///{self.lab.journal}")
        self.api = User.of(self.lab, "operator")
        self.run_id = self.procedure_id = ""

    def close(self) -> None:
        """End clients and lab."""
        self.rehearsal.stop()
        run_lab(self._tree, "down", self.state)

    def kill_behind_the_stop(self, fails: bool) -> None:
        """Begin a run and kill Airflow once MirrorMaker 2 is stopped; `fails` marks the next step as failed first."""
        self.run_id = self.api.trigger(DAG_ID, CONF)
        self.procedure_id = procedure_id(DAG_ID, self.run_id)
        awaited(lambda: self._wrote(LAST, Entry.INTENT, self.answer_gates), f"{LAST} to begin", 240, pause=0.05)
        os.kill(self.lab.processes.pid("airflow-scheduler"), signal.SIGSTOP)
        awaited(lambda: self._wrote(LAST, Entry.OUTCOME), f"{LAST} to be done", 120)
        path = f"/dags/{DAG_ID}/dagRuns/{quote(self.run_id)}/taskInstances"
        awaited(lambda: self.api.send("GET", f"{path}/{LAST}")["state"] == "success", f"{LAST}'s success", 60)
        if fails:
            self.api.send("PATCH", f"{path}/{NEXT}", {"new_state": "failed"})
        for process in self._airflow():
            process.kill()
        awaited(lambda: not self._airflow(), "the end of Airflow", 60)
        assert self.journal.last(self.procedure_id, NEXT, Entry.INTENT) is None, "the next step has begun"

    def finish(self) -> dict[str, Any]:
        """Go on with this version; return the evidence."""
        run_lab(ROOT, "up", self.state)
        awaited(self._ended, "the end of the run", 420)
        return json.loads((self.lab.evidence / self.procedure_id / "evidence.json").read_text(encoding="utf-8"))

    def answer_gates(self) -> None:
        """Answer what is asked now, as the approver; a gate that has not parked yet is answered at the next look."""
        approver = AirflowClient.of(self.lab, "approver")
        for gate in approver.open_gates(DAG_ID, self.run_id):
            time.sleep(1.5)
            try:
                values = proposed_values(gate.get("params") or {})
                approver.answer(DAG_ID, self.run_id, gate["task_instance"], gate["options"][0], values)
            except RequestRefused as refusal:
                print(f"not answered: {refusal}", flush=True)

    def _wrote(self, step: Step, kind: Entry, meanwhile: Callable[[], object] = lambda: None) -> bool:
        meanwhile()
        return self.journal.last(self.procedure_id, step, kind) is not None

    def _ended(self) -> bool:
        self.answer_gates()
        return AirflowClient.of(self.lab, "operator").run(DAG_ID, self.run_id)["state"] in ("success", "failed")

    def _airflow(self) -> list[psutil.Process]:
        """Airflow's components and the tasks they started; the lab's other processes have another home."""
        found = []
        for process in psutil.process_iter():
            try:
                home = process.environ().get("AIRFLOW_HOME")
                if home == str(self.lab.airflow_home) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def change(before: Path, tmp_path: Path) -> Iterator[VersionChange]:
    """The run, triggered under the earlier version."""
    made = VersionChange(before, tmp_path)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(made.state, ignore_errors=True)


def test_it_is_completed(change: VersionChange) -> None:
    """The check finds every position exact and no record missing."""
    change.kill_behind_the_stop(fails=False)
    evidence = change.finish()
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    unsettled = change.rehearsal.settle()
    verdict = change.rehearsal.check(evidence, "approver")
    verdict.add(unsettled)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert change.journal.verify() is None


def test_it_is_rolled_back(change: VersionChange) -> None:
    """Rights, connectors, positions and routing are as before, and clients write on the source again."""
    parts = ("acls", "connectors", "positions", "routing")
    world = change.world.look()
    change.kill_behind_the_stop(fails=True)
    evidence = change.finish()
    assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
    assert wait_for(lambda: all(change.world.look()[part] == world[part] for part in parts), 30)
    reader = ClusterReader(SOURCE, change.rehearsal.status)
    counts = reader.partitions()
    places = [(topic, p) for topic in change.rehearsal._client_topics for p in range(counts[topic])]
    before = sum(reader.ends(places).values())
    assert wait_for(lambda: sum(reader.ends(places).values()) > before, 30), "clients write nothing on the source"
    assert change.journal.verify() is None
