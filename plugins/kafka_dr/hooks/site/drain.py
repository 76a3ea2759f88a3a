"""The application's drain hook over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import JsonEndpoint


@dataclass(frozen=True)
class DrainState:
    """What the application says about itself.

    Attributes:
        producers_running: producers that may still write.
        consumers_running: consumers that may still read or commit.
        drained_for: the procedure that asked it to stop, None while it runs normally or does not say.
        detail: whatever else it said; shown to people, never interpreted.
    """

    producers_running: int
    consumers_running: int
    drained_for: str | None = None
    detail: Any = None


class ApplicationDrain:
    """The drain hook of one application: ask its clients to stop, tell them to go on, look.

    The contract that an application (or a small service in front of many) implements below its base URL:

    * `POST /drain` with JSON `{"procedure_id": "<id>"}`: producers finish what they hold (flush) and stop;
      consumers commit what they have processed and leave their groups. It answers at once with the state below
      (stopping goes on in the background), status 200 or 202.
    * `POST /resume` with JSON `{"procedure_id": "<id>"}`: clients start again, wherever client routing points.
    * `GET /state`: status 200 and JSON
      `{"producers": {"running": 2}, "consumers": {"running": 1}, "drained_for": "<id>" or null, "detail": anything}`.
      `running` counts clients that may still write, read or commit; 0 means all have stopped. Other keys are allowed.

    Both POSTs answer with the same JSON as `GET /state`. Both are idempotent by `procedure_id`: the second request with
    the same id changes nothing. `/resume` with another id than the one it was drained for also resumes: the last word
    counts. A status other than 2xx, a redirect, or an answer without both counts is taken as "the hook is unavailable".
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the application's drain hook", HookUnavailable, auth)

    def __repr__(self) -> str:
        return f"ApplicationDrain({self._endpoint.base_url!r})"

    def ask_to_stop(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Ask producers and consumers to stop; returns at once with the state then."""
        return self._ask("POST", "/drain", {"procedure_id": procedure_id}, timeout)

    def tell_to_resume(self, procedure_id: str, timeout: float = 10.0) -> DrainState:
        """Let producers and consumers start again; returns at once with the state then."""
        return self._ask("POST", "/resume", {"procedure_id": procedure_id}, timeout)

    def state(self, timeout: float = 10.0) -> DrainState:
        """How many clients run now."""
        return self._ask("GET", "/state", None, timeout)

    def _ask(self, method: str, path: str, body: dict[str, str] | None, timeout: float) -> DrainState:
        """Repeating is safe because the contract is idempotent."""
        return self._parsed(self._endpoint.ask(method, path, timeout, body=body))

    def _parsed(self, document: Any) -> DrainState:
        try:
            producers, consumers = document["producers"]["running"], document["consumers"]["running"]
            counts_are_valid = all(type(n) is int and n >= 0 for n in (producers, consumers))
            drained_for = document.get("drained_for")
        except (TypeError, KeyError, AttributeError):
            counts_are_valid = False
        if not counts_are_valid:
            raise self._endpoint.failure("the application's drain hook answered outside its contract", document)
        return DrainState(
            producers, consumers, None if drained_for is None else str(drained_for), document.get("detail")
        )
