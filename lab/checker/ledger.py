"""What clients wrote to two clusters, period by period, as they went to and fro; kept by the writers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lab.checker.client_history import ClientLogs, events_in
from lab.checker.records import Held
from lab.workload.ground_truth import COMMITTED, Acknowledgement, GroundTruth, TruthRecord

Place = tuple[str, int]
#: One log: the cluster that has it, and its place there.
Log = tuple[str, Place]


@dataclass(frozen=True)
class Names:
    """How one application's topic is called on either cluster.

    Args:
        aliases: of both clusters.
        policy: `identity` or `default`.
        separator: between alias and topic under default naming.
    """

    aliases: tuple[str, str]
    policy: str = "identity"
    separator: str = "."

    def other(self, alias: str) -> str:
        """Return the other cluster."""
        return self.aliases[alias == self.aliases[0]]

    def local(self, topic: str) -> str:
        """Return the name under which clients write a topic, wherever its records are."""
        return self._written_on(topic)[1]

    def written_on(self, log: Log) -> tuple[str, ...]:
        """Return the clusters whose clients' records stand in a log."""
        alias, (topic, _) = log
        return self.aliases if self.policy == "identity" else (self._written_on(topic)[0] or alias,)

    def counterpart(self, log: Log) -> Log:
        """Return the log on the other cluster that holds the same records."""
        alias, (topic, partition) = log
        there = self.other(alias)
        if self.policy == "identity":
            return there, (topic, partition)
        origin, local = self._written_on(topic)
        return there, (local if origin == there else f"{alias}{self.separator}{topic}", partition)

    def names_on(self, alias: str, topic: str) -> list[str]:
        """Return the names of an application topic's logs on a cluster: the clients' own, and the mirrored one."""
        return [topic] if self.policy == "identity" else [topic, f"{self.other(alias)}{self.separator}{topic}"]

    def _written_on(self, topic: str) -> tuple[str | None, str]:
        for alias in self.aliases if self.policy != "identity" else ():
            if topic.startswith(alias + self.separator):
                return alias, topic.removeprefix(alias + self.separator)
        return None, topic


class Topic(NamedTuple):
    """What the judge knows of an application's topic."""

    partitions: int
    compacted: bool = False
    transactional: bool = False


@dataclass
class Period:
    """The time between two changes of sides.

    Args:
        cluster: where clients wrote.
        begun_at: when it began, in milliseconds since 1970.
        records: every record that the cluster acknowledged or aborted then, by place and offset.
        clients: what the demo clients wrote down on this cluster.
        acknowledged: what producers were told is safe, each with its moment; the workload's own records have none.
    """

    cluster: str
    begun_at: int
    records: dict[Place, dict[int, TruthRecord]] = field(default_factory=lambda: defaultdict(dict))
    clients: ClientLogs = field(default_factory=ClientLogs)
    acknowledged: dict[tuple[Place, int], Acknowledgement] = field(default_factory=dict)

    def written(self, place: Place) -> list[TruthRecord]:
        """Return the records of a place in offset order, aborted ones too."""
        records = self.records.get(place, {})
        return [records[offset] for offset in sorted(records)]

    def by_load(self) -> list[Acknowledgement]:
        """Return what producers other than the demo clients were told is safe."""
        by_clients = set(self.clients.acknowledged[self.cluster])
        return [one for one in self.acknowledged.values() if one not in by_clients]

    def committed(self, place: Place) -> list[TruthRecord]:
        """Return those that must not get lost, in offset order."""
        return [record for record in self.written(place) if record.state == COMMITTED]


