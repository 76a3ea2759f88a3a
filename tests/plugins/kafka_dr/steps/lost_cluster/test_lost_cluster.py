"""lost_cluster: no pair acts before the one approval, and each acts by its own part of the approved plan alone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException, TaskDeferred
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.loss.loss_plan import LossPlan
from kafka_dr.errors import ApprovalMissing, BadInput, Refusal
from kafka_dr.procedure import progress
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import AclEntriesToAdd, PairsNotMoved, ProcedureClosed, SourceToReopen
from kafka_dr.procedure.run import Run
from kafka_dr.steps.lost_cluster.approve_lost_cluster import ApproveLostCluster
from kafka_dr.steps.lost_cluster.follow_pairs import FollowPairs
from kafka_dr.steps.lost_cluster.plan_lost_cluster import PlanLostCluster
from kafka_dr.steps.lost_cluster.start_pairs import StartPairs
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned.approve_data_loss import ApproveDataLoss
from kafka_dr.steps.unplanned.open_target import refuse_reopened_by_pair
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web.status_reader import StatusReader

from tests.support.bench import Bench
from tests.support.clusters import Cluster
from tests.support.connect import Worker
from tests.support.facts import asked_by, figures_of

LOST, TARGETS, COMMON, PAIR = "hub", ("us", "eu"), "lost_cluster", "unplanned_failover"
PARAMS = {"source": LOST, "target": "us", "other_targets": "eu", "reason": "it burns"}
GATE = Step.APPROVE_LOST_CLUSTER


def flow(source: str, target: str) -> dict[str, Any]:
    """A flow of the topology."""
    connectors = {kind: f"{source}.{target}.{kind}" for kind in ("source", "checkpoint")}
    return {"source": source, "target": target, "connect": f"connect_{target}", "connectors": connectors}


class Hub:
    """A bench with a lost hub, and a run of lost_cluster to two regions.

    Attributes:
        made: run ids of the pairs' runs that Airflow has made.
    """

    def __init__(self, bench: Bench, **changes: Any) -> None:
        self.bench, self.made = bench, dict[str, dict[str, Any]]()
        bench.clusters.clear()
        bench.clusters |= {alias: Cluster(alias) for alias in (LOST, *TARGETS)}
        bench.workers.clear()
        bench.workers |= {alias: Worker({}) for alias in (LOST, *TARGETS)}
        bench.params = PARAMS | changes
        self.common = bench.opened("c1")

    def context(self) -> dict[str, Any]:
        """Airflow's context of a task of the common run."""
        self.bench.dag_id, self.bench.params = COMMON, PARAMS
        context = self.bench.context("c1")
        context["ti"].get_dr_count = lambda dag_id, run_ids: sum(run_id in self.made for run_id in run_ids)
        context["ti"].get_dag = lambda dag_id: SimpleNamespace(is_paused=False)
        return context

    def start(self) -> None:
        """Let the step make each pair's run, as Airflow does."""
        for _ in TARGETS:
            with pytest.raises(DagRunTriggerException) as wanted:
                StartPairs(task_id="start_pairs").execute(self.context())
            self.made[wanted.value.dag_run_id] = wanted.value.conf
        StartPairs(task_id="start_pairs").execute(self.context())

    def pair(self, target: str) -> Run:
        """A pair's run."""
        (run_id,) = [run_id for run_id, conf in self.made.items() if conf["target"] == target]
        self.bench.dag_id, self.bench.params = PAIR, self.made[run_id]
        return self.bench.procedure(run_id)

    def assess(self, target: str, *reads: tuple[str, str], certain: int = 0) -> Run:
        """Open a pair's run and write its plan, with a position of each group in each topic of `reads`."""
        run = self.pair(target)
        if run.progress.opened is None:
            run = self.bench.opened(run.identity.run_id)
            self.bench.done(run, Step.CONFIRM_SOURCE_LOST, state="lost", override=None)
        plan = LossPlan(
            run.id,
            PAIR,
            LOST,
            target,
            "it burns",
            "default",
            {},
            (("orders", "hub.orders", 1, None),),
            (),
            (),
            {},
            {"state": "lost", "window": "w", "override": None},
            {
                "digest": "d",
                "certain": certain,
                "possible": None,
                "losing": 0,
                "partitions": 1,
                "unknown": 0,
                "records_per_second": None,
                "groups_ahead": 0,
            },
            (),
        )
        frame = pd.DataFrame(reads, columns=["group", "topic"]).assign(partition=0, position=1)
        stored = vars(run.artifacts.save_json("plan", plan.as_dict()))
        positions = run.artifacts.save("positions", frame)
        self.bench.done(
            run, Step.ASSESS_DATA_LOSS, plan_file=stored, plan_digest=plan.digest, positions=positions, active_groups=[]
        )
        return run

    def plan(self) -> Any:
        """Write the common plan."""
        context = self.context()
        PlanLostCluster(task_id="plan_lost_cluster").execute(context)
        return figures_of(self.common, Step.PLAN_LOST_CLUSTER)

    def approve(self, **answer: Any) -> str:
        """Bob answers the common gate; return the digest."""
        gate = ApproveLostCluster(task_id=GATE.value)
        subject, _, digest = asked_by(gate, self.common)
        self.bench.api.answer(GATE, subject, **answer)
        return digest

    def passed(self) -> None:
        """The gate's outcome is written."""
        event = {"chosen_options": ["Approve"], "params_input": {}, "responded_by_user": {"id": "bob", "name": "bob"}}
        ApproveLostCluster(task_id=GATE.value).execute_complete(self.context(), event)

    def gate_of(self, target: str, resumed: bool = False) -> Any:
        """Run the gate of a pair's run."""
        run = self.pair(target)
        gate = ApproveDataLoss(task_id="approve_data_loss")
        context = self.bench.context(run.identity.run_id)
        return gate.resume(context) if resumed else gate.execute(context)

    def close_pair(self, target: str, outcome: str) -> None:
        """A pair's run ends."""
        run = self.pair(target)
        closed = ProcedureClosed(outcome=outcome, failing_step=None, reason_for_outcome="so", digest=f"d-{target}")
        run.journal.append(run.id, Step.CLOSE_PROCEDURE, closed.kind, run.lease.epoch, closed.payload())


