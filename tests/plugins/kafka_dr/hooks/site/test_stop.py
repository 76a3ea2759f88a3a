"""The stop hook of MirrorMaker 2 in dedicated mode."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.stop import StopHook


def test_stop_and_state_speak_the_contract(server: Any, reply: Any) -> None:
    """Each call sends the documented request and returns the count."""
    server.queue = [reply(202, {"running": 2}), reply(200, {"running": 0, "host": "x"})]
    hook = StopHook(server.url)
    assert (hook.stop("a->b"), hook.running("a->b")) == (2, 0)
    found = [(r.method, r.path, r.body) for r in server.requests]
    assert found == [("POST", "/stop", {"flow": "a->b"}), ("GET", "/state?flow=a-%3Eb", None)]


@pytest.mark.parametrize(
    ("state", "starts"),
    [({"running": 0, "starts": True}, True), ({"running": 1}, False), ({"running": 1, "starts": "yes"}, False)],
)
def test_a_hook_starts_only_if_it_says_so(server: Any, reply: Any, state: dict[str, Any], starts: bool) -> None:
    """An older hook does not know the request; a newer one gets it like the request to stop."""
    server.queue = [reply(200, state), reply(202, {"running": 0})]
    hook = StopHook(server.url)
    assert (hook.starts("a->b"), hook.start("a->b")) == (starts, 0)
    found = [(r.method, r.path, r.body) for r in server.requests]
    assert found == [("GET", "/state?flow=a-%3Eb", None), ("POST", "/start", {"flow": "a->b"})]


@pytest.mark.parametrize(
    "body",
    [None, [], 0, {}, {"running": None}, {"running": False}, {"running": "0"}, {"running": 0.0}, {"running": -1}],
)
def test_an_answer_outside_the_contract_stops_nothing(server: Any, reply: Any, body: Any) -> None:
    """A count that is missing or no whole number is never read as 'nothing runs'."""
    server.answer = lambda request: reply(200, body)
    with pytest.raises(HookUnavailable, match="contract"):
        StopHook(server.url).stop("a->b")


def test_a_status_other_than_2xx_stops_nothing(server: Any, reply: Any) -> None:
    """Even with a body that says otherwise."""
    server.answer = lambda request: reply(409, {"running": 0})
    with pytest.raises(HookUnavailable, match="request POST /stop to MirrorMaker 2's stop hook failed"):
        StopHook(server.url).stop("a->b")


@pytest.mark.parametrize("settings", [None, {}, {"topics": "a.*"}])
def test_a_hook_may_say_with_which_settings_the_flow_starts(server: Any, reply: Any, settings: Any) -> None:
    """Without the key it does not say."""
    server.queue = [reply(200, {"running": 1, **({} if settings is None else {"settings": settings})})]
    assert StopHook(server.url).settings("a->b") == settings


@pytest.mark.parametrize("settings", ["topics", ["topics"], {"tasks.max": 2}])
def test_settings_outside_the_contract_are_refused(server: Any, reply: Any, settings: Any) -> None:
    """A number would never equal the text that a plan wants."""
    server.answer = lambda request: reply(200, {"running": 1, "settings": settings})
    with pytest.raises(HookUnavailable, match="`settings` is no object of texts"):
        StopHook(server.url).settings("a->b")
