"""A procedure in hand, as its journal and the time tell it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.evidence.live_status import LiveStep, ProcedureStatus, live_status
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import entry

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)


class Told:
    """A journal that is written second by second."""

    def __init__(self, dag_id: str = "planned_failover", **deadlines: float) -> None:
        self.lines: list[Any] = []
        self.says(
            0,
            Step.OPEN_PROCEDURE,
            Entry.OPENED,
            dag_id=dag_id,
            run_id="r 1",
            source="east",
            target="west",
            reason="why",
            request={"deadlines": deadlines},
        )

    def says(self, second: float, step: str, kind: str, **payload: Any) -> Told:
        """One entry."""
        at = TEN + timedelta(seconds=second)
        self.lines.append(entry(step, kind, at, **payload))
        return self

    def done(self, began: float, ended: float, step: str, **figures: Any) -> Told:
        """A step that began and ended."""
        return self.says(began, step, Entry.INTENT, **{"try": 1}).says(ended, step, Entry.OUTCOME, **figures)

    def at(self, second: float) -> ProcedureStatus:
        """What is seen at a second."""
        seen = live_status("p-1", self.lines, TEN + timedelta(seconds=second))
        assert seen is not None
        return seen

    def step(self, second: float, name: str) -> LiveStep:
        """How a step is seen."""
        return next(step for step in self.at(second).steps if step.id == name)


def fenced(**deadlines: float) -> Told:
    """A procedure whose fence began at second 100."""
    return (
        Told(**deadlines)
        .done(1, 2, Step.OPEN_PROCEDURE)
        .done(3, 90, Step.APPROVE_FAILOVER, asked=True)
        .says(100, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    )


def words(told: Told, second: float) -> str:
    """The fence in words."""
    fence = told.at(second).fence
    assert fence is not None
    return fence.words


def test_nothing_is_in_hand_before_it_opened() -> None:
    """A refused lease opens nothing."""
    assert live_status("p-1", [], TEN) is None
    assert (
        live_status(
            "p-1", [SimpleNamespace(step="open_procedure", kind="refusal", at=TEN, payload={"reason": "held"})], TEN
        )
        is None
    )


def test_the_countdown_says_when_it_returns() -> None:
    """How long, of how long, and the time at which it returns by itself."""
    fence = fenced(max_fence_seconds=600.0).at(203).fence
    assert fence is not None and (fence.state, fence.seconds, fence.limit) == ("counting", 103.0, 600.0)
    assert fence.words == " of 10:00; at 10:11:40 UTC the procedure returns to east by itself"
    assert fence.returns_at == TEN + timedelta(seconds=700)


def test_the_plans_limit_is_the_one_that_counts() -> None:
    """What was approved stands above what was asked."""
    told = fenced(max_fence_seconds=600.0).done(4, 5, Step.FORECAST)
    told.lines[-1].payload["plan"]["deadlines"] = {"max_fence_seconds": 60.0}
    assert "10:02:40" in words(told, 101)


def test_the_clock_runs_from_the_first_intent() -> None:
    """A step that is tried again does not start it anew, nor does a step that adds to the fence."""
    told = (
        fenced(max_fence_seconds=600.0)
        .says(130, Step.FENCE_PRODUCERS, Entry.FAILURE, reason="x")
        .says(140, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 2})
    )
    fence = told.at(200).fence
    assert fence is not None and fence.seconds == 100.0


def test_a_clock_that_ran_out_says_so() -> None:
    """No time in the past is promised, and what to do is named."""
    told = fenced(max_fence_seconds=60.0)
    assert "returns to east by itself" in words(told, 159) and "the time is over" in words(told, 160)
    assert "abort_procedure" in words(told, 160)


def test_without_a_known_limit_none_is_invented() -> None:
    """An entry of another version may not name it."""
    assert words(fenced(), 160) == "; the journal records no limit"


def test_steps_of_another_procedure_are_not_shown() -> None:
    """What this procedure never does is not called `not begun`; of an unknown procedure every step may come."""
    shown = {step.id for step in fenced().at(101).steps}
    assert {"forecast", "close_procedure"} <= shown
    assert not {"confirm_source_lost", "assess_data_loss", "approve_data_loss", "fence_source"} & shown
    lost = {step.value for step in steps_of("unplanned_failover")}
    assert {"confirm_source_lost", "fence_source", "open_target", "return_to_source"} <= lost
    assert not {"forecast", "fence_producers", "drain_consumers"} & lost
    assert steps_of("something_else") == tuple(Step)


@pytest.mark.parametrize("step", [Step.APPROVE_FAILOVER, Step.FORECAST])
def test_before_the_fence_nobody_counts(step: str) -> None:
    """Neither an approval nor a plan stops clients."""
    assert Told(max_fence_seconds=60.0).done(1, 2, step).at(500).fence is None


SENT = "Clients were sent to west."
UNMOVED = (
    "This run has not fenced clients. Clients work on east, or on no cluster if east does not serve clients, unless an"
    " earlier procedure moved them."
)
OPEN = "The point of no return is passed: west is open, and clients are being sent to west."


@pytest.mark.parametrize(
    ("steps", "clients"),
    [
        (
            [],
            UNMOVED,
        ),
        ([(Step.FENCE_SOURCE, {"fenced": "armed"})], "This run has not fenced clients. Clients work on east, or"),
        ([(Step.FENCE_SOURCE, {"fenced": "by acl"})], "Clients are fenced from east until west is open."),
        ([(Step.FENCE_SOURCE, {"fenced": "by hook"})], "Clients are fenced from east until west is open."),
        ([(Step.FENCE_SOURCE, {"fenced": "by acl"}), (Step.OPEN_TARGET, {})], OPEN),
        ([(Step.OPEN_TARGET, {}), (Step.REDIRECT_CLIENTS, {})], SENT),
        (
            [(Step.FENCE_SOURCE, {"fenced": "by acl"}), (Step.RETURN_TO_SOURCE, {})],
            "This run moved no client. Clients work on east",
        ),
    ],
)
def test_an_unplanned_failover_says_where_clients_are(steps: list[tuple[Step, dict[str, Any]]], clients: str) -> None:
    """It has no fence of producers, and its source may be lost: that clients work there is never claimed."""
    told = Told(dag_id="unplanned_failover")
    for number, (name, figures) in enumerate(steps):
        told.done(10 + number, 11 + number, name, **figures)
    assert told.at(90).fence is None and told.at(90).clients.startswith(clients)


@pytest.mark.parametrize(
    ("step", "kind", "payload"),
    [
        (Step.RETURN_TO_SOURCE, Entry.INTENT, {"try": 1}),
        (Step.ABORT_PROCEDURE, Entry.ABORT, {"by": "carol", "reason": "r"}),
    ],
)
def test_a_fenced_source_that_is_given_back_is_not_called_fenced(
    step: Step, kind: Entry, payload: dict[str, Any]
) -> None:
    """Its fence may be lifted at any moment of the rollback, also of one that follows a failed opening."""
    told = Told(dag_id="unplanned_failover").done(10, 11, Step.FENCE_SOURCE, fenced="by acl")
    told.says(12, Step.OPEN_TARGET, Entry.INTENT, **{"try": 1}).says(13, step, kind, **payload)
    assert told.at(14).clients == "The procedure is returning to east."


@pytest.mark.parametrize("dag_id", ["planned_failover", "unplanned_failover"])
def test_a_rollback_that_refuses_an_open_target_is_not_called_a_return(dag_id: str) -> None:
    """A step after open_target is red, so return_to_source ran and refused: clients do not go back to the source."""
    told = Told(dag_id=dag_id)
    if dag_id == "planned_failover":
        told.done(5, 6, Step.FENCE_PRODUCERS)
    told.done(10, 11, Step.OPEN_TARGET).says(12, Step.RETURN_TO_SOURCE, Entry.INTENT, **{"try": 1})
    status = told.at(20)
    text = status.clients if status.fence is None else status.fence.words
    assert "The point of no return is passed: west is open" in text and "returning" not in text


def test_an_opening_without_outcome_is_past_the_point_of_no_return() -> None:
    """Whether the target is open is unknown until the outcome."""
    told = Told(dag_id="unplanned_failover").says(10, Step.OPEN_TARGET, Entry.INTENT, **{"try": 1})
    assert told.at(20).clients == "The point of no return is passed: west is being opened."


@pytest.mark.parametrize(
    ("dag_id", "entries", "outcome", "clients"),
    [
        ("planned_failover", [], "refused", "This procedure ended while clients worked on east; it had not fenced any"),
        (
            "unplanned_failover",
            [],
            "refused",
            "This run has not fenced clients. Clients work on east, or on no cluster",
        ),
        (
            "unplanned_failover",
            [(Step.OPEN_TARGET, Entry.OUTCOME), (Step.REDIRECT_CLIENTS, Entry.OUTCOME)],
            "completed",
            "Clients were sent to west.",
        ),
        (
            "unplanned_failover",
            [(Step.OPEN_TARGET, Entry.OUTCOME), (Step.REDIRECT_CLIENTS, Entry.FAILURE)],
            "failed",
            "The point of no return is passed: west is open, and clients were not sent to west.",
        ),
        (
            "unplanned_failover",
            [(Step.OPEN_TARGET, Entry.FAILURE)],
            "failed",
            "The point of no return is passed: whether west was opened is unknown.",
        ),
        (
            "unplanned_failover",
            [(Step.RETURN_TO_SOURCE, Entry.FAILURE)],
            "failed",
            "The return to east has begun and is not finished.",
        ),
    ],
)
def test_an_ended_procedure_says_where_clients_were_at_its_end(
    dag_id: str, entries: list[tuple[Step, Entry]], outcome: str, clients: str
) -> None:
    """Its sentence speaks of its end: nothing is being done any more, and a later procedure may have moved clients."""
    told = Told(dag_id=dag_id)
    for number, (step, kind) in enumerate(entries):
        told.says(10 + number, step, Entry.INTENT, **{"try": 1})
        told.says(10.5 + number, step, kind, **({} if kind == Entry.OUTCOME else {"reason": "r"}))
    status = told.says(40, Step.CLOSE_PROCEDURE, Entry.CLOSED, outcome=outcome).at(90)
    assert (status.outcome, status.fence) == (outcome, None) and status.clients.startswith(clients)


def test_a_continued_procedure_names_the_one_that_says_where_clients_are() -> None:
    """Its own entries end with the takeover."""
    told = Told(dag_id="unplanned_failover").done(1, 2, Step.FENCE_SOURCE, fenced="by acl")
    told.says(3, Step.OPEN_PROCEDURE, Entry.NOTE, continued_by="p-2")
    assert told.at(9).clients == "p-2 continues this procedure: the state of p-2 says where clients are."


def test_a_run_that_continues_a_planned_one_says_who_knows_where_clients_are() -> None:
    """The planned run fenced the clients, not this one; that they work on the source would be wrong."""
    told = Told(dag_id="unplanned_failover")
    told.lines[0].payload["continues"] = {"procedure_id": "p-0", "fenced": True}
    assert told.at(5).clients == "Clients are as p-0 left them: see the state of p-0."


@pytest.mark.parametrize("outcome", [None, "completed"])
def test_a_restore_claims_no_cluster_for_clients(outcome: str | None) -> None:
    """It takes back a commit of another procedure, which may have moved clients to the target."""
    told = Told(dag_id="restore_group_offsets")
    if outcome:
        told.says(3, Step.CLOSE_PROCEDURE, Entry.CLOSED, outcome=outcome)
    assert told.at(5).clients == "This procedure moves no client."


def test_before_its_fence_a_planned_failover_leaves_clients_on_the_source() -> None:
    """Nothing was done to them yet."""
    assert Told().at(5).clients == "Clients work on east and are not fenced."


def test_the_point_of_no_return_ends_the_countdown() -> None:
    """From open_target's intent there is no return, but clients still stand still until they are sent on."""
    told = fenced(max_fence_seconds=60.0).says(120, Step.OPEN_TARGET, Entry.INTENT)
    assert "point of no return is passed: west is being opened" in words(told, 400)
    assert "by itself" not in words(told, 121)
    assert "west is open, and clients are being sent to west" in words(
        told.says(122, Step.OPEN_TARGET, Entry.OUTCOME), 130
    )
    fence = told.done(123, 130, Step.REDIRECT_CLIENTS).at(900).fence
    assert fence is not None and (fence.state, fence.seconds) == ("over", 30.0)
    assert "clients were sent to west" in fence.words


