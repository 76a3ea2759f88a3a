"""Positions of groups on the target."""

from __future__ import annotations

from collections.abc import Mapping

from lab.checker.client_behaviour import (
    absent_positions,
    misplaced_positions,
    uncalled_positions,
)
from lab.checker.findings import Finding
from lab.checker.ledger import Place
from lab.checker.readers import INTERNAL_GROUPS
from lab.checker.round_trip.base import TripChecks
from lab.checker.translation_file import PositionClaim, position_claims, read_rows
from lab.checker.unplanned_check import RECENT_MS


class PositionChecks(TripChecks):
    """Every group stands where it belongs."""

    def _judge_positions(self) -> None:
        groups = [group for group in self.source.groups() if not group.startswith(INTERNAL_GROUPS)]
        here = self.source.positions(groups)
        there = self.target.positions(groups)
        self.verdict.add(self._moved_on_source(here))
        started = self.ledger.periods[self.trip.number + 1].clients.started_on(self.trip.target)
        claimed = self._claims()
        for group in groups:
            positions = {
                place: offset for place, offset in here[group].items() if (self.trip.source, place) in self.seen.logs
            }
            # A group with consumers has moved on by now: what counts is what its first consumer found.
            self._judge_group(group, positions, started.get(group, there[group]), claimed.get(group, {}))

    def _moved_on_source(self, here: Mapping[str, Mapping[Place, int]]) -> list[Finding]:
        return [
            Finding(
                "source position", f"was {offset}, the source now says {here.get(group, {}).get(place)}", group, *place
            )
            for group, positions in self.trip.placed.items()
            for place, offset in positions.items()
            if here.get(group, {}).get(place) != offset
        ]

    def _claims(self) -> Mapping[str, Mapping[Place, PositionClaim]]:
        path = self.trip.folder / str(self.trip.evidence.get("positions"))
        return position_claims(read_rows(path)) if self.trip.lost and path.is_file() else {}

    def _judge_group(
        self, group: str, here: Mapping[Place, int], there: Mapping[Place, int], claimed: Mapping[Place, PositionClaim]
    ) -> None:
        if not here:
            return
        left = {place for place in here if self.trip.lost and self._may_be_absent(group, place, claimed.get(place))}
        due = {place: position for place, position in here.items() if place not in left}
        held = {place: offset for place, offset in there.items() if (self.trip.target, place) in self.seen.logs}
        local = None if self.names.policy == "identity" else self._local
        also = (self._there, local, self.trip.before.get(group))
        # A refused position has none on the copy; on the topic that clients write the group begins all the same.
        placed = held | {self._there(place): 0 for place in left}
        self.verdict.add(
            absent_positions(group, here, placed, *also) + uncalled_positions(group, here, held, *also),
            groups=1,
            positions_left=len(left),
        )
        for place, position in due.items():
            if self._there(place) in held:
                self._judge_position(group, place, position, held[self._there(place)], claimed.get(place))

    def _may_be_absent(self, group: str, place: Place, claim: PositionClaim | None) -> bool:
        """Of a lost source a position that was refused, or that nobody can have seen before it died."""
        if claim is not None:
            return claim.target_position is None
        commit = self.ledger.periods[self.trip.number].clients.committed.get((self.trip.source, group), {}).get(place)
        return commit is not None and self.trip.died_at is not None and commit.first_at > self.trip.died_at - RECENT_MS

    def _judge_position(
        self, group: str, place: Place, position: int, target_position: int, claim: PositionClaim | None
    ) -> None:
        log = (self.trip.source, place)
        at = self.names.counterpart(log)
        if at not in self.seen.logs:
            return None
        if self.seen.ambiguous(log):
            return self.verdict.add([], positions_ambiguous=1)
        alignment = self.seen.alignment(log)
        standing = alignment.standing(position, target_position)
        unread = self._id_of(log, standing.skipped[0]) if standing.skipped else None
        known, bound = (position, 0) if claim is None or claim.exact else (claim.position, claim.bound)
        findings = misplaced_positions(
            group, at[1], alignment, position, target_position, self.seen.starts[at], unread, known, bound
        )
        self._rereads = max(self._rereads, standing.rereads)
        self.verdict.add(findings, positions=1, exact=int(standing.exact))
        return None
