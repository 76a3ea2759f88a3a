"""One workload on one lab that is moved again and again: each round must end as the first, checked one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kafka_dr.hooks.journal.journal import Journal

from lab.checker import CheckResult
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from lab.rehearsal.planned import Rehearsal
from tests.faults.support.stepping import FORWARD, Run, Stepping
from tests.faults.support.world import World, bring_back_journal, keep_journal

#: A run is continued from where it was kept hours ago: neither its fence nor its approval may be too old by then.
PARAMS = {"source": "primary", "target": "standby", "reason": "again and again"}
PARAMS |= {"max_fence_seconds": 86_400.0, "approval_valid_seconds": 86_400.0}
#: What two runs may rightly differ in.
RUN_SPECIFIC = set(
    (
        "procedure_id plan plan_digest approvals steps fenced_at seconds achieved digest previous_digest closed_at"
        " positions"
    ).split()
)
#: Steps of which five copies are started: all but the Spark job, which changes nothing outside its own folder, and the
#: gates.
COPIED = tuple(step for step in FORWARD if step not in ("approve_failover", "translate_offsets", "review_translation"))

#: Hours are not spent on a lab, or a product, of which this many things were found.
MOST_WRONG = 20


class Rounds:
    """The lab, its workload, the world before, and the checked end state of one undisturbed run.

    Attributes:
        dag_id: the procedure of every round.
        params: of every round.
        saved_after: steps after which the first run is kept, so that later rounds can begin there.
        left_behind: parts of the world that the way back need not make as they were found.
        run_specific: fields of the evidence that two runs may rightly differ in.
    """

    dag_id = "planned_failover"
    params = PARAMS
    saved_after = ("approve_failover", "review_translation")
    left_behind = ("positions", "reverse_offsets")
    run_specific = RUN_SPECIFIC

    def __init__(self, state: Path, folder: Path, seed: int = 77) -> None:
        self.lab, self.folder, self.seed = Lab(state), folder, seed
        self.driver = Stepping(self.lab, folder / "steps")
        self.saved: dict[str, dict[str, Any]] = {}
        self.reference = Run(self.params, dag_id=self.dag_id)
        try:
            self._begin(state)
        except BaseException:
            # Nobody else knows of the helpers yet, and one of them outlives this process.
            self.driver.close()
            raise

    def _begin(self, state: Path) -> None:
        """Create the workload and do the undisturbed run, which the check must pass."""
        self.rehearsal = self.rehearsed(state, self.folder / "rehearsal", self.seed)
        self.world = self.seen()
        self.before = self.world.look()
        evidence = self._reference_run()
        verdict = self.checked(evidence)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        self.end, self.said = self.at_rest(), self.comparable(evidence)

    def rehearsed(self, state: Path, folder: Path, seed: int) -> Rehearsal:
        """Create the workload with which every round begins."""
        made = Rehearsal(state, folder, seed, scale=0.05, groups=6)
        made.seed_topics()
        return made

    def seen(self) -> World:
        """Return the view of the lab that is compared and restored."""
        return World(self.lab, sorted(self.rehearsal.truth.positions))

    def at_rest(self) -> dict[str, Any]:
        """Return the world once the run has no more effects."""
        return self.world.look()

    def checked(self, evidence: dict[str, Any]) -> CheckResult:
        """Return the checker's result on a round."""
        # Its trial writes would stay in the logs, and no later round would find the target drained.
        return self.rehearsal.checker_for(evidence, "approver").check(writes=False)

    def _reference_run(self) -> dict[str, Any]:
        """Do an undisturbed run; store it after some steps, so that later rounds can begin after these steps."""
        after = None
        for step in self.saved_after:
            assert self.driver.forward(self.reference, after=after, until=step), self.reference.texts
            keep_journal(self.lab, self.folder / step)
            self.driver.keep_answers(self.folder / step / "answers.json")
            self.saved[step] = self.at_rest()
            after = step
        return self.driver.whole(self.reference, after=after)

    def close(self) -> None:
        """End the helpers."""
        try:
            self.rehearsal.stop()
        finally:
            self.driver.close()

    def fresh(self) -> Run:
        """Return a new run in the world before the first run."""
        self.world.put_back(self.before)
        return Run(self.params, dag_id=self.dag_id)

    def continued(self, step: str) -> Run:
        """Return the reference run after a step, with world and journal as after this step."""
        self.world.put_back(self.saved[step])
        bring_back_journal(self.lab, self.folder / step)
        self.driver.bring_back_answers(self.folder / step / "answers.json")
        run = Run(self.params, self.reference.run_id, self.dag_id)
        run.triggered_at = self.reference.triggered_at
        return run

    def begun_before(self, step: str) -> tuple[Run, str | None]:
        """Return a run that has not begun a step, and the last step that it has done."""
        order = (*self.reference.steps, "close_procedure")
        at = next((saved for saved in reversed(self.saved_after) if order.index(saved) < order.index(step)), None)
        return (self.fresh() if at is None else self.continued(at)), at

    def differences(self, run: Run, evidence: dict[str, Any]) -> list[str]:
        """Return the differences between the end of a round and the end of the first run."""
        now, said = self.world.look(), self.comparable(evidence)
        found = [f"world: {key}: {unlike(now[key], self.end[key])}" for key in self.end if now[key] != self.end[key]]
        found += [
            f"evidence: {key}: {said.get(key)} instead of {self.said[key]}"
            for key in self.said
            if said.get(key) != self.said[key]
        ]
        found += [f"{step} ended as {how}: {run.texts[step]}" for step, how in run.ended.items() if how != "done"]
        broken = Journal(f"sqlite:///{self.lab.journal}").verify()
        return found + ([f"the journal's chain breaks at {broken}"] if broken is not None else [])

    def comparable(self, evidence: dict[str, Any]) -> dict[str, Any]:
        """Return the evidence without the fields that differ between runs."""
        said = {key: value for key, value in evidence.items() if key not in self.run_specific}
        # A round that is continued from a saved state has the downtime of all rounds before it.
        said["warnings"] = [text for text in said["warnings"] if not text.startswith("Objective ")]
        return said

    def returned(self, run: Run) -> list[str]:
        """Return the differences between the world now and the world before the first run."""
        now = self.world.look()
        wrong = [
            f"world: {key}: {unlike(now[key], self.before[key])}"
            for key in self.before
            if key not in self.left_behind and now[key] != self.before[key]
        ]
        evidence = self.driver.evidence(run)
        return wrong + (
            []
            if evidence["outcome"] in ("returned", "aborted")
            else [f"outcome {evidence['outcome']}: {evidence['reason_for_outcome']}"]
        )


