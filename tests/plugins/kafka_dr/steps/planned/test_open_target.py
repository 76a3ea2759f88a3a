"""Opening the target, and seeing clients arrive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused, WriteUnknown
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.shared.verify_clients import VerifyClients
from kafka_dr.vocabulary import Entry, Step

STEP = Step.OPEN_TARGET
T0, COMMITS = TopicPartition("orders", 0), TopicPartition("__consumer_offsets", 0)


def open_(bench: Any) -> dict[str, Any]:
    """Execute the step."""
    return OpenTarget(task_id=STEP.value).execute(bench.context())


def denials(bench: Any, alias: str = "standby") -> set[AclEntry]:
    """The denials on a cluster."""
    return {e for e in bench.clusters[alias].acls if e.permission == "deny"}


def lift_source_fence(bench: Any) -> None:
    """Somebody lifts the source's fence."""
    bench.clusters["primary"].acls -= denials(bench, "primary")


def test_the_target_opens(bench: Any) -> None:
    """With everything as it was, the denials go, a canary is read back, and the intent names what was removed."""
    bench.stopped()
    open_(bench)
    assert denials(bench) == set()
    assert bench.kinds(STEP) == [Entry.INTENT, Entry.OUTCOME]
    intent, outcome = bench.entries(STEP)
    assert len(intent.payload["removes_acl_entries"]) == 1
    assert outcome.payload["canary"] == {"topic": "__switchback_canary", "offset": 0}


CHANGES = {
    "the source's fence was lifted": lift_source_fence,
    "the source accepts the probe": lambda b: b.probe_answers.update({0: WriteAccepted(5, 1)}),
    "somebody wrote on the source": lambda b: b.clusters["primary"].log_ends.update({T0: 11}),
    "somebody wrote on the target": lambda b: b.clusters["standby"].log_ends.update({T0: 11}),
    "MirrorMaker 2 runs again": lambda b: b.workers["standby"].states.update({"p.source": "RUNNING"}),
    "the checkpoint connector runs again": lambda b: b.workers["standby"].states.update({"p.checkpoint": "RUNNING"}),
    "the approval is gone": lambda b: b.api.answers.clear(),
    "the approval is the starter's": lambda b: setattr(b.api, "starter", "bob"),
    "the fence has lasted too long": lambda b: b.change_params(max_fence_seconds=0.001),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_is_meant_before_everything_was_looked_at(bench: Any, change: Any) -> None:
    """Whatever changed while people waited: no intent, no denial removed, so the way back stays open."""
    bench.stopped()
    change(bench)
    before = denials(bench)
    with pytest.raises(AirflowFailException):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP) and denials(bench) == before


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_a_group_that_came_alive_keeps_the_target_closed(bench: Any, alias: str) -> None:
    """A member on either cluster: no intent, nothing removed."""
    bench.planned(groups=("billing",))
    procedure = bench.procedure()
    bench.stopped_after_drain(procedure, ["billing"])
    bench.clusters[alias].members["billing"] = 1
    with pytest.raises(AirflowFailException, match=f"Groups have members on {alias}"):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP)


def test_a_position_that_moved_keeps_the_target_closed(bench: Any) -> None:
    """A commit after the positions were frozen: the translation is not of these positions."""
    bench.clusters["primary"].committed["billing"] = {T0: Position(4)}
    bench.planned(groups=("billing",))
    bench.stopped_after_drain(bench.procedure(), ["billing"])
    bench.clusters["primary"].committed["billing"] = {T0: Position(5)}
    with pytest.raises(AirflowFailException, match="positions on the source changed after drain_consumers"):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP)


def test_a_topic_with_records_that_came_since_keeps_the_target_closed(bench: Any) -> None:
    """No entry of the fence covers it; an empty one has nothing to lose."""
    bench.stopped()
    source = bench.clusters["primary"]
    source.partitions["born"], source.log_ends[TopicPartition("born", 0)] = {0: 1}, 1
    with pytest.raises(AirflowFailException, match="topics that were created behind the fence.*born"):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP)
    source.log_ends[TopicPartition("born", 0)] = 0
    open_(bench)
    assert bench.kinds(STEP)[-1] == Entry.OUTCOME


def test_a_group_with_positions_that_came_since_keeps_the_target_closed(bench: Any) -> None:
    """It would find no position on the target."""
    bench.stopped()
    bench.clusters["primary"].committed["born"] = {T0: Position(4)}
    with pytest.raises(AirflowFailException, match="drain_consumers did not drain.*born"):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP)


