"""Connect's clients in a drill, on a server that keeps every request."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, OutsideDrill
from kafka_dr.hooks.connect.canary_connector import CanaryConnector
from kafka_dr.hooks.connect.marker_connector import MarkerConnector
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint

from tests.support.drills.scopes import FOREIGN, NAMES, ORDERS, SOURCE, scope, source_config
from tests.support.json_server import JsonHandler, served

STOPPED = {"name": "x", "connector": {"state": "STOPPED"}, "tasks": []}


def changes(server: Any) -> list[str]:
    """Return the requests that a server got, other than reads."""
    return [f"{request.method} {request.path}" for request in server.requests if request.method != "GET"]


@pytest.fixture
def connect(server: Any, reply: Any) -> Any:
    """A worker on which every connector is STOPPED and has the drill's configuration."""

    def answer(request: Any) -> Any:
        if request.path == "/connectors":
            return reply(200, ["prod"])
        if request.path.endswith("/config"):
            return reply(200, source_config(**{"source.cluster.alias": "primary"}))
        return reply(200, {"offsets": []} if request.path.endswith("/offsets") else STOPPED)

    server.answer = answer
    return server


ACTS: dict[str, Callable[[MirrorMaker, str], Any]] = {
    "stop": lambda worker, name: worker.stop(name, 0.1),
    "ask_to_stop": lambda worker, name: worker.ask_to_stop(name, 0.1),
    "pause": lambda worker, name: worker.pause(name, 0.1),
    "resume": lambda worker, name: worker.resume(name, 0.1),
    "sets_offsets": lambda worker, name: worker.sets_offsets(name, 0.5),
    "set_enabled": lambda worker, name: worker.set_enabled(name, False, 0.1),
    "change_settings": lambda worker, name: worker.change_settings(name, {"tasks.max": "3"}, 0.1),
    "change_offsets": lambda worker, name: worker.change_offsets(
        name, "primary", {TopicPartition(ORDERS, 0): 4}, timeout=0.1
    ),
}
READS = {
    "worker",
    "connectors",
    "every_connector",
    "existing",
    "config",
    "client_settings",
    "status",
    "is_enabled",
    "offsets",
    "assigned_partitions",
}


def test_every_method_is_known() -> None:
    """A method that is added to MirrorMaker must be named here."""
    public = {name for name in dir(MirrorMaker) if not name.startswith("_")}
    assert public == READS | set(ACTS)


@pytest.mark.parametrize("act", sorted(ACTS))
def test_no_other_connector_is_changed(connect: Any, act: str) -> None:
    """Whatever production's connector is called."""
    for name in ("prod", "primary->standby source", SOURCE + "2"):
        with pytest.raises(OutsideDrill):
            ACTS[act](MirrorMaker(connect.url, scope=scope()), name)
    assert changes(connect) == []


def test_the_drills_own_connector_is_changed(connect: Any) -> None:
    """The same methods reach the worker for it."""
    worker = MirrorMaker(connect.url, scope=scope())
    worker.stop(SOURCE, 1)
    worker.ask_to_stop(SOURCE)
    assert changes(connect) == [f"PUT /connectors/{SOURCE}/stop"] * 2


def test_offsets_of_other_topics_are_not_changed(connect: Any) -> None:
    """Even in the drill's connector."""
    with pytest.raises(OutsideDrill):
        MirrorMaker(connect.url, scope=scope()).change_offsets(SOURCE, "primary", {TopicPartition("orders", 0): 4})
    assert changes(connect) == []


def test_the_marker_is_productions(connect: Any) -> None:
    """A drill neither makes nor restores it."""
    with pytest.raises(OutsideDrill):
        MarkerConnector(connect.url, scope=scope()).restore(0.1)
    assert changes(connect) == []


