"""The old flow made harmless at the opening: kept while clients are there, removed before a flow is to write again."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.actions.clients import begun_opening
from kafka_dr.actions.fencing.old_flow import let_flow_write
from kafka_dr.actions.undo import close_target
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import ReadBackFailed
from kafka_dr.procedure.standing_fence import OPENING, own_denials
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.planned.start_reverse_replication import StartReverseReplication
from kafka_dr.vocabulary import Entry, Step

HARMLESS = AclEntry("topic", "orders", "literal", "User:mm2", "*", "write", "deny")
EVERYONE = AclEntry("topic", "orders", "literal", "User:*", "*", "all", "allow")
STEP = Step.OPEN_TARGET.value


def opened(bench: Any, *planned: AclEntry, remote: str = "orders") -> dict[str, Any]:
    """Open the target of a run whose plan lists these entries; return the figures."""
    bench.planned_denials = tuple(map(str, planned))
    bench.stopped(remote=remote)
    OpenTarget(task_id=STEP).execute(bench.context())
    return bench.entries(STEP)[-1].payload


def test_mirror_maker_writes_no_more(bench: Any) -> None:
    """The entry is in the intent, on the cluster, and in the evidence."""
    figures = opened(bench, HARMLESS)
    assert HARMLESS in bench.clusters["standby"].acls
    (intent,) = [e for e in bench.entries(STEP) if e.kind == Entry.INTENT]
    assert [AclEntry(**entry) for entry in intent.payload["denies_old_flow"]] == [HARMLESS]
    assert "adds_acl_entries" not in intent.payload
    assert figures["old_flow"] == "User:mm2 may not write to 1 topic of standby."
    assert own_denials(bench.journal.entries_of_steps(OPENING), "standby") == (HARMLESS,)
    assert own_denials(bench.journal.entries_of_steps(OPENING), "primary") == ()


def test_what_the_plan_does_not_list_is_left(bench: Any) -> None:
    """A plan of an older version lists none."""
    figures = opened(bench)
    assert HARMLESS not in bench.clusters["standby"].acls
    assert figures["old_flow"] == "User:mm2 may not write to 0 topics of standby."


def test_prefixed_topics_are_the_old_flows(make_bench: Any) -> None:
    """Under default naming the old flow writes to topics with its alias."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    prefixed = AclEntry("topic", "primary.orders", "literal", "User:mm2", "*", "write", "deny")
    opened(bench, HARMLESS, prefixed, remote="primary.orders")
    assert {e for e in bench.clusters["standby"].acls if e.principal == "User:mm2"} == {prefixed}


def test_a_topic_without_entries_stays_open_to_everyone(make_bench: Any) -> None:
    """The first entry would close it: everyone gets one beside it, and both are removed together."""
    clusters = {
        alias: {
            "connection": f"kafka_{alias}",
            "principals": {"mirror_maker": ["User:mm2"], "orchestrator": ["User:o"]},
            "allow_everyone_if_no_acl_found": True,
        }
        for alias in ("primary", "standby")
    }
    bench = make_bench(clusters=clusters)
    bench.planned_denials = tuple(map(str, (HARMLESS, EVERYONE)))
    bench.stopped()
    bench.clusters["standby"].acls.clear()
    OpenTarget(task_id=STEP).execute(bench.context())
    assert bench.clusters["standby"].acls == {HARMLESS, EVERYONE}


def test_a_rollback_removes_them(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the intent: closing the target again leaves the entries as they were."""
    bench.planned_denials = (str(HARMLESS),)
    bench.stopped()
    before = set(bench.clusters["standby"].acls)

    def killed(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kafka_dr.steps.planned.open_target.write_canary", killed)
    with pytest.raises(KeyboardInterrupt):
        OpenTarget(task_id=STEP).execute(bench.context())
    assert HARMLESS in bench.clusters["standby"].acls
    procedure = bench.procedure()
    close_target(procedure, begun_opening(procedure))
    assert bench.clusters["standby"].acls == before


def test_the_flow_back_to_the_cluster_may_write_again(bench: Any) -> None:
    """Before a flow to the cluster is started: exactly our entries go, with an intent, and twice is once."""
    opened(bench, HARMLESS)
    foreign = AclEntry("topic", "bills", "literal", "User:mm2", "*", "write", "deny")
    bench.clusters["standby"].acls.add(foreign)
    procedure = bench.procedure()
    assert [let_flow_write(procedure, Step.START_FLOW_BACK, "standby") for _ in range(2)] == [1, 0]
    assert HARMLESS not in bench.clusters["standby"].acls and foreign in bench.clusters["standby"].acls
    (intent,) = bench.entries(Step.START_FLOW_BACK)
    assert intent.payload["cluster"] == "standby" and len(intent.payload["lets_flow_write"]) == 1


def test_entries_that_somebody_restores_are_named(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the flow is not started."""
    opened(bench, HARMLESS)
    monkeypatch.setattr("tests.support.clusters.Acls.remove", lambda self, entries: None)
    with pytest.raises(ReadBackFailed, match="MirrorMaker 2 may not write to the cluster"):
        let_flow_write(bench.procedure(), Step.START_FLOW_BACK, "standby")


def test_the_last_step_frees_the_old_source(bench: Any) -> None:
    """Clients have left the primary: what an earlier opening had denied there goes, also where no flow is started."""
    bench.dag_id, bench.params = "failback", {"source": "standby", "target": "primary", "reason": "first"}
    first = bench.opened("f1")
    payload = {"removes_acl_entries": [], "denies_old_flow": [vars(HARMLESS)]}
    bench.journal.append(first.id, Step.OPEN_TARGET, Entry.INTENT, first.lease.epoch, payload)
    bench.journal.release_lease("primary+standby", first.id, first.lease.epoch, "completed")
    bench.dag_id, bench.params = "planned_failover", {"source": "primary", "target": "standby", "reason": "again"}
    opened(bench, HARMLESS)
    bench.clusters["primary"].acls.add(HARMLESS)
    procedure = bench.procedure()
    for step in (Step.REDIRECT_CLIENTS, Step.VERIFY_CLIENTS):
        bench.done(procedure, step)
    StartReverseReplication(task_id=Step.START_REVERSE_REPLICATION.value).execute(bench.context())
    assert HARMLESS not in bench.clusters["primary"].acls and HARMLESS in bench.clusters["standby"].acls
