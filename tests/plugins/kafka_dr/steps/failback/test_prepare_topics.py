"""prepare_topics: what is lacking is made alike, and nothing is deleted but behind a decision, an export, and
logs that stand still.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.failback import topic_recreation as preparing_topics
from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.failback.topic_recreation import verify_export
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import LeaseAuthority
from kafka_dr.steps.failback.prepare_topics import PrepareTopics
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import figures_of
from tests.support.failback_bench import BACK, OLD, ORDERS, WayBack

STEP = Step.PREPARE_TOPICS
LOST = {"topic": "orders", "records": 2, "bytes": 20, "first_at": 1, "last_at": 2}


def prepare(way: WayBack) -> dict[str, Any]:
    """Run the step."""
    return way.run(PrepareTopics(task_id=STEP.value))


@pytest.fixture
def way(bench: Any) -> WayBack:
    """Mode append, nothing stranded."""
    way = WayBack(bench)
    way.found()
    return way


def anew(bench: Any, decision: str = "discard", **more: Any) -> WayBack:
    """Mode recreate, decided on by bob, with a verified export of one file."""
    way = WayBack(bench, mode="recreate", stranded={".*": decision}, **more)
    way.found(LOST)
    export(way)
    way.bench.api.answer(Step.DECIDE_STRANDED_RECORDS, f"Decision {planned_return(way.procedure).digest}")
    way.primary.internal = {}
    for cluster in (way.primary, way.standby):
        cluster.partitions |= {
            name: {0: 1}
            for name in (
                "mm2-offset-syncs.standby.internal",
                "mm2-offset-syncs.primary.internal",
                "standby.checkpoints.internal",
                "primary.checkpoints.internal",
            )
        }
    return way


def export(way: WayBack) -> Path:
    """One exported file, as find_stranded_records tells of it; returns its path."""
    folder = way.procedure.artifacts.folder / "stranded-1" / "stranded"
    folder.mkdir(parents=True)
    path = folder / "orders-0.parquet"
    pq.write_table(pa.table({"offset": [10, 11]}), path)
    files = pd.DataFrame(
        {
            "topic": ["orders"],
            "partition": [0],
            "file": [path.name],
            "sha256": [hashlib.sha256(path.read_bytes()).hexdigest()],
        }
    )
    found = figures_of(way.procedure, Step.FIND_STRANDED_RECORDS)
    found["export"] = {"folder": "stranded-1", "files": way.procedure.artifacts.save("exported_files", files)}
    way.bench.done(way.procedure, Step.FIND_STRANDED_RECORDS, **found)
    way.bench.done(way.procedure, Step.DECIDE_STRANDED_RECORDS, asked=True)
    return path


def test_logs_that_are_alike_are_left_alone(way: WayBack) -> None:
    """Nothing is made, grown or deleted, and no connector is asked anything."""
    figures = prepare(way)
    assert (figures["mode"], figures["created"], figures["grown"], figures["topics"]) == ("append", [], [], 1)
    assert way.procedure.artifacts.load(figures["recreated"]).empty and way.primary.deleted == []
    assert way.worker.asked == way.old_worker.asked == []


def test_topics_that_were_born_or_grew_meanwhile_come_along(way: WayBack) -> None:
    """Made with the new primary's own settings, grown to its partitions; the ids of those that are new are told."""
    way.standby.partitions |= {"born": {0: 1, 1: 1}, "orders": {0: 1, 1: 1, 2: 1}}
    way.standby.settings["born"] = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    figures = prepare(way)
    assert (figures["created"], figures["grown"]) == (["born"], ["orders"])
    assert way.primary.settings["born"] == {"cleanup.policy": "compact"}
    assert len(way.primary.partitions["born"]) == 2 and len(way.primary.partitions["orders"]) == 3
    assert way.procedure.artifacts.load(figures["recreated"]).to_dict("records") == [
        {"topic": "born", "topic_id": "id-born"}
    ]


