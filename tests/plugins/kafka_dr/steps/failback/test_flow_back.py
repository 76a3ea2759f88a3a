"""seed_flow_back, start_flow_back, wait_for_catch_up: told once where to begin, never against the other flow,
and near before anybody stands still.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from kafka_dr.actions.failback import resync_start as flow_back
from kafka_dr.actions.failback import topic_recreation as preparing_topics
from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.steps.failback import prepare_topics, seed_flow_back
from kafka_dr.steps.failback.prepare_topics import PrepareTopics
from kafka_dr.steps.failback.seed_flow_back import SeedFlowBack
from kafka_dr.steps.failback.start_flow_back import StartFlowBack
from kafka_dr.steps.failback.wait_for_catch_up import WaitForCatchUp
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import figures_of
from tests.support.failback_bench import BACK, OLD, ORDERS, PAIR, WayBack

BORN = TopicPartition("born", 0)


def seed(way: WayBack) -> dict[str, Any]:
    """Run seed_flow_back."""
    return way.run(SeedFlowBack(task_id=Step.SEED_FLOW_BACK.value))


def start(way: WayBack) -> dict[str, Any]:
    """Run start_flow_back."""
    return way.run(StartFlowBack(task_id=Step.START_FLOW_BACK.value))


def catch_up(way: WayBack) -> dict[str, Any]:
    """Run wait_for_catch_up."""
    return way.run(WaitForCatchUp(task_id=Step.WAIT_FOR_CATCH_UP.value))


def prepared(bench: Any, **choices: Any) -> WayBack:
    """Everything before the seed."""
    way = WayBack(bench, **choices)
    return prepare(way)


def prepare(way: WayBack) -> WayBack:
    """From what was found to the topics."""
    way.found()
    if way.choices.get("mode") == "recreate":
        way.bench.api.answer(Step.DECIDE_STRANDED_RECORDS, f"Decision {planned_return(way.procedure).digest}")
    way.run(PrepareTopics(task_id=Step.PREPARE_TOPICS.value))
    return way


def seeds(way: WayBack, figures: dict[str, Any]) -> dict[str, int]:
    """What was told, by partition."""
    return {
        f"{row.topic}-{row.partition}": row.replicated
        for row in way.procedure.artifacts.load(figures["seeds"]).itertuples()
    }


# -- which flow may copy --------------------------------------------------------------------------------------------


def test_the_old_flow_is_disabled_before_the_flow_back_runs(bench: Any) -> None:
    """Whoever resumes it later resumes no task; a flow back that an earlier procedure disabled is enabled."""
    way = prepared(bench)
    seed(way)
    way.worker.disabled, way.worker.states[BACK] = {BACK}, "STOPPED"
    way.write("standby", 10, "new")
    with pytest.raises(AirflowFailException):
        start(way)
    assert way.old_worker.disabled == {OLD} and not way.worker.disabled
    assert way.worker.asked.index(("enable", BACK)) < way.worker.asked.index(("resume", BACK))


# -- where it begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("boundary", "last"), [(10, 9), (1, 0), (0, None)])
def test_after_a_lost_source_it_begins_at_the_boundary(bench: Any, boundary: int, last: int | None) -> None:
    """Nobody had seeded it: boundary - 1, and null for 0, which would skip a record; what Connect kept from times
    before counts for nothing.
    """
    bench.clusters["standby"].log_ends[ORDERS] = boundary
    way = prepared(bench, seeded=False)
    way.worker.kept[BACK] = {ORDERS: 4}
    figures = seed(way)
    assert way.worker.offsets_set == {BACK: {ORDERS: last}} and figures["seeded"] == 1
    assert seeds(way, figures) == {"orders-0": -1 if last is None else last}


def test_what_the_failover_had_seeded_is_not_written_again(bench: Any) -> None:
    """Read back and found as it was told."""
    way = prepared(bench)
    figures = seed(way)
    assert (figures["seeded"], figures["unchanged"], figures["ran_before"]) == (0, 1, False)
    assert way.worker.offsets_set == {BACK: {}}


def test_a_flow_that_runs_since_the_failover_goes_on(bench: Any) -> None:
    """It was seeded and started then."""
    way = prepared(bench, started=True)
    figures = seed(way)
    assert figures["ran_before"] and figures["seeded"] == 0 and way.worker.offsets_set == {}
    assert "continues from its own offsets" in figures["why_not"]


def test_a_flow_that_ran_and_stands_goes_on_from_its_own_offsets(bench: Any) -> None:
    """Told again, it would copy once more what it has copied."""
    way = prepared(bench, started=True)
    way.worker.states[BACK], way.worker.kept[BACK] = "STOPPED", {ORDERS: 25, BORN: 3}
    way.standby.partitions["born"] = way.primary.partitions["born"] = {0: 1}
    figures = seed(way)
    assert figures["seeded"] == 0 and seeds(way, figures) == {"born-0": 3, "orders-0": 25}


@pytest.mark.parametrize(("started", "kept"), [(True, 5), (True, None), (False, 12)])
def test_offsets_that_nobody_can_explain_are_refused(bench: Any, started: bool, kept: int | None) -> None:
    """Less than it was told after it ran, or more though nobody started it: what was copied cannot be known."""
    way = prepared(bench, started=started)
    way.worker.states[BACK], way.worker.kept[BACK] = "STOPPED", {ORDERS: kept}
    with pytest.raises(
        AirflowFailException, match="How far the flow back has copied is unknown.*orders-0.*mode recreate"
    ):
        seed(way)
    assert way.worker.offsets_set == {}


def test_offsets_that_connect_lost_before_it_ran_are_written_again(bench: Any) -> None:
    """The worker's state came back older than the failover."""
    way = prepared(bench)
    way.worker.kept[BACK] = {ORDERS: 3}
    assert seed(way)["seeded"] == 1 and way.worker.kept[BACK] == {ORDERS: 9}