@pytest.fixture
def hub(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A lost hub with two regions, default naming."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    return Hub(make_hub(make_bench))


def make_hub(make_bench: Any, **topology: Any) -> Bench:
    """A bench whose topology has a hub."""
    principals = {"mirror_maker": ["User:mm2"], "orchestrator": ["User:orchestrator"]}
    clusters = {alias: {"connection": f"kafka_{alias}", "principals": principals} for alias in (LOST, *TARGETS)}
    flows = [flow(*ends) for alias in TARGETS for ends in ((LOST, alias), (alias, LOST))]
    return make_bench(
        dag_id=COMMON, **{"clusters": clusters, "flows": flows, "naming": {"policy": "default"}, **topology}
    )


def test_each_pair_gets_a_run_that_waits_for_this_plan(hub: Hub) -> None:
    """Once, also when the step is repeated after a kill; with the choices of the common run."""
    hub.start()
    assert [conf["target"] for conf in hub.made.values()] == list(TARGETS)
    assert all(conf["common_plan"] == hub.common.id and conf["source"] == LOST for conf in hub.made.values())
    StartPairs(task_id="start_pairs").execute(hub.context())
    assert len(hub.made) == 2
    assert [pair["target"] for pair in figures_of(hub.common, Step.START_PAIRS)["pairs"]] == list(TARGETS)


def test_a_target_that_does_not_answer_is_no_target(hub: Hub) -> None:
    """It may be lost itself: refused before any run is made."""
    hub.bench.clusters["eu"].away = True
    with pytest.raises(AirflowFailException, match="eu does not answer"):
        StartPairs(task_id="start_pairs").execute(hub.context())
    assert not hub.made


@pytest.mark.parametrize(("source", "target"), [("eu", "us"), (LOST, "asia")])
def test_clients_that_were_moved_elsewhere_are_not_moved_twice(hub: Hub, source: str, target: str) -> None:
    """A target whose clients were moved away, or a lost cluster whose clients already work elsewhere."""
    journal, opened = hub.common.journal, hub.bench.entries(Step.OPEN_PROCEDURE, "c1")[0].payload
    journal.append("earlier", Step.OPEN_PROCEDURE, Entry.OPENED, 1, opened | {"source": source, "target": target})
    journal.append("earlier", Step.OPEN_TARGET, Entry.INTENT, 1, {"try": 1})
    with pytest.raises(AirflowFailException, match=f"earlier moved the clients of {source} to {target}"):
        StartPairs(task_id="start_pairs").execute(hub.context())


def test_two_clusters_take_no_writes_for_one_topic(make_bench: Any) -> None:
    """Under identity naming the hub's topics would be written in both regions."""
    topics = [{**flow(LOST, alias), "mirror_maker": {"topics": "a"}} for alias in TARGETS]
    hub = Hub(make_hub(make_bench, naming={"policy": "identity"}, flows=topics))
    with pytest.raises(AirflowFailException, match="us and eu would both take writes"):
        StartPairs(task_id="start_pairs").execute(hub.context())


@pytest.mark.parametrize(
    ("text", "problem"),
    [("us", "named twice"), ("hub", "named twice"), ("asia", "no flow replicates"), ("eu,eu", "named twice")],
)
def test_targets_must_be_other_clusters_of_the_hubs_flows(make_bench: Any, text: str, problem: str) -> None:
    """Bad params end the run before anything is touched."""
    with pytest.raises(BadInput, match=problem):
        Hub(make_hub(make_bench), other_targets=text)


def test_a_source_that_may_answer_is_left_for_one_cluster(make_bench: Any) -> None:
    """Else the return of one pair could open it while clients work on another cluster."""
    with pytest.raises(BadInput, match="left for one cluster only"):
        Hub(make_hub(make_bench), override_source_lost="it is slow")


def test_the_plan_waits_for_all_and_holds_each_pairs_digest(hub: Hub) -> None:
    """With what is lost there; the routing record leads to the first."""
    hub.start()
    first = hub.assess("us", ("g", "us.events"), certain=3)
    with pytest.raises(TaskDeferred):
        hub.plan()
    second = hub.assess("eu", ("g", "eu.events"), certain=4)
    plan = hub.plan()["plan"]
    assert [one["plan_digest"] for one in plan["pairs"]] == [r.progress.move().plan_digest for r in (first, second)]
    assert [(one["certain"], one["routes"]) for one in plan["pairs"]] == [(3, True), (4, False)]
    _, body, digest = asked_by(ApproveLostCluster(task_id=GATE.value), hub.common)
    assert digest in body and body.count("Certainly lost") == 2 and "eu" in body


def test_a_pair_that_ended_ends_the_plan(hub: Hub) -> None:
    """Its reason stands in the refusal."""
    hub.start()
    hub.assess("us")
    hub.assess("eu")
    hub.close_pair("eu", "refused")
    with pytest.raises(AirflowFailException, match="refused at None: so"):
        hub.plan()


def test_one_group_is_not_served_on_two_clusters(hub: Hub) -> None:
    """In the same topic."""
    hub.start()
    hub.assess("us", ("g", "orders"))
    hub.assess("eu", ("g", "orders"))
    with pytest.raises(AirflowFailException, match="one group would be served on us and eu"):
        hub.plan()


def approved(hub: Hub) -> None:
    """All pairs assessed, planned and approved."""
    hub.start()
    hub.assess("us", ("g", "us.events"))
    hub.assess("eu", ("g", "eu.events"))
    hub.plan()
    hub.approve()
    hub.passed()


def test_a_pair_waits_asks_nobody_and_acts_by_the_common_answer(hub: Hub) -> None:
    """Before the answer its gate defers; then its acts read the answer to the common gate."""
    hub.start()
    hub.assess("us", ("g", "us.events"))
    with pytest.raises(TaskDeferred):
        hub.gate_of("us")
    hub.assess("eu")
    hub.plan()
    with pytest.raises(TaskDeferred):
        hub.gate_of("us", resumed=True)
    with pytest.raises(ApprovalMissing, match="never answered"):
        hub.pair("us").approvals.require_plan()
    digest = hub.approve()
    hub.passed()
    assert hub.gate_of("us", resumed=True) == {"done": "approve_data_loss"}
    approval = hub.pair("us").approvals.require_plan()
    assert (approval.gate, approval.by, approval.digest) == (GATE, "bob", digest)
    assert figures_of(hub.pair("us"), Step.APPROVE_DATA_LOSS)["digest"] == digest


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"chosen_options": ("Reject",)}, "the answer was Reject"),
        ({"responded_by_id": "alice", "responded_by_name": "alice"}, "alice started the run"),
    ],
)
def test_no_pair_acts_by_an_answer_that_does_not_count(hub: Hub, answer: dict[str, Any], problem: str) -> None:
    """A rejection, or an answer of the person who started lost_cluster."""
    hub.start()
    hub.assess("us")
    hub.assess("eu")
    hub.plan()
    hub.approve(**answer)
    with pytest.raises(ApprovalMissing, match=problem):
        hub.pair("us").approvals.require_plan()


