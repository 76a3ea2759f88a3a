"""A lab without Airflow whose source gets lost under load, with unplanned procedures step by step."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.vocabulary import Entry

from lab.checker import CheckResult
from lab.environment.state import Lab
from lab.rehearsal.planned import SOURCE, TARGET
from lab.rehearsal.unplanned import LostSourceRehearsal
from tests.faults.support import always_on
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping
from tests.support.rehearsals import kept_if_it_fails

UNPLANNED = "unplanned_failover"
PARAMS = {"source": SOURCE, "target": TARGET, "reason": "the source is gone"}
#: Shorter than by default where waiting shows nothing.
DEADLINES = {"confirm_seconds": 6.0, "slow_seconds": 1.0, "verify_seconds": 60.0, "return_seconds": 60.0}
SAMPLE_SECONDS = 2.0
Act = Callable[[], object]


def quicken(lab: Lab, **deadlines: float) -> None:
    """Shorten deadlines and the recorder's interval; `up` writes the topology again."""
    topology = yaml.safe_load(lab.topology.read_text())
    topology["recorder"] |= {"interval_seconds": SAMPLE_SECONDS}
    lab.topology.write_text(yaml.safe_dump(topology | {"deadlines": DEADLINES | deadlines}, sort_keys=False))


class LostScene:
    """One lab and one accident; ``rate`` is the records/s of producers that ignore failovers."""

    def __init__(
        self,
        state: Path,
        folder: Path,
        seed: int = 4243,
        rate: int = 2_000,
        recorded: bool = True,
        clients: bool = True,
    ) -> None:
        self.lab, self._recorded, self._clients = Lab(state), recorded, clients
        quicken(self.lab)
        self.rehearsal = LostSourceRehearsal(
            state, folder / "rehearsal", seed, rate, scale=0.05, groups=4, recorded=recorded
        )
        self.driver = Stepping(self.lab, folder / "steps", self._before, lambda run, gate, seconds: "Approve")
        self.at: dict[str, Act] = {}

    def close(self) -> None:
        """End the helpers that the lab does not end."""
        try:
            self.rehearsal.stop()
        finally:
            self.driver.close()

    # -- the accident ------------------------------------------------------------------------------------------------

    def put_under_load(self, meanwhile: Act | None = None, seconds: float = 3.0) -> None:
        """Create topics, groups, clients and load; ``meanwhile`` is called between the recorder's samples."""
        if self._recorded:
            always_on.start(self.lab, always_on.RECORDER)
        # Without it no source that is lost is given up: nobody would fence it when it comes back.
        always_on.start(self.lab, always_on.WATCHER)
        self.rehearsal.seed_topics()
        if self._clients:
            self.rehearsal.start_clients()
        self.rehearsal.start_load()
        self._await_samples()
        if meanwhile is not None:
            meanwhile()
            self._await_samples()
        time.sleep(seconds)

    def _await_samples(self) -> None:
        if self._recorded:
            self.rehearsal.await_samples()

    def signal_source(self, number: signal.Signals) -> None:
        """Freeze (SIGSTOP) or continue (SIGCONT) the source's broker and the worker beside it."""
        for kind in ("broker", "connect"):
            os.kill(self.lab.processes.pid(f"{kind}-{SOURCE}"), number)

    # -- a procedure -------------------------------------------------------------------------------------------------

    def run(self, **params: Any) -> Run:
        """Return a new run."""
        return Run(PARAMS | params, dag_id=UNPLANNED)

    def _before(self, run: Run, step: str) -> None:
        if step in self.at:
            self.at.pop(step)()

    def give_back(self, run: Run) -> dict[str, Any]:
        """Return to the source and close the run; return the evidence."""
        self.driver.step(run, "return_to_source")
        self.driver.step(run, "close_procedure")
        return self.driver.evidence(run)

    def completed(self, run: Run) -> dict[str, Any]:
        """Run a whole procedure, which must complete; return the evidence."""
        evidence = self.driver.whole(run)
        assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
        return evidence

    def checked(self, evidence: dict[str, Any]) -> CheckResult:
        """Return the checker's result, once clients have worked on the target and all processes have ended."""
        unsettled = self.rehearsal.settle()
        verdict = self.rehearsal.check(evidence, "approver")
        verdict.add(unsettled)
        print(dict(verdict.figures), flush=True)
        return verdict

    # -- what was kept -------------------------------------------------------------------------------------------------

    def watched(self, run: Run) -> JournalEntry | None:
        """Return the watcher's journal entry on the fence of the run's source; None before the fence."""
        told = Journal(f"sqlite:///{self.lab.journal}").entries(step=always_on.WATCHER, kind=Entry.OUTCOME)
        of_run = [entry for entry in told if entry.payload.get("procedure_id") == run.procedure_id]
        return next((entry for entry in of_run if "accepted" in entry.payload), None)

    def fence(self, run: Run, evidence: dict[str, Any], seconds: float = 60.0) -> dict[str, Any]:
        """Return the figures of the old source's fence, of `fence_source` or of the watcher, which is awaited."""
        figures = figures_of(evidence, "fence_source")
        if "accepted" in figures:
            return figures
        return until(
            lambda: self.watched(run), lambda: f"the watcher's fence; it said: {self.watcher_said()}", seconds
        ).payload

    def watcher_said(self) -> str:
        """Return the watcher's last lines."""
        return always_on.said(self.lab, always_on.WATCHER)[-4_000:]

    def kept(self, run: Run, receipt: dict[str, Any]) -> pd.DataFrame:
        """Return the content of a file beside the evidence."""
        return pd.read_parquet(self.lab.evidence / run.procedure_id / receipt["file"])


def figures_of(evidence: dict[str, Any], step: str) -> dict[str, Any]:
    """Return the figures that a step measured; {} if the step was not done."""
    return next((row["figures"] for row in evidence["steps"] if row["id"] == step), {})


def sights(evidence: dict[str, Any]) -> dict[str, set[str]]:
    """Return by view what it observed of the source, over all rounds; also of a refused run."""
    row = next(row for row in evidence["steps"] if row["id"] == "confirm_source_lost")
    told = next(figures for figures in (row["figures"], *reversed(row["notes"])) if "verdict" in figures)
    return {view["view"]: set(view["saw"]) for view in told["verdict"]["views"]}


@contextmanager
def lost_scene(state: Path, folder: Path, **choices: Any) -> Iterator[LostScene]:
    """Yield a `LostScene`; if the block fails, the lab's files are copied."""
    scene = LostScene(state, folder, **choices)
    try:
        with kept_if_it_fails(state, folder):
            yield scene
    finally:
        scene.close()
