"""Check the groups' positions on both clusters after one client move."""

from __future__ import annotations

from collections.abc import Mapping

from lab.checker.client_behaviour import absent_positions, misplaced_positions, uncalled_positions
from lab.checker.findings import Finding
from lab.checker.ledger import Place
from lab.checker.readers import INTERNAL_GROUPS
from lab.checker.round_trip.base import TripChecks
from lab.checker.stored.stated_place import local_file
from lab.checker.translation_file import PositionClaim, position_claims, read_rows
from lab.checker.unplanned_check import RECENT_MS


class PositionChecks(TripChecks):
    """Checks the groups' target positions, and that groups without consumers still have their source positions."""

    def _check_positions(self) -> None:
        groups = [group for group in self.source.groups() if not group.startswith(INTERNAL_GROUPS)]
        source_positions = self.source.positions(groups)
        target_positions = self.target.positions(groups)
        self.verdict.add(self._changed_source_positions(source_positions))
        started = self.ledger.periods[self.trip.number + 1].clients.started_on(self.trip.target)
        claimed = self._claims()
        for group in groups:
            positions = {
                place: offset
                for place, offset in source_positions[group].items()
                if (self.trip.source, place) in self.seen.logs
            }
            # Consumers on the target have committed, too: what counts is their group's position before the first one.
            self._check_group(group, positions, started.get(group, target_positions[group]), claimed.get(group, {}))

    def _changed_source_positions(self, source: Mapping[str, Mapping[Place, int]]) -> list[Finding]:
        return [
            Finding(
                "source position",
                f"was {offset}, on the source now {source.get(group, {}).get(place)}",
                group,
                *place,
            )
            for group, positions in self.trip.placed.items()
            for place, offset in positions.items()
            if source.get(group, {}).get(place) != offset
        ]

    def _claims(self) -> Mapping[str, Mapping[Place, PositionClaim]]:
        path = local_file(self.trip.folder, str(self.trip.evidence.get("positions")))
        return position_claims(read_rows(path)) if self.trip.lost and path.is_file() else {}

    def _check_group(
        self,
        group: str,
        source_positions: Mapping[Place, int],
        target_positions: Mapping[Place, int],
        claimed: Mapping[Place, PositionClaim],
    ) -> None:
        if not source_positions:
            return
        may_be_absent = {
            place
            for place in source_positions
            if self.trip.lost and self._may_be_absent(group, place, claimed.get(place))
        }
        expected = {place: position for place, position in source_positions.items() if place not in may_be_absent}
        found_positions = {
            place: offset for place, offset in target_positions.items() if (self.trip.target, place) in self.seen.logs
        }
        local = None if self.names.policy == "identity" else self._local_place
        naming_and_before = (self._mirrored_place, local, self.trip.before.get(group))
        # A refused position is absent on the mirrored topic only; on the topic that clients write the group has 0.
        with_absent = found_positions | {self._mirrored_place(place): 0 for place in may_be_absent}
        self.verdict.add(
            absent_positions(group, source_positions, with_absent, *naming_and_before)
            + uncalled_positions(group, source_positions, found_positions, *naming_and_before),
            groups=1,
            positions_left=len(may_be_absent),
        )
        for place, position in expected.items():
            if self._mirrored_place(place) in found_positions:
                self._check_position(
                    group, place, position, found_positions[self._mirrored_place(place)], claimed.get(place)
                )

    def _may_be_absent(self, group: str, place: Place, claim: PositionClaim | None) -> bool:
        """Whether the group needs no target position for a source partition.

        This is so if the file of positions refuses the position. If the file has no row, it is so if the group's first
        commit was just before the source was lost.

        Args:
            group: the group's id.
            place: topic and partition on the source.
            claim: the row of the file of positions; None if the file has none.
        """
        if claim is not None:
            return claim.target_position is None
        commit = self.ledger.periods[self.trip.number].clients.committed.get((self.trip.source, group), {}).get(place)
        return commit is not None and self.trip.died_at is not None and commit.first_at > self.trip.died_at - RECENT_MS

    def _check_position(
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
        source_position, bound = (position, 0) if claim is None or claim.exact else (claim.position, claim.bound)
        findings = misplaced_positions(
            group, at[1], alignment, position, target_position, self.seen.starts[at], unread, source_position, bound
        )
        self._rereads = max(self._rereads, standing.rereads)
        self.verdict.add(findings, positions=1, exact=int(standing.exact))
        return None
