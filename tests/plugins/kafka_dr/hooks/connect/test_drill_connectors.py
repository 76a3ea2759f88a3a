"""A drill's connectors in a Connect worker that rebalances, has them already, has lost them, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.errors import ConnectUnavailable, OutsideDrill
from kafka_dr.hooks.connect.drill_connectors import DrillConnectors
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint

from tests.support.drills.scopes import CHECKPOINT, SOURCE, scope, source_config

SECRET = "hunter2-of-the-jaas-line"
CONFIG = source_config(**{"source.cluster.sasl.jaas.config": SECRET})
REBALANCE = {"error_code": 409, "message": "Cannot complete request because of a conflicting operation (rebalance)"}


class KeepingWorker:
    """Answers as a Connect worker does: keeps connectors, and rebalances as often as a test says."""

    def __init__(self, reply: Any) -> None:
        self.reply, self.rebalances = reply, 0
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.offsets_of: set[str] = set()

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        if self.rebalances and request.method != "GET":
            self.rebalances -= 1
            return self.reply(409, REBALANCE)
        _, _, name, what = [*request.path.split("/"), "", ""][:4]
        if request.method == "POST":
            return self._create(request.body)
        if name and name not in self.configs:
            return self.reply(404, {"error_code": 404, "message": f"Connector {name} not found"})
        act = getattr(self, f"_{request.method.lower()}_{what or 'connector'}")
        return act(name, request.body)

    def _create(self, body: dict[str, Any]) -> Any:
        if body["name"] in self.configs:
            return self.reply(409, {"error_code": 409, "message": f"Connector {body['name']} already exists"})
        self.configs[body["name"]], self.states[body["name"]] = body["config"], body["initial_state"]
        return self.reply(201, body)

    def _get_connector(self, *_: Any) -> Any:
        return self.reply(200, list(self.configs))

    def _get_config(self, name: str, _: Any) -> Any:
        return self.reply(200, self.configs[name])

    def _put_config(self, name: str, body: dict[str, str]) -> Any:
        self.configs[name] = body
        return self.reply(200, {"name": name, "config": body})

    def _put_stop(self, name: str, _: Any) -> Any:
        self.states[name] = "STOPPED"
        return self.reply(204)

    def _delete_offsets(self, name: str, _: Any) -> Any:
        if self.states[name] != "STOPPED":
            return self.reply(400, {"error_code": 400, "message": "Connectors must be in the STOPPED state"})
        self.offsets_of.discard(name)
        return self.reply(200, {"message": "The offsets for this connector have been reset successfully"})

    def _delete_connector(self, name: str, _: Any) -> Any:
        del self.configs[name], self.states[name]
        return self.reply(204)


@pytest.fixture
def worker(server: Any, reply: Any) -> KeepingWorker:
    """A worker without connectors, at the server's address."""
    made = KeepingWorker(reply)
    server.answer = made.answer
    return made


@pytest.fixture
def connectors(server: Any, worker: KeepingWorker) -> DrillConnectors:
    """The client of a drill."""
    return DrillConnectors(ConnectEndpoint(server.url, scope=scope()))


@pytest.mark.parametrize(("runs", "state"), [(True, "RUNNING"), (False, "STOPPED")])
def test_a_connector_is_created_in_its_state(
    connectors: DrillConnectors, worker: KeepingWorker, runs: bool, state: str
) -> None:
    """The flow back is created STOPPED, in one request: it never runs for a moment."""
    connectors.create(SOURCE, CONFIG, runs, 5)
    assert worker.configs == {SOURCE: CONFIG} and worker.states == {SOURCE: state}


