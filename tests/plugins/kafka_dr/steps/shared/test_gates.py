"""Gates: they ask, they do not approve by themselves, and they believe Airflow's API only."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskAwaitingInput
from kafka_dr.errors import ApprovalMissing, HookUnavailable
from kafka_dr.hooks.airflow_api import TaskInstance
from kafka_dr.procedure.entries import MissingRange, QuestionAsked, facts_in
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.unplanned.approve_data_loss import ApproveDataLoss
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import GATE, PLAN, asked_by, figures_of, gate

APPROVED = {"chosen_options": ["Approve"], "params_input": {}, "responded_by_user": {"id": "bob", "name": "bob"}}


def forecast(bench: Any) -> str:
    """A plan in the journal; its digest."""
    procedure = bench.opened()
    bench.done(procedure, Step.FORECAST, plan=PLAN)
    return procedure.progress.move().plan_digest


def test_the_question_names_the_digest_and_waits(bench: Any, asked: list[dict[str, Any]]) -> None:
    """Subject and body are bound to the plan; there is a timeout, two options, and no default answer."""
    digest = forecast(bench)
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context())
    (detail,) = asked
    assert digest in detail["subject"] and digest in detail["body"]
    assert detail["options"] == ["Approve", "Reject"] and detail["defaults"] is None and not detail["multiple"]
    assert bench.kinds(GATE) == [Entry.INTENT, Entry.INTENT]
    (told,) = facts_in(bench.journal.entries(step=GATE), QuestionAsked)
    assert (told.digest, told.asks) == (digest, "Move all clients from primary to standby? Plan")
    assert told.wait_seconds == 14400.0 and "0 records to replicate" in told.figures[0]


def test_nobody_is_asked_where_no_answer_could_count(bench: Any, asked: list[dict[str, Any]]) -> None:
    """A run whose starter nobody knows ends at its gate."""
    forecast(bench)
    bench.api.starter = None
    with pytest.raises(AirflowFailException, match="The user who started this run is unknown"):
        gate().execute(bench.context())
    assert not asked and bench.kinds(GATE) == [Entry.INTENT, Entry.REFUSAL]


def test_an_api_that_is_away_is_asked_with_the_answer(
    bench: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is asked all the same."""
    forecast(bench)

    def away(*_: Any) -> None:
        raise HookUnavailable("Airflow's API did not answer")

    monkeypatch.setattr(bench.api, "dag_run", away)
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context())
    assert len(asked) == 1


def test_a_second_persons_approval_opens_the_gate(bench: Any) -> None:
    """The approval written is what the API says."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}")
    assert gate().execute_complete(bench.context(), APPROVED) == {"done": GATE}
    assert bench.kinds(GATE) == [Entry.APPROVAL, Entry.OUTCOME]
    assert bench.entries(GATE)[0].payload["by"] == "bob"


def test_an_event_without_an_answer_in_the_api_opens_nothing(bench: Any) -> None:
    """The event alone is not believed."""
    forecast(bench)
    with pytest.raises(AirflowException):
        gate().execute_complete(bench.context(), APPROVED)
    assert Entry.OUTCOME not in bench.kinds(GATE) and Entry.APPROVAL not in bench.kinds(GATE)


def test_the_starters_own_answer_is_noted_and_asked_again(bench: Any) -> None:
    """It counts for nothing: no approval, no end of the run, the question stays."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}", responded_by_id="alice", responded_by_name="alice")
    with pytest.raises(AirflowException) as caught:
        gate().execute_complete(bench.context(), APPROVED)
    assert not isinstance(caught.value, AirflowFailException)
    assert bench.kinds(GATE) == [Entry.NOTE]


@pytest.mark.parametrize(
    "subject",
    [
        "Move? Plan {digest} was not what I saw; Plan {other}",
        "Move? Plan {digest}{other}",
        "Move? Plan {other} {digest}.",
        "Move? Plan {digest} ",
    ],
)
def test_a_digest_within_another_sentence_approves_nothing(bench: Any, subject: str) -> None:
    """The digest that was asked about is compared as a value: that the subject holds it somewhere is not enough."""
    digest = forecast(bench)
    bench.api.answer(GATE, subject.format(digest=digest, other="0" * 64))
    with pytest.raises(ApprovalMissing, match="does not name digest"):
        bench.procedure().approvals.require(GATE, digest)


