"""MirrorMaker 2 in dedicated mode, in the place of a Connect worker: it has no REST API to ask.

What runs is told by its stop hook, what was replicated by its own topic of offsets on the target, and its settings are
those that the topology states. It can be stopped, and nothing else.
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
    """A dedicated flow behind the interface of `hooks.mirror_maker.MirrorMaker`, as far as it can be answered.

    Args:
        source, target: the flow's aliases.
        connectors: names of the source and the checkpoint connector: in dedicated mode those of their classes.
        settings: what MirrorMaker 2 is stated to be told.
        read: reads a topic of the target whole: keys and values in the order written.
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
        """Nobody tells of which version it is, and where it stores its state."""
        return ConnectWorker("", "")

    def connectors(self) -> list[str]:
        """Both are there, by the topology's word."""
        return sorted(self._connectors)

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """As stated: every connector of the process is told all of it."""
        return dict(self._settings)

    def status(self, name: str, timeout: float = 10.0) -> ConnectorStatus:
        """RUNNING with a task for each process that the hook counts, else STOPPED."""
        running = self._hook.running(self._flow, timeout=timeout)
        return ConnectorStatus(name, "RUNNING" if running else "STOPPED", dict.fromkeys(range(running), "RUNNING"))

    def stop(self, name: str, deadline: float = 120.0) -> ConnectorStatus:
        """Have the processes ended, all connectors with them; returns when the hook counts none."""
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
        """Refused: the hook only stops."""
        raise BadInput(
            f"MirrorMaker 2 of {self._flow} runs in dedicated mode, without a REST API",
            "its stop hook can only stop it",
            "start its processes by hand",
        )

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Read the last replicated offset per partition, as of the last flush; skip records not MirrorMaker 2's."""
        topic = self._settings.get("offset.storage.topic", f"mm2-offsets.{self._source}.internal")
        by_alias: dict[str, dict[TopicPartition, int | None]] = {}
        for key, value in self._read(topic):
            try:
                connector, where = read_json(key or b"")
                partition, offset = (
                    TopicPartition(where["topic"], int(where["partition"])),
                    (int(read_json(value)["offset"]) if value else None),
                )
                if connector == name:
                    by_alias.setdefault(where["cluster"], {})[partition] = offset
            except (KeyError, TypeError, ValueError):
                continue
        return ConnectorOffsets(by_alias)
