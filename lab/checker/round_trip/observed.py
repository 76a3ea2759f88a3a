"""Read what the check of one client move compares: every log of both clusters, and what clients wrote.

The checker's ledger (`lab.checker.ledger`) has all records that clients wrote. A place is (topic, partition), a log is
(cluster's alias, place). A period is the time between two client moves. A quarantine topic, `TOPIC.stranded`, gets
stranded records with the decision `quarantine`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.checker import evidence_file
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
    """One client move to check.

    Args:
        number: index of the client move, from 0; clients wrote to `source` in the period of this number, and to
            `target` in the next period.
        dag_id: the procedure.
        source: alias of the cluster that clients left.
        target: alias of the cluster that clients moved to.
        evidence: the procedure's evidence document.
        folder: the evidence's folder.
        before: by group, the positions on the target just before the run.
        placed: by group, the source positions that the workload committed; for a planned failover only of groups
            without consumers, which must still have these positions.
        returned: for a failback, the logs of the target (the returned cluster), read before the run; else empty.
        mirrored_until: for an unplanned failover, the target's log ends once all that MirrorMaker 2 had fetched from
            the lost source was written; else empty.
        died_at: time by which the source had stopped, in milliseconds since 1970; None if the source was not lost.
        crashed: MirrorMaker 2 was killed after the previous client move, so that the logs may have repeats.
        interrupted: brokers failed while clients worked: a consumer whose commit failed consumes records again, on the
            same cluster or on the other, which is no re-read of the client move.
        flows_on: after the client move a flow from target to source mirrors the records that clients write on the
            target.
        mode: of a failback, `append` or `recreate`.
        decisions: of a failback, the decision on stranded records, by topic name or regular expression.
        approver: user who must have answered the gates; None: any user, after an unplanned failover except `starter`.
        starter: user who started the run.
        recorded: a flight recorder was running, so that its archive must have every position committed well before the
            source was lost.
        mirrored_in_interval: by target partition, the most records that were mirrored in any one sampling interval;
            None if these records were not counted.
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
    interrupted: bool = False
    flows_on: bool = False
    mode: str = "append"
    decisions: Mapping[str, str] = field(default_factory=dict)
    approver: str | None = None
    starter: str = "operator"
    recorded: bool = True
    mirrored_in_interval: Mapping[Place, int] | None = None

    @property
    def lost(self) -> bool:
        """Whether the procedure was an unplanned failover, which cannot read the source."""
        return self.dag_id == UNPLANNED

    def decision(self, topic: str) -> str:
        """Return the decision on a topic's stranded records, such as `replay`; `keep` if `decisions` has none.

        The decision for the topic's name counts first, then that of the first regular expression that matches the name;
        `.*` is tried last.
        """
        expressions = sorted(self.decisions, key=lambda name: (name != topic, name == ".*"))
        return next(
            (self.decisions[name] for name in expressions if name == topic or re.fullmatch(name, topic)), "keep"
        )


