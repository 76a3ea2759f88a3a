"""Runs single steps of a procedure, each in a forked process of its own, as told line by line on stdin; answers on stdout.

What Airflow does around a step is left out (parking a question, waking after a wait, trying again): the driver does it.
A process can be killed with -9 right after its n-th journal write, and several processes of one step can be started at once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import airflow.providers.standard.operators.hitl as hitl
import confluent_kafka.admin  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from kafka_dr.hooks.procedure_journal import Journal

WRITES = ("append", "take_lease", "release_lease")
DAGS = Path(__file__).parents[2] / "dags"


def load_dag(dag_id: str) -> Any:
    """The DAG of a file, tasks and order and all."""
    spec = importlib.util.spec_from_file_location(f"dag_{dag_id}", DAGS / f"{dag_id}.py")
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def count_writes(kill_at: int | None, freeze_at: int | None) -> Callable[[], int]:
    """Count the process's journal writes from now on; after the given one kill, or freeze, the process."""
    seen = [0]

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def then_die(self: Journal, *args: Any, **kwargs: Any) -> Any:
            done = write(self, *args, **kwargs)
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if seen[0] == freeze_at:
                os.kill(os.getpid(), signal.SIGSTOP)
            return done

        return then_die

    for name in WRITES:
        setattr(Journal, name, counted(getattr(Journal, name)))
    return lambda: seen[0]


def act(asked: dict[str, Any]) -> dict[str, Any]:
    """Run one step in this process; say how it ended, in Airflow's terms."""
    task = load_dag(asked["dag_id"]).get_task(asked["step"])
    queued = datetime.fromisoformat(asked["triggered_at"])
    run = SimpleNamespace(dag_id=asked["dag_id"], run_id=asked["run_id"], start_date=queued, queued_at=queued)
    ti = SimpleNamespace(id=f"{asked['run_id']}-{asked['step']}", try_number=asked["attempt"])
    context = {"dag_run": run, "params": asked["params"], "ti": ti, "task_instance": ti}
    hitl.upsert_hitl_detail = lambda **_: None
    try:
        if "event" in asked:
            task.execute_complete(context, asked["event"])
        else:
            getattr(task, "resume" if asked.get("woken") else "execute")(context)
        return {"state": "done"}
    except TaskDeferred:
        return {"state": "waiting"}
    except AirflowFailException as error:
        return {"state": "refused", "text": str(error)}
    except AirflowException as error:
        return {"state": "again", "text": str(error)}
    except BaseException as error:
        if type(error).__name__ == "TaskAwaitingInput":
            return {"state": "parked", "subject": task.subject, "body": task.body}
        return {"state": "again", "text": f"{type(error).__name__}: {error}"}


def forked(asked: dict[str, Any], answer: Path, log: Path) -> int:
    """Start a process that runs the step; return its id."""
    pid = os.fork()
    if pid:
        return pid
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.update(asked["environment"])
    writes = count_writes(asked.get("kill_at"), asked.get("freeze_at"))
    found = act(asked)
    answer.write_text(json.dumps(found | {"writes": writes()}))
    os._exit(0)


def main() -> None:
    """Serve until stdin ends. The imports above were paid once; no client exists here, so forking is safe."""
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked["folder"])
        answers = [folder / f".answer-{n}" for n in range(asked.get("copies", 1))]
        for answer in answers:
            answer.unlink(missing_ok=True)
        pids = [forked(asked, answer, folder / "steps.log") for answer in answers]
        if asked.get("freeze_at"):
            os.waitpid(pids[0], os.WUNTRACED)
            print(json.dumps([{"state": "frozen", "pid": pids[0]}]), file=replies, flush=True)
            continue
        for pid in pids:
            os.waitpid(pid, 0)
        print(json.dumps([json.loads(a.read_text()) if a.exists() else {"state": "killed"} for a in answers]), file=replies, flush=True)


if __name__ == "__main__":
    main()
