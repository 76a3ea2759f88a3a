"""Starts or resumes one run in the command's Airflow, asks its gates' questions, prints its steps and outcome."""

from __future__ import annotations

import argparse
import fcntl
import os
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from airflow.configuration import conf as airflow_conf

from kafka_dr.commands.without_airflow.accounts import Account
from kafka_dr.commands.without_airflow.ending import Ending, ending_of
from kafka_dr.commands.without_airflow.own_database import SIMPLE, USERS
from kafka_dr.commands.without_airflow.private_airflow import (
    PROCESS_CONTEXT,
    PrivateAirflow,
    exported_connections,
    free_url,
    point_to,
)
from kafka_dr.commands.without_airflow.questions import GateAsker
from kafka_dr.commands.without_airflow.requested_run import (
    RequestedRun,
    begun_run,
    gates_to_ask,
    has_run,
    new_run,
    read_run,
    steps_done_for_good,
    write_run,
)
from kafka_dr.commands.without_airflow.scheduler_check import SchedulerCheck
from kafka_dr.commands.without_airflow.task_log import read_failure
from kafka_dr.commands.without_airflow.terminal import Terminal, redirect_output
from kafka_dr.config.settings import Topology, load_topology
from kafka_dr.connections import Connections
from kafka_dr.errors import BadInput, Refusal, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.airflow_api import AirflowApi, TaskInstance
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import AnswerIgnored, Fact, StepFailed, StepRefused, newest_fact
from kafka_dr.procedure.find import procedure_holding, request_of
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.vocabulary import Step

_LOOK_SECONDS = 0.7
_SILENT_SECONDS = 60.0
_COUNTDOWN_SECONDS = 10.0
_INTERRUPTED = 130
_ABORT = "abort_procedure"
_ENDED = ("success", "failed")


def conduct_run(options: argparse.Namespace, conf: dict[str, Any] | None, folder: Path) -> int:
    """Start or resume a run; return 0 after a good end, 1 after a bad end, 2 if nothing was begun, 130 after Ctrl-C."""
    return Conductor(options, folder).conduct(conf)


