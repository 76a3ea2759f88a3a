"""A failback between clusters whose flows always run: only clients that came from the target return, others stay."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.groups.selected import returning_groups
from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.actions.replication.running_flow import RunningFlow, needed_offsets
from kafka_dr.actions.scope.flow_scope import flows_of_move, notes_on_stay
from kafka_dr.actions.scope.plan_scope import boundary_moved, cut_off_of
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.plan import FailoverPlan
from kafka_dr.errors import Contradiction, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.steps.failback.fence_returned_cluster import FenceReturnedCluster
from kafka_dr.steps.failback.seed_flow_back import SeedFlowBack
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.planned.stop_mirror_maker import StopMirrorMaker
from kafka_dr.steps.planned.wait_for_zero_lag import WaitForZeroLag
from kafka_dr.vocabulary import Step
from kafka_dr.watcher.move_guard import MoveGuard

from tests.support.facts import figures_of
from tests.support.failback_bench import BACK, ORDERS, WayBack

COPY = TopicPartition("standby.orders", 0)
MAY_WRITE = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
MAY_READ = AclEntry("group", "*", "literal", "User:app", "*", "read", "allow")
ALWAYS = [("primary", "standby"), ("standby", "primary")]
#: Region `third` comes to the hub `standby`, too.
HUB = [*ALWAYS, ("third", "standby"), ("standby", "third")]


def flow(source: str, target: str, runs: str) -> dict[str, Any]:
    """A flow of the topology."""
    connectors = {kind: f"{source[0]}.{kind}" for kind in ("source", "checkpoint")}
    ends = {"source": source, "target": target, "runs": runs}
    return {**ends, "connect": f"connect_{target}", "connectors": connectors}


def topology(flows: list[tuple[str, str]], runs: str = "always", policy: str = "default") -> dict[str, Any]:
    """Clusters, flows and naming of a topology."""
    clusters = {alias: {"connection": f"kafka_{alias}"} for pair in flows for alias in pair}
    principals = {"mirror_maker": ["User:mm2"], "orchestrator": ["User:orchestrator"], "exempt": ["User:admin"]}
    return {
        "clusters": {alias: cluster | {"principals": principals} for alias, cluster in clusters.items()},
        "flows": [
            flow(*ends, runs) | ({"mirror_maker": {"topics": ends[0]}} if policy == "identity" else {})
            for ends in flows
        ],
        "naming": {"policy": policy},
    }


def way_back(make_bench: Any, flows: list[tuple[str, str]] = ALWAYS, runs: str = "always", **choices: Any) -> WayBack:
    """Group billing came from primary to standby, where group resident was before; both write to their `orders`."""
    bench = make_bench(**topology(flows, runs))
    way = WayBack(bench, policy="default", groups=["billing", "billing/eu"], **choices)
    for cluster in (way.primary, way.standby):
        cluster.acls = {MAY_WRITE, MAY_READ}
        cluster.partitions["orders"] = {0: 1}
    way.worker.states.update({BACK: "RUNNING", "s.checkpoint": "RUNNING"})
    way.primary.partitions["standby.orders"] = {0: 1}
    way.standby.log_ends[ORDERS] = way.primary.log_ends[COPY] = 40
    way.standby.committed |= {"billing": {ORDERS: Position(30)}, "resident": {ORDERS: Position(20)}}
    return way


@pytest.fixture
def way(make_bench: Any) -> WayBack:
    """A failback in mode append."""
    return way_back(make_bench)


def planned(way: WayBack) -> Run:
    """Return the failback with a plan that bob has approved."""
    run = way.procedure
    topics, groups = (("orders", COPY.topic, 1, "id-orders"),), ({"group": "billing"},)
    head = (run.id, "failback", "standby", "primary", "it is back", "default", {})
    plan = FailoverPlan(*head, topics, groups, (), (), {"max_fence_seconds": 600.0}, True, 0, None)
    way.bench.done(run, Step.CHECK_READINESS, isolation="read_uncommitted")
    stored = vars(run.artifacts.save_json("plan", plan.as_dict()))
    way.bench.done(run, Step.FORECAST, plan_file=stored, plan_digest=plan.digest, active_groups=[])
    way.bench.api.answer(Step.APPROVE_FAILOVER, f"Move? Plan {plan.digest}")
    way.bench.done(run, Step.APPROVE_FAILOVER, asked=True)
    return run


def denied(way: WayBack) -> set[tuple[str, str]]:
    """Kinds and names of what the standby denies."""
    return {(entry.resource_type, entry.name) for entry in way.standby.acls if entry.permission == "deny"}


def test_only_groups_that_came_are_fenced_on_the_returned_cluster(way: WayBack) -> None:
    """Its topics are fenced as in any failback; on the cluster that they leave nothing changes, and its flow runs."""
    assert returning_groups(way.procedure) == frozenset(["billing", "billing/eu"])
    figures = way.run(FenceReturnedCluster(task_id=Step.FENCE_RETURNED_CLUSTER.value))
    fence = {(entry.resource_type, entry.name) for entry in way.primary.acls if entry.permission == "deny"}
    assert {("topic", "orders"), ("topic", COPY.topic), ("group", "billing")} <= fence
    assert ("group", "resident") not in fence and figures["groups"] == 1
    assert denied(way) == set() and way.worker.states[BACK] == "RUNNING"


@pytest.mark.parametrize(
    ("choices", "sync", "message"),
    [
        (
            {"mode": "recreate"},
            "false",
            "Mode recreate is not possible while other clients stay on standby.*mode append",
        ),
        (
            {},
            "true",
            "MirrorMaker 2 may overwrite positions of the groups that return to primary.*s.checkpoint has sync",
        ),
    ],
)
def test_what_would_harm_clients_is_refused_before_anything_is_touched(
    make_bench: Any, choices: dict[str, Any], sync: str, message: str
) -> None:
    """Copies also have records of clients that stay, and their flow runs on."""
    way = way_back(make_bench, **choices)
    way.worker.configs.setdefault("s.checkpoint", {})["sync.group.offsets.enabled"] = sync
    before = {alias: set(cluster.acls) for alias, cluster in way.bench.clusters.items()}, dict(way.worker.states)
    with pytest.raises(AirflowFailException, match=message):
        way.run(FenceReturnedCluster(task_id=Step.FENCE_RETURNED_CLUSTER.value))
    after = {alias: set(cluster.acls) for alias, cluster in way.bench.clusters.items()}, dict(way.worker.states)
    assert after == before


def test_a_flow_that_always_runs_is_not_seeded(way: WayBack) -> None:
    """Also while somebody has stopped it: records of clients that stay may have no copy yet."""
    way.found()
    prepared = way.procedure.artifacts.save("prepared", partitions_frame({COPY: 0}, "offset"))
    way.bench.done(way.procedure, Step.PREPARE_TOPICS, prepared=prepared)
    way.worker.states[BACK] = "STOPPED"
    figures = way.run(SeedFlowBack(task_id=Step.SEED_FLOW_BACK.value))
    assert figures["seeded"] == 0 and "always runs" in figures["why_not"] and way.worker.offsets_set == {}


def test_no_write_is_fenced_on_the_cluster_that_they_leave(way: WayBack) -> None:
    """Reads of the groups that return are; the cut-off is where the log ended, though clients write on."""
    way.standby.committed["billing/eu"] = {ORDERS: Position(30)}
    planned(way)
    fenced = way.run(FenceProducers(task_id=Step.FENCE_PRODUCERS.value))
    assert fenced["fenced_at"] is None and fenced["acl_entries_added"] == 0 and denied(way) == set()
    way.standby.log_ends[ORDERS] = 44
    drained = way.run(DrainConsumers(task_id=Step.DRAIN_CONSUMERS.value))
    assert drained["groups"] == ["billing", "billing/eu"]
    assert denied(way) == {("group", "billing"), ("group", "billing/eu")}, "and not the pattern of the clients' rights"
    assert cut_off_of(way.procedure) == {ORDERS: 40}


def drained(way: WayBack, position: int = 30) -> Run:
    """Return the failback with billing at rest, while resident's application goes on writing."""
    planned(way)
    way.run(FenceProducers(task_id=Step.FENCE_PRODUCERS.value))
    way.standby.committed["billing"] = {ORDERS: Position(position)}
    way.run(DrainConsumers(task_id=Step.DRAIN_CONSUMERS.value))
    for offset in range(40, 50):
        way.write("standby", offset, f"new {offset}")
    return way.procedure


