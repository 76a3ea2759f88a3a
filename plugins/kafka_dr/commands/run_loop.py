"""Runs one DAG run without scheduler and triggerer: what may run next, a process a task, retries, waits and
timeouts.

What may run, and what a run's state is, is Airflow's own code (`DagRun.update_state`); a task runs as LocalExecutor
runs it, under Airflow's own supervisor, so that one killed with -9 is tried again. `DAG.test()` runs tasks inside its
own process instead.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil
from airflow import settings
from airflow.executors.local_executor import LocalExecutor
from airflow.executors.workloads import ExecuteTask
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.sdk import timezone
from airflow.serialization.decoders import smart_decode_trigger_kwargs
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import select
from sqlalchemy.orm import Session

from kafka_dr.commands.own_airflow import PROCESS_CONTEXT, OwnApi
from kafka_dr.errors import BadInput
from kafka_dr.procedures import GATES

_LEFT_BEHIND = (TaskInstanceState.RUNNING, TaskInstanceState.RESTARTING)


@dataclass(frozen=True)
class TaskView:
    """One task as it stands."""

    id: Any
    task_id: str
    state: str | None
    try_number: int
    seconds: float


class RunLoop:
    """One run, looked at again and again by `once`."""

    def __init__(self, api: OwnApi, dag_id: str, run_id: str) -> None:
        """Prepare; nothing runs yet."""
        self._api, self._dag_id, self._run_id = api, dag_id, run_id
        self._executor = LocalExecutor(parallelism=1)
        self._timeouts = SchedulerJobRunner(job=Job(), executors=[self._executor])
        self._dags = DBDagBag()
        self._children: dict[int, Any] = {}

    def once(self, start: bool = True) -> tuple[str, list[TaskView]]:
        """Look once, and start what may run.

        Args:
            start: False starts nothing more.

        Returns:
            The run's state, and its tasks.
        """
        self._reap()
        self._timeouts.check_trigger_timeouts()
        self._timeouts.check_awaiting_input_timeouts()
        with create_session() as session:
            run = self._run(session)
            work = self._next(run, session) if start and run.state == DagRunState.RUNNING else []
            views = [_view(ti) for ti in run.get_task_instances(session=session)]
            state = str(run.state)
        for child in work:
            self._fork(child)
        return state, views

    @property
    def busy(self) -> bool:
        """Whether a process of ours runs."""
        return bool(self._children)

    def stop(self) -> None:
        """Kill what runs: every step may be killed anywhere, and is looked at again when the run is resumed."""
        for pid in list(self._children):
            family = _family(pid)
            for process in family:
                process.kill()
            psutil.wait_procs(family, 5)
        self._children.clear()

    # -- what runs next ------------------------------------------------------------------------------------------

    def _run(self, session: Session) -> DagRun:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == self._dag_id, DagRun.run_id == self._run_id))
        if run is None:
            raise BadInput(
                f"There is no run {self._run_id!a} of {self._dag_id}",
                "the metadata database knows of none",
                "See its id in the evidence folder's name, or in Airflow.",
            )
        run.dag = self._dags.get_dag_for_run(run, session=session)
        if run.state == DagRunState.QUEUED:
            run.set_state(DagRunState.RUNNING)
            run.start_date = run.start_date or timezone.utcnow()
            session.flush()
        return run

    def _next(self, run: DagRun, session: Session) -> list[Any]:
        ready, _ = run.update_state(session=session)
        run.schedule_tis(ready, session=session)
        session.flush()
        session.expire_all()
        run.dag = self._dags.get_dag_for_run(run, session=session)
        tasks = run.get_task_instances(session=session)
        scheduled = [
            ti for ti in tasks if ti.state == TaskInstanceState.SCHEDULED and ti.id not in self._children.values()
        ]
        if any(ti.task_id in GATES and ti.state is not None and ti.state not in State.finished for ti in tasks):
            # A run taken over after the opening asks its gates anew: nothing else goes on meanwhile.
            scheduled = [ti for ti in scheduled if ti.task_id in GATES]
        return [self._queued(ti, run) for ti in scheduled] + [
            ti.id for ti in tasks if ti.state == TaskInstanceState.DEFERRED and ti.id not in self._children.values()
        ]

    def _queued(self, ti: TaskInstance, run: DagRun) -> ExecuteTask:
        ti.state, ti.queued_dttm, ti.queued_by_job_id = TaskInstanceState.QUEUED, timezone.utcnow(), None
        return ExecuteTask.make(ti, generator=self._executor.jwt_generator)

    # -- processes -----------------------------------------------------------------------------------------------

    def _fork(self, work: ExecuteTask | Any) -> None:
        pid = os.fork()
        if pid:
            self._children[pid] = work.ti.id if isinstance(work, ExecuteTask) else work
            return
        try:
            self._become_child()
            if isinstance(work, ExecuteTask):
                os.environ.pop(PROCESS_CONTEXT, None)
                self._executor.run_workload(work, server=f"{self._api.url}/execution/")
            else:
                fire(work)
        except BaseException:  # noqa: BLE001 (a forked process must not return to its parent's code)
            traceback.print_exc()
        finally:
            os._exit(0)

    def _become_child(self) -> None:
        """A session of its own, since Ctrl-C on the terminal is the command's to answer; nothing of the command's
        connections.
        """
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        self._api.let_go()
        settings.engine.dispose(close=False)

    def _reap(self) -> None:
        for pid, ti_id in list(self._children.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[pid]
                self._told_nothing(ti_id)

    def _told_nothing(self, ti_id: Any) -> None:
        """A supervisor that was killed itself told Airflow nothing: its task failed, and is tried again if it may
        be.
        """
        with create_session() as session:
            ti = session.get(TaskInstance, ti_id)
            if ti is None or ti.state not in (TaskInstanceState.QUEUED, *_LEFT_BEHIND):
                return
            run = self._run(session)
            ti.task = run.dag.get_task(ti.task_id)
            ti.handle_failure("its process ended without a word", session=session)


def fire(ti_id: Any) -> None:
    """Wait for what a deferred task waits for, as the triggerer would, and wake it."""
    with create_session() as session:
        ti = session.get(TaskInstance, ti_id)
        row = ti.trigger if ti is not None else None
        if row is None:
            return
        trigger_id, kwargs = row.id, {name: smart_decode_trigger_kwargs(value) for name, value in row.kwargs.items()}
        module, _, name = row.classpath.rpartition(".")
        trigger = getattr(importlib.import_module(module), name)(**kwargs)
    event = asyncio.run(_first_event(trigger))
    if event is not None:
        Trigger.submit_event(trigger_id, event)


async def _first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event
    return None


def take_over(dag_id: str, run_id: str) -> list[str]:
    """Let tasks that a dead scheduler or a killed command left in the middle run again; return their names.

    A copy that still lives loses its place: Airflow ends it at its next heartbeat, and its epoch is an old one.
    """
    with create_session() as session:
        mine = (TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
        left = list(session.scalars(select(TaskInstance).where(*mine, TaskInstance.state.in_(_LEFT_BEHIND))))
        for ti in left:
            ti.prepare_db_for_next_try(session)
            ti.state, ti.queued_by_job_id, ti.external_executor_id = None, None, None
            ti.clear_next_method_args()
        waiting = list(
            session.scalars(select(TaskInstance).where(*mine, TaskInstance.state == TaskInstanceState.QUEUED))
        )
        for ti in waiting:
            ti.state, ti.queued_by_job_id = TaskInstanceState.SCHEDULED, None
        return sorted(ti.task_id for ti in (*left, *waiting))


def mark_done(dag_id: str, run_id: str, steps: Iterable[str]) -> None:
    """In a fresh database: what the journal knows to be done is not run again."""
    with create_session() as session:
        for ti in session.scalars(
            select(TaskInstance).where(
                TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.task_id.in_(list(steps))
            )
        ):
            ti.set_state(TaskInstanceState.SUCCESS, session=session)


def state_of(dag_id: str, run_id: str) -> str | None:
    """A run's state; None when Airflow knows no such run."""
    with create_session() as session:
        found = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        return None if found is None else str(found)


def known_run(run_id: str, dag_id: str | None = None) -> tuple[str, dict[str, Any]] | None:
    """DAG and params of a run that Airflow knows by this id; None when there is none, or more than one."""
    with create_session() as session:
        rows = session.execute(select(DagRun.dag_id, DagRun.conf).where(DagRun.run_id == run_id))
        found = [row for row in rows if dag_id in (None, row.dag_id)]
        return (found[0].dag_id, dict(found[0].conf or {})) if len(found) == 1 else None


def _view(ti: TaskInstance) -> TaskView:
    ended = ti.end_date or timezone.utcnow()
    return TaskView(
        ti.id,
        ti.task_id,
        None if ti.state is None else str(ti.state),
        ti.try_number,
        (ended - ti.start_date).total_seconds() if ti.start_date else 0.0,
    )


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