def test_a_rejection_ends_the_run(bench: Any) -> None:
    """Rejected is refused, not skipped and not retried."""
    forecast(bench)
    with pytest.raises(AirflowFailException, match="bob chose Reject"):
        gate().execute_complete(bench.context(), APPROVED | {"chosen_options": ["Reject"]})
    assert bench.kinds(GATE) == [Entry.REFUSAL]


@pytest.mark.parametrize("event", [{"error": "timed out", "error_type": "timeout"}, {**APPROVED, "chosen_options": []}])
def test_silence_ends_the_run(bench: Any, event: dict[str, Any]) -> None:
    """A timeout approves nothing."""
    forecast(bench)
    with pytest.raises(AirflowFailException):
        gate().execute_complete(bench.context(), event)
    assert bench.kinds(GATE) == [Entry.REFUSAL]


def tried(state: str, number: int, ended_after: float = 0) -> TaskInstance:
    """An earlier try of the gate, which by Airflow's clock ended some seconds from now."""
    return TaskInstance(GATE, state, -1, number, None, datetime.now(UTC) + timedelta(seconds=ended_after))


def answered(bench: Any, number: int = 2) -> None:
    """Bob has answered the gate, and its try of this number has written the outcome."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}")
    gate().intend(bench.procedure(), bench.context(attempt=number))
    gate().execute_complete(bench.context(attempt=number), APPROVED)


@pytest.mark.parametrize(
    "before",
    [[], [tried("failed", 2)], [tried("success", 1)], [tried("success", 1, 600), tried("failed", 2, 600)]],
)
def test_an_answered_gate_does_not_ask_again(
    bench: Any, asked: list[dict[str, Any]], before: list[TaskInstance]
) -> None:
    """Its process was killed behind the outcome, also where it had been cleared before that: it stays open without a
    question.
    """
    answered(bench)
    bench.api.tried[GATE] = before
    assert gate().execute(bench.context(attempt=3)) == {"done": GATE} and asked == []


@pytest.mark.parametrize(("number", "ended_after"), [(2, 1), (3, 1), (2, -600)])
def test_a_gate_that_was_cleared_asks_again(
    bench: Any, asked: list[dict[str, Any]], number: int, ended_after: float
) -> None:
    """Though Airflow still shows the answer: whoever clears it takes the approval back; Airflow's clock may be slow."""
    answered(bench)
    bench.api.tried[GATE] = [tried("success", number, ended_after)]
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context(attempt=4))
    assert len(asked) == 1


@pytest.mark.parametrize("lost", ["Airflow holds no answer to the cleared try", "the answer has grown old"])
def test_a_gate_whose_approval_is_gone_asks_again(bench: Any, asked: list[dict[str, Any]], lost: str) -> None:
    """Otherwise nothing could ever be approved again, and a target that is open would stay half done."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}")
    gate().execute_complete(bench.context(), APPROVED)
    if "old" in lost:
        bench.api.answer(GATE, f"Plan {digest}", responded_at=datetime.now(UTC) - timedelta(hours=2))
    else:
        bench.api.answers.clear()
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context(attempt=2))
    assert len(asked) == 1


def test_the_last_answer_that_counts_for_nothing_ends_the_gate(bench: Any) -> None:
    """Asked as often as it may be; the evidence says why, not that a process ended."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}", responded_by_id="alice", responded_by_name="alice")
    with pytest.raises(AirflowFailException, match="No valid answer to approve_failover.*alice started the run"):
        gate().execute_complete(bench.context(attempt=6), APPROVED)
    assert bench.kinds(GATE)[-2:] == [Entry.NOTE, Entry.REFUSAL]


def test_an_approval_does_not_grow_old_once_the_target_is_open(bench: Any) -> None:
    """Clients that stand still are not kept waiting for a second answer; before the opening they are."""
    digest = forecast(bench)
    bench.api.answer(GATE, f"Plan {digest}", responded_at=datetime.now(UTC) - timedelta(hours=2))
    procedure = bench.procedure()
    with pytest.raises(ApprovalMissing, match="valid for 3600 s"):
        procedure.approvals.require(GATE, digest)
    bench.done(procedure, Step.OPEN_TARGET)
    assert procedure.approvals.require(GATE, digest).by == "bob"


