"""The fence hook: what is sent, what counts as a fence, and what never does."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.fence import FenceAnswer, FenceHook

FENCED = {"fenced": True, "by": "security group sg-1", "detail": {"rules": 3}}
OPEN = {"fenced": False, "by": ""}


def test_fence_unfence_and_state_speak_the_contract(server: Any, reply: Any) -> None:
    """Each call sends the documented request and returns what was answered; the detail is text."""
    server.queue = [reply(202, FENCED), reply(200, OPEN), reply(200, FENCED | {"more": 1})]
    hook = FenceHook(server.url + "/net/")
    assert hook.fence("p1", "a") == FenceAnswer(True, "security group sg-1", '{"rules": 3}')
    assert hook.unfence("p1", "a") == FenceAnswer(False, "", "")
    assert hook.state("a b").fenced
    assert [(r.method, r.path, r.body) for r in server.requests] == [
        ("POST", "/net/fence", {"procedure_id": "p1", "cluster": "a"}),
        ("POST", "/net/unfence", {"procedure_id": "p1", "cluster": "a"}),
        ("GET", "/net/state?cluster=a+b", None),
    ]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        True,
        {},
        {"fenced": True},
        {"by": "x"},
        {"fenced": 1, "by": "x"},
        {"fenced": "true", "by": "x"},
        {"fenced": None, "by": "x"},
        {"fenced": True, "by": None},
    ],
)
def test_an_answer_outside_the_contract_is_no_fence(server: Any, reply: Any, body: Any) -> None:
    """Only true, with a word about what fences, is read as a fence."""
    server.answer = lambda request: reply(200, body)
    with pytest.raises(HookUnavailable, match="contract"):
        FenceHook(server.url).fence("p1", "a")


@pytest.mark.parametrize(("status", "requests"), [(301, 1), (403, 1), (404, 1), (500, 3), (503, 3)])
def test_a_status_other_than_2xx_is_no_fence(server: Any, reply: Any, status: int, requests: int) -> None:
    """Even with a body that says otherwise; only what may pass by itself is asked again."""
    server.answer = lambda request: reply(status, FENCED)
    with pytest.raises(HookUnavailable, match="request POST /fence to the fence hook failed"):
        FenceHook(server.url).fence("p1", "a")
    assert len(server.requests) == requests


def test_a_failure_in_between_is_survived(server: Any, reply: Any) -> None:
    """One 500, then an answer: the request is idempotent."""
    server.queue = [reply(500, None), reply(200, FENCED)]
    assert FenceHook(server.url).fence("p1", "a").fenced


def test_a_hook_that_hangs_is_given_up(server: Any, reply: Any) -> None:
    """No answer in time is no fence."""
    server.answer = lambda request: reply(200, FENCED, seconds=30)
    with pytest.raises(HookUnavailable):
        FenceHook(server.url).fence("p1", "a", timeout=0.6)


def test_its_words_are_fit_for_the_journal(server: Any, reply: Any) -> None:
    """On one line, not long, and without what was sent to log in."""
    server.answer = lambda request: reply(200, {"fenced": True, "by": "a\nb hunter2", "detail": "x" * 10_000})
    answer = FenceHook(server.url, ("me", "hunter2")).state("a")
    assert "hunter2" not in answer.by and "\n" not in answer.by and len(answer.detail) <= 300
