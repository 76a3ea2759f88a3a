"""Positions kept outside groups: as groups at the same positions, after the opening too, and never a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from kafka_dr.actions.offsets.reader_positions import segments_for, translate_positions, without_offset
from kafka_dr.errors import BadInput, BindingBroken, Contradiction, KafkaUnavailable, Refusal
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import ORDERS
from tests.support.facts import figures_of
from tests.support.given_up_source import STOP, TRANSLATE, execute
from tests.support.lost_source import held, seen
from tests.support.readers.moved_clients import ON_TARGET, MovedClients, positions_at, readers_at

ALIKE = ["target_topic", "class", "exact", "bound", "evidence"]


@pytest.fixture
def moved(bench: Any, without_spark: Any, monkeypatch: pytest.MonkeyPatch) -> MovedClients:
    """Clients have moved, and write on the target."""
    return MovedClients(bench, without_spark(bench), monkeypatch)


def offsets(rows: pd.DataFrame) -> list[int | None]:
    """The offsets on the target; None without one."""
    return [None if pd.isna(offset) else int(offset) for offset in rows["target_offset"]]


def test_a_reader_gets_what_a_group_at_its_position_got(moved: MovedClients) -> None:
    """In the order of the input, whatever clients have written since on either side."""
    asked = readers_at(*reversed(range(11)))
    rows = translate_positions(moved.procedure, asked)
    assert rows[asked.columns].equals(asked)
    of_groups = moved.groups.loc[asked["offset"]]
    assert offsets(rows) == of_groups["target_position"].tolist()
    assert rows[ALIKE].to_numpy().tolist() == of_groups[ALIKE].to_numpy().tolist()
    unread = {position: {str(content) for content in range(position, 10)} for position in range(11)}
    for position, target in zip(asked["offset"], offsets(rows), strict=True):
        assert {str(content) for content in ON_TARGET[target:]} >= unread[position], "a record would be skipped"
    assert rows["exact"].all() and offsets(rows)[0] == len(ON_TARGET), "not the log's end of now"


def test_nothing_is_changed(moved: MovedClients) -> None:
    """No entry, no epoch, no file; what the job needs is gone afterwards."""
    lease = moved.bench.journal.lease(moved.procedure.pair)
    before = len(moved.bench.journal.entries()), vars(lease), sorted(moved.procedure.artifacts.folder.rglob("*"))
    lines: list[str] = []
    translate_positions(moved.procedure, positions_at(3), tell=lines.append)
    lease = moved.bench.journal.lease(moved.procedure.pair)
    assert before == (
        len(moved.bench.journal.entries()),
        vars(lease),
        sorted(moved.procedure.artifacts.folder.rglob("*")),
    )
    assert not moved.jobs.given[-1].exists() and lines[0] == "1 position of 1 reader on 1 partition"


def test_without_a_position_no_cluster_is_asked(moved: MovedClients) -> None:
    """The result has its columns and no row."""
    moved.source.away = moved.target.away = True
    rows = translate_positions(moved.procedure, positions_at())
    assert len(rows) == 0 and {"topic", "target_offset", "class", "bound"} <= set(rows.columns)


def test_what_the_source_has_deleted_is_refused_by_name(moved: MovedClients) -> None:
    """Who stands above its log start is translated as before, and at the cut-off the source is not asked at all."""
    moved.source.log_starts[ORDERS] = 4
    rows = translate_positions(moved.procedure, readers_at(3, 4, 9, 10))
    assert offsets(rows) == [None, *moved.groups["target_position"].loc[[4, 9, 10]]]
    assert rows["class"].iloc[0] == "REFUSED" and "deleted the records below 4 on primary" in rows["evidence"].iloc[0]
    assert without_offset(rows) == [f"r3: orders-0 at 3: {rows['evidence'].iloc[0]}"]
    moved.source.away = True
    assert offsets(translate_positions(moved.procedure, positions_at(10))) == [len(ON_TARGET)]
    with pytest.raises(KafkaUnavailable, match="primary"):
        translate_positions(moved.procedure, positions_at(9))


@pytest.mark.parametrize("start", [8, 14])
def test_what_the_target_has_deleted_is_told(moved: MovedClients, start: int) -> None:
    """The reader goes on at the log start, also where that lies above the boundary, and the note says why."""
    moved.target.log_starts[ORDERS] = start
    moved.target.records[ORDERS] = {o: c for o, c in moved.target.records[ORDERS].items() if o >= start}
    rows = translate_positions(moved.procedure, readers_at(2, 9, 10)).set_index("offset")
    assert offsets(rows) == [max(start, 8), max(start, 11), max(start, 12)]
    assert rows["clamped"].notna().tolist() == [True, start > 11, start > 11]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one.target.topic_ids.update(orders="another"), "orders was recreated on standby"),
        (lambda one: one.source.topic_ids.update(orders="another"), "orders was recreated on primary"),
        (lambda one: one.target.partitions.pop("orders"), "does not exist on standby any more"),
        (lambda one: one.target.log_ends.update({ORDERS: 11}), "ends at 11, and ended at 12 before"),
    ],
)
def test_another_log_is_never_taken_for_the_old_one(moved: MovedClients, change: Any, why: str) -> None:
    """No position is translated to it, or by it."""
    change(moved)
    row = translate_positions(moved.procedure, positions_at(5)).iloc[0]
    assert row["class"] == "REFUSED" and why in row["evidence"] and row["target_offset"] is pd.NA


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (positions_at(-2), "Positions are negative"),
        (positions_at(11), "Positions lie beyond the cut-off"),
        (positions_at(3, 4), "more than one position of one reader"),
        (positions_at(3, topic="payments"), "Topics or partitions did not move"),
        (positions_at(3).assign(partition=1), "Topics or partitions did not move"),
        (positions_at(3).drop(columns="offset"), "lacks a column, or partition or offset is no integer"),
        (positions_at(3).assign(offset=3.5), "lacks a column, or partition or offset is no integer"),
        (positions_at(3, reader=["a\0"]), "characters that cannot be printed"),
    ],
)
def test_what_cannot_be_is_refused_before_a_cluster_is_asked(
    moved: MovedClients, asked: pd.DataFrame, said: str
) -> None:
    """With the positions by name; no job is started."""
    moved.source.away = moved.target.away = True
    jobs = len(moved.jobs.given)
    with pytest.raises(BadInput, match=said) as refused:
        translate_positions(moved.procedure, asked)
    assert refused.value.seen and len(moved.jobs.given) == jobs


def test_before_the_translation_there_is_nothing_to_translate_with(bench: Any) -> None:
    """The boundary is not known."""
    with pytest.raises(Refusal, match="has not translated its groups' positions yet"):
        translate_positions(bench.planned(), positions_at(3))


def test_an_older_translation_cannot_be_repeated(bench: Any) -> None:
    """It did not note its input."""
    with pytest.raises(Refusal, match="older version of Switchback"):
        translate_positions(bench.stopped(), positions_at(3))


def test_who_returns_translates_nothing(moved: MovedClients) -> None:
    """Clients stay on the source, so do readers."""
    moved.bench.tell(moved.procedure, Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True})
    with pytest.raises(Refusal, match="leads no client to standby"):
        translate_positions(moved.procedure, positions_at(3))


def test_an_input_that_was_changed_is_noticed(moved: MovedClients) -> None:
    """A boundary that somebody raised would place readers ahead."""
    folder = moved.procedure.artifacts.folder / figures_of(moved.procedure, TRANSLATE)["job_input"]["folder"]
    bounds = pd.read_parquet(folder / "bounds.parquet")
    bounds.assign(boundary=bounds["boundary"] + 3).to_parquet(folder / "bounds.parquet")
    with pytest.raises(Contradiction, match="is not the file that was written"):
        translate_positions(moved.procedure, positions_at(10))


def test_another_cluster_is_refused(moved: MovedClients) -> None:
    """Its offsets mean other records."""
    moved.target.id = "another"
    with pytest.raises(BindingBroken):
        translate_positions(moved.procedure, positions_at(10))


def test_a_missing_answer_is_no_answer(moved: MovedClients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written where the job left out a position."""
    whole = moved.jobs.submit

    def partly(*given: Any) -> None:
        whole(*given)
        path = Path(given[4]) / "translation.parquet"
        pd.read_parquet(path).iloc[1:].to_parquet(path)

    monkeypatch.setattr("kafka_dr.actions.spark_jobs.submit_job", partly)
    with pytest.raises(Contradiction, match="did not translate every position"):
        translate_positions(moved.procedure, readers_at(3, 4))


