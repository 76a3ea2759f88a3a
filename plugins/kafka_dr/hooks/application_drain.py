"""The application's drain hook over HTTP, and the JSON-over-HTTP border that every HTTP hook shares."""

from __future__ import annotations

import ipaddress
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential
from urllib3.exceptions import HTTPError, ReadTimeoutError

from kafka_dr.errors import BadInput, HookUnavailable, SystemUnavailable

_BODY_LIMIT = 64 * 1024 * 1024
_NO_ANSWER = 0


def checked_url(url: str, system: str) -> str:
    """A base URL without trailing slash, or BadInput that never echoes it (it may hold a password)."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise BadInput(f"the address of {system} is not a URL", next_step="give it as http://host:port") from None
    problems = [
        text
        for text, wrong in (
            ("its scheme is not http or https", parts.scheme not in ("http", "https")),
            ("it names no host", not parts.hostname or not port_is_valid),
            ("it holds a user or password", "@" in parts.netloc),
            ("it has a query or fragment", bool(parts.query or parts.fragment)),
            ("it holds blanks or control characters", any(c <= " " or c == "\x7f" for c in url)),
            ("it is a link-local address", _is_link_local(parts.hostname or "")),
        )
        if wrong
    ]
    if problems:
        raise BadInput(f"the address of {system} cannot be used", "; ".join(problems), "give it as http://host:port, credentials apart")
    return url.rstrip("/")


def _is_link_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_link_local


def one_line(text: object, limit: int = 300) -> str:
    """Text from outside made fit for one log line: control characters blanked, length bounded."""
    return "".join(c if c.isprintable() else " " for c in str(text)[: limit * 2]).strip()[:limit]


@dataclass(frozen=True)
class Answer:
    """What came back from one HTTP request.

    Attributes:
        status: HTTP status; 0 when nothing (or nothing usable) came back.
        body: the parsed JSON, None when there was none.
        text: the first characters of the body, or why there is no answer; one line.
        timed_out: the request may have been received: a write may have taken effect.
    """

    status: int
    body: Any = None
    text: str = ""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether the status is in the 200s."""
        return 200 <= self.status < 300

    @property
    def seen(self) -> str:
        """The answer for an error message."""
        return f"HTTP {self.status} {self.text}".strip() if self.status else self.text