def test_a_rebalance_is_waited_for(connectors: DrillConnectors, worker: KeepingWorker, server: Any) -> None:
    """Connect answers 409 meanwhile, also to the request that creates a connector."""
    worker.rebalances = 2
    connectors.create(SOURCE, CONFIG, True, 10)
    assert list(worker.configs) == [SOURCE] and len(server.sent("POST")) == 3
    worker.rebalances = 1
    connectors.change(SOURCE, lambda config: {**config, "tasks.max": "2"}, 10)
    assert worker.configs[SOURCE] == {**CONFIG, "tasks.max": "2"}
    worker.rebalances = 1
    connectors.delete(SOURCE, 10)
    assert worker.configs == {}


def test_a_connector_that_exists_is_left_as_it_is(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any
) -> None:
    """prepare_drill is tried again: the connector keeps its configuration and its state."""
    worker.configs, worker.states = {SOURCE: {"tasks.max": "3"}}, {SOURCE: "RUNNING"}
    connectors.create(SOURCE, CONFIG, False, 5)
    assert (worker.configs, worker.states) == ({SOURCE: {"tasks.max": "3"}}, {SOURCE: "RUNNING"})
    assert [request.path for request in server.requests if request.method not in ("GET", "POST")] == []


def test_a_connector_is_deleted_with_its_offsets(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any
) -> None:
    """It is stopped first, because Connect deletes offsets of a STOPPED connector only."""
    for name in (SOURCE, CHECKPOINT):
        connectors.create(name, CONFIG, True, 5)
    worker.offsets_of = {SOURCE, CHECKPOINT}
    connectors.delete(SOURCE, 5)
    assert list(worker.configs) == [CHECKPOINT] and worker.offsets_of == {CHECKPOINT}
    assert [(request.method, request.path.rpartition("/")[2]) for request in server.requests[-3:]] == [
        ("PUT", "stop"),
        ("DELETE", "offsets"),
        ("DELETE", SOURCE),
    ]


def test_a_missing_connector_counts_as_deleted(connectors: DrillConnectors, worker: KeepingWorker) -> None:
    """The clean-up was killed after it had deleted the connector."""
    connectors.delete(SOURCE, 5)
    connectors.delete(SOURCE, 5)
    assert worker.configs == {}


def answer_offsets_with(server: Any, worker: KeepingWorker, *answers: Any) -> None:
    """Let the worker answer the requests to delete offsets with these answers first."""
    left = list(answers)
    server.answer = lambda request: (
        left.pop(0) if left and request.path.endswith("/offsets") else worker.answer(request)
    )


@pytest.mark.parametrize("status", [409, 500, 503])
def test_offsets_are_deleted_after_a_rebalance(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any, reply: Any, status: int
) -> None:
    """Connect rebalances after the stop; a connector that is made under this name again must not find its offsets."""
    connectors.create(SOURCE, CONFIG, True, 5)
    worker.offsets_of = {SOURCE}
    answer_offsets_with(server, worker, reply(status, REBALANCE), reply(status, REBALANCE))
    connectors.delete(SOURCE, 10)
    assert worker.configs == {} and worker.offsets_of == set()


@pytest.mark.parametrize("status", [400, 409])
def test_a_connector_whose_offsets_stay_is_kept(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any, reply: Any, status: int
) -> None:
    """Without the connector nobody could delete its offsets; it is STOPPED, and the next clean-up tries again."""
    connectors.create(SOURCE, CONFIG, True, 5)
    worker.offsets_of = {SOURCE}
    answer_offsets_with(server, worker, *[reply(status, REBALANCE)] * 100)
    with pytest.raises(ConnectUnavailable, match=rf"/offsets to Connect failed. Seen: HTTP {status}"):
        connectors.delete(SOURCE, 2.0)
    assert (list(worker.configs), worker.states) == ([SOURCE], {SOURCE: "STOPPED"})
    server.answer = worker.answer
    connectors.delete(SOURCE, 5)
    assert worker.configs == {} and worker.offsets_of == set()


