"""Read what the check of an unplanned failover compares: acknowledgements, the target, and the evidence.

A place is (topic, partition). The checker's ledger (`lab.checker.ledger`) has all records that clients
wrote; it is not the evidence's file `ledger-*.parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from lab.checker.evidence_file import figures_of, offsets_by_partition
from lab.checker.ledger import Ledger
from lab.checker.loss_rows import (
    LossRow,
    acknowledged_of,
    loss_rows,
    mirrored_at_most,
    surely_mirrored,
    unconfirmed_records,
)
from lab.checker.positions import Alignment, Log
from lab.checker.readers import PROBE_DIGEST, ClusterReader, Place
from lab.checker.records import Held, offset_contents
from lab.checker.round_trip.observed import Trip
from lab.checker.stored.stated_place import local_file
from lab.checker.translation_file import PositionClaim, position_claims, read_rows
from lab.workload.ground_truth import TruthRecord


class Stand(NamedTuple):
    """A group's position on one source partition when the source was lost.

    Args:
        position: the position of the last confirmed commit, of the workload or a consumer; 0 without such a commit.
        at_most: the highest position in any commit request, confirmed or not, because the source may have committed
            this position without an answer.
        first_at: time of the first commit, in milliseconds since 1970; None if the workload committed for the group
            before any consumer.
        at: time of the last confirmed commit, in milliseconds since 1970; None if no consumer committed.
    """

    position: int
    at_most: int
    first_at: int | None = None
    at: int | None = None

    def known_as(self, recorded: int | None) -> int:
        """Return the group's source position, with which the target position is to be compared.

        Args:
            recorded: the source position in the file of positions; None if the file has none. It is returned if it lies
                from `position` to `at_most`, because the group may have committed it; else `position` is returned.
        """
        return max(self.position, recorded) if recorded is not None and recorded <= self.at_most else self.position


class UnplannedObserved:
    """Reads the target, the evidence and the clients' logs of one unplanned failover, each at the first use.

    Keys are source partitions unless stated otherwise. Only `source_logs` reads the source, which must have returned.
    """

    def __init__(
        self,
        ledger: Ledger,
        trip: Trip,
        status: Mapping[str, Any],
        eyes: Callable[[str, Mapping[str, Any]], ClusterReader] = ClusterReader,
    ) -> None:
        """Store the checker's ledger, the client move and the lab's status; `eyes(alias, status)` returns a reader."""
        self.ledger, self.trip, self.names = ledger, trip, ledger.names
        self.before, self.after = ledger.periods[trip.number : trip.number + 2]
        self._eyes, self._status = eyes, status
        self.probed: set[Place] = set()

    @cached_property
    def target(self) -> ClusterReader:
        """Reader of the target, created at the first use."""
        return self._eyes(self.trip.target, self._status)

    @cached_property
    def places(self) -> list[Place]:
        """All partitions of the applications' topics on the source, as (topic, partition)."""
        return [(name, p) for name, topic in sorted(self.ledger.topics.items()) for p in range(topic.partitions)]

    @cached_property
    def source_logs(self) -> dict[Place, list[Held]]:
        """Records of the returned source, by source partition, as a read_uncommitted consumer gets them.

        The checker's test records are left out.
        """
        source = self._eyes(self.trip.source, self._status)
        return _without_probes(source.read(self.places, "read_uncommitted"))

    @cached_property
    def target_logs(self) -> dict[Place, list[Held]]:
        """Records of the target's logs, by target partition.

        These are the logs of mirrored topics and, under default naming, of the topics that clients write on the target.
        """
        names = [name for topic in self.ledger.topics for name in self.names.names_on(self.trip.target, topic)]
        existing = self.target.partitions()
        places = [(name, p) for name in sorted(names) if name in existing for p in range(existing[name])]
        keyed = {self.there((topic, 0))[0] for topic in self.compacted}
        raw = self.target.read(places, "read_uncommitted", keyed)
        self.probed = {place for place, log in raw.items() if any(record.digest == PROBE_DIGEST for record in log)}
        return _without_probes(raw)

    @cached_property
    def target_starts(self) -> dict[Place, int]:
        """Log starts of the target now, by target partition."""
        return self.target.starts(self.target_logs)

    @cached_property
    def target_ends(self) -> dict[Place, int]:
        """Log ends of the target now, by target partition."""
        return self.target.ends(self.target_logs)

    @cached_property
    def boundary(self) -> dict[Place, int]:
        """Boundary by target partition: the evidence's, or the current log end if the evidence has none."""
        try:
            claimed = offsets_by_partition(self.trip.evidence["boundary"])
        except (KeyError, TypeError, ValueError):
            claimed = {}
        return self.target_ends | {place: offset for place, offset in claimed.items() if place in self.target_ends}

    @cached_property
    def compacted(self) -> set[str]:
        """Names of the compacted topics, as clients write them."""
        return {name for name, topic in self.ledger.topics.items() if topic.compacted}

    @cached_property
    def history(self) -> dict[Place, list[TruthRecord]]:
        """Every record that the source acknowledged or aborted before the loss, by source partition."""
        return {place: self.before.written(place) for place in self.places}

    @cached_property
    def loss(self) -> dict[Place, list[LossRow]]:
        """The evidence's loss rows, by source partition; {} if the evidence's loss is absent or malformed."""
        try:
            return loss_rows(self.trip.evidence["loss"])
        except (KeyError, TypeError, ValueError):
            return {}

    @cached_property
    def unconfirmed(self) -> dict[Place, list[TruthRecord]]:
        """Records on the target that no producer logged as acknowledged, by source partition.

        [] for topics without any acknowledgement.
        """
        written = {topic for (topic, _), _ in self.before.acknowledged}
        return {
            place: unconfirmed_records(self.history[place], offset_contents(self.mirrored(place)))
            if place[0] in written
            else []
            for place in self.places
        }

    @cached_property
    def known(self) -> dict[Place, Log]:
        """(offset, digest) of all records that the source had, by source partition: `history` and `unconfirmed`."""
        return {
            place: [
                (record.offset, record.digest) for record in sorted((*self.history[place], *self.unconfirmed[place]))
            ]
            for place in self.places
        }

    @cached_property
    def at_most_mirrored(self) -> dict[Place, set[int]]:
        """Source offsets of records that may be on the target below the boundary, by source partition."""
        return {place: mirrored_at_most(self.known[place], self._mirrored_digests(place)) for place in self.places}

    @cached_property
    def surely_mirrored(self) -> dict[Place, set[int]]:
        """Source offsets of records that certainly are on the target below the boundary, by source partition."""
        return {place: surely_mirrored(self.known[place], self._mirrored_digests(place)) for place in self.places}

    @cached_property
    def live_logs(self) -> dict[Place, list[tuple[int, int]]]:
        """(offset, digest) of the records in `at_most_mirrored` that a read_committed consumer would have got.

        Keys are source partitions, offsets are those on the source.
        """
        return {place: self._live_log(place) for place in self.places}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the evidence's file of positions; [] if the file is absent."""
        path = self.positions_path
        return read_rows(path) if path is not None and path.is_file() else []

    @property
    def positions_path(self) -> Path | None:
        """Path of the file of positions; None if the evidence names none."""
        file_name = self.trip.evidence.get("positions")
        return local_file(self.trip.folder, file_name) if isinstance(file_name, str) else None

    @cached_property
    def assessed_ends(self) -> dict[Place, int]:
        """Target log ends at the time of assess_data_loss, by target partition; {} if the evidence has none."""
        receipt = figures_of(self.trip.evidence, "assess_data_loss").get("bounds") or {}
        path = self.trip.folder / receipt.get("file", "")
        rows = pq.read_table(path).to_pylist() if path.is_file() else []
        return {
            (row["target_topic"], row["partition"]): int(row["boundary"]) for row in rows if row["boundary"] is not None
        }

    def taken_since(self, at: Place) -> int:
        """Return the growth of a target partition, in offsets, from assess_data_loss to the boundary; 0 if unknown."""
        end = self.boundary.get(at, 0)
        return end - self.assessed_ends.get(at, end)

    @cached_property
    def claims(self) -> dict[str, dict[Place, PositionClaim]]:
        """The claims of the product's file of positions, by group and source partition."""
        return position_claims(self.rows)

    @cached_property
    def stands(self) -> dict[str, dict[Place, Stand]]:
        """Each group's positions when the source was lost, by group and source partition.

        These positions come from the workload's ground truth and from the clients' logged commits.
        """
        stands: dict[str, dict[Place, Stand]] = {}
        for group, positions in self.trip.placed.items():
            stands[group] = {place: Stand(offset, offset) for place, offset in positions.items()}
        for (cluster, group), commits in self.before.clients.committed.items():
            for place, commit in commits.items() if cluster == self.trip.source else ():
                before = stands.setdefault(group, {}).get(place)
                first_at = None if before else commit.first_at
                position = commit.position if commit.position is not None else (before.position if before else 0)
                stands[group][place] = Stand(position, max(position, commit.attempted), first_at, commit.at)
        return stands

    @cached_property
    def alignments(self) -> dict[Place, Alignment]:
        """The source's log and the target's log, paired by content, by source partition.

        The source is not read: its log consists of the records in `known` that may be on the target.
        """
        return {place: self._align(place) for place in self.places}

    def there(self, place: Place) -> Place:
        """Return the target partition to which a source partition is mirrored."""
        return self.names.counterpart((self.trip.source, place))[1]

    def mirrored(self, place: Place) -> list[Held]:
        """Return the target's records below the boundary of the partition to which `place` is mirrored."""
        mirrored_place = self.there(place)
        return [
            record
            for record in self.target_logs.get(mirrored_place, [])
            if record.offset < self.boundary[mirrored_place]
        ]

    def written_there(self, place: Place) -> list[Held]:
        """Return the target's records from the boundary on, of the partition to which `place` is mirrored."""
        mirrored_place = self.there(place)
        return [
            record
            for record in self.target_logs.get(mirrored_place, [])
            if record.offset >= self.boundary[mirrored_place]
        ]

    def _align(self, place: Place) -> Alignment:
        mirrored = self.at_most_mirrored[place]
        mirrored_log = [(offset, digest) for offset, digest in self.known[place] if offset in mirrored]
        return Alignment(
            self.live_logs[place],
            mirrored_log,
            offset_contents(self.mirrored(place)),
            self.boundary.get(self.there(place), 0),
        )

    def _live_log(self, place: Place) -> list[tuple[int, int]]:
        mirrored = self.at_most_mirrored[place]
        records = sorted((*acknowledged_of(self.history[place]), *self.unconfirmed[place]))
        return [(record.offset, record.digest) for record in records if record.offset in mirrored]

    def _mirrored_digests(self, place: Place) -> list[int]:
        return [record.digest for record in self.mirrored(place)]


def _without_probes(logs: Mapping[Place, list[Held]]) -> dict[Place, list[Held]]:
    return {place: [record for record in log if record.digest != PROBE_DIGEST] for place, log in logs.items()}
