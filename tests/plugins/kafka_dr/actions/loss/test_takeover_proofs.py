"""What a planned failover had proven counts for the run that continues it, unless it is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.plain_text import table_cell
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.steps.unplanned.stop_mirror_maker import StopLeftMirrorMaker
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource
from kafka_dr.vocabulary import Entry, Step

from tests.plugins.kafka_dr.actions.loss.dead_source import (
    ASSESS,
    AWAY,
    EARLIER,
    LATER,
    MISSING,
    TRANSLATE,
    as_earlier,
    close,
    continued,
    evidence,
    lost,
    mirrored,
    planned,
    refused,
)
from tests.support.bench import FENCE, ORDERS
from tests.support.facts import figures_of
from tests.support.lost_source import Recorder, held, seen


def assess(bench: Any, state: str = "lost") -> dict[str, Any]:
    """Continue, and assess the loss; its figures."""
    lost(bench, continued(bench), state)
    AssessDataLoss(task_id=ASSESS.value).execute(bench.context("u1"))
    return figures_of(bench.procedure("u1"), ASSESS)


def row(figures: dict[str, Any]) -> tuple[Any, ...]:
    """Offsets of the only row of loss in the plan."""
    (one,) = figures["plan"]["loss"]
    return one["from_offset"], one["certain_to"], one["possible_to"]


def doubts(figures: dict[str, Any]) -> list[str]:
    """What was not taken over."""
    return [
        note
        for note in figures["plan"]["unproven"]
        if "this run uses nothing" in note or "this run does not use" in note
    ]


def with_recorder(make: Any, recorder: Recorder, *more: Any) -> Any:
    """A bench whose recorder saw the source end at 90, and every record of it."""
    recorder.sample(seen(50, 40, replicated=39), held("billing", 45), held("audit", 45), held("cron", 30))
    pair = (
        Kind.PAIR,
        {"topic": "orders", "partition": 0, "upstream": 40, "downstream": 40, "source_end": 90, "records": 49},
    )
    syncs = [
        (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": at, "downstream": at, "sequence": at})
        for at in (50, 60)
    ]
    recorder.sample(
        seen(90, 70, replicated=58),
        held("billing", 70),
        held("audit", 20),
        (Kind.GROUP, {"group": "cron", "members": 1, "state": "Stable"}),
        *syncs,
        pair,
        *more,
    )
    return make(recorded=True)


def test_a_proven_fence_bounds_the_loss(make: Any) -> None:
    """Without any recorder: nothing after the cut-off is lost, and nothing of it counts as accepted since."""
    bench = make()
    mirrored(bench, 80)
    bench.workers["standby"].replicated = {ORDERS: 70}
    planned(bench, Step.FENCE_PRODUCERS)
    figures = assess(bench)
    assert row(figures) == (71, None, 100) and doubts(figures) == []
    assert (figures["plan"]["inventory"]["possible"], figures["plan"]["inventory"]["unknown"]) == (29, 0)
    kept = bench.procedure("u1").artifacts.load
    assert [frame_partitions(kept(figures[name]), "offset") for name in ("cut_off", "source_ends")] == [
        {ORDERS: 100}
    ] * 2
    told = loss_markdown(figures["plan"], "d")
    assert f"**This run continues {table_cell(EARLIER)}.**" in told
    assert "1 partitions have final log ends on primary, which was fenced at" in told
    assert "| orders-0 | 71 | none | 100 |" in told
    assert "of these partitions are drained" not in told and "a super user wrote on primary" in told


def test_the_cut_off_is_the_last_that_was_seen_of_the_source(make: Any, recorder: Recorder) -> None:
    """The recorder's last sample is older: everything from the last mirrored record to the cut-off is certainly
    lost.
    """
    bench = with_recorder(make, recorder)
    mirrored(bench, 80)
    bench.workers["standby"].replicated = {ORDERS: 58}
    planned(bench, Step.FENCE_PRODUCERS)
    assert row(assess(bench)) == (80, 100, 100)


def test_a_run_that_had_proven_nothing_is_continued_like_any_other(make: Any) -> None:
    """Its plan's topics are known, and no more."""
    bench = make()
    mirrored(bench, 80)
    bench.workers["standby"].away = True
    planned(bench, None)
    figures = assess(bench)
    assert row(figures) == (0, None, None) and figures["cut_off"] is None and doubts(figures) == []
    assert figures["plan"]["topics"] == [["orders", "orders", 1, "id-orders"]]
    assert "- nothing." in loss_markdown(figures["plan"], "d")


@pytest.mark.parametrize(("until", "wanted"), [(None, "newer"), (Step.FENCE_PRODUCERS, "id-orders")])
def test_whose_word_counts_for_a_topics_id(make: Any, recorder: Recorder, until: Step | None, wanted: str) -> None:
    """The plan's as soon as the fence has shown that nothing was made anew since; before that, what the recorder saw
    last.
    """
    kind, told = seen(90, 70)
    recorder.sample((kind, told | {"topic_id": "newer"}))
    bench = make(recorded=True)
    mirrored(bench, 80)
    planned(bench, until)
    assert assess(bench)["plan"]["topics"] == [["orders", "orders", 1, wanted]]