class Conductor:
    """One call of the command run_procedure, from its first check to its exit code."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Read the topology and store the options; nothing is changed yet."""
        self._options, self._folder = options, folder
        self._topology: Topology = load_topology()
        self._scheduler = None if options.anyway or options.own_database else SchedulerCheck()
        self._printed: set[tuple[Any, ...]] = set()
        self._explained: set[int] = set()
        self._count_at = 0.0
        self._user = options.user or "USER"
        self._procedure: Run | None = None
        self._may_have_run = False  # whether steps of the run may have run; then no message says "nothing was begun"
        self._seen: tuple[str, list[TaskInstance]] = ("queued", [])

    def conduct(self, conf: dict[str, Any] | None) -> int:
        """Do all that the command does; return 0, 1, 2 or 130 (good end, other end, nothing begun, Ctrl-C).

        Args:
            conf: the params of a new run; None to resume a run.
        """
        if conf is not None:
            request_of(self._topology, self._options.dag_id, conf)
        os.environ[PROCESS_CONTEXT] = "server"
        self._terminal = Terminal(0, os.dup(1))
        redirect_output(self._folder)
        try:
            self._refuse_without_users()
            if self._scheduler is not None:
                self._scheduler.refuse_if_alive(self._terminal.say)
            self._journal = Journal(Connections().journal_url(self._topology.journal.connection))
            self._run = self._requested_run(conf)
            self._held = _one_command_only(self._run.procedure_id)
            self._start_airflow()
            try:
                return self._conduct()
            except (SwitchbackError, KeyboardInterrupt) as error:
                if not self._may_have_run:
                    raise
                return self._report_unfinished(error)
            finally:
                self._airflow.stop()
        except SwitchbackError as error:
            self._terminal.say(f"nothing was begun: {type(error).__name__}: {error}")
            return 2
        except KeyboardInterrupt:
            self._terminal.say("stopped" if self._may_have_run else "stopped before any step began")
            return _INTERRUPTED

    def _refuse_without_users(self) -> None:
        if airflow_conf.get("core", "auth_manager") != SIMPLE:
            raise Refusal(
                "No user can log in to the command's Airflow",
                f"the site's Airflow has its users not in its settings, and there is no {USERS} in {self._folder}",
                f'Write {self._folder / USERS} as {{"user name": "password", ...}}: the user who starts, the user who'
                f" approves, and the login of {self._topology.airflow_api.connection}. Then run chmod 600 on the file.",
            )

    def _requested_run(self, conf: dict[str, Any] | None) -> RequestedRun:
        if conf is not None:
            return new_run(self._options.dag_id, conf)
        return begun_run(self._options.resume, self._journal, self._topology, self._folder)

    def _start_airflow(self) -> None:
        self._home = self._folder / self._run.procedure_id
        self._home.mkdir(exist_ok=True, mode=0o700)
        # Continue the folder's run only if no other Airflow can have continued the run, and run.json was written.
        self._continues_run = has_run(self._home) and bool(self._run.started_here or self._options.own_database)
        if not self._continues_run:
            for file in self._home.glob("airflow.db*"):
                file.unlink()
        self._url = free_url()
        connections = {} if self._options.own_database else exported_connections(self._topology)
        point_to(self._url, self._topology)
        self._terminal.say(f"The command's Airflow starts; its database and logs: {self._home}")
        # A run that this folder's database has already goes on as soon as the scheduler starts, before the login.
        self._may_have_run = self._continues_run
        self._airflow = PrivateAirflow(self._home, self._url, connections)

    # -- beginning -----------------------------------------------------------------------------------------------

    def _conduct(self) -> int:
        self._procedure = self._observed_procedure()
        user = self._options.user or self._answer("Your user name: ")
        password = self._answer(f"Password of {user}: ", secret=True)
        self._airflow.wait_until_ready(self._terminal.say)
        self._account = self._log_in(user, password)
        self._user = self._account.username
        self._api = AirflowApi(*Connections().api_login(self._topology.airflow_api.connection))
        if self._continues_run:
            self._take_over()
        else:
            self._begin()
        return self._follow()

    def _log_in(self, user: str, password: str) -> Account:
        while True:
            try:
                return Account(self._url, user, password)
            except Refusal as error:
                if self._terminal.ended or not os.isatty(0):
                    raise
                self._terminal.say(str(error))
            user = self._options.user or self._answer("Your user name: ")
            password = self._answer(f"Password of {user}: ", secret=True)

    def _answer(self, question: str, secret: bool = False) -> str:
        answer = self._terminal.ask(question, lambda: True, secret)
        if answer is None:
            raise BadInput(
                "No answer was given",
                f"standard input ended at: {question.strip()}",
                "Run the command on a terminal, or give the answers on standard input, one on each line.",
            )
        return answer

    def _begin(self) -> None:
        """Trigger the run in the command's Airflow; if its open_target had begun, first run only its approved gates."""
        run, account, after_gates = self._run, self._account, list[str]()
        entries = self._journal.entries(run.procedure_id)
        done, gates = steps_done_for_good(entries), gates_to_ask(entries)
        if done:
            # Only the gates run at first: all other steps are marked as done. After the answers, steps that the journal
            # does not show as done are cleared.
            account.pause(run.dag_id, paused=True)
        # Without an answer, Airflow may have created the run; an answer that refuses the run proves that it did not.
        self._may_have_run = True
        try:
            account.trigger(run.dag_id, run.conf, run.run_id)
        except (BadInput, Refusal):
            self._may_have_run = False
            raise
        if done:
            for task in self._api.task_instances(run.dag_id, run.run_id):
                if task.task_id not in gates:
                    account.mark_done(run.dag_id, run.run_id, task.task_id)
                    self._printed.add((task.task_id, task.try_number, "success"))
                if task.task_id not in done | gates:
                    after_gates.append(task.task_id)
            account.pause(run.dag_id, paused=False)
        write_run(self._home, run, after_gates)
        self._after_gates = after_gates
        self._terminal.say(
            f"{run.dag_id} {run.run_id} resumed by {account.username}; no step that is done in the journal is"
            " repeated, approvals are asked for again"
            if self._options.resume
            else f"{run.dag_id} {run.run_id} started by {account.username}"
        )

    def _take_over(self) -> None:
        """Continue the run that is in this folder's Airflow database; if the run has ended, clear its failed tasks."""
        run, account = self._run, self._account
        _, self._after_gates = read_run(self._home)
        account.pause(run.dag_id, paused=False)
        if self._api.dag_run(run.dag_id, run.run_id).state in _ENDED:
            account.clear_failed(run.dag_id, run.run_id)
        self._terminal.say(f"{run.dag_id} {run.run_id} resumed by {account.username}")

    def _observed_procedure(self) -> Run | None:
        """Return the run's procedure; for abort_procedure the procedure to abort, None if this cannot be read."""
        run = self._run
        if run.dag_id == _ABORT:
            try:
                return procedure_holding(str(run.conf.get("source")), str(run.conf.get("target")))
            except SwitchbackError:
                return None
        request = request_of(self._topology, run.dag_id, run.conf)
        return Run.connected(Identity(run.dag_id, run.run_id), request, self._topology, Connections())

    # -- following -----------------------------------------------------------------------------------------------

    def _follow(self) -> int:
        asker = GateAsker(self._terminal, self._api, self._url, self._run)
        parked: TaskInstance | None = None
        self._looked_at = time.monotonic()
        while True:
            state, tasks = self._look()
            self._print(tasks)
            if state in _ENDED and not self._after_gates:
                failure = partial(read_failure, self._home / "logs", self._run.dag_id, self._run.run_id)
                observed = self._procedure.id if self._procedure else None
                ending = ending_of(self._topology, observed, self._run.dag_id, state, tasks, failure)
                return self._say_ending(ending)
            if state in _ENDED:
                self._account.clear(self._run.dag_id, self._run.run_id, self._after_gates)
                self._after_gates = []
                write_run(self._home, self._run, [])
            if self._scheduler_is_back():
                return self._hand_over()
            gate = next((task for task in tasks if task.state == "awaiting_input"), None)
            # Ask only a gate that was read as waiting twice, as an answer to a process still suspending is lost.
            if gate is not None and gate == parked:
                asker.ask(gate, partial(self._still_waits, gate))
            parked = gate
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> tuple[str, list[TaskInstance]]:
        """Return the run's state and tasks; while the API is silent its last answer, after 60 s SystemUnavailable."""
        self._airflow.must_live()
        try:
            if time.monotonic() >= self._looked_at + _LOOK_SECONDS:
                run = (self._run.dag_id, self._run.run_id)
                self._seen = (self._api.dag_run(*run).state, self._api.task_instances(*run))
                self._looked_at = time.monotonic()
        except SystemUnavailable:
            if time.monotonic() > self._looked_at + _SILENT_SECONDS:
                raise
        return self._seen

    def _still_waits(self, gate: TaskInstance) -> bool:
        """Print the run's progress; return False if the gate no longer waits, or the site's scheduler runs again."""
        _, tasks = self._look()
        self._print(tasks)
        return gate in tasks and not self._scheduler_is_back()

    def _scheduler_is_back(self) -> bool:
        """Whether the site's scheduler runs again; always False if the site's database does not have this run."""
        return self._scheduler is not None and not self._run.started_here and self._scheduler.is_back()

    def _print(self, tasks: list[TaskInstance]) -> None:
        for task in tasks:
            key = (task.task_id, task.try_number, task.state)
            if task.state in (None, "scheduled", "queued", "deferred") or key in self._printed:
                continue
            self._printed.add(key)
            took = f"{_seconds(task):8.1f} s" if task.state != "running" else ""
            self._terminal.say(f"{task.task_id:<28} {task.state:<16}{took}")
            self._explain(task)
        self._count_down()

    def _explain(self, task: TaskInstance) -> None:
        """Print the reasons, from the journal, why a step failed or is tried again; each journal entry once."""
        if self._procedure is None or task.state not in ("failed", "up_for_retry"):
            return
        for entry in self._procedure.journal.entries(self._procedure.id, task.task_id)[-3:]:
            reasons = _reason_lines(newest_fact([entry], Fact))
            if reasons and entry.sequence not in self._explained:
                self._explained.add(entry.sequence)
                self._terminal.say(f"    {task.task_id}: {'. '.join(reasons)}")

    def _count_down(self) -> None:
        if self._procedure is None or time.monotonic() < self._count_at:
            return
        self._count_at = time.monotonic() + _COUNTDOWN_SECONDS
        deadline = self._procedure.progress.fence_deadline()
        decided = (
            self._procedure.progress.began(Step.OPEN_TARGET) is not None
            or self._procedure.progress.began(Step.RETURN_TO_SOURCE) is not None
        )
        if deadline is not None and not decided:
            seconds = max(0.0, deadline - self._procedure.progress.now())
            self._terminal.say(
                f"    clients are fenced; in {seconds:.0f} s the procedure returns to the source by itself"
            )

    # -- ending --------------------------------------------------------------------------------------------------

    def _hand_over(self) -> int:
        self._terminal.say("The scheduler of the site's Airflow runs again; waiting for the end of the present step")
        self._account.pause(self._run.dag_id, paused=True)
        while any(task.state in ("queued", "running") for task in self._look()[1]):
            time.sleep(_LOOK_SECONDS)
        self._terminal.say(
            "outcome=failed failing_step=- reason=the scheduler of the site's Airflow runs again and continues the run"
        )
        return 1

    def _report_unfinished(self, error: SwitchbackError | KeyboardInterrupt) -> int:
        """Print that the command stops, and the command that continues the run; return the exit code, 1 or 130."""
        interrupted = isinstance(error, KeyboardInterrupt)
        if interrupted:
            self._terminal.write("\n")
        else:
            self._terminal.say(f"The command stops: {error}")
        self._airflow.stop()
        if self._may_be_fenced():
            self._terminal.say(
                "CLIENTS MAY BE FENCED, and no process returns clients to the source until the procedure continues"
            )
        self._terminal.say(f"Continue with: {self._resume_command()}")
        self._terminal.say(
            "outcome=failed failing_step=- reason=the command was stopped; the journal has what was done"
        )
        return _INTERRUPTED if interrupted else 1

    def _may_be_fenced(self) -> bool:
        """Whether the procedure has begun a fence and no rollback; also True if the journal cannot be read."""
        progress = None if self._procedure is None else self._procedure.progress
        try:
            return bool(progress and progress.fence_deadline() and progress.began(Step.RETURN_TO_SOURCE) is None)
        except SwitchbackError:
            return True

    def _resume_command(self) -> str:
        own_database = f" --own-database {self._options.own_database}" if self._options.own_database else ""
        return f"python -m kafka_dr.commands.run_procedure --resume {self._run.run_id} --as {self._user}{own_database}"

    def _say_ending(self, ending: Ending) -> int:
        if ending.outcome == "failed" and self._run.dag_id != _ABORT:
            self._terminal.say(f"When the cause is mended, continue with: {self._resume_command()}")
        self._terminal.write(
            f"outcome={ending.outcome} failing_step={ending.step or '-'} reason={ending.reason or '-'}\n"
        )
        return 0 if ending.good else 1


def _reason_lines(fact: Fact | None) -> list[str]:
    """Return why a step was refused or failed, or why a gate asks again; [] for any other journal entry."""
    match fact:
        case StepRefused() | StepFailed():
            return [word for word in (fact.reason, fact.seen, fact.next_step) if word]
        case AnswerIgnored():
            return [fact.answer_ignored]
    return []


def _seconds(task: TaskInstance) -> float:
    return ((task.end_date or datetime.now(UTC)) - task.start_date).total_seconds() if task.start_date else 0.0


def _one_command_only(procedure_id: str) -> int:
    """Lock a procedure against other commands on the same host; return the lock file's descriptor.

    Refusal if the file is locked. The lock ends with this process; child processes do not inherit the lock.
    """
    path = Path(airflow_conf.get("logging", "base_log_folder")) / f"run_procedure-{procedure_id}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refusal(
            "Another command already runs this procedure",
            f"{path} is locked",
            "Continue on the terminal of that command, or end that command first.",
        ) from None
    return file
