"""stop_mirror_maker: the source connector first, and the boundary is where the target's log ends stand still."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kafka_dr.actions.readiness import plan as readiness
from kafka_dr.actions.readiness.observe import flow_view
from kafka_dr.actions.recheck import mirror_maker_still_stopped
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame, positions_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import DeadlinePassed, NotReady, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.planned import forecast as forecast_step
from kafka_dr.steps.planned.forecast import Forecast
from kafka_dr.steps.planned.stop_mirror_maker import StopMirrorMaker
from kafka_dr.vocabulary import Entry, Step

from tests.support.offsets.stored_topic import keep_offsets

STEP = Step.STOP_MIRROR_MAKER
T0 = TopicPartition("orders", 0)


DEDICATED = {
    "source": "primary",
    "target": "standby",
    "stop_hook": "hook",
    "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
}


@pytest.fixture
def drained(bench: Any) -> Any:
    """A run whose ten records are on both sides."""
    return on_both_sides(bench)


def on_both_sides(bench: Any) -> Any:
    """Everything until the stop was done: ten records are on both sides."""
    procedure = bench.planned()
    bench.clusters["standby"].partitions["orders"] = {0: 1}
    bench.done(
        procedure,
        Step.FENCE_PRODUCERS,
        cut_off=procedure.artifacts.save("cut_off", partitions_frame({T0: 10}, "offset")),
    )
    bench.done(procedure, Step.DRAIN_CONSUMERS, groups=[])
    bench.done(procedure, Step.WAIT_FOR_ZERO_LAG)
    return bench


def stop(bench: Any) -> dict[str, Any]:
    """Execute the step and return its figures."""
    StopMirrorMaker(task_id=STEP.value).execute(bench.context())
    return bench.entries(STEP)[-1].payload


def test_both_connectors_stop_and_the_ends_are_the_boundary(drained: Any) -> None:
    """The source connector is asked first: what writes to clients' topics ends first."""
    figures = stop(drained)
    assert drained.workers["standby"].asked == [("stop", "p.source"), ("stop", "p.checkpoint")]
    assert frame_partitions(drained.procedure().artifacts.load(figures["boundary"]), "offset") == {T0: 10}
    assert figures["stopped"] == ["p.source", "p.checkpoint"] and figures["partitions_drained"] == 1


@pytest.fixture
def dedicated(make_bench: Any) -> Any:
    """As `drained`, in dedicated mode: what was replicated stands in MirrorMaker 2's own topic."""
    bench = make_bench(flows=[DEDICATED])
    keep_offsets(bench.clusters["standby"], "mm2-offsets.primary.internal", "p.source", "primary", {T0: 9})
    return on_both_sides(bench)


def test_in_dedicated_mode_the_process_ends_and_the_ends_are_the_boundary(dedicated: Any) -> None:
    """Asked once for both connectors; drained still, by what it had replicated; a second look finds it stopped, or
    running again.
    """
    figures = stop(dedicated)
    assert dedicated.hook.asked.count(("stop", "primary->standby")) == 1 and dedicated.workers["standby"].asked == []
    assert [
        frame_partitions(dedicated.procedure().artifacts.load(figures[name]), "offset")
        for name in ("boundary", "replicated")
    ] == [{T0: 10}, {T0: 9}]
    mirror_maker_still_stopped(dedicated.procedure())
    dedicated.hook.processes = {"primary->standby": 1}
    with pytest.raises(Refusal, match="primary->standby runs again"):
        mirror_maker_still_stopped(dedicated.procedure())


def test_in_dedicated_mode_the_flow_is_looked_at_without_a_worker(dedicated: Any) -> None:
    """Running by its hook, replicated by its topic, settings as stated; whether the hook starts it, is asked."""
    procedure = dedicated.procedure()
    view = flow_view(procedure, procedure.flow)
    (source,) = view.source_connectors
    assert view.dedicated and source.runs and source.tasks and view.replicated == {T0: 9}
    assert not view.worker.sets_offsets
    dedicated.hook.can_start = True
    assert flow_view(procedure, procedure.flow).worker.sets_offsets


def test_the_ends_are_watched_while_the_checkpoint_connector_still_stops(
    drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect gives busy tasks five seconds; the step is not done before they are gone."""
    worker, watched = drained.workers["standby"], threading.Event()
    ends, stop_one = drained.clusters["standby"].ends, worker.stop
    monkeypatch.setattr(
        drained.clusters["standby"], "ends", lambda partitions, **_: (watched.set(), ends(partitions))[1]
    )
    seen = []

    def slowly(name: str, deadline: float) -> None:
        if name == "p.checkpoint":
            seen.append(watched.wait(5))
        stop_one(name, deadline)

    monkeypatch.setattr(worker, "stop", slowly)
    stop(drained)
    assert seen == [True] and worker.states["p.checkpoint"] == "STOPPED"


@pytest.mark.parametrize("stuck", ["p.source", "p.checkpoint"])
def test_a_connector_that_does_not_stop_fails_the_step(
    drained: Any, monkeypatch: pytest.MonkeyPatch, stuck: str
) -> None:
    """Whichever it is, there is no boundary."""
    worker = drained.workers["standby"]
    stop_one = worker.stop

    def never(name: str, deadline: float) -> None:
        if name == stuck:
            raise DeadlinePassed(f"{name} did not stop within {deadline:g} s", "RUNNING", "look at the worker's log")
        stop_one(name, deadline)

    monkeypatch.setattr(worker, "stop", never)
    with pytest.raises(AirflowException, match=f"{stuck} did not stop"):
        stop(drained)
    assert Entry.OUTCOME not in drained.kinds(STEP)


@pytest.mark.parametrize(
    ("age", "few", "fresh"), [(0, 0, True), (90, 0, False), (-600, 0, False), (0, 1, False), (None, 0, False)]
)
def test_the_forecast_takes_many_positions_that_were_read_just_now(
    bench: Any, monkeypatch: pytest.MonkeyPatch, age: int | None, few: int, fresh: bool
) -> None:
    """Older ones, few ones, those of a clock that is ahead and those of a run that kept none are read again."""
    monkeypatch.setattr("kafka_dr.actions.groups.at_rest._POSITIONS_READ_AGAIN", few)
    bench.clusters["primary"].committed["billing"] = {T0: Position(4)}
    procedure = bench.opened()
    held = positions_of(procedure.systems.source, ["billing"])
    read_at = None if age is None else (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    bench.done(
        procedure,
        Step.CHECK_READINESS,
        **({} if read_at is None else readiness.kept_for_forecast(procedure, held, read_at)),
    )
    given: list[Any] = []

    def look(*_: Any, held: Any, **__: Any) -> Any:
        given.append(held)
        raise NotReady("that is all", "", "")

    monkeypatch.setattr(forecast_step, "observe_pair", look)
    with pytest.raises(NotReady):
        Forecast(task_id="forecast").act(procedure, bench.context())
    assert given[0].equals(held) if fresh else given == [None]