def reopens(bench: Any, procedure: Run) -> None:
    """It may have lifted its fence."""
    procedure.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True})


def changed_file(name: str) -> Callable[..., None]:
    """A file of its evidence folder is not what it wrote."""
    return lambda bench, procedure: next(procedure.artifacts.folder.glob(f"{name}-*.parquet")).write_bytes(b"x")


IN_DOUBT = {
    "it may have given the source back": (reopens, "return_to_source had begun to lift the fence on the source"),
    "somebody wrote after the cut-off": (
        refused(Step.STOP_MIRROR_MAKER, "FenceNotProven"),
        "stop_mirror_maker was refused: Somebody wrote",
    ),
    "evidence contradicted itself": (refused(Step.WAIT_FOR_ZERO_LAG, "Contradiction"), "wait_for_zero_lag was refused"),
    "the last look found a group that came alive": (
        refused(Step.OPEN_TARGET, "FenceNotProven"),
        "open_target was refused",
    ),
    "the file of the cut-off was changed": (changed_file("cut_off"), "fence_producers of planned_failover-r1"),
}


@pytest.mark.parametrize(("change", "said"), IN_DOUBT.values(), ids=IN_DOUBT)
def test_when_in_doubt_nothing_is_final(died: Any, change: Any, said: str) -> None:
    """No bound, no drained partition, no position of its own; and the doubt is told to the approver."""
    died.clusters["standby"].internal = {}
    procedure = died.procedure("r1")
    change(died, procedure)
    figures = assess(died)
    assert row(figures)[2] is None and (figures["cut_off"], figures["positions"]["rows"]) == (None, 0)
    (doubt,) = doubts(figures)
    assert said in doubt


def test_a_step_that_was_cleared_in_vain_takes_nothing_away(died: Any) -> None:
    """It refused because the way back had begun: that says nothing against the fence."""
    refused(Step.OPEN_TARGET, "Refusal")(died, died.procedure("r1"))
    refused(Step.DRAIN_CONSUMERS, "Refusal")(died, died.procedure("r1"))
    figures = assess(died)
    assert doubts(figures) == [] and figures["plan"]["loss"] == []


@pytest.mark.parametrize("kind", [Entry.INTENT, Entry.FAILURE])
def test_a_fence_that_was_begun_anew_proves_nothing(make: Any, kind: Entry) -> None:
    """What it had found before may have changed."""
    bench = make()
    mirrored(bench, 80)
    procedure = planned(bench, Step.FENCE_PRODUCERS)
    procedure.authority.write(Step.FENCE_PRODUCERS, kind, {"try": 2, **AWAY})
    assert row(assess(bench))[2] is None


def test_a_fence_that_no_probe_has_proven_is_not_final(make: Any) -> None:
    """Some broker may let clients write."""
    bench = make()
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS, fenced_at=None)
    figures = assess(bench)
    assert row(figures)[2] is None and "not proven on every broker" in doubts(figures)[0]


def test_what_the_recorder_saw_behind_the_cut_off_is_a_doubt(make: Any, recorder: Recorder) -> None:
    """Somebody wrote there all the same."""
    bench = with_recorder(make, recorder, seen(103, 70, replicated=58))
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS)
    figures = assess(bench)
    assert row(figures)[2] is None and "orders-0: 100 -> 103" in doubts(figures)[0]


def test_a_return_that_waits_for_the_dead_source_takes_nothing_away(died: Any) -> None:
    """It says that it reopens the source only once that answers: until then the fence stands."""
    died.change_params(return_seconds=0.3)
    with pytest.raises(AirflowFailException, match="The rollback: not within"):
        ReturnToSource(task_id="return_to_source").execute(died.context("r1"))
    assert [e.payload for e in died.journal.entries(EARLIER, Step.RETURN_TO_SOURCE, Entry.INTENT)] == [{"try": 1}]
    figures = assess(died)
    assert doubts(figures) == [] and figures["plan"]["loss"] == []


def test_frozen_positions_are_final(make: Any, recorder: Recorder) -> None:
    """They take the place of what the recorder saw; a group that was not frozen keeps what was seen of it, and who
    was active is waited for.
    """
    bench = with_recorder(make, recorder)
    mirrored(bench, 80)
    procedure = planned(bench, Step.DRAIN_CONSUMERS)
    figures = assess(bench)
    positions = bench.procedure("u1").artifacts.load(figures["positions"]).set_index("group")
    assert positions["position"].to_dict() == {"audit": 60, "billing": 100, "cron": 30}
    frozen = procedure.artifacts.load(figures_of(procedure, Step.DRAIN_CONSUMERS)["positions"])
    assert positions.loc["audit", "position_at"] == frozen["position_at"].iloc[0]
    assert set(figures["active_groups"]) == {"audit", "billing", "cron"}
    assert figures["plan"]["continues"]["positions"] == 2
    assert "2 positions are final" in loss_markdown(figures["plan"], "d")


