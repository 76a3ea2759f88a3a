"""A fence hook that spares MirrorMaker 2 in planned runs, and the producers that stand still behind a fence."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from kafka_dr.actions.fencing import hook_fence
from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import Producer
from kafka_dr.errors import KafkaUnavailable, ReadBackFailed
from kafka_dr.steps.planned import open_target
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

STEP = Step.FENCE_PRODUCERS
ORDERS = TopicPartition("orders", 0)
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
MM2 = AclEntry("topic", "*", "literal", "User:mm2", "*", "all", "allow")
SPARING = {"connection": "roles", "spares_mirror_maker": True}


def fence(bench: Any) -> dict[str, Any]:
    """Execute the step and return its figures."""
    FenceProducers(task_id=STEP.value).execute(bench.context())
    return bench.entries(STEP)[-1].payload


def approved(bench: Any) -> Any:
    """Return the bench with an approved run, and one application that may write on the source."""
    bench.planned()
    bench.clusters["primary"].acls = {GRANT, MM2}
    return bench


def with_hook_asked(bench: Any) -> Any:
    """Return the bench with a run behind a fence by entries and by the hook."""
    bench.stopped()
    bench.procedure().authority.write(STEP, Entry.INTENT, {"asks_fence_hook": "primary"})
    bench.hook.clusters = {"primary"}
    return bench


def refuse(_: Any) -> Any:
    """Stand in for the canary: the opening fails after clients were let in."""
    raise ReadBackFailed("The canary was not written", "no answer", "look at it")


def acts(bench: Any) -> list[tuple[str, ...]]:
    """What the hook was asked to do, without questions about its state."""
    return [(verb, cluster[-1]) for verb, *cluster in bench.hook.asked if verb != "state"]


@pytest.fixture
def by_roles(make_bench: Any) -> Any:
    """An approved run; on the source an authorizer without ACL entries decides, and a hook can fence it."""
    bench = make_bench(fence_hook=SPARING)
    bench.planned()
    source = bench.clusters["primary"]
    source.authorizer, source.without_acls, source.acls = False, Authorizer.OTHER, set()
    return bench


def test_a_source_without_acl_entries_is_fenced_by_the_hook(by_roles: Any) -> None:
    """The intent comes first; the probe was let in before, and is refused behind the fence."""
    figures = fence(by_roles)
    assert acts(by_roles) == [("fence", "primary")]
    assert [e.payload["asks_fence_hook"] for e in by_roles.entries(STEP) if "asks_fence_hook" in e.payload] == [
        "primary"
    ]
    assert (figures["who_may_write"], figures["acl_entries_added"]) == ("fence hook", 0)
    assert figures["brokers_accepting"] == figures["brokers_refusing"] == [1] and figures["fenced_at"]
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(by_roles.context())
    assert acts(by_roles)[-1] == ("unfence", "primary") and not by_roles.hook.fenced


def test_a_hook_beside_acl_entries_is_asked_as_well(make_bench: Any) -> None:
    """Both fence; the entries say who may write."""
    bench = approved(make_bench(fence_hook=SPARING))
    figures = fence(bench)
    assert acts(bench) == [("fence", "primary")]
    assert figures["who_may_write"] == "acl entries" and figures["acl_entries_added"] > 0


def test_a_hook_that_cuts_off_mirror_maker_is_left_alone(make_bench: Any) -> None:
    """Behind such a hook nothing would be drained."""
    bench = approved(make_bench(fence_hook={"connection": "network"}))
    assert "fence_hook" not in fence(bench) and bench.hook.asked == []


def test_a_hook_that_does_not_fence_ends_the_run(by_roles: Any) -> None:
    """At the deadline; the way back asks it to let clients in all the same."""
    by_roles.hook.fences = False
    with pytest.raises((AirflowException, TaskDeferred)):
        fence(by_roles)
    assert Entry.OUTCOME not in by_roles.kinds(STEP)
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(by_roles.context())
    assert acts(by_roles)[-1] == ("unfence", "primary")


def test_a_hook_that_was_lifted_meanwhile_keeps_the_target_closed(make_bench: Any) -> None:
    """Nothing is opened beside a source that takes writes."""
    bench = with_hook_asked(make_bench(fence_hook=SPARING))
    bench.hook.clusters = set()
    with pytest.raises(AirflowFailException, match="The fence hook no longer fences the source"):
        OpenTarget(task_id=Step.OPEN_TARGET.value).execute(bench.context())
    assert Entry.INTENT not in bench.kinds(Step.OPEN_TARGET)


def test_a_target_that_the_hook_fences_is_opened_by_the_hook(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients left it behind this fence; if the opening fails after that, the way back has the hook fence again."""
    bench = with_hook_asked(make_bench(fence_hook=SPARING))
    bench.hook.clusters = {"primary", "standby"}
    monkeypatch.setattr(hook_fence, "hook_fence_stands", lambda _, cluster: cluster == "standby")
    monkeypatch.setattr(open_target, "write_canary", refuse)
    with pytest.raises(AirflowFailException, match="not written"):
        OpenTarget(task_id=Step.OPEN_TARGET.value).execute(bench.context())
    assert bench.hook.clusters == {"primary"}
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    assert bench.hook.clusters == {"standby"}


# -- producers -------------------------------------------------------------------------------------------------------


def test_producers_that_stand_still_are_counted(bench: Any) -> None:
    """The newest of their writes is a figure: an auditor sees that it is older than the fence."""
    approved(bench).clusters["primary"].producers = {ORDERS: [Producer(7, 1_000, 0, 5), Producer(8, None)]}
    assert fence(bench)["producers"] == {"seen": 2, "newest_write": "1970-01-01T00:00:01.000+00:00"}


def test_a_producer_that_writes_behind_the_fence_is_named(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No ACL entry names it; its id is what its owner can look for."""
    bench = approved(make_bench(deadlines={"stable_seconds": 0.01, "fence_seconds": 0.3}))
    source, written = bench.clusters["primary"], count(10)

    def write(leaders: Any) -> Any:
        source.log_ends[ORDERS] = next(written)
        source.records[ORDERS] = {source.log_ends[ORDERS] - 1: "x"}
        return {tp: [Producer(4711, 1_000, 0, source.log_ends[ORDERS])] for tp in leaders}

    monkeypatch.setattr(source.every_broker, "producers", write)
    with pytest.raises(AirflowFailException, match="Writes still get through.*producer 4711"):
        fence(bench)


def test_brokers_that_list_no_producers_are_no_obstacle(bench: Any) -> None:
    """An old broker knows no such request: log ends alone prove that nobody writes, and the figures say why."""
    approved(bench).clusters["primary"].producers = KafkaUnavailable(
        "reading producers failed", "unsupported", "upgrade"
    )
    assert fence(bench)["producers"] == {"seen": 0, "problem": "reading producers failed: unsupported"}
