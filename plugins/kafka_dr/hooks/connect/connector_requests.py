"""Reads a Connect worker's REST API: each request is repeated while the worker rebalances or does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.hooks.json_endpoint import HttpAnswer

_READ_SECONDS = 10.0
#: Setting of a source connector's task that names its partitions.
_ASSIGNED = "task.assigned.partitions"


class ConnectorRequests:
    """Reads what a worker's REST API says of connectors; changes nothing."""

    def __init__(
        self,
        base_url: str,
        auth: Login = None,
        tls: HttpTls | None = None,
        request_seconds: float = _READ_SECONDS,
        scope: DrillScope | None = None,
    ) -> None:
        """Create the client; no request is sent yet.

        Args:
            base_url: address of the worker's REST API.
            auth: user and password; None without a login.
            request_seconds: how long to wait for the answer to one read before its request is sent again.
            scope: in a drill, what may be changed.
        """
        self._endpoint = ConnectEndpoint(base_url, auth, tls, scope)
        self._request_seconds = request_seconds

    def client_settings(self, name: str, prefix: str, timeout: float = 30.0) -> dict[str, str]:
        """Return the settings of a connector that begin with a prefix, without it; their values may be secrets.

        They are only for a client that logs in with them: what is shown or stored comes from `config`.
        """
        config = self._read(f"{connector_path(name)}/config", timeout)
        return {key[len(prefix) :]: str(value) for key, value in config.items() if key.startswith(prefix)}

    def assignments(self, name: str, timeout: float = 30.0) -> dict[int, tuple[str, ...]]:
        """Return which partitions, such as `orders-3`, each task of a source connector copies, by task id."""
        tasks = self._read(f"{connector_path(name)}/tasks", timeout, list)
        return {
            int(task["id"]["task"]): tuple(filter(None, str(task["config"].get(_ASSIGNED, "")).split(",")))
            for task in tasks
        }

    def _read(
        self, path: str, timeout: float, shape: type = dict, again: Callable[[HttpAnswer], bool] = lambda _: False
    ) -> Any:
        """Return the JSON of a GET, repeated as in `_repeat`."""
        body = self._endpoint.accept(self._repeat("GET", path, timeout, again=again), f"GET {path}")
        if not isinstance(body, shape):
            raise self._endpoint.failure(
                f"Connect's answer to GET {path} is not a JSON {'object' if shape is dict else 'array'}",
                body,
                f"make sure that {self._endpoint.base_url} is the REST API of a Connect worker, not of another program",
            )
        return body

    def _repeat(
        self,
        method: str,
        path: str,
        timeout: float,
        body: Any = None,
        again: Callable[[HttpAnswer], bool] = lambda _: False,
    ) -> HttpAnswer:
        """Return the answer to a request that changes nothing; repeat it if the answer may pass, or by `again`."""
        ends_at = time.monotonic() + timeout
        attempts = Retrying(
            stop=stop_after_delay(timeout),
            wait=wait_exponential(0.1, max=2.0),
            retry=retry_if_result(lambda answer: answer.may_pass or again(answer)),
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]  # set by now
        )
        return attempts(
            lambda: self._endpoint.attempt(
                method, path, body=body, timeout=min(self._request_seconds, max(0.5, ends_at - time.monotonic()))
            )
        )


def connector_path(name: str) -> str:
    """Return the path of a connector in the REST API."""
    return f"/connectors/{quote(name, safe='')}"
