"""The way back: everything as it was found, and never into two open sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, KafkaUnavailable, SwitchbackError
from kafka_dr.procedure.entries import AclEntriesToAdd
from kafka_dr.steps.planned.open_target import OpenTarget
from kafka_dr.steps.shared import return_to_source as returning
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

STEP = Step.RETURN_TO_SOURCE
WATCHER = Step.WATCH_OLD_SOURCE
OTHERS = AclEntry("topic", "audit", "literal", "User:app", "*", "write", "deny")


def return_(bench: Any) -> dict[str, Any]:
    """Execute the step."""
    return ReturnToSource(task_id=STEP.value).execute(bench.context())


def fences(bench: Any, alias: str) -> set[str]:
    """The denials on a cluster."""
    return {str(e) for e in bench.clusters[alias].acls if e.permission == "deny"}


def begin_opening(bench: Any, procedure: Any) -> None:
    """open_target wrote its intent, lifted the target's fence, and died."""
    lifted = [e for e in bench.clusters["standby"].acls if e.permission == "deny"]
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in lifted]})
    bench.clusters["standby"].acls -= set(lifted)


@pytest.fixture
def dedicated(make_bench: Any) -> Any:
    """A bench whose flow runs in dedicated mode; everything until open_target was done, its process was ended."""
    bench = make_bench(
        flows=[
            {
                "source": "primary",
                "target": "standby",
                "stop_hook": "hook",
                "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
            }
        ]
    )
    stopping = {"stops_processes": "primary->standby"}
    bench.stopped().authority.write(Step.STOP_MIRROR_MAKER, Entry.INTENT, stopping)
    bench.hook.processes = {}
    return bench


def test_in_dedicated_mode_clients_come_back_and_replication_is_left_stopped(dedicated: Any) -> None:
    """A hook that only stops starts nothing: the return ends all the same, and names it."""
    return_(dedicated)
    told = dedicated.entries(STEP)[-1].payload
    assert fences(dedicated, "primary") == set() and told["touched"] is True
    assert told["connectors_resumed"] == [] and "runs in dedicated mode" in told["replication_left_stopped"]


def test_in_dedicated_mode_a_hook_that_starts_resumes_replication(dedicated: Any) -> None:
    """The flow is named as the journal has it."""
    dedicated.hook.can_start = True
    return_(dedicated)
    told = dedicated.entries(STEP)[-1].payload
    assert told["connectors_resumed"] == ["primary->standby"] and not told.get("replication_left_stopped")
    assert ("start", "primary->standby") in dedicated.hook.asked and dedicated.hook.processes == {"primary->standby": 1}


def test_a_failback_whose_returned_cluster_is_away_again_ends_with_its_flow_left_stopped(bench: Any) -> None:
    """Clients work where they were; waiting for a worker beside a dead cluster would keep the pair's lease."""
    procedure = bench.stopped()
    procedure.authority.write(Step.FENCE_RETURNED_CLUSTER, Entry.INTENT, {})
    bench.workers["primary"].away = True
    return_(bench)
    told = bench.entries(STEP)[-1].payload
    assert fences(bench, "primary") == set() and told["touched"] is True
    assert told["connectors_resumed"] == [] and "replication_left_stopped" in told
    assert bench.workers["standby"].asked == []


def test_without_a_lease_nothing_is_undone(bench: Any) -> None:
    """A run that never held the pair touches nothing, and writes nothing."""
    bench.opened("r0")
    assert return_(bench) == {"done": STEP, "touched": False}
    assert bench.kinds(STEP) == [] and bench.workers["standby"].asked == []


def test_before_the_fence_nothing_is_undone(bench: Any) -> None:
    """Refused at readiness: nothing was touched, and that is the outcome."""
    bench.planned()
    return_(bench)
    assert bench.entries(STEP)[-1].payload == {"touched": False} and bench.workers["standby"].asked == []


def test_a_failback_that_ends_before_its_clients_stand_still_leaves_the_returned_cluster_fenced(
    make_bench: Any,
) -> None:
    """Its clients never moved: nothing is undone, and what was begun on the returned cluster is named."""
    bench = make_bench(dag_id="failback")
    procedure = bench.opened()
    for step in (Step.FENCE_RETURNED_CLUSTER, Step.FIND_STRANDED_RECORDS, Step.PREPARE_TOPICS):
        procedure.authority.write(step, Entry.INTENT, {"try": 1})
    return_(bench)
    found = bench.entries(STEP)[-1].payload
    assert found == {"touched": True, "left_on_returned_cluster": ["fence_returned_cluster", "prepare_topics"]}
    assert bench.workers["standby"].asked == bench.workers["primary"].asked == []


