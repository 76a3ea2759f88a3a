"""The canary's connector, over REST."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.connect.canary_connector import CanaryConnector

from tests.support.drills.scopes import NAMES, scope

TRACE = """org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.maybeThrowProducerSendException
Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [x]
"""


def test_it_is_made_like_another_connector(server: Any, reply: Any) -> None:
    """With the other one's whole configuration; a busy worker is asked again; then it is resumed."""
    server.queue += [reply(200, {"a": "secret"}), reply(409, {}), reply(201, {}), reply(202)]
    CanaryConnector(server.url).start("a->b source", lambda config: {**config, "name": "switchback-canary"})
    asked = [(request.method, request.path) for request in server.requests]
    assert asked == [
        ("GET", "/connectors/a-%3Eb%20source/config"),
        ("PUT", "/connectors/switchback-canary/config"),
        ("PUT", "/connectors/switchback-canary/config"),
        ("PUT", "/connectors/switchback-canary/resume"),
    ]
    assert server.requests[1].body == {"a": "secret", "name": "switchback-canary"}


def test_an_answer_about_the_configuration_is_not_shown(server: Any, reply: Any) -> None:
    """It may repeat a password."""
    server.queue += [reply(200, {"a": "secret"}), reply(400, {"message": "wrong: secret"})]
    with pytest.raises(ConnectUnavailable, match="HTTP 400") as error:
        CanaryConnector(server.url).start("s", dict)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("tasks", "refusal"),
    [
        ([{"id": 0, "state": "FAILED", "trace": TRACE}], "Not authorized to access topics: [x]"),
        ([{"id": 0, "state": "FAILED", "trace": "boom"}], ""),
        ([{"id": 0, "state": "RUNNING"}], ""),
        ([], ""),
    ],
)
def test_only_an_authorization_error_is_a_refusal(
    server: Any, reply: Any, tasks: list[dict[str, Any]], refusal: str
) -> None:
    """Other failures prove nothing about rights."""
    server.answer = lambda _: reply(
        200, {"name": "switchback-canary", "connector": {"state": "RUNNING"}, "tasks": tasks}
    )
    seen = CanaryConnector(server.url).refusal()
    assert refusal in seen and bool(refusal) == bool(seen)


def test_it_is_deleted_also_if_there_is_none(server: Any, reply: Any) -> None:
    """The second time is as good as the first; another answer is an error."""
    missing = reply(404, {"error_code": 404, "message": "no such connector"})
    server.queue += [reply(409, {}), reply(204), missing, reply(403, {})]
    canary = CanaryConnector(server.url)
    canary.delete()
    canary.delete()
    with pytest.raises(ConnectUnavailable, match="DELETE /connectors/switchback-canary to Connect failed"):
        canary.delete()


def test_in_a_drill_its_offsets_are_deleted_first(server: Any, reply: Any) -> None:
    """Of a stopped connector, again while Connect rebalances; if they cannot be deleted, the connector is kept."""
    path = f"/connectors/{NAMES.own.exempt_connector}"
    canary = CanaryConnector(server.url, scope=scope(), name=NAMES.own.exempt_connector)
    server.queue += [reply(204), reply(409, {}), reply(200, {}), reply(204), reply(204), reply(400, {})]
    canary.delete()
    stopped, offsets = ("PUT", f"{path}/stop"), ("DELETE", f"{path}/offsets")
    asked = [(request.method, request.path) for request in server.requests]
    assert asked == [stopped, offsets, offsets, ("DELETE", path)]
    with pytest.raises(ConnectUnavailable, match="offsets to Connect failed"):
        canary.delete()
    assert [(request.method, request.path) for request in server.requests[4:]] == [stopped, offsets]
