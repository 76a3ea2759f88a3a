"""change_replication: patterns are refused before anything stops, offsets follow what was copied, and a change that
breaks the flow is taken back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.fencing import exempt_canary
from kafka_dr.commands.plan import plan_text, write_commands
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import ApprovalMissing, Contradiction, DeadlinePassed, NotReady, Refusal
from kafka_dr.procedure.entries import ChangedFlowToStop, ConnectorsChanged, OffsetsToCorrect, SettingsToChange
from kafka_dr.steps.change.resume_changed_flow import ResumeChangedFlow
from kafka_dr.vocabulary import EXEMPT_TOPIC, MARKER_CONNECTOR, Step

from tests.plugins.kafka_dr.steps.change.changed_flow import CHECKPOINT, SOURCE, A, B, Change, OwnConnector
from tests.support.fake_systems import FakeSystems


@pytest.fixture
def change(bench: Any) -> Change:
    """A flow under identity naming."""
    return Change(bench)


def test_a_topic_leaves_the_flow(change: Change) -> None:
    """Its pattern is excluded for source and checkpoint connector; everything runs again, and records flow."""
    change.write(A, 5)
    done = change.whole(remove_topics=r"extra\..*")
    assert change.worker.configs[SOURCE]["topics.exclude"] == r"__.*,connect-.*,extra\..*"
    assert change.worker.configs[CHECKPOINT]["topics.exclude"].endswith(r",extra\..*")
    assert set(change.worker.states.values()) == {"RUNNING"}
    assert (done.partitions_flowing, done.tasks, done.idle_tasks) == (1, 1, 0)
    asked = [what for what in change.worker.asked if what[0] in ("stop", "change", "resume")]
    assert [verb for verb, _ in asked] == ["stop", "stop", "change", "change", "resume", "resume"]
    evidence = change.evidence()
    assert evidence["outcome"] == "completed" and evidence["plan"]["drops"] == ["extra.b"]


@pytest.mark.parametrize(("naming", "prefix"), [("identity", ""), ("default", "primary.")])
def test_an_idle_flow_is_tried_with_a_record_of_our_own(
    bench: Any, monkeypatch: pytest.MonkeyPatch, naming: str, prefix: str
) -> None:
    """By a connector with the changed settings, which is deleted; entries that it needs are there for seconds."""
    change = Change(bench, naming)
    change.worker.configs[SOURCE]["topics.exclude"] += r",.*\.replica"
    own = OwnConnector(change, prefix)
    monkeypatch.setattr(FakeSystems, "canary_connector", lambda self, connection: own, raising=False)
    before = {alias: set(cluster.acls) for alias, cluster in bench.clusters.items()}
    done = change.whole(settings={"producer.override.linger.ms": "5"})
    assert (done.tasks, done.proof_seconds is not None) == (0, True)
    assert "a connector with the same settings copied a record of Switchback's own" in done.flows
    assert own.config["producer.override.linger.ms"] == "5" and not own.stands
    assert {alias: cluster.acls for alias, cluster in bench.clusters.items()} == before
    assert change.evidence()["outcome"] == "completed"


def test_an_idle_flow_that_copies_nothing_of_our_own_gets_its_settings_back(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector ran, and nothing came."""
    change.worker.configs[SOURCE]["topics.exclude"] += r",.*\.replica"
    own = OwnConnector(change)
    own.copies = False
    monkeypatch.setattr(FakeSystems, "canary_connector", lambda self, connection: own, raising=False)
    monkeypatch.setattr(exempt_canary, "_COPY_SECONDS", 0.2)
    with pytest.raises(NotReady, match="have copied no record of Switchback's own.*was not copied"):
        change.whole(settings={"producer.override.linger.ms": "5"})
    assert not own.stands
    assert change.give_back().settings_restored == [SOURCE]
    assert "producer.override.linger.ms" not in change.worker.configs[SOURCE]
    assert change.evidence()["outcome"] == "returned"


