"""The evidence as a story: it never says more than the evidence does."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.evidence.summary import ROWS_SHOWN, EvidenceSummary, summarise_evidence
from kafka_dr.domain.evidence.whereabouts import client_whereabouts

AT, LATER = "2026-11-21T10:00:00+00:00", "2026-11-21T10:01:00+00:00"
PASSED = ["open_procedure", "check_readiness", "forecast", "approve_failover"]


def step(name: str, state: str = "done", next_step: str = "", **figures: Any) -> dict[str, Any]:
    """A step; a failed one with a failure."""
    failure = {"at": LATER, "error": "Refusal", "reason": f"{name} refused", "seen": "x", "next_step": next_step}
    told_of = {"figures": figures, "failures": [] if state == "done" else [failure], "notes": []}
    return {"id": name, "state": state, "started_at": AT, "ended_at": LATER, **told_of}


def evidence(outcome: str, *steps: dict[str, Any], failing: str | None = None, **changes: Any) -> dict[str, Any]:
    """Evidence with these steps."""
    whole = {"procedure_id": "p-1", "dag_id": "planned_failover", "source": "east", "target": "west"}
    whole |= {"reason": "maintenance", "outcome": outcome, "failing_step": failing, "reason_for_outcome": "why"}
    plan = {"deadlines": {"max_fence_seconds": 600.0}, "topics": [], "groups": [], "unproven": []}
    whole |= {"plan": plan, "plan_digest": "p" * 64, "steps": list(steps), "closed_at": LATER}
    whole |= {"approvals": [], "cut_off": [], "boundary": [], "classes": {}, "repeats": {}, "loss": []}
    seconds, rereads = {"own": 1.0, "drain": 0.0, "people": 0.0, "whole": 1.0}, {"bound": None, "mirror_maker": None}
    return {**whole, "seconds": seconds, "rereads": rereads, **changes}


def story_for(*args: Any, **changes: Any) -> EvidenceSummary:
    """The story of such evidence."""
    return summarise_evidence(evidence(*args, **changes))


FENCED = [step(name) for name in [*PASSED, "fence_producers"]]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([step("check_readiness", "failed")], "never left east"),
        ([*FENCED[:4], step("fence_producers", "failed"), step("return_to_source", touched=False)], "never left east"),
        ([*FENCED, step("return_to_source", touched=True)], "are back on east"),
        (FENCED, "east is fenced and west is not open"),
        ([*FENCED, step("return_to_source", "failed")], "the return to east has begun and is not finished"),
        ([*FENCED, step("open_target", "failed")], "whether west was opened is unknown"),
        (
            [*FENCED, step("open_target"), step("redirect_clients", "failed")],
            "west is open, but clients were not sent to west",
        ),
        ([*FENCED, step("open_target"), step("redirect_clients")], "now work on west"),
        ([*FENCED, step("open_target", "failed"), step("return_to_source", touched=True)], "are back on east"),
    ],
)
def test_where_clients_are_follows_from_the_steps(steps: list[dict[str, Any]], said: str) -> None:
    """They work only where a step's outcome proves it; else they stand still, and it is said why."""
    told = client_whereabouts(evidence("failed", *steps))
    assert said in told
    assert ("are fenced since" in told) == (said not in ("never left east", "are back on east", "now work on west"))


@pytest.mark.parametrize("outcome", ["refused", "returned"])
def test_an_unplanned_failover_that_moved_nobody_claims_no_working_source(outcome: str) -> None:
    """Its source may be lost: nothing proves that clients work there."""
    steps = [step("confirm_source_lost", "failed" if outcome == "refused" else "done")]
    told = client_whereabouts(evidence(outcome, *steps, dag_id="unplanned_failover"))
    assert told == (
        "This run moved no client. Clients work on east, or on no cluster if east does not serve clients, unless an"
        " earlier procedure moved them."
    )


@pytest.mark.parametrize("outcome", ["completed", "returned", "refused", "aborted", "failed"])
def test_every_outcome_is_told_in_three_sentences(outcome: str) -> None:
    """None is empty, and only a completed one says that clients were moved."""
    story = story_for(outcome, *FENCED, failing="drain_consumers")
    assert len(story.sentences) == 3 and all(story.sentences) and story.to_do
    assert ("were moved" in story.sentences[0]) == (outcome == "completed")
    assert bool(story.trouble) == (outcome != "completed")