def translated(
    bench: Any,
    exact: bool,
    born: list[str],
    evidence: str = "d|<b>",
    holes: tuple[int, ...] = (),
    cut: tuple[int, ...] = (),
    born_topics: list[str] = [],
) -> None:
    """A translation of one position in the journal."""
    procedure = bench.stopped()
    if born_topics:
        fenced = bench.entries(Step.FENCE_PRODUCERS)[-1].payload
        rows = [[topic, topic, 1, None] for topic in born_topics]
        bench.done(procedure, Step.FENCE_PRODUCERS, **fenced | {"topics_since_forecast": rows})
    bench.done(procedure, Step.DRAIN_CONSUMERS, groups=[], groups_since_forecast=born)
    row = {
        "group": "g",
        "topic": "orders",
        "partition": 0,
        "position": 5,
        "target_position": 4,
        "class": "NEAREST",
        "bound": 3,
        "evidence": evidence,
        "exact": exact,
    }
    receipt = procedure.artifacts.save("positions", pd.DataFrame([row]))
    missing = {
        name: [MissingRange("orders", 0, 0, n, n, "deleted") for n in counts]
        for name, counts in (("holes", holes), ("cut", cut))
    }
    bench.done(
        procedure,
        Step.TRANSLATE_OFFSETS,
        digest="t" * 64,
        exact=int(exact),
        positions=1,
        translation=receipt,
        **missing,
    )


def review(bench: Any) -> tuple[str, str, str] | None:
    """What the review would ask."""
    return asked_by(ReviewTranslation(task_id="review_translation"), bench.procedure())


def test_the_review_opens_by_itself_when_all_is_exact(bench: Any) -> None:
    """Every position exact, no hole, no new group: nobody is asked."""
    translated(bench, exact=True, born=[])
    assert review(bench) is None


def test_the_review_shows_what_is_not_exact(bench: Any) -> None:
    """One inexact position is shown with its bound, its text escaped, bound to the translation's digest."""
    translated(bench, exact=False, born=[])
    subject, body, digest = review(bench)
    assert digest == "t" * 64 and digest in subject and digest in body
    assert "1 of 1 positions are not exact" in body and "| NEAREST | 3 |" in body and "<b>" not in body


def test_the_review_asks_about_groups_born_since(bench: Any) -> None:
    """Groups nobody approved yet are asked about though every position is exact."""
    translated(bench, exact=True, born=["late"])
    assert "late" in review(bench)[1]


def test_the_review_asks_about_topics_created_since(bench: Any) -> None:
    """As about groups."""
    translated(bench, exact=True, born=[], born_topics=["invoices"])
    assert "1 topics were created after the forecast and move too: invoices." in review(bench)[1]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"holes": (3, 4)}, "7 records below the cut-off were not found"),
        ({"cut": (5, 1)}, "6 unread records have already been deleted"),
    ],
)
def test_the_review_asks_about_loss_though_every_position_is_exact(
    bench: Any, missing: dict[str, tuple[int, ...]], said: str
) -> None:
    """An exact position behind which records are missing is still a person's decision; records are counted, not
    ranges.
    """
    translated(bench, exact=True, born=[], **missing)
    assert said in review(bench)[1]


def test_the_review_waits_no_longer_than_the_fence_may_last(bench: Any) -> None:
    """Clients stand still meanwhile."""
    translated(bench, exact=False, born=[])
    assert ReviewTranslation(task_id="review_translation").wait_seconds(bench.procedure()) <= 600


def test_a_review_after_the_opening_is_not_cut_short_by_the_fence(bench: Any) -> None:
    """An answer that must be given again once open_target has begun: no rollback would follow, so time is left."""
    bench.params = bench.params | {"max_fence_seconds": 0.01}
    translated(bench, exact=False, born=[])
    procedure = bench.procedure()
    time.sleep(0.02)
    assert ReviewTranslation(task_id="review_translation").wait_seconds(procedure) == 1.0
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"try": 1})
    waits = ReviewTranslation(task_id="review_translation").wait_seconds(bench.procedure())
    assert waits == procedure.request.deadlines.approval_wait_seconds


LOSS_GATE = Step.APPROVE_DATA_LOSS


@pytest.fixture
def lost(make_bench: Any) -> Any:
    """An unplanned run whose inventory stands in the journal, and nobody has answered yet."""
    bench = make_bench(dag_id="unplanned_failover")
    assess_loss(bench)
    return bench