def test_a_question_asked_again_after_the_opening_has_no_deadline_of_the_fence() -> None:
    """A person who clears the gate once open_target has begun: the fence's limit counts no more."""
    told = fenced(approval_wait_seconds=3600.0, max_fence_seconds=60.0).says(120, Step.OPEN_TARGET, Entry.INTENT)
    question = told.says(200, Step.REVIEW_TRANSLATION, Entry.INTENT).at(210).question
    assert question is not None and question.expires_at == TEN + timedelta(seconds=3800)
    fence = told.at(210).fence
    assert fence is not None and fence.returns_at is None, "it no longer returns by itself"


def test_a_return_ends_it_on_the_source() -> None:
    """While it runs, and when it is done; a return that touched nothing leaves no fence to tell of."""
    told = fenced(max_fence_seconds=60.0).says(130, Step.RETURN_TO_SOURCE, Entry.INTENT)
    assert words(told, 140).endswith("the procedure is returning to east")
    assert "for 50 s, until 10:02:30 UTC; clients are back on east" in words(
        told.says(150, Step.RETURN_TO_SOURCE, Entry.OUTCOME, touched=True), 900
    )
    assert fenced().says(150, Step.RETURN_TO_SOURCE, Entry.OUTCOME, touched=False).at(900).fence is None


