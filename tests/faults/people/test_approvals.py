"""Attacks on approvals, on a real lab through Airflow: nothing irreversible is done, and the evidence says why.

Every attack but the last ends where it began: rights, topics, log ends, positions, connectors and the routing record
are as they were. So one lab serves them all. What is attacked is the lab's own procedure, `lab.attacked`: those attacks
that every procedure must bear are run again, from here, by `test_approvals_unplanned.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import requests
import yaml
from kafka_dr.domain.canonical_json import digest_of

from lab.environment.airflow_api import RequestRefused
from lab.errors import LabError
from tests.faults.support.attacked_run import (
    REVIEW,
    AttackedLab,
    AttackedRun,
    User,
    awaited,
    commit,
    frozen_scheduler,
    nothing_irreversible,
    settles,
    world,
)

pytestmark = pytest.mark.usefixtures("nothing_left")


def notes(evidence: dict[str, Any], step: str) -> str:
    """What a step noted."""
    return str([row["notes"] for row in evidence["steps"] if row["id"] == step])


def refused(evidence: dict[str, Any], step: str, said: str) -> None:
    """The run ended as refused, before the fence, because this step said this."""
    assert evidence["outcome"] == "refused", evidence["reason_for_outcome"]
    assert said in failures(evidence, step)
    assert evidence["fenced_at"] is None and evidence["cut_off"] == []


def returned(evidence: dict[str, Any], step: str, said: str) -> None:
    """The run ended as returned, because this step said this."""
    assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
    assert said in failures(evidence, step)


def failures(evidence: dict[str, Any], step: str) -> str:
    """Why a step failed, each time."""
    return str([row["failures"] for row in evidence["steps"] if row["id"] == step])


# -- answers
# ------------------------------------------------------------------------------------------------------------


def test_the_starters_own_answer_counts_for_nothing(lab: AttackedLab) -> None:
    """Under his own name or a forged one it is noted and asked again; then a second person rejects."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        first = run.ignored("operator")
        forged = run.ignored(
            "operator",
            responded_by={"id": "approver", "name": "approver"},
            responded_by_user={"id": "approver", "name": "approver"},
        )
        run.answered("approver", "Reject")
        evidence = run.ended()
    assert first["responded_by"] == forged["responded_by"] == {"id": "operator", "name": "operator"}
    refused(evidence, run.gate, "approver chose Reject")
    assert notes(evidence, run.gate).count("operator started the run and answered the gate") == 2
    assert evidence["approvals"] == []


@pytest.mark.parametrize("name", ["Operator", "OPERATOR", "operator ", "operator\u200b", "оperator"])
def test_the_starter_has_no_second_name(lab: AttackedLab, name: str) -> None:
    """Other spellings of the starter's name are nobody's: Airflow gives them no token."""
    password = lab.status()["airflow"]["users"]["operator"]["password"]
    with pytest.raises(LabError, match="no token"):
        User(lab.airflow_url, name, password).send("GET", "/dags")


def test_silence_approves_nothing(lab: AttackedLab) -> None:
    """After approval_wait_seconds the run ends."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab, approval_wait_seconds=3)
        evidence = run.ended()
    refused(evidence, run.gate, "not answered in time")


def test_one_question_has_one_answer(lab: AttackedLab) -> None:
    """A rejection stands: later answers get 409, a viewer 403, a stranger 401, an unknown option 400."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        found = requests.patch(
            f"{lab.airflow_url}/api/v2{run.details()}", json={"chosen_options": ["Approve"]}, timeout=30
        ).status_code
        assert found == 401
        for act in (
            lambda: run.answer("viewer"),
            lambda: run.mark(run.gate, "viewer"),
            lambda: run.forge(run.gate, {"chosen_options": ["Approve"]}, "viewer"),
            lambda: run.clear(run.gate, "viewer"),
        ):
            with pytest.raises(RequestRefused) as seen:
                act()
            assert seen.value.status == 403
        for chosen, status in ((["approve"], 400), (["Approve "], 400), (["Approve", "Reject"], 400), ([], 422)):
            with pytest.raises(RequestRefused) as seen:
                run.answer("approver", chosen_options=chosen)
            assert seen.value.status == status
        with frozen_scheduler(lab):
            run.answer("approver", "Reject")
            for user in ("approver", "operator"):
                with pytest.raises(RequestRefused) as seen:
                    run.answer(user, "Approve")
                assert seen.value.status == 409
        evidence = run.ended()
    refused(evidence, run.gate, "approver chose Reject")


