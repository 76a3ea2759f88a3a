"""Sends calls of Airflow's official REST client as one user, with the safeguards of `JsonEndpoint`.

Airflow's client makes path, query and body of each request. `JsonEndpoint` takes the place of that client's transport,
which would follow redirects, use a proxy, and wait without end for an answer that trickles in. Answers stay plain JSON,
since the client's models refuse a state or a missing field of another Airflow version: decisions/0037.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import NO_ANSWER, HttpAnswer, JsonEndpoint

Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True)
class ApiReply:
    """The answer to one call; `request` is the call's method and path, without query.

    After `answer.timed_out` a write may have taken effect.
    """

    request: str
    answer: HttpAnswer


class AirflowCalls:
    """Sends calls as one user; a token is reused until Airflow refuses it. Only a call that got a 401 is repeated.

    If the connection has a bearer token of its own, no token is asked for, and the password is not used.

    Attributes:
        endpoint: the API's address, its timeouts and its errors.
        dags: calls of Airflow's client about DAGs; use those that end in `_without_preload_content`, also below.
        runs: calls about runs of DAGs.
        tasks: calls about tasks and gates.
    """

    def __init__(self, base_url: str, system: str, login: tuple[str, str], tls: HttpTls | None = None) -> None:
        # Imported here: its 226 modules take a second, as long as a step's own, and most processes send nothing.
        from airflow_client.client import ApiClient, Configuration, DAGApi, DagRunApi, TaskInstanceApi  # noqa: PLC0415

        self.endpoint = JsonEndpoint(base_url, system, HookUnavailable, tls=tls)
        self._username, self._password = login
        self._has_own_token = tls is not None and tls.has_token
        # No host: URLs are paths below the endpoint's own. An empty proxy: the environment's is not read.
        self._client = ApiClient(Configuration(host="", proxy="", no_proxy=""))
        self._client.rest_client = SimpleNamespace(request=self._request)  # type: ignore[assignment]  # same method
        self.dags, self.runs, self.tasks = DAGApi(self._client), DagRunApi(self._client), TaskInstanceApi(self._client)

    def send(self, call: Callable[..., Any], *given: Any, timeout: float, **query: Any) -> ApiReply:
        """Send one call of `dags`, `runs` or `tasks`, or `get`, with its arguments; return what was answered.

        Raises:
            HookUnavailable: Airflow issued no token.
        """
        if not self._has_own_token and self._client.configuration.access_token is None:
            self._renew_token(timeout)
        reply: ApiReply = call(*given, **query, _request_timeout=float(timeout))
        if reply.answer.status == 401 and not self._has_own_token:
            self._renew_token(timeout)
            reply = call(*given, **query, _request_timeout=float(timeout))
        return reply

    def get(self, path: str, _request_timeout: float, **ids: str) -> ApiReply:
        """Return the answer to a GET that Airflow's client does not know; `{name}` in the path stands for an id."""
        return self.request("GET", path, None, _request_timeout, **ids)

    def request(self, method: str, path: str, body: Any, _request_timeout: float, **ids: str) -> ApiReply:
        """Return the answer to a request that Airflow's client does not know, or would not send with this body."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = self._client.param_serialize(
            method, path, path_params=ids, header_params=headers, body=body, auth_settings=["HTTPBearer"]
        )
        return cast("ApiReply", self._client.call_api(*request, _request_timeout=_request_timeout).response)

    def accept(self, reply: ApiReply) -> Any:
        """Return the JSON of a 2xx answer; raise HookUnavailable for any other answer."""
        return self.endpoint.accept(reply.answer, reply.request)

    def log_in(self, timeout: float) -> HttpAnswer:
        """Ask for a new token, and store it if there is one; return the answer without body and text of the login.

        The body of a refused login may repeat the password (422 does).
        """
        login = {"username": self._username, "password": self._password}
        answer = self.endpoint.attempt("POST", "/auth/token", login, timeout)
        if not answer.ok:
            return HttpAnswer(answer.status, text="" if answer.status else answer.text)
        token = answer.body.get("access_token") if isinstance(answer.body, dict) else None
        if not token:
            return HttpAnswer(NO_ANSWER, text=f"HTTP {answer.status} without a token")
        self._client.configuration.access_token = str(token)
        self.endpoint.hide(str(token))
        return HttpAnswer(answer.status)

    def _renew_token(self, timeout: float) -> None:
        answer = self.log_in(timeout)
        if not answer.ok:
            raise self.endpoint.failure(
                f"{self.endpoint.system} issued no token to user {self._username!r}",
                answer.seen,
                "log in to Airflow with user and password of the Airflow connection that `airflow_api` in the topology"
                " names, and correct the connection if Airflow refuses the login",
            )

    def _request(
        self, method: str, url: str, *, headers: Any, body: Any, post_params: Any, _request_timeout: float
    ) -> SimpleNamespace:
        """Send a request in the place of the official client's transport, whose answers have `response`."""
        answer = self.endpoint.attempt(method, url, body, _request_timeout, headers)
        return SimpleNamespace(response=ApiReply(f"{method} {url.partition('?')[0]}", answer))


def only_given(body: Body) -> Body:
    """Return a request's body without the fields that were not given.

    Airflow's client sends these with its own version's defaults, and Airflow 3.1 refuses a field that it does not know.
    """
    return body.model_copy(update=dict.fromkeys(type(body).model_fields.keys() - body.model_fields_set))
