"""fence_returned_cluster: its clients are elsewhere, so nobody writes or serves a group there, proven, whatever
becomes of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.fencing.acl_fence import added_entries, refuse_probe_without_rights
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.domain.fencing.armed_fence import armed_fences
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused
from kafka_dr.steps.failback.fence_returned_cluster import FenceReturnedCluster
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import PROBE_TOPIC, Entry, Step

from tests.support.facts import figures_of
from tests.support.failback_bench import BACK, OLD, ORDERS, WayBack

STEP = Step.FENCE_RETURNED_CLUSTER
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
DENY = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
DENY_PROBE = replace(DENY, name=PROBE_TOPIC)
MAY_READ = AclEntry("group", "*", "literal", "User:app", "*", "read", "allow")
MAY_NOT = AclEntry("group", "billing", "literal", "User:app", "*", "read", "deny")


@pytest.fixture
def way(bench: Any) -> WayBack:
    """The old primary is back, and lets clients in: its fence is gone."""
    way = WayBack(bench)
    way.primary.acls = {GRANT, MAY_READ}
    way.standby.committed["billing"] = {ORDERS: Position(4)}
    return way


def fence(way: WayBack) -> dict[str, Any]:
    """Run the step."""
    return way.run(FenceReturnedCluster(task_id=STEP.value))


def test_writes_and_group_reads_are_denied_and_proven_there(way: WayBack) -> None:
    """The denials stand on the returned cluster and nowhere else; the probe was refused."""
    before = set(way.standby.acls)
    figures = fence(way)
    assert way.primary.acls == {GRANT, MAY_READ, DENY, DENY_PROBE, MAY_NOT} and way.standby.acls == before
    assert figures["brokers_refusing"] == [1] and figures["fenced_at"] and figures["returned_cluster"] == "primary"
    assert figures["groups"] == 1 and figures["still_partitions"] == 1


def test_source_and_target_swapped_fence_no_cluster(way: WayBack) -> None:
    """Clients work on the cluster that the params call the target: a fence there would stop every client."""
    way.standby.acls = {GRANT, MAY_READ}
    way.choices = {"source": "primary", "target": "standby"}
    way.another("swapped")
    with pytest.raises(AirflowFailException, match="The journal does not show that clients moved from standby"):
        fence(way)
    assert way.standby.acls == way.primary.acls == {GRANT, MAY_READ}
    assert set(way.worker.states.values()) == {"STOPPED"}


def test_a_worker_that_is_away_keeps_nobody_from_fencing_writes(way: WayBack) -> None:
    """First of all: the rest is tried again when Connect answers."""
    way.worker.away = True
    with pytest.raises(AirflowException, match="the request .* to Connect failed"):
        fence(way)
    assert DENY in way.primary.acls


def test_a_probe_that_gets_through_is_no_fence(way: WayBack) -> None:
    """The step ends without an outcome."""
    way.bench.probe_answers[0] = WriteAccepted(1, 1)
    with pytest.raises(AirflowException):
        fence(way)
    assert figures_of(way.procedure, STEP) is None


def test_the_fence_of_each_cluster_is_told_apart(way: WayBack) -> None:
    """What was added here is none of what return_to_source lifts on the new primary, and stays when the run ends."""
    fence(way)
    assert added_entries(way.procedure) == [] and set(added_entries(way.procedure.reversed)) == {
        DENY,
        DENY_PROBE,
        MAY_NOT,
    }
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(way.bench.context("b1"))
    assert {DENY, MAY_NOT} <= way.primary.acls


def test_a_returning_run_that_began_the_planned_part_keeps_it_too(way: WayBack) -> None:
    """The new primary's fence is lifted, the returned cluster's is not."""
    fence(way)
    way.standby.acls |= {GRANT, DENY}
    way.procedure.authority.write(
        Step.FENCE_PRODUCERS, Entry.INTENT, {"cluster": "standby", "adds_acl_entries": [vars(DENY)]}
    )
    way.bench.probe_answers[0] = WriteAccepted(1, 1)
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(way.bench.context("b1"))
    assert DENY not in way.standby.acls and {DENY, MAY_NOT} <= way.primary.acls


def test_the_new_primarys_probe_is_tried_although_the_returned_cluster_is_fenced(way: WayBack) -> None:
    """The fence of the one cluster says nothing of the other's probe."""
    fence(way)
    way.bench.probe_answers[0] = WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 1)
    with pytest.raises(NotReady, match="The probe cannot write on the source.*on standby"):
        refuse_probe_without_rights(way.procedure)


def test_running_it_again_adds_nothing_and_looks_again(way: WayBack) -> None:
    """Done twice it is done once; a fence that somebody lifted meanwhile is put up again."""
    fence(way)
    intents = len(way.bench.entries(STEP, "b1"))
    way.primary.acls -= {DENY}
    fence(way)
    assert DENY in way.primary.acls and len(way.bench.entries(STEP, "b1")) > intents


def test_the_flow_that_the_failover_had_stopped_is_stopped_again(way: WayBack) -> None:
    """Somebody resumed it: it would copy what is stranded into what clients write."""
    way.old_worker.states[OLD] = "RUNNING"
    assert fence(way)["stopped"] == {OLD: "STOPPED", "p.checkpoint": "STOPPED"}
    assert way.old_worker.states[OLD] == "STOPPED"


