"""Fencing the source, and proving it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from kafka_dr.actions.fencing.acl_fence import added_entries, dead_brokers, refuse_probe_without_rights
from kafka_dr.actions.scope.plan_scope import cut_off_of, topics_of
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused, WriteUnknown
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import COMMITS_TOPIC, PROBE_TOPIC, Entry, Step

from tests.support.clusters import Acls

STEP = Step.FENCE_PRODUCERS
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
MM2 = AclEntry("topic", "*", "literal", "User:mm2", "*", "all", "allow")


def fence(bench: Any) -> dict[str, Any]:
    """Execute the step and return its figures."""
    FenceProducers(task_id=STEP.value).execute(bench.context())
    return bench.entries(STEP)[-1].payload


@pytest.fixture
def ready(bench: Any) -> Any:
    """An approved run on a source with one application."""
    bench.planned()
    bench.clusters["primary"].acls = {GRANT, MM2}
    return bench


def test_the_fence_is_added_and_proven(ready: Any) -> None:
    """The application is denied, MirrorMaker 2 is not; the intent names the entry before it is added; the ends are
    the cut-off.
    """
    figures = fence(ready)
    procedure = ready.procedure()
    assert [str(e) for e in added_entries(procedure)] == [
        "deny User:app write topic literal 'orders' from *",
        f"deny User:app write topic literal '{PROBE_TOPIC}' from *",
    ]
    assert ready.clusters["primary"].acls == {GRANT, MM2, *added_entries(procedure)}
    assert procedure.artifacts.load(figures["cut_off"]).to_dict("records") == [
        {"topic": "orders", "partition": 0, "offset": 10}
    ]
    assert figures["brokers_refusing"] == [1] and figures["fenced_at"]


def test_fencing_again_adds_nothing_and_looks_again(ready: Any) -> None:
    """The second run finds its own fence, adds nothing, and reads the ends anew."""
    fence(ready)
    ready.clusters["primary"].log_ends[TopicPartition("orders", 0)] = 12
    figures = fence(ready)
    assert len(added_entries(ready.procedure())) == 2
    assert ready.procedure().artifacts.load(figures["cut_off"])["offset"].tolist() == [12]


def test_a_dead_broker_is_one_with_replicas_only() -> None:
    """A broker that holds nothing of the plan proves nothing and matters to nobody."""
    topics = {"orders": SimpleNamespace(replicas={0: (1, 7), 1: (1, 2)})}
    live = [SimpleNamespace(id=1), SimpleNamespace(id=2), SimpleNamespace(id=3)]
    assert dead_brokers(SimpleNamespace(topics=lambda _: topics, brokers=lambda: live), ["orders"]) == [7]


EVERYONE = AclEntry("topic", "*", "literal", "User:*", "*", "all", "allow")


def test_an_entry_for_everyone_is_replaced_last(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both intents are written before their acts; MirrorMaker 2 may write throughout; a return restores the entry."""
    source, seen, remove = ready.clusters["primary"], [], Acls.remove
    source.acls = {EVERYONE, MM2}
    monkeypatch.setattr(Acls, "remove", lambda acls, entries: (seen.append(set(source.acls)), remove(acls, entries)))
    fence(ready)
    replacing, intents = seen[0], [e.payload for e in ready.entries(STEP) if "replaces_acl_entries" in e.payload]
    assert EVERYONE in replacing and len(replacing) > 2, "what takes its place was there before"
    assert [entry["principal"] for entry in intents[0]["replaces_acl_entries"]] == ["User:*"]
    rules = AclRules(frozenset(source.acls))
    assert rules.may("User:mm2", "write", "topic", "orders") and rules.may("User:app", "read", "topic", "orders")
    assert not rules.may("User:app", "write", "topic", "orders") and EVERYONE not in source.acls
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(ready.context())
    assert source.acls == {EVERYONE, MM2}


