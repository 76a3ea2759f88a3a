"""Runs single steps of a procedure, each in a forked process of its own, as told line by line on stdin; answers
on stdout.

What Airflow does around a step is left out (parking a question, waking after a wait, trying again): the driver does it.
A process can be killed with -9, or frozen until it is thawed, right after its n-th journal write or just before it
calls a hook, or killed just before a journal write; it can be refused every byte it writes to files, as on a full disk;
several processes of one step can be started at once; a task can run beside the steps.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import confluent_kafka.admin  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowException, AirflowFailException, DagRunTriggerException, TaskDeferred
from kafka_dr.hooks.journal.journal import Journal

WRITES = ("append", "take_lease", "release_lease", "pass_lease")
DAGS = Path(__file__).parents[3] / "dags"
#: How long one process of a step may take; one that takes longer is killed and counts as hung.
LONGEST_SECONDS = 300.0


@cache
def load_dag(dag_id: str) -> Any:
    """Return the DAG of a file, with tasks and order; a fork of this process has its modules already."""
    spec = importlib.util.spec_from_file_location(f"dag_{dag_id}", DAGS / f"{dag_id}.py")
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def count_writes(asked: dict[str, Any], tell: Callable[[dict[str, Any]], object]) -> Callable[[], int]:
    """Count the process's journal writes from now on; kill or freeze the process as requested.

    Args:
        asked: `kill_at`, `freeze_at`: after which write; `kill_unwritten`: before the first entry of this kind, such
            as `outcome`, or before the write of this number.
        tell: states how the process ends, before it is killed.
    """
    seen = [0]

    def die() -> None:
        tell({"state": "killed", "writes": seen[0]})
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def then_die(self: Journal, *args: Any, **kwargs: Any) -> Any:
            kind = args[2] if write.__name__ == "append" else None
            if asked.get("kill_unwritten", "none") in (seen[0] + 1, kind):
                die()
            done = write(self, *args, **kwargs)
            seen[0] += 1
            if seen[0] == asked.get("kill_at"):
                die()
            if seen[0] == asked.get("freeze_at"):
                os.kill(os.getpid(), signal.SIGSTOP)
            return done

        return then_die

    for name in WRITES:
        setattr(Journal, name, counted(getattr(Journal, name)))
    return lambda: seen[0]


def stop_before(hook: str, number: signal.Signals) -> None:
    """Send this process a signal at its n-th call of a hook, such as `brokers.acls.ClusterAcls.add#2`."""
    where, _, nth = hook.partition("#")
    module, kind, name = where.rsplit(".", 2)
    owner = getattr(importlib.import_module(f"kafka_dr.hooks.{module}"), kind)
    call, calls = getattr(owner, name), count(1)

    def stopped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(calls) == int(nth or 1):
            os.kill(os.getpid(), number)
        return call(self, *args, **kwargs)

    setattr(owner, name, stopped)


def look_ahead(days: float) -> None:
    """Let this process compare with a later time than that of what it writes."""
    now = Journal.now
    Journal.now = lambda self: now(self) + timedelta(days=days)


@contextmanager
def full_disk(full: bool) -> Iterator[None]:
    """Let no file of this process grow; Python ignores SIGXFSZ, so that a write fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def act(asked: dict[str, Any]) -> dict[str, Any]:
    """Run one step in this process; return how the step ended, in Airflow's terms."""
    task = load_dag(asked["dag_id"]).get_task(asked["step"])
    queued = datetime.fromisoformat(asked["triggered_at"])
    times = {"start_date": queued, "queued_at": queued, "run_after": queued, "clear_number": 0}
    run = SimpleNamespace(dag_id=asked["dag_id"], run_id=asked["run_id"], **times)
    ti = SimpleNamespace(
        id=f"{asked['run_id']}-{asked['step']}", try_number=asked["attempt"], **_other_runs(asked.get("runs", {}))
    )
    context = {"dag_run": run, "params": asked["params"], "ti": ti, "task_instance": ti}
    hitl.upsert_hitl_detail = lambda **_: None
    try:
        if "event" in asked:
            value = task.execute_complete(context, asked["event"])
        else:
            woken = asked.get("woken")
            value = task.execute(context) if woken is None else task.resume(context, **woken)
        return {"state": "done", "value": value}
    except TaskDeferred as deferred:
        return {"state": "waiting", "woken": deferred.kwargs or {}}
    except DagRunTriggerException as wanted:
        return {
            "state": "triggers",
            "dag_id": wanted.trigger_dag_id,
            "run_id": wanted.dag_run_id,
            "params": wanted.conf,
        }
    except AirflowFailException as error:
        return {"state": "refused", "text": str(error)}
    except AirflowException as error:
        return {"state": "again", "text": str(error)}
    except BaseException as error:
        if type(error).__name__ == "TaskAwaitingInput":
            return {
                "state": "parked",
                "subject": task.subject,
                "body": task.body,
                "seconds": task.response_timeout.total_seconds(),
            }
        return {"state": "again", "text": f"{type(error).__name__}: {error}"}


