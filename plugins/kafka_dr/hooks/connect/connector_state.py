"""What a Connect worker reports: the worker itself, a connector's state, and a source connector's offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.redaction import HIDDEN

_MOST_CAUSES = 10
_SECRET_WORDS = ("password", "jaas", "secret", "token", "credential", "private", "ssl.keystore.key", "basic.auth")


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """Return a connector's configuration; the value of a key that looks like a secret's is `[hidden]`."""
    return {
        key: HIDDEN if any(word in key.lower() for word in _SECRET_WORDS) else value for key, value in config.items()
    }


@dataclass(frozen=True)
class ConnectWorker:
    """A Connect worker: its version, and the id of the Kafka cluster that holds Connect's internal topics."""

    version: str
    kafka_cluster_id: str


@dataclass(frozen=True)
class ConnectorStatus:
    """State of a connector and its tasks as the worker last published it; RUNNING does not prove that records flow.

    Attributes:
        tasks: state by task id.
        traces: first line of each failed part's stack trace; the part is "connector" or, for example, "task 0".
        causes: by the same parts, the lines of the stack trace that name exceptions, the first line included.
    """

    name: str
    state: str
    tasks: dict[int, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, name: str, answer: Mapping[str, Any], shown: Callable[[str], str]) -> ConnectorStatus:
        """Return the state that Connect's answer to GET /connectors/NAME/status describes.

        Args:
            shown: returns a text of the worker as a person may read it, without credentials.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the answer has another form.
        """
        tasks = {int(task["id"]): str(task["state"]) for task in answer["tasks"]}
        parts = [("connector", answer["connector"]), *((f"task {task['id']}", task) for task in answer["tasks"])]
        traces = {what: shown(part["trace"].partition("\n")[0]) for what, part in parts if part.get("trace")}
        # Line by line, because a long text is shown only in part, and the last cause is the true one.
        causes = {
            what: "; ".join(map(shown, _exceptions_in(part["trace"]))) for what, part in parts if part.get("trace")
        }
        return cls(name, str(answer["connector"]["state"]), tasks, traces, causes)

    @property
    def stopped(self) -> bool:
        """Whether the connector is STOPPED and has no tasks: only then can its offsets be changed."""
        return self.state == "STOPPED" and not self.tasks

    @property
    def paused(self) -> bool:
        """Whether connector and tasks are PAUSED; a paused checkpoint connector still syncs group offsets."""
        return self.state == "PAUSED" and set(self.tasks.values()) <= {"PAUSED"}

    @property
    def running(self) -> bool:
        """Whether the connector and all its tasks are RUNNING; also True without tasks."""
        return self.state == "RUNNING" and set(self.tasks.values()) <= {"RUNNING"}

    def __str__(self) -> str:
        failed = "".join(f"; {what}: {trace}" for what, trace in self.traces.items())
        return f"{self.name} {self.state}, tasks {self.tasks or 'none'}{failed}"


def _exceptions_in(trace: str) -> list[str]:
    """Return the lines of a Java stack trace that name exceptions: the first, and those of causes."""
    first, *others = trace.splitlines() or [""]
    return [first, *(line.strip() for line in others if line.startswith("Caused by:"))][:_MOST_CAUSES]


@dataclass(frozen=True)
class ConnectorOffsets:
    """Last replicated offsets by source alias and partition; a second alias means that a write misspelt the alias."""

    by_alias: dict[str, dict[TopicPartition, int | None]]

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> ConnectorOffsets:
        """Return the offsets that Connect's answer to GET /connectors/NAME/offsets describes.

        Raises:
            ValueError: an entry is not that of a MirrorMaker 2 source connector; the error's text is the entry.
        """
        by_alias: dict[str, dict[TopicPartition, int | None]] = {}
        for entry in answer.get("offsets", [answer]):
            try:
                where, offset = entry["partition"], entry.get("offset")
                partition = TopicPartition(where["topic"], int(where["partition"]))
                by_alias.setdefault(where["cluster"], {})[partition] = None if offset is None else int(offset["offset"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(entry) from None
        return cls(by_alias)

    @property
    def aliases(self) -> frozenset[str]:
        """Return every source alias for which Connect stores offsets."""
        return frozenset(self.by_alias)

    def of(self, cluster_alias: str) -> dict[TopicPartition, int | None]:
        """Return a source alias's last replicated offset by partition; None: a partition stored without offset."""
        return self.by_alias.get(cluster_alias, {})