def test_an_idle_flow_that_mirrors_our_own_topic_is_not_tried(change: Change) -> None:
    """The evidence says why nothing was shown."""
    done = change.whole(settings={"tasks.max": "2"})
    assert done.proof_seconds is None and f"the flow primary->standby mirrors {EXEMPT_TOPIC}" in done.flows


def test_a_cancelled_task_has_its_offset_set_behind_the_last_copy(change: Change) -> None:
    """Connect's offset is behind: nothing that was copied is copied again, of any topic."""
    change.write(A, 20)
    change.copy(A, 10, 25)
    done = change.whole(settings={"tasks.max": "2"})
    assert change.worker.offsets_set[SOURCE] == {A: 24}
    assert sorted(change.standby.records[A].values()) == sorted(change.primary.records[A].values())
    assert done.partitions_flowing == 1


def test_equal_records_are_rather_repeated_than_skipped(change: Change) -> None:
    """Of equal records the first counts."""
    change.write(A, 5, value="same")
    change.copy(A, 10, 12)
    change.whole(settings={"tasks.max": "2"})
    assert change.worker.offsets_set[SOURCE] == {A: 10}
    assert list(change.standby.records[A].values()).count("same") == 6


def test_a_last_record_that_is_nowhere_on_the_source_is_named(change: Change) -> None:
    """Its offset stays: nothing may be skipped."""
    change.write(A, 5)
    change.standby.records[A][10] = "of another"
    change.standby.log_ends[A] = 11
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    change.stop()
    assert list(change.change().unproven) == ["orders-0"]
    assert change.offsets[A] == 9


def test_a_topic_that_comes_back_goes_on_where_it_stopped(change: Change) -> None:
    """What was written meanwhile is copied; the plan says how much, and what retention has deleted."""
    change.whole(remove_topics=r"extra\..*")
    change.evidence()
    change.write(B, 30)
    change.primary.log_starts[B] = 15
    plan = change.plan(add_topics=r"extra\..*")
    assert plan["adds"] == ["extra.b"] and not plan["skips"]
    assert plan["intervals"] == [{"topic": "extra.b", "partition": 0, "first": 10, "end": 40, "deleted": 5}]
    body = change.approve()
    assert "25 offsets in 1 partition, written while these topics were excluded, are copied." in body
    assert "5 more offsets were deleted by retention" in body
    change.stop()
    change.change()
    change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)
    assert change.standby.log_ends[B] == 40


def test_a_topic_that_leaves_with_a_cancelled_task_comes_back_without_a_repeat(change: Change) -> None:
    """Its offset is set behind its last copy before it leaves, also where Connect has stored none."""
    change.worker.replicated = {A: 9}
    change.write(B, 20)
    change.copy(B, 10, 25)
    change.whole(remove_topics=r"extra\..*")
    assert change.offsets[B] == 24
    change.evidence()
    change.whole(add_topics=r"extra\..*")
    assert sorted(change.standby.records[B].values()) == sorted(change.primary.records[B].values())


def test_an_interval_is_skipped_as_approved_and_taken_back(change: Change) -> None:
    """Up to the offset in the plan; if the change is undone, the records come when the topic is included again."""
    change.whole(remove_topics=r"extra\..*")
    change.evidence()
    change.write(B, 30)
    assert change.plan(add_topics=r"extra\..*", excluded_interval="skip")["skips"]
    assert "are skipped: the target never gets them" in change.approve()
    change.write(B, 1)
    change.stop()
    assert change.change().skipped == 1 and change.offsets[B] == 39
    change.give_back()
    assert change.offsets[B] == 9
    assert change.worker.configs[SOURCE]["topics.exclude"].endswith(r",extra\..*")


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"add_topics": "extra."}, "ends with a dot.*extra.b"),
        ({"add_topics": "__consumer_offsets"}, "catches internal topics: __consumer_offsets"),
        ({"add_topics": "connect-.*"}, "catches internal topics: connect-offsets"),
        ({"remove_topics": "order"}, "changes nothing.*begin like it: orders"),
        ({"settings": {"tasks.max": "1"}}, "There is nothing to change.*tasks.max"),
        ({}, "There is nothing to change.*the params ask for no change"),
        ({"connector": "other", "settings": {"tasks.max": "2"}}, "no source connector 'other'"),
    ],
)
def test_what_is_refused_stops_nothing(change: Change, choices: dict[str, Any], told: str) -> None:
    """Before the question, with what the pattern matches."""
    with pytest.raises(Refusal, match=told):
        change.plan(**choices)
    assert change.worker.asked == []
    assert change.evidence()["outcome"] == "refused"


