"""translate_offsets without the source: from the archive and the target alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.offsets.early_translation import trusted_pairs
from kafka_dr.commands.verify_evidence import listed_receipts
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource
from kafka_dr.vocabulary import Step
from kafka_dr_spark.contract import input as sources

from tests.support.facts import asked_by, figures_of
from tests.support.given_up_source import DEFAULT, STOP, T0, TRANSLATE, execute
from tests.support.lost_source import Recorder, held, seen


def assessed(
    make_lost: Any, remote: str = "orders", meanwhile: Callable[[Any], None] | None = None, **topology: Any
) -> Any:
    """A run with a real inventory, approved; MirrorMaker 2 stands, the target ends at 80.

    Args:
        meanwhile: what happens after the assessment.
    """
    bench = make_lost(**topology)
    at = TopicPartition(remote, 0)
    bench.clusters["standby"].partitions[remote] = {0: 1}
    bench.clusters["standby"].log_ends[at] = 80
    bench.clusters["standby"].records[at] = {offset: f"{offset}" for offset in range(80)}
    AssessDataLoss(task_id=Step.ASSESS_DATA_LOSS.value).execute(bench.context())
    procedure = bench.procedure()
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(procedure, Step.ASSESS_DATA_LOSS)['plan_digest']}")
    bench.done(procedure, Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(procedure, Step.FENCE_SOURCE, fenced="armed")
    if meanwhile:
        meanwhile(bench)
    execute(bench, STOP)
    return bench


def recorded(recorder: Recorder, remote: str = "orders") -> None:
    """Two samples, a sync before them and one covered by them, and a pair by content."""
    syncs = [
        (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": u, "downstream": d, "sequence": s})
        for s, (u, d) in enumerate(((20, 20), (69, 75)))
    ]
    pair = (
        Kind.PAIR,
        {"topic": "orders", "partition": 0, "upstream": 55, "downstream": 55, "source_end": 100, "records": 44},
    )
    recorder.sample(seen(50, 40, remote=remote, replicated=39))
    recorder.sample(
        seen(100, 70, remote=remote, replicated=58),
        held("at 90", 90),
        held("at 30", 30),
        held("at 60", 60),
        *syncs,
        pair,
        groups_read="whole",
    )


@pytest.mark.parametrize("naming", [{"policy": "identity"}, DEFAULT])
def test_positions_come_from_what_was_recorded_and_the_target_alone(
    make_lost: Any, recorder: Recorder, naming: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never ahead: behind the first copy of the pair below, or at the floor; the source is not read, nor known."""
    remote = "orders" if naming != DEFAULT else "primary.orders"
    recorded(recorder, remote)
    bench = assessed(make_lost, remote, naming=naming)
    monkeypatch.delitem(bench.clusters, "primary")
    told = execute(bench, TRANSLATE)
    rows = bench.procedure().artifacts.load(told["translation"]).set_index("group")
    assert rows["target_position"].to_dict() == {"at 30": 30, "at 60": 56, "at 90": 56}
    assert set(rows["target_topic"]) == {remote}
    assert (rows["target_position"] <= rows["position"]).all() and set(rows["class"]) == {"NEAREST"}
    assert (told["positions"], told["records_read"]["source"]) == (3, 0)


def test_after_a_failback_nothing_is_counted_below_the_first_sample(make_lost: Any, recorder: Recorder) -> None:
    """Clients wrote on the target, and of that some may never have come back to the source; with the assessment and
    in its own step.
    """
    recorder.sample(seen(20, 20), flows_back=True)
    recorder.sample(flows_back=False)
    recorded(recorder)
    bench = assessed(make_lost)
    positions = [
        bench.procedure()
        .artifacts.load(execute(bench, TRANSLATE)["translation"])
        .set_index("group")["target_position"]["at 30"]
    ]
    bench.clusters["standby"].log_starts[T0] = 1
    procedure = bench.procedure()
    procedure.lease.take_new_epoch()
    again = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    found = [json.loads((folder / "job.json").read_text())["only_mirrored"] for folder in bench.jobs.given[1:]]
    assert found == [False, False]
    assert positions == [21] and again.made_by == TRANSLATE.value


def test_a_group_that_lived_may_read_all_that_the_target_holds_again(make_lost: Any, recorder: Recorder) -> None:
    """It went on after it was seen; one that stood still has a bound of its own, whatever its lag. The review says
    both.
    """
    recorded(recorder)
    recorder.sample(
        *((Kind.GROUP, {"group": f"at {p}", "members": int(p == 30), "state": "Stable"}) for p in (30, 60, 90)),
        groups_read="changed",
    )
    bench = assessed(make_lost)
    told = execute(bench, TRANSLATE)
    rows = bench.procedure().artifacts.load(told["translation"]).set_index("group")
    assert rows["bound"].to_dict() == {"at 30": 50, "at 60": 15, "at 90": 24} and not rows["exact"].any()
    assert (told["may_have_moved"], told["bound"]) == (1, 50)
    body = asked_by(ReviewTranslation(task_id="review_translation"), bench.procedure())[1]
    said = "Records that a group reads again on one partition: at most 50. 1 positions are of groups that may have"
    assert f"{said} committed later positions" in body
    assert "cut-off" not in body and "forecast" not in body, "an unplanned failover has neither"