def test_an_opening_by_hand_without_a_translation_claims_no_position() -> None:
    """Who opened is named; neither positions nor losses are said to be known."""
    said = story_for("completed", *FENCED, step("open_target", by_hand="carol"), step("redirect_clients")).sentences[2]
    assert said.startswith("carol opened west manually") and "was proven" in said and "neither" in said
    assert "No record was lost" not in said


def test_an_abort_says_who_when_and_why() -> None:
    """All three in the first sentence; and that nothing is left to undo."""
    told = story_for(
        "aborted",
        *FENCED,
        step("return_to_source", touched=True),
        failing="abort_procedure",
        aborted_by={"by": "carol", "reason": "wrong weekend", "at": LATER},
    )
    assert all(word in told.sentences[0] for word in ("carol", "wrong weekend", "10:01:00 UTC"))
    assert "Nothing is left to undo" in told.to_do[-1]


def test_a_failed_step_tells_what_to_do_first() -> None:
    """The step's own advice comes first, then clearing it, then the way back."""
    to_do = story_for(
        "failed", *FENCED, step("drain_consumers", "failed", "Stop consumer c-1."), failing="drain_consumers"
    ).to_do
    assert to_do[0] == "Stop consumer c-1." and "clear drain_consumers" in to_do[1]
    assert "clear return_to_source" in to_do[2]
    assert to_do[3].endswith(": runbooks/stuck_procedure.md#drain_consumers") and "Mark no task" in to_do[4]


@pytest.mark.parametrize("refused", [[], [step("return_to_source", "failed", "Go on forward.")]])
def test_after_the_opening_no_way_back_is_offered(refused: list[dict[str, Any]]) -> None:
    """There is only forward once the target is open, also where return_to_source began and refused."""
    steps = [*FENCED, step("open_target"), step("redirect_clients", "failed"), *refused]
    to_do = story_for("failed", *steps, failing="redirect_clients").to_do
    assert any("only go forward" in task for task in to_do) and not any("return_to_source" in task for task in to_do)
    assert any("clear redirect_clients" in task for task in to_do)


def test_a_return_that_failed_is_mended_first() -> None:
    """Both failures are told, and what to do concerns the way back."""
    told = story_for(
        "failed",
        *FENCED,
        step("drain_consumers", "failed", "Stop c-1."),
        step("return_to_source", "failed", "Start Connect."),
        failing="drain_consumers",
    )
    assert [t["step"] for t in told.trouble] == ["drain_consumers", "return_to_source"]
    assert told.to_do[0] == "Start Connect." and "Stop c-1." not in told.to_do
    assert told.to_do[2].endswith(": runbooks/stuck_procedure.md#return_to_source")


@pytest.mark.parametrize(("outcome", "waits"), [("refused", False), ("returned", True)])
def test_a_run_that_moved_nobody_names_the_page_and_the_cool_down(outcome: str, waits: bool) -> None:
    """A refused run leaves no cool-down; the heading of the failing step is named."""
    to_do = story_for(outcome, step("forecast", "failed"), failing="forecast").to_do
    assert ("and the cool-down is over" in to_do[-1]) == waits
    assert to_do[-2] == "Read what the messages and states of forecast mean: runbooks/stuck_procedure.md#forecast"


def test_an_unplanned_failover_without_effect_is_repeated_only_to_leave_the_source() -> None:
    """A run that only lists lost records is refused when it has done its work: no new run is due."""
    steps = (step("assess_data_loss"), step("approve_data_loss", "failed", "-"))
    told = story_for("refused", *steps, failing="approve_data_loss", dag_id="unplanned_failover").to_do[-1]
    assert told.startswith("Nothing is left to undo. Only if clients still have to leave east: start a new run")


def test_loss_exclusions_and_a_missing_standby_are_tasks() -> None:
    """A completed run may still leave work; without any it says so."""
    loss = [lost(19, 3) | {"possible_to": 19, "reason": "r"}]
    left = story_for(
        "completed",
        step("start_reverse_replication", started=False),
        loss=loss,
        excluded_groups=[{"group": "g", "reason": "r", "policy": "earliest", "members": ["a"]}],
    ).to_do
    assert len(left) == 3 and "3 records" in left[0] and "1 excluded group:" in left[1]
    assert "No record is replicated from west to east" in left[2]
    assert story_for("completed", step("start_reverse_replication", started=True)).to_do == ["Nothing."]


