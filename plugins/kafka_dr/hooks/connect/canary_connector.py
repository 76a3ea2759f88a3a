"""The canary's connector in one Connect worker: it mirrors one topic of Switchback's, and is deleted afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.vocabulary import EXEMPT_CONNECTOR

_POLL_SECONDS = 0.2


class CanaryConnector:
    """Starts, reads and deletes the canary's connector.

    Args:
        base_url: address of the worker's REST API.
        auth: user and password; None without a login.
        scope: in a drill, what may be changed.
        name: the connector's.
    """

    def __init__(
        self,
        base_url: str,
        auth: Login = None,
        tls: HttpTls | None = None,
        scope: DrillScope | None = None,
        name: str = EXEMPT_CONNECTOR,
    ) -> None:
        self._endpoint = ConnectEndpoint(base_url, auth, tls, scope)
        self._path, self._in_drill = f"/connectors/{name}", scope is not None

    def start(self, like: str, change: Callable[[Mapping[str, str]], dict[str, str]], timeout: float = 10.0) -> None:
        """Create the connector, RUNNING, or give an existing one the new configuration.

        Args:
            like: the connector whose configuration is taken. Its values stay in memory: some may be passwords.
            change: makes the canary's configuration of it.
        """
        config = self._endpoint.call("GET", f"/connectors/{quote(like, safe='')}/config", timeout=timeout)
        self._send("PUT", f"{self._path}/config", change(config), timeout)
        self._send("PUT", f"{self._path}/resume", None, timeout)

    def refusal(self, timeout: float = 3.0) -> str:
        """Return the authorization error with which the connector's task failed; "" without such an error."""
        answer = self._endpoint.attempt("GET", f"{self._path}/status", timeout=timeout)
        status: Any = answer.body if answer.ok else {}
        traces = [str(task.get("trace", "")) for task in status.get("tasks", []) if task.get("state") == "FAILED"]
        causes = [line.removeprefix("Caused by: ") for trace in traces for line in trace.splitlines()]
        return next((self._endpoint.shown(line) for line in causes if "TopicAuthorizationException" in line), "")

    def delete(self, timeout: float = 10.0) -> None:
        """Delete the connector; it counts as deleted if there is none.

        In a drill its offsets are deleted before: each drill's connector has a name of its own, and nobody would ever
        use or remove them.
        """
        if self._in_drill:
            self._send("PUT", f"{self._path}/stop", None, timeout, missing_is_fine=True)
            self._send("DELETE", f"{self._path}/offsets", None, timeout, missing_is_fine=True)
        self._send("DELETE", self._path, None, timeout, missing_is_fine=True)

    def _send(self, method: str, path: str, body: Any, timeout: float, missing_is_fine: bool = False) -> None:
        """Send a request, again while Connect rebalances; errors do not repeat the answer, which may show settings."""
        ends_at = time.monotonic() + timeout
        while not (answer := self._endpoint.attempt(method, path, body, max(1.0, ends_at - time.monotonic()))).ok:
            if missing_is_fine and answer.status == 404:
                return
            if not answer.may_pass or time.monotonic() >= ends_at:
                seen = f"HTTP {answer.status}" if answer.status else answer.text
                raise self._endpoint.failure(f"the request {method} {path} to Connect failed", seen)
            time.sleep(_POLL_SECONDS)
