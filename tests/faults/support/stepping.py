"""Drives a procedure's steps as Airflow would: in order, tried again after a kill, returned after a refusal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Self

from kafka_dr.procedures import PROCEDURES

from lab.environment.airflow_settings import own_environment
from lab.environment.state import Lab

ROOT = Path(__file__).parents[3]
#: By DAG, the steps in order, without the way back and the closing.
STEPS = {dag_id: tuple(map(str, procedure.steps)) for dag_id, procedure in PROCEDURES.items()}
FORWARD, WITHOUT_SOURCE, BACK = (STEPS[dag_id] for dag_id in ("planned_failover", "unplanned_failover", "failback"))
#: Its steps can all be rolled back.
CHANGE = "change_replication"
TRIES = 3
WOKEN_AFTER = 1.0
#: Faults whose number counts the journal writes of one try, which may be made by several processes.
_KILLS = ("kill_at", "kill_unwritten")


def more_connections_path(lab: Lab) -> Path:
    """Return the path of the file with Airflow connections of a test's own, by id, beside those of the lab."""
    return lab.root / "more_connections.json"


def product_environment(lab: Lab) -> dict[str, str]:
    """Return the whole environment of a process of the product that runs without Airflow on a lab."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_CONN", "KAFKA_DR"))}
    path = more_connections_path(lab)
    more = json.loads(path.read_text()) if path.exists() else {}
    return {
        **inherited,
        **own_environment(lab),
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in more.items()},
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("plugins", "spark", ".")),
    }


class Run:
    """One run of a DAG: its params, who started it, and how each step ended."""

    def __init__(self, params: dict[str, Any], run_id: str | None = None, dag_id: str = "planned_failover") -> None:
        self.params, self.dag_id = params, dag_id
        self.run_id = run_id or f"r-{uuid.uuid4().hex[:8]}"
        self.triggered_at = datetime.now(UTC).isoformat()
        self.attempts: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.questions: dict[str, str] = {}
        self.writes: dict[str, int] = {}
        self.killed: list[str] = []

    @property
    def procedure_id(self) -> str:
        """The procedure's id, as the product forms it."""
        return f"{self.dag_id}-{self.run_id}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The DAG's steps in order."""
        return STEPS[self.dag_id]

    @property
    def returnable(self) -> tuple[str, ...]:
        """The steps after whose failure the DAG runs `return_to_source`."""
        if self.dag_id == CHANGE:
            return self.steps
        if "open_target" not in self.steps:
            return self.steps[: self.steps.index("start_replication")] if "start_replication" in self.steps else ()
        return (*self.steps[: self.steps.index("open_target") + 1], "redirect_clients")


