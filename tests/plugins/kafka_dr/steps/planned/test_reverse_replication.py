"""seed_reverse_replication and start_reverse_replication: never against a running flow, and proven on both logs."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, DeadlinePassed, Refusal
from kafka_dr.procedure.entries import ReverseFlowSeeded
from kafka_dr.steps.planned.seed_reverse_replication import SeedReverseReplication
from kafka_dr.steps.planned.start_reverse_replication import StartReverseReplication
from kafka_dr.vocabulary import Entry, Step

ORDERS = TopicPartition("orders", 0)
STEP = "start_reverse_replication"


def opened(bench: Any, seeded: int = 1, asked: bool = True) -> Any:
    """A procedure whose target is open at offset 10 on both sides."""
    bench.params = {**bench.params, STEP: asked}
    procedure = bench.stopped()
    bench.done(
        procedure, Step.COMMIT_GROUPS, local_ends=procedure.artifacts.save("local_ends", partitions_frame({}, "offset"))
    )
    bench.done(procedure, Step.SEED_REVERSE_REPLICATION, seeded=seeded)
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"try": 1})
    return bench.procedure()


def write(bench: Any, alias: str, offset: int, content: str) -> None:
    """Put a record into a log."""
    cluster = bench.clusters[alias]
    cluster.records.setdefault(ORDERS, {})[offset] = content
    cluster.log_ends[ORDERS] = offset + 1


def start(bench: Any, procedure: Any) -> Any:
    """Run the step's act."""
    return StartReverseReplication(task_id=STEP).act(procedure, bench.context())


def test_nothing_happens_unless_asked(bench: Any) -> None:
    """Without the param no connector is touched."""
    assert not start(bench, opened(bench, asked=False)).started
    assert ("resume", "s.source") not in bench.workers["primary"].asked


def test_both_directions_never_run_at_once(bench: Any) -> None:
    """A forward flow that runs again is a refusal before anything is resumed."""
    procedure = opened(bench)
    bench.workers["standby"].states["p.source"] = "RUNNING"
    with pytest.raises(Refusal, match="p.source is not STOPPED"):
        start(bench, procedure)
    assert bench.workers["primary"].asked == []


def test_the_forward_flow_is_disabled_and_the_reverse_flow_enabled(bench: Any) -> None:
    """Before the reverse flow runs, with an intent each; the second time nothing is written."""
    bench.workers["primary"].disabled = {"s.source"}
    procedure = opened(bench, seeded=0)
    for _ in range(2):
        assert start(bench, procedure).disabled == ("p.source",)
    assert bench.workers["standby"].disabled == {"p.source"} and not bench.workers["primary"].disabled
    assert bench.workers["primary"].asked[:2] == [("enable", "s.source"), ("resume", "s.source")]
    intents = [entry.payload for entry in bench.entries(STEP) if entry.kind == Entry.INTENT]
    assert intents == [{"disables_connectors": ["p.source"]}, {"enables_connectors": ["s.source"]}]


def test_a_forward_flow_that_is_resumed_meanwhile_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that resumes connectors acts between the look and the disabling."""
    procedure, worker = opened(bench, seeded=0), bench.workers["standby"]
    disable = worker.set_enabled

    def resumed(name: str, enabled: bool, timeout: float = 30.0) -> None:
        disable(name, enabled)
        worker.states[name] = "RUNNING"

    monkeypatch.setattr(worker, "set_enabled", resumed)
    with pytest.raises(Refusal, match="p.source is not STOPPED"):
        start(bench, procedure)
    assert bench.workers["primary"].asked == []


def test_prefixes_need_no_disabling(make_bench: Any) -> None:
    """Under default naming nothing goes in a circle."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    assert start(bench, opened(bench, seeded=0)).disabled == ()
    assert not bench.workers["standby"].disabled


def test_a_person_can_resume_the_reverse_flow(bench: Any) -> None:
    """Also if this run does not start it: it is enabled, also after a try that was killed before."""
    bench.workers["primary"].disabled = {"s.source"}
    procedure = opened(bench, asked=False)
    procedure.authority.write(STEP, Entry.INTENT, {"enables_connectors": ["s.source"]})
    figures = start(bench, procedure)
    assert (figures.started, figures.disabled) == (False, ("p.source",))
    assert not bench.workers["primary"].disabled and ("resume", "s.source") not in bench.workers["primary"].asked


def test_a_run_that_starts_no_flow_does_not_fail_by_a_worker(bench: Any) -> None:
    """Clients have moved: the evidence names what is not known."""
    procedure = opened(bench, asked=False)
    bench.workers["primary"].away = True
    figures = start(bench, procedure)
    assert not figures.started and "whether a person can resume the reverse flow is not known" in figures.note


def test_the_first_new_record_must_be_the_first_copy(bench: Any) -> None:
    """Clients wrote one record and it was copied: one partition flows, both connectors were resumed."""
    procedure = opened(bench)
    write(bench, "standby", 10, "new")
    task = StartReverseReplication(task_id=STEP)
    task._ends_before(procedure, procedure.reverse_flow)
    write(bench, "primary", 10, "new")
    figures = task.act(procedure, bench.context())
    assert (figures.partitions_flowing, figures.disabled) == (1, ("p.source",))
    assert bench.workers["primary"].asked == [("resume", "s.source"), ("resume", "s.checkpoint")]


