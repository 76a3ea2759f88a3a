"""What is found out after the approval of the loss: where it makes the loss larger, a person is asked again, and
until then nothing acts.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.unplanned.open_target import OpenWithoutSource
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import ORDERS
from tests.support.facts import asked_by, figures_of

REVIEW, OPEN, STOP = Step.REVIEW_TRANSLATION, Step.OPEN_TARGET, Step.STOP_MIRROR_MAKER
ACTS = {Step.COMMIT_GROUPS: CommitGroups, OPEN: OpenWithoutSource, Step.REDIRECT_CLIENTS: RedirectClients}
LOSS = (
    {
        "topic": "orders",
        "partition": 0,
        "from_offset": 8,
        "certain_to": 10,
        "possible_to": None,
        "written_since": None,
        "records": None,
        "evidence": "2 records follow",
    },
)


@pytest.fixture
def ready(make_bench: Any) -> Any:
    """A run whose approved loss is [8, 10) of orders-0 and whatever came after; everything but the opening is done,
    and no position is inexact.
    """
    bench = make_bench(dag_id="unplanned_failover")
    procedure = bench.given_up(loss=LOSS)
    bench.stopped_without_source(procedure)
    columns = {
        "group": [],
        "topic": [],
        "partition": [],
        "position": [],
        "target_topic": [],
        "target_position": pd.array([], "Int64"),
        "class": [],
        "bound": [],
        "evidence": [],
        "exact": pd.array([], "bool"),
    }
    bench.done(
        procedure,
        Step.TRANSLATE_OFFSETS,
        digest="t" * 64,
        exact=0,
        positions=0,
        classes={},
        translation=procedure.artifacts.save("positions", pd.DataFrame(columns)),
    )
    bench.done(procedure, REVIEW, asked=False)
    return bench


def accepted(bench: Any, to: int, step: Step = Step.WATCH_OLD_SOURCE, topic: str = "orders") -> None:
    """The old source was fenced, and had accepted records up to an offset."""
    procedure = bench.procedure()
    frame = pd.DataFrame(
        {"topic": [topic], "partition": [0], "from_offset": pd.array([10], "Int64"), "to_offset": [to]}
    )
    bench.done(procedure, step, fenced="by acl", accepted=procedure.artifacts.save("accepted", frame))


def stopped(bench: Any, ends: dict[TopicPartition, int], replicated: int | None = None) -> None:
    """MirrorMaker 2 stood with other ends of the target."""
    procedure = bench.procedure()
    kept = {} if replicated is None else {ORDERS: replicated}
    bench.done(
        procedure,
        STOP,
        boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
        replicated=procedure.artifacts.save("replicated", partitions_frame(kept, "offset")),
    )
    bench.clusters["standby"].log_ends |= ends


def question(bench: Any) -> tuple[str, str, str] | None:
    """What the review would ask."""
    return asked_by(ReviewTranslation(task_id=REVIEW.value), bench.procedure())


def act(bench: Any, step: Step) -> None:
    """Execute an act."""
    ACTS[step](task_id=step.value).execute(bench.context())


FOUND = {
    "the watcher's list": (
        lambda b: accepted(b, 300),
        "8, 10, no bound | 8, 300, 300",
        "certainly lost up to 300, and the approval was for certain loss up to 10",
    ),
    "the fence's own list": (
        lambda b: accepted(b, 300, Step.FENCE_SOURCE),
        "8, 10, no bound | 8, 300, 300",
        "certainly lost up to 300, and the approval was for certain loss up to 10",
    ),
    "a topic made since": (
        lambda b: accepted(b, 3, topic="new"),
        "nothing | 0, none, 3",
        "no loss was approved for this partition",
    ),
    "a target whose log is shorter": (
        lambda b: stopped(b, {ORDERS: 7}),
        "8, 10, no bound | 0, none, no bound",
        "log ends at 7, and ended at 10 when the loss was assessed",
    ),
    "a target whose log is gone": (lambda b: stopped(b, {}), "8, 10, no bound | 0, none, no bound", "log is gone"),
    "a hole below": (
        lambda b: b.done(
            b.procedure(),
            Step.TRANSLATE_OFFSETS,
            **figures_of(b.procedure(), Step.TRANSLATE_OFFSETS)
            | {
                "holes": [
                    {
                        "topic": "orders",
                        "partition": 0,
                        "from_offset": 3,
                        "to_offset": 5,
                        "records": 2,
                        "reason": "not on the target",
                    }
                ]
            },
        ),
        "8, 10, no bound | 3, 5, 5",
        "not on the target",
    ),
}


@pytest.mark.parametrize(("find", "figures", "why"), FOUND.values(), ids=FOUND)
def test_the_review_asks_where_more_is_lost_than_was_approved(ready: Any, find: Any, figures: str, why: str) -> None:
    """Though every position is exact; both figures, why, and a digest of both that neither the translation's nor the
    plan's answer names.
    """
    find(ready)
    subject, body, digest = question(ready)
    assert figures in body and why in body and "More is lost than was approved" in body
    assert digest in subject and digest in body
    assert digest not in ("t" * 64, figures_of(ready.procedure(), Step.ASSESS_DATA_LOSS)["plan_digest"])


LESS = {
    "nothing": lambda b: None,
    "all of it was mirrored": lambda b: (stopped(b, {ORDERS: 300}, replicated=299), accepted(b, 300)),
    "the target took records": lambda b: stopped(b, {ORDERS: 12}, replicated=9),
}


@pytest.mark.parametrize("find", LESS.values(), ids=LESS)
def test_the_review_opens_by_itself_where_no_more_is_lost(ready: Any, find: Any) -> None:
    """What the target took meanwhile only makes it less."""
    find(ready)
    assert question(ready) is None


def test_what_connect_keeps_of_a_topic_made_anew_proves_nothing(ready: Any) -> None:
    """It speaks of another log."""
    procedure = ready.procedure()
    figures = figures_of(procedure, Step.ASSESS_DATA_LOSS)
    ready.done(
        procedure,
        Step.ASSESS_DATA_LOSS,
        **figures
        | {
            "bounds": procedure.artifacts.save(
                "bounds", procedure.artifacts.load(figures["bounds"]).assign(recreated=True)
            )
        },
    )
    stopped(ready, {ORDERS: 300}, replicated=299)
    accepted(ready, 300)
    assert "8, none, 300" in question(ready)[1]


@pytest.mark.parametrize("step", [Step.COMMIT_GROUPS, OPEN])
@pytest.mark.parametrize("answer", [None, "Commit? Translation " + "t" * 64])
def test_no_act_goes_on_with_a_loss_that_nobody_approved(ready: Any, step: Step, answer: str | None) -> None:
    """Whatever the gate said before: found out behind it, the loss is refused by the act itself, and named."""
    accepted(ready, 300)
    if answer:
        ready.api.answer(REVIEW, answer)
    before = set(ready.clusters["standby"].acls)
    with pytest.raises(ApprovalMissing, match="More is lost than was approved") as refused:
        ACTS[step](task_id=step.value).act(ready.procedure(), ready.context())
    assert (
        "orders-0: records are certainly lost up to 300, and the approval was for certain loss up to 10"
        in refused.value.seen
    )
    assert ("does not name digest" if answer else "holds no answer") in refused.value.seen
    assert ready.clusters["standby"].acls == before and not ready.clusters["standby"].committed


def test_with_that_very_loss_approved_the_acts_go_on(ready: Any) -> None:
    """And with a larger one they do not."""
    accepted(ready, 300)
    subject, _, digest = question(ready)
    ready.api.answer(REVIEW, subject)
    act(ready, Step.COMMIT_GROUPS)
    accepted(ready, 301)
    with pytest.raises(AirflowFailException, match="up to 301"):
        act(ready, OPEN)
    ready.api.answer(REVIEW, question(ready)[0])
    act(ready, OPEN)
    assert ready.kinds(OPEN)[-2:] == [Entry.INTENT, Entry.OUTCOME] and digest != question(ready)[2]


def test_an_answer_to_an_earlier_loss_is_asked_again(ready: Any) -> None:
    """More was accepted while the person decided: the gate notes that the answer counts for nothing."""
    accepted(ready, 300)
    gate, subject = ReviewTranslation(task_id=REVIEW.value), question(ready)[0]
    accepted(ready, 400)
    ready.api.answer(REVIEW, subject)
    with pytest.raises(Exception, match="The answer is not valid.*does not name digest"):
        gate.execute_complete(
            ready.context(), {"chosen_options": ["Approve"], "responded_by_user": {"id": "bob", "name": "bob"}}
        )
    assert "up to 400" in question(ready)[1]


def test_what_is_found_after_the_opening_keeps_no_client_from_the_target(ready: Any) -> None:
    """There is only forward: it is listed."""
    act(ready, OPEN)
    accepted(ready, 300)
    assert loss_beyond_approval(ready.procedure()) == []
    act(ready, Step.REDIRECT_CLIENTS)
    assert ready.kinds(Step.REDIRECT_CLIENTS)[-1] == Entry.OUTCOME


def test_what_is_found_between_the_look_and_the_intent_is_found_after_the_opening(
    ready: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the target would be open, and clients kept from it."""
    look = OpenWithoutSource.look_again

    def late(self: Any, procedure: Any, begun: bool) -> str:
        told = look(self, procedure, begun)
        accepted(ready, 300)
        return told

    monkeypatch.setattr(OpenWithoutSource, "look_again", late)
    act(ready, OPEN)
    intent = ready.entries(OPEN)[0]
    assert intent.payload["looked_at_entry"] < ready.entries(Step.WATCH_OLD_SOURCE)[0].sequence < intent.sequence
    act(ready, Step.REDIRECT_CLIENTS)