class RoundTripObserved:
    """Reads both clusters' current state, by log; each property reads the clusters at its first use only."""

    def __init__(
        self,
        ledger: Ledger,
        trip: Trip,
        status: Mapping[str, Any],
        eyes: Callable[[str, Mapping[str, Any]], ClusterReader] = ClusterReader,
    ) -> None:
        """Store the checker's ledger, the client move and a reader per cluster, which `eyes(alias, status)` returns."""
        self.ledger, self.trip, self.names = ledger, trip, ledger.names
        self.readers = {alias: eyes(alias, status) for alias in ledger.names.aliases}
        self.probed: set[Log] = set()
        self._mirrorings: dict[Log, Mirroring] = {}
        self._alignments: dict[Log, Alignment] = {}

    @cached_property
    def partitions(self) -> dict[str, dict[str, int]]:
        """Partition counts of the applications' topics that exist, by cluster alias and by name on that cluster."""
        counts = {}
        for alias, reader in self.readers.items():
            existing = reader.partitions()
            counts[alias] = {
                name: existing[name]
                for topic in self.ledger.topics
                for name in self.names.names_on(alias, topic)
                if name in existing
            }
        return counts

    @cached_property
    def logs(self) -> dict[Log, list[Held]]:
        """All records of both clusters, by log, as a read_uncommitted consumer gets them.

        The checker's own test records are left out.
        """
        compacted = {topic for topic, properties in self.ledger.topics.items() if properties.compacted}
        return {
            log: records
            for alias in self.readers
            for log, records in self._read(alias, self._places(alias), "read_uncommitted", compacted).items()
        }

    @cached_property
    def committed(self) -> dict[Log, list[Held]]:
        """All records of both clusters, by log, as a read_committed consumer gets them.

        Only logs of transactional topics and logs with replays are read a second time.
        """
        with_transactions = [
            log
            for log, records in self.logs.items()
            if self._topic(log).transactional or any(record.origin is not None for record in records)
        ]
        reread: dict[Log, list[Held]] = {}
        for alias in self.readers:
            reread |= self._read(
                alias, [place for cluster, place in with_transactions if cluster == alias], "read_committed", ()
            )
        keys = {(log, record.offset): record.key for log in reread for record in self.logs[log]}
        return self.logs | {
            log: [record._replace(key=keys.get((log, record.offset), 0)) for record in records]
            for log, records in reread.items()
        }

    @cached_property
    def quarantined(self) -> dict[Place, list[int]]:
        """Digests of the original contents of records in quarantine topics, by application topic and partition.

        Quarantine topics are mirrored, too: a record and its mirrored copy count as one.
        """
        digests: dict[Place, Counter[int]] = defaultdict(Counter)
        for alias in self.readers:
            for place, contents in self._quarantined_on(alias).items():
                digests[place] |= contents
        return {place: list(contents.elements()) for place, contents in digests.items()}

    @cached_property
    def ends(self) -> dict[Log, int]:
        """Log ends now, of every log on both clusters."""
        return {
            (alias, place): end
            for alias, reader in self.readers.items()
            for place, end in reader.ends(self._places(alias)).items()
        }

    @cached_property
    def starts(self) -> dict[Log, int]:
        """Log starts now, of every log on both clusters."""
        return {
            (alias, place): start
            for alias, reader in self.readers.items()
            for place, start in reader.starts(self._places(alias)).items()
        }

    @cached_property
    def boundary(self) -> dict[Place, int]:
        """Boundary by target partition, as the evidence states it.

        For a partition that the evidence lacks it is the first offset that clients wrote on the target after the move
        or, if clients wrote nothing, the log end now.
        """
        claimed = self.claimed("boundary")
        return {
            place: claimed.get(place, self._first_new((alias, place)))
            for alias, place in self.logs
            if alias == self.trip.target
        }

    def claimed(self, name: str) -> dict[Place, int]:
        """Return the offsets in the evidence's field `cut_off` or `boundary`, by (topic, partition).

        {} if the field is absent or malformed.
        """
        try:
            return evidence_file.offsets_by_partition(self.trip.evidence[name])
        except (KeyError, TypeError, ValueError):
            return {}

    def on(self, alias: str) -> list[Log]:
        """Return all logs of a cluster."""
        return [log for log in self.logs if log[0] == alias]

    def mirroring(self, log: Log) -> Mirroring:
        """Return the offsets of a log's records by kind, such as copies and repeats; the result is cached.

        If a failback recreated the log's topic, this must be in the checker's ledger before the first call.
        """
        if log not in self._mirrorings:
            without_replays = [(record.offset, record.digest) for record in self.logs[log] if record.origin is None]
            self._mirrorings[log] = mirroring_of(
                without_replays, log[0], origins_of(self.ledger.written(log)), self.ledger.repeated.get(log)
            )
        return self._mirrorings[log]

    def here(self, log: Log, isolation: str = "read_committed") -> list[Held]:
        """Return a source log's records from before the client move, without stranded records.

        Later records of the source log are copies of records that clients write on the target.
        """
        records = self.ledger.common(log, (self.committed if isolation == "read_committed" else self.logs)[log])
        end = self._first_reverse_mirrored(log)
        return records if end is None else [record for record in records if record.offset < end]

    def below(self, log: Log) -> list[Held]:
        """Return a target log's records below the boundary, without stranded records."""
        return [record for record in self.ledger.common(log, self.logs[log]) if record.offset < self.boundary[log[1]]]

    def aborted(self, log: Log) -> set[int]:
        """Return the digests of the contents that clients wrote to a log only in aborted transactions."""
        written = [record for _, _, record in self.ledger.written(log)]
        return {record.digest for record in written if record.state == ABORTED} - {
            record.digest for record in written if record.state != ABORTED
        }

    def alignment(self, log: Log) -> Alignment:
        """Return the pairing of a source log with its target log by content (cached), without stranded records."""
        if log not in self._alignments:
            self._alignments[log] = self._align(log)
        return self._alignments[log]

    def recurs(self, log: Log) -> bool:
        """Whether clients wrote the same content more than once to a log or to the log that it is mirrored from."""
        written = [record.digest for _, _, record in self.ledger.written(log)]
        return len(set(written)) < len(written)

    def ambiguous(self, log: Log) -> bool:
        """Whether it is unknown which target record is the copy of which source record of this log.

        This is so if contents recur, and the log or its counterpart has MirrorMaker 2's repeats. It is never so for a
        planned failover that is the first client move: the source is then mirrored in full, and both logs are paired
        from their ends.
        """
        mirrored_in_full = self.trip.number == 0 and not self.trip.lost
        return (
            not mirrored_in_full
            and self.recurs(log)
            and any(
                self.mirroring(either).repeats for either in (log, self.names.counterpart(log)) if either in self.logs
            )
        )

    def mirrored(self, log: Log, records: Iterable[Held]) -> set[int]:
        """Return the offsets of a log's records that may have been mirrored before clients left the log's cluster.

        Args:
            log: a log of a cluster that clients left, in this client move or an earlier one.
            records: the log's records, as read now or before the run.
        """
        counterpart = self.names.counterpart(log)
        until = self.trip.mirrored_until.get(counterpart[1]) if self.trip.lost else self.ledger.opened.get(counterpart)
        copies = [copy.digest for copy in self.logs.get(counterpart, []) if until is None or copy.offset < until]
        return mirrored_at_most(offset_contents(self.ledger.common(log, list(records))), copies)

    def _align(self, log: Log) -> Alignment:
        counterpart, apart, aborted = (
            self.names.counterpart(log),
            self.ledger.stranded.get(log, set()),
            self.aborted(log),
        )
        live = [pair for pair in offset_contents(self.here(log)) if pair[1] not in aborted]
        written_pairs = [
            (record.offset, record.digest)
            for record in self.ledger.client_records(log, self.trip.number)
            if record.offset not in apart
        ]
        known_log = merge_known(written_pairs, offset_contents(self.here(log, "read_uncommitted")))
        target = offset_contents(self.below(counterpart))
        if self._topic(log).compacted:
            # A content that the source's cleaner removed, but not the target's, has no source offset in the ledger.
            contents = {digest for _, digest in known_log}
            target = [pair for pair in target if pair[1] in contents]
        return Alignment(live, known_log, target, self.boundary[counterpart[1]])

    def _first_reverse_mirrored(self, log: Log) -> int | None:
        """Return the source offset of the first record mirrored from the target after the move; None if none was."""
        periods = [(number, record.digest) for number, _, record in self.ledger.written(log)]
        old_digests = {digest for number, digest in periods if number <= self.trip.number}
        new_digests = {digest for number, digest in periods if number > self.trip.number} - old_digests
        return (
            next((record.offset for record in self.logs[log] if record.digest in new_digests), None)
            if new_digests
            else None
        )

    def _first_new(self, log: Log) -> int:
        period = self.ledger.periods[self.trip.number + 1]
        return min(period.records.get(log[1], {}), default=self.ends[log])

    def _topic(self, log: Log) -> Topic:
        return self.ledger.topics[self.names.local(log[1][0])]

    def _places(self, alias: str) -> list[Place]:
        return [(name, p) for name, count in self.partitions[alias].items() for p in range(count)]

    def _read(self, alias: str, places: list[Place], isolation: str, compacted: Iterable[str]) -> dict[Log, list[Held]]:
        keyed = {name for name, _ in places if self.names.local(name) in compacted}
        logs = self.readers[alias].read(places, isolation, keyed)
        self.probed |= {
            (alias, place)
            for place, records in logs.items()
            if any(record.digest == PROBE_DIGEST for record in records)
        }
        return {
            (alias, place): [record for record in records if record.digest != PROBE_DIGEST]
            for place, records in logs.items()
        }

    def _quarantined_on(self, alias: str) -> dict[Place, Counter[int]]:
        existing = self.readers[alias].partitions()
        names = {name + QUARANTINE: topic for topic in self.ledger.topics for name in self.names.names_on(alias, topic)}
        places = [(name, p) for name in names if name in existing for p in range(existing[name])]
        digests: dict[Place, Counter[int]] = defaultdict(Counter)
        for (_, (name, _)), records in self._read(alias, places, "read_committed", ()).items():
            for record in records:
                self._count_quarantined(digests, names[name], record)
        return digests

    def _count_quarantined(self, digests: dict[Place, Counter[int]], topic: str, record: Held) -> None:
        parts = record.origin.rsplit("/", 3) if record.origin is not None else []
        partitions = (
            [int(parts[2])] if len(parts) == 4 and parts[2].isdigit() else range(self.ledger.topics[topic].partitions)
        )
        for partition in partitions:
            digests[topic, partition][record.digest if record.original is None else record.original] += 1
