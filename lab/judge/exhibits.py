"""Everything the judge looks at: the case, and what both clusters hold, each log read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.judge import evidence as told
from lab.judge.client_logs import ClientLogs
from lab.judge.positions import Alignment, Log
from lab.judge.readers import PROBE_DIGEST, ClusterReader, Place
from lab.judge.records import Held, merge_known
from lab.workload.truth import Acknowledgement, GroundTruth, Record


@dataclass
class Case:
    """What is to be judged.

    Args:
        status: the lab's status document.
        truth: what the workload wrote and committed on the source.
        evidence: the product's evidence document.
        source: alias clients came from.
        target: alias clients went to.
        policy: `identity` or `default`.
        loads: what load producers were told is safe, on the source.
        clients: what the demo clients wrote down.
        approver: user who answered the gate, None when no gate was asked.
        separator: between alias and topic under default naming.
        folder: where the evidence lies.
    """

    status: Mapping[str, Any]
    truth: GroundTruth
    evidence: Mapping[str, Any]
    source: str
    target: str
    policy: str
    loads: list[Acknowledgement] = field(default_factory=list)
    clients: ClientLogs = field(default_factory=ClientLogs)
    approver: str | None = None
    separator: str = "."
    folder: Path = Path()

    def remote(self, topic: str) -> str:
        """Return a source topic's name on the target."""
        return topic if self.policy == "identity" else f"{self.source}{self.separator}{topic}"

    @property
    def acknowledged(self) -> list[Acknowledgement]:
        """Return everything that load and clients were told is safe on the source."""
        return self.loads + self.clients.acknowledged[self.source]


class Exhibits:
    """Both clusters' logs and ends, read on first use, by source place unless said otherwise."""

    def __init__(self, case: Case, eyes: Callable[[str, Mapping[str, Any]], ClusterReader] = ClusterReader) -> None:
        """Take a case, and what makes a reader of a cluster from its alias and the lab's status."""
        self.case = case
        self._eyes = eyes
        self.probed: set[Place] = set()

    @cached_property
    def source(self) -> ClusterReader:
        """The source's reader, made on first use: a dead source is not knocked at."""
        return self._eyes(self.case.source, self.case.status)

    @cached_property
    def target(self) -> ClusterReader:
        """The target's reader."""
        return self._eyes(self.case.target, self.case.status)

    @cached_property
    def topics(self) -> dict[str, int]:
        """Topics to judge, by source name, with their partition counts."""
        names = set(self.case.truth.topics) | {a.topic for a in self.case.acknowledged}
        existing = self.source.partitions()
        return {name: existing[name] for name in sorted(names) if name in existing}

    @cached_property
    def places(self) -> list[Place]:
        """All partitions to judge, by source name."""
        return [(topic, partition) for topic, count in self.topics.items() for partition in range(count)]

    @cached_property
    def source_logs(self) -> dict[Place, list[Held]]:
        """The source's logs as an uncommitted reader gets them, without the judge's own probes."""
        return _without_probes(self.source.read(self.places, "read_uncommitted"))

    @cached_property
    def live_logs(self) -> dict[Place, list[tuple[int, int]]]:
        """The source's logs as a committed reader gets them."""
        transactional = [place for place in self.places if place[0] in self.named("transactional")]
        logs = self.source_logs | _without_probes(self.source.read(transactional, "read_committed"))
        return {place: pairs(log) for place, log in logs.items()}

    @cached_property
    def target_logs(self) -> dict[Place, list[Held]]:
        """The target's whole logs by target name (mirrored topics, and local ones under default naming)."""
        names = {self.case.remote(topic) for topic in self.topics} | set(self.topics)
        existing = self.target.partitions()
        places = [(name, p) for name in sorted(names) if name in existing for p in range(existing[name])]
        keyed = {self.case.remote(topic) for topic in self.named("compacted")}
        raw = self.target.read(places, "read_uncommitted", keyed)
        self.probed = {place for place, log in raw.items() if any(held.digest == PROBE_DIGEST for held in log)}
        return _without_probes(raw)

    @cached_property
    def source_ends(self) -> dict[Place, int]:
        """The source's log ends now."""
        return self.source.ends(self.places)

    @cached_property
    def target_starts(self) -> dict[Place, int]:
        """The target's log starts now."""
        return self.target.starts(self.target_logs)

    @cached_property
    def target_ends(self) -> dict[Place, int]:
        """The target's log ends now."""
        return self.target.ends(self.target_logs)

    @cached_property
    def boundary(self) -> dict[Place, int]:
        """The boundary as the evidence tells it; the log's end now where it does not."""
        try:
            claimed = told.offsets(self.case.evidence["boundary"])
        except (KeyError, TypeError, ValueError):
            claimed = {}
        return self.target_ends | {place: offset for place, offset in claimed.items() if place in self.target_ends}

    @cached_property
    def cut_off(self) -> dict[Place, int]:
        """The cut-off as the evidence tells it; the log's end now where it does not."""
        try:
            return self.source_ends | told.offsets(self.case.evidence["cut_off"])
        except (KeyError, TypeError, ValueError):
            return self.source_ends

    @cached_property
    def history(self) -> dict[Place, list[Record]]:
        """Every record that the source acknowledged or aborted, by place, in offset order."""
        # By offset: a record known from the workload and from an acknowledgement is one record.
        history = {place: {r.offset: r for r in self._truth(place)} for place in self.places}
        for a in self.case.acknowledged:
            history.setdefault((a.topic, a.partition), {})[a.offset] = Record(a.offset, a.digest, a.id, 0, False, a.at)
        return {place: [records[offset] for offset in sorted(records)] for place, records in history.items()}

    @cached_property
    def known(self) -> dict[Place, Log]:
        """Everything the source ever gave an offset."""
        return {
            place: merge_known(((r.offset, r.digest) for r in self.history[place]), pairs(self.source_logs[place]))
            for place in self.places
        }

    @cached_property
    def alignments(self) -> dict[Place, Alignment]:
        """Both logs of every partition held against each other, by source name."""
        return {place: self._align(place) for place in self.places}

    def mirrored(self, place: Place) -> list[Held]:
        """Return the target's records of a source partition below the boundary."""
        there = self.there(place)
        return [held for held in self.target_logs.get(there, []) if held.offset < self.boundary[there]]

    def written_there(self, place: Place) -> list[Held]:
        """Return the target's records at or above the boundary of a partition's mirrored topic."""
        there = self.there(place)
        return [held for held in self.target_logs.get(there, []) if held.offset >= self.boundary[there]]

    def _align(self, place: Place) -> Alignment:
        return Alignment(
            self.live_logs[place],
            self.known[place],
            pairs(self.mirrored(place)),
            self.boundary.get(self.there(place), 0),
        )

    def there(self, place: Place) -> Place:
        """Return a source partition's name on the target."""
        return self.case.remote(place[0]), place[1]

    def _truth(self, place: Place) -> list[Record]:
        topic = self.case.truth.topics.get(place[0])
        return topic.records.get(place[1], []) if topic else []

    def named(self, property_name: str) -> set[str]:
        """Return the topics whose truth has a property, such as `compacted`."""
        return {name for name, topic in self.case.truth.topics.items() if getattr(topic, property_name)}


def pairs(log: Iterable[Held]) -> list[tuple[int, int]]:
    """Return a log's offsets and contents."""
    return [(held.offset, held.digest) for held in log]


def _without_probes(logs: Mapping[Place, list[Held]]) -> dict[Place, list[Held]]:
    return {place: [held for held in log if held.digest != PROBE_DIGEST] for place, log in logs.items()}