def test_an_abort_gives_the_source_back() -> None:
    """From the abort on nothing goes forward."""
    assert "is returning to east" in words(
        fenced(max_fence_seconds=600.0).says(110, Step.ABORT_PROCEDURE, Entry.ABORT, by="carol", reason="r"), 111
    )


def test_steps_have_the_state_of_their_newest_entry() -> None:
    """Running, done, begun again after its outcome, failed, tried again, not begun."""
    told = Told().says(10, "forecast", Entry.INTENT)
    assert (told.step(15, "forecast").state, told.step(15, "forecast").seconds) == ("running", 5.0)
    told.says(20, "forecast", Entry.OUTCOME)
    assert (told.step(99, "forecast").state, told.step(99, "forecast").seconds) == ("done", 10.0)
    assert told.says(30, "forecast", Entry.INTENT).step(40, "forecast").state == "running"
    failed = told.says(50, "forecast", Entry.FAILURE, reason="Kafka did not answer").step(60, "forecast")
    assert (failed.state, failed.failures, failed.message) == ("failed", 1, "Kafka did not answer")
    assert told.says(70, "forecast", Entry.INTENT).step(80, "forecast").state == "running"
    assert told.step(80, "commit_groups").state == "not begun"


def test_steps_that_may_never_come_are_shown_only_once_begun() -> None:
    """A return or an abort is no step that one waits for; an unknown step is not lost."""
    names = [step.id for step in Told().at(1).steps]
    assert "return_to_source" not in names and "abort_procedure" not in names and names[-1] == "close_procedure"
    names = [
        step.id
        for step in Told().says(1, "return_to_source", Entry.INTENT).says(2, "some_new_step", Entry.INTENT).at(3).steps
    ]
    assert "return_to_source" in names and names[-1] == "some_new_step"


