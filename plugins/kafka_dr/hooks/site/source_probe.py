"""The application's own view of the source over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import JsonEndpoint


@dataclass(frozen=True)
class ApplicationsView:
    """What the application says about the source.

    Attributes:
        reachable: it had an answer from the source.
        writable: the source acknowledged a write; None where the application did not try.
        detail: whatever else it said; shown to people, never interpreted.
    """

    reachable: bool
    writable: bool | None = None
    detail: Any = None


class SourceProbe:
    """The probe of one application: how the source looks from where its clients are.

    The contract that an application (or a small service beside it) implements below its base URL:

    * `GET /source`: status 200 and JSON `{"reachable": true, "writable": true, "detail": anything}`.
      `reachable` is true where the source answered the application's client, false where it did not. `writable` is true
      where it acknowledged a write, false where a write was tried and not acknowledged (a refusal for want of rights
      counts as true: the broker is alive), null or absent where none was tried. Other keys are allowed.

    The answer tells of a try that was made for this request, or a few seconds before it, and never of an older one: it
    is asked several times, and each answer must be able to differ. It comes within four seconds also where the source
    hangs. Asking changes nothing. The source of the running clients is meant, whichever cluster that is.
    A status other than 2xx, a redirect, `reachable` that is no boolean, `writable` that is neither a boolean nor null,
    or `writable` true of a source that is not reachable, is taken as "the hook is unavailable": it says nothing about
    the source.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the application's source probe", HookUnavailable, auth)

    def __repr__(self) -> str:
        return f"SourceProbe({self._endpoint.base_url!r})"

    def view(self, timeout: float = 5.0) -> ApplicationsView:
        """What the application sees now; asked once, since whoever looks at a source looks again anyway."""
        return self._parsed(self._endpoint.call("GET", "/source", timeout=timeout))

    def shown(self, detail: Any) -> str:
        """What the application said beside its contract, on one line, without what was sent to log in."""
        return self._endpoint.shown(detail)

    def _parsed(self, document: Any) -> ApplicationsView:
        if not isinstance(document, dict) or not _within_contract(document.get("reachable"), document.get("writable")):
            raise self._endpoint.failure("the application's source probe answered outside its contract", document)
        return ApplicationsView(document["reachable"], document.get("writable"), document.get("detail"))


def _within_contract(reachable: Any, writable: Any) -> bool:
    if not isinstance(reachable, bool) or not (writable is None or isinstance(writable, bool)):
        return False
    return reachable or not writable
