"""Sends JSON requests over HTTP to the hooks of the site, to Connect and to Airflow's API."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential
from urllib3.exceptions import HTTPError, ReadTimeoutError

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput, HookUnavailable, SystemUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.link_local import GuardedAdapter, is_link_local
from kafka_dr.hooks.redaction import HIDDEN, one_line

_BODY_LIMIT = 64 * 1024 * 1024
_SHOWN_LIMIT = 20_000
NO_ANSWER = 0
_ATTEMPTS = 3
#: In the text of an error: the connection failed before the request was sent.
_BEFORE_SENDING = ("NewConnectionError", "NameResolution", "CERTIFICATE_VERIFY_FAILED")


def checked_url(url: str, system: str) -> str:
    """Check a base URL and return it without trailing slash.

    Raises:
        BadInput: the URL cannot be used; the message never shows the URL, which may hold a password.
    """
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise BadInput(
            f"the address of {system} is not a URL",
            next_step="correct the Airflow connection that the topology names: the address is http://host:port",
        ) from None
    problems = [
        text
        for text, is_wrong in (
            ("the scheme is not http or https", parts.scheme not in ("http", "https")),
            ("the address names no host, or port 0", not parts.hostname or not port_is_valid),
            ("the address contains a user or password", "@" in parts.netloc),
            ("the address has a query or fragment", bool(parts.query or parts.fragment)),
            ("the address contains blanks or control characters", any(c <= " " or c == "\x7f" for c in url)),
            ("the address is link-local", is_link_local(parts.hostname or "")),
        )
        if is_wrong
    ]
    if problems:
        raise BadInput(
            f"the address of {system} cannot be used",
            "; ".join(problems),
            "correct the Airflow connection that the topology names: the address is http://host:port, and user and"
            " password are separate fields",
        )
    return url.rstrip("/")


@dataclass(frozen=True)
class HttpAnswer:
    """The answer to one HTTP request, or the reason why no usable answer arrived.

    An answer is not usable if it is late or too large, or has status 2xx and a body that is not JSON.

    Attributes:
        status: HTTP status; 0 without a usable answer.
        body: the parsed JSON; None without JSON.
        text: the first characters of the body; without a usable answer, the reason. One line.
        timed_out: True if no usable answer arrived, but the request may have arrived: a write may have taken effect.
        date: the answer's time by the server's own clock, from the header Date; None without one.
    """

    status: int
    body: Any = None
    text: str = ""
    timed_out: bool = False
    date: datetime | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later, as after a restart of the system or a rebalance of Connect."""
        return self.status in (NO_ANSWER, 409, 429) or self.status >= 500

    @property
    def seen(self) -> str:
        """Return status and text of the answer, or the reason without an answer, for an error message."""
        return f"HTTP {self.status} {self.text}".strip() if self.status else self.text