class Ledger:
    """Everything that clients wrote, and what earlier judgements have left to know.

    Attributes:
        periods: in order; the clusters alternate.
        topics: the applications' topics.
        apart: offsets of records that stand in a log and were never replicated, and never will be.
        due: offsets of acknowledged records among them: these must be in the next export.
        seen_to: where a log ended when clients had left its cluster.
        opened: where a log ended before clients went to its cluster for the last time.
        repeats: MirrorMaker 2's repeats in a log that were counted already.
        repeated: in a log that was made anew as another one's copy, how often each content stood in that one.
        since: the first period whose offsets count in a log: it was made anew before.
        exported: records that are in an export, by period, place and offset.
        exported_copies: contents in exports that are no record of a client at this very place, by topic.
        stood: contents that a returned cluster held, and that are rightly in an export, by where they stood; also those
            that no client was told to be kept.
    """

    def __init__(self, cluster: str, names: Names, begun_at: int = 0) -> None:
        self.names = names
        self.periods = [Period(cluster, begun_at)]
        self.topics: dict[str, Topic] = {}
        self.apart: dict[Log, set[int]] = defaultdict(set)
        self.due: dict[Log, set[int]] = defaultdict(set)
        self.seen_to: dict[Log, int] = {}
        self.opened: dict[Log, int] = {}
        self.repeats: dict[Log, set[int]] = {}
        self.repeated: dict[Log, Mapping[int, int]] = {}
        self.since: dict[Log, int] = {}
        self.exported: set[tuple[int, Place, int]] = set()
        self.exported_copies: dict[Place, Counter[int]] = defaultdict(Counter)
        self.stood: dict[str, int] = {}

    @property
    def now(self) -> Period:
        """The last period."""
        return self.periods[-1]

    def turn(self, cluster: str, at: int) -> None:
        """Begin a period: from this moment on clients may be on another cluster."""
        self.periods.append(Period(cluster, at))

    def take_truth(self, truth: GroundTruth) -> None:
        """Take in what a workload wrote in the last period; what it had written before may be among it."""
        for topic in truth.topics.values():
            self.topics[topic.name] = Topic(topic.partitions, topic.compacted, topic.transactional)
            for partition, records in topic.records.items():
                for record in records:
                    if not self._known(topic.name, partition, record):
                        self.now.records[topic.name, partition][record.offset] = record

    def take_loads(self, told: Iterable[Acknowledgement], topics: Mapping[str, int], period: int = -1) -> None:
        """Take in what producers were told in a period."""
        for topic, partitions in topics.items():
            self.topics.setdefault(topic, Topic(partitions))
        for one in told:
            self._take(self.periods[period], one)

    def take_clients(self, *folders: Path) -> None:
        """Take in all events that the demo clients wrote so far; folders in the order of their beginning."""
        events: list[list[dict[str, Any]]] = [[] for _ in self.periods]
        for event in (event for folder in folders for event in events_in(folder)):
            events[self._period_of(event["cluster"], event["at"])].append(event)
        for period, own in zip(self.periods, events, strict=True):
            period.clients = ClientLogs.of(own)
            for one in period.clients.acknowledged[period.cluster]:
                self._take(period, one)

    def written(self, log: Log) -> Iterator[tuple[int, str, TruthRecord]]:
        """Yield period, cluster and record of everything that belongs into a log by what clients were told."""
        _, (topic, partition) = log
        written_on, place = self.names.written_on(log), (self.names.local(topic), partition)
        for number, period in enumerate(self.periods):
            if period.cluster in written_on:
                yield from ((number, period.cluster, record) for record in period.written(place))

    def told(self, log: Log, until: int | None = None) -> list[TruthRecord]:
        """Return what clients were told of the offsets of a log as it is now.

        Args:
            until: the last period to count; all by default.
        """
        alias, place = log
        periods = self.periods[self.since.get(log, 0) : None if until is None else until + 1]
        return [record for period in periods if period.cluster == alias for record in period.written(place)]

    def common(self, log: Log, held: Sequence[Held]) -> list[Held]:
        """Return a log without the records that were never replicated."""
        apart = self.apart.get(log, set())
        return [one for one in held if one.offset not in apart] if apart else list(held)

    def made_anew(self, log: Log, held: Sequence[Held]) -> None:
        """Take note that a log was deleted and mirrored whole.

        Args:
            held: what the log that it was mirrored from holds.
        """
        self.since[log] = len(self.periods) - 1
        self.apart.pop(log, None)
        self.repeated[log] = Counter(one.digest for one in held)

    def take_export(self, alias: str, period: int, listed: Mapping[Place, Mapping[int, int]]) -> None:
        """Take in an export.

        Args:
            alias: the cluster that it is of.
            period: the last one in which clients wrote there.
            listed: contents by place and offset there.
        """
        for place, rows in listed.items():
            known = {
                record.offset: (number, record)
                for number in range(period + 1)
                if self.periods[number].cluster == alias
                for record in self.periods[number].written(place)
            }
            for offset, digest in rows.items():
                number, record = known.get(offset, (0, None))
                if record is not None and record.digest == digest:
                    self.exported.add((number, place, offset))
                else:
                    self.exported_copies[self.names.local(place[0]), place[1]][digest] += 1

    def _take(self, period: Period, one: Acknowledgement) -> None:
        place = (one.topic, one.partition)
        period.records[place].setdefault(one.offset, TruthRecord(one.offset, one.digest, one.id, 0, False, one.at))
        period.acknowledged[place, one.offset] = one

    def _known(self, topic: str, partition: int, record: TruthRecord) -> bool:
        # In a log that was made anew offsets come again, and records that look alike may stand at the same ones.
        periods = self.periods[self.since.get((self.now.cluster, (topic, partition)), 0) : -1]
        found = (
            period.records.get((topic, partition), {}).get(record.offset)
            for period in periods
            if period.cluster == self.now.cluster
        )
        return any(before is not None and before.digest == record.digest for before in found)

    def _period_of(self, cluster: str, at: int) -> int:
        fitting = [number for number, period in enumerate(self.periods) if period.cluster == cluster]
        return max((number for number in fitting if self.periods[number].begun_at <= at), default=fitting[0])