def test_a_topic_that_everyone_may_use_is_fenced_by_allow_entries(make_bench: Any) -> None:
    """No DENY, and a return leaves no entry."""
    bench = make_bench()
    text = bench.topology.read_text()
    named = '"connection": "kafka_primary", '
    assert named in text
    bench.topology.write_text(text.replace(named, named + '"allow_everyone_if_no_acl_found": true, '))
    bench.planned()
    source = bench.clusters["primary"]
    source.acls = set()
    fence(bench)
    assert {e.permission for e in source.acls} == {"allow"}
    rules = AclRules(frozenset(source.acls), allow_everyone=True)
    assert rules.may("User:mm2", "write", "topic", "orders") and not rules.may("User:app", "write", "topic", "orders")
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    assert source.acls == set()


def test_without_approval_nothing_is_fenced(ready: Any) -> None:
    """The act itself asks who approved: a gate marked successful by hand is not enough."""
    ready.api.answers.clear()
    with pytest.raises(AirflowFailException, match="never answered"):
        fence(ready)
    assert ready.clusters["primary"].acls == {GRANT, MM2}


def test_a_fence_that_is_not_taken_is_not_proven(ready: Any) -> None:
    """What the cluster does not show after the request was made is no fence."""
    ready.clusters["primary"].takes_acls = False
    with pytest.raises(AirflowFailException, match="may still act"):
        fence(ready)
    assert Entry.OUTCOME not in ready.kinds(STEP)


@pytest.mark.parametrize(
    "behind", [frozenset({GRANT, MM2}), KafkaUnavailable("reading ACL entries failed", "no answer", "look at it")]
)
def test_a_fence_that_one_broker_has_not_applied_is_not_proven(ready: Any, behind: Any) -> None:
    """The other broker has every entry: clients could still write to this one, which is named."""
    ready.clusters["primary"].lags = {2: behind}
    with pytest.raises(AirflowFailException, match=r"may still act.*broker 2"):
        fence(ready)
    assert Entry.OUTCOME not in ready.kinds(STEP)


@pytest.mark.parametrize("answer", [WriteAccepted(1, 1), WriteRefused("NOT_ENOUGH_REPLICAS", False, 1)])
def test_a_probe_that_is_not_refused_for_its_rights_proves_nothing(ready: Any, answer: Any) -> None:
    """A write that went through, or was refused for another reason, leaves the fence unproven at the deadline."""
    ready.probe_answers[0] = answer
    with pytest.raises((AirflowException, TaskDeferred)):
        fence(ready)
    assert Entry.OUTCOME not in ready.kinds(STEP)


def test_a_probe_that_could_never_write_proves_nothing(ready: Any) -> None:
    """Its refusal behind the fence would be no proof: the run ends before a client is stopped."""
    ready.probe_answers[0] = WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 1)
    with pytest.raises(AirflowFailException, match="The probe cannot write on the source, although"):
        fence(ready)
    assert ready.clusters["primary"].acls == {GRANT, MM2}


def test_a_broker_that_gives_the_probe_no_clear_answer_is_waited_for(ready: Any) -> None:
    """A broker that restarts says nothing of the probe's rights: the step tries again, and no client is stopped."""
    ready.params = {**ready.params, "fence_seconds": 0.3}
    procedure = ready.procedure()
    ready.probe_answers[0] = WriteUnknown("broker 1 did not acknowledge within 10 s")
    with pytest.raises(KafkaUnavailable, match="do not accept the probe's write.*broker 1") as raised:
        refuse_probe_without_rights(procedure)
    assert raised.value.may_pass and ready.clusters["primary"].acls == {GRANT, MM2}


@pytest.mark.parametrize(("alias", "topic"), [("primary", "orders"), ("standby", "orders"), ("standby", COMMITS_TOPIC)])
def test_a_partition_without_leader_is_waited_for_before_a_client_is_stopped(
    ready: Any, alias: str, topic: str
) -> None:
    """It was led at the forecast; clients could not work with it after the move."""
    ready.clusters[alias].partitions[topic] = {0: None}
    ready.clusters["standby"].partitions.setdefault("orders", {0: 1})
    with pytest.raises(KafkaUnavailable, match=f"Partitions of {alias} have no leader.*{topic}-0") as raised:
        FenceProducers(task_id=STEP.value).act(ready.procedure(), ready.context())
    assert raised.value.may_pass and ready.clusters["primary"].acls == {GRANT, MM2}


