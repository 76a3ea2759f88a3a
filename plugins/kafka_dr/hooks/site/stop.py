"""Stopping MirrorMaker 2 in dedicated mode, over HTTP: it has no REST API of its own."""

from __future__ import annotations

from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import JsonEndpoint


class StopHook:
    """The stop hook of MirrorMaker 2 in dedicated mode: end its processes and keep them from being started, look.

    The contract that a small service beside the processes implements below its base URL:

    * `POST /stop` with JSON `{"flow": "<source>-><target>"}`: every process that replicates this flow ends, and nothing
      starts it again. It answers with the state below, status 200 or 202, at once: ending may go on in the background.
    * `GET /state?flow=<source>-><target>`: status 200 and JSON `{"running": 1}`: how many processes replicate the flow
      now; 0 only where all have ended. Other keys are allowed.

    `POST /stop` is idempotent: the second request changes nothing. A process that replicates other flows, too, cannot
    stop for one of them alone: the service then ends it, and they stand as well. A status other than 2xx, a redirect,
    or an answer without the count is taken as "the hook is unavailable". That nothing replicates any more is not
    believed: the target's log ends prove it.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "MirrorMaker 2's stop hook", HookUnavailable, auth)

    def __repr__(self) -> str:
        return f"StopHook({self._endpoint.base_url!r})"

    def stop(self, flow: str, timeout: float = 10.0) -> int:
        """Ask the processes of a flow to end; returns at once how many run then."""
        return self._ask("POST", "/stop", timeout, body={"flow": flow})

    def running(self, flow: str, timeout: float = 10.0) -> int:
        """How many processes replicate a flow now."""
        return self._ask("GET", "/state", timeout, params={"flow": flow})

    def _ask(self, method: str, path: str, timeout: float, **given: Any) -> int:
        """Repeating is safe because the contract is idempotent."""
        return self._counted(self._endpoint.ask(method, path, timeout, **given))

    def _counted(self, document: Any) -> int:
        running = document.get("running") if isinstance(document, dict) else None
        if type(running) is not int or running < 0:
            raise self._endpoint.failure("MirrorMaker 2's stop hook answered outside its contract", document)
        return running
