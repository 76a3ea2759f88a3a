"""A Connect worker, and the hooks that fence and stop, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, HookUnavailable
from kafka_dr.hooks.site.fence import FenceAnswer


class Worker:
    """A Connect worker: connectors by name, with their state."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.asked: list[tuple[str, str]] = []
        self.needs_tasks: dict[str, bool] = {}
        self.offsets_set: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.version = "4.3.1"
        self.replicated: dict[TopicPartition, int | None] = {TopicPartition("orders", 0): 9}
        self.kept: dict[str, dict[TopicPartition, int | None]] = {}
        self.misspelt: frozenset[str] = frozenset()
        self.late: set[str] = set()
        self.away = False

    def answer(self) -> None:
        """Fail where the worker is away."""
        if self.away:
            raise ConnectUnavailable("the request GET /connectors to Connect failed", "no connection", "check Connect")

    def worker(self, timeout: float = 30.0) -> Any:
        """Its version; it stands beside the standby."""
        self.answer()
        return SimpleNamespace(version=self.version, kafka_cluster_id="id-standby")

    def connectors(self, **_: Any) -> list[str]:
        """Names."""
        self.answer()
        return list(self.states)

    def config(self, name: str, **_: Any) -> dict[str, str]:
        """A connector's settings; none unless the test said some."""
        self.answer()
        return self.settings

    def offsets(self, name: str, timeout: float = 60.0) -> Any:
        """Ten records were replicated, unless the test said otherwise, or offsets were changed."""
        self.answer()
        return SimpleNamespace(of=lambda alias: self.kept.get(name, self.replicated), aliases=self.misspelt)

    def status(self, name: str, timeout: float = 30.0) -> Any:
        """State and tasks."""
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
        """Stop, and remember who was asked; what is late still has to stop when this returns."""
        self.answer()
        self.asked.append(("stop", name))
        if name not in self.late:
            self.states[name] = "STOPPED"

    def stop(self, name: str, deadline: float) -> None:
        """Stop, and remember who was asked; what is late does not stop in time."""
        self.asked.append(("stop", name))
        if name in self.late:
            raise DeadlinePassed(
                f"{name} did not stop within {deadline:g} s", "its tasks still run", "look at the worker's log"
            )
        self.states[name] = "STOPPED"

    def resume(self, name: str, deadline: float, needs_tasks: bool = True) -> None:
        """Resume, and remember who was asked."""
        self.asked.append(("resume", name))
        self.needs_tasks[name] = needs_tasks
        self.states[name] = "RUNNING"

    def change_offsets(self, name: str, alias: str, seeds: Mapping[TopicPartition, int | None]) -> Any:
        """Remember the seeds, and keep them; a connector that runs takes none."""
        assert self.states[name] == "STOPPED", f"{name} is {self.states[name]}"
        self.offsets_set[name] = dict(seeds)
        self.kept[name] = {**self.kept.get(name, self.replicated), **seeds}
        return self.offsets(name)


class Hook:
    """A fence hook and a stop hook in one: remembers what it was asked, and does it unless it is told not to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fences, self.fenced, self.away = True, False, False
        self.processes = {"primary->standby": 1}

    def _asked(self, *what: str) -> FenceAnswer:
        self.asked.append(what)
        if self.away:
            raise HookUnavailable("the hook did not do it", "no connection", "look at it")
        return FenceAnswer(self.fenced, "the switch", "port 7")

    def fence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Fence, if it does."""
        self.fenced = self.fences
        return self._asked("fence", procedure_id, cluster)

    def unfence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Let clients in."""
        self.fenced = False
        return self._asked("unfence", procedure_id, cluster)

    def state(self, cluster: str) -> FenceAnswer:
        """Whether it fences."""
        return self._asked("state", cluster)

    def running(self, flow: str, timeout: float) -> int:
        """Processes of a flow."""
        self._asked("running", flow)
        return self.processes.get(flow, 0)

    def stop(self, flow: str) -> int:
        """End them."""
        self._asked("stop", flow)
        return self.processes.update({flow: 0}) or 0
