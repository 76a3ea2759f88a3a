"""A change of a flow that is taken back: late processes, another writer on the target, a connector that is resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.errors import DeadlinePassed, Superseded

from tests.plugins.kafka_dr.steps.change.changed_flow import CHECKPOINT, SOURCE, A, B, Change

FORMER = {"topics": ".*", "topics.exclude": "__.*,connect-.*", "tasks.max": "1"}


@pytest.fixture
def change(bench: Any) -> Change:
    """A flow under identity naming, with records to copy."""
    flow = Change(bench)
    flow.write(A, 5)
    return flow


def overtaken(change: Change, request: str, act: Callable[..., None]) -> None:
    """Let the flow be given back between a step's check of its right and its next request, which is carried out."""

    def late(*args: Any, **kwargs: Any) -> None:
        setattr(change.worker, request, real)
        change.return_meanwhile()
        act(*args, **kwargs)

    real = getattr(change.worker, request)
    setattr(change.worker, request, late)


def assert_as_before(change: Change) -> None:
    """The former settings, and everything runs."""
    assert change.worker.configs[SOURCE] == FORMER
    assert change.worker.states == dict.fromkeys((SOURCE, CHECKPOINT), "RUNNING")


def test_a_late_stop_is_taken_back(change: Change) -> None:
    """The rollback has resumed the flow already."""
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    overtaken(change, "stop", change.worker.stop)
    with pytest.raises(Superseded):
        change.stop()
    assert_as_before(change)


def test_a_late_change_of_settings_is_taken_back(change: Change) -> None:
    """Connect restarts the tasks of a flow that runs; it runs with its former settings."""
    change.stopped(settings={"tasks.max": "2"})

    def change_running(name: str, wanted: dict[str, str]) -> None:
        change.worker.configs[name] = {**change.worker.configs[name], **wanted}

    overtaken(change, "change_settings", change_running)
    with pytest.raises(Superseded):
        change.change()
    assert_as_before(change)


def test_a_late_request_to_resume_stops_nothing(change: Change) -> None:
    """The flow runs again with its former settings."""
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    overtaken(change, "resume", change.worker.resume)
    with pytest.raises(Superseded):
        change.resume_flow()
    assert_as_before(change)


def test_a_second_rollback_takes_back_nothing_of_the_first(change: Change) -> None:
    """An older process that is late has set the former settings: they stay."""
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    real = change.worker.change_settings

    def late(name: str, wanted: dict[str, str]) -> None:
        change.worker.change_settings = real
        change.return_meanwhile()
        change.worker.configs[name] = {**change.worker.configs[name], **wanted}

    change.worker.change_settings = late
    with pytest.raises(Superseded):
        change.give_back()
    assert_as_before(change)


def test_another_writer_on_the_target_does_not_keep_the_flow_stopped(change: Change) -> None:
    """Its records move the log ends for ever: the flow goes on, and the evidence names the partitions."""
    topology = json.loads(change.bench.topology.read_text())
    topology["deadlines"]["stop_seconds"] = 0.3
    change.bench.topology.write_text(json.dumps(topology))
    change.plan(settings={"tasks.max": "2"})
    change.approve()
    ends = change.standby.ends

    def moving(*args: Any, **kwargs: Any) -> Any:
        change.standby.log_ends[B] += 1
        return ends(*args, **kwargs)

    change.standby.ends = moving
    with pytest.raises(DeadlinePassed, match="Stable log ends on the target.*extra.b-0"):
        change.stop()
    returned = change.give_back()
    assert_as_before(change)
    assert "log ends of the target still move: extra.b-0" in returned.flow_after_return
    assert "records of these partitions may be repeated" in returned.flow_after_return


def test_a_connector_that_is_resumed_meanwhile_is_stopped_again(change: Change) -> None:
    """The rollback begins anew."""
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    real = change.worker.change_settings

    def resumed(name: str, wanted: dict[str, str]) -> None:
        change.worker.change_settings = real
        change.worker.states[name] = "RUNNING"
        real(name, wanted)

    change.worker.change_settings = resumed
    assert change.give_back().settings_restored == [SOURCE]
    assert_as_before(change)


def test_a_rollback_says_whether_records_flow_however_long_it_took_before(change: Change) -> None:
    """The wait for records begins when offsets are corrected, not when the rollback does."""
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    stop, assigned = change.worker.stop, change.worker.assigned_partitions
    seen: list[str] = []

    def slow(name: str, deadline: float) -> None:
        time.sleep(0.4)
        stop(name, deadline)

    def at_second_look(name: str, timeout: float = 30.0) -> Any:
        seen.append(name)
        return assigned(name, timeout) if len(seen) > 1 else {}

    change.worker.stop, change.worker.assigned_partitions = slow, at_second_look
    assert "1 task copied records" in change.give_back().flow_after_return
