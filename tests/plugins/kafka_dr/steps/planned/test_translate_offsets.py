"""translate_offsets: what an earlier try left is never taken for this try's translation."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions import spark_jobs
from kafka_dr.actions.groups.at_rest import positions_frame
from kafka_dr.actions.offsets.answers import rereads_by_group
from kafka_dr.actions.offsets.translation_input import append_time_topics
from kafka_dr.actions.scope.internal_topics import checkpoints_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import CheckpointColumns
from kafka_dr.errors import ConnectUnavailable, SparkFailed
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.planned import translate_offsets as step
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets
from kafka_dr.vocabulary import Entry, Step
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract.task_rows import unpack_table
from kafka_dr_spark.reading.windows import KafkaAccess
from kafka_dr_spark.translation.task import PartitionTask, output_schema

from tests.support.facts import figures_of
from tests.support.failback_bench import WayBack


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Where a translation was asked for; each is answered with exact rows of what stands in the input."""
    asked: list[Path] = []

    def submit(procedure: Any, context: Any, job: str, given: Path, made: Path, in_vain: str) -> None:
        """Stand in for spark-submit: refuse a folder that is there, as the job does with another input's."""
        asked.append(made)
        made.mkdir()
        ends_at = time.monotonic() + 5
        while not (given / "job.json").exists() and time.monotonic() < ends_at:
            time.sleep(0.01)
        rows = pd.read_parquet(given / "positions.parquet").assign(
            target_topic="orders", target_position=4, bound=0, exact=True
        )
        rows["class"] = "CONTENT"
        rows.to_parquet(made / "translation.parquet")
        summary = {
            "digest": f"of try {len(asked)}",
            "classes": {},
            "records_read": {},
            "repeats": {},
            "holes": [],
            "cut": [],
        }
        (made / "summary.json").write_text(json.dumps(summary))

    monkeypatch.setattr(spark_jobs, "submit_job", submit)
    monkeypatch.setattr(step, "offset_syncs_of", lambda procedure: [pd.DataFrame()])
    monkeypatch.setattr(step, "bounds_frame", lambda procedure: [pd.DataFrame()])
    monkeypatch.setattr(
        step, "checkpoints_of", lambda procedure: checkpoints_frame(CheckpointColumns([], [], [], [], []))
    )
    return asked


def freeze(bench: Any, procedure: Any, position: int) -> None:
    """Drain the consumers, the group standing at a position."""
    bench.clusters["primary"].committed["g"] = {TopicPartition("orders", 0): Position(position)}
    held = procedure.artifacts.save("source_positions", positions_frame(procedure, ["g"]))
    bench.done(procedure, Step.DRAIN_CONSUMERS, groups=["g"], positions=held)


def test_another_try_translates_anew(bench: Any, submitted: list[Path]) -> None:
    """The consumers were drained again between two tries: the second answers what is frozen now."""
    task = TranslateOffsets(task_id="translate_offsets")
    procedure = bench.planned(groups=("g",))
    freeze(bench, procedure, 5)
    first = task.act(procedure, bench.context())
    freeze(bench, procedure, 7)
    procedure.lease.take_new_epoch()
    second = task.act(procedure, bench.context())
    assert len(submitted) == 2 and (first.digest, second.digest) == ("of try 1", "of try 2")
    assert procedure.artifacts.load(second.translation)["position"].tolist() == [7]


