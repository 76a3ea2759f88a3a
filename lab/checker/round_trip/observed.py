"""What the judge reads after one change of sides: the ledger, both logs once each, and earlier findings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.checker import evidence_file as told
from lab.checker.ledger import Ledger, Log, Place, Topic
from lab.checker.loss_rows import mirrored_at_most
from lab.checker.mirroring import Mirroring, mirroring_of, origins_of
from lab.checker.positions import Alignment
from lab.checker.readers import PROBE_DIGEST, ClusterReader
from lab.checker.records import Held, merge_known, offset_contents
from lab.workload.ground_truth import ABORTED

PLANNED, UNPLANNED, FAILBACK = "planned_failover", "unplanned_failover", "failback"
QUARANTINE = ".stranded"


@dataclass
class Trip:
    """One change of sides that is to be judged.

    Args:
        number: its place among all of them, from 0; clients wrote to `source` in the period of this number, and to
            `target` in the next one.
        dag_id: the procedure.
        source: alias clients came from.
        target: alias clients went to.
        evidence: the product's evidence document.
        folder: where the evidence lies.
        before: positions on the target before it, by group.
        placed: positions on the source before it, by group, of groups that were at rest.
        returned: the target's logs before a failback, while nothing wrote there.
        mirrored_until: the target's log ends when a lost source's records had all arrived; of an unplanned failover.
        died_at: when the source was seen dead, in milliseconds since 1970.
        crashed: MirrorMaker 2 was killed since the change before, so that it may have repeated records.
        flows_on: what clients write on the target is to be mirrored to the source from now on.
        mode: of a failback, `append` or `recreate`.
        decisions: of a failback, what becomes of stranded records by topic or expression.
        approver: user who answered the gates, None when nobody was asked.
        starter: user who started the run.
        recorded: a recorder was running, so that every position committed well before the source died must be known.
        mirrored_in_interval: by place on the target, the most that was mirrored there in one sampling interval; None
            where nobody counted.
    """

    number: int
    dag_id: str
    source: str
    target: str
    evidence: Mapping[str, Any]
    folder: Path = Path()
    before: Mapping[str, Mapping[Place, int]] = field(default_factory=dict)
    placed: Mapping[str, Mapping[Place, int]] = field(default_factory=dict)
    returned: Mapping[Place, list[Held]] = field(default_factory=dict)
    mirrored_until: Mapping[Place, int] = field(default_factory=dict)
    died_at: int | None = None
    crashed: bool = False
    flows_on: bool = False
    mode: str = "append"
    decisions: Mapping[str, str] = field(default_factory=dict)
    approver: str | None = None
    starter: str = "operator"
    recorded: bool = True
    mirrored_in_interval: Mapping[Place, int] | None = None

    @property
    def lost(self) -> bool:
        """Say whether the source could not be read."""
        return self.dag_id == UNPLANNED

    def decision(self, topic: str) -> str:
        """Return the decision on a topic's stranded records: own name before expressions, `.*` last."""
        expressions = sorted(self.decisions, key=lambda name: (name != topic, name == ".*"))
        return next(
            (self.decisions[name] for name in expressions if name == topic or re.fullmatch(name, topic)), "keep"
        )