def test_a_pair_whose_plan_changed_must_be_approved_anew(hub: Hub) -> None:
    """The approval is of the plan that was shown, not of the pair."""
    approved(hub)
    hub.assess("us", ("g", "us.events"), certain=7)
    with pytest.raises(ApprovalMissing, match="does not have this plan as its part"):
        hub.pair("us").approvals.require_plan()
    assert hub.pair("eu").approvals.require_plan().by == "bob"
    with pytest.raises(AirflowFailException, match="does not have this plan as its part"):
        hub.gate_of("us")


def test_no_other_run_can_use_the_approval(hub: Hub) -> None:
    """A run that names the plan by hand is no part of it, and nor is a run of another DAG a common plan."""
    approved(hub)
    conf = next(conf for conf in hub.made.values() if conf["target"] == "us")
    hub.made = {"by-hand": conf}
    hub.common.journal.release_lease("hub+us", hub.pair("us").journal.lease("hub+us").holder, 1, "returned")
    hub.assess("us", ("g", "us.events"))
    with pytest.raises(ApprovalMissing, match="no part of this run"):
        hub.pair("us").approvals.require_plan()
    hub.made = {"by-hand-2": conf | {"common_plan": hub.pair("us").id}}
    with pytest.raises(ApprovalMissing, match="is no run of lost_cluster"):
        hub.pair("us").approvals.require(Step.APPROVE_DATA_LOSS, "x")


