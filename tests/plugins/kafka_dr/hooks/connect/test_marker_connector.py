"""The marker connector, against a little Connect: made STOPPED, and whatever else is done to it is told."""

from __future__ import annotations

import pytest
from kafka_dr.hooks.connect.marker_connector import CONFIG, MarkerConnector
from kafka_dr.vocabulary import MARKER_CONNECTOR


class Connect:
    """A worker with at most the marker; an old one knows no initial state."""

    def __init__(self, server, reply) -> None:
        self.reply, self.is_old = reply, False
        self.connectors: dict[str, tuple[str, dict[str, str]]] = {}
        self.asked: list[tuple[str, str]] = []
        server.answer = self.answer

    def answer(self, request):
        """Answer as Connect does."""
        path, body = request.path.partition("?")[0], request.body
        self.asked.append((request.method, path))
        if path == "/connectors":
            return self._create(body) if request.method == "POST" else self.reply(200, list(self.connectors))
        if MARKER_CONNECTOR not in self.connectors:
            return self.reply(404, {"error_code": 404, "message": f"Connector {MARKER_CONNECTOR} not found"})
        state, config = self.connectors[MARKER_CONNECTOR]
        if path.endswith("/stop"):
            self.connectors[MARKER_CONNECTOR] = ("STOPPED", config)
            return self.reply(204)
        if request.method == "PUT":
            self.connectors[MARKER_CONNECTOR] = (state, body)
        if path.endswith("/config"):
            return self.reply(200, self.connectors[MARKER_CONNECTOR][1])
        return self.reply(200, {"name": MARKER_CONNECTOR, "connector": {"state": state}, "tasks": []})

    def _create(self, body):
        if self.is_old and "initial_state" in body:
            return self.reply(500, {"error_code": 500, "message": 'Unrecognized field "initial_state"'})
        self.connectors[body["name"]] = (body.get("initial_state", "RUNNING"), body["config"])
        return self.reply(201, {})


@pytest.fixture
def connect(server, reply) -> Connect:
    """A worker without connectors."""
    return Connect(server, reply)


@pytest.fixture
def marker(server, connect) -> MarkerConnector:
    """Its client."""
    return MarkerConnector(server.url)


def test_it_is_made_stopped(connect: Connect, marker: MarkerConnector) -> None:
    """It never runs: no request to stop is needed."""
    assert marker.find_change() == "deleted"
    assert marker.restore() == "" and marker.find_change() == ""
    assert connect.connectors == {MARKER_CONNECTOR: ("STOPPED", CONFIG)}
    assert not any(path.endswith("/stop") for _, path in connect.asked)


def test_an_old_connect_makes_it_running_and_it_is_stopped(connect: Connect, marker: MarkerConnector) -> None:
    """Before 3.7 there is no initial state; its configuration starts no task meanwhile."""
    connect.is_old = True
    assert marker.restore() == ""
    assert connect.connectors[MARKER_CONNECTOR][0] == "STOPPED" and CONFIG["enabled"] == "false"


@pytest.mark.parametrize(
    ("state", "config", "told"),
    [
        ("RUNNING", CONFIG, "resumed: RUNNING with 0 tasks"),
        ("PAUSED", CONFIG, "resumed: PAUSED with 0 tasks"),
        ("STOPPED", CONFIG | {"enabled": "true"}, "changed in its configuration"),
        ("UNASSIGNED", CONFIG, ""),
        ("STOPPED", CONFIG | {"more": "settings"}, ""),
    ],
)
def test_what_others_do_to_it_is_told_and_undone(
    state: str, config: dict[str, str], told: str, connect: Connect, marker: MarkerConnector
) -> None:
    """A rebalance is nobody's act."""
    connect.connectors[MARKER_CONNECTOR] = (state, config)
    assert marker.find_change() == told
    if told:
        assert marker.restore() == "" and connect.connectors[MARKER_CONNECTOR] == ("STOPPED", CONFIG)
