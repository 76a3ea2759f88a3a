"""Changes settings of connectors in one Connect worker, and reads which partitions each of their tasks mirrors."""

from __future__ import annotations

import time
from collections.abc import Mapping

import requests

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady, ReadBackFailed
from kafka_dr.hooks.connect.worker_reader import WorkerReader, connector_path
from kafka_dr.hooks.json_endpoint import HttpAnswer

_POLL_SECONDS = 0.2
_ENABLED, _ASSIGNED = "enabled", "task.assigned.partitions"


class ConnectorSettings(WorkerReader):
    """Reads and changes the settings of the connectors of one Connect worker."""

    def is_enabled(self, name: str, timeout: float = 30.0) -> bool:
        """Whether a connector's setting `enabled` is not false; with false MirrorMaker 2 starts no task on a resume."""
        return _is_enabled(self._read(f"{connector_path(name)}/config", timeout))

    def set_enabled(self, name: str, enabled: bool, timeout: float = 30.0) -> None:
        """Set a connector's `enabled` to false, or remove this setting, whose default is true; read it back.

        A connector that is to be disabled must be STOPPED.

        Raises:
            NotReady, ReadBackFailed: as `change_settings`.
        """
        if self.is_enabled(name, timeout) != enabled:
            wanted = {_ENABLED: None if enabled else "false"}
            self.change_settings(name, wanted, timeout, may_run=enabled)

    def change_settings(
        self, name: str, wanted: Mapping[str, str | None], timeout: float = 30.0, may_run: bool = False
    ) -> None:
        """Set some settings of a STOPPED connector, or remove them (None); read them back.

        Connect before 3.8 accepts only a whole configuration: all other settings are then sent as they were read, and
        stay in memory.

        Args:
            may_run: whether the connector need not be STOPPED; Connect restarts all tasks of a connector that runs.

        Raises:
            NotReady: the connector is not STOPPED, or still has tasks.
            ReadBackFailed: Connect still reports other values after `timeout` seconds, or masks the other settings.
        """
        ends_at, path = time.monotonic() + timeout, f"{connector_path(name)}/config"
        answer = HttpAnswer(requests.codes.ok)
        while any((config := self._read(path, timeout)).get(key) != value for key, value in wanted.items()):
            # The text of an answer may repeat settings, and with them a password.
            seen = f"HTTP {answer.status}" if answer.status else answer.text
            if not answer.ok and not answer.may_pass:
                raise self._endpoint.failure(f"Connect did not accept the request PUT {path}", seen)
            if time.monotonic() >= ends_at:
                shown = ", ".join(key if value is None else f"{key}={value}" for key, value in wanted.items())
                raise ReadBackFailed(
                    f"Connect does not store the setting {shown} of {name}",
                    f"answer to PUT {path}: {seen}",
                    f"find out in the log of the Connect worker at {self._endpoint.base_url} why, or which other"
                    f" program changes the configuration of {name}",
                )
            if not may_run and not (status := self.status(name, timeout)).stopped:
                reason = f"settings of {name} can be changed only while it is STOPPED without tasks"
                raise NotReady(reason, str(status), f"stop {name}; its configuration is unchanged")
            answer = self._put_settings(path, config, wanted, max(1.0, ends_at - time.monotonic()))
            time.sleep(_POLL_SECONDS)

    def _put_settings(
        self, path: str, config: Mapping[str, str], wanted: Mapping[str, str | None], timeout: float
    ) -> HttpAnswer:
        answer = self._endpoint.attempt("PATCH", path, dict(wanted), timeout)
        if answer.status != requests.codes.not_allowed:
            return answer
        whole = {key: value for key, value in {**config, **wanted}.items() if value is not None}
        if any(value and not value.strip("*") for value in whole.values()):
            raise ReadBackFailed(
                "Connect masks settings, so that a configuration cannot be written back",
                f"GET {path} shows asterisks in place of values",
                f"set {', '.join(wanted)} manually, in the place where this configuration is kept",
            )
        return self._endpoint.attempt("PUT", path, whole, timeout)

    def assigned_partitions(self, name: str, timeout: float = 30.0) -> dict[int, list[TopicPartition]]:
        """Return task id -> source partitions that the task of a source connector mirrors, by the task's settings."""
        tasks = self._read(f"{connector_path(name)}/tasks", timeout, list)
        return {int(task["id"]["task"]): _partitions_in(task["config"].get(_ASSIGNED, "")) for task in tasks}


def _partitions_in(text: str) -> list[TopicPartition]:
    pairs = (item.strip().rpartition("-") for item in text.split(",") if item.strip())
    return [TopicPartition(topic, int(partition)) for topic, _, partition in pairs]


def _is_enabled(config: Mapping[str, str]) -> bool:
    return str(config.get(_ENABLED, "true")).strip().lower() != "false"
