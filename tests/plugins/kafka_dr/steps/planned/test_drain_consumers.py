"""drain_consumers: groups leave, are fenced, and what they committed is frozen; a second run tells the same."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kafka_dr.actions.scope.plan_scope import fenced_groups, groups_of, planned_groups
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.vocabulary import Entry, Step

STEP = Step.DRAIN_CONSUMERS
ORDERS = TopicPartition("orders", 0)
READS = AclEntry("group", "*", "literal", "User:app", "*", "read", "allow")


@pytest.fixture
def fenced(bench: Any) -> Any:
    """A fenced run that was approved for one group; another was born since, and one reads a foreign topic."""
    procedure = bench.planned(groups=("billing",))
    bench.done(procedure, Step.FENCE_PRODUCERS)
    source = bench.clusters["primary"]
    source.acls = {READS}
    source.members = {"billing": 0, "born": 0, "foreign": 0}
    source.committed = {
        "billing": {ORDERS: Position(4)},
        "born": {ORDERS: Position(2)},
        "foreign": {TopicPartition("elsewhere", 0): Position(1)},
    }
    return bench


def drain(bench: Any) -> dict[str, Any]:
    """Execute the step and return its figures."""
    DrainConsumers(task_id=STEP.value).execute(bench.context())
    return bench.entries(STEP)[-1].payload


def test_positions_are_frozen_and_reads_are_fenced(fenced: Any) -> None:
    """Both groups' positions are kept, the foreign one's not, and the application may not read with any of them."""
    figures = drain(fenced)
    held = fenced.procedure().artifacts.load(figures["positions"])
    assert list(zip(held["group"], held["position"], strict=True)) == [("billing", 4), ("born", 2)]
    denied = {
        entry.name
        for entry in fenced.clusters["primary"].acls
        if entry.permission == "deny" and entry.resource_type == "group"
    }
    assert denied and figures["acl_entries_added"] == len(fenced.clusters["primary"].acls) - 1


def test_a_group_of_an_unknown_type_that_came_late_is_refused_by_name(fenced: Any) -> None:
    """It committed since the readiness check: it cannot be moved, and is not left behind without a word."""
    fenced.clusters["primary"].types["born"] = "unknown"
    with pytest.raises(AirflowFailException, match=r"born \(type unknown\)"):
        drain(fenced)


def test_a_group_of_an_unknown_type_on_foreign_topics_is_nobody_s_business(fenced: Any) -> None:
    """It holds no position in scope."""
    fenced.clusters["primary"].types["foreign"] = "unknown"
    assert drain(fenced)["groups"] == ["billing", "born"]


@pytest.fixture(params=["_POSITIONS_READ_AGAIN", "_GROUPS_READ_AGAIN"])
def many(fenced: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The same, where two positions, or two groups, count as many."""
    monkeypatch.setattr(f"kafka_dr.actions.groups.at_rest.{request.param}", 1)
    return fenced


def test_many_positions_are_read_once_where_nobody_committed_meanwhile(many: Any) -> None:
    """The ends of Kafka's topic of commits stand before and after: a second reading could only tell the same."""
    source = many.clusters["primary"]
    source.partitions["__consumer_offsets"] = {0: 1, 1: 1}
    source.log_ends |= {TopicPartition("__consumer_offsets", 0): 7, TopicPartition("__consumer_offsets", 1): 0}
    assert drain(many)["commits_end"] == {"0": 7, "1": 0}
    # Once for the groups born since the forecast, once to freeze them.
    assert source.positions_read == 2