def test_a_change_begins_with_what_is_there(connectors: DrillConnectors, worker: KeepingWorker) -> None:
    """The cut of the source changes one address, and keeps the rest."""
    connectors.create(SOURCE, CONFIG, True, 5)
    connectors.change(SOURCE, lambda config: {**config, "source.cluster.bootstrap.servers": "127.0.0.1:9"}, 5)
    assert worker.configs[SOURCE] == CONFIG | {"source.cluster.bootstrap.servers": "127.0.0.1:9"}
    assert connectors.read_config(SOURCE, 5) == worker.configs[SOURCE]


def test_all_connectors_are_read_at_once(connectors: DrillConnectors, server: Any, reply: Any) -> None:
    """With the state and the worker of each task, by which moved tasks are found; a stopped one has none."""
    runs = {
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": "w1:8083"},
            {"id": 1, "state": "FAILED", "worker_id": "w2:8083"},
        ]
    }
    server.answer = lambda request: reply(
        200, {"app": {"info": {"config": {"a": "b"}}, "status": runs}, "off": {"info": {"config": {}}, "status": {}}}
    )
    found = connectors.read_all(5)
    assert found["app"].config == {"a": "b"} and not found["off"].tasks
    assert found["app"].tasks == {"app-0": "RUNNING on w1:8083", "app-1": "FAILED on w2:8083"}
    assert len(server.requests) == 1


ACTS: dict[str, Callable[[DrillConnectors, float], Any]] = {
    "create": lambda made, seconds: made.create(SOURCE, CONFIG, True, seconds),
    "change": lambda made, seconds: made.change(SOURCE, lambda config: dict(CONFIG), seconds),
    "delete": lambda made, seconds: made.delete(SOURCE, seconds),
}


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("act", ACTS)
def test_errors_show_no_settings(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any, reply: Any, act: str, status: int
) -> None:
    """Connect repeats settings in its answers, and some are logins; the message has request and status."""
    worker.configs, worker.states = {SOURCE: dict(CONFIG)}, {SOURCE: "RUNNING"}
    told = reply(status, {"message": f"Invalid value {SECRET} for configuration", "config": CONFIG})
    server.answer = lambda request: worker.answer(request) if request.method == "GET" else told
    with pytest.raises(ConnectUnavailable) as caught:
        ACTS[act](connectors, 0.1)
    assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)
    assert str(status) in str(caught.value) and "/connectors" in str(caught.value)


@pytest.mark.parametrize("act", ACTS)
def test_a_rebalance_without_an_end_is_an_error(
    connectors: DrillConnectors, worker: KeepingWorker, server: Any, act: str
) -> None:
    """No wait is endless; a create does not take the rebalance for a connector that exists."""
    if act != "create":
        connectors.create(SOURCE, CONFIG, True, 5)
    before, worker.rebalances = dict(worker.configs), 1_000
    with pytest.raises(ConnectUnavailable, match="409"):
        ACTS[act](connectors, 0.5)
    assert worker.configs == before


def test_a_refusal_is_not_repeated(connectors: DrillConnectors, server: Any, reply: Any) -> None:
    """A configuration that Connect refuses once is refused at once."""
    server.answer = lambda request: reply(400, {"message": "no"})
    with pytest.raises(ConnectUnavailable):
        connectors.create(SOURCE, CONFIG, True, 5)
    assert len(server.requests) == 1


def test_a_worker_that_is_away_is_an_error(connectors: DrillConnectors, server: Any) -> None:
    """After the time that was given, not after a minute."""
    server.close()
    with pytest.raises(ConnectUnavailable):
        connectors.delete(SOURCE, 0.1)


def test_connectors_outside_the_drill_are_refused(connectors: DrillConnectors, server: Any) -> None:
    """Before a request that changes something is sent."""
    for act in (
        lambda: connectors.create("p.source", CONFIG, True, 1),
        lambda: connectors.delete("p.source", 1),
    ):
        with pytest.raises(OutsideDrill):
            act()
    assert [request for request in server.requests if request.method != "GET"] == []