def test_an_ended_procedure_shows_what_happened_only() -> None:
    """Closed: no step is waited for, and one that left no outcome is called that."""
    told = (
        Told()
        .done(1, 2, "open_procedure")
        .says(3, "forecast", Entry.INTENT)
        .says(5, "close_procedure", Entry.CLOSED, outcome="failed")
    )
    assert told.at(99).outcome == "failed" and [(s.id, s.state) for s in told.at(99).steps] == [
        ("open_procedure", "done"),
        ("forecast", "no outcome"),
        ("close_procedure", "done"),
    ]


def test_a_watch_outlives_its_procedure() -> None:
    """Closed, and the old source is watched still: that is not a step that left no outcome."""
    told = (
        Told()
        .says(3, "watch_old_source", Entry.INTENT, stops_connectors=["a"])
        .says(5, "close_procedure", Entry.CLOSED, outcome="completed")
    )
    assert {s.id: s.state for s in told.at(99).steps} == {"watch_old_source": "watching", "close_procedure": "done"}


def test_a_stopped_procedure_promises_nothing() -> None:
    """Closed as failed with clients fenced: nothing returns by itself; once a step is cleared it is in hand again."""
    told = (
        fenced(max_fence_seconds=600.0)
        .says(120, "drain_consumers", Entry.FAILURE, reason="x")
        .says(130, "return_to_source", Entry.INTENT)
        .says(131, "return_to_source", Entry.FAILURE, reason="y")
    )
    told.says(140, "close_procedure", Entry.CLOSED, outcome="failed")
    assert told.at(150).outcome == "failed" and "no step starts by itself" in words(told, 150)
    assert "returns to" not in words(told, 150)
    told.says(160, "return_to_source", Entry.INTENT, **{"try": 2})
    assert told.at(170).outcome is None and words(told, 170).endswith("is returning to east")


def test_a_gate_that_asks_names_its_deadline() -> None:
    """Before the fence its own; behind the fence the fence's, if that comes first."""
    asked = (
        Told(approval_wait_seconds=3600.0, max_fence_seconds=600.0).says(10, "approve_failover", Entry.INTENT).at(70)
    )
    assert asked.question is not None and (asked.question.step, asked.question.seconds, asked.question.expires_at) == (
        "approve_failover",
        60.0,
        TEN + timedelta(seconds=3610),
    )
    review = (
        fenced(approval_wait_seconds=3600.0, max_fence_seconds=600.0)
        .says(110, "review_translation", Entry.INTENT)
        .at(120)
        .question
    )
    assert review is not None and review.expires_at == TEN + timedelta(seconds=700)