def test_the_plans_groups_are_not_searched_for_positions_before_they_are_frozen(
    fenced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They move anyway, and clients stand still meanwhile: ten thousand groups take half a minute on a busy broker."""
    source, read = fenced.clusters["primary"], list[list[str]]()
    columns = source.position_columns

    def noted(groups: Any, **how: Any) -> Any:
        read.append(sorted(groups))
        return columns(groups, **how)

    monkeypatch.setattr(source, "position_columns", noted)
    assert drain(fenced)["groups"] == ["billing", "born"]
    assert read == [["born", "foreign"], ["billing", "born"], ["billing", "born"]]


@pytest.mark.parametrize("few", [True, False])
def test_few_positions_are_read_twice_and_so_are_those_of_a_source_that_keeps_them_elsewhere(
    fenced: Any, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    """A topic of commits without any record stands still whatever is committed."""
    monkeypatch.setattr("kafka_dr.actions.groups.at_rest._POSITIONS_READ_AGAIN", 2 if few else 1)
    source = fenced.clusters["primary"]
    source.partitions["__consumer_offsets"] = {0: 1}
    source.log_ends[TopicPartition("__consumer_offsets", 0)] = 7 if few else 0
    drain(fenced)
    assert source.positions_read == 3


def test_positions_are_read_twice_where_somebody_committed_meanwhile(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any group's commit moves the ends: then only reading again shows whose positions stand."""
    source = many.clusters["primary"]
    source.partitions["__consumer_offsets"] = {0: 1}
    ends = iter(range(7, 99))
    monkeypatch.setattr(source, "ends", lambda partitions, **_: {tp: next(ends) for tp in partitions})
    assert drain(many)["commits_end"] == {"0": 7}
    assert source.positions_read == 3


@pytest.mark.parametrize(
    "hidden", [{}, KafkaUnavailable("describing topics on primary failed", "TOPIC_AUTHORIZATION_FAILED", "look")]
)
def test_where_the_topic_of_commits_is_hidden_positions_are_read_twice(
    many: Any, monkeypatch: pytest.MonkeyPatch, hidden: Any
) -> None:
    """A hosted cluster may not show it, or not allow the look."""
    source, topics = many.clusters["primary"], many.clusters["primary"].topics

    def shown(names: Any = None, **_: Any) -> Any:
        if names == ["__consumer_offsets"] and hidden:
            raise hidden
        return topics(names)

    monkeypatch.setattr(source, "topics", shown)
    assert drain(many)["commits_end"] == {}
    assert source.positions_read == 3


def test_a_second_run_still_names_the_groups_born_since(fenced: Any) -> None:
    """What the approver has not seen stays unseen: the review must ask, however often the step runs."""
    assert drain(fenced)["groups_since_forecast"] == ["born"]
    fenced.clusters["primary"].committed["born"] = {ORDERS: Position(3)}
    again = drain(fenced)
    assert again["groups_since_forecast"] == ["born"]
    assert [e.kind for e in fenced.entries(STEP)].count(Entry.OUTCOME) == 2
    assert fenced.procedure().artifacts.load(again["positions"])["position"].tolist() == [4, 3]


def test_a_group_with_members_is_waited_for(fenced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fenced or frozen while a consumer still has the time it was promised."""
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.0)
    fenced.clusters["primary"].members["billing"] = 1
    with pytest.raises(TaskDeferred):
        drain(fenced)
    assert fenced.clusters["primary"].acls == {READS}
    assert Entry.OUTCOME not in fenced.kinds(STEP)


def test_a_group_that_will_not_empty_fails_with_the_way_out(fenced: Any) -> None:
    """At the deadline the message names the group, its member, and how to leave the group out by decision."""
    fenced.change_params(drain_seconds=0.1)
    fenced.clusters["primary"].members["billing"] = 1
    with pytest.raises(AirflowFailException, match="billing: c at h") as error:
        drain(fenced)
    assert 'exclude_groups={"billing": "reason"}' in str(error.value)
    assert Entry.OUTCOME not in fenced.kinds(STEP)


@pytest.fixture
def excluding(bench: Any) -> Any:
    """A fenced run whose plan excludes a group that keeps its two members; another moves."""
    procedure = bench.planned(groups=("billing",), excluded={"reports": "earliest"})
    bench.done(procedure, Step.FENCE_PRODUCERS)
    source = bench.clusters["primary"]
    source.acls = {
        AclEntry("group", name, "literal", "User:app", "*", "read", "allow") for name in ("billing", "reports")
    }
    source.members = {"billing": 0, "reports": 2}
    source.committed = {"billing": {ORDERS: Position(4)}, "reports": {ORDERS: Position(2)}}
    return bench


def test_an_excluded_group_is_fenced_and_told_but_not_waited_for(excluding: Any) -> None:
    """Its members may stay; its reads are denied, its position is not frozen, and the figures say who was still
    there.
    """
    figures = drain(excluding)
    assert figures["groups"] == ["billing"] and figures["groups_since_forecast"] == []
    assert figures["excluded"] == [{"group": "reports", "reason": "will not empty", "policy": "earliest", "members": 2}]
    assert excluding.procedure().artifacts.load(figures["positions"])["group"].tolist() == ["billing"]
    denied = {e.name for e in excluding.clusters["primary"].acls if e.permission == "deny"}
    assert denied == {"billing", "reports"}
    procedure = excluding.procedure()
    found = (planned_groups(procedure), groups_of(procedure), fenced_groups(procedure))
    assert found == (["billing"], ["billing"], ["billing", "reports"])


def test_a_run_that_excludes_nobody_says_so(fenced: Any) -> None:
    """The figure is there, and empty."""
    assert drain(fenced)["excluded"] == []
