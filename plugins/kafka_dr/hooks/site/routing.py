"""Reads and changes the routing record, in a file or behind an HTTP hook: the cluster to which clients connect.

The routing record is JSON: `{"cluster": "primary", "bootstrap_servers": "host:port,...", "version": 1}`. A redirect
changes these three fields and leaves all other fields unchanged.
"""

from __future__ import annotations

import fcntl
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import BadInput, HookUnavailable, ReadBackFailed
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import JsonEndpoint
from kafka_dr.hooks.redaction import one_line
from kafka_dr.hooks.whole_file import write_whole

_ANCHOR = "switchback_journal"
_VALID_RECORD = (
    'JSON such as {"cluster": "ALIAS", "bootstrap_servers": "HOST:PORT", "version": 1}, with the alias and the'
    " bootstrap servers of the cluster to which clients connect now"
)


@dataclass(frozen=True)
class ClientRoute:
    """The cluster to which clients connect.

    Attributes:
        cluster: the cluster's alias.
        version: grows by 1 with each change of the routing record; `redirect` ignores the version of its argument.
    """

    cluster: str
    bootstrap_servers: str
    version: int = 0

    def same_target(self, other: ClientRoute | None) -> bool:
        """Whether both routes name the same cluster and bootstrap servers; versions may differ. False for None."""
        return other is not None and (self.cluster, self.bootstrap_servers) == (other.cluster, other.bootstrap_servers)


@dataclass(frozen=True)
class Redirected:
    """A redirect's result.

    Attributes:
        changed: whether the routing record was changed.
        answered: the routing system's answer to the write, as text.
        seen: the route that was read back.
    """

    changed: bool
    answered: str
    seen: ClientRoute


@dataclass(frozen=True)
class SeenRouting:
    """The routing record as it was read.

    Attributes:
        document: the whole routing record; None if no routing record exists.
        basis: what a conditional write compares with what it finds; None if the routing system knows none.
    """

    document: Any
    basis: Any = None


