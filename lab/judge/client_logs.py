"""What the demo clients wrote down about themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.workload.truth import Acknowledgement

Place = tuple[str, int]


@dataclass
class ClientLogs:
    """Acknowledgements, starting positions and consumed offsets, each by cluster.

    Args:
        acknowledged: by cluster.
        started: first committed positions that a group found on a cluster before it consumed anything there.
        consumed: offsets each group was given, by (cluster, group) and place, in the order given.
    """

    acknowledged: dict[str, list[Acknowledgement]] = field(default_factory=lambda: defaultdict(list))
    started: dict[tuple[str, str], dict[Place, int]] = field(default_factory=dict)
    consumed: dict[tuple[str, str], dict[Place, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def groups(self) -> set[str]:
        """Return the groups that had a consumer on any cluster."""
        return {group for _, group in self.started}

    def started_on(self, cluster: str) -> dict[str, dict[Place, int]]:
        """Return, for each group that consumed there, the positions found before its first consumer started."""
        return {group: positions for (where, group), positions in self.started.items() if where == cluster}

    @classmethod
    def read(cls, folder: Path) -> ClientLogs:
        """Read every JSONL file of a folder; a torn last line (a killed client) is left out."""
        logs = cls()
        events = [event for path in sorted(folder.glob("*.jsonl")) for event in _events(path)]
        for event in sorted((event for event in events if event["event"] == "started"), key=lambda event: event["at"]):
            found = {(topic, partition): offset for topic, partition, offset in event["positions"] if offset is not None}
            logs.started.setdefault((event["cluster"], event["group"]), found)
        for event in events:
            if event["event"] == "acknowledged":
                fields = {name: event[name] for name in Acknowledgement._fields}
                logs.acknowledged[event["cluster"]].append(Acknowledgement(**fields))
            elif event["event"] == "consumed":
                logs.consumed[event["cluster"], event["group"]][event["topic"], event["partition"]].append(event["offset"])
        return logs


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