@pytest.fixture
def counted(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A frozen group, where one position counts as many, on a source whose topic of commits can be seen."""
    monkeypatch.setattr("kafka_dr.actions.groups.at_rest._POSITIONS_READ_AGAIN", 0)
    source = bench.clusters["primary"]
    source.partitions["__consumer_offsets"] = {0: 1}
    source.log_ends[COMMITS] = 7
    source.committed["billing"] = {T0: Position(4)}
    bench.planned(groups=("billing",))
    bench.stopped_after_drain(bench.procedure(), ["billing"])
    source.positions_read = 0
    return bench


def test_where_nobody_committed_since_no_position_is_read_again(counted: Any) -> None:
    """Ten thousand groups take seconds, and clients stand still."""
    open_(counted)
    assert counted.clusters["primary"].positions_read == 0
    assert counted.entries(STEP)[-1].payload["positions_unchanged"] == "no commit since drain_consumers"


def test_few_positions_are_read_again(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs nothing, and shows what another process saw."""
    monkeypatch.setattr("kafka_dr.actions.groups.at_rest._POSITIONS_READ_AGAIN", 1)
    open_(counted)
    assert counted.clusters["primary"].positions_read == 1
    assert counted.entries(STEP)[-1].payload["positions_unchanged"] == "read again, unchanged"


def test_a_commit_of_another_group_only_costs_a_look(counted: Any) -> None:
    """The ends moved, the positions stand: the target opens."""
    counted.clusters["primary"].log_ends[COMMITS] = 8
    open_(counted)
    assert counted.clusters["primary"].positions_read == 1 and counted.kinds(STEP)[-1] == Entry.OUTCOME


def test_a_commit_of_a_frozen_group_keeps_the_target_closed(counted: Any) -> None:
    """The ends moved, and so did a position."""
    counted.clusters["primary"].log_ends[COMMITS] = 8
    counted.clusters["primary"].committed["billing"] = {T0: Position(5)}
    with pytest.raises(AirflowFailException, match="positions on the source changed after drain_consumers"):
        open_(counted)


def test_killed_after_its_intent_it_goes_on(bench: Any) -> None:
    """The second run removes what the first one meant to remove."""
    procedure = bench.stopped()
    procedure.authority.write(STEP, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(bench)]})
    open_(bench)
    assert denials(bench) == set() and bench.kinds(STEP)[-1] == Entry.OUTCOME


def test_opening_twice_is_opening_once(bench: Any) -> None:
    """A second copy of the task changes nothing."""
    bench.stopped()
    open_(bench)
    open_(bench)
    assert bench.kinds(STEP) == [Entry.INTENT, Entry.OUTCOME]