# -- the gate, passed by hand
# ---------------------------------------------------------------------------------------------


def forged_answer() -> dict[str, Any]:
    """What a gate's XCom would hold after an approval."""
    return {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_at": "2026-11-22T12:00:00Z",
        "responded_by_user": {"id": "approver", "name": "approver"},
    }


def test_a_gate_marked_successful_with_a_forged_answer_approves_nothing(lab: AttackedLab) -> None:
    """Who acts first looks for the gate's outcome in the journal, and in Airflow's API, not at its state or XCom."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        run.forge(run.gate, forged_answer())
        run.forge(run.gate, forged_answer())
        run.forge(lab.attacked.planning, {"done": lab.attacked.planning, "plan_digest": "0" * 64})
        run.mark(run.gate)
        evidence = run.ended()
    refused(evidence, lab.attacked.acting, f"{run.gate} did not happen")


@pytest.mark.parametrize("user", ["operator", "approver"])
def test_a_gate_marked_successful_after_an_answer_approves_nothing(lab: AttackedLab, user: str) -> None:
    """Whoever answered: the gate itself never took the answer."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        with frozen_scheduler(lab):
            run.answer(user)
            run.mark(run.gate)
        evidence = run.ended()
    refused(evidence, lab.attacked.acting, f"{run.gate} did not happen")


def test_a_gate_cleared_after_its_answer_asks_again(lab: AttackedLab) -> None:
    """The earlier approval is history: it does not count for the new question."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        asked = run.asked()
        with frozen_scheduler(lab):
            run.answer("approver")
            run.clear(run.gate)
        run.asked(attempt=asked["try_number"] + 1)
        old = run.user("viewer").send("GET", f"{run.details()}/tries/{asked['try_number']}")
        run.mark(run.gate)
        evidence = run.ended()
    assert old["chosen_options"] == ["Approve"] and old["responded_by_user"]["name"] == "approver"
    refused(evidence, lab.attacked.acting, f"{run.gate} did not happen")


# -- steps, passed by hand
# --------------------------------------------------------------------------------------------------

STEPS = (
    "check_readiness",
    "forecast",
    "fence_producers",
    "drain_consumers",
    "wait_for_zero_lag",
    "stop_mirror_maker",
    "translate_offsets",
    REVIEW,
    "commit_groups",
    "seed_reverse_replication",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_marked_successful_did_not_happen(lab: AttackedLab, step: str) -> None:
    """Its successor, running beside the first step, refuses, and the first step is ended."""
    marked_successful(lab, step)


def marked_successful(lab: AttackedLab, step: str) -> None:
    """Mark a step as successful; the superseded process may write nothing, not even why it refuses."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab, approval_wait_seconds=5)
        run.begun(lab.attacked.after("open_procedure"))
        run.mark(step)
        evidence = run.ended()
    refused(evidence, lab.attacked.after(step), f"{step} did not happen")


def test_a_step_may_be_marked_before_there_is_a_lease(lab: AttackedLab) -> None:
    """Its successor finds no lease, and says so in the evidence."""
    with nothing_irreversible(lab):
        with frozen_scheduler(lab):
            run = AttackedRun.start(lab, approval_wait_seconds=5)
            run.mark("commit_groups")
        evidence = run.ended()
    assert evidence["outcome"] == "refused" and evidence["fenced_at"] is None
    assert evidence["reason_for_outcome"]


def test_a_fence_marked_successful_while_it_works_is_taken_down(lab: AttackedLab) -> None:
    """Its process is killed half-way; the next step refuses, and what was added is removed."""
    with deadlines(lab, stable_seconds=8.0), nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.answered("approver")
        run.until("fence_producers", "running")
        denied = awaited(lambda: [rule for rule in world(lab)["primary"]["acls"] if "DENY" in rule], "a fence", 60)
        run.mark("fence_producers")
        evidence = run.ended()
    assert denied
    returned(evidence, "drain_consumers", "fence_producers did not happen")


