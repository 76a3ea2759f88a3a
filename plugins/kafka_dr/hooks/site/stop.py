"""Stops and starts MirrorMaker 2 where it has no REST API, as in dedicated mode, through a service of the site."""

from __future__ import annotations

from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import JsonEndpoint


class StopHook:
    """The stop hook of MirrorMaker 2 in dedicated mode: stops its processes, prevents their start, counts them.

    A newer hook also starts them again.

    The contract that a small service beside the processes implements below its base URL:

    * `POST /stop` with JSON `{"flow": "<source>-><target>"}`: every process that replicates this flow ends, and nothing
      starts one again. The service answers at once with the state below, status 200 or 202, while processes may still
      be ending.
    * `GET /state?flow=<source>-><target>`: status 200 and JSON `{"running": 1}`: the number of processes that replicate
      the flow now; 0 only if all have ended. `"starts": true` beside it says that the service knows `POST /start`;
      without this key it is never sent. `"settings": {"topics": "orders.*", ...}`, names and values as text, says with
      which settings of the flow the processes start next, read from the file where people keep them, without secrets
      and without a prefix such as `<source>-><target>.`; change_replication needs it. Other keys are allowed.
    * `POST /start` with JSON `{"flow": "<source>-><target>"}`: the processes that replicate this flow start, and are
      kept running until the next `POST /stop`. The service answers at once with the state above, status 200 or 202,
      while processes may still be starting.

    `POST /stop` and `POST /start` are idempotent: the second request changes nothing. A process that also replicates
    other flows cannot stop a single flow: the service stops the process, and with it the other flows. A status other
    than 2xx, a redirect, or an answer without the count means "the hook is unavailable". A count of 0 is no proof that
    replication has stopped: stable log ends on the target prove it.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "MirrorMaker 2's stop hook", HookUnavailable, auth, tls)

    def __repr__(self) -> str:
        return f"StopHook({self._endpoint.base_url!r})"

    def stop(self, flow: str, timeout: float = 10.0) -> int:
        """Have a flow's processes stopped; return how many processes still run, without waiting for their end."""
        return self._request("POST", "/stop", flow, timeout, body={"flow": flow})

    def start(self, flow: str, timeout: float = 10.0) -> int:
        """Have a flow's processes started; return how many run now, without waiting until they do."""
        return self._request("POST", "/start", flow, timeout, body={"flow": flow})

    def starts(self, flow: str, timeout: float = 10.0) -> bool:
        """Whether the stop hook says that it can start a flow's processes, too."""
        document = self._endpoint.ask("GET", "/state", timeout, params={"flow": flow})
        self._parse_count(document, flow)
        return document.get("starts") is True

    def settings(self, flow: str, timeout: float = 10.0) -> dict[str, str] | None:
        """Return with which settings the flow's processes start next; None if the stop hook does not say."""
        document = self._endpoint.ask("GET", "/state", timeout, params={"flow": flow})
        self._parse_count(document, flow)
        stated = document.get("settings")
        if stated is None:
            return None
        if not isinstance(stated, dict) or not all(isinstance(one, str) for pair in stated.items() for one in pair):
            raise self._endpoint.failure(
                "MirrorMaker 2's stop hook answered outside its contract: `settings` is no object of texts",
                sorted(map(str, stated)) if isinstance(stated, dict) else type(stated).__name__,
                "let the stop hook write each setting as text, or leave `settings` out. The contract is in"
                " plugins/kafka_dr/hooks/site/stop.py",
            )
        return dict(stated)

    def running(self, flow: str, timeout: float = 10.0) -> int:
        """Return how many processes replicate a flow now, as the stop hook counts them."""
        return self._request("GET", "/state", flow, timeout, params={"flow": flow})

    def _request(self, method: str, path: str, flow: str, timeout: float, **given: Any) -> int:
        """Send a request and return how many processes run; `given` has the request's `body` or `params`.

        The request is repeated if no usable answer arrives, because the contract makes each request idempotent.
        """
        return self._parse_count(self._endpoint.ask(method, path, timeout, **given), flow)

    def _parse_count(self, document: Any, flow: str) -> int:
        running = document.get("running") if isinstance(document, dict) else None
        if type(running) is not int or running < 0:
            raise self._endpoint.failure(
                "MirrorMaker 2's stop hook answered outside its contract: `running` is missing or wrong",
                document,
                f"until the stop hook is corrected, it is unknown whether MirrorMaker 2 still replicates {flow}. Each"
                f" answer must have the number of processes that replicate {flow} now, 0 or more: for one process"
                ' {"running": 1}. The contract is in plugins/kafka_dr/hooks/site/stop.py',
            )
        return running
