"""MirrorMaker 2 without a REST API, as in dedicated mode, with the same Python methods as a Connect worker.

The site's stop hook counts, stops and starts the running processes, MirrorMaker 2's offsets topic on the target states
what was replicated, and the topology states the settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Self

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, DeadlinePassed, NotReady
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets, ConnectorStatus, ConnectWorker, without_secrets
from kafka_dr.hooks.connect.offset_changes import refuse_invalid
from kafka_dr.hooks.connect.offsets_topic import OffsetsTopic
from kafka_dr.hooks.site.stop import StopHook

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS = dict.fromkeys(("key.converter", "value.converter", "header.converter"), _BYTES)
_ALIASES = ("source.cluster.alias", "target.cluster.alias")
ISOLATION = "source.consumer.isolation.level"
_POLL_SECONDS = 0.2


class DedicatedMirrorMaker:
    """Reads, stops and starts one flow by its hook, with methods named like those of `mirror_maker.MirrorMaker`.

    Args:
        source, target: the aliases of the flow's clusters.
        connectors: names of the source and the checkpoint connector; dedicated mode names them after their classes.
        settings: MirrorMaker 2's configuration, as the topology states it.
        hook: stops and starts the flow's processes, and counts them.
        offsets_topic: the topic in which the processes store offsets.
        group: the worker group of the flow's processes; None if its id is unknown.
        count_members: returns how many members a group of the target has.
    """

    def __init__(
        self,
        source: str,
        target: str,
        connectors: tuple[str, ...],
        settings: Mapping[str, str],
        hook: StopHook,
        offsets_topic: OffsetsTopic,
        group: str | None,
        count_members: Callable[[str], int],
    ) -> None:
        self._source, self._flow, self._connectors = source, f"{source}->{target}", connectors
        # The topology does not state the converters: dedicated mode always sets these.
        self._settings = {**_CONVERTERS, "source.cluster.alias": source, "target.cluster.alias": target, **settings}
        self._hook, self._offsets_topic, self._group, self._count_members = hook, offsets_topic, group, count_members

    def worker(self, timeout: float = 30.0) -> ConnectWorker:
        """Return a worker with empty version and cluster id: in dedicated mode both are unknown."""
        return ConnectWorker("", "")

    def sets_offsets(self, name: str, timeout: float = 30.0) -> bool:
        """Whether the flow can be started again after its offsets were set: the hook says that it starts processes."""
        return self._hook.starts(self._flow, timeout=timeout)

    def existing(self, names: Iterable[str], timeout: float = 30.0) -> list[str]:
        """Return those of the named connectors that the topology states for the flow."""
        return [name for name in names if name in self._connectors]

    def every_connector(self, timeout: float = 30.0) -> dict[str, tuple[ConnectorStatus, dict[str, str]]]:
        """Return {}: the process is asked for no connector."""
        return {}

    def config(self, name: str, timeout: float = 30.0) -> dict[str, str]:
        """Return the settings that the topology states: the same for every connector of the process."""
        return dict(self._settings)

    def with_kept_settings(self) -> Self | None:
        """Return a client whose settings are those that the hook reads where people keep them; None if it does not."""
        kept = self._hook.settings(self._flow)
        if kept is None:
            return None
        own = {key: self._settings[key] for key in self._settings if key in (*_CONVERTERS, *_ALIASES, ISOLATION)}
        client = copy(self)
        client._settings = {**own, **without_secrets(kept)}  # noqa: SLF001 (an object of this class)
        return client

    def client_settings(self, name: str, prefix: str, timeout: float = 30.0) -> dict[str, str]:
        """Return {}: the topology states no login of MirrorMaker 2."""
        return {}

    def assigned_partitions(self, name: str, timeout: float = 30.0) -> dict[int, list[TopicPartition]]:
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
        """Have the flow's processes started, with all their connectors; return once the stop hook counts a process.

        Raises:
            BadInput: the hook does not say that it starts processes.
            DeadlinePassed: no process runs after `deadline` seconds.
        """
        ends_at = time.monotonic() + deadline
        if not self._hook.starts(self._flow):
            raise BadInput(
                f"MirrorMaker 2 of {self._flow} runs in dedicated mode, without a REST API",
                "its stop hook can stop MirrorMaker 2, but not start it",
                f"start MirrorMaker 2 of {self._flow} manually",
            )
        if self.status(name).stopped:
            self._hook.start(self._flow)
        while (status := self.status(name)).stopped:
            if time.monotonic() >= ends_at:
                raise DeadlinePassed(
                    f"{self._flow} did not start within {deadline:g} s",
                    str(status),
                    f"read the log of MirrorMaker 2's processes of {self._flow}, on the machines where they run",
                )
            time.sleep(_POLL_SECONDS)
        return status

    def offsets(self, name: str, timeout: float = 60.0) -> ConnectorOffsets:
        """Return the last replicated source offset by partition, as last flushed to MirrorMaker 2's offsets topic.

        Entries that MirrorMaker 2 did not write, and passes over, are left out.
        """
        return self._offsets_topic.offsets(name, timeout)

    def offsets_problem(self, name: str) -> str:
        """Return why offsets of the source connector cannot be set while no process runs; "" if they can.

        While processes run, their group must have members: else it is not their group, and proves nothing of them.
        """
        running = len(self.status(name).tasks)
        if running and self._group is not None and not self._count_members(self._group):
            return f"{running} processes run by the stop hook, but their worker group {self._group} has no member"
        return self._offsets_topic.problem(name)

    def change_offsets(
        self, name: str, cluster_alias: str, last_replicated: Mapping[TopicPartition, int | None], timeout: float = 60.0
    ) -> ConnectorOffsets:
        """Set last replicated offsets in the offsets topic while no process runs; see `MirrorMaker.change_offsets`.

        A process that was killed is a member of its group until its session times out, 10 s by default: this is waited
        for, because only then it is certain that no member stores offsets.

        Raises:
            BadInput: an offset is negative, or the alias is not the flow's.
            NotReady: a process runs; or the topic cannot be used, as in `OffsetsTopic.change`.
            DeadlinePassed: the hook counts no process, but the worker group still has a member.
            ReadBackFailed: the topic does not hold the offsets as written.
        """
        refuse_invalid(name, last_replicated)
        own, ends_at = self._settings["source.cluster.alias"], time.monotonic() + timeout
        if cluster_alias != own:
            raise BadInput(
                f"{name} stores offsets under another alias",
                f"alias in the topology: {cluster_alias!r}; source.cluster.alias of the connector: {own!r}",
                "correct the alias in the topology, or source.cluster.alias of the connector; no offset was changed",
            )
        if not (status := self.status(name)).stopped:
            raise NotReady(
                f"offsets of {self._flow} can be changed only while no process of it runs",
                str(status),
                f"stop MirrorMaker 2 of {self._flow}; no offset was changed",
            )
        self._await_no_member(ends_at)
        return self._offsets_topic.change(name, cluster_alias, last_replicated, max(1.0, ends_at - time.monotonic()))

    def _await_no_member(self, ends_at: float) -> None:
        while self._group is not None and (members := self._count_members(self._group)):
            if time.monotonic() >= ends_at:
                raise DeadlinePassed(
                    f"The worker group of {self._flow} still has members, though the stop hook counts no process",
                    f"group {self._group}: {members} members",
                    f"End MirrorMaker 2's processes of {self._flow} manually, on the machines where they run, and find"
                    " out why the stop hook does not count them. No offset was changed.",
                )
            time.sleep(_POLL_SECONDS)
