"""The connectors of one flow as a whole; several source connectors may share its topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import cast

from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets, ConnectorStatus, ConnectWorker
from kafka_dr.hooks.connect.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker

_CLASSES = frozenset({"MirrorSourceConnector", "MirrorCheckpointConnector"})
_READ_SECONDS, _OFFSET_SECONDS = 30.0, 60.0


class FlowConnectors:
    """Reads and changes the connectors of one flow, each in the Connect worker that runs it.

    Attributes:
        sources: names of the source connectors, which mirror the flow's topics.
        checkpoint: name of the checkpoint connector.
        names: both, source connectors first.
        workers: each worker with its connectors; the first runs the source connectors.
    """

    def __init__(
        self,
        flow: Flow,
        naming: Naming,
        worker: MirrorMaker,
        checkpoint_worker: MirrorMaker | None = None,
    ) -> None:
        """Create the client; no request is sent yet.

        Args:
            worker: the client of the worker with the source connectors, or a DedicatedMirrorMaker in its place.
            checkpoint_worker: the client of the worker with the checkpoint connector; None: the same worker.
        """
        self._flow, self._naming = flow, naming
        self.sources, self.checkpoint = flow.connectors.source, flow.connectors.checkpoint.name
        self.names = flow.connectors.names
        self.workers: list[tuple[MirrorMaker, tuple[str, ...]]] = [(worker, self.names)]
        if checkpoint_worker is not None:
            self.workers = [(worker, self.sources), (checkpoint_worker, (self.checkpoint,))]

    def worker(self, timeout: float = _READ_SECONDS) -> ConnectWorker:
        """Return version and Kafka cluster id of the worker that runs the source connectors."""
        return self.workers[0][0].worker(timeout=timeout)

    def existing(self, timeout: float = _READ_SECONDS) -> tuple[str, ...]:
        """Return the names of the flow's connectors that exist, source connectors first."""
        return tuple(name for host, names in self.workers for name in host.existing(names, timeout=timeout))

    def unnamed(self, timeout: float = _READ_SECONDS) -> list[tuple[ConnectorStatus, dict[str, str]]]:
        """Return state and configuration of connectors that the topology does not name, and that are of the flow, too.

        Such a connector of the flow's workers has the flow's aliases, and a class of MirrorMaker 2.
        """
        return [
            (status, config)
            for host, _ in self.workers
            for name, (status, config) in host.every_connector(timeout=timeout).items()
            if name not in self.names and self._is_of_flow(config)
        ]

    def _is_of_flow(self, config: Mapping[str, str]) -> bool:
        aliases = (config.get("source.cluster.alias"), config.get("target.cluster.alias"))
        kind = config.get("connector.class", "").rpartition(".")[2]
        return aliases == (self._flow.source, self._flow.target) and kind in _CLASSES

    def config(self, name: str, timeout: float = _READ_SECONDS) -> dict[str, str]:
        """Return a connector's configuration; the value of a key that looks like a secret's is `[hidden]`."""
        return self._host(name).config(name, timeout=timeout)

    def client_settings(self, name: str, role: str, timeout: float = _READ_SECONDS) -> dict[str, str]:
        """Return the client settings of a connector for the cluster in a role, `source` or `target`, with secrets."""
        return self._host(name).client_settings(name, f"{role}.cluster.", timeout=timeout)

    def tasks_by_partition(self, timeout: float = _READ_SECONDS) -> dict[str, tuple[str, int]]:
        """Return partition, such as `orders-3` -> source connector and id of the task that copies it."""
        return {
            str(partition): (name, task)
            for name in self.workers[0][0].existing(self.sources, timeout=timeout)
            for task, partitions in self._host(name).assigned_partitions(name, timeout=timeout).items()
            for partition in partitions
        }

    def source_config(self, timeout: float = _READ_SECONDS) -> dict[str, str]:
        """Return the first source connector's configuration, for settings that are the same in all of them."""
        return self.config(self.sources[0], timeout)

    def topic_filter(self, timeout: float = _READ_SECONDS) -> FlowFilter:
        """Return which topics the flow mirrors, by the source connectors' configurations now."""
        configs = {name: self.config(name, timeout) for name in self.sources}
        return FlowFilter(configs, self._naming, self._flow.target, self.worker(timeout).version)

    def status(self, name: str, timeout: float = _READ_SECONDS) -> ConnectorStatus:
        """Return the state of one connector and of its tasks."""
        return self._host(name).status(name, timeout=timeout)

    def not_stopped(self, timeout: float = _READ_SECONDS) -> list[ConnectorStatus]:
        """Return the states of the source connectors that exist and are not STOPPED without tasks."""
        statuses = (self.status(name, timeout) for name in self.workers[0][0].existing(self.sources, timeout=timeout))
        return [status for status in statuses if not status.stopped]

    def stop(self, name: str, deadline: float) -> ConnectorStatus:
        """Stop a connector, and return its state once it is STOPPED without tasks; else raise DeadlinePassed."""
        return self._host(name).stop(name, deadline=deadline)

    def stop_sources(self, deadline: float) -> None:
        """Stop all source connectors at once; return once all are STOPPED without tasks; else raise DeadlinePassed."""
        with ThreadPoolExecutor(len(self.sources)) as pool:
            list(pool.map(lambda name: self.stop(name, deadline), self.sources))

    def resume(self, name: str, deadline: float, needs_tasks: bool = True) -> ConnectorStatus:
        """Resume a connector, and return its state once connector and tasks are RUNNING; see `MirrorMaker.resume`."""
        return self._host(name).resume(name, deadline=deadline, needs_tasks=needs_tasks)

    def can_resume(self, timeout: float = _READ_SECONDS) -> bool:
        """Whether the flow can be resumed: in a Connect worker always, in dedicated mode if its hook starts it."""
        host = self.workers[0][0]
        return host.sets_offsets(self.sources[0], timeout) if isinstance(host, DedicatedMirrorMaker) else True

    def offsets_problem(self) -> str:
        """Return why offsets of a flow in dedicated mode cannot be set; "" if they can, and in a Connect worker."""
        processes = self.workers[0][0]
        return processes.offsets_problem(self.sources[0]) if isinstance(processes, DedicatedMirrorMaker) else ""

    def with_kept_settings(self) -> FlowConnectors | None:
        """Return the same connectors, with the settings that the stop hook reads where people keep them.

        None if the stop hook does not report settings. With a Connect worker these are the connectors themselves.
        """
        processes = self.workers[0][0]
        if not isinstance(processes, DedicatedMirrorMaker):
            return self
        kept = processes.with_kept_settings()
        return None if kept is None else FlowConnectors(self._flow, self._naming, cast("MirrorMaker", kept))

    def is_enabled(self, name: str, timeout: float = _READ_SECONDS) -> bool:
        """Whether a resume starts tasks of a source connector; see `MirrorMaker.is_enabled`."""
        return self._host(name).is_enabled(name, timeout)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Set `enabled` of a source connector; see `MirrorMaker.set_enabled`."""
        self._host(name).set_enabled(name, enabled)

    def change_settings(self, name: str, wanted: Mapping[str, str | None]) -> None:
        """Set or remove settings of a STOPPED connector; see `ConnectorSettings.change_settings`."""
        self._host(name).change_settings(name, wanted)

    def assigned_partitions(self, timeout: float = _READ_SECONDS) -> dict[str, list[TopicPartition]]:
        """Return task (`CONNECTOR task N`) -> source partitions that it mirrors, of all source connectors."""
        return {
            f"{name} task {task}": partitions
            for name in self.sources
            for task, partitions in self._host(name).assigned_partitions(name, timeout).items()
        }

    def connectors_with(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the source connectors that mirror one of these topics of the flow; a lone one is not asked."""
        return frozenset(self.sources) if len(self.sources) == 1 else self.topic_filter().connectors_with(topics)

    def offsets(self, timeout: float = _OFFSET_SECONDS) -> ConnectorOffsets:
        """Return the flow's last replicated offsets, each from the connector that mirrors the partition's topic."""
        return self._joined({name: self._host(name).offsets(name, timeout=timeout) for name in self.sources}, timeout)

    def change_offsets(
        self, last_replicated: Mapping[TopicPartition, int | None], hold: Callable[[], object]
    ) -> ConnectorOffsets:
        """Set last replicated offsets, each in the connector that mirrors the topic; return all offsets as read back.

        Args:
            last_replicated: by partition: X - 1 to start at X, None to start at 0. Partitions not given keep their
                offsets.
            hold: called before the offsets of each connector are changed; raises an error if they must not be.

        Raises:
            NotReady: a source connector is not STOPPED, or still has tasks; see also `MirrorMaker.change_offsets`.
        """
        stored: dict[str, ConnectorOffsets] = {}
        for name, share in self.shares_of(last_replicated).items():
            hold()
            stored[name] = self._host(name).change_offsets(name, self._flow.source, share)
        return self._joined(stored)

    def shares_of(self, offsets: Mapping[TopicPartition, int | None]) -> dict[str, dict[TopicPartition, int | None]]:
        """Return source connector -> those of the given offsets that are to be seeded in this connector."""
        if len(self.sources) == 1:
            return {self.sources[0]: dict(offsets)}
        owners = self.topic_filter().connectors_of
        hosts = {topic: owners(topic) for topic in {tp.topic for tp in offsets}}
        return {name: {tp: last for tp, last in offsets.items() if name in hosts[tp.topic]} for name in self.sources}

    def _host(self, name: str) -> MirrorMaker:
        """Return the client of the worker that runs a connector; in dedicated mode `source->target` is a name, too."""
        return self.workers[-1 if name == self.checkpoint else 0][0]

    def _joined(self, stored: Mapping[str, ConnectorOffsets], timeout: float = _READ_SECONDS) -> ConnectorOffsets:
        """Return the offsets of all source connectors as those of one flow.

        An offset in a connector that does not mirror the topic, or not any more, does not count.
        """
        if len(stored) == 1:
            return next(iter(stored.values()))
        owners = cache(self.topic_filter(timeout).connectors_of)
        joined: dict[str, dict[TopicPartition, int | None]] = {}
        for name, alias, tp, last in _entries(stored):
            offsets = joined.setdefault(alias, {})
            if name in owners(tp.topic):
                offsets[tp] = max(last, offsets.get(tp), key=lambda offset: -1 if offset is None else offset)
        return ConnectorOffsets(joined)


def _entries(stored: Mapping[str, ConnectorOffsets]) -> Iterator[tuple[str, str, TopicPartition, int | None]]:
    """Yield connector, source alias, partition and last replicated offset of each offset that Connect stores."""
    for name, offsets in stored.items():
        for alias, by_partition in offsets.by_alias.items():
            yield from ((name, alias, tp, last) for tp, last in by_partition.items())