class RoundTripObserved:
    """Both clusters as they are now, by log."""

    def __init__(
        self,
        ledger: Ledger,
        trip: Trip,
        status: Mapping[str, Any],
        eyes: Callable[[str, Mapping[str, Any]], ClusterReader] = ClusterReader,
    ) -> None:
        """Take ledger, trip and lab status; `eyes` makes a cluster's reader from its alias and the status."""
        self.ledger, self.trip, self.names = ledger, trip, ledger.names
        self.readers = {alias: eyes(alias, status) for alias in ledger.names.aliases}
        self.probed: set[Log] = set()
        self._mirrorings: dict[Log, Mirroring] = {}
        self._alignments: dict[Log, Alignment] = {}

    @cached_property
    def partitions(self) -> dict[str, dict[str, int]]:
        """Partition counts of the applications' topics, by cluster and name there."""
        found = {}
        for alias, reader in self.readers.items():
            existing = reader.partitions()
            found[alias] = {
                name: existing[name]
                for topic in self.ledger.topics
                for name in self.names.names_on(alias, topic)
                if name in existing
            }
        return found

    @cached_property
    def logs(self) -> dict[Log, list[Held]]:
        """Every log of both clusters as an uncommitted reader gets it, without the judge's own probes."""
        compacted = {topic for topic, known in self.ledger.topics.items() if known.compacted}
        return {
            log: held
            for alias in self.readers
            for log, held in self._read(alias, self._places(alias), "read_uncommitted", compacted).items()
        }

    @cached_property
    def committed(self) -> dict[Log, list[Held]]:
        """The logs as a committed reader gets them; those that hold no transaction are not read again."""
        told = [
            log
            for log, held in self.logs.items()
            if self._topic(log).transactional or any(one.origin is not None for one in held)
        ]
        again: dict[Log, list[Held]] = {}
        for alias in self.readers:
            again |= self._read(alias, [place for where, place in told if where == alias], "read_committed", ())
        keys = {(log, one.offset): one.key for log in again for one in self.logs[log]}
        return self.logs | {
            log: [one._replace(key=keys.get((log, one.offset), 0)) for one in held] for log, held in again.items()
        }

    @cached_property
    def quarantined(self) -> dict[Place, list[int]]:
        """Contents in quarantine topics, without what a replay adds, by place of the application's topic.

        The topics are mirrored like any others: both copies are one quarantine.
        """
        found: dict[Place, Counter[int]] = defaultdict(Counter)
        for alias in self.readers:
            for place, contents in self._quarantined_on(alias).items():
                found[place] |= contents
        return {place: list(contents.elements()) for place, contents in found.items()}

    @cached_property
    def ends(self) -> dict[Log, int]:
        """Every log's end."""
        return {
            (alias, place): end
            for alias, reader in self.readers.items()
            for place, end in reader.ends(self._places(alias)).items()
        }

    @cached_property
    def starts(self) -> dict[Log, int]:
        """Every log's beginning."""
        return {
            (alias, place): start
            for alias, reader in self.readers.items()
            for place, start in reader.starts(self._places(alias)).items()
        }

    @cached_property
    def boundary(self) -> dict[Place, int]:
        """Target log ends before clients wrote there: from the evidence, else the new period's first record."""
        claimed = self.claimed("boundary")
        return {
            place: claimed.get(place, self._first_new((alias, place)))
            for alias, place in self.logs
            if alias == self.trip.target
        }

    def claimed(self, name: str) -> dict[Place, int]:
        """Return `cut_off` or `boundary` as the evidence tells it; nothing where it cannot be understood."""
        try:
            return told.offsets_by_partition(self.trip.evidence[name])
        except (KeyError, TypeError, ValueError):
            return {}

    def on(self, alias: str) -> list[Log]:
        """Return all logs of a cluster."""
        return [log for log in self.logs if log[0] == alias]

    def mirroring(self, log: Log) -> Mirroring:
        """Say what replication made of a log; asked first when it is known which logs were made anew."""
        if log not in self._mirrorings:
            plain = [(one.offset, one.digest) for one in self.logs[log] if one.origin is None]
            self._mirrorings[log] = mirroring_of(
                plain, log[0], origins_of(self.ledger.written(log)), self.ledger.repeated.get(log)
            )
        return self._mirrorings[log]

    def here(self, log: Log, isolation: str = "read_committed") -> list[Held]:
        """Return what the source held until clients were moved, without what was never replicated.

        What they write on the target since may be flowing back behind it.
        """
        held = self.ledger.common(log, (self.committed if isolation == "read_committed" else self.logs)[log])
        end = self._first_back(log)
        return held if end is None else [one for one in held if one.offset < end]

    def below(self, log: Log) -> list[Held]:
        """Return what the target held before clients wrote there, without what was never replicated."""
        return [one for one in self.ledger.common(log, self.logs[log]) if one.offset < self.boundary[log[1]]]

    def aborted(self, log: Log) -> set[int]:
        """Return the contents that no transaction committed."""
        written = [record for _, _, record in self.ledger.written(log)]
        return {record.digest for record in written if record.state == ABORTED} - {
            record.digest for record in written if record.state != ABORTED
        }

    def alignment(self, log: Log) -> Alignment:
        """Hold a log of the source against the target's, both without what was never replicated."""
        if log not in self._alignments:
            self._alignments[log] = self._align(log)
        return self._alignments[log]

    def recurs(self, log: Log) -> bool:
        """Say whether clients wrote some content of a log more than once."""
        written = [record.digest for _, _, record in self.ledger.written(log)]
        return len(set(written)) < len(written)

    def ambiguous(self, log: Log) -> bool:
        """Say whether nobody can tell which records are whose: contents recur, and MirrorMaker 2 repeated some.

        Where the first source was mirrored whole, its records are counted from the end of both logs.
        """
        whole = self.trip.number == 0 and not self.trip.lost
        return (
            not whole
            and self.recurs(log)
            and any(self.mirroring(one).repeats for one in (log, self.names.counterpart(log)) if one in self.logs)
        )

    def mirrored(self, log: Log, held: Iterable[Held]) -> set[int]:
        """Return offsets of a log that may be on the other cluster, by copies written before clients moved there.

        Args:
            log: of the cluster that clients left.
            held: what it holds, or held.
        """
        there = self.names.counterpart(log)
        until = self.trip.mirrored_until.get(there[1]) if self.trip.lost else self.ledger.opened.get(there)
        copies = [one.digest for one in self.logs.get(there, []) if until is None or one.offset < until]
        return mirrored_at_most(offset_contents(self.ledger.common(log, list(held))), copies)

    def _align(self, log: Log) -> Alignment:
        there, apart, aborted = self.names.counterpart(log), self.ledger.apart.get(log, set()), self.aborted(log)
        live = [pair for pair in offset_contents(self.here(log)) if pair[1] not in aborted]
        old = [
            (record.offset, record.digest)
            for record in self.ledger.told(log, self.trip.number)
            if record.offset not in apart
        ]
        known = merge_known(old, offset_contents(self.here(log, "read_uncommitted")))
        target = offset_contents(self.below(there))
        if self._topic(log).compacted:
            # What only the target holds still, nobody can say where it stood on the source.
            contents = {digest for _, digest in known}
            target = [pair for pair in target if pair[1] in contents]
        return Alignment(live, known, target, self.boundary[there[1]])

    def _first_back(self, log: Log) -> int | None:
        """Where the first record stands that came back from the target."""
        periods = [(number, record.digest) for number, _, record in self.ledger.written(log)]
        old = {digest for number, digest in periods if number <= self.trip.number}
        new = {digest for number, digest in periods if number > self.trip.number} - old
        return next((one.offset for one in self.logs[log] if one.digest in new), None) if new else None

    def _first_new(self, log: Log) -> int:
        period = self.ledger.periods[self.trip.number + 1]
        return min(period.records.get(log[1], {}), default=self.ends[log])

    def _topic(self, log: Log) -> Topic:
        return self.ledger.topics[self.names.local(log[1][0])]

    def _places(self, alias: str) -> list[Place]:
        return [(name, p) for name, count in self.partitions[alias].items() for p in range(count)]

    def _read(self, alias: str, places: list[Place], isolation: str, compacted: Iterable[str]) -> dict[Log, list[Held]]:
        keyed = {name for name, _ in places if self.names.local(name) in compacted}
        found = self.readers[alias].read(places, isolation, keyed)
        self.probed |= {
            (alias, place) for place, held in found.items() if any(one.digest == PROBE_DIGEST for one in held)
        }
        return {(alias, place): [one for one in held if one.digest != PROBE_DIGEST] for place, held in found.items()}

    def _quarantined_on(self, alias: str) -> dict[Place, Counter[int]]:
        existing = self.readers[alias].partitions()
        names = {name + QUARANTINE: topic for topic in self.ledger.topics for name in self.names.names_on(alias, topic)}
        places = [(name, p) for name in names if name in existing for p in range(existing[name])]
        found: dict[Place, Counter[int]] = defaultdict(Counter)
        for (_, (name, _)), held in self._read(alias, places, "read_committed", ()).items():
            for one in held:
                self._put(found, names[name], one)
        return found

    def _put(self, found: dict[Place, Counter[int]], topic: str, one: Held) -> None:
        parts = one.origin.rsplit("/", 3) if one.origin is not None else []
        partitions = (
            [int(parts[2])] if len(parts) == 4 and parts[2].isdigit() else range(self.ledger.topics[topic].partitions)
        )
        for partition in partitions:
            found[topic, partition][one.digest if one.original is None else one.original] += 1