def test_a_copy_of_an_old_record_stops_the_flow(bench: Any) -> None:
    """What was mirrored long ago comes back: named, and the flow is stopped again."""
    procedure = opened(bench)
    write(bench, "standby", 10, "new")
    StartReverseReplication(task_id=STEP)._ends_before(procedure, procedure.reverse_flow)
    write(bench, "primary", 10, "old")
    with pytest.raises(Contradiction, match="records other than those that clients wrote after open_target.*orders-0"):
        start(bench, procedure)
    assert bench.workers["primary"].asked[-1] == ("stop", "s.source")


def test_a_copy_where_nothing_was_written_stops_the_flow(bench: Any) -> None:
    """A record appears on the old primary that no client wrote."""
    procedure = opened(bench)
    StartReverseReplication(task_id=STEP)._ends_before(procedure, procedure.reverse_flow)
    write(bench, "primary", 10, "old")
    with pytest.raises(Contradiction):
        start(bench, procedure)


def test_a_copy_that_does_not_come_is_waited_for_and_named(make_bench: Any) -> None:
    """The deadline passes: the partition without a copy is named."""
    bench = make_bench(deadlines={"stable_seconds": 0.01, "verify_seconds": 0.2})
    procedure = opened(bench)
    write(bench, "standby", 10, "new")
    with pytest.raises(DeadlinePassed, match="orders-0"):
        start(bench, procedure)


def test_without_writes_there_is_nothing_to_wait_for(bench: Any) -> None:
    """No client wrote since the opening: the flow is started, and zero partitions are said to flow."""
    assert start(bench, opened(bench)).partitions_flowing == 0


def test_a_flow_that_ran_before_is_not_judged(bench: Any) -> None:
    """It was not seeded, so its copies may be older than the opening; that is said."""
    assert "not seeded" in start(bench, opened(bench, seeded=0)).note


def seed(bench: Any, procedure: Any) -> Any:
    """Run the seeding step's act."""
    return SeedReverseReplication(task_id="seed_reverse_replication").act(procedure, bench.context())


@pytest.mark.parametrize(("boundary", "last"), [(10, 9), (1, 0), (0, None)])
def test_the_reverse_flow_will_copy_from_the_boundary_on(bench: Any, boundary: int, last: int | None) -> None:
    """Connect keeps the last replicated offset: boundary - 1, and null where there is none; 0 would skip a record."""
    bench.clusters["standby"].log_ends[ORDERS] = boundary
    procedure = bench.stopped()
    assert seed(bench, procedure).seeded == 1
    assert bench.workers["primary"].offsets_set == {"s.source": {ORDERS: last}}


def test_a_running_reverse_flow_is_refused_where_names_do_not_protect(bench: Any) -> None:
    """Identity naming: both directions at once would copy records in a circle."""
    procedure = bench.stopped()
    bench.workers["primary"].states["s.source"] = "RUNNING"
    with pytest.raises(Refusal, match="s.source is not STOPPED"):
        seed(bench, procedure)
    assert bench.workers["primary"].offsets_set == {}


def test_a_running_reverse_flow_under_default_naming_is_left_alone(make_bench: Any) -> None:
    """It replicates local topics already; offsets of a running connector cannot be changed."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    procedure = bench.stopped(remote="primary.orders")
    bench.workers["primary"].states["s.source"] = "RUNNING"
    why = "s.source runs and already replicates what clients write on standby"
    assert seed(bench, procedure) == ReverseFlowSeeded(seeded=0, why_not=why)


def test_a_connector_that_does_not_exist_is_said_to_be_missing(bench: Any) -> None:
    """Nothing to seed is no failure, and is not silent either."""
    procedure = bench.stopped()
    del bench.workers["primary"].states["s.source"]
    assert seed(bench, procedure) == ReverseFlowSeeded(seeded=0, why_not="s.source does not exist")


@pytest.fixture
def dedicated(make_bench: Any) -> Any:
    """A bench whose reverse flow runs in dedicated mode; its hook starts it, and no process of it has ever run."""
    worker = {"source": "primary", "target": "standby", "connect": "connect_standby"}
    # With one partition, because a bench's topics have no more.
    settings = {"offset.storage.partitions": 1}
    hook = {"source": "standby", "target": "primary", "stop_hook": "hook", "mirror_maker": settings}
    names = [{kind: f"{flow}.{kind}" for kind in ("source", "checkpoint")} for flow in ("p", "s")]
    bench = make_bench(
        flows=[{**flow, "connectors": of_flow} for flow, of_flow in zip((worker, hook), names, strict=True)]
    )
    bench.hook.can_start = True
    return bench


def test_a_reverse_flow_in_dedicated_mode_is_seeded_in_its_topic_and_started_by_its_hook(dedicated: Any) -> None:
    """The topic is created before the first process would copy everything; it is started once."""
    procedure, primary = opened(dedicated), dedicated.clusters["primary"]
    for _ in range(2):
        assert seed(dedicated, procedure).seeded == 1
    record = (b'["s.source",{"cluster":"standby","partition":0,"topic":"orders"}]', b'{"offset":9}')
    assert primary.internal["mm2-offsets.standby.internal"] == [record]
    assert primary.settings["mm2-offsets.standby.internal"] == {"cleanup.policy": "compact"}
    assert start(dedicated, procedure).started
    assert [asked for asked in dedicated.hook.asked if asked[0] in ("start", "stop")] == [("start", "standby->primary")]
    with pytest.raises(Refusal, match="s.source is not STOPPED"):
        seed(dedicated, procedure)