@pytest.mark.parametrize("when", ["check_readiness", "fence_producers"])
def test_an_opening_marked_successful_leaves_no_client_fenced_for_good(lab: AttackedLab, when: str) -> None:
    """The next step refuses at once; a fence that stands, or comes up meanwhile, is lifted by the product."""
    with deadlines(lab, stable_seconds=5.0), nothing_irreversible(lab):
        run = AttackedRun.start(lab, approval_wait_seconds=60)
        run.until("open_procedure", "success")
        if when == "fence_producers":
            run.answered("approver")
        run.until(when, "running", "success")
        run.mark("open_target")
        if when == "check_readiness":
            approved_if_asked(run)
        evidence = run.ended()
    assert evidence["outcome"] in ("refused", "returned"), evidence["reason_for_outcome"]
    assert "open_target did not happen" in failures(evidence, "redirect_clients")


def approved_if_asked(run: AttackedRun) -> None:
    """The run may end before it asks."""
    try:
        run.answered("approver")
    except (TimeoutError, RequestRefused):
        return


# -- age, plan and starter
# ----------------------------------------------------------------------------------------------------


@contextmanager
def deadlines(lab: AttackedLab, **seconds: float) -> Iterator[None]:
    """The topology with other deadlines; every task reads it anew."""
    text = lab.topology.read_text()
    topology = yaml.safe_load(text)
    lab.topology.write_text(
        yaml.safe_dump(topology | {"deadlines": topology.get("deadlines", {}) | seconds}, sort_keys=False)
    )
    try:
        yield
    finally:
        lab.topology.write_text(text)


def test_an_approval_grows_too_old_for_the_next_act(lab: AttackedLab) -> None:
    """Valid for eight seconds, and the fence takes ten: the next step refuses, and clients get their source back."""
    with deadlines(lab, stable_seconds=10.0), nothing_irreversible(lab):
        run = AttackedRun.start(lab, approval_valid_seconds=8)
        run.answered("approver")
        evidence = run.ended()
    returned(evidence, "drain_consumers", "and is valid for 8 s")


def other_reason(payload: dict[str, Any]) -> None:
    """Another plan than the one its digest names."""
    payload["plan"]["reason"] = "another plan"


def other_plan(payload: dict[str, Any]) -> None:
    """Another plan, and its own digest."""
    other_reason(payload)
    payload["plan_digest"] = digest_of(payload["plan"])


@pytest.mark.parametrize("change", [other_reason, other_plan])
def test_a_plan_changed_behind_the_question_is_not_the_approved_one(
    lab: AttackedLab, change: Callable[[dict[str, Any]], None]
) -> None:
    """Somebody edits the journal's file while the approver reads."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        run.rewrite_journal(lab.attacked.planning, "outcome", change)
        run.answer("approver")
        evidence = rejected_unless_ended(run)
    assert evidence["outcome"] == "refused" and evidence["fenced_at"] is None
    assert "digest" in str([step for step in evidence["steps"] if step["id"] == run.gate])


def rejected_unless_ended(run: AttackedRun) -> dict[str, Any]:
    """The evidence of a run that ends by itself, or asks again and is then rejected."""
    with suppress(TimeoutError, RequestRefused):
        run.answered("approver", "Reject")
    return run.ended()


def test_a_plan_changed_after_the_fence_is_returned_from(lab: AttackedLab) -> None:
    """Approved as it was; the next step finds another."""
    with deadlines(lab, stable_seconds=6.0), nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.answered("approver")
        run.until("fence_producers", "running")
        time.sleep(3)
        run.rewrite_journal("forecast", "outcome", other_plan)
        evidence = run.ended()
    assert evidence["outcome"] == "returned"
    assert "digest" in evidence["reason_for_outcome"]


def test_a_journal_that_says_approved_is_not_believed(lab: AttackedLab) -> None:
    """The gate's outcome is written into the journal with all its hashes right: Airflow's API knows of no answer."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.asked()
        run.write_journal(run.gate, {"asked": True, "by": "approver"})
        run.mark(run.gate)
        evidence = run.ended()
    assert evidence["outcome"] in ("refused", "returned") and evidence["fenced_at"] is None
    assert "was never answered" in failures(evidence, lab.attacked.acting)


