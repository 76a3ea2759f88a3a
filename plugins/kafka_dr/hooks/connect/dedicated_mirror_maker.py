"""MirrorMaker 2 in dedicated mode, without a REST API, with the same Python methods as a Connect worker.

The stop hook counts the running processes, MirrorMaker 2's offsets topic on the target states what was replicated, and
the topology states the settings. The only possible change is to stop the processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, DeadlinePassed
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets, ConnectorStatus, ConnectWorker
from kafka_dr.hooks.site.stop import StopHook

KeyAndValue = tuple[bytes | None, bytes | None]

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)
_POLL_SECONDS = 0.2


class DedicatedMirrorMaker:
    """Reads and stops one flow in dedicated mode, with methods named like those of `mirror_maker.MirrorMaker`.

    Args:
        source, target: the aliases of the flow's clusters.
        connectors: names of the source and the checkpoint connector; dedicated mode names them after their classes.
        settings: MirrorMaker 2's configuration, as the topology states it.
        hook: stops the flow's processes and counts them.
        read: reads a whole topic of the target; returns keys and values in the order written.
    """

    def __init__(
        self,
        source: str,
        target: str,
        connectors: tuple[str, ...],
        settings: Mapping[str, str],
        hook: StopHook,
        read: Callable[[str], Iterable[KeyAndValue]],
    ) -> None:
        self._source, self._flow, self._connectors = source, f"{source}->{target}", connectors
        # The topology does not state the converters: dedicated mode always sets these.
        self._settings = {**_CONVERTERS, "source.cluster.alias": source, "target.cluster.alias": target, **settings}
        self._hook, self._read = hook, read

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Return a worker with empty version and cluster id: in dedicated mode both are unknown."""
        return ConnectWorker("", "")

    def sets_offsets(self, name: str, timeout: float = 30.0) -> bool:
        """Return False: offsets in MirrorMaker 2's offsets topic are only read."""
        return False

    def existing(self, names: Iterable[str], timeout: float = 30.0) -> list[str]:
        """Return those of the named connectors that the topology states for the flow."""
        return [name for name in names if name in self._connectors]

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """Return the settings that the topology states: the same for every connector of the process."""
        return dict(self._settings)

    def client_settings(self, name: str, prefix: str, timeout: float = 30.0) -> dict[str, str]:
        """Return {}: the topology states no login of MirrorMaker 2."""
        return {}

    def assignments(self, name: str, timeout: float = 30.0) -> dict[int, tuple[str, ...]]:
        """Return {}: which process copies a partition is unknown."""
        return {}

    def status(self, name: str, timeout: float = 10.0) -> ConnectorStatus:
        """Return RUNNING with one task per process that the stop hook counts; STOPPED if the hook counts none."""
        running = self._hook.running(self._flow, timeout=timeout)
        return ConnectorStatus(name, "RUNNING" if running else "STOPPED", dict.fromkeys(range(running), "RUNNING"))

    def stop(self, name: str, deadline: float = 120.0) -> ConnectorStatus:
        """Have the flow's processes stopped, with all their connectors; return once the stop hook counts no process.

        Raises:
            DeadlinePassed: processes still run after `deadline` seconds.
        """
        ends_at = time.monotonic() + deadline
        if not self.status(name).stopped:
            self._hook.stop(self._flow)
        while not (status := self.status(name)).stopped:
            if time.monotonic() >= ends_at:
                raise DeadlinePassed(
                    f"{self._flow} did not stop within {deadline:g} s",
                    str(status),
                    f"end MirrorMaker 2's processes of {self._flow} manually, on the machines where they run",
                )
            time.sleep(_POLL_SECONDS)
        return status

    def resume(self, name: str, deadline: float = 60.0, needs_tasks: bool = True) -> ConnectorStatus:
        """Always raise BadInput: the stop hook cannot start processes."""
        raise BadInput(
            f"MirrorMaker 2 of {self._flow} runs in dedicated mode, without a REST API",
            "its stop hook can stop MirrorMaker 2, but not start it",
            f"start MirrorMaker 2 of {self._flow} manually",
        )

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Return the last replicated source offset by partition, as last flushed to MirrorMaker 2's offsets topic.

        Records of the offsets topic that MirrorMaker 2 did not write are skipped.
        """
        topic = self._settings.get("offset.storage.topic", f"mm2-offsets.{self._source}.internal")
        by_alias: dict[str, dict[TopicPartition, int | None]] = {}
        for key, value in self._read(topic):
            try:
                connector, source_partition = read_json(key or b"")
                partition, offset = (
                    TopicPartition(source_partition["topic"], int(source_partition["partition"])),
                    (int(read_json(value)["offset"]) if value else None),
                )
                if connector == name:
                    by_alias.setdefault(source_partition["cluster"], {})[partition] = offset
            except (KeyError, TypeError, ValueError):
                continue
        return ConnectorOffsets(by_alias)