def test_a_run_that_was_continued_says_only_where_to_look() -> None:
    """Neither that it holds the clusters, nor that one of its steps is to be cleared, nor where clients are."""
    told = story_for(
        "failed", *FENCED, step("drain_consumers", "failed", "Stop c-1."), failing="drain_consumers", continued_by="u-1"
    )
    assert told.sentences[0].endswith("was continued by u-1: the evidence of u-1 states how the move ended.")
    assert told.sentences[1] == "The evidence of u-1 states where clients are."
    assert told.to_do == ["Clear no step of this run. Read the evidence of u-1, which continued this run."]
    assert "final" not in told.sentences[2]


@pytest.mark.parametrize("outcome", ["refused", "returned", "aborted", "failed"])
@pytest.mark.parametrize("fenced", [True, False])
def test_a_continuation_that_did_not_open_says_that_clients_still_stand(outcome: str, fenced: bool) -> None:
    """As the other run left them; it never says that they are back, or were never stopped."""
    back = [] if outcome == "failed" else [step("return_to_source", touched=outcome != "refused")]
    told = story_for(
        outcome,
        step("confirm_source_lost", "failed"),
        *back,
        failing="confirm_source_lost",
        continues={"procedure_id": "p-0", "fenced": fenced},
    )
    assert told.sentences[1] == "Clients are as p-0 left them: " + (
        "east stays fenced until return_to_source of p-0 is done." if fenced else "p-0 had not fenced east."
    )
    assert ("p-0 holds both clusters again" in told.to_do[-1]) == (outcome != "failed")


def test_a_continuation_that_opened_moved_the_clients() -> None:
    """As every other one."""
    steps = [step(name) for name in ("confirm_source_lost", "open_target", "redirect_clients")]
    found = client_whereabouts(evidence("completed", *steps, continues={"procedure_id": "p-0", "fenced": True}))
    assert found == "Clients work on west."


def test_excluded_groups_were_not_moved() -> None:
    """The first sentence does not claim them, wherever the evidence names them; without any it says all."""
    left = [{"group": "g", "reason": "r", "policy": "earliest", "members": 2}]
    for told in (
        story_for("completed", excluded_groups=left),
        story_for("completed", step("drain_consumers", excluded=left)),
        story_for("completed", plan={"excluded": left}),
    ):
        assert told.sentences[0] == "All clients but 1 excluded group were moved from east to west."
        assert told.excluded.rows[0]["members"] == "2"
    assert story_for("completed").sentences[0] == "All clients were moved from east to west."


def test_an_approval_of_something_else_is_called_that() -> None:
    """Each digest is set beside the plan's and the translation's."""
    digests = ["p" * 64, "t" * 64, "x" * 64]
    approvals = [{"step": "approve_failover", "by": "bob", "at": AT, "digest": d} for d in digests]
    told = story_for("failed", step("translate_offsets", digest="t" * 64), approvals=approvals).approvals
    assert [a["of"] for a in told] == ["this plan", "the translation", "neither this plan nor its translation"]


def test_both_bars_of_rereads_have_one_scale() -> None:
    """The longer one fills the line; with nothing known none does."""
    found = [p.share for p in story_for("completed", rereads={"bound": 50, "mirror_maker": 200}).rereads]
    assert found == [25.0, 100.0]
    seen = [p.share for p in story_for("completed", rereads={"bound": 0, "mirror_maker": None}).rereads]
    assert seen == [0.0, 0.0]


def test_the_time_split_fills_its_bar() -> None:
    """Shares add up, also when no time passed at all."""
    assert sum(
        p.share for p in story_for("completed", seconds={"own": 1.0, "drain": 2.0, "people": 4.0, "whole": 7.0}).split
    ) == pytest.approx(100, abs=0.05)
    found = sum(
        p.share for p in story_for("refused", seconds={"own": 0.0, "drain": 0.0, "people": 0.0, "whole": 0.0}).split
    )
    assert found == 0


def test_groups_that_would_read_most_again_come_first() -> None:
    """A group without a checkpoint is not taken for one without re-reads to come."""
    groups = [
        {"group": n, "partitions": 1, "lag": lag, "mirror_maker_rereads": again}
        for n, lag, again in (("a", 5, 0), ("b", 0, 70), ("c", 9, None))
    ]
    assert [g["group"] for g in story_for("completed", plan={"groups": groups}).groups.rows] == ["b", "c", "a"]


