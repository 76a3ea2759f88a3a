"""Reads the state of one Connect worker and its connectors, over its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import requests
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.hooks.connect.connector_state import ConnectorStatus, ConnectWorker, without_secrets
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.hooks.json_endpoint import HttpAnswer
from kafka_dr.vocabulary import MARKER_CONNECTOR

_READ_SECONDS = 10.0


class WorkerReader:
    """Reads one Connect worker; a read is repeated while the worker rebalances, restarts or does not answer."""

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

    def __repr__(self) -> str:
        return f"MirrorMaker({self._endpoint.base_url!r})"

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Return the worker's version and its Kafka cluster's id, which proves to which cluster the worker belongs."""
        answer = self._read("/", timeout)
        return ConnectWorker(str(answer.get("version", "")), str(answer.get("kafka_cluster_id", "")))

    def connectors(self, timeout: float = 30.0) -> list[str]:
        """Return the names of all connectors, sorted; no connector is hidden because the worker still starts."""
        # While a worker starts, its list is empty or incomplete, but a request for one connector waits.
        self._exists(MARKER_CONNECTOR, timeout)
        return sorted(self._read("/connectors", timeout, list))

    def every_connector(self, timeout: float = 30.0) -> dict[str, tuple[ConnectorStatus, dict[str, str]]]:
        """Return state and configuration of all connectors by name, as `status` and `config` do, by one request."""
        self._exists(MARKER_CONNECTOR, timeout)
        answer = self._read("/connectors?expand=status&expand=info", timeout)
        return {
            name: (
                ConnectorStatus.parse(name, found["status"], self._endpoint.shown),
                without_secrets(found["info"]["config"]),
            )
            for name, found in answer.items()
        }

    def existing(self, names: Iterable[str], timeout: float = 30.0) -> list[str]:
        """Return those of the named connectors that exist.

        Each is asked for by its name, which a worker answers only after it has joined its group and read all
        configurations.
        """
        return [name for name in names if self._exists(name, timeout)]

    def _exists(self, name: str, timeout: float) -> bool:
        answer = self._repeat("GET", connector_path(name), timeout)
        if answer.status != requests.codes.not_found:
            self._endpoint.accept(answer, f"GET {connector_path(name)}")
        return answer.ok

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """Return a connector's configuration; the value of a key that looks like a secret's is `[hidden]`."""
        return without_secrets(self._read(f"{connector_path(name)}/config", timeout))

    def client_settings(self, name: str, prefix: str, timeout: float = 30.0) -> dict[str, str]:
        """Return the settings of a connector that begin with a prefix, without it; their values may be secrets.

        They are only for a client that logs in with them: what is shown or stored comes from `config`.
        """
        config = self._read(f"{connector_path(name)}/config", timeout)
        return {key[len(prefix) :]: str(value) for key, value in config.items() if key.startswith(prefix)}

    def status(self, name: str, timeout: float = 30.0) -> ConnectorStatus:
        """Return the state of one connector and of its tasks, as the worker reports it.

        A worker that starts has no status of a connector that exists: its answer is waited for.
        """

        def not_read_yet(answer: HttpAnswer) -> bool:
            return answer.status == requests.codes.not_found and self._exists(name, timeout)

        answer = self._read(f"{connector_path(name)}/status", timeout, again=not_read_yet)
        try:
            return ConnectorStatus.parse(name, answer, self._endpoint.shown)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._endpoint.failure(
                f"Connect's status of {name} cannot be read",
                answer,
                f"make sure that {self._endpoint.base_url} is the REST API of a Connect worker, not of another program",
            ) from None

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
    """Return the path of a connector in the worker's REST API."""
    return f"/connectors/{quote(name, safe='')}"
