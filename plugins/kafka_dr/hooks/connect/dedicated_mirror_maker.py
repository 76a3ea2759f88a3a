"""MirrorMaker 2 in dedicated mode, without a REST API, behind the interface of a Connect worker.

The stop hook counts running processes, MirrorMaker 2's offsets topic on the target states what was replicated, and
the topology states the settings. The only possible change is to stop the processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, DeadlinePassed
from kafka_dr.hooks.connect.mirror_maker import ConnectorOffsets, ConnectorStatus, ConnectWorker
from kafka_dr.hooks.site.stop import StopHook

KeyAndValue = tuple[bytes | None, bytes | None]

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)
_POLL_SECONDS = 0.2


class DedicatedMirrorMaker:
    """A dedicated flow behind the interface of `hooks.connect.mirror_maker.MirrorMaker`, as far as possible.

    Args:
        source, target: the flow's aliases.
        connectors: names of the source and the checkpoint connector: in dedicated mode those of their classes.
        settings: MirrorMaker 2's configuration, by the topology.
        hook: stops the flow's processes and counts them.
        read: reads a whole topic of the target: keys and values in the order written.
    """

    def __init__(
        self,
        source: str,
        target: str,
        connectors: tuple[str, str],
        settings: Mapping[str, str],
        hook: StopHook,
        read: Callable[[str], Iterable[KeyAndValue]],
    ) -> None:
        self._source, self._flow, self._connectors = source, f"{source}->{target}", connectors
        # Dedicated mode sets the converters itself.
        self._settings = {**_CONVERTERS, "source.cluster.alias": source, "target.cluster.alias": target, **settings}
        self._hook, self._read = hook, read

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Version and cluster id are unknown: empty texts."""
        return ConnectWorker("", "")

    def connectors(self) -> list[str]:
        """Both connectors, as the topology states them."""
        return sorted(self._connectors)

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """The stated configuration, the same for every connector of the process."""
        return dict(self._settings)

    def status(self, name: str, timeout: float = 10.0) -> ConnectorStatus:
        """RUNNING with a task for each process that the hook counts, else STOPPED."""
        running = self._hook.running(self._flow, timeout=timeout)
        return ConnectorStatus(name, "RUNNING" if running else "STOPPED", dict.fromkeys(range(running), "RUNNING"))

    def stop(self, name: str, deadline: float = 120.0) -> ConnectorStatus:
        """Have the processes stopped, with all connectors; return when the hook counts no process.

        Raises:
            DeadlinePassed: processes still run at the deadline.
        """
        ends_at = time.monotonic() + deadline
        if not self.status(name).stopped:
            self._hook.stop(self._flow)
        while not (status := self.status(name)).stopped:
            if time.monotonic() >= ends_at:
                raise DeadlinePassed(
                    f"{self._flow} did not stop within {deadline:g} s",
                    str(status),
                    "end its processes by hand, then try again",
                )
            time.sleep(_POLL_SECONDS)
        return status

    def resume(self, name: str, deadline: float = 60.0, needs_tasks: bool = True) -> ConnectorStatus:
        """Refused with BadInput: the hook can only stop processes."""
        raise BadInput(
            f"MirrorMaker 2 of {self._flow} runs in dedicated mode, without a REST API",
            "its stop hook can only stop it",
            "start its processes by hand",
        )

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Read the last replicated offset per partition, as of the last flush; skip records of other programs."""
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