class JsonEndpoint:
    """JSON over HTTP below one base URL: no redirect is followed, no proxy or .netrc is used, every call ends in time."""

    def __init__(
        self, base_url: str, system: str, failure: type[SystemUnavailable] = HookUnavailable, auth: tuple[str, str] | None = None
    ) -> None:
        self.base_url = checked_url(base_url, system)
        self.system = system
        self._failure = failure
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.auth = auth

    def __repr__(self) -> str:
        return f"JsonEndpoint({self.base_url!r})"

    def attempt(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: float = 10.0,
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> Answer:
        """One request; never raises for what the other side does: see `Answer.status`."""
        ends_at = time.monotonic() + timeout
        try:
            with self._session.request(
                method,
                self.base_url + path,
                json=body,
                headers={"Accept": "application/json", **(headers or {})},
                params=params,
                timeout=timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                return _answer(response, ends_at)
        except (requests.Timeout, ReadTimeoutError):
            return Answer(_NO_ANSWER, text=f"no answer within {timeout:g} s", timed_out=True)
        except requests.ConnectionError as error:
            return Answer(_NO_ANSWER, text=f"no connection to {self.base_url} ({_root_cause(error)})", timed_out=_was_sent(error))
        except (requests.RequestException, HTTPError) as error:
            return Answer(_NO_ANSWER, text=f"no usable answer ({type(error).__name__})", timed_out=True)

    def call(self, method: str, path: str, body: Any = None, timeout: float = 10.0) -> Any:
        """One request whose answer must be JSON with a status in the 200s.

        Raises:
            SystemUnavailable: the subclass this endpoint was made with.
        """
        return self.accept(self.attempt(method, path, body, timeout), f"{method} {path}")

    def accept(self, answer: Answer, what: str) -> Any:
        """The JSON of a good answer; anything else is raised as this endpoint's failure."""
        if answer.ok:
            return answer.body
        raise self.failure(f"{self.system} did not do {what}", answer.seen)

    def failure(self, reason: str, seen: str) -> SystemUnavailable:
        """The error of this endpoint's kind, ready to raise."""
        return self._failure(reason, seen, f"look at {self.system} at {self.base_url}")


def _answer(response: requests.Response, ends_at: float) -> Answer:
    """Read a response within its time and size limits; a 200 that is not JSON counts as no answer."""
    if 300 <= response.status_code < 400:
        return Answer(response.status_code, text="a redirect, which is never followed")
    content = b""
    # read1 gives what is there: iter_content waits for a full chunk, so that a trickle would outlast every timeout.
    while chunk := response.raw.read1(65536, decode_content=True):
        content += chunk
        if time.monotonic() > ends_at:
            return Answer(_NO_ANSWER, text="the answer did not end in time", timed_out=True)
        if len(content) > _BODY_LIMIT:
            return Answer(_NO_ANSWER, text=f"the answer is larger than {_BODY_LIMIT} bytes", timed_out=True)
    text = one_line(content[:600].decode("utf-8", "replace"))
    try:
        return Answer(response.status_code, json.loads(content) if content.strip() else None, text)
    except ValueError:
        usable = response.status_code >= 400
        return Answer(response.status_code if usable else _NO_ANSWER, None, text if usable else f"not JSON: {text}", not usable)


def _root_cause(error: BaseException) -> str:
    """The innermost reason, without the request (whose body may hold a secret)."""
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return one_line(str(reason).rsplit(": ", 1)[-1], 120)


def _was_sent(error: requests.ConnectionError) -> bool:
    """Whether the request may have reached the other side before the connection broke."""
    return "NewConnectionError" not in repr(error) and "NameResolution" not in repr(error)


@dataclass(frozen=True)
class DrainState:
    """What the application says about itself.

    Attributes:
        producers_running: producers that may still write.
        consumers_running: consumers that may still read or commit.
        drained_for: the procedure that asked it to stop, None while it runs normally or does not say.
        detail: whatever else it said; shown to people, never interpreted.
    """

    producers_running: int
    consumers_running: int
    drained_for: str | None = None
    detail: Any = None


class ApplicationDrain:
    """The drain hook of one application: ask its clients to stop, tell them to go on, look.

    The contract that an application (or a small service in front of many) implements below its base URL:

    * `POST /drain` with JSON `{"procedure_id": "<id>"}`: producers finish what they hold (flush) and stop;
      consumers commit what they have processed and leave their groups. It answers at once with the state below
      (stopping goes on in the background), status 200 or 202.
    * `POST /resume` with JSON `{"procedure_id": "<id>"}`: clients start again, wherever client routing points.
    * `GET /state`: status 200 and JSON
      `{"producers": {"running": 2}, "consumers": {"running": 1}, "drained_for": "<id>" or null, "detail": anything}`.
      `running` counts clients that may still write, read or commit; 0 means all have stopped. Other keys are allowed.

    Both POSTs answer with the same JSON as `GET /state`. Both are idempotent by `procedure_id`: the second request with
    the same id changes nothing. `/resume` with another id than the one it was drained for also resumes: the last word counts.
    A status other than 2xx, a redirect, or an answer without both counts is taken as "the hook is unavailable".
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the application's drain hook", HookUnavailable, auth)

    def __repr__(self) -> str:
        return f"ApplicationDrain({self._endpoint.base_url!r})"

    def ask_to_stop(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Ask producers and consumers to stop; returns at once with the state then."""
        return self._ask("POST", "/drain", {"procedure_id": procedure_id}, timeout)

    def tell_to_resume(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Let producers and consumers start again; returns at once with the state then."""
        return self._ask("POST", "/resume", {"procedure_id": procedure_id}, timeout)

    def state(self, timeout: float = 10.0) -> DrainState:
        """How many clients run now."""
        return self._ask("GET", "/state", None, timeout)

    def _ask(self, method: str, path: str, body: dict[str, str] | None, timeout: float) -> DrainState:
        """Three attempts at most; repeating is safe because the contract is idempotent."""
        attempts = Retrying(
            stop=stop_after_attempt(3),
            wait=wait_exponential(0.1, max=1.0),
            retry=retry_if_result(lambda a: a.status == _NO_ANSWER or a.status >= 500),
            retry_error_callback=lambda state: state.outcome.result(),
        )
        answer = attempts(self._endpoint.attempt, method, path, body, timeout / 3)
        return self._parsed(self._endpoint.accept(answer, f"{method} {path}"))

    def _parsed(self, document: Any) -> DrainState:
        try:
            producers, consumers = document["producers"]["running"], document["consumers"]["running"]
            counts_are_valid = all(type(n) is int and n >= 0 for n in (producers, consumers))
            drained_for = document.get("drained_for")
        except (TypeError, KeyError, AttributeError):
            counts_are_valid = False
        if not counts_are_valid:
            raise self._endpoint.failure("the application's drain hook answered outside its contract", one_line(document))
        return DrainState(producers, consumers, None if drained_for is None else str(drained_for), document.get("detail"))