def test_nobody_approves_a_run_whose_starter_nobody_knows(lab: AttackedLab) -> None:
    """The starter's name is gone from Airflow's database."""
    with nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.forget_starter()
        evidence = run.ended()
    refused(evidence, run.gate, "The user who started this run is unknown")


def test_the_command_line_names_nobody(lab: AttackedLab) -> None:
    """Airflow's command line takes the starter's name from the environment, and could approve his own run."""
    with nothing_irreversible(lab):
        run = AttackedRun.start_by_command_line(lab, "somebody")
        recorded = run.user("viewer").run(run.dag_id, run.run_id)
        evidence = run.ended()
    assert (recorded["triggered_by"], recorded["triggering_user_name"]) == ("cli", "somebody")
    refused(evidence, run.gate, "The user who started this run is unknown")


# -- the second gate
# ------------------------------------------------------------------------------------------------------------


def at_review(lab: AttackedLab, group: str, **params: Any) -> AttackedRun:
    """Return a run that waits at its review, because a group was born after the forecast."""
    run = AttackedRun.start(lab, **params)
    run.asked()
    if not lab.attacked.reviewed:
        commit(lab, group, 10)
    run.before = world(lab)
    run.answered("approver")
    return run


def given_back(run: AttackedRun) -> None:
    """The world is what it was before the first approval."""
    settles(run.lab, run.before)


def test_the_review_is_not_the_starters(lab: AttackedLab) -> None:
    """His own answer is ignored, his mark is no outcome, and what he writes into XCom is not read."""
    run = at_review(lab, "late-1")
    run.ignored("operator", REVIEW)
    run.forge(REVIEW, forged_answer())
    run.mark(REVIEW)
    evidence = run.ended()
    returned(evidence, "commit_groups", "review_translation did not happen")
    assert "operator started the run and answered the gate" in notes(evidence, REVIEW)
    given_back(run)


def test_a_rejected_review_returns(lab: AttackedLab) -> None:
    """Clients get their source back."""
    run = at_review(lab, "late-2")
    run.answered("approver", "Reject", REVIEW)
    returned(run.ended(), REVIEW, "approver chose Reject")
    given_back(run)


def test_a_review_that_the_journal_calls_needless_is_asked_for(lab: AttackedLab) -> None:
    """Its outcome is forged as opened by itself, with all hashes right: the commit looks at the translation."""
    run = at_review(lab, "late-3")
    run.asked(REVIEW)
    run.write_journal(REVIEW, {"asked": False})
    run.mark(REVIEW)
    returned(run.ended(), "commit_groups", "review_translation was never answered")
    given_back(run)


def test_a_gate_cleared_after_it_had_opened_asks_again(lab: AttackedLab) -> None:
    """Whoever clears the gate takes the approval back: nothing more is done under it."""
    with deadlines(lab, stable_seconds=6.0), nothing_irreversible(lab):
        run = AttackedRun.start(lab)
        run.answered("approver")
        # Without a source there is little to act on: it may be over before anybody looks, and the next step takes its
        # window.
        run.until(lab.attacked.acting, "running", "success")
        answered = run.task(run.gate)["try_number"]
        time.sleep(2)
        run.clear(run.gate, "approver", downstream=True)
        run.asked(attempt=answered + 1)
        run.answered("approver", "Reject")
        evidence = run.ended()
    returned(evidence, run.gate, "approver chose Reject")


# -- and the way it should be: last, for it moves the clients
# ------------------------------------------------------------------------


def test_after_the_starters_own_answer_a_second_person_may_approve(lab: AttackedLab) -> None:
    """The second person's answer to the repeated question counts, and the failover completes under that name."""
    run = AttackedRun.start(lab)
    run.ignored("operator")
    run.answered("approver")
    if lab.attacked.reviewed:
        run.answered("approver", gate=REVIEW)
    evidence = run.ended(300)
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    assert {approval["by"] for approval in evidence["approvals"]} == {"approver"}
    assert "operator started the run and answered the gate" in notes(evidence, run.gate)
