"""Stops and resumes the application's clients through the application's drain hook, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import JsonEndpoint


@dataclass(frozen=True)
class DrainState:
    """The application's report on its clients.

    Attributes:
        producers_running: number of producers that may still write.
        consumers_running: number of consumers that may still read or commit.
        drained_for: id of the procedure that stopped the clients; None while they run normally, or if not reported.
        detail: any further information; shown to people, never interpreted.
    """

    producers_running: int
    consumers_running: int
    drained_for: str | None = None
    detail: Any = None


class ApplicationDrain:
    """The drain hook of one application: stops its clients, resumes them, reports their state.

    The contract that an application (or a small service in front of many) implements below its base URL:

    * `POST /drain` with JSON `{"procedure_id": "<id>"}`: producers flush their buffered records and stop;
      consumers commit the positions they have processed and leave their groups. The hook answers at once with the state
      below (stopping continues in the background), status 200 or 202.
    * `POST /resume` with JSON `{"procedure_id": "<id>"}`: clients start again, wherever client routing points.
    * `GET /state`: status 200 and JSON
      `{"producers": {"running": 2}, "consumers": {"running": 1}, "drained_for": "<id>" or null, "detail": anything}`.
      `running` counts clients that may still write, read or commit; 0 means all have stopped. Other keys are allowed.

    Both POSTs answer with the same JSON as `GET /state`. Both are idempotent by `procedure_id`: the second request with
    the same id changes nothing. `/resume` with another id than that of `/drain` also resumes: the last request counts.
    A status other than 2xx, a redirect, or an answer without both counts means "the hook is unavailable".
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the application's drain hook", HookUnavailable, auth, tls)

    def __repr__(self) -> str:
        return f"ApplicationDrain({self._endpoint.base_url!r})"

    def ask_to_stop(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Ask the application to stop its clients; return their present state, without waiting until they stop."""
        return self._request("POST", "/drain", {"procedure_id": procedure_id}, timeout)

    def tell_to_resume(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Ask the application to start its clients again; return their present state, without waiting."""
        return self._request("POST", "/resume", {"procedure_id": procedure_id}, timeout)

    def state(self, timeout: float = 10.0) -> DrainState:
        """Return how many producers and consumers of the application run now, as the drain hook reports."""
        return self._request("GET", "/state", None, timeout)

    def _request(self, method: str, path: str, body: dict[str, str] | None, timeout: float) -> DrainState:
        """Send a request and return the hook's answer; `body` is sent as JSON.

        The request is repeated if no usable answer arrives, because the contract makes both POSTs idempotent.
        """
        return self._parse(self._endpoint.ask(method, path, timeout, body=body))

    def _parse(self, document: Any) -> DrainState:
        try:
            producers, consumers = document["producers"]["running"], document["consumers"]["running"]
            counts_are_valid = all(type(n) is int and n >= 0 for n in (producers, consumers))
            drained_for = document.get("drained_for")
        except (TypeError, KeyError, AttributeError):
            counts_are_valid = False
        if not counts_are_valid:
            raise self._endpoint.failure(
                "the application's drain hook answered outside its contract: a count of running clients is missing or"
                " wrong",
                document,
                "until the drain hook is corrected, the number of running clients is unknown. Each answer must have the"
                " numbers of producers and consumers that run now, 0 or more: for 2 producers and 1 consumer"
                ' {"producers": {"running": 2}, "consumers": {"running": 1}}. The contract is in'
                " plugins/kafka_dr/hooks/site/drain.py",
            )
        return DrainState(
            producers, consumers, None if drained_for is None else str(drained_for), document.get("detail")
        )