def test_what_was_drained_is_not_lost(make: Any) -> None:
    """Proven before the stop and after it; the question says so."""
    bench = make()
    mirrored(bench, 100)
    bench.workers["standby"].replicated = {}
    planned(bench, Step.STOP_MIRROR_MAKER)
    figures = assess(bench)
    assert figures["plan"]["loss"] == [] and figures["plan"]["continues"]["drained"] == 1
    told = loss_markdown(figures["plan"], "d")
    assert "1 of these partitions are drained" in told and "No partition loses a record." in told
    assert "Possibly lost: at most 0" in told


@pytest.mark.parametrize("end", [99, 101])
def test_a_target_that_is_not_as_it_was_left_is_not_called_drained(died: Any, end: int) -> None:
    """Whatever was written or lost there; the cut-off still bounds the loss."""
    mirrored(died, end)
    died.workers["standby"].replicated = {ORDERS: 70}
    figures = assess(died)
    assert row(figures) == (71, None, 100) and figures["plan"]["continues"]["drained"] == 0


def test_zero_lag_alone_proves_no_boundary(make: Any) -> None:
    """MirrorMaker 2 may have gone on; the loss is bounded and no more."""
    bench = make()
    mirrored(bench, 100)
    bench.workers["standby"].replicated = {ORDERS: 70}
    planned(bench, Step.WAIT_FOR_ZERO_LAG)
    assert row(assess(bench)) == (71, None, 100)


def translate(bench: Any, change: Callable[[], Any] = lambda: None) -> tuple[dict[str, Any], pd.DataFrame]:
    """Continue, assess, have the loss approved, let something happen, stop, translate: figures and rows by group."""
    assess(bench)
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(bench.procedure('u1'), ASSESS)['plan_digest']}")
    bench.done(bench.procedure("u1"), Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(bench.procedure("u1"), Step.FENCE_SOURCE, fenced="armed")
    change()
    StopLeftMirrorMaker(task_id="stop_mirror_maker").execute(bench.context("u1"))
    TranslateWithoutSource(task_id=TRANSLATE.value).execute(bench.context("u1"))
    figures = bench.entries(TRANSLATE, "u1")[-1].payload
    return figures, bench.procedure("u1").artifacts.load(figures["translation"]).set_index("group")


def test_what_that_translation_found_missing_counts(make: Any) -> None:
    """In the question, in the figures, and in the evidence."""
    bench = make()
    mirrored(bench, 100)
    planned(bench, holes=MISSING)
    figures, _ = translate(bench)
    assert figures["holes"] == MISSING
    assert "3 records below these log ends were not found on standby" in loss_markdown(
        bench.procedure("u1").progress.move().plan, "d"
    )
    close(bench, outcome="failed")
    assert [(one["from_offset"], one["certain_to"], one["records"]) for one in evidence(bench, LATER)["loss"]] == [
        (30, 33, 3)
    ]


def test_positions_at_the_cut_off_are_at_the_boundary(make: Any) -> None:
    """A drained partition's ends are a pair; below them it is as without a source."""
    bench = make()
    mirrored(bench, 100)
    planned(bench, Step.STOP_MIRROR_MAKER)
    _, rows = translate(bench)
    assert rows.loc["billing", ["target_position", "class", "exact"]].tolist() == [100, "END", True]
    assert rows.loc["audit", "class"] == "POLICY"


def test_a_boundary_that_moved_meanwhile_makes_it_an_ordinary_translation(died: Any) -> None:
    """Somebody wrote on the target: its end says nothing of the source's."""
    figures, rows = translate(died, change=lambda: mirrored(died, 103))
    assert set(rows["class"]) == {"POLICY"} and figures["exact"] == 0


def readable(make: Any) -> Any:
    """A planned run that stood still behind its fence; its source answers, and is given up all the same."""
    bench = make()
    mirrored(bench, 80)
    planned(bench, Step.FENCE_PRODUCERS)
    source = bench.clusters["primary"]
    source.away, source.records[ORDERS] = False, {offset: f"{offset}" for offset in range(110)}
    return bench


def test_a_source_that_is_fenced_still_has_no_more_to_lose(make: Any) -> None:
    """Looked at now."""
    assert row(assess(readable(make), "refuses_writes")) == (80, 100, 100)


CHANGED = {
    "its fence was lifted": lambda bench: bench.clusters["primary"].acls.discard(FENCE),
    "somebody wrote": lambda bench: bench.clusters["primary"].log_ends.update({ORDERS: 104}),
    "it does not answer any more": lambda bench: setattr(bench.clusters["primary"], "away", True),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_source_that_is_not_as_it_was_has_no_bound(make: Any, change: Any) -> None:
    """Whoever writes there goes on."""
    bench = readable(make)
    change(bench)
    figures = assess(bench, "refuses_writes")
    assert row(figures)[2] is None and len(doubts(figures)) == 1


def test_a_step_that_was_superseded_is_tried_again_and_refuses(died: Any) -> None:
    """A planned run's return that waits is told at its next look who goes on."""
    process = died.procedure("r1")
    process.lease.take_new_epoch()
    continued(died)
    with pytest.raises(AirflowException, match="is continued by"):
        as_earlier(died)
        ReturnToSource(task_id="return_to_source").resume(died.context("r1"))
