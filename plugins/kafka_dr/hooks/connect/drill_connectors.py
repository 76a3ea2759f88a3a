"""A drill's connectors in one Connect worker: created from production's configurations, changed, and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from kafka_dr.hooks.json_endpoint import HttpAnswer, JsonEndpoint

_POLL_SECONDS = 0.3
Change = Callable[[Mapping[str, str]], dict[str, str]]


class ConnectorState(NamedTuple):
    """What is compared of a connector before and after a drill.

    Attributes:
        config: its configuration; no value of it is shown to anybody.
        tasks: task -> `STATE on WORKER`.
    """

    config: Mapping[str, str]
    tasks: Mapping[str, str]


class DrillConnectors:
    """Creates, changes and deletes connectors; configurations stay in memory, because some hold logins.

    Args:
        endpoint: the worker's REST API; in a drill it refuses every connector outside the drill's scope.
    """

    def __init__(self, endpoint: JsonEndpoint) -> None:
        self._endpoint = endpoint

    def read_config(self, name: str, timeout: float = 20.0) -> dict[str, str]:
        """Return a connector's configuration with the values that Connect returns."""
        config: dict[str, str] = self._send("GET", f"{_path(name)}/config", None, timeout).body
        return config

    def read_all(self, timeout: float = 30.0) -> dict[str, ConnectorState]:
        """Return every connector of the worker with its configuration and the states of its tasks."""
        body = self._send("GET", "/connectors?expand=info&expand=status", None, timeout).body
        return {
            name: ConnectorState(
                found["info"]["config"],
                {
                    f"{name}-{task['id']}": f"{task['state']} on {task['worker_id']}"
                    for task in found["status"].get("tasks", [])
                },
            )
            for name, found in body.items()
        }

    def create(self, name: str, config: Mapping[str, str], runs: bool, timeout: float = 60.0) -> None:
        """Create a connector, RUNNING or STOPPED; an existing one is left as it is."""
        state = "RUNNING" if runs else "STOPPED"
        body = {"name": name, "config": dict(config), "initial_state": state}
        self._send("POST", "/connectors", body, timeout, exists=lambda: name in self._names(timeout))

    def change(self, name: str, change: Change, timeout: float = 60.0) -> None:
        """Give a connector the configuration that `change` makes of its present one."""
        self._send("PUT", f"{_path(name)}/config", change(self.read_config(name, timeout)), timeout)

    def delete(self, name: str, timeout: float = 60.0) -> None:
        """Stop a connector, delete its offsets and the connector; it counts as deleted if there is none.

        Connect deletes offsets of a stopped connector only, and of none that is deleted already. A connector whose
        offsets cannot be deleted is therefore kept.

        Args:
            timeout: for all three requests together, in seconds.
        """
        ends_at, path = time.monotonic() + timeout, _path(name)
        for method, one in (("PUT", f"{path}/stop"), ("DELETE", f"{path}/offsets"), ("DELETE", path)):
            self._send(method, one, None, ends_at - time.monotonic(), {404})

    def _names(self, timeout: float) -> list[str]:
        names: list[str] = self._send("GET", "/connectors", None, timeout).body
        return names

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        timeout: float,
        fine_statuses: set[int] | None = None,
        exists: Callable[[], bool] = lambda: False,
    ) -> HttpAnswer:
        """Send a request, again while Connect rebalances; errors do not repeat the answer, which may show settings."""
        ends_at, seen = time.monotonic() + timeout, ""
        while not (answer := self._endpoint.attempt(method, path, body, max(1.0, ends_at - time.monotonic()))).ok:
            if answer.status in (fine_statuses or set()) or (answer.status == 409 and exists()):
                return answer
            seen = f"HTTP {answer.status}" if answer.status else seen or answer.text
            if not answer.may_pass or time.monotonic() >= ends_at:
                raise self._endpoint.failure(f"the request {method} {path} to Connect failed", seen)
            time.sleep(_POLL_SECONDS)
        return answer


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"