def test_a_flow_that_somebody_started_by_hand_is_refused(bench: Any) -> None:
    """Nobody knows where it began."""
    way = prepared(bench, seeded=False)
    way.worker.states[BACK] = "RUNNING"
    with pytest.raises(AirflowFailException, match="the journal does not show at which offsets"):
        seed(way)


def test_topics_born_since_begin_at_their_beginning(bench: Any) -> None:
    """What Connect keeps of an older topic of this name would skip records."""
    way = WayBack(bench)
    way.standby.partitions["born"] = {0: 1}
    way.worker.kept[BACK] = {ORDERS: 9, BORN: 70}
    prepare(way)
    figures = seed(way)
    assert way.worker.kept[BACK] == {ORDERS: 9, BORN: None} and seeds(way, figures)["born-0"] == -1


def test_a_topic_that_the_returned_cluster_lost_is_filled_from_its_beginning(bench: Any) -> None:
    """prepare_topics made it: its boundary speaks of a log that is gone."""
    way = WayBack(bench)
    del way.primary.partitions["orders"]
    way.primary.deleted.append("orders")
    prepare(way)
    assert seed(way)["seeded"] == 1 and way.worker.kept[BACK] == {ORDERS: None}


def test_what_was_made_anew_begins_at_its_beginning(bench: Any) -> None:
    """Mode recreate: null, whatever was seeded or copied before."""
    way = prepared(bench, started=True, mode="recreate")
    way.worker.kept[BACK] = {ORDERS: 30}
    figures = seed(way)
    assert way.worker.kept[BACK] == {ORDERS: None} and seeds(way, figures) == {"orders-0": -1}