def test_pairs_end_when_the_common_plan_ends_without_approval(hub: Hub) -> None:
    """A rejected or expired plan moves no client."""
    hub.start()
    hub.assess("us")
    with pytest.raises(AirflowFailException, match="refused"):
        CloseProcedure(task_id="close_procedure").execute(hub.context())
    with pytest.raises(AirflowFailException, match="The common plan was not approved"):
        hub.gate_of("us")


def test_the_routing_record_leads_to_the_first_target_alone(hub: Hub) -> None:
    """The other pair's step reads the record, and says who points its clients."""
    approved(hub)
    record = hub.bench.folder / "routing.json"
    record.write_text(json.dumps({"cluster": "us", "bootstrap_servers": "kafka_us", "version": 2}))
    for target, changed in (("eu", False), ("us", False)):
        run = hub.pair(target)
        hub.gate_of(target)
        hub.bench.done(run, Step.OPEN_TARGET, by_hand="carol")
        done = RedirectClients(task_id="redirect_clients").act(run, hub.bench.context(run.identity.run_id))
        assert (done.changed, done.clients_see["cluster"]) == (changed, "us")
    record.write_text(json.dumps({"cluster": LOST, "bootstrap_servers": "kafka_hub", "version": 2}))
    run = hub.pair("eu")
    assert not RedirectClients(task_id="redirect_clients").act(run, hub.bench.context()).changed
    run = hub.pair("us")
    assert RedirectClients(task_id="redirect_clients").act(run, hub.bench.context()).clients_see["cluster"] == "us"


@pytest.mark.parametrize(("fenced", "refused"), [("acl", True), ("armed", False)])
def test_no_pair_opens_behind_a_fence_that_another_lifts(hub: Hub, fenced: str, refused: bool) -> None:
    """An armed fence is each run's own: the watcher sets it again."""
    approved(hub)
    us, eu = hub.pair("us"), hub.pair("eu")
    hub.bench.done(eu, Step.FENCE_SOURCE, fenced=fenced)
    refuse_reopened_by_pair(eu)
    record_fact(us.authority, Step.RETURN_TO_SOURCE, SourceToReopen(reopens_source=True))
    if refused:
        with pytest.raises(Refusal, match=r"Another pair .*__us may have lifted the fence of hub"):
            refuse_reopened_by_pair(hub.pair("eu"))
    else:
        refuse_reopened_by_pair(hub.pair("eu"))


