"""Asks the application, over HTTP, whether its clients reach the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import JsonEndpoint


@dataclass(frozen=True)
class ApplicationsView:
    """The application's report on the source.

    Attributes:
        reachable: whether the source answered the application.
        writable: whether the source acknowledged a write; None if the application did not try a write.
        detail: any further information; shown to people, never interpreted.
    """

    reachable: bool
    writable: bool | None = None
    detail: Any = None


class SourceProbe:
    """The source probe of one application: asks whether the application's own clients reach the source.

    The contract that an application (or a small service beside it) implements below its base URL:

    * `GET /source`: status 200 and JSON `{"reachable": true, "writable": true, "detail": anything}`.
      `reachable` states whether the source answered the application's client. `writable` is true if the source
      acknowledged a write, false if a tried write was not acknowledged (a refusal for missing rights counts as true:
      the broker is alive), null or absent if no write was tried. Other keys are allowed.

    The answer describes an attempt made for this request, or a few seconds earlier, never an older one: the probe is
    asked several times, and each answer must be able to differ. The answer comes within four seconds even if the source
    hangs. The request changes nothing. The source is the cluster that the clients use now, whichever cluster that is.
    A status other than 2xx, a redirect, `reachable` that is no boolean, `writable` that is neither a boolean nor null,
    or `writable` true with `reachable` false means "the hook is unavailable", and says nothing about the source.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the application's source probe", HookUnavailable, auth, tls)

    def __repr__(self) -> str:
        return f"SourceProbe({self._endpoint.base_url!r})"

    def view(self, timeout: float = 5.0) -> ApplicationsView:
        """Send one request and return the application's present report.

        A failed request is not repeated, because the caller sends several requests and needs each result.
        """
        return self._parse(self._endpoint.call("GET", "/source", timeout=timeout))

    def shown(self, detail: Any) -> str:
        """Return the `detail` of a report as one line of text, without credentials."""
        return self._endpoint.shown(detail)

    def _parse(self, document: Any) -> ApplicationsView:
        if not isinstance(document, dict) or not _is_within_contract(
            document.get("reachable"), document.get("writable")
        ):
            raise self._endpoint.failure(
                "the application's source probe answered outside its contract: `reachable` or `writable` is missing or"
                " wrong",
                document,
                "this answer does not count: it shows neither that the source is lost nor that the source works."
                " Correct the source probe: `reachable` must be true or false, and `writable` true, false or null. If"
                " `reachable` is false, `writable` must not be true. The contract is in"
                " plugins/kafka_dr/hooks/site/source_probe.py",
            )
        return ApplicationsView(document["reachable"], document.get("writable"), document.get("detail"))


def _is_within_contract(reachable: Any, writable: Any) -> bool:
    if not isinstance(reachable, bool) or not (writable is None or isinstance(writable, bool)):
        return False
    return reachable or not writable
