"""kill -9 of a task, a task's supervisor and the scheduler, each at a seeded step of a real failover."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.environment.airflow_settings import database_path
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from lab.rehearsal.planned import Rehearsal
from tests.faults.support.world import World
from tests.support.rehearsals import SEED

STEPS = tuple(
    (
        "fence_producers drain_consumers stop_mirror_maker translate_offsets commit_groups open_target "
        "redirect_clients close_procedure"
    ).split()
)
CASES = ("task", "supervisor", "scheduler")
STRUCK = dict(zip(CASES, random.Random(SEED).sample(STEPS, len(CASES)), strict=True))
SECONDS = 240.0


class Stage:
    """A lab with Airflow and one workload, moved once a case."""

    def __init__(self, state: Path, folder: Path) -> None:
        self.lab = Lab(state)
        self.rehearsal = Rehearsal(state, folder, SEED, scale=0.05, groups=6)
        self.world = World(self.lab, sorted(self.rehearsal.seed_topics().positions))
        self.before = self.world.look()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One lab for all cases; `up` brings back what a case has killed."""
    state = tmp_path_factory.mktemp("lab")
    up(state)
    yield Stage(state, tmp_path_factory.mktemp("stage"))
    down(state)


def task_process(lab: Lab, step: str) -> psutil.Process:
    """The process in which a step runs now, as Airflow's own database names it."""
    with sqlite3.connect(f"file:{database_path(lab)}?mode=ro", uri=True) as database:
        (pid,) = database.execute(
            "SELECT pid FROM task_instance WHERE task_id = ? AND state = 'running'", (step,)
        ).fetchone()
    return psutil.Process(pid)


def strike(lab: Lab, what: str, step: str) -> None:
    """kill -9 one of the three; a dead scheduler is started again, as a service manager would."""
    if what == "scheduler":
        os.kill(lab.processes.pid("airflow-scheduler"), signal.SIGKILL)
        time.sleep(2)
        up(lab.root)
        return
    task = task_process(lab, step)
    (task if what == "task" else task.parent()).kill()


def when_begun(lab: Lab, known: int, step: str, act: Callable[[], None]) -> threading.Thread:
    """Strike once the step has written something after the journal's `known` entries."""

    def watch() -> None:
        journal, ends_at = Journal(f"sqlite:///{lab.journal}"), time.monotonic() + SECONDS
        while time.monotonic() < ends_at:
            if any(e.sequence > known for e in journal.entries(step=step, kind=Entry.INTENT)):
                act()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("what", CASES)
def test_the_procedure_ends_as_if_nothing_had_happened(stage: Stage, what: str) -> None:
    """Struck in the middle of a step, the run goes on by itself, completes, and the check finds nothing."""
    step, lab = STRUCK[what], stage.lab
    stage.world.put_back(stage.before)
    journal = Journal(f"sqlite:///{lab.journal}")
    known = max((e.sequence for e in journal.entries()), default=0)
    struck: list[float] = []
    watching = when_begun(lab, known, step, lambda: (strike(lab, what, step), struck.append(time.time())))
    code = stage.rehearsal.run("approver", f"{what} killed in {step}", seconds=600)
    watching.join(10)
    evidence = stage.rehearsal.evidence()[1]
    print(f"{what} killed in {step}: exit {code}, {evidence['outcome']}, own {evidence['seconds']['own']} s")
    assert struck, f"{step} was never seen at work"
    assert code == 0, evidence["reason_for_outcome"]
    verdict = stage.rehearsal.checker_for(evidence, "approver").check(writes=False)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert journal.verify() is None
