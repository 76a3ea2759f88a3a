"""Fence a cluster from outside over HTTP: by its network, its storage, or whatever else keeps clients out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.site.endpoint import JsonEndpoint


@dataclass(frozen=True)
class FenceAnswer:
    """What the fence hook says about a cluster.

    Attributes:
        fenced: whether clients are kept from writing to it now.
        by: what keeps them from it, in words.
        detail: whatever else it said, as text; shown to people, never interpreted.
    """

    fenced: bool
    by: str
    detail: str = ""


class FenceHook:
    """The fence hook: keep clients from a cluster that cannot be asked itself, let them in again, look.

    The contract that a small service in front of the network or the storage implements below its base URL:

    * `POST /fence` with JSON `{"procedure_id": "<id>", "cluster": "<alias>"}`: from its answer on no client can write
      to the cluster, also once the cluster is back. It answers within ten seconds with the state below, status 200 or
      202; if it takes longer, with `"fenced": false` now and with `true` when it is asked again.
    * `POST /unfence` with the same JSON: clients can reach the cluster as before.
    * `GET /state?cluster=<alias>`: status 200 and JSON `{"fenced": true, "by": "what fences it", "detail": anything}`.
      `fenced` is true only where the fence is known to hold. Other keys are allowed.

    Both POSTs answer with the same JSON as `GET /state`. Both are idempotent: the second request changes nothing. The
    last word counts, whichever procedure says it. A status other than 2xx, a redirect, or an answer without `fenced`
    (true or false) and `by` (a text) is taken as "the hook is unavailable", and never as a fence.
    """

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "the fence hook", HookUnavailable, auth)

    def __repr__(self) -> str:
        return f"FenceHook({self._endpoint.base_url!r})"

    def fence(self, procedure_id: str, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Ask it to keep clients from a cluster; its answer says whether it does."""
        return self._ask("POST", "/fence", timeout, body={"procedure_id": procedure_id, "cluster": cluster})

    def unfence(self, procedure_id: str, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Ask it to let clients in again; its answer says whether it did."""
        return self._ask("POST", "/unfence", timeout, body={"procedure_id": procedure_id, "cluster": cluster})

    def state(self, cluster: str, timeout: float = 30.0) -> FenceAnswer:
        """Whether it keeps clients from a cluster now."""
        return self._ask("GET", "/state", timeout, params={"cluster": cluster})

    def _ask(self, method: str, path: str, timeout: float, **given: Any) -> FenceAnswer:
        """Repeating is safe because the contract is idempotent."""
        return self._parsed(self._endpoint.ask(method, path, timeout, **given))

    def _parsed(self, document: Any) -> FenceAnswer:
        told = document if isinstance(document, dict) else {}
        fenced, by, detail = told.get("fenced"), told.get("by"), told.get("detail")
        if type(fenced) is not bool or not isinstance(by, str):
            raise self._endpoint.failure("the fence hook answered outside its contract", document)
        return FenceAnswer(
            fenced, self._endpoint.shown(by), "" if detail is None else self._endpoint.shown(json.dumps(detail))
        )
