"""Reads and changes MirrorMaker 2's connectors in Kafka Connect, over the worker's REST API.

Per source partition, Connect stores the offset of the record that was replicated *last*. For replication to start at X,
write X - 1; to start at 0, write None: 0 would skip record 0, and Connect rejects -1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import requests

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, DeadlinePassed, NotReady, ReadBackFailed
from kafka_dr.hooks.connect.connector_requests import ConnectorRequests, connector_path
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets, ConnectorStatus, ConnectWorker, without_secrets
from kafka_dr.hooks.connect.offset_changes import offset_differences, offsets_body
from kafka_dr.hooks.json_endpoint import HttpAnswer
from kafka_dr.vocabulary import MARKER_CONNECTOR

_POLL_SECONDS = 0.2
_READ_BACK_SECONDS = 5.0
_DEFAULT_ALIAS = "source"
_ENABLED = "enabled"


class MirrorMaker(ConnectorRequests):
    """Reads and changes the connectors of one Connect worker.

    A read is repeated while the worker rebalances, restarts or does not answer. A write without an answer is repeated
    only after the connector's state, or its offsets, have been read again.
    """

    def __repr__(self) -> str:
        return f"MirrorMaker({self._endpoint.base_url!r})"

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Return the worker's version and its Kafka cluster's id, which proves to which cluster the worker belongs."""
        answer = self._read("/", timeout)
        return ConnectWorker(str(answer.get("version", "")), str(answer.get("kafka_cluster_id", "")))

    def connectors(self, timeout: float = 30.0) -> list[str]:
        """Return the names of all connectors, sorted; no connector is hidden because the worker still starts."""
        # While a worker starts, its list is empty or incomplete, but a request for one connector waits.
        self._exists(MARKER_CONNECTOR, timeout)
        return sorted(self._read("/connectors", timeout, list))

    def existing(self, names: Iterable[str], timeout: float = 30.0) -> list[str]:
        """Return those of the named connectors that exist.

        Each is asked for by its name, which a worker answers only after it has joined its group and read all
        configurations.
        """
        return [name for name in names if self._exists(name, timeout)]

    def _exists(self, name: str, timeout: float) -> bool:
        answer = self._repeat("GET", connector_path(name), timeout)
        if answer.status != requests.codes.not_found:
            self._endpoint.accept(answer, f"GET {connector_path(name)}")
        return answer.ok

    def sets_offsets(self, name: str, timeout: float = 30.0) -> bool:
        """Whether the worker lets a connector's offsets be set, as Connect does from Kafka 3.6 on; changes nothing.

        The worker is sent a change of no offset: it answers 400, because the change is empty, or 404 or 405, because it
        does not know the request. A version would prove nothing, because vendors have numbers of their own. A worker
        that can set offsets knows the state STOPPED, too, which came with Connect 3.5.
        """
        path = f"{connector_path(name)}/offsets"
        answer = self._repeat("PATCH", path, timeout, {"offsets": []})
        if answer.status in (requests.codes.not_found, requests.codes.not_allowed):
            return False
        if answer.status != requests.codes.bad_request:
            self._endpoint.accept(answer, f"PATCH {path}")
        return True

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """Return a connector's configuration; the value of a key that looks like a secret's is `[hidden]`."""
        return without_secrets(self._read(f"{connector_path(name)}/config", timeout))

    def status(self, name: str, timeout: float = 30.0) -> ConnectorStatus:
        """Return the state of one connector and of its tasks, as the worker reports it.

        A worker that starts has no status of a connector that exists: its answer is waited for.
        """

        def not_read_yet(answer: HttpAnswer) -> bool:
            return answer.status == requests.codes.not_found and self._exists(name, timeout)

        answer = self._read(f"{connector_path(name)}/status", timeout, again=not_read_yet)
        try:
            return ConnectorStatus.parse(name, answer, self._endpoint.shown)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._endpoint.failure(
                f"Connect's status of {name} cannot be read",
                answer,
                f"make sure that {self._endpoint.base_url} is the REST API of a Connect worker, not of another program",
            ) from None

    def stop(self, name: str, deadline: float = 120.0) -> ConnectorStatus:
        """Stop a connector, wait until it is STOPPED without tasks, and return its state; else raise DeadlinePassed.

        Stopping takes many seconds if the connector's source does not answer.
        """
        return self._reach(name, "stop", lambda status: status.stopped, deadline)

    def ask_to_stop(self, name: str, timeout: float = 30.0) -> None:
        """Send a stop request and wait only until the worker accepts the request.

        Raises:
            ConnectUnavailable: the worker did not accept the request in time; the request may still take effect.
        """
        ends_at = time.monotonic() + timeout
        while not (answer := self._request_state(name, "stop", ends_at - time.monotonic())).ok:
            if time.monotonic() >= ends_at:
                self._endpoint.accept(answer, f"PUT {connector_path(name)}/stop")
            time.sleep(_POLL_SECONDS)

    def pause(self, name: str, deadline: float = 60.0) -> ConnectorStatus:
        """Pause a connector, wait until connector and tasks are PAUSED, and return the state; else DeadlinePassed."""
        return self._reach(name, "pause", lambda status: status.paused, deadline)

    def resume(self, name: str, deadline: float = 60.0, needs_tasks: bool = True) -> ConnectorStatus:
        """Resume a paused or stopped connector, wait until connector and tasks are RUNNING, and return the state.

        Args:
            needs_tasks: whether to wait until the connector has a task; False if perhaps no topic matches the
                connector's filters yet, because such a connector has no task.

        Raises:
            DeadlinePassed: the connector or a task is not RUNNING after `deadline` seconds.
        """
        return self._reach(
            name, "resume", lambda status: status.running and bool(status.tasks or not needs_tasks), deadline
        )

    def is_enabled(self, name: str, timeout: float = 30.0) -> bool:
        """Whether a connector's setting `enabled` is not false; with false MirrorMaker 2 starts no task on a resume."""
        return _is_enabled(self._read(f"{connector_path(name)}/config", timeout))

    def set_enabled(self, name: str, enabled: bool, timeout: float = 30.0) -> None:
        """Set a connector's `enabled` to false, or remove this setting, whose default is true; read it back.

        Connect before 3.8 accepts only a whole configuration: all other settings are then sent as they were read, and
        stay in memory. A connector that is to be disabled must be STOPPED: Connect restarts the tasks of others.

        Raises:
            NotReady: the connector is to be disabled, but is not STOPPED, or still has tasks.
            ReadBackFailed: Connect still reports the other value after `timeout` seconds.
        """
        ends_at, path = time.monotonic() + timeout, f"{connector_path(name)}/config"
        answer = HttpAnswer(requests.codes.ok)
        while _is_enabled(config := self._read(path, timeout)) != enabled:
            # The text of an answer may repeat settings, and with them a password.
            seen = f"HTTP {answer.status}" if answer.status else answer.text
            if not answer.ok and not answer.may_pass:
                raise self._endpoint.failure(f"Connect did not accept the request PUT {path}", seen)
            if time.monotonic() >= ends_at:
                raise ReadBackFailed(
                    f"Connect does not store the setting enabled={str(enabled).lower()} of {name}",
                    f"answer to PUT {path}: {seen}",
                    f"find out in the log of the Connect worker at {self._endpoint.base_url} why, or which other"
                    f" program changes the configuration of {name}",
                )
            if not enabled and not (status := self.status(name, timeout)).stopped:
                reason = f"{name} can be disabled only while it is STOPPED without tasks"
                raise NotReady(reason, str(status), f"stop {name}; its configuration is unchanged")
            answer = self._put_enabled(path, config, enabled, max(1.0, ends_at - time.monotonic()))
            time.sleep(_POLL_SECONDS)

    def _put_enabled(self, path: str, config: Mapping[str, str], enabled: bool, timeout: float) -> HttpAnswer:
        answer = self._endpoint.attempt("PATCH", path, {_ENABLED: None if enabled else "false"}, timeout)
        if answer.status != requests.codes.not_allowed:
            return answer
        others = {key: value for key, value in config.items() if key != _ENABLED}
        if any(value and not value.strip("*") for value in others.values()):
            raise ReadBackFailed(
                "Connect masks settings, so that a configuration cannot be written back",
                f"GET {path} shows asterisks in place of values",
                f"set enabled={str(enabled).lower()} manually, in the place where this configuration is kept",
            )
        return self._endpoint.attempt("PUT", path, others if enabled else {**others, _ENABLED: "false"}, timeout)

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Return a source connector's last replicated offsets, as of Connect's last flush, up to a minute ago."""
        answer = self._read(f"{connector_path(name)}/offsets", timeout)
        try:
            return ConnectorOffsets.parse(answer)
        except ValueError as error:
            raise self._endpoint.failure(
                f"Connect's offsets of {name} are not those of a MirrorMaker 2 source connector",
                error,
                f"read connector.class with GET {self._endpoint.base_url}{connector_path(name)}/config. If {name} is no"
                " MirrorSourceConnector, correct `connectors` of this flow in the topology; else find out which program"
                f" wrote this entry into the offsets of {name}",
            ) from None

    def change_offsets(
        self, name: str, cluster_alias: str, last_replicated: Mapping[TopicPartition, int | None], timeout: float = 60.0
    ) -> ConnectorOffsets:
        """Set last replicated offsets of a stopped source connector; return all its offsets, as read back.

        Args:
            cluster_alias: the connector's `source.cluster.alias`; Connect would accept another alias without an error.
            last_replicated: by partition: X - 1 to start at X, None to start at 0. Partitions not given keep their
                offsets.

        Raises:
            BadInput: an offset is negative, or the alias is not the connector's.
            NotReady: the connector is not STOPPED, or still has tasks.
            ReadBackFailed: Connect does not store the offsets as written; the message names the partitions.
        """
        self._check_change(name, cluster_alias, last_replicated, timeout)
        before = self.offsets(name, timeout)
        expected = {**before.by_alias, cluster_alias: {**before.of(cluster_alias), **last_replicated}}
        after = self._write_until_read_back(name, cluster_alias, last_replicated, before, expected, timeout)
        differences = offset_differences(expected, after.by_alias)
        if differences:
            raise ReadBackFailed(
                f"Connect does not store the offsets that were written for {name}",
                first_few(differences, 10),
                f"leave {name} STOPPED. Find out in the log of the Connect worker at {self._endpoint.base_url} why the"
                f" offsets were not stored, or which other program changes offsets of {name}",
            )
        return after

    def _check_change(
        self, name: str, alias: str, changes: Mapping[TopicPartition, int | None], timeout: float
    ) -> None:
        """Raise the errors BadInput and NotReady of `change_offsets`, before anything is written."""
        invalid = [
            f"{tp}: {last!r}"
            for tp, last in changes.items()
            if last is not None and (type(last) is not int or last < 0)
        ]
        if invalid:
            raise BadInput(
                "last replicated offsets must be 0 or more, or None to start at 0",
                first_few(invalid, 10),
                f"report this message as a defect of Switchback; no offset of {name} was changed",
            )
        own = self.config(name, timeout).get("source.cluster.alias", _DEFAULT_ALIAS)
        if alias != own:
            raise BadInput(
                f"{name} stores offsets under another alias",
                f"alias in the topology: {alias!r}; source.cluster.alias of the connector: {own!r}",
                "correct the alias in the topology, or source.cluster.alias of the connector; no offset was changed",
            )
        status = self.status(name, timeout)
        if not status.stopped:
            raise NotReady(
                "offsets can be changed only while the connector is STOPPED without tasks",
                str(status),
                f"stop {name} (PUT {connector_path(name)}/stop on the Connect worker), and wait until {name} has no"
                " task; no offset was changed",
            )

    def _write_until_read_back(
        self,
        name: str,
        alias: str,
        changes: Mapping[TopicPartition, int | None],
        before: ConnectorOffsets,
        expected: dict[str, dict[TopicPartition, int | None]],
        timeout: float,
    ) -> ConnectorOffsets:
        """Write changes of offsets until all stored offsets are as `expected`, or time is up; return those read last.

        After a write that the worker did not accept (no answer, a rebalance, a 5xx), the offsets are read before the
        next write.
        """
        stored, ends_at, path, accepted = before, time.monotonic() + timeout, f"{connector_path(name)}/offsets", False
        while changes and offset_differences(expected, stored.by_alias):
            if not accepted:
                answer = self._endpoint.attempt(
                    "PATCH", path, offsets_body(alias, changes), max(1.0, ends_at - time.monotonic())
                )
                accepted = answer.ok
                if not accepted and (not answer.may_pass or time.monotonic() > ends_at):
                    self._endpoint.accept(answer, f"PATCH {path}")
                ends_at = min(ends_at, time.monotonic() + _READ_BACK_SECONDS) if accepted else ends_at
            stored = self.offsets(name, timeout)
            # A busy worker may accept a change some moments before a read shows the change.
            if (accepted and time.monotonic() > ends_at) or not offset_differences(expected, stored.by_alias):
                return stored
            time.sleep(_POLL_SECONDS)
        return stored

    def _reach(
        self, name: str, verb: str, is_reached: Callable[[ConnectorStatus], bool], deadline: float
    ) -> ConnectorStatus:
        """Request a state, wait until the connector reaches this state, and return the state.

        The request is sent again only if the worker did not accept it.

        Args:
            name: the connector's name.
            verb: the request, as in the REST API's path: stop, pause or resume.
            is_reached: returns whether a status is the wanted state.
            deadline: longest wait, in seconds; then DeadlinePassed is raised.

        The request is sent even if the worker already reports the state: a worker that restarts, or was frozen, reports
        an old state and then follows the last accepted request.
        """
        ends_at = time.monotonic() + deadline
        answer = self._request_state(name, verb, deadline)
        while not is_reached(status := self.status(name, max(1.0, ends_at - time.monotonic()))):
            if time.monotonic() >= ends_at:
                seen = f"{status}; answer to {verb}: {answer.seen}"
                raise DeadlinePassed(
                    f"{name} did not {verb} within {deadline:g} s",
                    seen,
                    f"correct the cause that the log of the Connect worker at {self._endpoint.base_url} names; the"
                    " worker may still carry out the request",
                )
            if not answer.ok:
                answer = self._request_state(name, verb, ends_at - time.monotonic())
            time.sleep(_POLL_SECONDS)
        return status

    def _request_state(self, name: str, verb: str, timeout: float) -> HttpAnswer:
        """Send one request (`verb`: stop, pause or resume) for a connector, and return the answer.

        A failure that a second request would also meet, such as a 404 for a connector that does not exist, is raised as
        ConnectUnavailable; any other failure is returned.
        """
        answer = self._endpoint.attempt("PUT", f"{connector_path(name)}/{verb}", timeout=max(1.0, timeout))
        if not answer.ok and not answer.may_pass:
            self._endpoint.accept(answer, f"PUT {connector_path(name)}/{verb}")
        return answer


def _is_enabled(config: Mapping[str, str]) -> bool:
    return str(config.get(_ENABLED, "true")).strip().lower() != "false"