def test_many_topics_are_made_and_grown_by_few_requests(way: WayBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is looked at before each request; a try after one that was killed accepts what exists."""
    born, small = [f"born-{number:03}" for number in range(450)], [f"small-{number:03}" for number in range(250)]
    way.standby.partitions |= {name: {0: 1} for name in born} | {name: {0: 1, 1: 1} for name in small}
    way.primary.partitions |= {name: {0: 1} for name in small}
    held, hold = [], LeaseAuthority.hold
    monkeypatch.setattr(
        LeaseAuthority, "hold", lambda authority: held.append(len(way.primary.requested)) or hold(authority)
    )
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(way.primary, "add_partitions", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
        prepare(way)
    figures = prepare(way)
    assert (figures["created"], figures["grown"]) == ([], small)
    assert [len(topics) for topics in way.primary.requested] == [200, 200, 50, 200, 50] and set(range(5)) <= set(held)
    assert [totals for totals in way.primary.awaited if totals] == [dict.fromkeys(born, 1), dict.fromkeys(small, 2)]
    intents = [entry.payload for entry in way.bench.entries(STEP, "b1") if "creates_topics" in entry.payload]
    assert [(i["creates_topics"], i["grows_topics"]) for i in intents] == [(born, small), ([], small)]
    assert way.procedure.artifacts.load(figures["recreated"])["topic"].tolist() == born


def test_what_a_killed_try_made_is_told_as_made(way: WayBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its intent says so, though the topic is there by now."""
    way.standby.partitions["born"] = {0: 1}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            way.primary,
            "configs",
            lambda topics: (_ for _ in ()).throw(KeyboardInterrupt()) if "born" in way.primary.partitions else {},
        )
        prepare(way)
    assert "born" in way.primary.partitions
    figures = prepare(way)
    assert figures["created"] == [] and way.procedure.artifacts.load(figures["recreated"])["topic"].tolist() == ["born"]


def test_more_partitions_there_are_refused(way: WayBack) -> None:
    """None can be taken away, and keys would land elsewhere."""
    way.primary.partitions["orders"] = {0: 1, 1: 1}
    with pytest.raises(
        AirflowFailException,
        match="more partitions on the returned cluster.*orders: 1 partitions on standby, 2 on primary",
    ):
        prepare(way)


def test_settings_that_decide_on_records_must_be_equal_where_nobody_copies_them(way: WayBack) -> None:
    """With MirrorMaker 2's own copying on they are told only."""
    way.standby.settings["orders"], way.primary.settings["orders"] = (
        {
            "max.message.bytes": "5000000",
            "retention.ms": "1",
        },
        {"cleanup.policy": "compact"},
    )
    way.worker.settings = {"sync.topic.configs.enabled": "false"}
    with pytest.raises(
        AirflowFailException,
        match="orders cleanup.policy: None on standby, compact on primary; orders max.message.bytes",
    ):
        prepare(way)
    way.worker.settings = {}
    found = {line["setting"] for line in prepare(way)["settings_differ"]}
    assert found == {"cleanup.policy", "max.message.bytes", "retention.ms"}


def test_without_its_decision_nothing_is_deleted(bench: Any) -> None:
    """The act itself asks who approved."""
    way = anew(bench)
    way.bench.api.answers.clear()
    with pytest.raises(AirflowFailException, match="never answered"):
        prepare(way)
    assert way.primary.deleted == [] and way.old_worker.asked == []


def test_topics_are_made_anew_behind_stopped_flows(bench: Any) -> None:
    """Both flows stand; the topics have other ids, their partitions, replicas and settings; what MirrorMaker 2
    remembers of them is gone.
    """
    way = anew(bench, started=True)
    way.old_worker.states[OLD] = "RUNNING"
    way.primary.replicas["orders"], way.primary.settings["orders"] = (
        3,
        {
            "min.insync.replicas": "2",
            "retention.ms": "9",
        },
    )
    way.standby.settings["orders"] = {"retention.ms": "7"}
    figures = prepare(way)
    assert way.procedure.artifacts.load(figures["recreated"]).to_dict("records") == [
        {"topic": "orders", "topic_id": "id-orders-1"}
    ]
    assert way.primary.settings["orders"] == {"retention.ms": "7", "min.insync.replicas": "2"}
    assert way.primary.replicas["orders"] == 3
    assert way.worker.states[BACK] == way.old_worker.states[OLD] == "STOPPED"
    assert figures["internal_topics_deleted"] == [
        "mm2-offset-syncs.primary.internal",
        "mm2-offset-syncs.standby.internal",
        "primary.checkpoints.internal",
        "standby.checkpoints.internal",
    ]
    assert figures["export_verified"] == 1
    assert way.worker.offsets_set == {BACK: {ORDERS: None}} and way.old_worker.offsets_set == {}


