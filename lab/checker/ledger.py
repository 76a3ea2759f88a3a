"""The checker's ledger: all records that clients wrote to two clusters, as logged by these clients.

This ledger is not the evidence's file `ledger-*.parquet`. A period is the time between two client moves (failovers or
failbacks); in a period clients write to one cluster. A place is (topic, partition), a log is (cluster's alias, place).
"""

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
#: A partition's log: the cluster's alias, and topic and partition on this cluster.
Log = tuple[str, Place]


@dataclass(frozen=True)
class Names:
    """Names of an application's topics on both clusters.

    Args:
        aliases: aliases of both clusters.
        policy: naming of mirrored topics, `identity` or `default`.
        separator: characters between alias and topic under default naming.
    """

    aliases: tuple[str, str]
    policy: str = "identity"
    separator: str = "."

    def other(self, alias: str) -> str:
        """Return the alias of the other of the two clusters."""
        return self.aliases[alias == self.aliases[0]]

    def local(self, topic: str) -> str:
        """Return the name under which clients write a topic: the name without MirrorMaker 2's prefix, if any."""
        return self._written_on(topic)[1]

    def written_on(self, log: Log) -> tuple[str, ...]:
        """Return the aliases of the clusters on which clients write the records that are in a log.

        Under identity naming these are both clusters. Under default naming it is one cluster: for a mirrored topic the
        other cluster, else the log's own cluster.
        """
        alias, (topic, _) = log
        return self.aliases if self.policy == "identity" else (self._written_on(topic)[0] or alias,)

    def counterpart(self, log: Log) -> Log:
        """Return the log on the other cluster that is the copy of this log, or the original of this log."""
        alias, (topic, partition) = log
        other_alias = self.other(alias)
        if self.policy == "identity":
            return other_alias, (topic, partition)
        origin, local = self._written_on(topic)
        return other_alias, (local if origin == other_alias else f"{alias}{self.separator}{topic}", partition)

    def names_on(self, alias: str, topic: str) -> list[str]:
        """Return an application topic's names on a cluster.

        Under identity naming this is one name. Under default naming these are the name of the topic that clients write
        on this cluster, and the name of the topic that is mirrored from the other cluster.
        """
        return [topic] if self.policy == "identity" else [topic, f"{self.other(alias)}{self.separator}{topic}"]

    def _written_on(self, topic: str) -> tuple[str | None, str]:
        for alias in self.aliases if self.policy != "identity" else ():
            if topic.startswith(alias + self.separator):
                return alias, topic.removeprefix(alias + self.separator)
        return None, topic


class Topic(NamedTuple):
    """One topic of the applications: partition count, and whether it is compacted or written in transactions."""

    partitions: int
    compacted: bool = False
    transactional: bool = False


@dataclass
class Period:
    """The time between two client moves.

    Args:
        cluster: alias of the cluster that clients wrote to.
        begun_at: start of the period, in milliseconds since 1970.
        records: every record that the cluster acknowledged in the period, also in aborted transactions, by place and
            offset.
        clients: event logs of the demo clients on this cluster.
        acknowledged: acknowledgements that load and demo clients got, with times, by place and offset; none for the
            records of the seeded workload.
    """

    cluster: str
    begun_at: int
    records: dict[Place, dict[int, TruthRecord]] = field(default_factory=lambda: defaultdict(dict))
    clients: ClientLogs = field(default_factory=ClientLogs)
    acknowledged: dict[tuple[Place, int], Acknowledgement] = field(default_factory=dict)

    def written(self, place: Place) -> list[TruthRecord]:
        """Return all records that clients wrote to a partition in this period, aborted records too, in offset order."""
        records = self.records.get(place, {})
        return [records[offset] for offset in sorted(records)]

    def by_load(self) -> list[Acknowledgement]:
        """Return the acknowledgements that the load's producers, not the demo clients, got in this period."""
        by_clients = set(self.clients.acknowledged[self.cluster])
        return [acknowledgement for acknowledgement in self.acknowledged.values() if acknowledgement not in by_clients]

    def committed(self, place: Place) -> list[TruthRecord]:
        """Return the committed records of `written`, in offset order: without aborted and deleted records."""
        return [record for record in self.written(place) if record.state == COMMITTED]


