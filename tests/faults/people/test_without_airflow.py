"""Procedures on a day without Airflow: one command, two people's own passwords, kills, and a run taken over."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry, Step

from lab.environment.airflow_api import AirflowClient
from lab.environment.airflow_settings import airflow_environment, write_passwords
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.rehearsal.planned import Rehearsal
from tests.faults.support.on_a_terminal import ROOT, OnTerminal
from tests.faults.support.world import World
from tests.support.rehearsals import SEED

CONF = {"source": "primary", "target": "standby", "reason": "Airflow is not there"}
SECONDS = 300.0


@contextmanager
def command(lab: Lab, *arguments: str) -> Iterator[OnTerminal]:
    """The command on a terminal, with the lab's environment."""
    argv = [sys.executable, "-m", "kafka_dr.commands.run_procedure", *arguments]
    with OnTerminal(argv, airflow_environment(lab) | {"PYTHONPATH": str(ROOT / "plugins")}) as terminal:
        yield terminal


def password(lab: Lab, user: str) -> str:
    """A user's own."""
    return lab.load().passwords[f"airflow_{user}"]


def log_in(terminal: OnTerminal, lab: Lab, user: str) -> None:
    """Somebody gives their password."""
    terminal.answer(f"Password of {user}: ", password(lab, user), SECONDS)


def approve(terminal: OnTerminal, lab: Lab, user: str, given: str | None = None) -> None:
    """Somebody answers the gate that is asked."""
    terminal.answer("User name of the person who answers: ", user, SECONDS)
    terminal.answer(f"Password of {user}: ", given if given is not None else password(lab, user))
    if given is None:
        terminal.answer("Choice .*: ", "approve")


@contextmanager
def rehearsal(state: Path, folder: Path, rate: int = 1_000) -> Iterator[Rehearsal]:
    """Topics, groups, clients and load, running."""
    made = Rehearsal(state, folder, SEED, rate, scale=0.3, groups=12)
    try:
        made.seed_topics()
        made.start_clients()
        made.start_load()
        yield made
    finally:
        made.stop()


def checked(made: Rehearsal) -> dict[str, Any]:
    """The clients work on the target, and the check finds nothing; the evidence."""
    assert made.settle() == []
    _, evidence = made.evidence()
    verdict = made.check(evidence, "approver")
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["exact"] == verdict.figures["positions"] > 0
    assert verdict.figures["new_records_consumed"] > 0
    return evidence


def supervisor_process(terminal: OnTerminal) -> psutil.Process:
    """The process that Airflow supervises the newest task with: a worker of LocalExecutor that has a child."""
    below = psutil.Process(terminal.process.pid).children(recursive=True)
    workers = [process for process in below if "LocalExecutor" in " ".join(process.cmdline())]
    return max(
        (worker for worker in workers if worker.children()),
        key=lambda worker: max(child.create_time() for child in worker.children()),
    )


def task_process(terminal: OnTerminal) -> psutil.Process:
    """The task's own."""
    return supervisor_process(terminal).children()[0]


def processes_in(folder: Path) -> list[psutil.Process]:
    """What still works in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            found += [process] if process.cwd().startswith(str(folder)) else []
    return found


def wait_for_entry(lab: Lab, step: Step, kind: Entry, seconds: float = SECONDS) -> str:
    """Wait until the journal has such an entry; the procedure's id."""
    ends_at = time.monotonic() + seconds
    while not (found := Journal(f"sqlite:///{lab.journal}").entries(step=step, kind=kind)):
        assert time.monotonic() < ends_at, f"no {kind} of {step} within {seconds:.0f} s"
        time.sleep(0.05)
    return found[-1].procedure_id


def secrets_in(text: str, lab: Lab) -> list[str]:
    """Users whose password stands in a text."""
    return [name for name, secret in lab.load().passwords.items() if secret in text]


@pytest.fixture
def bare_lab(fresh_lab: Callable[..., Path]) -> Lab:
    """A lab without Airflow, with its users' passwords in a file."""
    lab = Lab(fresh_lab("identity", airflow=False))
    lab.airflow_home.mkdir(parents=True, exist_ok=True)
    write_passwords(lab)
    (lab.airflow_home / "airflow.cfg").touch()
    return lab