def test_names_that_part_the_directions_keep_the_other_ones_memory(make_bench: Any) -> None:
    """Under default naming only the copies of the new primary's topics are made anew."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.clusters["primary"].partitions["standby.orders"] = {0: 1}
    way = anew(bench, policy="default")
    figures = prepare(way)
    assert way.primary.deleted[0] == "standby.orders" and "orders" not in way.primary.deleted
    assert figures["internal_topics_deleted"] == ["mm2-offset-syncs.primary.internal", "standby.checkpoints.internal"]


def test_copies_that_were_looked_through_are_made_anew_whatever_they_hold(make_bench: Any) -> None:
    """Under default naming: as long as none came since, whoever wrote it."""
    bench, copy = make_bench(naming={"policy": "default", "separator": "."}), TopicPartition("standby.orders", 0)
    bench.clusters["primary"].partitions["standby.orders"], bench.clusters["primary"].log_ends[copy] = {0: 1}, 4
    way = anew(bench, policy="default")
    way.primary.log_ends[copy] = 5
    with pytest.raises(AirflowFailException, match="Records arrived on the returned cluster.*standby.orders-0"):
        prepare(way)
    assert way.primary.deleted == []
    way.primary.log_ends[copy] = 4
    assert prepare(way)["deleted"] == 1 and way.primary.deleted[0] == "standby.orders"


def test_a_topic_of_syncs_that_both_flows_share_stays(make_bench: Any) -> None:
    """The one keeps them on its source, the other on its target: under the same name."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.clusters["primary"].partitions["standby.orders"] = {0: 1}
    way = anew(bench, policy="default")
    way.old_worker.settings = {"offset-syncs.topic.location": "target"}
    assert prepare(way)["internal_topics_deleted"] == ["standby.checkpoints.internal"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_without_the_export_nothing_is_deleted(bench: Any, damage: Any) -> None:
    """A file that is missing or other than the journal knows: nothing else would hold these records."""
    way = anew(bench)
    damage(next(way.procedure.artifacts.folder.glob("stranded-1/stranded/*.parquet")))
    with pytest.raises(AirflowFailException, match="is missing, or was changed after the export"):
        prepare(way)
    assert way.primary.deleted == []


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_what_only_the_old_log_holds_is_verified_too(bench: Any, damage: Any) -> None:
    """Replicated once, and deleted on the new primary since: the export is all that is left of it."""
    way = anew(bench)
    found = figures_of(way.procedure, Step.FIND_STRANDED_RECORDS)
    folder = way.procedure.artifacts.folder / "stranded-1" / "older"
    folder.mkdir()
    (path := folder / "orders-0.parquet").write_bytes(b"records")
    older = pd.DataFrame(
        {
            "topic": ["orders"],
            "partition": [0],
            "older": [3],
            "older_file": [path.name],
            "older_sha256": [hashlib.sha256(b"records").hexdigest()],
        }
    )
    found["export"]["older"] = way.procedure.artifacts.save("exported_older", older)
    way.bench.done(way.procedure, Step.FIND_STRANDED_RECORDS, **found)
    way.bench.done(way.procedure, Step.DECIDE_STRANDED_RECORDS, asked=True)
    assert verify_export(way.procedure) == 2
    damage(path)
    with pytest.raises(AirflowFailException, match="is missing, or was changed after the export"):
        prepare(way)
    assert way.primary.deleted == []


def again(way: WayBack) -> None:
    """Another run in mode recreate, which goes by what the first one found."""
    found = figures_of(way.procedure, Step.FIND_STRANDED_RECORDS)
    first = way.procedure
    way.another("b2")
    receipts = {
        name: way.procedure.artifacts.save(name, first.artifacts.load(found[name]))
        for name in ("frontier", "returned_ends")
    }
    files = way.procedure.artifacts.save("exported_files", first.artifacts.load(found["export"]["files"]))
    way.bench.done(
        way.procedure,
        Step.FIND_STRANDED_RECORDS,
        **{**found, **receipts, "export": {**found["export"], "procedure_id": first.id, "files": files}},
    )
    way.bench.done(way.procedure, Step.DECIDE_STRANDED_RECORDS, asked=True)
    way.bench.api.answer(Step.DECIDE_STRANDED_RECORDS, f"Decision {planned_return(way.procedure).digest}")


def test_another_run_makes_anew_what_holds_copies_only(bench: Any) -> None:
    """The run before had made it anew, and the flow back had filled it beyond where the old log ended."""
    way = anew(bench)
    prepare(way)
    way.primary.log_ends[ORDERS] = 50
    again(way)
    assert way.procedure.artifacts.load(prepare(way)["recreated"])["topic_id"].tolist() == ["id-orders-2"]


@pytest.mark.parametrize("born", [TopicPartition("born", 0), TopicPartition("orders", 1)])
def test_another_run_makes_anew_what_the_one_before_had_made(bench: Any, born: TopicPartition) -> None:
    """It was not there when that one looked, and the flow back has filled it since."""
    way = anew(bench)
    way.standby.partitions.setdefault(born.topic, {})[born.partition] = 1
    prepare(way)
    way.primary.log_ends[born] = 5
    again(way)
    prepare(way)
    assert way.primary.deleted.count(born.topic) == 2 - (born.topic == "born")


def test_another_run_keeps_a_partition_that_only_the_returned_cluster_has(bench: Any) -> None:
    """No flow back has made it."""
    way = anew(bench)
    prepare(way)
    way.standby.partitions["born"] = {0: 1}
    way.primary.partitions["born"] = {0: 1, 1: 1}
    way.primary.log_ends[TopicPartition("born", 1)] = 1
    again(way)
    with pytest.raises(AirflowFailException, match="Records arrived on the returned cluster.*born-1"):
        prepare(way)


@pytest.mark.parametrize("mode", ["recreate", "append"])
def test_another_run_makes_what_the_one_before_had_deleted_as_it_was(
    bench: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The run before was killed between deleting and making: nobody else knows how many replicas the topic had
    there.
    """
    way = anew(bench)
    way.primary.replicas["orders"], way.primary.settings["orders"] = 3, {"min.insync.replicas": "2"}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(way.primary, "create_topics", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        prepare(way)
    assert "orders" in way.primary.deleted
    bench.params["mode"] = mode
    again(way)
    assert prepare(way)["created"] == ["orders"]
    assert way.primary.replicas["orders"] == 3 and way.primary.settings["orders"]["min.insync.replicas"] == "2"


def test_another_run_keeps_what_was_written_to_an_old_log(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run before had noted it, and was killed before it deleted it: what came since stands in no export."""
    way = anew(bench)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(way.primary, "delete_topics", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        prepare(way)
    way.primary.log_ends[ORDERS] = 50
    again(way)
    with pytest.raises(AirflowFailException, match="Records arrived on the returned cluster"):
        prepare(way)
    assert "orders" not in way.primary.deleted


def test_a_record_that_came_since_the_export_saves_the_topic(bench: Any) -> None:
    """It would be deleted unseen."""
    way = anew(bench)
    way.primary.log_ends[ORDERS] = 11
    with pytest.raises(
        AirflowFailException, match="Records arrived on the returned cluster.*orders-0: newest record at offset 10"
    ):
        prepare(way)
    assert way.primary.deleted == []


def test_the_end_of_a_transaction_is_no_record(bench: Any) -> None:
    """The broker ends what was open when the cluster died."""
    way = anew(bench)
    way.primary.log_ends[ORDERS], way.primary.markers[ORDERS] = 11, 1
    assert prepare(way)["deleted"] == 1


@pytest.mark.parametrize("dies_in", ["delete_topics", "create_topics"])
def test_killed_in_the_middle_it_deletes_nothing_twice(
    bench: Any, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    """The second try finds in the journal what each topic was, and leaves those alone that are new."""
    way = anew(bench)
    true = getattr(way.primary, dies_in)

    def done_and_killed(*given: Any, **more: Any) -> None:
        true(*given, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(way.primary, dies_in, done_and_killed)
        prepare(way)
    figures = prepare(way)
    assert way.primary.deleted.count("orders") == 1 and figures["deleted"] == 1
    assert way.procedure.artifacts.load(figures["recreated"])["topic_id"].tolist() == ["id-orders-1"]


def test_killed_before_it_deleted_the_flow_back_still_knows_how_far_it_was(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that keeps the logs would copy everything into them once more."""
    way = anew(bench, started=True)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(way.primary, "delete_topics", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        prepare(way)
    assert way.worker.offsets_set == {}


def overtaken(way: WayBack, monkeypatch: pytest.MonkeyPatch, meanwhile: Any) -> None:
    """Two topics, each of which is deleted by a request of its own; between these something happens."""
    monkeypatch.setattr(preparing_topics, "_DELETED_AT_ONCE", 1)
    for cluster in (way.primary, way.standby):
        cluster.partitions["payments"] = {0: 1}
    true = way.primary.delete_topics

    def deleted(names: list[str], seconds: float, ids: dict[str, str]) -> list[str]:
        if names == ["orders"]:
            meanwhile()
        return true(names, seconds, ids)

    monkeypatch.setattr(way.primary, "delete_topics", deleted)


def test_what_another_has_made_anew_by_the_same_name_is_not_deleted(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each request it is looked again whose topics these are."""
    way = anew(bench)
    overtaken(way, monkeypatch, lambda: way.primary.topic_ids.update(payments="id-of-another"))
    prepare(way)
    assert "orders" in way.primary.deleted and "payments" not in way.primary.deleted


def test_without_its_lease_it_deletes_nothing_more(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer process of the step has taken the pair between two requests."""
    way = anew(bench)
    overtaken(way, monkeypatch, way.bench.procedure("b1").lease.take_new_epoch)
    with pytest.raises(AirflowException):
        prepare(way)
    assert "orders" in way.primary.deleted and "payments" not in way.primary.deleted


def test_done_once_it_is_not_begun_again(bench: Any) -> None:
    """The flow back has filled the topics since; only what is lacking is made."""
    way = anew(bench)
    prepare(way)
    way.worker.states[BACK], way.primary.log_ends[ORDERS] = "RUNNING", 10
    way.bench.done(way.procedure, Step.DECIDE_STRANDED_RECORDS, asked=True)
    task = PrepareTopics(task_id=STEP.value)
    task.upstream_task_ids = {Step.DECIDE_STRANDED_RECORDS.value}
    way.standby.partitions["born"] = {0: 1}
    figures = way.run(task)
    assert figures["created"] == ["born"] and figures["deleted"] == 1 and way.worker.states[BACK] == "RUNNING"
    assert way.primary.deleted.count("orders") == 1 and way.primary.log_ends[ORDERS] == 10


def test_a_topic_that_somebody_filled_is_not_taken_for_empty(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written between its making and the look: the flow back would not be alone in it."""
    way = anew(bench)
    true = way.primary.create_topic

    def made_and_written(name: str, *given: Any, **more: Any) -> None:
        true(name, *given, **more)
        way.primary.log_ends[TopicPartition(name, 0)] = 3

    monkeypatch.setattr(way.primary, "create_topic", made_and_written)
    with pytest.raises(Exception, match="Topics were not recreated, or already hold records.*orders-0"):
        prepare(way)
    assert Entry.OUTCOME not in way.bench.kinds(STEP, "b1")


def test_a_flow_that_does_not_stop_keeps_the_topics(bench: Any) -> None:
    """Nothing is deleted under a connector that may still write."""
    bench.topology.write_text(
        bench.topology.read_text().replace('"zero_lag_seconds"', '"stop_seconds": 0.2, "zero_lag_seconds"')
    )
    way = anew(bench, started=True)
    way.worker.late.add(BACK)
    with pytest.raises(Exception, match="MirrorMaker 2 did not stop.*s.source"):
        prepare(way)
    assert way.primary.deleted == []


def test_records_without_a_place_are_refused_before_anything_is_deleted(bench: Any) -> None:
    """They are to be replayed to a topic that has fewer partitions, or none, where clients are now."""
    way = anew(bench, decision="replay")
    way.standby.partitions["orders"] = {1: 1}
    with pytest.raises(AirflowFailException, match="cannot be replayed: partitions are missing on standby.*orders-0"):
        prepare(way)
    assert way.primary.deleted == [] and way.worker.asked == way.old_worker.asked == []


def test_where_nothing_was_there_to_delete_a_second_try_deletes_nothing_either(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one made is not taken for what was there before."""
    way = anew(bench)
    del way.primary.partitions["orders"]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            preparing_topics.TopicRecreation, "refuse_filled", lambda _: (_ for _ in ()).throw(KeyboardInterrupt())
        )
        prepare(way)
    made = way.primary.topics(["orders"])["orders"].topic_id
    assert way.run(PrepareTopics(task_id=STEP))["deleted"] == 0
    assert way.primary.topics(["orders"])["orders"].topic_id == made