def test_a_probe_refused_for_another_reason_proves_no_fence(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few replicas refuse a write today and take it tomorrow: that is no fence. The step waits for an answer."""
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.0)
    bench.stopped()
    bench.probe_answers[0] = WriteRefused("NOT_ENOUGH_REPLICAS", False, 1)
    with pytest.raises(TaskDeferred):
        open_(bench)
    assert denials(bench) and bench.kinds(STEP) == []
    with pytest.raises(AirflowException, match="got no clear answer"):
        OpenTarget(task_id=STEP.value).resume(bench.context(), outlasted=86_400)
    del bench.probe_answers[0]
    open_(bench)
    assert denials(bench) == set()


def test_a_canary_is_written_again_while_a_leader_moves(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the target refuses for good ends the step; what passes does not undo the whole failover."""
    monkeypatch.setattr("kafka_dr.procedure.progress._ACT_AGAIN_SECONDS", 0.0)
    bench.stopped()
    answers = iter([WriteUnknown("_TIMED_OUT"), WriteRefused("NOT_LEADER_FOR_PARTITION", False, 1)])
    real = bench.writer

    def writer(alias: str) -> Any:
        made, answer = real(alias), next(answers, None) if alias == "standby" else None
        return SimpleNamespace(probe=made.probe, write=(lambda *_, **__: answer) if answer else made.write)

    monkeypatch.setattr(bench, "writer", writer)
    open_(bench)
    assert next(answers, None) is None and bench.kinds(STEP) == [Entry.INTENT, Entry.OUTCOME]


def test_a_canary_that_is_refused_for_good_ends_the_step(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that no later write would get through."""
    bench.stopped()
    real = bench.writer
    refused = WriteRefused("POLICY_VIOLATION", False, 1)
    monkeypatch.setattr(
        bench, "writer", lambda alias: SimpleNamespace(probe=real(alias).probe, write=lambda *_, **__: refused)
    )
    with pytest.raises(AirflowFailException, match="did not accept the canary"):
        open_(bench)


def test_killed_after_its_intent_it_still_needs_the_sources_fence(bench: Any) -> None:
    """Evidence expires on resume: opening goes on only while the source refuses writes."""
    procedure = bench.stopped()
    procedure.authority.write(STEP, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(bench)]})
    lift_source_fence(bench)
    with pytest.raises(AirflowFailException):
        open_(bench)
    assert denials(bench)


def test_the_way_back_once_begun_forbids_opening(bench: Any) -> None:
    """return_to_source has begun: clearing open_target must not open the target as well."""
    procedure = bench.stopped()
    procedure.authority.write(STEP, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(bench)]})
    procedure.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True})
    with pytest.raises(AirflowFailException, match="already returns to the source"):
        open_(bench)
    assert denials(bench)


def test_only_what_was_approved_is_removed(bench: Any) -> None:
    """A DENY added on the target after the forecast is not in the approved plan: refused by its name, nothing meant,
    nothing removed.
    """
    bench.stopped()
    added = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
    bench.clusters["standby"].acls.add(added)
    before = denials(bench)
    with pytest.raises(
        AirflowFailException, match="that the plan does not list.*deny User:app write topic literal 'orders'"
    ):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP) and denials(bench) == before


CHANGES_AFTER_THE_INTENT = {
    "somebody wrote on the source": lambda b: b.clusters["primary"].log_ends.update({T0: 11}),
    "MirrorMaker 2 runs again": lambda b: b.workers["standby"].states.update({"p.source": "RUNNING"}),
    "the source accepts the probe": lambda b: b.probe_answers.update({0: WriteAccepted(5, 1)}),
    "a group has members on the source": lambda b: b.clusters["primary"].members.update(billing=1),
    "a group commits on the source": lambda b: b.clusters["primary"].committed.update(billing={T0: Position(5)}),
}


@pytest.mark.parametrize("change", CHANGES_AFTER_THE_INTENT.values(), ids=CHANGES_AFTER_THE_INTENT)
def test_once_meant_the_source_is_looked_at_again(bench: Any, change: Any) -> None:
    """Killed after its intent, opening goes on only while the source is as closed as it was."""
    bench.planned(groups=("billing",))
    procedure = bench.procedure()
    bench.stopped_after_drain(procedure, ["billing"])
    procedure.authority.write(STEP, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(bench)]})
    change(bench)
    with pytest.raises(AirflowFailException):
        open_(bench)
    assert denials(bench) and Entry.OUTCOME not in bench.kinds(STEP)


def test_once_meant_the_targets_own_life_stops_nobody(bench: Any) -> None:
    """Killed after lifting the fence: clients may already write and read on the target, the approval was checked,
    the clock is past.
    """
    bench.planned(groups=("billing",))
    procedure = bench.procedure()
    bench.stopped_after_drain(procedure, ["billing"])
    procedure.authority.write(STEP, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(bench)]})
    bench.clusters["standby"].acls -= denials(bench)
    bench.clusters["standby"].log_ends[T0], bench.clusters["standby"].members["billing"] = 99, 1
    bench.change_params(max_fence_seconds=0.001)
    open_(bench)
    assert bench.kinds(STEP)[-1] == Entry.OUTCOME


def test_local_topics_that_were_written_to_keep_the_target_closed(make_bench: Any) -> None:
    """Under default naming clients will write to `orders` on the target: a record there since the commit is
    somebody's.
    """
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.stopped(remote="primary.orders")
    bench.clusters["standby"].log_ends[T0] += 1
    with pytest.raises(AirflowFailException, match="Log ends of the target moved"):
        open_(bench)
    assert Entry.INTENT not in bench.kinds(STEP)


def verify(bench: Any) -> dict[str, Any]:
    """Execute verify_clients and return its figures."""
    VerifyClients(task_id=Step.VERIFY_CLIENTS.value).execute(bench.context())
    return bench.entries(Step.VERIFY_CLIENTS)[-1].payload


def test_nobody_was_active_so_nobody_is_waited_for(bench: Any) -> None:
    """With no active group at the forecast it passes and says so; records past the boundary are counted."""
    bench.stopped()
    bench.clusters["standby"].log_ends[T0] = 17
    figures = verify(bench)
    assert figures["expected_groups"] == 0 and "note" in figures and figures["records_since_opening"] == 7


def test_a_group_that_does_not_arrive_is_named(bench: Any) -> None:
    """Active at the forecast, absent on the target: fails at the deadline with its name."""
    bench.planned(groups=("billing",))
    bench.stopped_after_drain(bench.procedure(), ["billing"])
    with pytest.raises(AirflowFailException, match="billing"):
        verify(bench)


def test_a_group_that_arrived_is_enough(bench: Any) -> None:
    """Active on the target: done."""
    bench.planned(groups=("billing",))
    bench.stopped_after_drain(bench.procedure(), ["billing"])
    bench.clusters["standby"].members["billing"] = 2
    assert verify(bench)["left_on_source"] == 0


def test_nobody_is_left_on_the_source(bench: Any) -> None:
    """One group served on both clusters is not a success."""
    bench.planned(groups=("billing",))
    bench.stopped_after_drain(bench.procedure(), ["billing"])
    bench.clusters["standby"].members["billing"] = bench.clusters["primary"].members["billing"] = 1
    with pytest.raises(AirflowFailException, match="groups still have members on the source: billing"):
        verify(bench)
