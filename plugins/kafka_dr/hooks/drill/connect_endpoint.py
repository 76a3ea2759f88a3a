"""The REST API of a Connect cluster; in a drill, requests that would change other connectors are refused."""

from __future__ import annotations

from collections import deque
from typing import Any

from requests import codes

from kafka_dr.domain.drill.connect_requests import require_request
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import ConnectUnavailable
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.hooks.json_endpoint import NO_ANSWER, HttpAnswer, JsonEndpoint, checked_url


class ConnectEndpoint(JsonEndpoint):
    """Sends requests to one Connect cluster: to one worker as long as this worker answers, then to the next.

    Args:
        base_url: address of the worker's REST API; several workers of one Connect cluster are separated by commas.
        auth: user and password; None without a login.
        scope: in a drill, what may be changed.
    """

    def __init__(
        self, base_url: str, auth: Login = None, tls: HttpTls | None = None, scope: DrillScope | None = None
    ) -> None:
        first, *others = base_url.split(",")
        super().__init__(first, "Connect", ConnectUnavailable, auth, tls)
        for url in others:
            (tls or HttpTls()).prepare(self._session, url, self.system)
        self._others = deque(checked_url(url, self.system) for url in others)
        self._scope = scope

    def attempt(self, method: str, path: str, body: Any = None, *args: Any, **given: Any) -> HttpAnswer:
        """Send one request and return the answer, as `JsonEndpoint.attempt` does; OutsideDrill if it is refused.

        A worker that cannot be reached is passed over. A worker that may have got the request, and did not answer in
        time, is not: the answer says so, and only the next request goes to the next worker.

        A worker that has not begun to serve answers every request with 404, without Connect's `error_code`. Such an
        answer says nothing about a connector: it counts as no answer.
        """
        if self._scope is not None:
            require_request(self._scope, method, path, body)
        answer = self._ask_worker(method, path, body, *args, **given)
        for _ in range(len(self._others)):
            if answer.status != NO_ANSWER:
                break
            self._others.append(self.base_url)
            self.base_url = self._others.popleft()
            if answer.timed_out:
                break
            answer = self._ask_worker(method, path, body, *args, **given)
        return answer

    def _ask_worker(self, *args: Any, **given: Any) -> HttpAnswer:
        answer = super().attempt(*args, **given)
        if answer.status == codes.not_found and not (isinstance(answer.body, dict) and "error_code" in answer.body):
            return HttpAnswer(NO_ANSWER, text=f"the worker starts, or another program answers: {answer.seen}")
        return answer
