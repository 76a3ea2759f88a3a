"""What the judge reads where the source cannot be read: what its clients were told, and the target."""

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
from lab.checker.translation_file import PositionClaim, position_claims, read_rows
from lab.workload.ground_truth import TruthRecord


class Stand(NamedTuple):
    """Where a group stood on one source partition when the source died.

    Args:
        position: the last commit that it knows of.
        at_most: the highest position that it asked to be committed: the source may have taken it and died.
        first_at: when it first committed there, in milliseconds since 1970; None where that was before anything was
            recorded.
        at: when it last did.
    """

    position: int
    at_most: int
    first_at: int | None = None
    at: int | None = None

    def known_as(self, recorded: int | None) -> int:
        """Return the position, or the recorded one where the group had asked for as much and was never answered."""
        return max(self.position, recorded) if recorded is not None and recorded <= self.at_most else self.position


class UnplannedObserved:
    """What is known of both clusters while the source is lost, by source place unless said otherwise.

    Nothing here reads the source but `source_logs`, of one that has returned.
    """

    def __init__(
        self,
        ledger: Ledger,
        trip: Trip,
        status: Mapping[str, Any],
        eyes: Callable[[str, Mapping[str, Any]], ClusterReader] = ClusterReader,
    ) -> None:
        """Take ledger, trip and lab status; `eyes` makes a cluster's reader from its alias and the status."""
        self.ledger, self.trip, self.names = ledger, trip, ledger.names
        self.before, self.after = ledger.periods[trip.number : trip.number + 2]
        self._eyes, self._status = eyes, status
        self.probed: set[Place] = set()

    @cached_property
    def target(self) -> ClusterReader:
        """The target's reader."""
        return self._eyes(self.trip.target, self._status)

    @cached_property
    def places(self) -> list[Place]:
        """All partitions to judge."""
        return [(name, p) for name, topic in sorted(self.ledger.topics.items()) for p in range(topic.partitions)]

    @cached_property
    def source_logs(self) -> dict[Place, list[Held]]:
        """The logs of a source that is back, as an uncommitted reader gets them, without the judge's own probes."""
        source = self._eyes(self.trip.source, self._status)
        return _without_probes(source.read(self.places, "read_uncommitted"))

    @cached_property
    def target_logs(self) -> dict[Place, list[Held]]:
        """The target's whole logs by target name (mirrored topics, and local ones under default naming)."""
        names = [name for topic in self.ledger.topics for name in self.names.names_on(self.trip.target, topic)]
        existing = self.target.partitions()
        places = [(name, p) for name in sorted(names) if name in existing for p in range(existing[name])]
        keyed = {self.there((topic, 0))[0] for topic in self.compacted}
        raw = self.target.read(places, "read_uncommitted", keyed)
        self.probed = {place for place, log in raw.items() if any(held.digest == PROBE_DIGEST for held in log)}
        return _without_probes(raw)

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
            claimed = offsets_by_partition(self.trip.evidence["boundary"])
        except (KeyError, TypeError, ValueError):
            claimed = {}
        return self.target_ends | {place: offset for place, offset in claimed.items() if place in self.target_ends}

    @cached_property
    def compacted(self) -> set[str]:
        """The compacted topics."""
        return {name for name, topic in self.ledger.topics.items() if topic.compacted}

    @cached_property
    def history(self) -> dict[Place, list[TruthRecord]]:
        """Every record that the source acknowledged or aborted, in offset order."""
        return {place: self.before.written(place) for place in self.places}

    @cached_property
    def loss(self) -> dict[Place, list[LossRow]]:
        """What the evidence lists as lost; nothing where its rows cannot be understood."""
        try:
            return loss_rows(self.trip.evidence["loss"])
        except (KeyError, TypeError, ValueError):
            return {}

    @cached_property
    def unconfirmed(self) -> dict[Place, list[TruthRecord]]:
        """Records mirrored without an acknowledgement, by source place; only of topics that had a writer."""
        written = {topic for (topic, _), _ in self.before.acknowledged}
        return {
            place: unconfirmed_records(self.history[place], offset_contents(self.mirrored(place)))
            if place[0] in written
            else []
            for place in self.places
        }

    @cached_property
    def known(self) -> dict[Place, Log]:
        """Everything that is known to have had an offset on the source."""
        return {
            place: [(r.offset, r.digest) for r in sorted((*self.history[place], *self.unconfirmed[place]))]
            for place in self.places
        }

    @cached_property
    def at_most_mirrored(self) -> dict[Place, set[int]]:
        """Source offsets that may be on the target."""
        return {place: mirrored_at_most(self.known[place], self._copies(place)) for place in self.places}

    @cached_property
    def surely_mirrored(self) -> dict[Place, set[int]]:
        """Source offsets that must be on the target."""
        return {place: surely_mirrored(self.known[place], self._copies(place)) for place in self.places}

    @cached_property
    def live_logs(self) -> dict[Place, list[tuple[int, int]]]:
        """Of what a committed reader would have been given by the source: the part that is on the target."""
        return {place: self._live(place) for place in self.places}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The file of positions; nothing where there is none."""
        path = self.positions_path
        return read_rows(path) if path is not None and path.is_file() else []

    @property
    def positions_path(self) -> Path | None:
        """Where the evidence says that the file of positions is."""
        told = self.trip.evidence.get("positions")
        return self.trip.folder / told if isinstance(told, str) else None

    @cached_property
    def assessed_ends(self) -> dict[Place, int]:
        """Target log ends when the loss was assessed, by target place; {} where the evidence lacks them."""
        receipt = figures_of(self.trip.evidence, "assess_data_loss").get("bounds") or {}
        path = self.trip.folder / receipt.get("file", "")
        rows = pq.read_table(path).to_pylist() if path.is_file() else []
        return {
            (row["target_topic"], row["partition"]): int(row["boundary"]) for row in rows if row["boundary"] is not None
        }

    def taken_since(self, at: Place) -> int:
        """Offsets that a mirrored target partition took from the loss assessment until replication stopped."""
        end = self.boundary.get(at, 0)
        return end - self.assessed_ends.get(at, end)

    @cached_property
    def claims(self) -> dict[str, dict[Place, PositionClaim]]:
        """What the evidence says of each position."""
        return position_claims(self.rows)

    @cached_property
    def stands(self) -> dict[str, dict[Place, Stand]]:
        """Where every group stood on the source when it died, by what was committed in its name."""
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
        """Both logs of every partition held against each other."""
        return {place: self._align(place) for place in self.places}

    def there(self, place: Place) -> Place:
        """Return a source partition's name on the target."""
        return self.names.counterpart((self.trip.source, place))[1]

    def mirrored(self, place: Place) -> list[Held]:
        """Return the target's records of a source partition below the boundary."""
        there = self.there(place)
        return [held for held in self.target_logs.get(there, []) if held.offset < self.boundary[there]]

    def written_there(self, place: Place) -> list[Held]:
        """Return the target's records at or above the boundary of a partition's mirrored topic."""
        there = self.there(place)
        return [held for held in self.target_logs.get(there, []) if held.offset >= self.boundary[there]]

    def _align(self, place: Place) -> Alignment:
        mirrored = self.at_most_mirrored[place]
        known = [(offset, digest) for offset, digest in self.known[place] if offset in mirrored]
        return Alignment(
            self.live_logs[place], known, offset_contents(self.mirrored(place)), self.boundary.get(self.there(place), 0)
        )

    def _live(self, place: Place) -> list[tuple[int, int]]:
        mirrored = self.at_most_mirrored[place]
        records = sorted((*acknowledged_of(self.history[place]), *self.unconfirmed[place]))
        return [(r.offset, r.digest) for r in records if r.offset in mirrored]

    def _copies(self, place: Place) -> list[int]:
        return [held.digest for held in self.mirrored(place)]


def _without_probes(logs: Mapping[Place, list[Held]]) -> dict[Place, list[Held]]:
    return {place: [held for held in log if held.digest != PROBE_DIGEST] for place, log in logs.items()}