def test_a_topic_that_changed_since_the_forecast_is_refused(ready: Any) -> None:
    """Grown or recreated topics are not what was approved."""
    ready.clusters["primary"].partitions["orders"][1] = 1
    with pytest.raises(AirflowFailException, match="Topics changed"):
        fence(ready)


def test_a_topic_that_changed_ends_the_run_before_a_client_is_stopped(ready: Any) -> None:
    """Nothing is fenced, and no drain hook is asked."""
    ready.clusters["primary"].partitions["orders"][1] = 1
    with pytest.raises(AirflowFailException, match="Topics changed"):
        fence(ready)
    assert ready.clusters["primary"].acls == {GRANT, MM2}


def test_a_topic_created_since_the_forecast_moves_too(ready: Any) -> None:
    """It is fenced, has a cut-off, and is named for the review; a second run names it again."""
    source = ready.clusters["primary"]
    source.partitions["born"], source.log_ends[TopicPartition("born", 1)] = {0: 1, 1: 1}, 7
    for _ in range(2):
        figures = fence(ready)
        assert figures["topics_since_forecast"] == [["born", "born", 2, "id-born"]]
    assert {entry.name for entry in source.acls if entry.permission == "deny"} >= {"orders", "born"}
    procedure = ready.procedure()
    assert cut_off_of(procedure)[TopicPartition("born", 1)] == 7
    assert topics_of(procedure) == ["orders", "born"]


def test_a_topic_created_while_the_fence_is_set_is_fenced_as_well(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may create one until their writes are refused."""
    source, add = ready.clusters["primary"], Acls.add

    def create_and_add(self: Acls, entries: Any) -> None:
        source.partitions["late"] = {0: 1}
        add(self, entries)

    monkeypatch.setattr(Acls, "add", create_and_add)
    assert [row[0] for row in fence(ready)["topics_since_forecast"]] == ["late"]
    assert "late" in {entry.name for entry in source.acls if entry.permission == "deny"}


def test_every_broker_is_probed(ready: Any) -> None:
    """Each broker that leads a partition of the probe's topic is written to."""
    source = ready.clusters["primary"]
    source.broker_ids, source.partitions[PROBE_TOPIC] = [1, 2, 3], {0: 3, 1: 1, 2: 2}
    source.placed[PROBE_TOPIC] = {0: (3,), 1: (1,), 2: (2,)}
    assert fence(ready)["brokers_refusing"] == [1, 2, 3]
    assert sorted(ready.probed[-3:]) == [0, 1, 2]


def test_an_unproven_fence_has_no_time(make_bench: Any) -> None:
    """fenced_at is when the fence was proven on every broker: null without an authorizer and a probe."""
    bench = make_bench()
    text = bench.topology.read_text()
    bench.topology.write_text(text.replace('"probe_connection": "probe_primary", ', ""))
    bench.planned()
    bench.clusters["primary"].authorizer = False
    figures = fence(bench)
    assert figures["brokers_refusing"] is None and figures["fenced_at"] is None


def test_the_probes_entries_are_sent_last(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that refuses the probe knows every other entry: the probe's are the last of the request."""
    sent: list[str] = []

    class Admin:
        """Takes the bindings in the order they are sent."""

        def create_acls(self, bindings: list[Any], **_: Any) -> dict[Any, Any]:
            """Remember the names."""
            sent.extend(b.name for b in bindings)
            return {}

    entries = [AclEntry("topic", name, "literal", "User:*", "*", "write", "deny") for name in ("orders", PROBE_TOPIC)]
    ClusterAcls(SimpleNamespace(admin=Admin(), alias="primary")).add(entries)
    assert sent == ["orders", PROBE_TOPIC]
