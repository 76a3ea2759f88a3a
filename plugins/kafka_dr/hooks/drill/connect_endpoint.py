"""The REST API of a Connect worker; in a drill, requests that would change other connectors are refused."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.drill.connect_requests import require_request
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.hooks.json_endpoint import HttpAnswer, JsonEndpoint


class ConnectEndpoint(JsonEndpoint):
    """Sends requests to one Connect worker.

    Args:
        base_url: address of the worker's REST API.
        auth: user and password; None without a login.
        scope: in a drill, what may be changed.
    """

    def __init__(
        self, base_url: str, auth: Login = None, tls: HttpTls | None = None, scope: DrillScope | None = None
    ) -> None:
        super().__init__(base_url, "Connect", ConnectUnavailable, auth, tls)
        self._scope = scope

    def attempt(self, method: str, path: str, body: Any = None, *args: Any, **given: Any) -> HttpAnswer:
        """Send one request and return the answer, as `JsonEndpoint.attempt` does; OutsideDrill if it is refused."""
        if self._scope is not None:
            require_request(self._scope, method, path, body)
        return super().attempt(method, path, body, *args, **given)