def test_a_position_behind_the_cut_off_is_waited_for(way: WayBack) -> None:
    """A group may have read on until its consumers left."""
    assert needed_offsets(drained(way, position=43)) == {ORDERS: 43}


def test_log_ends_that_belong_together_are_saved_and_nothing_is_stopped(way: WayBack) -> None:
    """MirrorMaker 2 has copied up to record 46, at offset 45 there; 47 to 49 come later."""
    run = drained(way)
    way.write("primary", 45, "new 46", COPY)
    way.worker.replicated = {ORDERS: 39}
    with pytest.raises(NotYet, match="stored offset is 39, needed is 40"):
        RunningFlow(run).look()
    way.worker.replicated = {ORDERS: 41}
    way.run(WaitForZeroLag(task_id=Step.WAIT_FOR_ZERO_LAG.value))
    stopped = way.run(StopMirrorMaker(task_id=Step.STOP_MIRROR_MAKER.value))
    assert stopped["stopped"] == [] and way.worker.states[BACK] == "RUNNING"
    assert cut_off_of(way.procedure) == {ORDERS: 47}
    way.standby.log_ends[ORDERS], way.primary.log_ends[COPY] = 60, 57
    assert boundary_moved(way.procedure) == []
    recheck_preconditions(way.procedure)
    way.standby.log_ends[ORDERS] = 46
    with pytest.raises(Contradiction, match="Log ends of the source lie before the cut-off"):
        recheck_preconditions(way.procedure)