def test_a_failover_by_one_command(bare_lab: Lab, tmp_path: Path) -> None:
    """A wrong password and the starter's own answer are asked again; then the approver's answer opens."""
    with (
        rehearsal(bare_lab.root, tmp_path) as made,
        command(
            bare_lab,
            "planned_failover",
            "--as",
            "operator",
            "--conf",
            json.dumps(CONF),
            "--own-database",
            str(tmp_path / "own"),
        ) as terminal,
    ):
        terminal.answer("Password of operator: ", "not it")
        log_in(terminal, bare_lab, "operator")
        asked = terminal.wait_for("User name of the person who answers: ", SECONDS)
        assert "Plan digest" in asked and "Move all clients from primary to standby" in asked
        terminal.type("approver")
        terminal.answer("Password of approver: ", password(bare_lab, "operator"))
        terminal.wait_for("refuses the login of 'approver'")
        approve(terminal, bare_lab, "operator")
        assert "operator started the run and answered the gate" in terminal.wait_for("answered the gate")
        approve(terminal, bare_lab, "approver")
        terminal.wait_for(r"clients are fenced; in \d+ s")
        code, last = terminal.finish(SECONDS)
        assert code == 0 and last.startswith("outcome=completed failing_step=- "), terminal.seen[-3000:]
        evidence = checked(made)
        logs = [path.read_text(errors="replace") for path in (tmp_path / "own").rglob("*.log")]
        assert len(logs) > 10 and secrets_in("\n".join([terminal.seen, *logs]), bare_lab) == []
    assert [a["by"] for a in evidence["approvals"] if a["gate"] == Step.APPROVE_FAILOVER] == ["approver"]
    assert processes_in(tmp_path / "own") == []


def test_the_command_killed_and_resumed(bare_lab: Lab, tmp_path: Path) -> None:
    """Killed while clients are fenced, the command is resumed, also after a step's or supervisor's kill."""
    own = ["--own-database", str(tmp_path / "own")]
    with rehearsal(bare_lab.root, tmp_path) as made:
        with command(bare_lab, "planned_failover", "--as", "operator", "--conf", json.dumps(CONF), *own) as terminal:
            log_in(terminal, bare_lab, "operator")
            approve(terminal, bare_lab, "approver")
            procedure_id = wait_for_entry(bare_lab, Step.STOP_MIRROR_MAKER, Entry.INTENT)
            terminal.kill()
        with command(bare_lab, "--resume", procedure_id, "--as", "operator", *own) as terminal:
            log_in(terminal, bare_lab, "operator")
            terminal.wait_for("resumed by operator", SECONDS)
            for victim in (task_process, supervisor_process):
                terminal.wait_for(r"translate_offsets +running", SECONDS)
                victim(terminal).kill()
                terminal.wait_for(r"translate_offsets +up_for_retry", SECONDS)
            code, last = terminal.finish(SECONDS)
        assert code == 0 and last.startswith("outcome=completed failing_step=- "), terminal.seen[-3000:]
        checked(made)


def test_a_database_lost_after_the_opening(bare_lab: Lab, tmp_path: Path) -> None:
    """Once the target may be open, a fresh database asks the gates again and repeats no step before the opening."""
    start = ["planned_failover", "--as", "operator", "--conf", json.dumps(CONF)]
    with rehearsal(bare_lab.root, tmp_path) as made:
        with command(bare_lab, *start, "--own-database", str(tmp_path / "lost")) as terminal:
            log_in(terminal, bare_lab, "operator")
            approve(terminal, bare_lab, "approver")
            procedure_id = wait_for_entry(bare_lab, Step.OPEN_TARGET, Entry.INTENT)
            terminal.kill()
        journal = Journal(f"sqlite:///{bare_lab.journal}")
        committed = journal.entries(procedure_id, Step.COMMIT_GROUPS)
        own = ["--own-database", str(tmp_path / "own")]
        with command(bare_lab, "--resume", procedure_id, "--as", "operator", *own) as terminal:
            log_in(terminal, bare_lab, "operator")
            terminal.wait_for("resumed by operator", SECONDS)
            approve(terminal, bare_lab, "approver")
            code, last = terminal.finish(SECONDS)
        assert code == 0 and last.startswith("outcome=completed failing_step=- "), terminal.seen[-3000:]
        assert journal.entries(procedure_id, Step.COMMIT_GROUPS) == committed
        checked(made)


