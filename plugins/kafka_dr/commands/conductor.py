"""Conducts one run on the terminal: who starts it, what is asked, what is printed, and how it ends."""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.configuration import conf as airflow_conf

from kafka_dr.commands.accounts import Account
from kafka_dr.commands.ending import Ending, ending_of
from kafka_dr.commands.own_airflow import (
    PROCESS_CONTEXT,
    OwnApi,
    find_dag,
    listen,
    make_database,
    own_url,
    point_to,
    scheduler_alive,
)
from kafka_dr.commands.own_database import SIMPLE, USERS
from kafka_dr.commands.questions import GateAsker
from kafka_dr.commands.run_loop import RunLoop, TaskView, known_run, mark_done, state_of, take_over
from kafka_dr.commands.terminal import Terminal
from kafka_dr.errors import BadInput, Refusal, SwitchbackError
from kafka_dr.hooks.procedure_journal import Journal, JournalEntry
from kafka_dr.operators.connections import Connections
from kafka_dr.operators.procedure_step import procedure_holding, request_of
from kafka_dr.params import Request, shown
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.settings import Topology, load_topology
from kafka_dr.topology import Deadlines
from kafka_dr.vocabulary import Entry, Step

_PAUSE = 0.1
_LOOK_FOR_SCHEDULER_SECONDS = 5.0
_COUNTDOWN_SECONDS = 10.0
_INTERRUPTED = 130
_ABORT = "abort_procedure"
_ENDED = ("success", "failed")


def conduct(options: argparse.Namespace, conf: dict[str, Any] | None) -> int:
    """Start or resume a run, and see it to its end; the exit code."""
    return Conductor(options).conduct(conf)


@dataclass(frozen=True)
class _Run:
    """Which run, and with which params it was or will be started."""

    dag_id: str
    run_id: str | None
    conf: dict[str, Any]
    opened: JournalEntry | None = None