def test_an_earlier_failback_that_made_topics_anew_and_seeded_nothing_is_remembered(bench: Any) -> None:
    """The next run, in mode append, does not begin at the failover's boundary."""
    way = prepared(bench, mode="recreate")
    way.choices = {}
    way.another("b2")
    prepare(way)
    seed(way)
    assert way.worker.kept[BACK] == {ORDERS: None}


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_an_earlier_failback_that_was_killed_when_it_had_made_topics_anew_is_remembered(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """It has no outcome: what it noted before it deleted says which topics there are others now. The flow's own
    offset would skip what they lack.
    """
    bench, name = (
        make_bench(naming={"policy": policy, "separator": "."}),
        {"identity": "orders", "default": "standby.orders"}[policy],
    )
    bench.clusters["primary"].partitions[name] = {0: 1}
    way = WayBack(bench, policy=policy, mode="recreate")
    way.worker.kept[BACK] = {ORDERS: 9}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            preparing_topics.TopicRecreation, "refuse_filled", lambda _: (_ for _ in ()).throw(KeyboardInterrupt())
        )
        prepare(way)
    way.worker.kept[BACK], way.choices = {ORDERS: 9}, {}
    way.another("b2")
    prepare(way)
    seed(way)
    assert way.worker.kept[BACK] == {ORDERS: None}