class Stepping:
    """Runs on one lab; ``before`` is called before each step, ``asked`` returns a waiting gate's answer, or None."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        before: Callable[[Run, str], None] | None = None,
        asked: Callable[[Run, str, float], str | None] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.lab, self.folder, self.before = lab, folder, before or (lambda run, step: None)
        self.asked = asked or (lambda run, gate, seconds: "Approve")
        #: Runs that steps have triggered: run id -> Airflow's state.
        self.triggered: dict[str, str] = {}
        #: What an answerer writes into a gate's fields: gate -> field -> text.
        self.texts: dict[str, dict[str, str]] = {}
        #: Called with such a run; returns its state.
        self.run_triggered: Callable[[Run], str] = self.whole_triggered
        self._told = folder / "answers.json"
        self._told.write_text("{}")
        own, environment = own_environment(lab), product_environment(lab)
        self._api = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.support.answering_api", str(self._told)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.api_url = f"http://127.0.0.1:{int(self._api.stdout.readline())}"
        with (folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.support.step_server"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.environment = own | {
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.api_url}/execution/",
            "AIRFLOW_CONN_AIRFLOW_API": json.dumps(
                {"conn_type": "http", "host": self.api_url, "login": "switchback", "password": "p"}
            ),
        }

    def close(self) -> None:
        """End both helpers."""
        self._server.stdin.close()
        self._server.wait(30)
        self._api.terminate()
        self._api.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one process of a step ------------------------------------------------------------------------------------

    def processes(self, run: Run, step: str, copies: int = 1, **how: Any) -> list[dict[str, Any]]:
        """Start ``copies`` processes of a step at once; return how each ended; `how` goes to `step_server`."""
        self._tell(run, {})
        asked = {"dag_id": run.dag_id, "run_id": run.run_id, "params": run.params, "triggered_at": run.triggered_at}
        asked |= {"step": step, "attempt": run.attempts.get(step, 1), "copies": copies, "runs": self.triggered, **how}
        asked |= {"folder": str(self.folder), "environment": self.environment}
        return self._served(asked)

    def beside(self, run: Run, task: str) -> dict[str, Any]:
        """Start a task that runs beside the steps; return its process, for whose end `thaw` waits."""
        return self.processes(run, task, beside=True)[0]

    def thaw(self, frozen: dict[str, Any]) -> dict[str, Any]:
        """Continue a process that was frozen, or runs beside the steps; return how it ended."""
        return self.merged(self._served({"thaw": frozen["pid"], "answer": frozen["answer"]}))

    def _served(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def _tell(self, run: Run, gates: dict[str, Any]) -> None:
        told = json.loads(self._told.read_text())
        mine = told.setdefault(run.run_id, {"starter": "operator", "gates": {}})
        mine["gates"] |= gates
        aside = self._told.with_suffix(".writing")
        aside.write_text(json.dumps(told))
        aside.replace(self._told)

    def answer(
        self, run: Run, gate: str, subject: str, by: str = "approver", option: str = "Approve"
    ) -> dict[str, Any]:
        """Answer a gate as a user; return the event with which Airflow would resume the task."""
        person = {"id": by, "name": by}
        question = {"subject": subject, "body": "", "options": ["Approve", "Reject"]}
        answer = {"chosen_options": [option], "responded_by_user": person, "params_input": self.texts.get(gate, {})}
        self._tell(run, {gate: question | answer | {"responded_at": datetime.now(UTC).isoformat()}})
        return answer

    def keep_answers(self, path: Path) -> None:
        """Copy all answers given so far to a file."""
        shutil.copyfile(self._told, path)

    def bring_back_answers(self, path: Path) -> None:
        """Forget all answers but those of an earlier copy: a plan that was asked about anew has another digest."""
        shutil.copyfile(path, self._told)

    def age(self, run: Run, gate: str, seconds: float) -> None:
        """Move the time of an answer back by ``seconds``."""
        given = json.loads(self._told.read_text())[run.run_id]["gates"][gate]
        self._tell(run, {gate: given | {"responded_at": (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()}})

    def _event(self, run: Run, gate: str, parked: dict[str, Any]) -> dict[str, Any]:
        """Return the event that resumes a gate: an answer, or the timeout."""
        began = time.monotonic()
        run.questions[gate] = f"{parked['subject']}\n{parked['body']}"
        option = self.asked(run, gate, parked["seconds"])
        if option is None:
            time.sleep(max(0.0, began + parked["seconds"] - time.monotonic()))
            return {
                "error": "The timeout has passed, and the response has not yet been received.",
                "error_type": "timeout",
            }
        return self.answer(run, gate, parked["subject"], option=option)

    # -- a step, as Airflow drives it ---------------------------------------------------------------------------

    def step(self, run: Run, step: str, **how: Any) -> str:
        """Run a step to its end; `how` goes to its first process, `meanwhile` runs while this process is frozen."""
        self.before(run, step)
        for attempt in range(1, TRIES + 1):
            run.attempts[step] = run.attempts.get(step, 0) + 1
            found = self._one_try(run, step, how if attempt == 1 else {})
            run.texts[step] = found.get("text", "")
            run.killed += [step] if found["state"] == "killed" else []
            if found["state"] in ("done", "refused"):
                break
        run.ended[step] = found["state"] if found["state"] in ("done", "refused") else "failed"
        return run.ended[step]

    def _one_try(self, run: Run, step: str, how: dict[str, Any]) -> dict[str, Any]:
        how, written = dict(how), 0
        meanwhile = how.pop("meanwhile", None)
        found = self.merged(self.processes(run, step, **how))
        if found["state"] == "frozen" and meanwhile:
            meanwhile()
            found = self.thaw(found)
        while found["state"] in ("waiting", "parked", "triggers"):
            written += found["writes"]
            if found["state"] == "triggers":
                wanted = Run(found["params"], found["run_id"], found["dag_id"])
                self.triggered[wanted.run_id] = self.run_triggered(wanted)
            # The n-th journal write of a try may be made by the process that is woken after a wait or an answer.
            later = {kill: n - written if isinstance(n, int) else n for kill, n in how.items() if kill in _KILLS}
            if found["state"] == "parked":
                found = self.merged(self.processes(run, step, event=self._event(run, step, found), **later))
            else:
                time.sleep(WOKEN_AFTER)
                found = self.merged(self.processes(run, step, woken=found.get("woken", {}), **later))
        run.writes[step] = written + found.get("writes", 0)
        return found

    def killed_at(self, run: Run, step: str, **how: Any) -> bool:
        """Run one try of a step, without a second one; return whether its process was killed."""
        self.before(run, step)
        run.attempts[step] = run.attempts.get(step, 0) + 1
        found = self._one_try(run, step, how)
        run.ended[step], run.texts[step] = found["state"], found.get("text", "")
        return found["state"] == "killed"

    def killed_everywhere(self, run: Run, step: str) -> list[str]:
        """Kill a step after its n-th journal write for each n, and just before its outcome; continue it each time.

        Return the points.
        """
        points: list[str] = []
        how: dict[str, Any] = {"kill_unwritten": "outcome"}
        for n in count(1):
            if not self.killed_at(run, step, kill_at=n, **how):
                return points
            if run.writes[step] < n:
                # It was the outcome that would have been written n-th.
                points.append("before the outcome")
                how = {}
                if not self.killed_at(run, step, kill_at=n):
                    return points
            points.append(f"after write {n}")
        raise AssertionError(step)

    @staticmethod
    def merged(found: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the state of a step after several of its processes: that of the process that got furthest."""
        order = ("done", "parked", "triggers", "waiting", "refused", "again", "killed", "hung", "frozen")
        return min(found, key=lambda one: order.index(one["state"]))

    def forward(self, run: Run, until: str | None = None, after: str | None = None, **how: dict[str, Any]) -> bool:
        """Run the steps after ``after`` up to ``until``, with their faults; return False if one is not done."""
        start = run.steps.index(after) + 1 if after else 0
        for step in run.steps[start:]:
            if self.step(run, step, **how.get(step, {})) != "done":
                return False
            if step == until:
                return True
        return True

    def whole(self, run: Run, after: str | None = None, **how: dict[str, Any]) -> dict[str, Any]:
        """Run a procedure to its end, `return_to_source` included; return the evidence."""
        done = self.forward(run, after=after, **how)
        failed = next((step for step in run.steps if run.ended.get(step) in ("refused", "failed")), None)
        if not done and failed in run.returnable:
            self.step(run, "return_to_source", **how.get("return_to_source", {}))
        self.step(run, "close_procedure", **how.get("close_procedure", {}))
        return self.evidence(run)

    def whole_triggered(self, run: Run) -> str:
        """Run a procedure that a step has triggered to its end; return Airflow's state of the run."""
        if not self.forward(run) and next(reversed(run.ended)) in run.returnable:
            self.step(run, "return_to_source")
        return "success" if self.step(run, "close_procedure") == "done" else "failed"

    def evidence(self, run: Run) -> dict[str, Any]:
        """Return the run's evidence."""
        return json.loads((self.lab.evidence / run.procedure_id / "evidence.json").read_text())


@contextmanager
def stepping(lab: Lab, folder: Path, **kwargs: Any) -> Iterator[Stepping]:
    """Yield a driver for the block."""
    with Stepping(lab, folder, **kwargs) as driver:
        yield driver
