"""An owner of both sites that puts things back, as an operator or a GitOps tool does: connectors and ACL entries."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import requests
from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient

from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from tests.support.lab_clients import acl_filter, without_marker

_SECONDS = 10.0
_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


class Owner:
    """Every `period` seconds: deletes ACL entries that it does not know; resumes connectors, restarts failed tasks.

    It knows the entries of when it was made, without the watcher's marker. It resumes also connectors that it does not
    know.

    Attributes:
        acts: what it did, each with the time in seconds since 1970.
    """

    def __init__(
        self, lab: Lab, flow: tuple[str, str], period: float, jitter: float = 0.0, acls_of: Iterable[str] = ()
    ) -> None:
        self._lab, self._flow, self._period, self._jitter = lab, flow, period, jitter
        self._admins = {alias: AdminClient({**lab.client_properties(alias, "admin")}) for alias in acls_of}
        self._known = {alias: set(without_marker(self._acls(alias))) for alias in self._admins}
        self._random, self._end = random.Random(7), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acts: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(60.0)

    def moments(self, gap: float = 3.0) -> list[float]:
        """Return when it acted, one time for acts that lie closer together than `gap` seconds."""
        found: list[float] = []
        last = 0.0
        for at, _ in self.acts:
            if at - last > gap:
                found.append(at)
            last = at
        return found

    def _run(self) -> None:
        while not self._end.is_set():
            for alias in self._admins:
                self._delete_foreign(alias)
            self._resume_connectors()
            self._end.wait(max(0.5, self._period + self._random.uniform(-self._jitter, self._jitter)))

    def _acls(self, alias: str) -> list[AclBinding]:
        return list(self._admins[alias].describe_acls(acl_filter(), request_timeout=_SECONDS).result(_SECONDS))

    def _delete_foreign(self, alias: str) -> None:
        now = set(self._acls(alias))
        foreign = now - self._known[alias]
        if foreign:
            filters = [AclBindingFilter(*(getattr(entry, field) for field in _FIELDS)) for entry in foreign]
            for future in self._admins[alias].delete_acls(filters, request_timeout=_SECONDS).values():
                future.result(_SECONDS)
            self._told(f"{alias}: {len(foreign)} entries deleted")

    def _resume_connectors(self) -> None:
        source, target = self._flow
        reverse = {connector_name(target, source, kind) for kind in ("source", "checkpoint")}
        try:
            names = call_worker(self._lab, target, "GET", "/connectors").json()
            for name in sorted(set(names) - reverse):
                state: Any = call_worker(self._lab, target, "GET", f"/connectors/{name}/status").json()
                if any(task["state"] == "FAILED" for task in state["tasks"]):
                    call_worker(
                        self._lab, target, "POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true"
                    )
                    self._told(f"{name} restarted")
                if state["connector"]["state"] != "RUNNING":
                    call_worker(self._lab, target, "PUT", f"/connectors/{name}/resume")
                    self._told(f"{name} resumed")
        except (requests.RequestException, KeyError):
            return

    def _told(self, what: str) -> None:
        self.acts.append((time.time(), what))
        print(f"owner: {what}", flush=True)