@pytest.mark.parametrize("groups", [(), (60,)])
def test_without_the_source_samples_place_a_reader_never_ahead(
    make_lost: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch, groups: tuple[int, ...]
) -> None:
    """With the input of the assessment, or without groups of the step's own; a reader above all groups, too."""
    recorder.sample(seen(50, 40, replicated=39))
    recorder.sample(seen(100, 70, replicated=58), *(held(f"at {p}", p) for p in groups), groups_read="whole")
    bench = make_lost()
    standby = bench.clusters["standby"]
    standby.log_ends[ORDERS], standby.records[ORDERS] = 80, {offset: f"{offset}" for offset in range(80)}
    AssessDataLoss(task_id=Step.ASSESS_DATA_LOSS.value).execute(bench.context())
    procedure = bench.procedure()
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(procedure, Step.ASSESS_DATA_LOSS)['plan_digest']}")
    bench.done(procedure, Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(procedure, Step.FENCE_SOURCE, fenced="armed")
    execute(bench, STOP)
    made = execute(bench, TRANSLATE)
    assert made["made_by"] == (Step.ASSESS_DATA_LOSS if groups else TRANSLATE)
    monkeypatch.delitem(bench.clusters, "primary")
    rows = translate_positions(bench.procedure(), readers_at(30, 60, 90, 140)).set_index("offset")
    assert rows["class"].tolist() == ["REFUSED", *["NEAREST"] * 3], "below the first sample nothing is known"
    assert rows.loc[30, "target_offset"] is pd.NA and "no offset sync" in rows.loc[30, "evidence"]
    placed = rows.drop(index=30)
    assert (placed["target_offset"] <= np.minimum(placed.index, 80)).all()
    assert ((80 - placed["target_offset"]) >= placed["bound"]).all()
    if groups:
        of_groups = procedure.artifacts.load(made["translation"]).set_index("position")
        assert placed.loc[60, "target_offset"] == of_groups.loc[60, "target_position"]


def test_an_open_segment_begins_above_the_readers() -> None:
    """Where older segments are unknown the job's begins above the groups; one whose begin is known stays."""
    columns = {"segment": 0, "source_to": None, "target_to": None, "copied_back": False, "drained": False}
    segments = pd.DataFrame(
        {"topic": ["a", "known"], "partition": [0, 0], "source_from": [8, 100], "target_from": [50, 40], **columns}
    ).astype({"partition": "int32", "segment": "int32", "source_to": "Int64", "target_to": "Int64"})
    bounds = pd.DataFrame(
        {
            "topic": ["a", "known", "none", "fenced"],
            "partition": [0, 0, 0, 0],
            "cut_off": pd.array([None, None, None, 70], "Int64"),
            "boundary": pd.array([50, 50, 20, 60], "Int64"),
        }
    ).astype({"partition": "int32"})
    asked = pd.concat([positions_at(30, topic=topic) for topic in bounds["topic"]], ignore_index=True)
    found = segments_for(segments, bounds, asked).set_index("topic")[["source_from", "target_from"]]
    assert found.to_dict("index") == {
        "a": {"source_from": 31, "target_from": 50},
        "known": {"source_from": 100, "target_from": 40},
        "none": {"source_from": 31, "target_from": 20},
    }


def test_the_job_is_given_the_recorded_input(moved: MovedClients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limits are those of the step, without the short deadline of an assessment."""
    read: list[dict[str, Any]] = []
    whole = moved.jobs.submit

    def noted(*given: Any) -> None:
        read.append(json.loads((given[3] / "job.json").read_text()))
        whole(*given)

    monkeypatch.setattr("kafka_dr.actions.spark_jobs.submit_job", noted)
    translate_positions(moved.procedure, positions_at(3))
    assert read == [{"isolation": "read_uncommitted", "source_readable": True}]