class ClientRouting(ABC):
    """Reads and changes the routing record. A redirect to the cluster that the record already names changes nothing."""

    def current(self, timeout: float = 10.0) -> ClientRoute:
        """Return the route that a client would read now; HookUnavailable if there is no routing record."""
        document = self._read(timeout).document
        if document is None:
            raise HookUnavailable(
                "there is no routing record",
                str(self),
                f"create the routing record: {_VALID_RECORD}",
            )
        return self._route(document)

    def anchors(self, timeout: float = 10.0) -> list[Any]:
        """Return the journal's anchor that the last redirect left in the routing record; [] without one."""
        document = self._read(timeout).document
        anchor = document.get(_ANCHOR) if isinstance(document, dict) else None
        return [] if anchor is None else [anchor]

    def redirect(
        self, route: ClientRoute, timeout: float = 10.0, anchor: Mapping[str, Any] | None = None
    ) -> Redirected:
        """Write a route to the routing record, and read the record back as a client would.

        Args:
            anchor: an anchor of the journal, stored beside the route if the route changes.

        Raises:
            HookUnavailable: the routing record could not be read or written. The record is unchanged, unless a request
                timed out or the read-back failed: then the record may be changed.
            ReadBackFailed: the routing record was written, but a client would read another route.
        """
        if not route.cluster or not route.bootstrap_servers:
            raise BadInput(
                "a route needs a cluster and its bootstrap servers",
                repr(route),
                f"set bootstrap.servers in the Airflow connection of {route.cluster or 'the cluster'}; the routing"
                " record is unchanged",
            )
        with self._exclusive():
            seen = self._read(timeout)
            current = None if seen.document is None else self._route(seen.document)
            if current is not None and route.same_target(current):
                return Redirected(False, "nothing was written: the routing record already names this cluster", current)
            changes = {
                "cluster": route.cluster,
                "bootstrap_servers": route.bootstrap_servers,
                "version": current.version + 1 if current else 1,
            }
            answered = self._write_with_anchor(seen, {**(seen.document or {}), **changes}, anchor, timeout)
            read_back = self.current(timeout)
        if not route.same_target(read_back):
            raise ReadBackFailed(
                "the routing record does not name the route that was written",
                f"written: {route.cluster}, {route.bootstrap_servers}; read back: {read_back.cluster},"
                f" {read_back.bootstrap_servers}; answer to the write: {answered}",
                f"find out which other program writes {self}, and stop this program; clients connect to"
                f" {read_back.cluster} now",
            )
        return Redirected(True, answered, read_back)

    def _write_with_anchor(
        self, seen: SeenRouting, document: dict[str, Any], anchor: Mapping[str, Any] | None, timeout: float
    ) -> str:
        """Write a routing record; if it is not taken with the anchor, write it without: clients come first."""
        document.pop(_ANCHOR, None)
        try:
            return self._write(seen, {**document, **({_ANCHOR: dict(anchor)} if anchor else {})}, timeout)
        except HookUnavailable:
            if anchor is None:
                raise
            return self._write(seen, document, timeout)

    def _route(self, document: Any) -> ClientRoute:
        try:
            cluster, servers, version = document["cluster"], document["bootstrap_servers"], document["version"]
        except (TypeError, KeyError):
            cluster = servers = version = None
        if not (isinstance(cluster, str) and isinstance(servers, str) and type(version) is int):
            raise HookUnavailable(
                "the routing record cannot be read: `cluster`, `bootstrap_servers` or `version` is missing or wrong",
                one_line(document),
                f"correct {self}: {_VALID_RECORD}",
            )
        return ClientRoute(cluster, servers, version)

    @abstractmethod
    def _read(self, timeout: float) -> SeenRouting:
        """Return the whole routing record."""

    @abstractmethod
    def _write(self, seen: SeenRouting, document: dict[str, Any], timeout: float) -> str:
        """Replace the whole routing record that was `seen`; return the routing system's answer as text."""

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Inside this context, exclude other writers of the routing record, if the routing system has a lock."""
        yield


class FileRouting(ClientRouting):
    """The routing record in a JSON file; the file is replaced as a whole, so that no client reads half a record.

    Args:
        path: of the file.
        scope: in a drill, names the folder in which the file must lie to be written.
    """

    def __init__(self, path: str | Path, scope: DrillScope | None = None) -> None:
        self._path, self._scope = Path(path), scope

    def __str__(self) -> str:
        return f"routing file {self._path}"

    def _read(self, timeout: float) -> SeenRouting:
        try:
            document = read_json(self._path.read_bytes())
        except FileNotFoundError:
            return SeenRouting(None)
        except (OSError, ValueError) as error:
            raise HookUnavailable(
                "the routing record cannot be read",
                one_line(error),
                f"let the user of Airflow's tasks read {self}, and correct the file: {_VALID_RECORD}",
            ) from error
        return SeenRouting(document)

    def _write(self, seen: SeenRouting, document: dict[str, Any], timeout: float) -> str:
        if self._scope is not None:
            folder = Path(self._scope.routing_folder).resolve()
            self._scope.require_routing_file(str(self._path.resolve()), str(folder))
        try:
            mode = self._path.stat().st_mode & 0o777 if self._path.exists() else 0o644
            write_whole(self._path, json.dumps(document, indent=2) + "\n", mode)
        except OSError as error:
            raise HookUnavailable(
                "the routing record cannot be written",
                one_line(error),
                f"let the user of Airflow's tasks write in the folder of {self}, and make room on the disk; the file"
                " states to which cluster clients connect now",
            ) from error
        return f"written to {self._path}"

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Inside this context, hold a lock on the file's folder, so that only one process writes the routing record.

        The lock is not on the file itself, because each write replaces the file by a new file without the lock.
        """
        try:
            folder = os.open(self._path.parent, os.O_RDONLY)
        except OSError as error:
            raise HookUnavailable(
                "the routing record cannot be written",
                one_line(error),
                f"create the folder of {self}, and let the user of Airflow's tasks read and write in the folder; the"
                " routing record is unchanged",
            ) from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class HttpRouting(ClientRouting):
    """The routing record in a service: `GET {base}/route` returns the record (404: none yet), a `PUT` replaces it."""

    def __init__(self, base_url: str, auth: tuple[str, str] | None = None, tls: HttpTls | None = None) -> None:
        self._endpoint = JsonEndpoint(base_url, "client routing", HookUnavailable, auth, tls)

    def __str__(self) -> str:
        return f"client routing at {self._endpoint.base_url}"

    def _read(self, timeout: float) -> SeenRouting:
        answer = self._endpoint.attempt("GET", "/route", timeout=timeout)
        return SeenRouting(None if answer.status == 404 else self._endpoint.accept(answer, "GET /route"))

    def _write(self, seen: SeenRouting, document: dict[str, Any], timeout: float) -> str:
        """Send the routing record; a PUT that timed out raises no error, as the read-back shows its effect."""
        answer = self._endpoint.attempt("PUT", "/route", document, timeout)
        if not answer.timed_out:
            self._endpoint.accept(answer, "PUT /route")
        return answer.seen