def test_a_pattern_for_later_names_is_taken_on_purpose(change: Change) -> None:
    """Its topics may not exist yet."""
    assert change.plan(remove_topics="later.*", names_to_come=True)["drops"] == []


def test_a_topic_whose_copy_does_not_fit_is_refused(change: Change) -> None:
    """Records on the target of which Connect knows nothing; none there of which Connect knows some."""
    change.worker.configs[SOURCE]["topics.exclude"] += r",extra\..*"
    change.worker.replicated = {A: 9}
    with pytest.raises(Refusal, match="Topics on standby do not fit.*with records, though none was copied: extra.b-0"):
        change.plan(add_topics=r"extra\..*")
    change.evidence()
    change.worker.replicated = {A: 9, B: 4}
    change.standby.log_ends[B] = 0
    with pytest.raises(Refusal, match="without records, though some were copied: extra.b-0"):
        change.plan(add_topics=r"extra\..*")


def test_an_old_worker_and_a_paused_connector_are_refused(change: Change) -> None:
    """With what to do instead."""
    change.worker.is_old = True
    with pytest.raises(Refusal, match="cannot set offsets.*Kafka 4.3.1.*Run Connect workers of Kafka 3.6 or later"):
        change.plan(settings={"tasks.max": "2"})
    change.evidence()
    change.worker.is_old = False
    change.worker.states[CHECKPOINT] = "PAUSED"
    with pytest.raises(NotReady, match="neither running nor STOPPED. Seen: p.checkpoint PAUSED"):
        change.plan(settings={"tasks.max": "2"})
    change.evidence()
    del change.worker.states[CHECKPOINT]
    with pytest.raises(NotReady, match="do not exist. Seen: p.checkpoint"):
        change.plan(settings={"tasks.max": "2"})


def test_a_loop_is_refused_also_for_names_to_come(change: Change) -> None:
    """The reverse flow runs, for names that do not exist; a STOPPED one is no loop."""
    back = change.bench.workers["primary"]
    back.configs = {"s.source": {"topics": "back.*"}}
    assert change.plan(settings={"tasks.max": "2"})["connectors"]
    change.evidence()
    back.states["s.source"] = "RUNNING"
    with pytest.raises(Refusal, match="copied in a circle. Seen: p.source and s.source would both mirror .* back"):
        change.plan(settings={"tasks.max": "2"})
    change.evidence()
    change.worker.configs[SOURCE]["topics.exclude"] += ",back.*"
    assert change.plan(settings={"tasks.max": "2"})["connectors"]


def test_two_connectors_that_would_copy_the_same_are_refused(change: Change) -> None:
    """Where several share the flow, the params name one."""
    topology = json.loads(change.bench.topology.read_text())
    topology["flows"][0]["connectors"]["source"] = [SOURCE, "p.second"]
    change.bench.topology.write_text(json.dumps(topology))
    change.worker.states["p.second"] = "RUNNING"
    change.worker.configs["p.second"] = {"topics": r"extra\..*"}
    change.worker.configs[SOURCE]["topics.exclude"] += r",extra\..*"
    with pytest.raises(Refusal, match="Several source connectors share the flow"):
        change.plan(add_topics="orders")
    change.evidence()
    with pytest.raises(Refusal, match="would mirror the same topics. Seen: on primary: p.source and p.second: extra.b"):
        change.plan(add_topics=r"extra\..*", connector=SOURCE)