def _other_runs(states: dict[str, str]) -> dict[str, Any]:
    """Return what a task asks Airflow about other runs; `states`: run id -> state."""
    return {
        "get_dag": lambda dag_id: SimpleNamespace(dag_id=dag_id, is_paused=False),
        "get_dr_count": lambda dag_id, run_ids: sum(run_id in states for run_id in run_ids),
        "get_dagrun_state": lambda dag_id, run_id: states[run_id],
    }


def forked(asked: dict[str, Any], answer: Path, log: Path) -> int:
    """Start a process that runs the step; return its id."""
    pid = os.fork()
    if pid:
        return pid
    with (Path(os.devnull) if asked.get("full_disk") else log).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.update(asked["environment"])
    writes = count_writes(asked, lambda found: answer.write_text(json.dumps(found)))
    for key, number in (("kill_before", signal.SIGKILL), ("freeze_before", signal.SIGSTOP)):
        if key in asked:
            stop_before(asked[key], number)
    look_ahead(asked.get("days_ahead", 0.0))
    with full_disk(asked.get("full_disk", False)):
        found = act(asked)
    answer.write_text(json.dumps(found | {"writes": writes()}))
    os._exit(0)


def ended(pid: int, answer: Path, seconds: float) -> dict[str, Any]:
    """Wait for a process; return how it ended, or that it is frozen."""
    ends_at = time.monotonic() + seconds
    while (found := os.waitpid(pid, os.WNOHANG | os.WUNTRACED))[0] == 0:
        if time.monotonic() > ends_at:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"state": "hung"}
        time.sleep(0.005)
    if os.WIFSTOPPED(found[1]):
        return {"state": "frozen", "pid": pid, "answer": str(answer)}
    return json.loads(answer.read_text()) if answer.exists() else {"state": "killed"}


def served(asked: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Continue a process or start processes, as requested; return how each ended, or that it runs beside the steps."""
    seconds = asked.get("seconds", LONGEST_SECONDS)
    if "thaw" in asked:
        os.kill(asked["thaw"], signal.SIGCONT)
        return [ended(asked["thaw"], Path(asked["answer"]), seconds)]
    folder = Path(asked["folder"])
    answers = [folder / f".answer-{number}-{copy}" for copy in range(asked.get("copies", 1))]
    pids = [forked(asked, answer, folder / "steps.log") for answer in answers]
    if asked.get("beside"):
        return [
            {"state": "frozen", "pid": pid, "answer": str(answer)} for pid, answer in zip(pids, answers, strict=True)
        ]
    return [ended(pid, answer, seconds) for pid, answer in zip(pids, answers, strict=True)]


def main() -> None:
    """Serve requests until stdin ends. All imports are done once; no client exists here, so forking is safe."""
    replies, frozen = os.fdopen(os.dup(1), "w"), set()
    for path in sorted(DAGS.glob("*.py")):
        load_dag(path.stem)
    gc.freeze()
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        frozen.discard(asked.get("thaw"))
        found = served(asked, number)
        frozen |= {one["pid"] for one in found if one["state"] == "frozen"}
        print(json.dumps(found), file=replies, flush=True)
    for pid in frozen:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
