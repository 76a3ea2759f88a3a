"""Fixtures of the checker's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.checker.ledger import Topic
from tests.lab.checker import unplanned_scene
from tests.lab.checker.round_trips import Story
from tests.lab.checker.trips import Make
from tests.lab.checker.unplanned_scene import DIED, Scene, acked


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Stories, each in a folder of its own."""
    made: list[Story] = []

    def one(policy: str = "identity", topic: Topic = Topic(1)) -> Story:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Story(folder, policy, topic))
        return made[-1]

    return one


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A right one."""
    return Scene(tmp_path)


@pytest.fixture
def busy(scene: Scene) -> Scene:
    """A group with a consumer, and a producer, that went on on the target."""
    scene.written = "xy"
    clients = scene.clients
    clients.started = {("primary", "billing"): {unplanned_scene.AT: 0}, ("standby", "billing"): {unplanned_scene.AT: 2}}
    clients.consumed["primary", "billing"] = {unplanned_scene.AT: [0, 1]}
    clients.consumed["standby", "billing"] = {unplanned_scene.AT: [2, 3, 4, 5]}
    clients.acknowledged["primary"] = [acked("f", 5)]
    clients.acknowledged["standby"] = [acked("x", 4, DIED + 9000), acked("y", 5, DIED + 9000)]
    scene.there = {"billing": 6}
    return scene