def test_an_owner_of_the_connectors_is_respected(change: Change) -> None:
    """An operator would put the configuration back."""
    change.worker.configs[SOURCE]["metrics.reporter"] = "io.strimzi.Reporter"
    with pytest.raises(NotReady, match="Somebody else owns the connectors of the flow"):
        change.plan(settings={"tasks.max": "2"})
    change.evidence()
    assert change.plan(settings={"tasks.max": "2"}, acknowledge_owner=True)["connectors"]
    assert MARKER_CONNECTOR not in change.worker.states


def test_a_source_where_mirror_maker_may_not_write_is_recognised(change: Change) -> None:
    """The approver is told where offset syncs can be kept instead."""
    topic = "mm2-offset-syncs.standby.internal"
    change.primary.acls = {AclEntry("topic", "*", "literal", "User:mm2", "*", "read", "allow")}
    notes = change.plan(settings={"tasks.max": "2"})["notes"]
    assert f"User:mm2 may not write and create {topic} on primary" in notes[0] and "topic.location=target" in notes[0]
    change.evidence()
    assert change.plan(settings={"offset-syncs.topic.location": "target"})["notes"] == [
        "Offset syncs go to another topic from now on; MirrorMaker 2 translates no position of before."
    ]
    change.evidence()
    change.primary.acls |= {AclEntry("topic", "*", "literal", "User:mm2", "*", "all", "allow")}
    assert change.plan(settings={"tasks.max": "2"})["notes"] == []


def test_nothing_stops_without_a_second_persons_word(change: Change) -> None:
    """Nor under another configuration than was approved."""
    change.plan(settings={"tasks.max": "2"})
    change.bench.done(change.procedure, Step.APPROVE_CHANGE, asked=True)
    with pytest.raises(ApprovalMissing):
        change.stop()
    change.approve()
    change.worker.configs[SOURCE]["topics"] = "orders"
    with pytest.raises(Contradiction, match="was changed after the plan was made. Seen: p.source"):
        change.stop()
    assert change.worker.asked == []


def test_intents_come_first_and_have_the_former_values(change: Change) -> None:
    """Also those of settings that were not set."""
    change.write(A, 5)
    change.copy(A, 10, 12)
    change.whole(settings={"tasks.max": "2", "offset.lag.max": "5"})
    facts = change.procedure.progress.facts
    assert facts(ChangedFlowToStop, Step.STOP_CHANGED_FLOW)[0].stops_connectors_to_change == [SOURCE, CHECKPOINT]
    intent = facts(SettingsToChange, Step.CHANGE_CONNECTORS)[0]
    assert intent.changes_settings == {SOURCE: {"offset.lag.max": "5", "tasks.max": "2"}}
    assert intent.former_settings == {SOURCE: {"offset.lag.max": None, "tasks.max": "1"}}
    assert facts(OffsetsToCorrect, Step.CHANGE_CONNECTORS)
    assert change.procedure.progress.require(ConnectorsChanged).connectors == [SOURCE]


def test_a_repeated_step_changes_nothing_more(change: Change) -> None:
    """After a kill anywhere, the same end."""
    change.write(A, 5)
    change.copy(A, 10, 12)
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    for step in (change.stop, change.stop, change.change, change.change):
        step()
    first, again = (change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW) for _ in range(2))
    assert first.partitions_flowing == 1 == again.partitions_flowing
    assert change.offsets[A] == 11 and change.worker.configs[SOURCE]["tasks.max"] == "2"
    assert sorted(change.standby.records[A].values()) == sorted(change.primary.records[A].values())


def test_a_failed_task_is_noticed_and_all_is_put_back(change: Change) -> None:
    """The former settings, also where there were none; the flow runs; the evidence says whether records flow."""
    change.write(A, 5)
    change.plan(settings={"tasks.max": "2", "producer.override.max.request.size": "1000"})
    change.approve()
    change.stop()
    change.change()
    change.copies_after_resume, status = False, change.worker.status

    def failed(name: str, timeout: float = 30.0) -> Any:
        seen = status(name)
        seen.tasks = (
            {0: "FAILED"} if name == SOURCE and change.worker.configs[SOURCE]["tasks.max"] == "2" else seen.tasks
        )
        return seen

    change.worker.status = failed
    with pytest.raises(NotReady, match="A task of the flow has failed"):
        change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)
    change.copies_after_resume = True
    returned = change.give_back()
    assert change.worker.configs[SOURCE] == {"topics": ".*", "topics.exclude": "__.*,connect-.*", "tasks.max": "1"}
    assert returned.settings_restored == [SOURCE] and "1 task copied records" in returned.flow_after_return
    assert set(change.worker.states.values()) == {"RUNNING"}
    assert sorted(change.standby.records[A].values()) == sorted(change.primary.records[A].values())
    evidence = change.evidence()
    assert evidence["outcome"] == "returned"
    page = (change.procedure.artifacts.folder / "evidence.html").read_text()
    assert "the former configuration is back" in page and "No client was moved" in page