def test_the_canarys_connector_has_the_drills_name(connect: Any) -> None:
    """Production's name is refused, and so is a configuration that copies more."""
    own = NAMES.own.exempt_connector
    with pytest.raises(OutsideDrill):
        CanaryConnector(connect.url, scope=scope()).delete()
    canary = CanaryConnector(connect.url, scope=scope(), name=own)
    with pytest.raises(OutsideDrill):
        canary.start("prod", lambda config: {**config, "topics": ".*"})
    assert changes(connect) == []
    canary.start("prod", dict)
    canary.delete()
    assert changes(connect) == [
        f"PUT /connectors/{own}/config",
        f"PUT /connectors/{own}/resume",
        f"PUT /connectors/{own}/stop",
        f"DELETE /connectors/{own}/offsets",
        f"DELETE /connectors/{own}",
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from(["attempt", "call", "ask"]),
            st.sampled_from(["PUT", "POST", "PATCH", "DELETE", "OPTIONS", "put", "get"]),
            st.sampled_from(["/connectors/", "/connectors", "/", "/admin/", "/connector-plugins/"]),
            st.one_of(st.sampled_from(FOREIGN), st.text(max_size=9)),
            st.sampled_from(["", "/stop", "/config", "/offsets", "/../x/stop", "?a=b", "#c"]),
        ),
        max_size=6,
    )
)
def test_no_sequence_of_requests_reaches_the_worker(connect: Any, calls: list[tuple[str, ...]]) -> None:
    """Whichever method sends it: no path without the drill's connector leaves this machine."""
    endpoint = ConnectEndpoint(connect.url, scope=scope())
    for way, method, begin, name, end in calls:
        path = begin + name.replace("/", "") + end
        body = {"name": name, "config": source_config()}
        with pytest.raises(OutsideDrill):
            if way == "attempt":
                endpoint.attempt(method, path, body, timeout=1)
            elif way == "call":
                endpoint.call(method, path, body, timeout=1)
            else:
                endpoint.ask(method, path, 1, body=body)
    assert connect.requests == []


def test_a_worker_that_cannot_be_reached_is_passed_over(connect: Any) -> None:
    """A read or a write goes to the next worker at once, and later requests stay there."""
    endpoint = ConnectEndpoint(f"http://127.0.0.1:9,{connect.url}")
    assert endpoint.attempt("PUT", "/connectors/a/stop", timeout=5).ok
    assert endpoint.attempt("GET", "/connectors", timeout=5).body == ["prod"]
    assert [request.path for request in connect.requests] == ["/connectors/a/stop", "/connectors"]


class StartingWorker(JsonHandler):
    """Answers as a worker of Kafka 4 does until it serves."""

    def do_PUT(self) -> None:  # noqa: N802 (http.server's name)
        """Answer 404 without Connect's error code."""
        self.content()
        self.answer(404, {"message": "Not Found", "url": self.path, "status": "404"})


def test_a_worker_that_starts_is_passed_over(connect: Any) -> None:
    """Its 404 says nothing about the connector."""
    with served(StartingWorker) as starting:
        assert ConnectEndpoint(f"{starting},{connect.url}").attempt("PUT", "/connectors/a/stop", timeout=5).ok
        alone = ConnectEndpoint(starting).attempt("PUT", "/connectors/a/stop", timeout=5)
    assert alone.may_pass and alone.seen.startswith("the worker starts, or another program answers: HTTP 404")


def test_a_worker_that_may_have_got_a_write_is_not_passed_over(connect: Any) -> None:
    """The caller reads the state before it asks again; only then does the next worker get a request."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = ConnectEndpoint(f"http://127.0.0.1:{silent.getsockname()[1]},{connect.url}")
        answer = endpoint.attempt("PUT", "/connectors/a/stop", timeout=0.2)
        assert answer.timed_out and connect.requests == []
        assert endpoint.attempt("GET", "/connectors", timeout=5).ok


def test_when_no_worker_can_be_reached_the_answer_says_so() -> None:
    """After one attempt at each."""
    answer = ConnectEndpoint("http://127.0.0.1:9,http://127.0.0.1:10").attempt("GET", "/connectors", timeout=5)
    assert not answer.status and "127.0.0.1:10" in answer.text


@pytest.mark.parametrize("urls", ["http://good:1,ftp://bad", "http://good:1,", "http://good:1,http://me:pw@bad:2"])
def test_every_address_is_checked(urls: str) -> None:
    """Also those of the workers that are asked later."""
    with pytest.raises(BadInput, match="address of Connect cannot be used"):
        ConnectEndpoint(urls)