def unlike(now: Any, wanted: Any) -> str:
    """Return, as text, the differences between two views of one part of the world."""
    if isinstance(now, dict) and isinstance(wanted, dict):
        return "; ".join(
            f"{key}: {unlike(now.get(key), wanted.get(key))}"
            for key in sorted({*now, *wanted})
            if now.get(key) != wanted.get(key)
        )
    if isinstance(now, list) and isinstance(wanted, list):
        return (
            f"more: {[one for one in now if one not in wanted]}, missing: {[one for one in wanted if one not in now]}"
        )
    return f"{now} instead of {wanted}"


def points(rounds: Rounds) -> Iterator[tuple[str, int]]:
    """Yield every journal write of a procedure: the step, and the number of the write in this step."""
    for step in (*rounds.reference.steps, "close_procedure"):
        yield from ((step, n) for n in range(1, rounds.reference.writes[step] + 1))


_R = TypeVar("_R", bound=Rounds)


def on_a_lab(kind: type[_R], factory: pytest.TempPathFactory) -> Iterator[_R]:
    """Bring up a lab without Airflow, begin rounds on it, and take both down again, whatever came of them."""
    state = factory.mktemp("lab")
    try:
        up(state, airflow=False)
        made = kind(state, factory.mktemp("rounds"))
        yield made
        made.close()
    finally:
        down(state)


def killed_at_every_point(rounds: Rounds) -> tuple[list[str], int]:
    """Kill each step's process after each n-th journal write; return differences and number of kills."""
    wrong, tried = [], 0
    for step, n in points(rounds):
        try:
            found = _killed_at(rounds, step, n)
        except (AssertionError, OSError) as error:
            # A round that could not be begun, or left no evidence: the next ones tell whether it is the lab.
            found = [f"{type(error).__name__}: {error}"]
        tried += 1
        wrong += [f"{step} write {n}: {text}" for text in found]
        print(f"{step} write {n}: {found or 'same end state'}", flush=True)
        if len(wrong) >= MOST_WRONG:
            break
    return wrong, tried


def _killed_at(rounds: Rounds, step: str, n: int) -> list[str]:
    """Return the differences of one such round."""
    run, after = rounds.begun_before(step)
    evidence = rounds.driver.whole(run, after=after, **{step: {"kill_at": n}})
    return rounds.differences(run, evidence) + ([] if run.killed == [step] else [f"killed: {run.killed}"])


def way_back_killed_at_every_point(rounds: Rounds, at: str = "review_translation") -> tuple[list[str], int]:
    """Kill `return_to_source` after each n-th write; return differences and number of writes."""
    n, wrong, killed = 0, [], True
    while killed:
        n += 1
        run = rounds.continued(at)
        rounds.driver.step(run, "return_to_source", kill_at=n)
        killed = run.killed == ["return_to_source"]
        rounds.driver.step(run, "close_procedure")
        wrong += [f"write {n}: {text}" for text in rounds.returned(run)]
        print(f"return_to_source write {n}: killed {killed}", flush=True)
    return wrong, n


def how_many(default: int, everything: int | None = None) -> int:
    """Return the number of rounds from SWITCHBACK_ROUNDS, a number or `all`; without it the default.

    Args:
        everything: the number for `all`; None where rounds have no natural end, and `all` means the default.
    """
    wanted = os.environ.get("SWITCHBACK_ROUNDS", str(default))
    if wanted == "all":
        return default if everything is None else everything
    return int(wanted)
