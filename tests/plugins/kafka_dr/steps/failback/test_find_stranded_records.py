"""Looking for stranded records: after which failover, with what is known of it, and what a run that deleted
topics leaves to the next.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.failback import stranded_input
from kafka_dr.actions.failback.returned_logs import ReturnedClusterLogs
from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.failback.stranded_export import ExportedPartition, exported_by, exported_partitions
from kafka_dr.actions.failback.stranded_input import StrandedBounds, begun_at, kept_before
from kafka_dr.actions.failback.topic_recreation import exported_older
from kafka_dr.actions.history.seeds import SeededOffset
from kafka_dr.actions.replication.reverse import note_ends
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.failback.stranded import Mode
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TopicsToDelete
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.steps.failback.find_stranded_records import FindStrandedRecords
from kafka_dr.vocabulary import Step

from tests.support.facts import figures_of
from tests.support.failback_bench import ORDERS, WayBack


def step() -> FindStrandedRecords:
    """The step, made anew as Airflow does for each try."""
    return FindStrandedRecords(task_id=Step.FIND_STRANDED_RECORDS.value)


class FlowedBack(WayBack):
    """The flow back was started by the failover, when the copies ended at 10."""

    def _moved(self, seeded: bool, started: bool) -> None:
        super()._moved(seeded, started)
        note_ends(self.failover, Step.START_REVERSE_REPLICATION, {ORDERS: 10})


def after_a_loss(bench: Any) -> Any:
    """The failover of a bench gives its source up instead of fencing it; what was recorded of it is kept with the
    assessment.
    """
    procedure = bench.given_up()
    frames = {
        "syncs": pd.DataFrame(
            {
                "topic": "orders",
                "partition": 0,
                "upstream": (4, 7, 9),
                "downstream": (4, 7, 9),
                "sequence": (1, 2, 3),
            }
        ).astype({"partition": "int32"}),
        "floors": pd.DataFrame(
            {
                "topic": ["orders"],
                "partition": [0],
                "source_end": [6],
                "target_end": [3],
                "replicated": pd.array([2], "Int64"),
                "sampled_at": [1],
            }
        ),
    }
    assessed = figures_of(procedure, Step.ASSESS_DATA_LOSS)
    bench.done(
        procedure,
        Step.ASSESS_DATA_LOSS,
        **assessed | {name: procedure.artifacts.save(name, frame) for name, frame in frames.items()},
    )
    bench.stopped_without_source(procedure)
    bench.clusters["primary"].away = False
    return procedure


class Found:
    """A failback after a failover, with a job in the place of Spark's. Both logs hold the same ten records."""

    def __init__(self, bench: Any, jobs: Any, way: type[WayBack] = WayBack, **choices: Any) -> None:
        self.way, self.jobs = way(bench, **choices), jobs(bench)
        for offset in range(10):
            self.way.write("primary", offset, f"{100 + offset}")
            self.way.write("standby", offset, f"{100 + offset}")

    def look(self) -> dict[str, Any]:
        """The figures."""
        return self.way.run(step())

    def given(self, name: str) -> dict[str, Any]:
        """The job's only row of a file."""
        (row,) = pd.read_parquet(self.jobs.given[-1] / f"{name}.parquet", dtype_backend="numpy_nullable").to_dict(
            "records"
        )
        return row


@pytest.fixture
def planned(make_bench: Any, without_spark: Any) -> Any:
    """Makes a failback after a planned failover, at whose fence both logs ended at 10."""
    return lambda **choices: Found(make_bench(), without_spark, **choices)


def test_where_logs_end_as_clients_left_them_spark_does_not_start(planned: Any) -> None:
    """Nothing is stranded, by the failover's proof; where each log ends is kept for the steps that follow."""
    found = planned()
    figures = found.look()
    procedure = found.way.procedure
    assert not found.jobs.given and (figures["records"], figures["lacking"], figures["topics"], figures["after"]) == (
        0,
        0,
        [],
        found.way.failover.id,
    )
    assert procedure.artifacts.load(figures["frontier"]).to_dict("records") == [
        {"topic": "orders", "partition": 0, "source_end": 10, "source_resumes": 10, "source_tail": 10}
    ]
    assert frame_partitions(procedure.artifacts.load(figures["returned_ends"]), "offset") == {ORDERS: 10}
    assert exported_partitions(procedure) == [] and not planned_return(procedure).needs_a_person