def test_where_the_input_cannot_be_written_that_is_the_reason(
    bench: Any, submitted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark only says that it waited in vain, and is told so at once."""
    procedure, seen = bench.planned(groups=("g",)), []
    freeze(bench, procedure, 5)

    def unreachable(procedure: Any) -> None:
        raise ConnectUnavailable("Connect does not answer", "refused", "look at the worker")

    def failing(procedure: Any, context: Any, job: str, given: Path, made: Path, in_vain: str) -> None:
        ends_at = time.monotonic() + 5
        while not (given / "failed").exists() and time.monotonic() < ends_at:
            time.sleep(0.01)
        seen.extend(path.name for path in given.iterdir())
        raise SparkFailed(in_vain, "spark-submit ended with 2", "look")

    monkeypatch.setattr(step, "offset_syncs_of", unreachable)
    monkeypatch.setattr(spark_jobs, "submit_job", failing)
    with pytest.raises(ConnectUnavailable, match="does not answer"):
        TranslateOffsets(task_id="translate_offsets").act(procedure, bench.context())
    assert "failed" in seen and "job.json" not in seen


def test_the_groups_that_would_read_most_again_come_first() -> None:
    """Sums over partitions; a group that reads nothing again is not named, and an unknown bound stays unknown."""
    rows = pd.DataFrame(
        {
            "group": ["a", "a", "b", "c"],
            "bound": pd.array([1, 2, None, 0], "Int64"),
            "mirror_maker_rereads": pd.array([5, None, 9, 0], "Int64"),
        }
    )
    found = rereads_by_group(rows)
    assert found == [{"group": "b", "bound": None, "mirror_maker": 9}, {"group": "a", "bound": 3, "mirror_maker": 5}]
    assert rereads_by_group(rows[:0]) == []


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ("Cannot execute: spark-submit --conf password=x. Error code is: 1.", "spark-submit ended with 1"),
        ("The conn_id `spark` isn't defined", "isn't defined"),
    ],
)
def test_a_failed_spark_job_is_tried_again_and_stands_in_the_journal(
    bench: Any, monkeypatch: pytest.MonkeyPatch, message: str, seen: str
) -> None:
    """Its exit code is the reason; the command, which may hold anything, is not repeated."""

    def fail(*_: Any) -> None:
        raise AirflowException(message)

    procedure = bench.planned(groups=("g",))
    freeze(bench, procedure, 5)
    monkeypatch.setattr(TranslateOffsets, "write_inputs", lambda *_: {})
    monkeypatch.setattr(spark_jobs.SparkSubmitOperator, "execute", fail)
    with pytest.raises(AirflowException, match="Spark did not translate") as error:
        TranslateOffsets(task_id="translate_offsets").execute(bench.context())
    assert not isinstance(error.value, AirflowFailException) and "password" not in str(error.value)
    last = bench.entries("translate_offsets")[-1]
    assert last.kind == Entry.FAILURE and seen in last.payload["seen"]


def test_a_spark_job_that_does_not_end_is_killed_and_tried_again(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A real process in the place of spark-submit, which never ends: after `spark_seconds` it is gone, and the
    journal says why.
    """
    stuck = tmp_path / "bin" / "spark-submit"
    stuck.parent.mkdir()
    stuck.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stuck.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    bench = make_bench(deadlines={"stable_seconds": 0.01, "spark_seconds": 2.0})
    procedure = bench.planned(groups=("g",))
    freeze(bench, procedure, 5)
    monkeypatch.setattr(TranslateOffsets, "write_inputs", lambda *_: {})
    began = time.monotonic()
    with pytest.raises(AirflowException, match="Spark did not translate") as error:
        TranslateOffsets(task_id="translate_offsets").execute(bench.context())
    assert time.monotonic() - began < 30 and not isinstance(error.value, AirflowFailException)
    assert (
        bench.entries("translate_offsets")[-1].payload["seen"]
        == "the Spark job had not ended after 2 s, and was killed"
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_flow_without_groups_or_syncs_keeps_the_jobs_contract(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Columns without rows have their types: the job reads such an input, and answers none."""
    procedure = bench.planned()
    freeze(bench, procedure, 5)
    none = procedure.artifacts.load(figures_of(procedure, Step.DRAIN_CONSUMERS)["positions"])[:0]
    monkeypatch.setattr(
        step,
        "offset_syncs_of",
        lambda procedure: [
            pd.DataFrame({"topic": [], "partition": [], "upstream": [], "downstream": [], "sequence": []}).astype(
                {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
            )
        ],
    )
    bounds = {
        "topic": "orders",
        "partition": 0,
        "target_topic": "orders",
        "source_start": 0,
        "cut_off": 1,
        "target_start": 0,
        "boundary": 1,
        "drained": True,
        "complete": True,
        "other_writer": False,
        "source_compacted": False,
        "target_compacted": False,
        "compare_timestamps": True,
        "recreated": False,
    }
    monkeypatch.setattr(step, "bounds_frame", lambda procedure: pd.DataFrame([bounds]).astype({"partition": "int32"}))
    bench.done(procedure, Step.CHECK_READINESS, isolation="read_uncommitted")
    (tmp_path / "job.json").write_text(
        json.dumps(TranslateOffsets(task_id="translate_offsets").write_inputs(procedure, tmp_path, none))
    )
    rows, limits = sources.tagged_rows(tmp_path), sources.load_limits(tmp_path, None, None)
    (packed,) = sources.packed_for_tasks(rows, sources.spread_partitions({}, 1), 1)
    made = unpack_table(PartitionTask(sources.load_bounds(tmp_path, True), limits, KafkaAccess({}, {}))(packed))
    assert sources.measure_positions(rows) == {} and len(made) == 0 and made.schema == output_schema()


def test_what_was_copied_back_has_the_time_of_the_broker_that_it_was_copied_to(bench: Any) -> None:
    """Compared with its originals' times none of it would be found on the target; before clients have changed sides
    nothing was copied back.
    """
    way = WayBack(bench)
    way.standby.settings["orders"] = {"message.timestamp.type": "LogAppendTime"}
    assert append_time_topics(way.procedure, {"orders", "other"}) == {"orders"}
    way.primary.settings["orders"] = {"message.timestamp.type": "LogAppendTime"}
    assert append_time_topics(way.failover, {"orders"}) == set()