def test_an_answer_that_counts_for_nothing_is_told() -> None:
    """Asked again: what was wrong with the answer stands beside the gate."""
    told = (
        Told()
        .says(10, "approve_failover", Entry.INTENT)
        .says(20, "approve_failover", Entry.NOTE, answer_ignored="alice started the run and answered the gate")
    )
    assert told.step(30, "approve_failover").message == "answer ignored: alice started the run and answered the gate"


def test_the_newest_trouble_is_told_until_it_is_mended() -> None:
    """The newest of all steps, with what to do; once its step is done it is called mended."""
    told = (
        Told()
        .says(1, "forecast", Entry.INTENT)
        .says(2, "forecast", Entry.FAILURE, reason="a")
        .says(3, "forecast", Entry.INTENT)
        .says(4, "forecast", Entry.REFUSAL, reason="b", seen="c", next_step="d")
    )
    trouble = told.at(5).trouble
    assert trouble is not None
    assert (trouble.reason, trouble.seen, trouble.next_step, trouble.mended) == ("b", "c", "d", False)
    assert trouble.page == "runbooks/stuck_procedure.md#forecast"
    mended = told.says(6, "forecast", Entry.OUTCOME).at(7).trouble
    assert mended is not None and mended.mended
    assert Told().at(1).trouble is None


def test_a_mended_failure_is_not_shown_after_the_end() -> None:
    """A completed procedure has nothing to mend; what went wrong on the way stands in its evidence."""
    told = Told().says(1, "forecast", Entry.FAILURE, reason="a").done(2, 3, "forecast")
    assert told.at(4).trouble is not None
    assert told.says(5, Step.CLOSE_PROCEDURE, Entry.CLOSED, outcome="completed").at(6).trouble is None


def test_with_an_open_target_the_step_that_cannot_go_forward_is_shown() -> None:
    """Two tasks are red, and the newest failure is that of the rollback, which only refuses."""
    told = fenced().done(110, 111, Step.OPEN_TARGET)
    told.says(112, Step.REDIRECT_CLIENTS, Entry.FAILURE, reason="the routing record is immutable")
    told.says(113, Step.RETURN_TO_SOURCE, Entry.REFUSAL, reason="the target is open")
    trouble = told.at(114).trouble
    assert trouble is not None and (trouble.step, trouble.mended) == (Step.REDIRECT_CLIENTS, False)
    told.done(115, 116, Step.REDIRECT_CLIENTS)
    trouble = told.at(117).trouble
    assert trouble is not None and trouble.step == Step.RETURN_TO_SOURCE


def test_the_page_of_the_present_step_is_named() -> None:
    """While it runs or asks; between two steps none is."""
    told = Told().done(1, 2, Step.CHECK_READINESS)
    assert told.at(3).page == ""
    told.says(4, Step.APPROVE_FAILOVER, Entry.INTENT, **{"try": 1})
    assert told.at(5).page == "runbooks/planned_failover.md#approve_failover"
    told.says(6, Step.APPROVE_FAILOVER, Entry.OUTCOME).says(7, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    assert told.at(8).page == "runbooks/planned_failover.md#fence_producers"
    assert told.says(9, Step.FENCE_PRODUCERS, Entry.REFUSAL, reason="a").at(10).page == ""


def test_a_procedure_that_is_continued_counts_no_more() -> None:
    """Nothing returns by itself; given back, it is as before."""
    told = fenced(max_fence_seconds=60).says(120, Step.OPEN_PROCEDURE, Entry.NOTE, continued_by="u-1")
    fence = told.at(500).fence
    assert fence is not None
    assert (fence.state, fence.words, fence.returns_at) == ("stopped", ": u-1 continues this procedure", None)
    assert told.says(501, Step.OPEN_PROCEDURE, Entry.NOTE, continued_by=None).at(502).fence.state == "overdue"


def test_a_failback_waits_for_a_decision_on_stranded_records() -> None:
    """Its first gate is shown as every other one: asking, with the question and the answer's deadline."""
    told = Told(approval_wait_seconds=600.0)
    told.lines[0].payload["dag_id"] = "failback"
    told.done(1, 2, Step.OPEN_PROCEDURE).says(10, Step.DECIDE_STRANDED_RECORDS, Entry.INTENT, **{"try": 1})
    assert told.step(15, Step.DECIDE_STRANDED_RECORDS).state == "asking"
    question = told.at(15).question
    assert question is not None and question.step == Step.DECIDE_STRANDED_RECORDS and question.seconds == 5.0
    assert question.expires_at == TEN + timedelta(seconds=610)
