"""The marker connector of one Connect worker: it is STOPPED and has no task, until somebody else changes it."""

from __future__ import annotations

import time

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.drill.connect_endpoint import ConnectEndpoint
from kafka_dr.hooks.http_tls import HttpTls, Login
from kafka_dr.vocabulary import MARKER_CONNECTOR

#: With `enabled` false the connector opens no client and starts no task, even if somebody resumes it.
CONFIG = {
    "name": MARKER_CONNECTOR,
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "enabled": "false",
    "tasks.max": "1",
    "source.cluster.alias": "switchback",
    "target.cluster.alias": "switchback-marker",
}
_POLL_SECONDS = 0.2
#: States of a connector while Connect assigns it to a worker; they say nothing about who asked for what.
_PASSING = frozenset({"UNASSIGNED", "RESTARTING"})


class MarkerConnector:
    """Reads and keeps the marker connector of one Connect worker.

    Args:
        base_url: address of the worker's REST API.
        auth: user and password; None without a login.
        scope: in a drill, what may be changed; the marker connector never is.
    """

    def __init__(
        self, base_url: str, auth: Login = None, tls: HttpTls | None = None, scope: DrillScope | None = None
    ) -> None:
        self._endpoint = ConnectEndpoint(base_url, auth, tls, scope)
        self._worker = MirrorMaker(base_url, auth, tls, scope=scope)

    def find_change(self, timeout: float = 3.0) -> str:
        """Return what differs from the connector as it was made, as text: `deleted`, `changed` or its state.

        "" if nothing differs, or if Connect is just assigning the connector.
        """
        if not self._worker.existing([MARKER_CONNECTOR], timeout):
            return "deleted"
        status = self._worker.status(MARKER_CONNECTOR, timeout)
        if status.state in _PASSING:
            return ""
        if not status.stopped:
            return f"resumed: {status.state} with {len(status.tasks)} tasks"
        config = self._worker.config(MARKER_CONNECTOR, timeout)
        return "" if all(config.get(key) == value for key, value in CONFIG.items()) else "changed in its configuration"

    def restore(self, timeout: float = 10.0) -> str:
        """Create the connector if it is missing, stop it, and wait; return what still differs, "" if nothing does."""
        ends_at = time.monotonic() + timeout
        if not self._worker.existing([MARKER_CONNECTOR], timeout):
            self._create(timeout)
        elif self.find_change(timeout).startswith("changed"):
            self._endpoint.call("PUT", f"/connectors/{MARKER_CONNECTOR}/config", CONFIG, timeout)
        while (differs := self.find_change(timeout)) and time.monotonic() < ends_at:
            if differs.startswith("resumed"):
                self._worker.ask_to_stop(MARKER_CONNECTOR, max(1.0, ends_at - time.monotonic()))
            time.sleep(_POLL_SECONDS)
        return differs

    def _create(self, timeout: float) -> None:
        body = {"name": MARKER_CONNECTOR, "config": CONFIG}
        answer = self._endpoint.attempt("POST", "/connectors", {**body, "initial_state": "STOPPED"}, timeout)
        if not answer.ok and "initial_state" in answer.text:
            # Before Kafka 3.7 Connect knows no initial state: the connector runs for a moment, without a task.
            answer = self._endpoint.attempt("POST", "/connectors", body, timeout)
        # 409 also stands for a connector that another watcher has just created.
        if answer.status != 409:
            self._endpoint.accept(answer, "POST /connectors")