def test_long_tables_are_cut_and_counted() -> None:
    """7,000 partitions, 10,000 groups, and as many losses."""
    rows = [{"topic": "t", "partition": n, "offset": n} for n in range(7_000)]
    many = [lost(11, 1) | {"partition": n, "possible_to": 11, "reason": ""} for n in range(900)]
    story = story_for("completed", cut_off=rows, boundary=rows, loss=many)
    found = (len(story.ends.rows), story.ends.total, len(story.loss.rows), story.loss.more)
    assert found == (ROWS_SHOWN, 7_000, ROWS_SHOWN, 900 - ROWS_SHOWN)


def lost(certain_to: int | None, records: int | None = None) -> dict[str, Any]:
    """A row of loss of a source that was given up."""
    ends = {"from_offset": 10, "certain_to": certain_to, "possible_to": None}
    return {"topic": "orders", "partition": 0, **ends, "records": records, "evidence": "seen last"}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([lost(None), lost(None)], "An unknown number of records are not on standby: see Loss."),
        ([lost(17), lost(None)], "At least 7 records are not on standby: see Loss."),
        ([lost(17, 5), lost(30, 1)], "6 records are not on standby: see Loss."),
    ],
)
def test_a_loss_that_nobody_can_count_is_told_as_that(rows: list[dict[str, Any]], told: str) -> None:
    """Never as zero; and whoever reads on is told to decide about it."""
    story = story_for("completed", target="standby", loss=rows)
    assert told in story.sentences[2] and "Decide what to do about the records that standby lacks" in story.to_do[0]


def test_an_old_source_that_was_not_read_is_to_be_listed_once_it_is_back() -> None:
    """Not where it was read, nor by a run that had its source."""
    plan = {"topics": [], "groups": [], "unproven": [], "inventory": {}}
    told = [
        story_for("completed", loss=[lost(17)], plan=given, stranded=made).to_do
        for given, made in ((plan, None), (plan, "assess_data_loss-1"))
    ]
    assert ["list exactly which records are lost" in " ".join(tasks) for tasks in told] == [True, False]
    assert "list exactly" not in " ".join(story_for("completed", loss=[lost(17)]).to_do)


BACK = "2026-11-21T11:00:00+00:00"
ARMED, BY_ACL = step("fence_source", fenced="armed"), [step("fence_source", fenced="by acl")]
WATCHED = "armed: east did not answer; watch_old_source fences east as soon as east answers"
CAME_BACK = "east answered again and was fenced by watch_old_source"
HOOKED = "reported by the fence hook since 2026-11-21 10:00:00 UTC: clients cannot reach east"
LIFTED = "armed until the return to east: watch_old_source does not fence east any more"
GIVEN_UP = {
    "armed": ([ARMED], None, WATCHED),
    "watched": ([ARMED, step("watch_old_source", fenced_at=BACK)], None, f"{CAME_BACK} at 2026-11-21 11:00:00 UTC"),
    "watched, and a worker later": ([ARMED, step("watch_old_source", mirror_maker_stopped=True)], None, CAME_BACK),
    "still watched": ([ARMED, step("watch_old_source", "watching")], None, WATCHED),
    "given back": ([ARMED, step("return_to_source", touched=True)], None, LIFTED),
    "by hook": ([step("fence_source", fenced="by hook")], AT, HOOKED),
    "by acl": (BY_ACL, AT, "proven at 2026-11-21 10:00:00 UTC, on east"),
    "by acl, without a probe": (BY_ACL, None, "writes are denied on east, not proven on every broker"),
    "planned": (FENCED, AT, "proven at 2026-11-21 10:00:00 UTC"),
    "never begun": ([], None, "not fenced, or not proven on every broker"),
}


@pytest.mark.parametrize(("steps", "at", "said"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_how_clients_are_kept_from_the_source_is_said_as_it_is(
    steps: list[dict[str, Any]], at: str | None, said: str
) -> None:
    """An armed fence is neither proven nor none; the watcher that will lay it is to be left running."""
    story = story_for("completed", *steps, fenced_at=at)
    assert story.fence == said
    assert ("Leave watch_old_source unpaused" in " ".join(story.to_do)) is said.startswith("armed: ")