def assess_loss(bench: Any) -> None:
    """Open an unplanned run, and write its verdict on the source and its inventory."""
    procedure = bench.opened()
    inventory = {
        "digest": "d",
        "partitions": 2,
        "losing": 1,
        "unknown": 1,
        "certain": 20,
        "possible": None,
        "records_per_second": 3,
        "groups_ahead": 1,
        "positions_ahead": 1,
    }
    loss = [
        {
            "topic": "orders",
            "partition": 0,
            "from_offset": 80,
            "certain_to": 100,
            "possible_to": None,
            "written_since": 0,
        }
    ]
    group = {"group": "billing", "partitions": 1, "policy": "earliest", "active": True, "position_at": None, "ahead": 1}
    plan = {
        "source": "primary",
        "target": "standby",
        "reason": "a|b",
        "confirmed": {"state": "refuses_writes", "window": "3 rounds", "override": "its disks fail"},
        "inventory": inventory,
        "loss": loss,
        "groups": [group],
        "unproven": ["no <b> sample"],
        "gone": [],
        "seen": {"recorder": False},
    }
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state="refuses_writes", override="its disks fail")
    bench.done(procedure, Step.ASSESS_DATA_LOSS, plan=plan)


def test_the_loss_is_shown_and_bound_to_the_plan(lost: Any, asked: list[dict[str, Any]]) -> None:
    """What is lost, what may be, who overrode what, what nobody can prove; no default answer."""
    with pytest.raises(TaskAwaitingInput):
        ApproveDataLoss(task_id=LOSS_GATE.value).execute(lost.context())
    (detail,) = asked
    digest = figures_of(lost.procedure(), Step.ASSESS_DATA_LOSS)["plan_digest"]
    assert digest in detail["subject"] and digest in detail["body"] and "lose 20 records or more" in detail["subject"]
    for shown in (
        "Certainly lost: 20 records",
        "the upper bound is unknown",
        "its disks fail",
        "| orders-0 | 80 | 100 | no bound |",
        "1 partitions were never sampled",
        "| billing | 1 | 1 | unknown |",
        "clients come back to primary only by a failback",
    ):
        assert shown in detail["body"], shown
    assert "<b>" not in detail["body"] and detail["options"] == ["Approve", "Reject"] and detail["defaults"] is None


def test_an_approver_reads_first_that_clients_have_left_the_source(
    make_bench: Any, asked: list[dict[str, Any]]
) -> None:
    """A run that only lists the records that the target lacks: approved, it would stop clients on the target."""
    bench = make_bench(dag_id="unplanned_failover")
    moved = bench.lost("r0")
    bench.done(moved, Step.OPEN_TARGET)
    moved.journal.release_lease(moved.pair, moved.id, moved.lease.epoch, "completed")
    assess_loss(bench)
    with pytest.raises(TaskAwaitingInput):
        ApproveDataLoss(task_id=LOSS_GATE.value).execute(bench.context())
    first = "**By the journal, clients already work on standby: unplanned_failover-r0 moved them. If so, this run can"
    assert asked[0]["body"].replace("\\", "").startswith(first)


def test_the_approval_of_the_loss_is_that_of_this_plan(lost: Any) -> None:
    """What another plan's question was answered with, or the starter, opens nothing."""
    digest = figures_of(lost.procedure(), Step.ASSESS_DATA_LOSS)["plan_digest"]
    gate = ApproveDataLoss(task_id=LOSS_GATE.value)
    for answer, by in (("Lose? Plan " + "0" * 64, "bob"), (f"Lose? Plan {digest}", "alice")):
        lost.api.answer(LOSS_GATE, answer, responded_by_id=by, responded_by_name=by)
        with pytest.raises(AirflowException):
            gate.execute_complete(lost.context(), APPROVED)
        with pytest.raises(ApprovalMissing):
            lost.procedure().approvals.require_plan()
    lost.api.answer(LOSS_GATE, f"Lose? Plan {digest}")
    gate.execute_complete(lost.context(), APPROVED)
    assert lost.kinds(LOSS_GATE) == [Entry.NOTE, Entry.NOTE, Entry.APPROVAL, Entry.OUTCOME]
    assert vars(lost.procedure().approvals.require_plan()) == lost.entries(LOSS_GATE)[2].payload


def test_a_plan_that_was_changed_in_the_journal_is_not_shown(lost: Any) -> None:
    """Its digest covers loss and inventory."""
    figures = figures_of(lost.procedure(), Step.ASSESS_DATA_LOSS)
    lost.done(lost.procedure(), Step.ASSESS_DATA_LOSS, **figures | {"plan": figures["plan"] | {"loss": []}})
    with pytest.raises(AirflowFailException, match="does not match its digest"):
        ApproveDataLoss(task_id=LOSS_GATE.value).execute(lost.context())
