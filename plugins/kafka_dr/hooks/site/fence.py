"""Fences a cluster from outside, for example by its network, through the site's fence hook over HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import JsonEndpoint


@dataclass(frozen=True)
class FenceAnswer:
    """The fence hook's answer about a cluster.

    Attributes:
        fenced: whether clients' writes to the cluster are refused now, as the hook reports.
        by: what fences the cluster, in words.
        detail: any further information, as text; shown to people, never interpreted.
    """

    fenced: bool
    by: str
    detail: str = ""


class FenceHook:
    """The fence hook: fences a cluster even if the cluster does not answer, lifts the fence, reports the state.

    The contract that a small service in front of the network or the storage implements below its base URL:

    * `POST /fence` with JSON `{"procedure_id": "<id>", "cluster": "<alias>"}`: from the answer on no client can write
      to the cluster, also after the cluster's return. The hook answers within ten seconds with the state below, status
      200 or 202; if fencing takes longer, with `"fenced": false` first and with `true` to a later request.
    * `POST /unfence` with the same JSON: clients can reach the cluster as before.
    * `GET /state?cluster=<alias>`: status 200 and JSON `{"fenced": true, "by": "what fences it", "detail": anything}`.
      `fenced` is true only if the fence certainly holds. Other keys are allowed.

    Both POSTs answer with the same JSON as `GET /state`. Both are idempotent: the second request changes nothing. The
    last request counts, whichever procedure sends it. A status other than 2xx, a redirect, or an answer without
    `fenced` (true or false) and `by` (a text) means "the hook is unavailable", never a fence.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the fence hook", HookUnavailable, auth, tls)

    def __repr__(self) -> str:
        return f"FenceHook({self._endpoint.base_url!r})"

    def fence(self, procedure_id: str, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Ask the hook to fence a cluster; return its answer, which states whether the cluster is fenced already."""
        return self._request(
            "POST", "/fence", cluster, timeout, body={"procedure_id": procedure_id, "cluster": cluster}
        )

    def unfence(self, procedure_id: str, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Ask the hook to lift a cluster's fence; return its answer: whether the cluster is still fenced."""
        return self._request(
            "POST", "/unfence", cluster, timeout, body={"procedure_id": procedure_id, "cluster": cluster}
        )

    def state(self, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Return the hook's answer to the question whether a cluster is fenced now."""
        return self._request("GET", "/state", cluster, timeout, params={"cluster": cluster})

    def _request(self, method: str, path: str, cluster: str, timeout: float, **given: Any) -> FenceAnswer:
        """Send a request and return the hook's answer; `given` has the request's `body` or `params`.

        The request is repeated if no usable answer arrives, because the contract makes both POSTs idempotent.
        """
        return self._parse(self._endpoint.ask(method, path, timeout, **given), cluster)

    def _parse(self, document: Any, cluster: str) -> FenceAnswer:
        answer = document if isinstance(document, dict) else {}
        fenced, by, detail = answer.get("fenced"), answer.get("by"), answer.get("detail")
        if type(fenced) is not bool or not isinstance(by, str):
            raise self._endpoint.failure(
                "the fence hook answered outside its contract: `fenced` (true or false) or `by` (a text) is missing or"
                " wrong",
                document,
                f"until the fence hook is corrected, it is unknown whether {cluster} is fenced. Each answer must have"
                f" `fenced`, which is true only while clients certainly cannot write to {cluster}, else false, and"
                " `by`, a text that states what fences the cluster. The contract is in"
                " plugins/kafka_dr/hooks/site/fence.py",
            )
        return FenceAnswer(
            fenced, self._endpoint.shown(by), "" if detail is None else self._endpoint.shown(json.dumps(detail))
        )