class Ledger:
    """Stores all records that clients wrote, by period, and what checks of earlier client moves recorded.

    Args:
        cluster: alias of the cluster that clients write to in the first period.
        names: names of topics on both clusters.
        begun_at: start of the first period, in milliseconds since 1970.

    Attributes:
        periods: all periods in order; clients write on the two clusters in turn.
        topics: the applications' topics, by the name under which clients write them.
        stranded: by log, offsets of the stranded records.
        due: by log, the offsets in `stranded` of acknowledged records, which must be in the next export.
        seen_to: by log, the log end after clients had left the log's cluster.
        opened: by log, the boundary of the last client move to the log's cluster.
        repeats: by log, offsets of MirrorMaker 2's repeats that an earlier check already counted.
        repeated: by log whose topic was recreated as a copy: how often the original log has each content, by digest.
        since: by recreated log, the number of the first period whose offsets are valid in the log.
        exported: clients' records that an export lists, as (period, place, offset).
        exported_copies: counts of exported contents that are no client's record at their offset, by application topic
            and partition.
        rightly_exported: digests of rightly exported records of returned clusters, acknowledged or not, by origin
            (`accounting.origin_of`).
    """

    def __init__(self, cluster: str, names: Names, begun_at: int = 0) -> None:
        self.names = names
        self.periods = [Period(cluster, begun_at)]
        self.topics: dict[str, Topic] = {}
        self.stranded: dict[Log, set[int]] = defaultdict(set)
        self.due: dict[Log, set[int]] = defaultdict(set)
        self.seen_to: dict[Log, int] = {}
        self.opened: dict[Log, int] = {}
        self.repeats: dict[Log, set[int]] = {}
        self.repeated: dict[Log, Mapping[int, int]] = {}
        self.since: dict[Log, int] = {}
        self.exported: set[tuple[int, Place, int]] = set()
        self.exported_copies: dict[Place, Counter[int]] = defaultdict(Counter)
        self.rightly_exported: dict[str, int] = {}

    @property
    def now(self) -> Period:
        """The last period, in which clients write now."""
        return self.periods[-1]

    def turn(self, cluster: str, at: int) -> None:
        """Add a period that starts at `at` (milliseconds since 1970), in which clients write on `cluster`."""
        self.periods.append(Period(cluster, at))

    def take_truth(self, truth: GroundTruth) -> None:
        """Add a workload's topics and records to the last period, without the records that an earlier period has."""
        for topic in truth.topics.values():
            self.topics[topic.name] = Topic(topic.partitions, topic.compacted, topic.transactional)
            for partition, records in topic.records.items():
                for record in records:
                    if not self._is_in_earlier_period(topic.name, partition, record):
                        self.now.records[topic.name, partition][record.offset] = record

    def take_loads(
        self, acknowledgements: Iterable[Acknowledgement], topics: Mapping[str, int], period: int = -1
    ) -> None:
        """Add the load's topics, and the acknowledgements that its producers got in a period (by default the last)."""
        for topic, partitions in topics.items():
            self.topics.setdefault(topic, Topic(partitions))
        for acknowledgement in acknowledgements:
            self._add_acknowledgement(self.periods[period], acknowledgement)

    def take_clients(self, *folders: Path) -> None:
        """Replace the demo clients' events in all periods by the events in their log folders, oldest folder first."""
        events: list[list[dict[str, Any]]] = [[] for _ in self.periods]
        for event in (event for folder in folders for event in events_in(folder)):
            events[self._period_of(event["cluster"], event["at"])].append(event)
        for period, period_events in zip(self.periods, events, strict=True):
            period.clients = ClientLogs.of(period_events)
            for acknowledgement in period.clients.acknowledged[period.cluster]:
                self._add_acknowledgement(period, acknowledgement)

    def written(self, log: Log) -> Iterator[tuple[int, str, TruthRecord]]:
        """Yield (period, cluster, record) of every record that clients wrote to a log or to the log it mirrors."""
        _, (topic, partition) = log
        written_on, place = self.names.written_on(log), (self.names.local(topic), partition)
        for number, period in enumerate(self.periods):
            if period.cluster in written_on:
                yield from ((number, period.cluster, record) for record in period.written(place))

    def client_records(self, log: Log, until: int | None = None) -> list[TruthRecord]:
        """Return the records that clients, not MirrorMaker 2, wrote to a log since its topic was last recreated.

        Args:
            until: number of the last period to include; None for all periods.
        """
        alias, place = log
        periods = self.periods[self.since.get(log, 0) : None if until is None else until + 1]
        return [record for period in periods if period.cluster == alias for record in period.written(place)]

    def common(self, log: Log, records: Sequence[Held]) -> list[Held]:
        """Return `records`, which are of one log, without the stranded records."""
        apart = self.stranded.get(log, set())
        return [record for record in records if record.offset not in apart] if apart else list(records)

    def record_recreation(self, log: Log, records: Sequence[Held]) -> None:
        """Record that a log's topic was deleted and created again, and that the original log was mirrored in full.

        Args:
            log: the log of the recreated topic.
            records: the records of the original log, on the other cluster.
        """
        self.since[log] = len(self.periods) - 1
        self.stranded.pop(log, None)
        self.repeated[log] = Counter(record.digest for record in records)

    def take_export(self, alias: str, period: int, listed: Mapping[Place, Mapping[int, int]]) -> None:
        """Record which clients' records an export of stranded records lists.

        Args:
            alias: alias of the cluster that the records were exported from.
            period: number of the last period in which clients wrote to that cluster.
            listed: content digests by place and offset on that cluster.
        """
        for place, exported_rows in listed.items():
            client_records = {
                record.offset: (number, record)
                for number in range(period + 1)
                if self.periods[number].cluster == alias
                for record in self.periods[number].written(place)
            }
            for offset, digest in exported_rows.items():
                number, record = client_records.get(offset, (0, None))
                if record is not None and record.digest == digest:
                    self.exported.add((number, place, offset))
                else:
                    self.exported_copies[self.names.local(place[0]), place[1]][digest] += 1

    def _add_acknowledgement(self, period: Period, acknowledgement: Acknowledgement) -> None:
        place = (acknowledgement.topic, acknowledgement.partition)
        period.records[place].setdefault(
            acknowledgement.offset,
            TruthRecord(
                acknowledgement.offset, acknowledgement.digest, acknowledgement.id, 0, False, acknowledgement.at
            ),
        )
        period.acknowledged[place, acknowledgement.offset] = acknowledgement

    def _is_in_earlier_period(self, topic: str, partition: int, record: TruthRecord) -> bool:
        # Only periods after the topic was recreated count: a recreated topic has other records at the same offsets.
        periods = self.periods[self.since.get((self.now.cluster, (topic, partition)), 0) : -1]
        same_offset = (
            period.records.get((topic, partition), {}).get(record.offset)
            for period in periods
            if period.cluster == self.now.cluster
        )
        return any(earlier is not None and earlier.digest == record.digest for earlier in same_offset)

    def _period_of(self, cluster: str, at: int) -> int:
        periods_there = [number for number, period in enumerate(self.periods) if period.cluster == cluster]
        return max(
            (number for number in periods_there if self.periods[number].begun_at <= at), default=periods_there[0]
        )
