"""The same attacks on `approve_data_loss` with the source killed, and those only such a failover has."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from lab.environment.bring_up import up
from lab.environment.take_down import down
from tests.faults.people import test_approvals as attacks
from tests.faults.support.attacked_run import (
    REVIEW,
    WITHOUT_SOURCE,
    AttackedLab,
    AttackedRun,
    awaited,
    free,
    nothing_irreversible,
    seed,
)
from tests.faults.support.lost_scene import quicken
from tests.faults.support.stepping import STEPS

SAMPLES_SECONDS = 60.0
OVERRIDE = "it has to be left, whatever it answers"
VALID_SECONDS = 45.0
MARKED = tuple(step for step in STEPS[WITHOUT_SOURCE.dag_id][1:-3] if step != WITHOUT_SOURCE.gate)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedLab]:
    """A lab with one topic of a hundred records and one group half-way through it; its source lives."""
    lab = AttackedLab(tmp_path_factory.mktemp("lab"), WITHOUT_SOURCE)
    try:
        up(lab.root)
        quicken(lab)
        seed(lab)
        yield lab
    finally:
        down(lab.root)


@pytest.fixture(scope="module")
def lab(living: AttackedLab) -> AttackedLab:
    """The same lab, recorded, and its source killed."""
    before = _samples(living)
    awaited(lambda: len(_samples(living) - before) > 1, "two samples of the recorder", SAMPLES_SECONDS)
    for kind in ("broker", "connect"):
        os.kill(living.processes.pid(f"{kind}-primary"), signal.SIGKILL)
    awaited(lambda: living.processes.pid("broker-primary") is None, "the end of the source", SAMPLES_SECONDS)
    living.alive = ("standby",)
    return living


def _samples(lab: AttackedLab) -> set[str]:
    return {path.name for path in (lab.archive / "primary-to-standby").rglob("[!.]*.parquet")}


@pytest.fixture(autouse=True)
def nothing_left(living: AttackedLab) -> Iterator[None]:
    """A test that failed half-way leaves the pair of clusters to the next one."""
    yield
    free(living)


# -- while the source lives (before anything asks for `lab`)
# ---------------------------------------------------------------


def test_a_living_source_is_not_left(living: AttackedLab) -> None:
    """Nobody is even asked."""
    with nothing_irreversible(living):
        evidence = AttackedRun.start(living).ended()
    attacks.refused(evidence, "confirm_source_lost", "The source still answers")


def test_an_override_needs_a_second_person(living: AttackedLab) -> None:
    """The starter's reason stands in the question; his own answer to it counts for nothing."""
    with nothing_irreversible(living):
        run = AttackedRun.start(living, override_source_lost=OVERRIDE)
        run.asked()
        body = run.user("viewer").send("GET", run.details())["body"]
        run.ignored("operator")
        run.answered("approver", "Reject")
        evidence = run.ended()
    assert OVERRIDE in body
    attacks.refused(evidence, run.gate, "approver chose Reject")
    assert evidence["approvals"] == []


# -- with the source killed
# ------------------------------------------------------------------------------------------------

# The same attacks, collected here with this file's lab.
test_a_gate_cleared_after_it_had_opened_asks_again = attacks.test_a_gate_cleared_after_it_had_opened_asks_again
test_a_gate_cleared_after_its_answer_asks_again = attacks.test_a_gate_cleared_after_its_answer_asks_again
test_a_gate_marked_successful_after_an_answer_approves_nothing = (
    attacks.test_a_gate_marked_successful_after_an_answer_approves_nothing
)
test_a_gate_marked_successful_with_a_forged_answer_approves_nothing = (
    attacks.test_a_gate_marked_successful_with_a_forged_answer_approves_nothing
)
test_a_journal_that_says_approved_is_not_believed = attacks.test_a_journal_that_says_approved_is_not_believed
test_a_plan_changed_behind_the_question_is_not_the_approved_one = (
    attacks.test_a_plan_changed_behind_the_question_is_not_the_approved_one
)
test_a_rejected_review_returns = attacks.test_a_rejected_review_returns
test_a_review_that_the_journal_calls_needless_is_asked_for = (
    attacks.test_a_review_that_the_journal_calls_needless_is_asked_for
)
test_a_step_may_be_marked_before_there_is_a_lease = attacks.test_a_step_may_be_marked_before_there_is_a_lease
test_nobody_approves_a_run_whose_starter_nobody_knows = attacks.test_nobody_approves_a_run_whose_starter_nobody_knows
test_one_question_has_one_answer = attacks.test_one_question_has_one_answer
test_silence_approves_nothing = attacks.test_silence_approves_nothing
test_the_command_line_names_nobody = attacks.test_the_command_line_names_nobody
test_the_review_is_not_the_starters = attacks.test_the_review_is_not_the_starters
test_the_starters_own_answer_counts_for_nothing = attacks.test_the_starters_own_answer_counts_for_nothing


@pytest.mark.parametrize("step", MARKED)
def test_a_step_marked_successful_did_not_happen(lab: AttackedLab, step: str) -> None:
    """The successor of a step marked with the lease held refuses, and so does whatever runs meanwhile."""
    attacks.marked_successful(lab, step)


def test_the_loss_approved_too_long_ago(lab: AttackedLab) -> None:
    """Valid for a while only, and the review takes longer: nothing is committed under it."""
    run = attacks.at_review(lab, "", approval_valid_seconds=VALID_SECONDS)
    run.asked(REVIEW)
    time.sleep(VALID_SECONDS)
    run.answered("approver", gate=REVIEW)
    attacks.returned(run.ended(), "commit_groups", f"an answer is valid for {VALID_SECONDS:.0f} s")
    attacks.given_back(run)


def test_last_of_all_a_second_person_may_approve(lab: AttackedLab) -> None:
    """After the starter's own answer, which counts for nothing: it moves the clients."""
    attacks.test_after_the_starters_own_answer_a_second_person_may_approve(lab)
