"""One run of readiness_check's only task, as a process on a lab without Airflow; prints the flow's document."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, product_environment

SOURCE, TARGET = "primary", "standby"


def check(lab: Lab) -> dict[str, Any]:
    """Check the flow from primary to standby once; return its document."""
    _run(lab, "check")
    document: dict[str, Any] = json.loads((lab.evidence / "readiness" / f"{SOURCE}-to-{TARGET}.json").read_text())
    return document


def pass_drill(lab: Lab) -> None:
    """Write to the journal that a drill passed now, under what is in place."""
    _run(lab, "drill")


def _run(lab: Lab, what: str) -> None:
    command = [sys.executable, "-m", "tests.faults.readiness.one_check", what]
    subprocess.run(command, cwd=ROOT, env=product_environment(lab), check=True)


class _Events:
    """Takes the events of assets, as Airflow would."""

    def __getitem__(self, _outlet: Any) -> _Events:
        return self

    def add(self, _asset: Any, extra: Any) -> None:
        """Take one event."""


def main(what: str) -> None:
    """Check, or write what the closing of a drill writes."""
    # Airflow is imported only here: those who start this process need none of it.
    from kafka_dr.actions.readiness.fingerprint import read_fingerprint
    from kafka_dr.actions.readiness.observe import observe_pair
    from kafka_dr.procedure.entries import DrillJudged
    from kafka_dr.procedure.find import flows_to_check
    from kafka_dr.vocabulary import Step

    from tests.faults.support.step_server import load_dag

    if what == "check":
        (task,) = load_dag("readiness_check").tasks
        task.execute({"params": {"source": SOURCE, "target": TARGET}, "outlet_events": _Events()})
        return
    (run,) = flows_to_check(SOURCE, TARGET)
    drill = DrillJudged(
        source=SOURCE,
        target=TARGET,
        drill_kind="canary",
        verdict="passed",
        fingerprint=read_fingerprint(run, observe_pair(run, {}, apart=0)).as_dict(),
        procedure_id="failover_drill-test",
        ended_at=run.now(),
    )
    run.journal.append(drill.procedure_id, Step.CLOSE_PROCEDURE, drill.kind, 0, drill.payload())
    run.close()


if __name__ == "__main__":
    main(sys.argv[1])