class Conductor:
    """One command's life."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Look at what was asked; nothing is touched."""
        self._options = options
        self._topology: Topology = load_topology()
        self._printed: set[tuple[Any, ...]] = set()
        self._told: set[int] = set()
        self._count_at = self._scheduler_at = 0.0
        self._held = 0

    def conduct(self, conf: dict[str, Any] | None) -> int:
        """From the first check to the last line."""
        if conf is not None:
            request_of(self._topology, self._options.dag_id, conf)
        os.environ[PROCESS_CONTEXT] = "server"
        self._terminal = Terminal(0, os.dup(1))
        log = _redirect_output()
        try:
            self._prepare_database()
            self._journal = Journal(Connections().journal_url(self._topology.journal.connection))
            self._start_api(log)
            return self._with_api(conf)
        except SwitchbackError as error:
            self._terminal.say(f"nothing was begun: {type(error).__name__}: {error}")
            return 2
        except KeyboardInterrupt:
            self._terminal.say("stopped before any step was begun")
            return _INTERRUPTED

    def _start_api(self, log: Path) -> None:
        listening = listen()
        url = own_url(listening)
        if not airflow_conf.get("api_auth", "jwt_secret", fallback=""):
            os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_hex(32)
        os.environ.update(AIRFLOW__API__BASE_URL=url, AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/")
        point_to(url, self._topology)
        self._terminal.say(f"Airflow's API for this command starts on {url}; logs: {log}")
        # What this process has connected so far is not the child's to use.
        settings.engine.dispose()  # type: ignore[union-attr]  # Airflow made it when it was imported
        self._api = OwnApi(listening)

    def _with_api(self, conf: dict[str, Any] | None) -> int:
        try:
            return self._conduct(conf)
        finally:
            self._api.stop()

    def _prepare_database(self) -> None:
        if self._options.own_database:
            if airflow_conf.get("core", "auth_manager") != SIMPLE:
                raise Refusal(
                    "Nobody can log in to a fresh database",
                    f"there is no {USERS} in {self._options.own_database}",
                    f'Write {USERS} there: {{"user name": "password", ...}} for who starts, who approves, and the login'
                    f" of {self._topology.airflow_api.connection}; chmod 600.",
                )
            make_database()
        elif not self._options.anyway and scheduler_alive(
            lambda seconds: self._terminal.say(
                f"Airflow's scheduler was alive a moment ago: looking for up to {seconds:.0f} s whether it still is"
            )
        ):
            raise Refusal(
                "Airflow's scheduler is alive",
                "its heartbeat goes on",
                "Use Airflow: trigger or clear the run there. (--anyway runs beside it.)",
            )

    # -- beginning -----------------------------------------------------------------------------------------------

    def _conduct(self, conf: dict[str, Any] | None) -> int:
        wanted = self._wanted(conf)
        dag = find_dag(wanted.dag_id)
        wanted = replace(wanted, conf=_stateable(dag.params, wanted.conf)) if wanted.opened else wanted
        _refuse_unknown(dag.params, wanted.conf)
        self._api.wait_until_ready()
        account = self._log_in()
        if wanted.run_id is not None:
            self._held = _one_command_only(Identity(wanted.dag_id, wanted.run_id).procedure_id)
        run_id = self._begin(account, wanted)
        self._run, self._conf = (wanted.dag_id, run_id), wanted.conf
        self._resume_with = f"--resume {run_id} --as {account.username}" + (
            f" --own-database {self._options.own_database}" if self._options.own_database else ""
        )
        self._held = self._held or _one_command_only(Identity(*self._run).procedure_id)
        self._procedure = self._watched()
        settings.engine.dispose()  # type: ignore[union-attr]  # Airflow made it when it was imported
        loop = RunLoop(self._api, *self._run)
        try:
            return self._follow(loop)
        except KeyboardInterrupt:
            return self._interrupted(loop)
        except SwitchbackError as error:
            self._terminal.say(f"The command stops: {error}")
            return self._left(loop)

    def _wanted(self, conf: dict[str, Any] | None) -> _Run:
        if conf is not None:
            return _Run(self._options.dag_id, None, conf)
        name = self._options.resume
        opened = next(
            (
                e
                for e in reversed(self._journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED))
                if name in (e.procedure_id, e.payload["run_id"])
            ),
            None,
        )
        if opened is not None:
            return _Run(
                opened.payload["dag_id"],
                opened.payload["run_id"],
                conf_of(Request(**opened.payload["request"]), self._topology),
                opened,
            )
        known = known_run(name, self._options.dag_id)
        if known is None:
            raise BadInput(
                f"There is no run {name!a}",
                "neither the journal nor Airflow's database knows it",
                "See the ids of procedures in the evidence folder.",
            )
        return _Run(known[0], name, known[1])

    def _log_in(self) -> Account:
        while True:
            user = self._options.user or self._answer("Your user name: ")
            try:
                return Account(self._api.url, user, self._answer(f"Password of {user}: ", secret=True))
            except Refusal as error:
                if self._terminal.ended or not os.isatty(0):
                    raise
                self._terminal.say(str(error))

    def _answer(self, question: str, secret: bool = False) -> str:
        answer = self._terminal.ask(question, lambda: True, secret)
        if answer is None:
            raise BadInput(
                "Nobody answers",
                f"standard input ended at: {question.strip()}",
                "Run the command on a terminal, or give the answers line by line.",
            )
        return answer

    def _begin(self, account: Account, wanted: _Run) -> str:
        if wanted.run_id is None:
            run_id = account.trigger(wanted.dag_id, wanted.conf)
            self._terminal.say(f"{wanted.dag_id} {run_id} started by {account.username}")
            return run_id
        state = state_of(wanted.dag_id, wanted.run_id)
        if state is None:
            return self._begin_again(account, wanted)
        self._refuse_if_closed(wanted)
        account.note(
            wanted.dag_id,
            wanted.run_id,
            f"Taken over on the command line by {account.username}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        )
        if state in _ENDED:
            account.clear_failed(wanted.dag_id, wanted.run_id)
        again = take_over(wanted.dag_id, wanted.run_id)
        self._terminal.say(
            f"{wanted.dag_id} {wanted.run_id} taken over by {account.username}"
            + (f"; begun again: {', '.join(again)}" if again else "")
        )
        return wanted.run_id

    def _begin_again(self, account: Account, wanted: _Run) -> str:
        """A procedure that this database does not know: the same run id makes it the same procedure."""
        if wanted.opened is None:
            raise BadInput(
                f"There is no run {wanted.run_id!a} of {wanted.dag_id}",
                "neither the journal nor Airflow's database knows it",
                "See the ids of procedures in the evidence folder.",
            )
        self._refuse_if_closed(wanted)
        run_id = account.trigger(wanted.dag_id, wanted.conf, wanted.run_id)
        done = _done_for_good(self._journal.entries(wanted.opened.procedure_id))
        mark_done(wanted.dag_id, run_id, done)
        self._terminal.say(
            f"{wanted.dag_id} {run_id} made anew by {account.username}; the journal knows what was done, approvals are"
            " asked for again"
        )
        return run_id

    def _refuse_if_closed(self, wanted: _Run) -> None:
        """A procedure that has let go of its lease is over."""
        procedure_id = Identity(wanted.dag_id, wanted.run_id or "").procedure_id
        pair = next(
            (e.payload["pair"] for e in self._journal.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OUTCOME)), None
        )
        lease = self._journal.lease(pair) if pair else None
        if pair and (lease is None or lease.holder != procedure_id or lease.released_at is not None):
            raise Refusal(
                f"{procedure_id} has ended",
                f"outcome {lease.outcome if lease and lease.holder == procedure_id else 'unknown'}",
                "See its evidence; start a new procedure.",
            )

    def _watched(self) -> Run | None:
        """The procedure whose journal tells how far it is: of an abort, the aborted one."""
        if self._run[0] == _ABORT:
            try:
                return procedure_holding(str(self._conf.get("source")), str(self._conf.get("target")))
            except SwitchbackError:
                return None
        request = request_of(self._topology, self._run[0], self._conf)
        return Run.connected(Identity(*self._run), request, self._topology, Connections())

    # -- following -----------------------------------------------------------------------------------------------

    def _follow(self, loop: RunLoop) -> int:
        asker = GateAsker(self._terminal, self._api.url, *self._run)
        state, tasks = loop.once()
        while state not in _ENDED or loop.busy:
            self._print(tasks)
            if self._scheduler_is_back():
                return self._handed_over(loop)
            gate = next((task for task in tasks if task.state == "awaiting_input"), None)
            if gate is not None and not loop.busy:
                asker.ask(gate, partial(self._still_waits, loop, gate))
            time.sleep(_PAUSE)
            state, tasks = loop.once()
        self._print(tasks)
        return self._say_ending(ending_of(self._topology, self._evidence_id(), self._run[0], state, tasks))

    def _still_waits(self, loop: RunLoop, gate: TaskView) -> bool:
        """Called while a person thinks: the run goes on."""
        _, tasks = loop.once()
        self._print(tasks)
        return any((task.id, task.state) == (gate.id, gate.state) for task in tasks)

    def _print(self, tasks: list[TaskView]) -> None:
        for task in tasks:
            key = (task.task_id, task.try_number, task.state)
            if task.state in (None, "scheduled", "queued", "deferred") or key in self._printed:
                continue
            self._printed.add(key)
            took = f"{task.seconds:8.1f} s" if task.state != "running" else ""
            self._terminal.say(f"{task.task_id:<28} {task.state:<16}{took}")
            self._explain(task)
        self._count_down()

    def _explain(self, task: TaskView) -> None:
        """Why a step did not do its work, in the journal's words."""
        if self._procedure is None or task.state not in ("failed", "up_for_retry"):
            return
        for entry in self._procedure.journal.entries(self._procedure.id, task.task_id)[-3:]:
            if entry.sequence in self._told or entry.kind not in (Entry.REFUSAL, Entry.FAILURE, Entry.NOTE):
                continue
            self._told.add(entry.sequence)
            said = [
                str(entry.payload[key])
                for key in ("reason", "seen", "next_step", "answer_ignored")
                if entry.payload.get(key)
            ]
            self._terminal.say(f"    {task.task_id}: {'. '.join(said)}")

    def _count_down(self) -> None:
        if self._procedure is None or time.monotonic() < self._count_at:
            return
        self._count_at = time.monotonic() + _COUNTDOWN_SECONDS
        deadline = self._procedure.progress.fence_deadline()
        over = (
            self._procedure.progress.began(Step.OPEN_TARGET) is not None
            or self._procedure.progress.began(Step.RETURN_TO_SOURCE) is not None
        )
        if deadline is not None and not over:
            self._terminal.say(
                f"    clients are fenced; in {max(0.0, deadline - time.time()):.0f} s the procedure returns to the"
                " source by itself"
            )

    def _scheduler_is_back(self) -> bool:
        if self._options.anyway or self._options.own_database or time.monotonic() < self._scheduler_at:
            return False
        self._scheduler_at = time.monotonic() + _LOOK_FOR_SCHEDULER_SECONDS
        return scheduler_alive()

    # -- ending --------------------------------------------------------------------------------------------------

    def _handed_over(self, loop: RunLoop) -> int:
        self._terminal.say("Airflow's scheduler is back; the step that runs here is waited for")
        while loop.busy:
            loop.once(start=False)
            time.sleep(_PAUSE)
        self._terminal.say(
            "outcome=failed failing_step=- reason=not ended here: Airflow's scheduler is back and goes on with the run"
        )
        return 1

    def _interrupted(self, loop: RunLoop) -> int:
        self._terminal.write("\n")
        self._left(loop)
        return _INTERRUPTED

    def _left(self, loop: RunLoop) -> int:
        loop.stop()
        fenced = (
            self._procedure is not None
            and self._procedure.progress.fence_deadline() is not None
            and self._procedure.progress.began(Step.RETURN_TO_SOURCE) is None
        )
        if fenced:
            self._terminal.say(
                "CLIENTS MAY BE FENCED, and nothing returns by itself while no command and no Airflow runs"
            )
        self._terminal.say(f"Go on with: python -m kafka_dr.commands.run_procedure {self._resume_with}")
        self._terminal.say("outcome=failed failing_step=- reason=the command was stopped; nothing is lost")
        return 1

    def _evidence_id(self) -> str | None:
        return self._procedure.id if self._procedure is not None else None

    def _say_ending(self, ending: Ending) -> int:
        if ending.outcome == "failed" and self._run[0] != _ABORT:
            self._terminal.say(
                f"When what stopped it is put right: python -m kafka_dr.commands.run_procedure {self._resume_with}"
            )
        self._terminal.write(
            f"outcome={ending.outcome} failing_step={ending.step or '-'} reason={ending.reason or '-'}\n"
        )
        return 0 if ending.good else 1


