"""MirrorMaker 2 as connectors inside Kafka Connect, over the worker's REST API.

Connect keeps, per source partition, the *last replicated* offset. To start replication at X write X - 1;
to start at 0 write None: `0` would skip record 0, and -1 is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import (
    BadInput,
    ConnectUnavailable,
    DeadlinePassed,
    NotReady,
    ReadBackFailed,
)
from kafka_dr.hooks.site.endpoint import HttpAnswer, JsonEndpoint

_SECRET_WORDS = ("password", "jaas", "secret", "token", "credential", "private", "ssl.keystore.key", "basic.auth")
_READ_SECONDS = 10.0
_POLL_SECONDS = 0.2
_READ_BACK_SECONDS = 5.0
_DEFAULT_ALIAS = "source"


@dataclass(frozen=True)
class ConnectWorker:
    """A Connect worker: its version and the id of the cluster that it stores its state (and MM2's data) in."""

    version: str
    kafka_cluster_id: str


@dataclass(frozen=True)
class ConnectorStatus:
    """State of a connector and its tasks, as last published (eventually consistent; RUNNING is not progress).

    Attributes:
        tasks: state by task id.
        traces: first line of the stack trace by what failed: "connector" or "task 0".
    """

    name: str
    state: str
    tasks: dict[int, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """STOPPED and without tasks: only then may offsets be changed."""
        return self.state == "STOPPED" and not self.tasks

    @property
    def paused(self) -> bool:
        """PAUSED with all tasks. The group sync of a paused checkpoint connector still runs."""
        return self.state == "PAUSED" and set(self.tasks.values()) <= {"PAUSED"}

    @property
    def running(self) -> bool:
        """RUNNING with all tasks there are."""
        return self.state == "RUNNING" and set(self.tasks.values()) <= {"RUNNING"}

    def __str__(self) -> str:
        failed = "".join(f"; {what}: {trace}" for what, trace in self.traces.items())
        return f"{self.name} {self.state}, tasks {self.tasks or 'none'}{failed}"


@dataclass(frozen=True)
class ConnectorOffsets:
    """Last replicated offsets by the cluster alias they are stored under; a second alias means a misspelt write."""

    by_alias: dict[str, dict[TopicPartition, int | None]]

    @property
    def aliases(self) -> frozenset[str]:
        """Every alias seen."""
        return frozenset(self.by_alias)

    def of(self, cluster_alias: str) -> dict[TopicPartition, int | None]:
        """Last replicated offset by partition under one alias; None where Connect keeps an entry without offset."""
        return self.by_alias.get(cluster_alias, {})


class MirrorMaker:
    """The connectors of one Connect worker.

    Reads are repeated while the worker rebalances, restarts or does not answer. A write without an answer is never
    repeated blindly: the state is read again first.
    """

    def __init__(
        self, base_url: str, auth: tuple[str, str] | None = None, request_seconds: float = _READ_SECONDS
    ) -> None:
        """Nothing is sent yet.

        Args:
            request_seconds: how long one read may take before it is sent again.
        """
        self._endpoint = JsonEndpoint(base_url, "Connect", ConnectUnavailable, auth)
        self._request_seconds = request_seconds

    def __repr__(self) -> str:
        return f"MirrorMaker({self._endpoint.base_url!r})"

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Version and cluster id: proves *which* cluster the worker serves."""
        found = self._read("/", timeout)
        return ConnectWorker(str(found.get("version", "")), str(found.get("kafka_cluster_id", "")))

    def connectors(self, timeout: float = 30.0) -> list[str]:
        """Names of all connectors, sorted."""
        return sorted(self._read("/connectors", timeout, list))

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """A connector's configuration; values of keys that look secret are replaced by `[hidden]`."""
        found = self._read(f"{_path(name)}/config", timeout)
        return {
            key: "[hidden]" if any(word in key.lower() for word in _SECRET_WORDS) else value
            for key, value in found.items()
        }

    def status(self, name: str, timeout: float = 30.0) -> ConnectorStatus:
        """State of a connector and of its tasks."""
        found = self._read(f"{_path(name)}/status", timeout)
        try:
            tasks = {int(task["id"]): str(task["state"]) for task in found["tasks"]}
            parts = [("connector", found["connector"]), *((f"task {task['id']}", task) for task in found["tasks"])]
            traces = {
                what: self._endpoint.shown(part["trace"].partition("\n")[0])
                for what, part in parts
                if part.get("trace")
            }
            return ConnectorStatus(name, str(found["connector"]["state"]), tasks, traces)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._endpoint.failure(f"Connect's status of {name} cannot be read", found) from None

    def stop(self, name: str, deadline: float = 120.0) -> ConnectorStatus:
        """Stop a connector and wait until it is STOPPED without tasks; slow (many seconds) with a dead source."""
        return self._reach(name, "stop", lambda status: status.stopped, deadline)

    def ask_to_stop(self, name: str, timeout: float = 30.0) -> None:
        """Have a connector told to stop, and wait for nothing but the worker's word that it was.

        Raises:
            ConnectUnavailable: no such word came in time; it may have taken effect all the same.
        """
        ends_at = time.monotonic() + timeout
        while not (answer := self._ask(name, "stop", ends_at - time.monotonic())).ok:
            if time.monotonic() >= ends_at:
                self._endpoint.accept(answer, f"PUT {_path(name)}/stop")
            time.sleep(_POLL_SECONDS)

    def pause(self, name: str, deadline: float = 60.0) -> ConnectorStatus:
        """Pause a connector; returns when it and its tasks are PAUSED."""
        return self._reach(name, "pause", lambda status: status.paused, deadline)

    def resume(self, name: str, deadline: float = 60.0, needs_tasks: bool = True) -> ConnectorStatus:
        """Resume a paused or stopped connector; returns when it and its tasks are RUNNING.

        Args:
            needs_tasks: False where nothing may match the connector's filters yet: then no task is good enough.
        """
        return self._reach(
            name, "resume", lambda status: status.running and bool(status.tasks or not needs_tasks), deadline
        )

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Read the last replicated offset per partition, under every alias; from the last flush, up to a minute old."""
        found = self._read(f"{_path(name)}/offsets", timeout)
        by_alias: dict[str, dict[TopicPartition, int | None]] = {}
        try:
            for entry in found["offsets"]:
                where, offset = entry["partition"], entry.get("offset")
                partition = TopicPartition(where["topic"], int(where["partition"]))
                by_alias.setdefault(where["cluster"], {})[partition] = None if offset is None else int(offset["offset"])
        except (KeyError, TypeError, ValueError):
            raise self._endpoint.failure(f"{name} keeps no offsets of a source connector", entry) from None
        return ConnectorOffsets(by_alias)

    def change_offsets(
        self, name: str, cluster_alias: str, last_replicated: Mapping[TopicPartition, int | None], timeout: float = 60.0
    ) -> ConnectorOffsets:
        """Set last replicated offsets of a stopped source connector; read back and compared as a whole.

        Args:
            cluster_alias: must be the connector's own `source.cluster.alias`: Connect accepts any other without a word.
            last_replicated: X - 1 to start at X, None to start at 0; partitions left out stay as they are.

        Raises:
            BadInput: a negative offset, or another alias than the connector's.
            NotReady: the connector is not STOPPED, or still has tasks.
            ReadBackFailed: what Connect keeps now differs; names the partitions.
        """
        self._check_change(name, cluster_alias, last_replicated, timeout)
        before = self.offsets(name, timeout)
        wanted = {**before.by_alias, cluster_alias: {**before.of(cluster_alias), **last_replicated}}
        after = self._change_until_seen(name, cluster_alias, last_replicated, before, wanted, timeout)
        differing = _differing(wanted, after.by_alias)
        if differing:
            raise ReadBackFailed(
                f"Connect does not keep the offsets written for {name}",
                first_few(differing, 10),
                "write them again while it is STOPPED",
            )
        return after

    def _check_change(
        self, name: str, alias: str, changes: Mapping[TopicPartition, int | None], timeout: float
    ) -> None:
        """Everything that can be known before writing."""
        wrong = [
            f"{tp}: {last!r}"
            for tp, last in changes.items()
            if last is not None and (type(last) is not int or last < 0)
        ]
        if wrong:
            raise BadInput("last replicated offsets must be 0 or more, or None to start at 0", first_few(wrong, 10))
        own = self.config(name, timeout).get("source.cluster.alias", _DEFAULT_ALIAS)
        if alias != own:
            raise BadInput(
                f"{name} stores offsets under another alias", f"asked for {alias!r}, it uses {own!r}", f"use {own!r}"
            )
        status = self.status(name, timeout)
        if not status.stopped:
            raise NotReady(
                "offsets can be changed only while the connector is STOPPED without tasks", str(status), "stop it first"
            )

    def _change_until_seen(
        self,
        name: str,
        alias: str,
        changes: Mapping[TopicPartition, int | None],
        before: ConnectorOffsets,
        wanted: dict[str, dict[TopicPartition, int | None]],
        timeout: float,
    ) -> ConnectorOffsets:
        """Write what is not there yet; after no answer, a rebalance or a 5xx read again before writing again."""
        seen, ends_at, path, accepted = before, time.monotonic() + timeout, f"{_path(name)}/offsets", False
        while changes and _differing(wanted, seen.by_alias):
            if not accepted:
                answer = self._endpoint.attempt(
                    "PATCH", path, _offsets_body(alias, changes), max(1.0, ends_at - time.monotonic())
                )
                accepted = answer.ok
                if not accepted and (not _transient(answer) or time.monotonic() > ends_at):
                    self._endpoint.accept(answer, f"PATCH {path}")
                ends_at = min(ends_at, time.monotonic() + _READ_BACK_SECONDS) if accepted else ends_at
            seen = self.offsets(name, timeout)
            # A busy worker may show the change only some moments after it accepted it.
            if time.monotonic() > ends_at or not _differing(wanted, seen.by_alias):
                return seen
            time.sleep(_POLL_SECONDS)
        return seen

    def _reach(
        self, name: str, verb: str, reached: Callable[[ConnectorStatus], bool], deadline: float
    ) -> ConnectorStatus:
        """Ask for a state once, wait for it; ask again only when the request had no good answer.

        Also where the worker says that it is reached: one that begins anew, or was frozen, says what was so before, and
        goes on with what it was told last.
        """
        ends_at = time.monotonic() + deadline
        answer = self._ask(name, verb, deadline)
        while not reached(status := self.status(name, max(1.0, ends_at - time.monotonic()))):
            if time.monotonic() >= ends_at:
                seen = f"{status}; answer to {verb}: {answer.seen}"
                raise DeadlinePassed(
                    f"{name} did not {verb} within {deadline:g} s", seen, "look at the worker's log, then try again"
                )
            if not answer.ok:
                answer = self._ask(name, verb, ends_at - time.monotonic())
            time.sleep(_POLL_SECONDS)
        return status

    def _ask(self, name: str, verb: str, timeout: float) -> HttpAnswer:
        """One request for a state; raises for an answer that would be the same again."""
        answer = self._endpoint.attempt("PUT", f"{_path(name)}/{verb}", timeout=max(1.0, timeout))
        if not answer.ok and not _transient(answer):
            self._endpoint.accept(answer, f"PUT {_path(name)}/{verb}")
        return answer

    def _read(self, path: str, timeout: float, shape: type = dict) -> Any:
        """GET with repeats: connection refused, no answer, 409, 5xx, and the 404 of a worker that still starts."""
        ends_at = time.monotonic() + timeout
        attempts = Retrying(
            stop=stop_after_delay(timeout),
            wait=wait_exponential(0.1, max=2.0),
            retry=retry_if_result(_transient),
            retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]  # set by now
        )
        answer = attempts(
            lambda: self._endpoint.attempt(
                "GET", path, timeout=min(self._request_seconds, max(0.5, ends_at - time.monotonic()))
            )
        )
        found = self._endpoint.accept(answer, f"GET {path}")
        if not isinstance(found, shape):
            raise self._endpoint.failure(f"Connect answered GET {path} with something else", found)
        return found


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _transient(answer: HttpAnswer) -> bool:
    """Tell whether a retry may help. A JSON 404 names an unknown connector; any other 404 is a starting worker."""
    starting = answer.status == 404 and not isinstance(answer.body, dict)
    return answer.status in (0, 409) or answer.status >= 500 or starting


def _offsets_body(alias: str, changes: Mapping[TopicPartition, int | None]) -> dict[str, Any]:
    return {
        "offsets": [
            {
                "partition": {"cluster": alias, "topic": topic, "partition": partition},
                "offset": None if last is None else {"offset": last},
            }
            for (topic, partition), last in changes.items()
        ]
    }


def _differing(
    wanted: Mapping[str, Mapping[TopicPartition, int | None]], found: Mapping[str, Mapping[TopicPartition, int | None]]
) -> list[str]:
    """Partitions whose offset is not what it should be, over all aliases; an absent entry equals None."""
    keys = sorted({(alias, tp) for side in (wanted, found) for alias, offsets in side.items() for tp in offsets})
    pairs = ((alias, tp, wanted.get(alias, {}).get(tp), found.get(alias, {}).get(tp)) for alias, tp in keys)
    return [f"{alias}/{tp}: wanted {want}, found {have}" for alias, tp, want, have in pairs if want != have]
