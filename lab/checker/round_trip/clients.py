"""Check the clients of one client move, writes on both clusters, and the flow from target to source."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from lab.checker import evidence_file
from lab.checker.client_behaviour import (
    Consumption,
    beyond_cut_off,
    closed_target,
    consumed_findings,
    late_acknowledgements,
    unread_new_records,
)
from lab.checker.findings import Finding, first_examples
from lab.checker.ledger import Place
from lab.checker.readers import REFUSALS
from lab.checker.records import offset_contents
from lab.checker.round_trip.base import TripChecks
from lab.checker.unplanned_check import GRACE_MS


class ClientChecks(TripChecks):
    """Checks acknowledged and consumed records, the flow from target to source, and where producers can write."""

    def _check_acknowledgements(self) -> None:
        acknowledged = list(self.ledger.periods[self.trip.number].acknowledged.values())
        findings = beyond_cut_off(acknowledged, self.seen.claimed("cut_off")) if not self.trip.lost else []
        if self.trip.lost and self.trip.died_at is not None:
            findings += late_acknowledgements(acknowledged, self.trip.died_at, f"{self.trip.source} was lost", GRACE_MS)
        elif not self.trip.lost and self.trip.evidence.get("fenced_at"):
            findings += late_acknowledgements(
                acknowledged, evidence_file.wall_clock_milliseconds(self.trip.evidence["fenced_at"])
            )
        by_load = len(self.ledger.periods[self.trip.number].by_load())
        self.verdict.add(findings, acknowledged_by_load=by_load, acknowledged_by_clients=len(acknowledged) - by_load)

    def _check_consumption(self) -> None:
        before, after = (self.ledger.periods[self.trip.number + step].clients for step in (0, 1))
        reached = self.target.positions(sorted(before.groups()))
        left = self.source.positions(sorted(before.groups())) if self.trip.interrupted else {}
        for group, started in before.started_on(self.trip.source).items():
            if group not in after.started_on(self.trip.target):
                self.verdict.add([Finding("group missing", "the consumer never started on the target", group)])
                continue
            read = [place for place in started if (self.trip.source, place) in self.seen.logs]
            for place in read:
                self._check_delivery(group, place, started[place], reached[group], left.get(group, {}))
            # Under default naming clients do not write to the mirrored topics.
            for at in {
                self._mirrored_place(place) if self.names.policy == "identity" else self._local_place(place)
                for place in read
            }:
                self._check_new_records(group, at, reached[group].get(at, 0))

    def _check_delivery(
        self, group: str, place: Place, start: int, reached: Mapping[Place, int], left: Mapping[Place, int]
    ) -> None:
        log = (self.trip.source, place)
        at = self.names.counterpart(log)
        if at not in self.seen.logs or self.seen.ambiguous(log):
            return
        before, after = (self.ledger.periods[self.trip.number + step].clients for step in (0, 1))
        consumed_here = before.consumed.get((self.trip.source, group), {}).get(place, [])
        consumed_there = after.consumed.get((self.trip.target, group), {}).get(at[1], [])
        if self.trip.interrupted:
            # Without a commit a record counts as unread, wherever the consumer goes on.
            committed = (offset for offset in set(consumed_here) if offset < left.get(place, 0))
            consumed_here, consumed_there = sorted(committed), sorted(set(consumed_there))
        consumption = Consumption(group, *place, start, consumed_here, consumed_there, reached.get(at[1], 0))
        live = offset_contents(self.seen.here(log))
        bound = sys.maxsize if self.trip.lost else ((self.trip.evidence.get("rereads") or {}).get("bound") or 0)
        findings, figures = consumed_findings(consumption, live, offset_contents(self.seen.below(at)), bound)
        self.verdict.add(findings, **figures)

    def _check_new_records(self, group: str, at: Place, reached: int) -> None:
        """Check that a group consumed all records that clients wrote on the target below `reached`, its position."""
        consumed = self.ledger.periods[self.trip.number + 1].clients.consumed.get((self.trip.target, group), {})
        new = [
            (record.offset, record.digest)
            for record in self.seen.logs.get((self.trip.target, at), [])
            if record.offset >= self.seen.boundary[at]
        ]
        findings = unread_new_records(group, at, new, consumed.get(at, []), reached)
        self.verdict.add(findings, new_records_consumed=sum(offset < reached for offset, _ in new))

    def _check_flow_on(self) -> None:
        """Check whether the flow from target to source mirrored what clients wrote on the target after the move.

        If the client move's `flows_on` is True, the source must have all these records, except of compacted topics. If
        it is False, the source must have none of these records, because the flow must be stopped.
        """
        period = self.trip.number + 1
        for place in self.ledger.periods[period].records:
            counterpart = self.names.counterpart((self.trip.target, place))
            new = self.ledger.periods[period].committed(place)
            copies = {copy.digest for copy in self.seen.logs.get(counterpart, [])}
            mirrored = [record for record in new if record.digest in copies]
            findings = []
            if self.trip.flows_on and not self._compacted(place):
                absent = [record for record in new if record.digest not in copies]
                findings = [
                    Finding(
                        "not flowing",
                        f"was written on {self.trip.target} after the move, and is not on {counterpart[0]}",
                        None,
                        *place,
                        record.offset,
                        record.id,
                    )
                    for record in absent
                ]
            elif mirrored and not self.trip.flows_on:
                findings = [
                    Finding(
                        "flowing",
                        f"was mirrored to {counterpart[0]}, although that flow must be stopped",
                        None,
                        *place,
                        record.offset,
                        record.id,
                    )
                    for record in mirrored
                ]
            self.verdict.add(
                findings,
                flowed_on=len(mirrored),
                written_since=len(new),
                standing=0 if self.trip.flows_on else len(new),
            )

    def _check_writes(self) -> None:
        # After all other checks: an accepted write changes the logs that these checks read.
        topics = sorted(self.ledger.topics)
        answers = self.source.try_writes(topics)
        open_here = [
            f"{topic} ({answers.get(topic, 'no answer') or 'accepted'})"
            for topic in topics
            if answers.get(topic) not in REFUSALS
        ]
        if open_here:
            self.verdict.add(
                [Finding("source open", f"does not refuse a producer's write: {first_examples(open_here)}")]
            )
        mirrored = [self._mirrored_place((topic, 0))[0] for topic in topics]
        self.verdict.add(closed_target(self.target, topics, [] if self.names.policy == "identity" else mirrored))
