"""The application's own view of the source."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.source_probe import ApplicationsView, SourceProbe


@pytest.mark.parametrize(("body", "seen"), [
    ({"reachable": True, "writable": True, "detail": {"hosts": ["a"]}}, ApplicationsView(True, True, {"hosts": ["a"]})),
    ({"reachable": True, "writable": False}, ApplicationsView(True, False)),
    ({"reachable": True, "writable": None}, ApplicationsView(True, None)),
    ({"reachable": True, "more": 1}, ApplicationsView(True, None)),
    ({"reachable": False}, ApplicationsView(False)),
    ({"reachable": False, "writable": False, "detail": "timed out"}, ApplicationsView(False, False, "timed out")),
])  # fmt: skip
def test_what_the_application_says_is_taken_as_it_is(
    server: Any, reply: Any, body: dict[str, Any], seen: ApplicationsView
) -> None:
    """One request of the documented kind, and its answer."""
    server.answer = lambda request: reply(200, body)
    assert SourceProbe(server.url + "/app/").view() == seen
    assert [(r.method, r.path, r.body) for r in server.requests] == [("GET", "/app/source", None)]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        {},
        {"reachable": None},
        {"reachable": "false"},
        {"reachable": 0},
        {"writable": False},
        {"reachable": True, "writable": "no"},
        {"reachable": True, "writable": 0},
        {"reachable": False, "writable": True},
        {"reachable": [False]},
    ],
)
def test_an_answer_outside_the_contract_is_no_answer(server: Any, reply: Any, body: Any) -> None:
    """What is missing, of another kind, or contradicts itself is never read as 'the source is gone'."""
    server.answer = lambda request: reply(200, body)
    with pytest.raises(HookUnavailable, match="contract|the request GET /source to"):
        SourceProbe(server.url).view()


@pytest.mark.parametrize("status", [204, 302, 403, 404, 500, 503])
def test_every_other_status_is_no_answer(server: Any, reply: Any, status: int) -> None:
    """Whatever else is answered says nothing about the source, and is not asked again: the next round asks."""
    server.answer = lambda request: reply(status, b"", {"Location": f"{server.url}/elsewhere"})
    with pytest.raises(HookUnavailable):
        SourceProbe(server.url).view()
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_a_probe_that_hangs_is_given_up_in_time(server: Any, reply: Any, kind: str) -> None:
    """No look waits for it longer than it was told."""
    body = {"reachable": False}
    server.answer = lambda request: reply(200, body, seconds=30) if kind == "hang" else reply(200, body, drip=0.4)
    began = time.monotonic()
    with pytest.raises(HookUnavailable, match="in time|within"):
        SourceProbe(server.url).view(timeout=0.5)
    assert time.monotonic() - began < 3


def test_nobody_there_is_named(server: Any) -> None:
    """A refused connection says where, and says nothing about the source."""
    url = server.url
    server.close()
    with pytest.raises(HookUnavailable, match="no connection to http://127.0.0.1"):
        SourceProbe(url).view(timeout=1)


def test_credentials_stay_out_of_texts(server: Any, reply: Any) -> None:
    """A password given apart is sent, and stands in no repr, no error, and no detail that is shown."""
    server.answer = lambda request: reply(200, {"reachable": "hunter2"})
    probe = SourceProbe(server.url, ("me", "hunter2"))
    with pytest.raises(HookUnavailable) as failed:
        probe.view()
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert "hunter2" not in repr(probe) + str(failed.value) + probe.shown({"said": "hunter2\n"})
    assert "\n" not in probe.shown("a\nb")