def test_what_was_written_behind_the_fence_is_listed(planned: Any) -> None:
    """Everything below the cut-off was proven to be on the other cluster: only what follows it is read."""
    found = planned()
    found.way.write("primary", 10, "110")
    figures = found.look()
    assert found.given("returned")["proven_end"] == 10 and found.given("bounds")["cut_off"] == 11
    seen = (figures["records"], figures["bytes"], figures["first_at"], figures["last_at"], figures["inexact"])
    assert seen == (1, 10, 5, 9, 0)
    assert figures["topics"][0] | {"topic": "orders", "records": 1} == figures["topics"][0]
    (one,) = exported_partitions(found.way.procedure)
    assert (one.topic_partition, one.since) == (ORDERS, 10) and one.file.exists()
    assert planned_return(found.way.procedure).stranded[0].records == 1


def test_a_returned_log_that_lost_its_tail_lacks_records(planned: Any) -> None:
    """It is compared, whatever was proven of the log that it was."""
    found = planned()
    for offset in (8, 9):
        del found.way.primary.records[ORDERS][offset]
    found.way.primary.log_ends[ORDERS] = 8
    figures = found.look()
    assert (figures["records"], figures["lacking"]) == (0, 2)
    assert found.way.procedure.artifacts.load(figures["frontier"])["source_end"].tolist() == [8]


def test_a_topic_that_the_returned_cluster_deleted_is_lacking_whole(planned: Any) -> None:
    """It has no log to be looked through."""
    found = planned()
    found.way.primary.delete_topics(["orders"])
    figures = found.look()
    assert figures["topics"] == [
        {
            "topic": "orders",
            "records": 0,
            "bytes": 0,
            "aborted": 0,
            "undecided": 0,
            "lacking": 10,
            "older": 0,
            "older_bytes": 0,
            "inexact": 0,
            "first_at": None,
            "last_at": None,
        }
    ]


def test_copies_that_flowed_back_are_not_looked_through(planned: Any) -> None:
    """A flow back that was started after the failover wrote them; before, the log ended where clients left it."""
    found = planned(way=FlowedBack, started=True)
    found.way.write("primary", 10, "200")
    figures = found.look()
    assert not found.jobs.given and figures["records"] == 0
    assert found.way.procedure.artifacts.load(figures["frontier"])["source_resumes"].tolist() == [10]
    assert frame_partitions(found.way.procedure.artifacts.load(figures["returned_ends"]), "offset") == {ORDERS: 11}


@pytest.mark.parametrize("born", [TopicPartition("born", 0), TopicPartition("orders", 1)])
def test_what_the_flow_back_made_holds_copies_only(planned: Any, born: TopicPartition) -> None:
    """A topic or a partition of the new primary that was not on the returned cluster when the flow was started:
    nothing there is stranded, and its copies begin at 0.
    """
    found = planned(way=FlowedBack, started=True)
    for alias in ("standby", "primary"):
        found.way.bench.clusters[alias].partitions.setdefault(born.topic, {})[born.partition] = 1
        for offset in range(5):
            found.way.write(alias, offset, f"{300 + offset}", born)
    figures = found.look()
    frontier = found.way.procedure.artifacts.load(figures["frontier"]).set_index(["topic", "partition"])
    assert not found.jobs.given and figures["records"] == 0
    assert frontier.loc[tuple(born)].tolist() == [0, 0, 0] and frontier.loc["orders", 0].tolist() == [10, 10, 10]
    assert frame_partitions(found.way.procedure.artifacts.load(figures["returned_ends"]), "offset")[born] == 5