def _redirect_output() -> Path:
    """What Airflow and the steps print goes to a file; the terminal belongs to the procedure."""
    folder = Path(airflow_conf.get("logging", "base_log_folder"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"run_procedure-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    return path


def _one_command_only(procedure_id: str) -> int:
    """A lock that ends with this process and that no child inherits; its descriptor."""
    path = Path(airflow_conf.get("logging", "base_log_folder")) / f"run_procedure-{procedure_id}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Refusal(
            "Another command already runs this procedure",
            f"{path} is locked",
            "Go on there, or end that command first.",
        ) from None
    return file


def _refuse_unknown(params: Any, conf: dict[str, Any]) -> None:
    unknown = sorted(set(conf) - set(params))
    if unknown:
        raise BadInput(
            f"{', '.join(map(shown, unknown))}: no such param",
            f"params of this DAG: {', '.join(sorted(params))}",
            "Correct --conf; nothing was touched.",
        )


def _stateable(params: Any, conf: dict[str, Any]) -> dict[str, Any]:
    """Without the deadlines that only the topology states: those are today's, whatever they were when the run began."""
    return {name: value for name, value in conf.items() if name in params or name not in Deadlines.model_fields}


def conf_of(request: Request, topology: Topology) -> dict[str, Any]:
    """The params that a procedure was started with, as far as they say anything."""
    told = request.model_dump(mode="json")
    stated = topology.deadlines.model_dump()
    deadlines = {name: seconds for name, seconds in told.pop("deadlines").items() if stated[name] != seconds}
    return {
        name: value
        for name, value in {**told, **told.pop("choices"), **deadlines}.items()
        if name != "choices" and value not in ({}, None, False)
    }


def _done_for_good(entries: list[JournalEntry]) -> list[str]:
    """Steps that a run made anew must not look at again: once the target is open, everything before the opening but
    the gates.
    """
    if not any(e.step == Step.OPEN_TARGET and e.kind == Entry.INTENT for e in entries):
        return []
    asked = {e.step for e in entries if e.kind == Entry.APPROVAL}
    order = [step.value for step in Step]
    before = order[: order.index(Step.OPEN_TARGET)]
    done = {e.step for e in entries if e.kind == Entry.OUTCOME}
    return [step for step in before if step in done - asked]
