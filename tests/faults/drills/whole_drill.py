"""Whole canary drills on a lab without Airflow: their clients run beside the passes, and a person signs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from kafka_dr.domain.drill.names import DrillNames

from lab.environment.state import Lab
from tests.faults.support.stepping import ROOT, Run, Stepping, product_environment

PARAMS = {"source": "primary", "target": "standby", "reason": "the quarterly drill", "kind": "canary"}
#: Shorter than by default where waiting shows nothing.
DEADLINES = {"fence_seconds": 15.0, "zero_lag_seconds": 20.0, "verify_seconds": 40.0, "return_seconds": 120.0}
#: Steps of a drill that run whatever became of the steps before.
AT_THE_END = ("clean_drill", "sign_off_drill", "close_procedure")
PASSES = ("run_planned_failover", "run_failback", "run_unplanned_failover", "run_second_failback")
_CLIENT_SECONDS = 60.0


def make_drills_short(lab: Lab, deadlines: Mapping[str, float], **settings: Any) -> None:
    """Change the deadlines of a lab's procedures, and its settings of drills."""
    topology = yaml.safe_load(lab.topology.read_text(encoding="utf-8"))
    topology["deadlines"] = dict(deadlines)
    topology["drill"] |= {"records": 600} | settings
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False), encoding="utf-8")


class WholeDrills:
    """Drills one after the other on one lab.

    Attributes:
        before: called before a step of the drill or of one of its passes: (DAG id, step) -> function.
        question: what the newest drill has asked at its end.
    """

    def __init__(self, lab: Lab, driver: Stepping) -> None:
        self.lab, self.driver, driver.before = lab, driver, self._before
        self.before: dict[tuple[str, str], Callable[[], object]] = {}
        self.question = ""
        self._clients: subprocess.Popen[bytes] | None = None
        self._log = driver.folder / "clients.log"

    def _before(self, run: Run, step: str) -> None:
        if (act := self.before.pop((run.dag_id, step), None)) is not None:
            act()

    def new(self) -> tuple[Run, DrillNames]:
        """Return a drill that has not begun, and the names of all that it will make."""
        run = Run(PARAMS, dag_id="failover_drill")
        return run, DrillNames(run.procedure_id)

    def whole(self, run: Run, findings: str = "") -> dict[str, Any]:
        """Run a drill to its end, with what the signer writes about findings; return its evidence."""
        self.driver.texts["sign_off_drill"] = {"findings_owners": findings, "conclusion": "seen"}
        try:
            if self.driver.forward(run, until="prepare_drill"):
                self.start_clients(run)
                self.driver.forward(run, after="prepare_drill", until=PASSES[-1])
            for step in AT_THE_END:
                self.driver.step(run, step)
        finally:
            self.end_clients()
        self.question = run.questions.get("sign_off_drill", "")
        return self.driver.evidence(run)

    def start_clients(self, run: Run) -> None:
        """Start the drill's clients in a process of their own."""
        command = [sys.executable, "-m", "tests.faults.drills.clients"]
        environment = product_environment(self.lab) | self.driver.environment
        asked = json.dumps({"run_id": run.run_id, "params": run.params})
        with self._log.open("ab") as log:
            self._clients = subprocess.Popen([*command, asked], cwd=ROOT, env=environment, stdout=log, stderr=log)

    def end_clients(self) -> None:
        """Wait until the clients have ended: the drill's clean-up asks them to."""
        if self._clients is not None:
            try:
                assert self._clients.wait(_CLIENT_SECONDS) == 0, self._log.read_text(errors="replace")[-4_000:]
            finally:
                self._clients.kill()
                self._clients = None