@pytest.mark.parametrize("opened", [True, False])
def test_a_pair_that_returns_keeps_the_fence_for_one_that_opened(hub: Hub, opened: bool) -> None:
    """What it had added stays; without such a pair it is lifted."""
    approved(hub)
    us, eu, entry = (
        hub.pair("us"),
        hub.pair("eu"),
        AclEntry("topic", "orders", "literal", "User:x", "*", "write", "deny"),
    )
    hub.bench.clusters[LOST].acls = {entry}
    hub.bench.done(us, Step.FENCE_SOURCE, fenced="acl")
    record_fact(us.authority, Step.FENCE_SOURCE, AclEntriesToAdd(adds_acl_entries=[entry], cluster=LOST))
    if opened:
        eu.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"try": 1})
    hub.bench.dag_id, hub.bench.params = PAIR, hub.made[us.identity.run_id]
    done = ReturnToSource(task_id="return_to_source").act(us, hub.bench.context(us.identity.run_id))
    assert (done.fence_kept_for, done.acl_entries_lifted) == ((eu.id, 0) if opened else (None, 1))
    assert (entry in hub.bench.clusters[LOST].acls) is opened


def test_the_live_page_shows_the_state_of_each_pair(hub: Hub) -> None:
    """Its newest step, or its outcome."""
    approved(hub)
    hub.close_pair("eu", "completed")
    reader = StatusReader(hub.common.topology, hub.common.journal, lambda dag_id: True)
    status = reader.procedure(hub.common.id, reader.journal_time())
    assert [(target, state) for target, _, state in status.pairs] == [
        ("us", "assess_data_loss: done"),
        ("eu", "completed"),
    ]
    assert reader.procedure(hub.pair("us").id, reader.journal_time()).pairs == ()


def follow(hub: Hub) -> Any:
    """Follow the pairs."""
    return FollowPairs(task_id="follow_pairs").execute(hub.context())


def test_the_common_run_completes_with_all_pairs(hub: Hub) -> None:
    """Not before; its evidence names theirs."""
    approved(hub)
    hub.close_pair("us", "completed")
    with pytest.raises(TaskDeferred):
        follow(hub)
    hub.close_pair("eu", "completed")
    follow(hub)
    assert set(figures_of(hub.common, Step.FOLLOW_PAIRS)["evidence_digests"].values()) == {"d-us", "d-eu"}
    assert CloseProcedure(task_id="close_procedure").execute(hub.context())["outcome"] == "completed"


def test_a_pair_that_stopped_can_be_resumed(hub: Hub) -> None:
    """The common run stays open, as failed; cleared after the pair has completed, it completes."""
    approved(hub)
    hub.close_pair("us", "completed")
    hub.close_pair("eu", "failed")
    with pytest.raises(AirflowFailException, match=r"unplanned_failover-\S+__eu: failed"):
        follow(hub)
    close = CloseProcedure(task_id="close_procedure")
    with pytest.raises(AirflowFailException, match="failed: follow_pairs"):
        close.execute(hub.context())
    hub.close_pair("eu", "completed")
    follow(hub)
    assert close.execute(hub.context())["outcome"] == "completed"


def test_a_pair_that_returned_ends_the_common_run(hub: Hub) -> None:
    """It cannot be resumed: the run ends as returned, and gives its lease back."""
    approved(hub)
    hub.close_pair("us", "completed")
    hub.close_pair("eu", "returned")
    with pytest.raises(AirflowFailException, match="Not all pairs"):
        follow(hub)
    assert hub.common.progress.done(PairsNotMoved).final
    with pytest.raises(AirflowFailException, match="returned: follow_pairs"):
        CloseProcedure(task_id="close_procedure").execute(hub.context())
    assert hub.common.journal.lease(hub.common.pair).released_at is not None
