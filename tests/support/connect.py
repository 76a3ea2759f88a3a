"""A Connect worker, and the hooks that fence and stop, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, HookUnavailable, NotReady
from kafka_dr.hooks.site.fence import FenceAnswer


class Worker:
    """Stand-in for a Connect worker: connectors by name, with their states."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.asked: list[tuple[str, str]] = []
        self.needs_tasks: dict[str, bool] = {}
        self.offsets_set: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        #: Settings of single connectors; all others have `settings`.
        self.configs: dict[str, dict[str, str]] = {}
        self.assigned: dict[str, dict[int, list[TopicPartition]]] = {}
        self.disabled: set[str] = set()
        self.version, self.is_old = "4.3.1", False
        self.kafka_cluster_id = "id-standby"
        self.replicated: dict[TopicPartition, int | None] = {TopicPartition("orders", 0): 9}
        self.kept: dict[str, dict[TopicPartition, int | None]] = {}
        self.misspelt: frozenset[str] = frozenset()
        self.late: set[str] = set()
        self.away = False

    def answer(self) -> None:
        """Raise an error if the worker is away."""
        if self.away:
            raise ConnectUnavailable("the request GET /connectors to Connect failed", "no connection", "check Connect")

    def worker(self, timeout: float = 30.0) -> Any:
        """Return the worker's version, and its Kafka cluster: the standby, unless the test has set another."""
        self.answer()
        return SimpleNamespace(version=self.version, kafka_cluster_id=self.kafka_cluster_id)

    def sets_offsets(self, name: str, timeout: float = 30.0) -> bool:
        """Return whether offsets can be set; an old worker cannot."""
        self.answer()
        return not self.is_old

    def connectors(self, **_: Any) -> list[str]:
        """Return the connectors' names."""
        self.answer()
        return list(self.states)

    def existing(self, names: Iterable[str], **_: Any) -> list[str]:
        """Return those of the named connectors that exist."""
        self.answer()
        return [name for name in names if name in self.states]

    def config(self, name: str, **_: Any) -> dict[str, str]:
        """Return a connector's settings; {} unless the test has set some."""
        self.answer()
        return self.configs.get(name, self.settings)

    def every_connector(self, **_: Any) -> dict[str, tuple[Any, dict[str, str]]]:
        """Return state and settings of all connectors."""
        self.answer()
        return {name: (self.status(name), self.config(name)) for name in self.states}

    def change_settings(self, name: str, wanted: Mapping[str, str | None]) -> None:
        """Change and record settings of a connector; one that runs accepts none."""
        if self.states[name] != "STOPPED":
            raise NotReady(f"settings of {name} can be changed only while it is STOPPED", self.states[name], "stop it")
        self.asked.append(("change", name))
        changed = {**self.config(name), **wanted}
        self.configs[name] = {key: value for key, value in changed.items() if value is not None}

    def assigned_partitions(self, name: str, timeout: float = 30.0) -> dict[int, list[TopicPartition]]:
        """Return the partitions of each task, as the test has set them."""
        return self.assigned.get(name, {})

    def is_enabled(self, name: str, timeout: float = 30.0) -> bool:
        """Return whether a resume starts tasks."""
        self.answer()
        return name not in self.disabled

    def set_enabled(self, name: str, enabled: bool, timeout: float = 30.0) -> None:
        """Enable or disable a connector and record the request."""
        self.asked.append(("enable" if enabled else "disable", name))
        (self.disabled.discard if enabled else self.disabled.add)(name)

    def offsets(self, name: str, timeout: float = 60.0) -> Any:
        """Return the stored offsets: ten records were replicated, unless the test has set other offsets."""
        self.answer()
        return SimpleNamespace(of=lambda alias: self.kept.get(name, self.replicated), aliases=self.misspelt)

    def status(self, name: str, timeout: float = 30.0) -> Any:
        """Return state and tasks."""
        self.answer()
        self.answer()
        state = self.states[name]
        return SimpleNamespace(
            name=name,
            state=state,
            tasks={0: "RUNNING"} if state == "RUNNING" else {},
            traces={},
            stopped=state == "STOPPED",
            running=state == "RUNNING",
        )

    def ask_to_stop(self, name: str, timeout: float) -> None:
        """Stop a connector and record the request; a late connector is not stopped yet."""
        self.answer()
        self.asked.append(("stop", name))
        if name not in self.late:
            self.states[name] = "STOPPED"

    def stop(self, name: str, deadline: float) -> None:
        """Stop a connector and record the request; a late connector does not stop in time."""
        self.asked.append(("stop", name))
        if name in self.late:
            raise DeadlinePassed(
                f"{name} did not stop within {deadline:g} s", "its tasks still run", "look at the worker's log"
            )
        self.states[name] = "STOPPED"

    def resume(self, name: str, deadline: float, needs_tasks: bool = True) -> None:
        """Resume a connector and record the request."""
        self.asked.append(("resume", name))
        self.needs_tasks[name] = needs_tasks
        self.states[name] = "RUNNING"

    def change_offsets(self, name: str, alias: str, seeds: Mapping[TopicPartition, int | None]) -> Any:
        """Store and record the seeds; a connector that runs accepts no offsets."""
        if self.states[name] != "STOPPED":
            raise NotReady("offsets can be changed only while the connector is STOPPED", self.states[name], "stop it")
        self.offsets_set[name] = dict(seeds)
        self.kept[name] = {**self.kept.get(name, self.replicated), **seeds}
        return self.offsets(name)


class Hook:
    """Stand-in for fence hook and stop hook: records the requests, and carries them out unless a test forbids it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fences, self.away, self.can_start = True, False, False
        self.clusters: set[str] = set()
        self.processes = {"primary->standby": 1}

    @property
    def fenced(self) -> bool:
        """Whether a cluster is fenced."""
        return bool(self.clusters)

    @fenced.setter
    def fenced(self, fenced: bool) -> None:
        self.clusters = {"primary"} if fenced else set()

    def _asked(self, *what: str) -> FenceAnswer:
        self.asked.append(what)
        if self.away:
            raise HookUnavailable("the hook did not do it", "no connection", "look at it")
        return FenceAnswer(what[-1] in self.clusters, "the switch", "port 7")

    def fence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Fence the cluster, unless the test forbids it."""
        self.clusters |= {cluster} if self.fences else set()
        return self._asked("fence", procedure_id, cluster)

    def unfence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Lift the fence."""
        self.clusters.discard(cluster)
        return self._asked("unfence", procedure_id, cluster)

    def state(self, cluster: str) -> FenceAnswer:
        """Return whether the cluster is fenced."""
        return self._asked("state", cluster)

    def running(self, flow: str, timeout: float) -> int:
        """Return the number of processes of a flow."""
        self._asked("running", flow)
        return self.processes.get(flow, 0)

    def stop(self, flow: str) -> int:
        """End them."""
        self._asked("stop", flow)
        return self.processes.update({flow: 0}) or 0

    def starts(self, flow: str, timeout: float = 10.0) -> bool:
        """Return whether this hook starts processes, too."""
        self._asked("starts", flow)
        return self.can_start

    def start(self, flow: str) -> int:
        """Start one."""
        self._asked("start", flow)
        return self.processes.update({flow: 1}) or 1