def test_the_flow_back_runs_on_where_the_logs_stay(bench: Any) -> None:
    """A standby that was started by the failover is kept, and so its log ends are not waited for."""
    way = WayBack(bench, started=True)
    figures = fence(way)
    assert way.worker.states[BACK] == "RUNNING" and figures["still_partitions"] is None


def test_topics_that_are_made_anew_do_not_change_any_more(bench: Any) -> None:
    """In mode recreate the flow back stands before its copies are looked through."""
    way = WayBack(bench, started=True, mode="recreate")
    figures = fence(way)
    assert way.worker.states[BACK] == "STOPPED" and figures["still_partitions"] == 1


def test_a_super_user_that_writes_on_is_found_by_the_log_ends(way: WayBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ACL stops it: named with its newest record."""
    ends = iter(range(100, 10_000))
    monkeypatch.setattr(way.primary, "ends", lambda partitions, **_: dict.fromkeys(partitions, next(ends)))
    way.primary.log_ends[ORDERS] = 20_000
    with pytest.raises(
        AirflowFailException, match="Records still arrive on primary.*orders-0: newest record at offset 19999"
    ):
        fence(way)


def test_a_watch_over_it_is_over(bench: Any) -> None:
    """The watcher has nothing to fence any more."""
    way = WayBack(bench, armed=True)
    assert len(armed_fences(telling_entries(way.bench.journal))) == 1
    assert fence(way)["disarmed"] == [way.failover.id]
    assert armed_fences(telling_entries(way.bench.journal)) == ()


def test_without_anything_that_keeps_clients_away_it_is_refused(way: WayBack) -> None:
    """No authorizer, no hook, no drain: both clusters would take writes."""
    way.primary.authorizer = False
    with pytest.raises(AirflowFailException, match="Clients cannot be fenced on primary.*name a drain hook"):
        fence(way)


def test_a_fence_hook_that_fences_it_is_enough(make_bench: Any) -> None:
    """What the failover had asked of it holds; the figures say that no probe proved it."""
    way = WayBack(make_bench(fence_hook={"connection": "switch"}))
    way.primary.authorizer, way.bench.hook.fenced = False, True
    figures = fence(way)
    assert (figures["authorizer"], figures["fenced_at"], figures["acl_entries_added"]) == (False, None, 0)


DEDICATED = [
    {
        "source": "primary",
        "target": "standby",
        "connect": "connect_standby",
        "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
    },
    {
        "source": "standby",
        "target": "primary",
        "stop_hook": "stop",
        "connectors": {"source": "s.source", "checkpoint": "s.checkpoint"},
    },
]


@pytest.mark.parametrize(
    ("can_start", "others", "why"),
    [
        (False, (), "runs in dedicated mode, and its stop hook does not start it"),
        (True, ("mm2-status.standby.internal",), "topic mm2-offsets.standby.internal does not exist on primary"),
    ],
)
def test_a_flow_in_dedicated_mode_that_cannot_be_used_is_refused_before_anything_is_touched(
    make_bench: Any, can_start: bool, others: tuple[str, ...], why: str
) -> None:
    """Nothing would start it, or its offsets would be set where no process looks."""
    way = WayBack(make_bench(flows=DEDICATED))
    way.bench.hook.can_start = can_start
    way.primary.partitions |= {name: {0: 1} for name in others}
    acls = set(way.primary.acls)
    with pytest.raises(AirflowFailException, match=f"standby->primary cannot be seeded and started.*{why}"):
        fence(way)
    assert way.primary.acls == acls


def test_a_flow_in_dedicated_mode_that_its_hook_starts_is_accepted(make_bench: Any) -> None:
    """A process of it has never run."""
    way = WayBack(make_bench(flows=DEDICATED))
    way.bench.hook.can_start = True
    assert fence(way)["stopped"]


def test_connectors_that_mirror_a_topic_twice_are_refused_before_anything_is_touched(make_bench: Any) -> None:
    """The flow back would copy its records once by each; topic and connectors are named."""
    names = {"source": "p.source", "checkpoint": "p.checkpoint"}, {"source": ["s.low", "s.high"], "checkpoint": "s.c"}
    ways = (("primary", "standby"), ("standby", "primary"))
    flows = [
        {"source": s, "target": t, "connect": f"connect_{t}", "connectors": of_flow}
        for (s, t), of_flow in zip(ways, names, strict=True)
    ]
    way = WayBack(make_bench(flows=flows))
    acls = set(way.primary.acls)
    with pytest.raises(
        AirflowFailException,
        match="Several source connectors of standby->primary mirror the same.*s.low and s.high select.*orders",
    ):
        fence(way)
    assert way.primary.acls == acls


def test_topics_of_both_clusters_are_fenced(way: WayBack) -> None:
    """Also those that were born on the new primary: their names are known before they are made."""
    way.primary.acls = {GRANT}
    way.standby.partitions["born"] = {0: 1}
    way.primary.partitions["alone"] = {0: 1}
    way.standby.log_ends[TopicPartition("born", 0)] = 1
    fence(way)
    assert {"alone", "born", "orders"} <= {e.name for e in way.primary.acls if e.permission == "deny"}