def test_without_groups_and_syncs_there_is_nothing_to_translate(make_lost: Any) -> None:
    """No row, no digest of one that is not there, and no review."""
    bench = assessed(make_lost, recorded=False)
    told = execute(bench, TRANSLATE)
    assert (told["positions"], told["exact"], told["classes"], told["bound"]) == (0, 0, {}, None)
    assert asked_by(ReviewTranslation(task_id="review_translation"), bench.procedure()) is None


def test_what_was_translated_with_the_assessment_is_not_translated_again(make_lost: Any, recorder: Recorder) -> None:
    """Spark is not started; another try finds the same."""
    recorded(recorder)
    bench = assessed(make_lost)
    first, procedure, made = execute(bench, TRANSLATE), bench.procedure(), len(bench.jobs.given)
    procedure.lease.take_new_epoch()
    second = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    assert first["digest"] == second.digest and first["records_read"]["target"] > 0
    assert [folder.name for folder in bench.jobs.given] == ["assess_data_loss-2.input", "translate_offsets"]
    assert made == 2


def test_what_was_translated_with_the_assessment_is_verified_with_the_evidence(
    make_lost: Any, recorder: Recorder
) -> None:
    """Its file is one that a step names."""
    recorded(recorder)
    figures = figures_of(assessed(make_lost).procedure(), Step.ASSESS_DATA_LOSS)
    files = [receipt["file"] for receipt in listed_receipts({"steps": [{"figures": figures, "notes": []}]})]
    assert [name for name in files if name.startswith("translated_ahead-")] == [figures["translated_ahead"]["file"]]


def test_a_target_that_took_more_since_is_translated_anew(
    make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In folders of its own, by another try, too; the rows are those of the target as it is now."""
    recorded(recorder)
    monkeypatch.setattr("kafka_dr.actions.offsets.early_translation.MOST_POSITIONS", 3)
    bench = assessed(make_lost, meanwhile=lambda bench: bench.clusters["standby"].log_ends.update({T0: 79}))
    first, procedure = execute(bench, TRANSLATE), bench.procedure()
    procedure.lease.take_new_epoch()
    second = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    assert first["digest"] == second.digest and len(set(bench.jobs.given)) == 4
    assert pd.read_parquet(bench.jobs.given[-1] / "bounds.parquet")["boundary"].tolist() == [79]


def test_too_many_positions_do_not_keep_the_loss_waiting(
    make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are translated when it was approved."""
    recorded(recorder)
    monkeypatch.setattr("kafka_dr.actions.offsets.early_translation.MOST_POSITIONS", 2)
    bench = assessed(make_lost)
    assert len(bench.jobs.given) == 1 and execute(bench, TRANSLATE)["positions"] == 3 and len(bench.jobs.given) == 2


def test_reading_that_takes_long_does_not_keep_the_loss_waiting(make_lost: Any, recorder: Recorder) -> None:
    """A million records of each partition may have to be read: after a minute that is left to the step itself."""
    recorded(recorder)
    bench = assessed(make_lost, meanwhile=lambda bench: bench.clusters["standby"].log_ends.update({T0: 79}))
    execute(bench, TRANSLATE)
    _, ahead, itself = (sources.load_limits(folder, None, None).deadline_seconds for folder in bench.jobs.given)
    assert (ahead, itself) == (60, 600)


def test_retention_goes_on_while_people_decide(make_lost: Any, recorder: Recorder) -> None:
    """No group is sent below the beginning of the log as it is now: it would begin wherever its own settings say."""
    recorded(recorder)
    bench = assessed(make_lost)
    bench.clusters["standby"].log_starts[T0] = 60
    rows = bench.procedure().artifacts.load(execute(bench, TRANSLATE)["translation"])
    assert rows["target_position"].min() == 60 and len(bench.jobs.given) == 3


def test_the_review_is_waited_for_though_no_fence_lasts(lost: Any) -> None:
    """The source may never be fenced: there is no clock that could run out."""
    lost.stopped_without_source(lost.procedure())
    assert ReviewTranslation(task_id="review_translation").wait_seconds(lost.procedure()) == 14400


def frame(rows: list[tuple], *names: str) -> pd.DataFrame:
    """Rows of orders-0."""
    return pd.DataFrame([("orders", 0, *row) for row in rows], columns=["topic", "partition", *names]).astype(
        {"partition": "int32", **dict.fromkeys(names, "Int64")}
    )


def test_syncs_that_samples_cover_are_not_trusted() -> None:
    """Only those below the first sample's end of the target; pairs by content follow, in the order of the log."""
    floors = frame([(50, 40, 1), (100, 70, 2)], "source_end", "target_end", "sampled_at")
    syncs = frame([(41, 40, 9), (20, 20, 7), (10, 10, 3)], "upstream", "downstream", "sequence")
    pairs = frame([(66, 60, 2), (55, 50, 1)], "upstream", "downstream", "sampled_at")
    found = trusted_pairs(syncs, pairs, floors)
    result = found[["upstream", "downstream", "sequence"]].values.tolist()
    assert result == [[10, 10, 0], [20, 20, 1], [55, 50, 2], [66, 60, 3]]
    assert trusted_pairs(syncs, pairs[:0], floors[:0])["sequence"].tolist() == [0, 1, 2]
