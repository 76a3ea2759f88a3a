"""Everything the judge looks at where the source cannot be read: the truth is what its clients were told, and
the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from lab.judge.evidence import figures_of
from lab.judge.exhibits import Case, Exhibits, pairs
from lab.judge.lost_records import LossRow, acknowledged_of, loss_rows, mirrored_at_most, surely_mirrored, unconfirmed
from lab.judge.positions import Alignment, Log
from lab.judge.positions_file import Claim, claims, read_rows
from lab.judge.readers import Place
from lab.workload.truth import Record


@dataclass
class LostCase(Case):
    """An unplanned failover that is to be judged.

    Args:
        died_at: when the source was seen dead, in milliseconds since 1970; None for a source that was given up alive.
        starter: user who started the run.
        recorded: a recorder was running, so that every position committed well before the source died must be known.
        mirrored_in_interval: by place on the target, the most that was mirrored there in one sampling interval; empty
            where nobody counted.
    """

    died_at: int | None = None
    starter: str = "operator"
    recorded: bool = True
    mirrored_in_interval: Mapping[Place, int] | None = None


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


class LostExhibits(Exhibits):
    """What is known of both clusters while the source is lost. Nothing here reads the source but `source_logs`, of
    one that has returned.
    """

    case: LostCase

    @cached_property
    def topics(self) -> dict[str, int]:
        """Topics to judge, by source name, with their partition counts as far as the truth or the target tell them."""
        counts = {name: topic.partitions for name, topic in self.case.truth.topics.items()}
        existing = self.target.partitions()
        for name in {a.topic for a in self.case.acknowledged} - set(counts):
            counts[name] = existing.get(self.case.remote(name), 0)
        for a in self.case.acknowledged:
            counts[a.topic] = max(counts[a.topic], a.partition + 1)
        return dict(sorted(counts.items()))

    @cached_property
    def loss(self) -> dict[Place, list[LossRow]]:
        """What the evidence lists as lost; nothing where its rows cannot be understood."""
        try:
            return loss_rows(self.case.evidence["loss"])
        except (KeyError, TypeError, ValueError):
            return {}

    @cached_property
    def unconfirmed(self) -> dict[Place, list[Record]]:
        """Records that were mirrored though nobody was told that they are kept, by source place; only where somebody
        was writing.
        """
        written = {a.topic for a in self.case.acknowledged}
        return {
            place: unconfirmed(self.history[place], pairs(self.mirrored(place))) if place[0] in written else []
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
        told = self.case.evidence.get("positions")
        return self.case.folder / told if isinstance(told, str) else None

    @cached_property
    def assessed_ends(self) -> dict[Place, int]:
        """Where the target's logs ended when the loss was assessed, by place on the target; nothing where the
        evidence does not keep it.
        """
        receipt = figures_of(self.case.evidence, "assess_data_loss").get("bounds") or {}
        path = self.case.folder / receipt.get("file", "")
        rows = pq.read_table(path).to_pylist() if path.is_file() else []
        return {
            (row["target_topic"], row["partition"]): int(row["boundary"]) for row in rows if row["boundary"] is not None
        }

    def taken_since(self, at: Place) -> int:
        """How many offsets a mirrored partition of the target took from the assessment of the loss until replication
        stood.
        """
        end = self.boundary.get(at, 0)
        return end - self.assessed_ends.get(at, end)

    @cached_property
    def claims(self) -> dict[str, dict[Place, Claim]]:
        """What the evidence says of each position."""
        return claims(self.rows)

    @cached_property
    def stands(self) -> dict[str, dict[Place, Stand]]:
        """Where every group stood on the source when it died, by what was committed in its name."""
        stands: dict[str, dict[Place, Stand]] = {}
        for group, topic, partition, offset in self.case.truth.placed():
            stands.setdefault(group, {})[topic, partition] = Stand(offset, offset)
        for (cluster, group), commits in self.case.clients.committed.items():
            for place, commit in commits.items() if cluster == self.case.source else ():
                before = stands.setdefault(group, {}).get(place)
                first_at = None if before else commit.first_at
                position = commit.position if commit.position is not None else (before.position if before else 0)
                stands[group][place] = Stand(position, max(position, commit.attempted), first_at, commit.at)
        return stands

    def _align(self, place: Place) -> Alignment:
        mirrored = self.at_most_mirrored[place]
        known = [(offset, digest) for offset, digest in self.known[place] if offset in mirrored]
        return Alignment(
            self.live_logs[place], known, pairs(self.mirrored(place)), self.boundary.get(self.there(place), 0)
        )

    def _live(self, place: Place) -> list[tuple[int, int]]:
        mirrored = self.at_most_mirrored[place]
        records = sorted((*acknowledged_of(self.history[place]), *self.unconfirmed[place]))
        return [(r.offset, r.digest) for r in records if r.offset in mirrored]

    def _copies(self, place: Place) -> list[int]:
        return [held.digest for held in self.mirrored(place)]
