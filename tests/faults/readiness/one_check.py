"""Runs of readiness_check's task check_flows, each a process on a lab without Airflow; each writes a document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, product_environment

SOURCE, TARGET = "primary", "standby"
#: The journal's entry of a drill that has passed now.
PASSED: dict[str, Any] = {"verdict": "passed", "findings_open": [], "days_ago": 0.0}


def check(lab: Lab) -> dict[str, Any]:
    """Check the flow from primary to standby once, in a process that begins from nothing; return its document."""
    run_once(lab, "check")
    return document_of_flow(lab)


def pass_drill(lab: Lab) -> None:
    """Write to the journal that a drill passed now, under what is in place."""
    run_once(lab, "drill")


def document_of_flow(lab: Lab) -> dict[str, Any]:
    """The document that the last check has written."""
    document: dict[str, Any] = json.loads((lab.evidence / "readiness" / f"{SOURCE}-to-{TARGET}.json").read_text())
    return document


def run_once(lab: Lab, what: str, **environment: str) -> None:
    """Run `check` or `drill` in a process of its own, with these environment variables beside the product's."""
    command = [sys.executable, "-m", "tests.faults.readiness.one_check", what]
    subprocess.run(command, cwd=ROOT, env=product_environment(lab) | environment, check=True)


class CheckServer:
    """Runs checks in forks of one process that has all modules: a check takes seconds less than by `check`."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._log = lab, lab.logs / "checks.log"
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.readiness.one_check", "serve"],
                cwd=ROOT,
                env=product_environment(lab),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def check(self) -> dict[str, Any]:
        """Check the flow once; return its document."""
        self._ask("check", {})
        return document_of_flow(self._lab)

    def end_drill(self, **drill: Any) -> None:
        """Write to the journal that a drill has ended, under what is in place; `drill`: what differs from `PASSED`."""
        self._ask("drill", PASSED | drill)

    def close(self) -> None:
        """End the server."""
        self._server.stdin.close()
        self._server.wait(30)

    def _ask(self, what: str, drill: dict[str, Any]) -> None:
        asked = {"what": what, "drill": drill, "environment": product_environment(self._lab), "log": str(self._log)}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        assert code == 0, f"the {what} ended with {code}:\n{self._log.read_text(errors='replace')[-4000:]}"


class _Events:
    """Takes the events of assets, as Airflow would."""

    def __getitem__(self, _outlet: Any) -> _Events:
        return self

    def add(self, _asset: Any, extra: Any) -> None:
        """Take one event."""


def check_here() -> None:
    """Run the task in this process."""
    from tests.faults.support.step_server import load_dag

    load_dag("readiness_check").task_dict["check_flows"].execute(
        {"params": {"source": SOURCE, "target": TARGET}, "outlet_events": _Events()}
    )


def end_drill_here(verdict: str, findings_open: list[str], days_ago: float) -> None:
    """Write to the journal what the closing of a drill writes."""
    from kafka_dr.actions.readiness.fingerprint import read_fingerprint
    from kafka_dr.actions.readiness.observe import observe_pair
    from kafka_dr.procedure.entries import DrillJudged
    from kafka_dr.procedure.find import flows_to_check
    from kafka_dr.vocabulary import Step

    (run,) = flows_to_check(SOURCE, TARGET)
    drill = DrillJudged(
        source=SOURCE,
        target=TARGET,
        drill_kind="canary",
        verdict=verdict,
        fingerprint=read_fingerprint(run, observe_pair(run, {}, apart=0)).as_dict(),
        procedure_id="failover_drill-test",
        ended_at=(datetime.fromisoformat(run.now()) - timedelta(days=days_ago)).isoformat(),
        findings_open=findings_open,
    )
    run.journal.append(drill.procedure_id, Step.CLOSE_PROCEDURE, drill.kind, 0, drill.payload())
    run.close()


def run_here(what: str, drill: dict[str, Any]) -> None:
    """Check, or write that a drill has ended, in this process."""
    if what == "check":
        check_here()
    else:
        end_drill_here(**drill)


def serve_requests() -> None:
    """Answer each line of stdin with the exit code of a fork that did what the line asks for."""
    import gc

    from tests.faults.support.step_server import load_dag

    load_dag("readiness_check")
    # Imported before the first fork: each fork would import them again.
    import kafka_dr.actions.readiness.fingerprint
    import kafka_dr.actions.readiness.observe
    import kafka_dr.procedure.find  # noqa: F401

    gc.freeze()
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run_in_fork(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=replies, flush=True)


def _run_in_fork(asked: dict[str, Any]) -> None:
    import faulthandler
    import traceback

    os.environ.clear()
    os.environ.update(asked["environment"])
    with open(asked["log"], "ab") as log:  # noqa: PTH123
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    # What ends a check in the Kafka client's own code leaves no other trace.
    faulthandler.enable()
    code = 0
    try:
        run_here(asked["what"], asked["drill"])
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve_requests()
    else:
        # Airflow is imported only in this process: those who start it need none of it.
        run_here(sys.argv[1], PASSED)