def closed(bench: Any) -> dict[str, Any]:
    """The evidence of the run."""
    with pytest.raises(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    return json.loads((bench.procedure().artifacts.folder / "evidence.json").read_text())


def test_the_evidence_tells_both(ready: Any) -> None:
    """The loss as it is, what was approved beside it, and what the review's digest was made of."""
    accepted(ready, 300)
    digest = question(ready)[2]
    told = closed(ready)
    (row,) = told["loss"]
    found = (row["from_offset"], row["certain_to"], row["possible_to"], row["approved"])
    assert found == (8, 300, 300, {"from_offset": 8, "certain_to": 10, "possible_to": None})
    assert digest_of({"translation": "t" * 64, "loss": told["loss_grown"]}) == digest
    assert told["plan"]["loss"] == list(LOSS)
    assert (
        "the source accepted records after the loss was assessed"
        in (ready.procedure().artifacts.folder / "evidence.html").read_text()
    )


def test_what_a_source_that_thawed_had_mirrored_is_not_called_certainly_lost(ready: Any) -> None:
    """MirrorMaker 2 went on until it was stopped: some of what was approved as lost may be on the target by now."""
    stopped(ready, {ORDERS: 12})
    told = closed(ready)
    (row,) = told["loss"]
    found = (row["from_offset"], row["certain_to"], row["possible_to"], row["approved"]["certain_to"])
    assert found == (8, None, None, 10)
    assert told["plan"]["loss"] == list(LOSS) and told["loss_grown"] == []


def test_without_the_files_the_evidence_says_what_was_approved(ready: Any) -> None:
    """And that the rest is gone."""
    accepted(ready, 300)
    for file in ready.procedure().artifacts.folder.glob("accepted-*"):
        file.unlink()
    told = closed(ready)
    assert told["loss"] == list(LOSS) and told["loss_grown"] == []
    assert "is not the file that was written" in told["problems"][0]