def test_before_topics_are_deleted_what_flowed_back_to_them_is_looked_through(planned: Any) -> None:
    """The new primary's retention took the first of two records that had been copied back, and of a topic that was
    born there the first of three: both are exported.
    """
    born = TopicPartition("born", 0)
    found = planned(way=FlowedBack, started=True, mode="recreate")
    for alias in ("standby", "primary"):
        cluster = found.way.bench.clusters[alias]
        cluster.partitions["born"] = {0: 1}
        for tp, offsets in ((ORDERS, (10, 11)), (born, range(3))):
            for offset in offsets:
                found.way.write(alias, offset, f"{300 + offset}", tp)
    there = found.way.bench.clusters["standby"]
    for tp, first in ((ORDERS, 11), (born, 1)):
        there.log_starts[tp] = first
        there.records[tp] = {offset: record for offset, record in there.records[tp].items() if offset >= first}
    figures = found.look()
    seen = {row["topic"]: (row["records"], row["older"]) for row in figures["topics"]}
    assert seen == {"born": (0, 1), "orders": (0, 11)}
    assert [one.topic_partition for one in exported_older(found.way.procedure)] == [born, ORDERS]


def test_what_only_the_returned_cluster_has_is_not_the_flows(planned: Any) -> None:
    """It was not there when the flow was started, nor is it on the new primary: somebody else made it."""
    found = planned(way=FlowedBack, started=True)
    strange = TopicPartition("strange", 0)
    found.way.primary.partitions["strange"] = {0: 1}
    found.way.write("primary", 0, "7", strange)
    assert found.look()["records"] == 1


def test_a_log_that_lost_its_tail_after_the_flow_back_had_begun_is_compared(planned: Any) -> None:
    """It ends below what was noted, whatever the flow has written since."""
    found = planned(way=FlowedBack, started=True)
    for offset in (8, 9):
        del found.way.primary.records[ORDERS][offset]
    found.way.primary.log_ends[ORDERS] = 8
    figures = found.look()
    assert found.given("bounds")["cut_off"] == 8 and figures["lacking"] == 2


