"""The application's drain hook, and the JSON-over-HTTP border."""

from __future__ import annotations

import time

import pytest
from kafka_dr.errors import BadInput, HookUnavailable
from kafka_dr.hooks.json_endpoint import JsonEndpoint, checked_url, one_line
from kafka_dr.hooks.site.drain import ApplicationDrain, DrainState

RUNNING = {"producers": {"running": 2}, "consumers": {"running": 1}, "drained_for": None, "detail": {"hosts": ["a"]}}
STOPPED = {"producers": {"running": 0}, "consumers": {"running": 0}, "drained_for": "p1", "detail": None}


BAD_URLS = (
    "localhost:8083 ftp://host/ gopher://host/ file:///etc/passwd http:// http://user:hunter2@host:80"
    " http://hunter2@host:80 http://host:notaport http://host:99999 http://host/?a=hunter2 http://host/#hunter2"
    " http://169.254.169.254/ http://[::ffff:169.254.169.254]/ http://[fe80::1]/ http://[broken"
)


@pytest.mark.parametrize("url", ["", *BAD_URLS.split(), "http://ho st/", "http://host/\nX: y"])
def test_unusable_addresses_are_refused_without_echo(url: str) -> None:
    """An address that is no plain http(s) base URL is refused, and the message never repeats it."""
    with pytest.raises(BadInput) as refused:
        checked_url(url, "Connect")
    assert "hunter2" not in str(refused.value)
    assert "Connect" in str(refused.value)


def test_usable_addresses_lose_only_their_slash() -> None:
    """A base path stays, a trailing slash goes."""
    assert checked_url("https://host:8443/base/", "x") == "https://host:8443/base"
    assert checked_url("http://[::1]:80", "x") == "http://[::1]:80"


def test_text_from_outside_fits_one_line() -> None:
    """Newlines, escapes and bidi marks from outside never reach a log line."""
    assert one_line("a\nb\x1b[31m\u202e" + "x" * 1000).count("\n") == 0
    assert "\x1b" not in one_line("a\x1b[31m") and "\u202e" not in one_line("\u202ea")
    assert len(one_line("x" * 1000)) == 300


def test_stop_resume_and_state_speak_the_contract(server, reply) -> None:
    """Each call sends the documented request and returns the counts that were answered."""
    server.queue = [reply(202, RUNNING), reply(200, STOPPED), reply(200, RUNNING)]
    drain = ApplicationDrain(server.url + "/hook/")
    assert drain.ask_to_stop("p1") == DrainState(2, 1, None, {"hosts": ["a"]})
    assert drain.state() == DrainState(0, 0, "p1", None)
    assert drain.tell_to_resume("p1").producers_running == 2
    assert [(r.method, r.path, r.body) for r in server.requests] == [
        ("POST", "/hook/drain", {"procedure_id": "p1"}),
        ("GET", "/hook/state", None),
        ("POST", "/hook/resume", {"procedure_id": "p1"}),
    ]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        {},
        {"producers": {"running": 0}},
        {"producers": {"running": -1}, "consumers": {"running": 0}},
        {"producers": {"running": "0"}, "consumers": {"running": 0}},
        {"producers": {"running": True}, "consumers": {"running": 0}},
        {"producers": 0, "consumers": 0},
        {"producers": {"running": 0.0}, "consumers": {"running": 0}},
    ],
)
def test_an_answer_outside_the_contract_is_no_answer(server, reply, body) -> None:
    """Counts that are missing or no whole numbers are never read as 'nobody runs'."""
    server.answer = lambda request: reply(200, body)
    with pytest.raises(HookUnavailable, match="contract"):
        ApplicationDrain(server.url).state()


def test_a_server_error_is_tried_again_then_named(server, reply) -> None:
    """One 500 is survived; three are reported with what was answered."""
    server.queue = [reply(500, {"oops": 1}), reply(200, STOPPED)]
    assert ApplicationDrain(server.url).state().producers_running == 0
    server.answer = lambda request: reply(503, {"message": "maintenance"})
    with pytest.raises(HookUnavailable, match="503.*maintenance"):
        ApplicationDrain(server.url).ask_to_stop("p1")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_never_followed(server, reply, status: int) -> None:
    """A redirect is an error, and the other place gets no request."""
    server.answer = lambda request: reply(status, b"", {"Location": f"{server.url}/elsewhere"})
    with pytest.raises(HookUnavailable, match="redirect"):
        ApplicationDrain(server.url).ask_to_stop("p1")
    assert {r.path for r in server.requests} == {"/drain"}


def test_a_client_error_is_not_repeated(server, reply) -> None:
    """A 403 is reported after one request."""
    server.answer = lambda request: reply(403, {"detail": "no"})
    with pytest.raises(HookUnavailable, match="403"):
        ApplicationDrain(server.url).state()
    assert len(server.requests) == 1


def test_garbage_is_no_answer(server, reply) -> None:
    """A 200 that is not JSON is reported as such."""
    server.answer = lambda request: reply(200, b"<html>hello</html>")
    with pytest.raises(HookUnavailable, match="not JSON"):
        ApplicationDrain(server.url).state()


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_every_call_ends_in_time(server, reply, kind: str) -> None:
    """A hook that hangs, or answers byte by byte, is given up within the timeout."""
    slow = reply(200, STOPPED, seconds=30) if kind == "hang" else reply(200, STOPPED, drip=0.2)
    server.answer = lambda request: slow
    began = time.monotonic()
    with pytest.raises(HookUnavailable):
        ApplicationDrain(server.url).state(timeout=1.5)
    assert time.monotonic() - began < 5


def test_nobody_there_is_named(server) -> None:
    """A refused connection names the address and the reason."""
    url = server.url
    server.close()
    with pytest.raises(HookUnavailable, match="no connection to http://127.0.0.1.*refused"):
        ApplicationDrain(url).state(timeout=2)


def test_a_refused_connection_was_not_sent_but_a_broken_one_may_have_been(server, reply) -> None:
    """Only a request that may have arrived counts as timed out."""
    url = server.url
    server.answer = lambda request: reply(200, {}, seconds=30)
    assert JsonEndpoint(url, "x").attempt("POST", "/", {}, timeout=0.3).timed_out
    server.close()
    refused = JsonEndpoint(url, "x").attempt("POST", "/", {}, timeout=1)
    assert refused.status == 0 and not refused.timed_out


def test_an_oversized_answer_is_given_up(server, reply, monkeypatch) -> None:
    """An answer beyond the size limit is not read to its end."""
    monkeypatch.setattr("kafka_dr.hooks.json_endpoint._BODY_LIMIT", 1000)
    server.answer = lambda request: reply(200, {"x": "y" * 200_000})
    assert "larger than" in JsonEndpoint(server.url, "x").attempt("GET", "/").text


def test_credentials_stay_out_of_texts(server, reply) -> None:
    """A password given apart is sent, and stands in no repr and no error."""
    server.answer = lambda request: reply(500, None)
    drain = ApplicationDrain(server.url, ("me", "hunter2"))
    with pytest.raises(HookUnavailable) as failed:
        drain.state()
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert "hunter2" not in repr(drain) + str(failed.value) + repr(failed.value)