class JsonEndpoint:
    """Sends JSON requests to one system, below its base URL: no redirects, no proxy, no .netrc, always a time limit.

    Some systems repeat a request's headers in their errors, so credentials are hidden in every text shown to people.
    """

    def __init__(
        self,
        base_url: str,
        system: str,
        failure: type[SystemUnavailable] = HookUnavailable,
        auth: tuple[str, str] | None = None,
        tls: HttpTls | None = None,
    ) -> None:
        self.base_url = checked_url(base_url, system)
        self.system = system
        self._failure = failure
        self._session = requests.Session()
        self._session.trust_env = False
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, GuardedAdapter())
        self._session.auth = auth
        tls = tls or HttpTls()
        tls.prepare(self._session, self.base_url, system)
        self._secrets = _forms_of(auth) + ((tls.token,) if tls.token else ())

    def __repr__(self) -> str:
        return f"JsonEndpoint({self.base_url!r})"

    def hide(self, secret: str) -> None:
        """Add a secret, such as a token, to the secrets that `shown` hides."""
        self._secrets = (*self._secrets, secret)

    def shown(self, text: object) -> str:
        """Return a text that came from this system as one line, without credentials."""
        text_without_secrets = str(text)[:_SHOWN_LIMIT]
        for secret in self._secrets:
            text_without_secrets = text_without_secrets.replace(secret, HIDDEN)
        return one_line(text_without_secrets)

    def attempt(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: float = 10.0,
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> HttpAnswer:
        """Send one request and return the answer; no error is raised: without a usable answer, `status` is 0.

        Args:
            body: sent as JSON; None for a request without a body.
            headers: sent in addition to Accept.
            params: the URL's query parameters.
        """
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
                return replace(self._answer(response, ends_at), date=_date_of(response))
        except (requests.Timeout, ReadTimeoutError):
            return HttpAnswer(NO_ANSWER, text=f"no answer within {timeout:g} s", timed_out=True)
        except requests.ConnectionError as error:
            return HttpAnswer(
                NO_ANSWER, text=f"no connection to {self.base_url} ({root_cause(error)})", timed_out=_was_sent(error)
            )
        except (requests.RequestException, HTTPError) as error:
            return HttpAnswer(NO_ANSWER, text=f"no usable answer ({type(error).__name__})", timed_out=True)
        except OSError as error:
            # `requests` looks for the files of certificates anew for each connection.
            return HttpAnswer(NO_ANSWER, text=f"no usable answer ({one_line(error, 300)})", timed_out=True)

    def call(self, method: str, path: str, body: Any = None, timeout: float = 10.0) -> Any:
        """Send one request and return the JSON of a 2xx answer.

        Raises:
            SystemUnavailable: any other answer; the subclass is the endpoint's `failure`.
        """
        return self.accept(self.attempt(method, path, body, timeout), f"{method} {path}")

    def ask(self, method: str, path: str, timeout: float, **given: Any) -> Any:
        """Return the JSON of a 2xx answer to a request that is safe to repeat.

        The request is sent up to three times within the timeout; it is repeated if no usable answer or a 5xx arrives.

        Args:
            given: further arguments of `attempt`, such as `body` or `params`.

        Raises:
            SystemUnavailable: the last answer is not 2xx; the subclass is the endpoint's `failure`.
        """
        attempts = Retrying(
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(0.1, max=1.0),
            retry=retry_if_result(lambda a: a.status == NO_ANSWER or a.status >= 500),
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]  # set by now
        )
        answer = attempts(self.attempt, method, path, timeout=timeout / _ATTEMPTS, **given)
        return self.accept(answer, f"{method} {path}")

    def accept(self, answer: HttpAnswer, what: str) -> Any:
        """Return the JSON of a 2xx answer; raise SystemUnavailable for any other answer.

        Args:
            answer: the answer to check.
            what: the request's method and path, for the error's message.
        """
        if answer.ok:
            return answer.body
        raise self.failure(f"the request {what} to {self.system} failed", answer.seen, may_pass=answer.may_pass)

    def failure(self, reason: str, seen: object, next_step: str = "", may_pass: bool = False) -> SystemUnavailable:
        """Return an error for the caller to raise, of the class that the constructor was given.

        Args:
            reason: what failed.
            seen: what was observed; credentials in it are hidden.
            next_step: what to do; if empty, advice to check the address, the network and the login.
            may_pass: whether the same request may succeed later.
        """
        default = (
            f"request {self.base_url} from the machine where the task ran. Without an answer, start {self.system} or"
            " open the network; after HTTP 401 or 403, correct login or token in the Airflow connection; after an"
            " error of a certificate, correct `verify`, `cert` and `key` in that connection's extra; after another"
            f" error, correct the cause that the log of {self.system} names"
        )
        return self._failure(reason, self.shown(seen), next_step or default, may_pass)

    def _answer(self, response: requests.Response, ends_at: float) -> HttpAnswer:
        """Read a response within limits of time and size; return an answer with status 0 if it is not usable.

        Args:
            ends_at: when the response must be complete, in monotonic seconds.
        """
        if 300 <= response.status_code < 400:
            return HttpAnswer(response.status_code, text="a redirect, which is never followed")
        content = b""
        # read1 returns the bytes received so far: iter_content waits for a full chunk, so a trickle outlasts timeouts.
        while chunk := response.raw.read1(65536, decode_content=True):
            content += chunk
            if time.monotonic() > ends_at:
                return HttpAnswer(NO_ANSWER, text="the answer did not end in time", timed_out=True)
            if len(content) > _BODY_LIMIT:
                return HttpAnswer(NO_ANSWER, text=f"the answer is larger than {_BODY_LIMIT} bytes", timed_out=True)
        text = self.shown(content[:_SHOWN_LIMIT].decode("utf-8", "replace"))
        try:
            return HttpAnswer(response.status_code, read_json(content) if content.strip() else None, text)
        except ValueError:
            usable = response.status_code >= 400
            return HttpAnswer(
                response.status_code if usable else NO_ANSWER, None, text if usable else f"not JSON: {text}", not usable
            )


def _date_of(response: requests.Response) -> datetime | None:
    """Return the time in a response's header Date; None without a readable one."""
    try:
        date = parsedate_to_datetime(response.headers["Date"])
    except (KeyError, TypeError, ValueError):
        return None
    return date if date.tzinfo else None


def _forms_of(auth: tuple[str, str] | None) -> tuple[str, ...]:
    """Return a login's password in the forms in which an error may repeat it: plain, URL-quoted, as basic login."""
    if auth is None or not auth[1]:
        return ()
    basic = base64.b64encode(":".join(auth).encode()).decode()
    # The longest form is replaced first: a short password may be part of the other forms.
    return tuple(sorted({basic, auth[1], quote(auth[1], safe="")}, key=len, reverse=True))


def root_cause(error: BaseException) -> str:
    """Return the innermost reason of an error as text, without the request, whose body may hold a secret."""
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return one_line(str(reason).rsplit(": ", 1)[-1], 120)


def _was_sent(error: requests.ConnectionError) -> bool:
    """Whether the request may have reached the system before the connection broke."""
    return not any(cause in repr(error) for cause in _BEFORE_SENDING)
