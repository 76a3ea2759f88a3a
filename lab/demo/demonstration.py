"""The stages of the demo of a planned failover, from an empty folder to the check; base of the other demos."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.checker import CheckResult
from lab.demo.showing import GateWatcher, Stages, evidence_tables, verdict_table
from lab.demo.tampering import TAMPERINGS, Tampering
from lab.environment.bring_up import up
from lab.environment.production.profile import PROFILES, SMALL
from lab.install.jars import PROJECT
from lab.rehearsal.planned import Rehearsal

EVIDENCE = PROJECT / "evidence"
SEED = 20_261_121
SCALE = 0.2
GROUPS = 24
APPROVER = "approver"
PERSON_SECONDS = 4 * 3600
RUN_SECONDS = 900


@dataclass(frozen=True)
class Choices:
    """Options of a demo, from environment variables.

    Args:
        tamper: what to falsify on the target before the check: `position`, `record`, or "" for nothing.
        ask: each gate waits for a person; otherwise the user `approver` answers each gate.
        profile: `small` or `production`; only the demo in containers has the latter.
    """

    tamper: str
    ask: bool
    profile: str = SMALL

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Choices:
        """Return the options in the environment variables TAMPER, APPROVE and PROFILE.

        Raises:
            ValueError: a value is unknown; the text names variable, value and allowed values.
        """
        tamper, approve = environment.get("TAMPER", ""), environment.get("APPROVE", "")
        if tamper and tamper not in TAMPERINGS:
            raise ValueError(f"TAMPER={tamper!r} is unknown; unset TAMPER or use one of: {', '.join(TAMPERINGS)}")
        if approve not in ("", "ask"):
            raise ValueError(f"APPROVE={approve!r} is unknown; unset APPROVE or use: ask")
        profile = environment.get("PROFILE") or SMALL
        if profile not in PROFILES:
            raise ValueError(f"PROFILE={profile!r} is unknown; unset PROFILE or use one of: {', '.join(PROFILES)}")
        return cls(tamper, approve == "ask", profile)


class Demo:
    """Runs the demo of a planned failover, on a new lab.

    Attributes:
        kind: the procedure's name in the output.
        passed: text of the last line if the check passed.
    """

    kind = "planned failover"
    passed = "no record skipped, no record lost, every position exact"

    def __init__(self, choices: Choices, state: Path, console: Console) -> None:
        self._choices, self._state, self._console = choices, state, console
        self._stages = Stages(console)
        # The class depends on the demo.
        self._rehearsal: Any = None

    def run(self) -> int:
        """Run all stages; return the exit code.

        0: the check passed; 1: the procedure or the check failed; 2: the check did not detect the tampering.
        """
        self._stages.begin("Lab: two Kafka clusters, MirrorMaker 2 and Airflow")
        status = up(self._state)
        rehearsal = self._rehearsal = self.rehearsal(self._state, self._state / "rehearsal")
        self._stages.begin("Topics, records and groups at several lags; demo clients")
        truth = rehearsal.seed_topics()
        rehearsal.start_clients()
        self._stages.say(
            f"{len(truth.topics)} topics, {len(truth.positions)} groups, {len(list(truth.placed()))} positions; clients"
            " write and read"
        )
        self.before_failover()
        self._stages.begin(f"{self.kind.capitalize()} primary -> standby")
        code = self._fail_over(status)
        return self._check(code)

    def rehearsal(self, state: Path, folder: Path) -> Rehearsal:
        """Return the rehearsal of a planned failover that the demo runs, not started yet."""
        return Rehearsal(state, folder, SEED, scale=SCALE, groups=GROUPS)

    def before_failover(self) -> None:
        """Run the stages between workload and failover; this demo has no such stages, a subclass can have some."""

    def tables(self, evidence: Mapping[str, Any], verdict: CheckResult) -> list[Table]:
        """Return the tables to print of the evidence and of the check's result."""
        return [*evidence_tables(evidence), verdict_table(verdict)]

    def stop(self) -> None:
        """Stop the demo's load and clients."""
        if self._rehearsal:
            self._rehearsal.stop()

    def _fail_over(self, status: Mapping[str, Any]) -> int:
        seconds = PERSON_SECONDS if self._choices.ask else RUN_SECONDS
        approver = None if self._choices.ask else APPROVER
        with GateWatcher(status["airflow"], self._rehearsal.dag_id, self._console, self._choices.ask):
            code: int = self._rehearsal.run(approver, f"make demo: {self.kind}", seconds)
        return code

    def _check(self, code: int) -> int:
        self._stages.begin("Check by record ids, with code independent of the product")
        unsettled = self._rehearsal.settle() if code == 0 else []
        try:
            folder, evidence = self._rehearsal.evidence()
        except FileNotFoundError as error:
            self._stages.say(f"FAILED: {error}")
            return 1
        evidence_copy = keep_evidence(folder)
        if code != 0:
            self._stages.say(f"FAILED: the procedure ended as {evidence.get('outcome')}; evidence: {evidence_copy}")
            return 1
        if self._choices.tamper:
            self._tamper()
        verdict = self._rehearsal.check(evidence, None if self._choices.ask else APPROVER)
        verdict.add(unsettled)
        (evidence_copy / "verdict.json").write_text(json.dumps(verdict.document(), indent=1), encoding="utf-8")
        return self._conclude(verdict, evidence, evidence_copy)

    def _tamper(self) -> None:
        tampering = Tampering(self._rehearsal)
        self._stages.say(f"TAMPER={self._choices.tamper}: {TAMPERINGS[self._choices.tamper](tampering)}")

    def _conclude(self, verdict: CheckResult, evidence: Mapping[str, Any], evidence_copy: Path) -> int:
        for table in self.tables(evidence, verdict):
            self._console.print(table)
        for line in verdict.lines(limit=10):
            self._stages.say(line)
        self._stages.say(f"evidence: {evidence_copy}")
        if self._choices.tamper and verdict.passed:
            self._stages.say("FAILED: the check did not detect the tampering")
            return 2
        self._stages.say(f"PASSED: {self.passed}" if verdict.passed else "FAILED: see the findings above")
        return 0 if verdict.passed else 1


def keep_evidence(folder: Path) -> Path:
    """Copy a procedure's evidence folder into the folder `evidence` of the checkout; return the copy's path."""
    copy = EVIDENCE / folder.name
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    return copy