def test_an_open_transaction_below_a_position_is_waited_for(way: WayBack) -> None:
    """Under read_committed MirrorMaker 2 cannot copy what a group may have read."""
    run = drained(way)
    way.bench.done(run, Step.CHECK_READINESS, isolation="read_committed")
    way.standby.stable_ends[ORDERS] = 35
    with pytest.raises(NotYet, match="orders-0: readable to offset 35, needed is 40"):
        RunningFlow(run).look()


def test_the_flow_back_from_a_hub_is_stopped(make_bench: Any) -> None:
    """It has its turn no more; the log ends that belong together are found before, and again by a second try."""
    way = way_back(make_bench, HUB, "in_turn")
    drained(way)
    way.write("primary", 45, "new 46", COPY)
    way.worker.replicated = {ORDERS: 41}
    way.run(WaitForZeroLag(task_id=Step.WAIT_FOR_ZERO_LAG.value))
    for _ in range(2):
        stopped = way.run(StopMirrorMaker(task_id=Step.STOP_MIRROR_MAKER.value))
        assert stopped["stopped"] == [BACK, "s.checkpoint"] and way.worker.states[BACK] == "STOPPED"
        assert cut_off_of(way.procedure) == {ORDERS: 47}
    way.worker.states[BACK] = "RUNNING"
    with pytest.raises(Refusal, match="s.source runs again"):
        recheck_preconditions(way.procedure)


@pytest.mark.parametrize(
    ("flows", "runs", "policy", "stays", "runs_on"),
    [
        (ALWAYS, "always", "default", True, True),
        (ALWAYS, "in_turn", "default", False, False),
        (HUB, "in_turn", "default", True, False),
        (HUB, "in_turn", "identity", False, False),
        ([*ALWAYS, ("primary", "third"), ("third", "primary")], "in_turn", "default", False, False),
    ],
    ids=["active-active", "active-passive", "hub", "hub under identity naming", "fan-out"],
)
def test_where_clients_stay(
    make_bench: Any, flows: list[tuple[str, str]], runs: str, policy: str, stays: bool, runs_on: bool
) -> None:
    """Only in a failback: a failover moves all clients."""
    bench = make_bench(**topology(flows, runs, policy))
    way = WayBack(bench, policy=policy)
    assert (way.procedure.source_stays_open, way.procedure.flow_runs_on) == (stays, runs_on)
    assert not way.failover.source_stays_open and not way.failover.flow_runs_on


def test_a_partition_to_which_nobody_writes_is_compared_as_ever(way: WayBack) -> None:
    """By its last records, and by Connect's offset."""
    planned(way)
    way.run(FenceProducers(task_id=Step.FENCE_PRODUCERS.value))
    way.run(DrainConsumers(task_id=Step.DRAIN_CONSUMERS.value))
    way.worker.replicated = {ORDERS: 39}
    assert RunningFlow(way.procedure).look() == {ORDERS: (40, 40)}


def test_the_approver_reads_what_people_must_confirm(way: WayBack) -> None:
    """And what becomes of both flows, and of the names."""
    who, _ = notes_on_stay(way.procedure)
    assert "Confirm that the producers that return are stopped on standby" in who
    section = flows_of_move(way.procedure, lost=False)
    assert {row["flow"]: row["fate"] for row in section["flows"]} == {
        "standby->primary": "stays",
        "primary->standby": "turns",
    }
    changes = {(row["cluster"], row["name"]): row["change"] for row in section["readers"]}
    assert "have returned to primary" in changes["primary", "TOPIC"]
    assert "the returned clients wrote on standby" in changes["primary", "standby.TOPIC"]
    assert notes_on_stay(way.failover) == () and figures_of(way.failover, Step.OPEN_TARGET) is not None


def test_the_watcher_does_not_take_the_running_flow_for_one_that_somebody_resumed(way: WayBack) -> None:
    """It always runs; the flow of the failover before was to stand."""
    assert MoveGuard()._running_parts(way.procedure) == {}
    way.old_worker.states["p.source"] = "RUNNING"
    assert "p.source" in MoveGuard()._running_parts(way.failover)