def test_interrupted_killed_and_aborted(bare_lab: Lab, tmp_path: Path) -> None:
    """Ctrl-C at the gate says how to go on; the abort behind the fence gives the source back as it was."""
    own = ["--own-database", str(tmp_path / "own")]
    made = Rehearsal(bare_lab.root, tmp_path, SEED, scale=0.2, groups=10)
    world = World(bare_lab, made.seed_topics().positions)
    before = world.look()
    with command(bare_lab, "planned_failover", "--as", "operator", "--conf", json.dumps(CONF), *own) as terminal:
        log_in(terminal, bare_lab, "operator")
        terminal.wait_for("User name of the person who answers: ", SECONDS)
        terminal.interrupt()
        code, _ = terminal.finish()
        found = re.search(r"run_procedure --resume (\S+) --as operator", terminal.seen)
        assert code == 130 and found, terminal.seen[-2000:]
    with command(bare_lab, "--resume", found[1], "--as", "operator", *own) as terminal:
        log_in(terminal, bare_lab, "operator")
        approve(terminal, bare_lab, "approver")
        wait_for_entry(bare_lab, Step.STOP_MIRROR_MAKER, Entry.OUTCOME)
        terminal.kill()
    assert world.look() != before
    with command(bare_lab, "abort_procedure", "--as", "operator", "--conf", json.dumps(CONF), *own) as terminal:
        log_in(terminal, bare_lab, "operator")
        code, last = terminal.finish(SECONDS)
    assert code == 0 and last.startswith("outcome=aborted "), terminal.seen[-3000:]
    assert world.look() == before


def test_a_dead_schedulers_run_is_taken_over(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """A living scheduler keeps the command out; a killed one's run is taken over, and it changes nothing later."""
    lab = Lab(fresh_lab("identity"))
    with rehearsal(lab.root, tmp_path) as made:
        with command(lab, "planned_failover", "--as", "operator", "--conf", json.dumps(CONF)) as terminal:
            code, last = terminal.finish()
            assert code == 2 and "The scheduler of the site's Airflow runs" in last
        run_id = _left_by_scheduler(lab)
        with command(lab, "--resume", run_id, "--as", "operator") as terminal:
            log_in(terminal, lab, "operator")
            terminal.wait_for("resumed by operator", SECONDS)
            approve(terminal, lab, "approver")
            code, last = terminal.finish(SECONDS)
        assert code == 0 and last.startswith("outcome=completed failing_step=- "), terminal.seen[-3000:]
        up(lab.root)
        _end_in_airflow(lab, run_id)
        assert Journal(f"sqlite:///{lab.journal}").entries(step=Step.RETURN_TO_SOURCE, kind=Entry.OUTCOME) == []
        checked(made)


def test_a_scheduler_that_comes_back_gets_its_run(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The command leaves the run to it, and Airflow brings it to its end."""
    lab = Lab(fresh_lab("identity"))
    with rehearsal(lab.root, tmp_path) as made:
        run_id = _left_by_scheduler(lab)
        with command(lab, "--resume", run_id, "--as", "operator") as terminal:
            log_in(terminal, lab, "operator")
            terminal.wait_for("User name of the person who answers: ", SECONDS)
            up(lab.root)
            code, last = terminal.finish(SECONDS)
        assert code == 1 and "the scheduler of the site's Airflow runs again and continues the run" in last, (
            terminal.seen[-3000:]
        )
        assert _end_in_airflow(lab, run_id) == "success"
        checked(made)


def _left_by_scheduler(lab: Lab) -> str:
    """A run whose scheduler was killed with -9 while clients are fenced."""
    run_id = _until_fenced(lab)
    os.kill(lab.processes.pid("airflow-scheduler"), signal.SIGKILL)
    return run_id


def _end_in_airflow(lab: Lab, run_id: str) -> str:
    """Wait until Airflow's own run has ended; how."""
    api, ends_at = AirflowClient.of(lab, "operator"), time.monotonic() + SECONDS
    while (state := api.run("planned_failover", run_id)["state"]) not in ("success", "failed"):
        assert time.monotonic() < ends_at, f"the run is {state}"
        time.sleep(1)
    return state


def _until_fenced(lab: Lab) -> str:
    """Start and approve a run in Airflow, and wait until clients are fenced."""
    operator, approver = AirflowClient.of(lab, "operator"), AirflowClient.of(lab, "approver")
    run_id = operator.trigger("planned_failover", CONF)
    ends_at = time.monotonic() + SECONDS
    while not (gates := approver.open_gates("planned_failover", run_id)):
        assert time.monotonic() < ends_at, "the gate was never reached"
        time.sleep(0.2)
    # An answer that comes while the gate's process still parks is lost.
    time.sleep(1)
    approver.answer("planned_failover", run_id, gates[0]["task_instance"], "Approve", {})
    wait_for_entry(lab, Step.DRAIN_CONSUMERS, Entry.INTENT)
    return run_id
