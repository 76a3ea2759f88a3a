"""What the demo clients wrote down about themselves."""

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
        position: what a client was told is committed; None where it never was told so.
        attempted: the highest position it asked to be committed, told or not.
        first_at: wall-clock milliseconds of the first commit there.
        at: and of the last one that a client was told of.
    """

    position: int | None
    attempted: int
    first_at: int
    at: int


@dataclass
class ClientLogs:
    """Acknowledgements, starting positions, consumed offsets and commits, each by cluster.

    Args:
        acknowledged: by cluster.
        started: first committed positions that a group found on a cluster before it consumed anything there.
        consumed: offsets each group was given, by (cluster, group) and place, in the order given.
        committed: last commits, by (cluster, group) and place.
    """

    acknowledged: dict[str, list[Acknowledgement]] = field(default_factory=lambda: defaultdict(list))
    started: dict[tuple[str, str], dict[Place, int]] = field(default_factory=dict)
    consumed: dict[tuple[str, str], dict[Place, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    committed: dict[tuple[str, str], dict[Place, ClientCommit]] = field(default_factory=lambda: defaultdict(dict))

    def groups(self) -> set[str]:
        """Return the groups that had a consumer on any cluster."""
        return {group for _, group in self.started}

    def started_on(self, cluster: str) -> dict[str, dict[Place, int]]:
        """Return, for each group that consumed there, the positions found before its first consumer started."""
        return {group: positions for (where, group), positions in self.started.items() if where == cluster}

    @classmethod
    def read(cls, folder: Path) -> ClientLogs:
        """Read every JSONL file of a folder; a torn last line (a killed client) is left out."""
        return cls.of(events_in(folder))

    @classmethod
    def of(cls, events: Sequence[dict[str, Any]]) -> ClientLogs:
        """Take in events in the order in which each client wrote them."""
        logs = cls()
        for event in sorted((event for event in events if event["event"] == "started"), key=lambda event: event["at"]):
            found = {
                (topic, partition): offset for topic, partition, offset in event["positions"] if offset is not None
            }
            logs.started.setdefault((event["cluster"], event["group"]), found)
        for event in events:
            if event["event"] == "acknowledged":
                fields = {name: event[name] for name in Acknowledgement._fields}
                logs.acknowledged[event["cluster"]].append(Acknowledgement(**fields))
            elif event["event"] == "consumed":
                logs.consumed[event["cluster"], event["group"]][event["topic"], event["partition"]].append(
                    event["offset"]
                )
        logs._take_commits(event for event in events if event["event"] in ("committed", "commit failed"))
        return logs

    def _take_commits(self, events: Iterable[dict[str, Any]]) -> None:
        for event in sorted(events, key=lambda event: event["at"]):
            held = self.committed[event["cluster"], event["group"]]
            for topic, partition, offset in event.get("positions", []):
                before = held.get((topic, partition), ClientCommit(None, -1, event["at"], event["at"]))
                # Asked for and not answered: it may have been taken all the same.
                told = event["event"] == "committed"
                position, at = (offset, event["at"]) if told else (before.position, before.at)
                held[topic, partition] = ClientCommit(position, max(before.attempted, offset), before.first_at, at)


def events_in(folder: Path) -> list[dict[str, Any]]:
    """Return what every client of a folder wrote down; nothing where there is no folder."""
    return [event for path in sorted(folder.glob("*.jsonl")) for event in _events(path)]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
