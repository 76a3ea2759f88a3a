"""What a connector's view says of itself."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from kafka_dr.domain.readiness.observation import ConnectorView


@pytest.mark.parametrize(
    ("state", "tasks", "runs", "stopped"),
    [
        ("RUNNING", {0: "RUNNING", 1: "RUNNING"}, True, False),
        ("RUNNING", {0: "RUNNING", 1: "FAILED"}, False, False),
        ("RUNNING", {}, True, False),
        ("PAUSED", {0: "PAUSED"}, False, False),
        ("STOPPED", {}, False, True),
        ("STOPPED", {0: "RUNNING"}, False, False),
        ("UNKNOWN", {}, False, False),
    ],
)
def test_running_and_stopped_look_at_tasks_too(state: str, tasks: dict[int, str], runs: bool, stopped: bool) -> None:
    """RUNNING needs every task RUNNING; STOPPED needs no task left; PAUSED is neither."""
    view = ConnectorView("c", state, tasks)
    assert (view.runs, view.stopped) == (runs, stopped)


def test_an_observation_cannot_be_changed() -> None:
    """What was seen stays what was seen."""
    with pytest.raises(FrozenInstanceError):
        ConnectorView("c", "RUNNING").state = "STOPPED"