def test_topics_made_anew_before_clients_left_again_are_not_copied_twice(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failback made them, clients returned, and left again: both logs hold what stands below the newest boundary."""
    way = prepared(bench, mode="recreate")
    seed(way)
    way.bench.done(way.procedure, Step.START_FLOW_BACK, started=True)
    way.bench.journal.append(way.failover.id, Step.OPEN_TARGET, Entry.INTENT, way.bench.journal.lease(PAIR).epoch, {})
    way.worker.kept[BACK], way.choices = {ORDERS: 9}, {}
    told = flow_back.seeds_since_failover
    monkeypatch.setattr(
        seed_flow_back, "seeds_since_failover", lambda procedure: replace(told(procedure), topic_ids={})
    )
    way.another("b2")
    prepare(way)
    assert seeds(way, seed(way)) == {"orders-0": 9} and way.worker.kept[BACK] == {ORDERS: 9}


def test_what_was_seeded_since_it_was_made_anew_is_not_copied_twice(bench: Any) -> None:
    """One failback made the topics, a second one seeded and filled them, a third one goes on."""
    way = prepared(bench, mode="recreate")
    way.choices = {}
    way.another("b2")
    prepare(way)
    seed(way)
    way.bench.done(way.procedure, Step.START_FLOW_BACK, started=True)
    way.worker.kept[BACK] = {ORDERS: 8}
    way.another("b3")
    prepare(way)
    seed(way)
    assert way.worker.kept[BACK] == {ORDERS: 8}


def test_what_was_made_anew_is_known_where_the_failover_knew_no_ids(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost source of which nobody had recorded them: prepare_topics says what it made."""
    way = prepared(bench, seeded=False, mode="recreate")
    told = flow_back.seeds_since_failover
    monkeypatch.setattr(
        seed_flow_back, "seeds_since_failover", lambda procedure: replace(told(procedure), topic_ids={})
    )
    assert seeds(way, seed(way)) == {"orders-0": -1}


def test_an_earlier_failback_that_filled_them_is_gone_on_from(bench: Any) -> None:
    """It made them anew, seeded, and the flow ran; then it was given up."""
    way = prepared(bench, mode="recreate")
    seed(way)
    way.bench.done(way.procedure, Step.START_FLOW_BACK, started=True)
    way.worker.kept[BACK] = {ORDERS: 8}
    way.choices = {}
    way.another("b2")
    prepare(way)
    figures = seed(way)
    assert figures["ran_before"] and way.worker.kept[BACK] == {ORDERS: 8}


def test_offsets_of_vanished_partitions_are_forgotten(bench: Any) -> None:
    """A topic that was deleted meanwhile and is made again must begin at its beginning; heartbeats stay."""
    way = prepared(bench)
    beats = TopicPartition("heartbeats", 0)
    way.standby.partitions["heartbeats"] = {0: 1}
    way.worker.kept[BACK] = {ORDERS: 9, TopicPartition("gone", 0): 4, TopicPartition("orders", 7): 2, beats: 100}
    seed(way)
    found = way.worker.kept[BACK]
    assert found == {ORDERS: 9, TopicPartition("gone", 0): None, TopicPartition("orders", 7): None, beats: 100}


def test_a_log_that_was_cut_on_the_new_primary_is_refused(bench: Any) -> None:
    """Its boundary lies beyond its end."""
    way = prepared(bench, seeded=False)
    way.standby.log_ends[ORDERS] = 4
    with pytest.raises(
        AirflowFailException,
        match="Log ends of the new primary are lower than at the failover.*orders-0: 10 at the failover, 4 now",
    ):
        seed(way)


def test_offsets_that_are_not_kept_are_seen(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Connect answers after the change is compared as a whole."""
    way = prepared(bench, seeded=False)
    way.worker.kept[BACK] = {ORDERS: 4}
    monkeypatch.setattr(way.worker, "change_offsets", lambda name, alias, changes: way.worker.offsets(name))
    with pytest.raises(
        AirflowException, match="does not store the flow back's offsets.*orders-0: 9 was written, 4 was read back"
    ):
        seed(way)
    assert Entry.OUTCOME not in way.bench.kinds(Step.SEED_FLOW_BACK, "b1")


def test_names_that_part_the_directions_need_no_seed(make_bench: Any) -> None:
    """Its own offsets hold: one direction for ever; running or standing."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.clusters["primary"].partitions["standby.orders"] = {0: 1}
    way = prepared(bench, policy="default", seeded=False)
    way.worker.kept[BACK] = {ORDERS: 4}
    assert seed(way)["seeded"] == 0 and way.worker.kept[BACK] == {ORDERS: 4}
    way.worker.states[BACK] = "RUNNING"
    way.another("b2")
    assert seed(prepare(way))["seeded"] == 0


# -- that it runs ------------------------------------------------------------------------------------------------


def seeded_way(bench: Any, **choices: Any) -> WayBack:
    """Everything before the start."""
    way = prepared(bench, **choices)
    seed(way)
    return way


def test_the_first_copies_are_the_first_records_since(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connectors run, the log ends from before are told, and one partition was seen to flow."""
    way = seeded_way(bench)
    way.write("standby", 10, "new")
    resume = way.worker.resume

    def resumed(name: str, **more: Any) -> None:
        resume(name, **more)
        way.write("primary", 10, "new")

    monkeypatch.setattr(way.worker, "resume", resumed)
    figures = start(way)
    assert figures["partitions_flowing"] == 1 and figures["connectors"] == [BACK, "s.checkpoint"]
    (note,) = [e.payload["ends_before"] for e in way.bench.entries(Step.START_FLOW_BACK, "b1") if e.kind == Entry.NOTE]
    assert way.procedure.artifacts.load(note)["offset"].tolist() == [10]


def test_a_copy_of_something_old_stops_it_again(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began somewhere else than it was told."""
    way = seeded_way(bench)
    way.write("standby", 10, "new")
    resume = way.worker.resume
    monkeypatch.setattr(
        way.worker, "resume", lambda name, **more: (resume(name, **more), way.write("primary", 10, "old"))
    )
    with pytest.raises(AirflowFailException, match="copies records other than those that clients wrote") as error:
        start(way)
    assert way.worker.states[BACK] == "STOPPED"
    assert "partitions of standby -> copies on primary: orders-0" in str(error.value) and BACK in str(error.value)


def test_a_first_record_that_was_compacted_away_proves_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy is there, the record itself is not any more."""
    way = seeded_way(bench)
    way.standby.settings["orders"] = {"cleanup.policy": "compact"}
    way.write("standby", 11, "later value")
    resume = way.worker.resume
    monkeypatch.setattr(
        way.worker, "resume", lambda name, **more: (resume(name, **more), way.write("primary", 10, "earlier value"))
    )
    assert start(way)["partitions_flowing"] == 1


def test_it_is_not_resumed_against_the_other_flow(bench: Any) -> None:
    """Both directions at once copy records in a circle."""
    way = seeded_way(bench)
    way.old_worker.states[OLD] = "RUNNING"
    with pytest.raises(AirflowFailException, match="p.source is not STOPPED"):
        start(way)
    assert way.worker.states[BACK] == "STOPPED" and ("resume", BACK) not in way.worker.asked


def test_a_record_that_came_since_the_look_is_refused(bench: Any) -> None:
    """It would stand in the log as if it had been replicated."""
    way = seeded_way(bench)
    way.primary.log_ends[ORDERS] = 12
    with pytest.raises(AirflowFailException, match="Records arrived on the returned cluster"):
        start(way)
    assert way.worker.states[BACK] == "STOPPED"


def test_one_that_ran_before_goes_on_without_a_proof(bench: Any) -> None:
    """Its copies are of any age; a checkpoint connector that somebody stopped runs again."""
    way = seeded_way(bench, started=True)
    way.worker.states["s.checkpoint"] = "STOPPED"
    assert (
        "continues from its offsets in Connect" in start(way)["note"] and way.worker.states["s.checkpoint"] == "RUNNING"
    )


def test_a_resume_that_comes_too_late_is_undone(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run was given back while this process stood still."""
    way = seeded_way(bench)
    resume = way.worker.resume

    def late(name: str, **more: Any) -> None:
        resume(name, **more)
        newer = way.bench.procedure("b1")
        newer.lease.take_new_epoch()
        newer.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"try": 1})

    monkeypatch.setattr(way.worker, "resume", late)
    with pytest.raises(AirflowException):
        start(way)
    assert way.worker.states[BACK] == "STOPPED"


# -- that it has caught up ---------------------------------------------------------------------------------------


@pytest.fixture
def flowing(make_bench: Any) -> WayBack:
    """The flow back runs; the drain may last two minutes."""
    way = WayBack(
        make_bench(deadlines={"stable_seconds": 0.01, "zero_lag_seconds": 120, "catch_up_seconds": 0.4}), started=True
    )
    way.found()
    return way


def test_all_that_was_written_a_moment_ago_is_copied(flowing: WayBack) -> None:
    """Connect's own offset has reached it."""
    flowing.standby.log_ends[ORDERS], flowing.worker.kept[BACK] = 30, {ORDERS: 29}
    figures = catch_up(flowing)
    assert figures["partitions"] == 1 and 0 <= figures["behind_seconds"] < 60


def test_what_was_deleted_since_is_not_taken_for_copied(make_bench: Any) -> None:
    """Connect's own offset speaks of the log that is gone."""
    way = prepared(make_bench(deadlines={"stable_seconds": 0.01, "zero_lag_seconds": 120}))
    seed(way)
    way.worker.kept[BACK], way.worker.states[BACK] = {ORDERS: 9}, "RUNNING"
    catch_up(way)
    way.primary.topic_ids["orders"] = "id-orders-1"
    with pytest.raises(AirflowFailException, match="deleted or recreated after the flow back was seeded.*orders"):
        catch_up(way)


def test_one_that_is_behind_is_waited_for_and_named(flowing: WayBack) -> None:
    """Until its deadline, with the partitions that are farthest behind."""
    flowing.standby.log_ends[ORDERS], flowing.worker.kept[BACK] = 30, {ORDERS: 12}
    with pytest.raises(AirflowException, match="The flow back catching up: not within 0 s.*orders-0 by 17"):
        catch_up(flowing)


def test_a_partition_that_was_never_copied_is_behind(flowing: WayBack) -> None:
    """No offset at all is no reason to go on."""
    flowing.standby.log_ends[ORDERS], flowing.worker.kept[BACK] = 3, {}
    with pytest.raises(AirflowException, match="orders-0 by 3"):
        catch_up(flowing)


def test_what_no_reader_finds_is_not_waited_for(flowing: WayBack) -> None:
    """Behind the last record lie markers of transactions only."""
    flowing.standby.log_ends[ORDERS], flowing.standby.markers[ORDERS], flowing.worker.kept[BACK] = 30, 4, {ORDERS: 25}
    assert catch_up(flowing)["partitions"] == 1


def test_what_was_copied_long_after_it_was_written_is_not_near(
    flowing: WayBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backlog of an hour is copied; what came meanwhile is looked at next."""
    flowing.standby.log_ends[ORDERS], flowing.worker.kept[BACK] = 30, {ORDERS: 29}
    flowing.bench.change_params("b1", zero_lag_seconds=0.0001)
    with pytest.raises(AirflowException, match="are copied; newer records are compared next"):
        catch_up(flowing)
    assert len([e for e in flowing.bench.entries(Step.WAIT_FOR_CATCH_UP, "b1") if e.kind == Entry.NOTE]) > 1


def test_a_flow_that_failed_is_not_waited_for(flowing: WayBack) -> None:
    """Nothing would come of it."""
    flowing.worker.states[BACK] = "FAILED"
    with pytest.raises(AirflowFailException, match="Connector s.source is stopped or failed, or a task has failed"):
        catch_up(flowing)


def test_a_long_wait_frees_its_slot(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is woken later, and goes on with the look that it made first."""
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.3)
    way = WayBack(make_bench(deadlines={"stable_seconds": 0.01, "zero_lag_seconds": 120}), started=True)
    way.found()
    way.standby.log_ends[ORDERS], way.worker.kept[BACK] = 30, {ORDERS: 12}
    task = WaitForCatchUp(task_id=Step.WAIT_FOR_CATCH_UP.value)
    with pytest.raises(TaskDeferred):
        task.execute(way.bench.context("b1"))
    way.worker.kept[BACK] = {ORDERS: 29}
    task.resume(way.bench.context("b1"))
    way.procedure = way.bench.procedure("b1")
    assert figures_of(way.procedure, Step.WAIT_FOR_CATCH_UP)["partitions"] == 1
    assert len([e for e in way.bench.entries(Step.WAIT_FOR_CATCH_UP, "b1") if e.kind == Entry.NOTE]) == 1


def test_seeds_are_kept_by_partition(bench: Any) -> None:
    """What was told stands beside the evidence, with -1 for null."""
    way = prepared(bench, seeded=False)
    assert way.procedure.artifacts.load(seed(way)["seeds"]).equals(partitions_frame({ORDERS: 9}, "replicated"))


@pytest.mark.parametrize("choices", [{"mode": "recreate"}, {}])
def test_a_topic_that_is_gone_since_it_was_prepared_is_not_seeded(bench: Any, choices: dict[str, str]) -> None:
    """MirrorMaker 2 would make it again and fill it from the old boundary on, and every later look would find it in
    order.
    """
    way = prepared(bench, **choices)
    del way.primary.partitions["orders"]
    with pytest.raises(AirflowFailException, match="missing on the returned cluster.*orders"):
        seed(way)
    assert way.worker.asked == [] or "PATCH" not in str(way.worker.asked)


@pytest.mark.parametrize("choices", [{}, {"mode": "recreate"}])
def test_a_topic_that_was_born_after_the_topics_were_prepared_is_no_hindrance(
    bench: Any, choices: dict[str, str]
) -> None:
    """By clients, who are at work, or for a quarantine: MirrorMaker 2 will make it on the returned cluster, and fill
    it from its beginning.
    """
    way = prepared(bench, **choices)
    way.standby.partitions["orders.stranded"] = {0: 1}
    assert seed(way)["topic_ids"].keys() == {"orders"}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mode", ["append", "recreate"])
def test_what_a_killed_run_has_made_begins_at_its_beginning(
    bench: Any, monkeypatch: pytest.MonkeyPatch, mode: str, known: bool
) -> None:
    """The returned cluster came without the topic; nobody wrote its outcome, and perhaps nobody knew the id that it
    had before.
    """
    way = WayBack(bench, **({"mode": mode} if mode == "recreate" else {}))
    if not known:
        told = flow_back.seeds_since_failover
        monkeypatch.setattr(
            seed_flow_back, "seeds_since_failover", lambda procedure: replace(told(procedure), topic_ids={})
        )
    del way.primary.partitions["orders"]
    way.primary.deleted.append("orders")
    way.primary.log_ends.pop(ORDERS, None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepare_topics, "settings_that_differ", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        prepare(way)
    way.primary.log_ends[ORDERS] = 0
    way.choices = {}
    way.another("b2")
    assert seeds(way, seed(prepare(way))) == {"orders-0": -1}