def test_a_flow_that_was_disabled_meanwhile_is_enabled(bench: Any) -> None:
    """Else it would be RUNNING without a task, and the step would wait for one in vain."""
    bench.stopped()
    bench.workers["standby"].disabled = {"p.source"}
    return_(bench)
    assert bench.workers["standby"].asked[:2] == [("enable", "p.source"), ("resume", "p.source")]
    assert {"enables_connectors": ["p.source"]} in [entry.payload for entry in bench.entries(STEP)]


def test_everything_is_as_it_was_found(bench: Any) -> None:
    """Both connectors run, the source one with tasks; exactly the added entries are gone, entries of others and the
    target's fence stay.
    """
    bench.stopped()
    bench.clusters["primary"].acls.add(OTHERS)
    before = fences(bench, "standby")
    return_(bench)
    assert bench.workers["standby"].asked == [("resume", "p.source"), ("resume", "p.checkpoint")]
    assert bench.workers["standby"].needs_tasks == {"p.source": True, "p.checkpoint": False}
    assert fences(bench, "primary") == {str(OTHERS)} and fences(bench, "standby") == before
    assert bench.entries(STEP)[-1].payload["touched"] is True


def test_what_the_watcher_fences_until_the_source_is_reopened_is_lifted(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acts under no lease, and learns of the return by the intent to reopen only."""
    procedure, look, late = bench.stopped(), returning.source_rules, replace(OTHERS, name="late")
    intent = AclEntriesToAdd(adds_acl_entries=[late], cluster="primary", procedure_id=procedure.id)

    def look_and_be_late(run: Any) -> Any:
        monkeypatch.setattr(returning, "source_rules", look)
        bench.journal.append(WATCHER, WATCHER, intent.kind, 0, intent.payload())
        bench.clusters["primary"].acls.add(late)
        return look(run)

    monkeypatch.setattr(returning, "source_rules", look_and_be_late)
    return_(bench)
    assert fences(bench, "primary") == set() and bench.entries(STEP)[-1].payload["acl_entries_lifted"] == 2


def test_returning_twice_is_returning_once(bench: Any) -> None:
    """A second copy of the task asks for nothing more."""
    bench.stopped()
    return_(bench)
    return_(bench)
    assert len(bench.workers["standby"].asked) == 2


def test_a_return_that_was_cut_short_goes_on(bench: Any) -> None:
    """Killed after the fence was lifted but before its outcome, the step ends in the same state when it runs again."""
    procedure = bench.stopped()
    procedure.authority.write(STEP, Entry.INTENT, {})
    bench.clusters["primary"].acls -= {e for e in bench.clusters["primary"].acls if e.permission == "deny"}
    return_(bench)
    assert fences(bench, "primary") == set() and bench.entries(STEP)[-1].payload["touched"] is True


def test_a_lost_lease_undoes_nothing(bench: Any) -> None:
    """Another procedure has the pair: this one lifts no fence."""
    procedure = bench.stopped()
    bench.journal.release_lease("primary+standby", procedure.id, procedure.lease.epoch, "aborted")
    with pytest.raises(AirflowFailException):
        return_(bench)
    assert fences(bench, "primary") and bench.workers["standby"].asked == []


def test_an_open_target_is_never_returned_from(bench: Any) -> None:
    """Once open_target has its outcome there is only forward."""
    procedure = bench.stopped()
    bench.done(procedure, Step.OPEN_TARGET)
    with pytest.raises(AirflowFailException, match="The target is open"):
        return_(bench)
    assert fences(bench, "primary") and bench.workers["standby"].asked == []


def test_a_half_opened_target_is_closed_again_first(bench: Any) -> None:
    """open_target died after its intent and nobody wrote: the target is fenced as before, then clients go back."""
    procedure = bench.stopped()
    before = fences(bench, "standby")
    begin_opening(bench, procedure)
    return_(bench)
    assert fences(bench, "standby") == before and fences(bench, "primary") == set()


def test_a_half_opened_target_that_was_written_to_is_not_returned_from(bench: Any) -> None:
    """Somebody wrote on the target: the source stays fenced, no record may be stranded silently."""
    procedure = bench.stopped()
    begin_opening(bench, procedure)
    bench.clusters["standby"].log_ends[TopicPartition("orders", 0)] += 1
    with pytest.raises(AirflowFailException, match="already wrote on the target"):
        return_(bench)
    assert fences(bench, "primary") and bench.workers["standby"].asked == []


def test_a_target_that_does_not_take_the_fence_is_not_returned_from(bench: Any) -> None:
    """Return is allowed only after the target is fenced again, and that is read back."""
    procedure = bench.stopped()
    begin_opening(bench, procedure)
    bench.clusters["standby"].takes_acls = False
    bench.change_params(return_seconds=0.3)
    with pytest.raises(AirflowFailException, match="could not be fenced again"):
        return_(bench)
    assert fences(bench, "primary") and bench.workers["standby"].asked == []


def test_writes_to_local_topics_are_seen_before_returning(make_bench: Any) -> None:
    """Under default naming `orders` on the target is where clients write: a record there forbids the return."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.clusters["standby"].log_ends[TopicPartition("orders", 0)] = 0
    procedure = bench.stopped(remote="primary.orders")
    begin_opening(bench, procedure)
    bench.clusters["standby"].log_ends[TopicPartition("orders", 0)] = 3
    with pytest.raises(AirflowFailException, match="already wrote on the target.*orders-0: 0 -> 3"):
        return_(bench)
    assert fences(bench, "primary")


@pytest.mark.parametrize("error", [ConnectUnavailable, DeadlinePassed])
def test_clients_do_not_wait_for_a_worker_that_is_away(bench: Any, error: type[SwitchbackError]) -> None:
    """The source is given back at once; the return is done when the worker does what it is told."""
    bench.stopped()
    resume, fenced = bench.workers["standby"].resume, []

    def away(name: str, **given: Any) -> None:
        fenced.append(fences(bench, "primary"))
        bench.workers["standby"].resume = resume
        raise error("the worker did not resume it")

    bench.workers["standby"].resume = away
    return_(bench)
    assert fenced == [set()] and bench.workers["standby"].asked == [("resume", "p.source"), ("resume", "p.checkpoint")]


def test_a_target_that_is_away_does_not_keep_the_return_from_ending(bench: Any) -> None:
    """What cannot be seen is said: the source was given back, and the run ends as returned."""
    bench.stopped()

    def away(*_: Any) -> None:
        raise KafkaUnavailable("listing offsets on standby failed")

    bench.clusters["standby"].ends = away
    return_(bench)
    assert "standby" in bench.entries(STEP)[-1].payload["records_not_seen"]


def test_replication_is_not_resumed_into_a_circle(bench: Any) -> None:
    """Under identity naming the reverse flow is STOPPED with no tasks before the forward one is resumed."""
    bench.stopped()
    bench.workers["primary"].states["s.source"] = "RUNNING"
    with pytest.raises(AirflowFailException, match="s.source is not STOPPED"):
        return_(bench)
    assert bench.workers["standby"].asked == []


def test_under_default_naming_both_directions_may_run(make_bench: Any) -> None:
    """Names protect against a circle there: the way back is not refused for the reverse flow."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.stopped(remote="primary.orders")
    bench.workers["primary"].states["s.source"] = "RUNNING"
    return_(bench)
    assert bench.entries(STEP)[-1].payload["touched"] is True


def test_a_return_refused_before_it_reopened_leaves_the_way_forward(bench: Any) -> None:
    """Somebody wrote on the target, so the return was refused and the target fenced: clearing open_target goes on."""
    procedure = bench.stopped()
    begin_opening(bench, procedure)
    bench.clusters["standby"].log_ends[TopicPartition("orders", 0)] += 1
    with pytest.raises(AirflowFailException):
        return_(bench)
    assert fences(bench, "standby")
    OpenTarget(task_id=Step.OPEN_TARGET.value).execute(bench.context())
    assert fences(bench, "standby") == set() and fences(bench, "primary")


def test_a_return_that_began_to_reopen_forbids_opening(bench: Any) -> None:
    """Killed while it resumed MirrorMaker 2, the return alone goes on: open_target is refused."""
    begin_opening(bench, bench.stopped())
    resume = bench.workers["standby"].resume

    def killed(name: str, **_: Any) -> None:
        raise MemoryError

    bench.workers["standby"].resume = killed
    with pytest.raises(MemoryError):
        return_(bench)
    with pytest.raises(AirflowFailException, match="already returns to the source"):
        OpenTarget(task_id=Step.OPEN_TARGET.value).execute(bench.context())
    bench.workers["standby"].resume = resume
    return_(bench)
    assert fences(bench, "primary") == set() and fences(bench, "standby")
