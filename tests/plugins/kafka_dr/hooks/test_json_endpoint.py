"""What is shown of an HTTP system's answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.json_endpoint import JsonEndpoint

from tests.support.json_server import JsonHandler, served

PASSWORD = "pa5s/w0rd&more"
BASIC = base64.b64encode(f"app:{PASSWORD}".encode()).decode()


@pytest.fixture
def endpoint(server: Any) -> JsonEndpoint:
    """A system with a login."""
    return JsonEndpoint(server.url, "the application", auth=("app", PASSWORD))


def parrot(reply: Callable[..., Any], status: int, shape: Callable[[dict[str, str]], Any]) -> Callable[[Any], Any]:
    """Answers with something made of the request's headers."""
    return lambda request: reply(status, shape(request.headers))


SHAPES = {
    "the headers": lambda headers: {"headers": headers},
    "the login alone": lambda headers: [headers["Authorization"].split()[1]],
    "the password in words": lambda headers: f"no user app with {PASSWORD} here",
    "the password in an address": lambda headers: {"retry": f"http://x/?p={quote(PASSWORD, safe='')}"},
}


@pytest.mark.parametrize("status", [200, 403, 500])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_login_that_is_repeated_is_hidden(
    server: Any, reply: Any, endpoint: JsonEndpoint, status: int, shape: Any
) -> None:
    """In the answer's text, and in errors made of its text or of its document."""
    server.answer = parrot(reply, status, shape)
    answer = endpoint.attempt("GET", "/state")
    shown = [
        answer.text,
        answer.seen,
        str(endpoint.failure("it answered oddly", answer.body)),
        str(endpoint.failure("it answered oddly", answer.seen)),
    ]
    assert not any(secret in text for text in shown for secret in (PASSWORD, BASIC, quote(PASSWORD, safe="")))
    assert "[hidden]" in answer.text
    assert json.dumps(answer.body) == json.dumps(shape(server.requests[-1].headers))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("Fri, 20 Nov 2026 12:56:24 GMT", datetime(2026, 11, 20, 12, 56, 24, tzinfo=UTC)),
        ("Fri, 20 Nov 2026 12:56:24 -0000", None),
        ("soon", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_has_the_servers_time(sent: str, read: datetime | None, status: int) -> None:
    """By its header Date; a date that cannot be read, or has no zone, is none."""

    class Dated(JsonHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server's name)
            self.answer(status, {})

        def date_time_string(self, timestamp: float | None = None) -> str:
            return sent

    with served(Dated) as url:
        assert JsonEndpoint(url, "Airflow's API").attempt("GET", "/").date == read


def test_a_login_at_the_edge_of_what_is_shown_is_not_half_shown(
    server: Any, reply: Any, endpoint: JsonEndpoint
) -> None:
    """It is hidden before the text is cut."""
    for start in range(280, 320):
        server.answer = parrot(reply, 403, lambda headers, start=start: "x" * start + BASIC)
        with pytest.raises(HookUnavailable) as refused:
            endpoint.call("GET", "/state")
        assert BASIC[:6] not in str(refused.value)


def test_a_token_is_hidden_once_it_is_known(server: Any, reply: Any, endpoint: JsonEndpoint) -> None:
    """Tokens come later than the login."""
    endpoint.hide("t0ken-of-the-day")
    server.answer = parrot(reply, 401, lambda headers: "t0ken-of-the-day is too old")
    with pytest.raises(HookUnavailable, match=r"\[hidden\] is too old"):
        endpoint.call("GET", "/state")


def test_an_empty_password_hides_nothing(server: Any, reply: Any) -> None:
    """Nothing is replaced between every two letters."""
    server.answer = parrot(reply, 403, lambda headers: "go away")
    assert JsonEndpoint(server.url, "the application", auth=("app", "")).attempt("GET", "/").text == '"go away"'