def test_a_flow_that_runs_and_copies_nothing_is_no_success(change: Change) -> None:
    """RUNNING is not progress."""
    change.write(A, 5)
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    change.stop()
    change.change()
    change.copies_after_resume = False
    with pytest.raises(DeadlinePassed, match="tasks have copied no record: p.source task 0: orders-0"):
        change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)


def test_a_record_that_is_repeated_is_noticed(change: Change) -> None:
    """The first new copy is not the record behind the last copied one."""
    change.write(A, 5)
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    change.stop()
    change.change()
    change.worker.kept[SOURCE] = {A: 3, B: 9}
    with pytest.raises(Contradiction, match="did not go on behind the last copied record. Seen: orders-0"):
        change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)


def test_a_copy_that_comes_late_is_noticed(change: Change) -> None:
    """A cancelled task had sent it: it comes after log ends were stable, and is copied again when the flow goes on."""
    change.write(A, 5)
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    resumed = change.worker.resume

    def late(name: str, deadline: float, needs_tasks: bool = True) -> None:
        if name == SOURCE:
            change.copy(A, 10, 11)
        resumed(name, deadline, needs_tasks)

    change.worker.resume = late
    with pytest.raises(Contradiction, match="did not go on behind the last copied record. Seen: orders-0"):
        change.resume_flow()


def test_records_that_came_meanwhile_are_noticed(change: Change) -> None:
    """Somebody else writes to the copies."""
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    change.stop()
    change.change()
    change.standby.log_ends[A] += 1
    with pytest.raises(Contradiction, match="came to the target while the flow was STOPPED. Seen: .*orders-0 10 -> 11"):
        change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)
    assert ("resume", SOURCE) not in change.worker.asked


def test_a_stopped_flow_stays_stopped(change: Change) -> None:
    """Nobody asked to resume it."""
    change.worker.states = dict.fromkeys((SOURCE, CHECKPOINT), "STOPPED")
    assert "All connectors are STOPPED" in (change.plan(settings={"tasks.max": "2"}), change.approve())[1]
    change.stop()
    change.change()
    assert change.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW).flows == "the flow is STOPPED, as before"
    assert set(change.worker.states.values()) == {"STOPPED"} and change.worker.configs[SOURCE]["tasks.max"] == "2"


def test_nothing_is_given_back_of_a_run_that_stopped_nothing(change: Change) -> None:
    """A plan that was rejected ends as refused."""
    change.plan(settings={"tasks.max": "2"})
    assert not change.give_back().touched
    assert change.evidence()["outcome"] == "refused" and change.worker.asked == []


def test_the_plan_as_text_and_no_commands(change: Change, tmp_path: Path) -> None:
    """A shell cannot compare records: it is said how to continue, and nothing is written."""
    assert "plan_change is not done" in plan_text(change.opened(remove_topics=r"extra\..*"))
    change.evidence()
    change.whole(remove_topics=r"extra\..*")
    text = plan_text(change.procedure)
    assert "The flow **primary->standby** changes" in text and "resume_changed_flow          done" in text
    with pytest.raises(Refusal, match="A changed flow has no commands") as refused:
        write_commands(change.procedure, tmp_path / "out")
    assert f"run_procedure --resume {change.procedure.id}" in str(refused.value)
    assert "plan_change, approve_change" in refused.value.seen and not (tmp_path / "out").exists()