def test_after_a_lost_source_both_logs_are_compared(make_bench: Any, without_spark: Any) -> None:
    """With what was recorded of it: the copies of what lies above the sample are read, and what they come from."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.stopped = lambda **_: after_a_loss(bench)
    found = Found(bench, without_spark)
    for offset in (10, 11):
        found.way.write("primary", offset, f"{100 + offset}")
    figures = found.look()
    assert (figures["records"], figures["inexact"], figures["after"]) == (2, 0, found.way.failover.id)
    assert found.given("returned")["proven_end"] is None
    assert (found.given("returned")["target_end"], found.given("bounds")["boundary"]) == (10, 10)
    assert json.loads((found.jobs.made[-1] / "summary.json").read_text())["records_read"] == {"source": 9, "target": 7}


def test_what_came_with_an_earlier_failback_is_not_looked_through(planned: Any) -> None:
    """Clients had been brought to the returned cluster once before: what lies below came from the other one, or was
    decided on then.
    """
    found = planned()
    procedure, way = found.way.procedure, found.way
    there = ReturnedClusterLogs.of(procedure, way.failover)
    assert begun_at(procedure, way.failover, there) == ({}, {})
    earlier = SimpleNamespace(id="earlier", request=SimpleNamespace(source="standby", target="primary"))
    said = SimpleNamespace(cut_off={ORDERS: 7}, boundary={ORDERS: 4}, local_ends={})
    moved = [SimpleNamespace(topic="orders")]
    earlier.progress = SimpleNamespace(done=lambda _: said, require=lambda _: said, moved_topics=lambda: moved)
    earlier.artifacts = SimpleNamespace(load=lambda ends: partitions_frame(ends, "offset"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stranded_input, "opened_before", lambda *_: earlier)
        assert begun_at(procedure, way.failover, there) == ({ORDERS: 4}, {ORDERS: 7})
        both = StrandedBounds(procedure, way.failover, there)
        assert both.returned()[["source_from", "target_from", "decided_to"]].values.tolist() == [[4, 7, 4]]
        assert both.bounds()["source_start"].tolist() == [0]
        # Where names part the directions the flow went on behind its copies: at the same record as clients, or both
        # logs are compared from the beginning.
        patch.setattr(stranded_input, "names_separate_directions", lambda _: True)
        for begun, known in (
            ({ORDERS: SeededOffset(3, 5)}, [4, 5, 4]),
            ({ORDERS: SeededOffset(2, 5)}, [0, 0, 4]),
            ({}, [0, 0, 4]),
        ):
            patch.setattr(
                stranded_input,
                "offsets_seeded",
                lambda flow, last, begun=begun: begun if (flow.request.source, last) == ("primary", earlier) else {},
            )
            apart = StrandedBounds(procedure, way.failover, there)
            assert apart.returned()[["source_from", "target_from", "decided_to"]].values.tolist() == [known]
        assert apart.bounds()["source_start"].tolist() == [0]
        # The copies were made anew since.
        patch.setattr(stranded_input, "offsets_seeded", lambda *_: {ORDERS: SeededOffset(3, 5)})
        patch.setattr(stranded_input, "mode_of", lambda one: Mode.RECREATE if one is way.failover else Mode.APPEND)
        assert begun_at(procedure, way.failover, there) == ({ORDERS: 4}, {})


@pytest.mark.parametrize(
    ("ids", "later", "kept"),
    [
        ({"orders": "now"}, [], [3, 4]),
        ({"orders": "before"}, [], []),
        ({"orders": "now"}, ["recreate"], []),
        ({"orders": "now"}, ["append"], [3, 4]),
    ],
)
def test_what_earlier_failbacks_left_in_its_place_is_told(
    planned: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ids: dict[str, str],
    later: list[str],
    kept: list[int],
) -> None:
    """By the offsets of their exports, unless the topic was made anew since, on either side, by a failback or by
    somebody else.
    """
    found = planned(mode="recreate")
    found.way.primary.topic_ids["orders"] = "now"
    file = tmp_path / "orders-0.parquet"
    pd.DataFrame({"offset": [1, 3, 4]}).to_parquet(file)
    export = ExportedPartition("orders", 0, 3, file, hashlib.sha256(file.read_bytes()).hexdigest(), file)

    def moved(name: str, target: str, mode: str) -> tuple[Any, Any]:
        seeded = SimpleNamespace(topic_ids=ids) if target == "primary" else None
        return None, SimpleNamespace(
            id=name,
            request=SimpleNamespace(target=target, choices={"mode": mode}),
            systems=SimpleNamespace(target=found.way.primary),
            progress=SimpleNamespace(done=lambda fact: seeded),
            artifacts=SimpleNamespace(files=StoredFiles(tmp_path, None)),
        )

    monkeypatch.setattr(
        stranded_input,
        "completed_moves",
        lambda _: [moved("first", "primary", "append"), *(moved("later", "standby", mode) for mode in later)],
    )
    monkeypatch.setattr(stranded_input, "exported_partitions", lambda one: [export])
    frame = kept_before(found.way.procedure)
    assert frame["offset"].tolist() == kept and frame.dtypes.astype(str).tolist() == ["object", "int32", "int64"]
    file.write_bytes(b"changed")
    assert kept_before(found.way.procedure).empty, "an export that is not what the journal knows says nothing"


def test_where_nothing_was_left_no_file_says_so(planned: Any) -> None:
    """The first failback of a pair."""
    found = planned(mode="recreate")
    found.look()
    assert kept_before(found.way.procedure).empty and not (found.jobs.given[-1] / "kept.parquet").exists()


def test_another_partition_than_the_failover_knew_is_stranded_whole(planned: Any) -> None:
    """Nobody mirrored it."""
    found = planned()
    found.way.primary.partitions["orders"][1] = 1
    found.way.write("primary", 0, "7", TopicPartition("orders", 1))
    assert found.look()["records"] == 1


@pytest.mark.parametrize("choices", [{"mode": "recreate"}, {"compare": "whole"}])
def test_what_will_be_deleted_is_compared_whole(planned: Any, choices: dict[str, str]) -> None:
    """Though it was proven; so is it where that was asked for."""
    found = planned(**choices)
    figures = found.look()
    assert json.loads((found.jobs.given[-1] / "job.json").read_text())["whole"] is True
    assert figures["records"] == figures["older"] == 0
    seen = json.loads((found.jobs.made[-1] / "summary.json").read_text())["records_read"]
    assert seen == {"source": 10, "target": 10}


def test_under_names_that_part_them_the_copies_that_will_be_deleted_are_looked_through(
    make_bench: Any, without_spark: Any
) -> None:
    """Beside the topic that they come from, as it is now; they are never stranded. Clients' own topics are deleted
    in no mode: what was proven of those stays proven.
    """
    bench = make_bench(naming={"policy": "default", "separator": "."})
    found, copy = Found(bench, without_spark, policy="default", mode="recreate"), TopicPartition("standby.orders", 0)
    found.way.primary.partitions["standby.orders"] = {0: 1}
    for offset in range(4):
        found.way.write("primary", offset, f"{100 + offset}", copy)
    figures = found.look()
    rows = {
        row["topic"]: row
        for row in (
            pd.read_parquet(found.jobs.given[-1] / "returned.parquet")
            .merge(pd.read_parquet(found.jobs.given[-1] / "bounds.parquet"))
            .to_dict("records")
        )
    }
    seen = [rows["standby.orders"][name] for name in ("copied_back", "target_topic", "cut_off", "boundary")]
    assert seen == [True, "orders", 4, 10]
    assert not rows["orders"]["copied_back"] and rows["orders"]["proven_end"] == 10
    assert (figures["records"], figures["lacking"], figures["older"]) == (0, 0, 0)
    result = frame_partitions(found.way.procedure.artifacts.load(figures["returned_ends"]), "offset")
    assert result == {ORDERS: 10, copy: 4}
    assert found.way.procedure.artifacts.load(figures["frontier"])["topic"].tolist() == ["orders"], (
        "they are no log that clients write to"
    )


@pytest.mark.parametrize("deleted", [True, False])
def test_what_was_found_before_topics_were_deleted_is_taken_over(planned: Any, deleted: bool) -> None:
    """Looking again would find nothing: the records are in the export of the run that deleted them, and nowhere
    else.
    """
    found = planned(mode="recreate")
    found.way.write("primary", 10, "110")
    first = found.look()
    finder = found.way.procedure
    noted = pd.DataFrame(
        [("orders", found.way.primary.topics(["orders"])["orders"].topic_id, 1, "{}")],
        columns=["topic", "topic_id", "replicas", "settings"],
    )
    deleting = TopicsToDelete(deletes_topics=finder.artifacts.save("deleted_topics", noted))
    record_fact(finder.authority, Step.PREPARE_TOPICS, deleting)
    if deleted:
        found.way.primary.delete_topics(["orders"])
    assert found.look() == first
    found.way.another("b2")
    second = found.look()
    assert (second["records"], second["digest"]) == (1, first["digest"])
    (one,) = exported_partitions(found.way.procedure)
    assert one.file.exists() and len(found.jobs.given) == 2 - deleted
    by = finder if deleted else found.way.procedure
    assert exported_by(found.way.procedure) == by.id and by.id in str(one.file), (
        "a run that died before it had deleted anything binds nobody"
    )
    assert second.get("gone", []) == ["orders"] * deleted


def test_without_a_failover_nobody_knows_what_was_replicated(make_bench: Any) -> None:
    """The pair's last procedure must have taken clients from there to where they are."""
    bench = make_bench(dag_id="failback")
    bench.params = {"source": "standby", "target": "primary", "reason": "it is back"}
    bench.opened()
    with pytest.raises(
        AirflowFailException, match="The journal does not show that clients moved from primary to standby"
    ):
        step().execute(bench.context())
