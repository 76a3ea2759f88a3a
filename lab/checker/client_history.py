"""Read the demo clients' event logs: acknowledgements, consumed offsets, commits."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lab.workload.ground_truth import Acknowledgement

Place = tuple[str, int]


class ClientCommit(NamedTuple):
    """The last commit of a group on one partition.

    Args:
        position: the last confirmed committed position; None if no commit was confirmed.
        attempted: the highest position in a commit request, confirmed or not.
        first_at: time of the group's first commit request for the partition, in milliseconds since 1970.
        at: time of the last confirmed commit, in milliseconds since 1970; `first_at` if no commit was confirmed.
    """

    position: int | None
    attempted: int
    first_at: int
    at: int


@dataclass
class ClientLogs:
    """Acknowledgements, starting positions, consumed offsets and commits, each by cluster.

    Args:
        acknowledged: acknowledgements, by the alias of the cluster that acknowledged.
        started: a group's committed positions on a cluster when its first consumer started on that cluster, by
            (cluster, group).
        consumed: the offsets that a group consumed, in order, by (cluster, group) and partition.
        committed: the last commit of a group, by (cluster, group) and partition.
    """

    acknowledged: dict[str, list[Acknowledgement]] = field(default_factory=lambda: defaultdict(list))
    started: dict[tuple[str, str], dict[Place, int]] = field(default_factory=dict)
    consumed: dict[tuple[str, str], dict[Place, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    committed: dict[tuple[str, str], dict[Place, ClientCommit]] = field(default_factory=lambda: defaultdict(dict))

    def groups(self) -> set[str]:
        """Return the groups that had a consumer on at least one cluster."""
        return {group for _, group in self.started}

    def started_on(self, cluster: str) -> dict[str, dict[Place, int]]:
        """Return, by group, the committed positions on a cluster when its first consumer started on that cluster."""
        return {group: positions for (where, group), positions in self.started.items() if where == cluster}

    @classmethod
    def read(cls, folder: Path) -> ClientLogs:
        """Return the content of all event logs in a folder, without the incomplete last line of a killed client."""
        return cls.of(events_in(folder))

    @classmethod
    def of(cls, events: Sequence[dict[str, Any]]) -> ClientLogs:
        """Return logs made from the events of all clients; the events of each client must be in order."""
        logs = cls()
        for event in sorted((event for event in events if event["event"] == "started"), key=lambda event: event["at"]):
            positions = {
                (topic, partition): offset for topic, partition, offset in event["positions"] if offset is not None
            }
            logs.started.setdefault((event["cluster"], event["group"]), positions)
        for event in events:
            if event["event"] == "acknowledged":
                fields = {name: event[name] for name in Acknowledgement._fields}
                logs.acknowledged[event["cluster"]].append(Acknowledgement(**fields))
            elif event["event"] == "consumed":
                logs.consumed[event["cluster"], event["group"]][event["topic"], event["partition"]].append(
                    event["offset"]
                )
        logs._add_commits(event for event in events if event["event"] in ("committed", "commit failed"))
        return logs

    def _add_commits(self, events: Iterable[dict[str, Any]]) -> None:
        for event in sorted(events, key=lambda event: event["at"]):
            commits = self.committed[event["cluster"], event["group"]]
            for topic, partition, offset in event.get("positions", []):
                earlier = commits.get((topic, partition), ClientCommit(None, -1, event["at"], event["at"]))
                # A commit request without an answer may have been carried out: it raises `attempted` only.
                confirmed = event["event"] == "committed"
                position, confirmed_at = (offset, event["at"]) if confirmed else (earlier.position, earlier.at)
                commits[topic, partition] = ClientCommit(
                    position, max(earlier.attempted, offset), earlier.first_at, confirmed_at
                )


def events_in(folder: Path) -> list[dict[str, Any]]:
    """Return the events of all clients, from a folder's JSONL files; [] if the folder does not exist."""
    return [event for path in sorted(folder.glob("*.jsonl")) for event in _read_events(path)]


def _read_events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
