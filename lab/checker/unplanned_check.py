"""The judge of an unplanned failover: clients' acknowledgements against the target and the evidence."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from lab.checker import evidence_file as told
from lab.checker import records as seen
from lab.checker.client_behaviour import (
    Consumption,
    absent_positions,
    closed_target,
    consumed_findings,
    late_acknowledgements,
    misplaced_positions,
    uncalled_positions,
    unlike_topics,
    unread_new_records,
)
from lab.checker.findings import Finding, Verdict
from lab.checker.loss_rows import LossRow, acknowledged_of, compare_stranded, loss_rows, unlisted_records, wrongly_lost
from lab.checker.positions import out_of_order
from lab.checker.readers import INTERNAL_GROUPS, Place
from lab.checker.records import Held, offset_contents
from lab.checker.stranded_export import listed_contents as listed_in
from lab.checker.translation_file import PositionClaim, agreement_findings
from lab.checker.unplanned_claims import (
    approved_bounds,
    beyond_approved,
    contradicting_claims,
    records_per_second,
    unlisted_loss,
)
from lab.checker.unplanned_observed import Stand, UnplannedObserved
from lab.workload.ground_truth import TruthRecord

#: An answer that the source sent before it died is taken note of later on a busy machine.
GRACE_MS = 3_000
#: A first commit so shortly before the source died may have been seen by no recorder.
RECENT_MS = 15_000


class UnplannedCheck:
    """Judges one finished unplanned failover: first without its source, later, if that comes back, with it."""

    def __init__(self, exhibits: UnplannedObserved) -> None:
        self.seen, self.trip, self.names = exhibits, exhibits.trip, exhibits.names
        self.verdict = Verdict()
        self._rereads = 0
        self._identity = self.names.policy == "identity"
        self._ours_there = {a.digest for a in exhibits.after.clients.acknowledged[self.trip.target]}
        self._most_again: Counter[str] = Counter()

    def judge(self, writes: bool = True) -> Verdict:
        """Run every check that needs no source.

        Args:
            writes: also try one write to every topic of the target, at the very end.
        """
        shape = told.shape_findings(self.trip.evidence, told.LOST_FIELDS)
        self.verdict.add(shape)
        self._judge_topics()
        for place in self.seen.places:
            self._judge_records(place)
        self._judge_positions()
        self._judge_clients()
        self._judge_consumption()
        if not shape:
            self._judge_evidence()
        if writes:
            topics = sorted(self.seen.ledger.topics)
            mirrored = [] if self._identity else [self.seen.there((topic, 0))[0] for topic in topics]
            self.verdict.add(closed_target(self.seen.target, topics, mirrored))
        return self.verdict

    def _judge_topics(self) -> None:
        topics, target = self.seen.ledger.topics, self.trip.target
        wanted = {name: topics[topic].partitions for topic in topics for name in self.names.names_on(target, topic)}
        findings = unlike_topics(wanted, self.seen.target.partitions())
        self.verdict.add(findings, topics=len(topics), partitions=len(self.seen.places))

    # Records: a third place beside the target and the loss list there is not.

    def _judge_records(self, place: Place) -> None:
        history, target, rows = self.seen.history[place], self.seen.mirrored(place), self.seen.loss.get(place, [])
        acknowledged, digests = acknowledged_of(history), [held.digest for held in target]
        present = self._present(place, acknowledged)
        third = unlisted_records(acknowledged, present, rows)
        known = self.seen.known[place]
        figures = {
            "records": len(acknowledged),
            "not_on_target": sum(record.offset not in present for record in acknowledged),
            "missing": len(third),
            "listed_certain": sum((row.certain_to or row.from_offset) - row.from_offset for row in rows),
            "open_ends": sum(row.possible_to is None for row in rows),
            "unconfirmed_mirrored": len(self.seen.unconfirmed[place]),
            "repeats": seen.count_repeats([digest for _, digest in known], digests),
            "aborted_visible": seen.aborted_visible(history, digests),
            "out_of_order": out_of_order(self.seen.live_logs[place], offset_contents(target)),
        }
        findings = self._third_place(place, third) + self._wrongly_lost(place, rows)
        self.verdict.add(findings + self._foreign(place, [digest for _, digest in known], target), **figures)

    def _foreign(self, place: Place, known: list[int], target: list[Held]) -> list[Finding]:
        wrong = [
            ("stranger", "is on the target below the boundary, the source never held it", held)
            for held in seen.foreign_records(known, target)
        ]
        wrong += [
            ("boundary", "was mirrored above the boundary, or written by nobody the judge knows", held)
            for held in self.seen.written_there(place)
            if held.digest not in self._ours_there
        ]
        at = self.seen.there(place)
        return [Finding(check, text, None, *at, held.offset) for check, text, held in wrong]

    def _present(self, place: Place, acknowledged: list[TruthRecord]) -> set[int]:
        """Source offsets that count as being on the target; of a compacted topic only the latest of each key."""
        if place[0] not in self.seen.compacted:
            return self.seen.at_most_mirrored[place]
        stale = {record.offset for record in seen.stale_keys(acknowledged, self.seen.mirrored(place))}
        return {record.offset for record in acknowledged} - stale

    def _third_place(self, place: Place, records: list[TruthRecord]) -> list[Finding]:
        text = "acknowledged by the source (its offset), neither on the target nor listed as lost"
        return [Finding("missing", text, None, *place, record.offset, record.id) for record in records]

    def _wrongly_lost(self, place: Place, rows: list[LossRow]) -> list[Finding]:
        names = self._names(place)
        offsets = wrongly_lost(self.seen.known[place], self.seen.surely_mirrored[place], rows) if rows else []
        text = "listed as certainly lost (its offset on the source), and is on the target"
        return [Finding("not lost", text, None, *place, offset, names.get(offset)) for offset in offsets]

    def _names(self, place: Place) -> dict[int, str | None]:
        return {record.offset: record.id for record in self.seen.history[place]}

    # Positions: by the truth, and by what the product said of them.

    def _judge_positions(self) -> None:
        ours = {group: stands for group, stands in self.seen.stands.items() if not group.startswith(INTERNAL_GROUPS)}
        now = self.seen.target.positions(sorted(ours))
        started = self.seen.after.clients.started_on(self.trip.target)
        for group, stands in ours.items():
            # A group with consumers has moved on by now: what counts is what its first consumer found.
            self._judge_stands(group, stands, started.get(group, now.get(group, {})))
        self.verdict.figures["positions_of_others"] = sum(
            len(rows) for group, rows in self.seen.claims.items() if group not in ours
        )

    def _judge_stands(self, group: str, stands: Mapping[Place, Stand], there: Mapping[Place, int]) -> None:
        rows = self.seen.claims.get(group, {})
        names = (self.seen.there, None if self._identity else lambda place: place)
        unknown = {place for place, stand in stands.items() if place not in rows and self._may_be_unknown(stand)}
        left = {place for place, claim in rows.items() if claim.target_position is None}
        wanted = {place: stand.position for place, stand in stands.items() if place not in unknown | left}
        found = {
            place: offset for place, offset in there.items() if self.names.local(place[0]) in self.seen.ledger.topics
        }
        self.verdict.add(
            absent_positions(group, wanted, found, *names),
            groups=1,
            positions_unknown=len(unknown),
            positions_refused=len(left & set(stands)),
        )
        # A refused position has none on the copy; on the topic that clients write the group begins all the same.
        begun = {place for place in left if names[1] and place in stands and found.get(place) == 0}
        others = {place: offset for place, offset in found.items() if place not in begun}
        self.verdict.add(uncalled_positions(group, wanted, others, *names))
        for place in wanted:
            self._judge_stand(group, place, stands[place], rows.get(place), found.get(self.seen.there(place)))

    def _may_be_unknown(self, stand: Stand) -> bool:
        """Tell whether a position may be unknown: never recorded, or first committed just before the source's end."""
        died_at = self.trip.died_at
        return not self.trip.recorded or (
            died_at is not None and stand.first_at is not None and stand.first_at > died_at - RECENT_MS
        )

    def _judge_stand(
        self, group: str, place: Place, stand: Stand, claim: PositionClaim | None, target_position: int | None
    ) -> None:
        at = self.seen.there(place)
        if claim is None:
            return self.verdict.add(
                [
                    Finding(
                        "group missing",
                        f"source position {stand.position} has no row in the file of positions",
                        group,
                        *place,
                    )
                ]
            )
        findings = contradicting_claims(group, place, at, stand, claim, target_position)
        if target_position is not None:
            findings += self._judge_place(group, place, stand.known_as(claim.position), claim, target_position)
        self._tell_age(stand, claim)
        return self.verdict.add(findings, positions=1, claimed_exact=int(claim.exact))

    def _judge_place(
        self, group: str, place: Place, position: int, claim: PositionClaim, target_position: int
    ) -> list[Finding]:
        at, alignment = self.seen.there(place), self.seen.alignments[place]
        skipped = alignment.standing(position, target_position).skipped
        unread = self._names(place).get(skipped[0]) if skipped else None
        start, bound = self.seen.target_starts.get(at, 0), 0 if claim.exact else claim.bound
        findings = misplaced_positions(
            group, at, alignment, position, target_position, start, unread, claim.position, bound
        )
        again = alignment.consumed_again(claim.position, target_position)
        self._rereads = max(self._rereads, again)
        # What the target took after the loss was approved nobody could foretell.
        self._most_again[group] = max(self._most_again[group], again - self.seen.taken_since(at))
        return findings + self._beyond_interval(group, at, claim)

    def _beyond_interval(self, group: str, at: Place, claim: PositionClaim) -> list[Finding]:
        counted = self.trip.mirrored_in_interval
        if not counted or claim.exact or (claim.bound is not None and claim.bound <= counted.get(at, 0)):
            return []
        return [
            Finding(
                "interval",
                f"bound is {claim.bound}, at most {counted.get(at, 0)} were mirrored in one sampling interval",
                group,
                *at,
                claim.target_position,
            )
        ]

    def _told_beyond_interval(self) -> list[Finding]:
        """Find idle groups whose planned bound exceeds one sampling interval's records, however far the group lags."""
        counted, clients, source = self.trip.mirrored_in_interval, self.seen.before.clients, self.trip.source
        busy = {group for cluster, group in clients.committed if cluster == source} | {*clients.started_on(source)}
        if not counted:
            return []
        found = []
        for group, bound in approved_bounds(self.trip.evidence).items():
            most = max((counted.get(self.seen.there(place), 0) for place in self.seen.stands.get(group, {})), default=0)
            if group in self.seen.stands and group not in busy and (bound is None or bound > most):
                text = (
                    f"up to {told} records were told before the approval, at most {most} were mirrored to one of its"
                    " partitions in one sampling interval"
                )
                found.append(Finding("approved interval", text, group))
        return found

    def _tell_age(self, stand: Stand, claim: PositionClaim) -> None:
        figures = self.verdict.figures
        figures["rereads_at_most"] = max(figures["rereads_at_most"], self._rereads)
        if stand.position > claim.position:
            age = (stand.at or 0) - claim.recorded_at if claim.recorded_at and stand.at else 0
            figures["positions_outdated"] += 1
            figures["oldest_outdated_ms"] = max(figures["oldest_outdated_ms"], age)

    # Clients.

    def _judge_clients(self) -> None:
        before, after, source, target = self.seen.before, self.seen.after, self.trip.source, self.trip.target
        acknowledged, by_load = list(before.acknowledged.values()), before.by_load()
        findings = [f for group in before.clients.started_on(source) for f in self._idle(group)]
        if before.clients.acknowledged[source] and not after.clients.acknowledged[target]:
            findings.append(Finding("clients", f"wrote on {source}, and nothing was acknowledged to them on {target}"))
        if self.trip.died_at is not None:
            findings += late_acknowledgements(acknowledged, self.trip.died_at, f"{source} was dead", GRACE_MS)
            findings += self._late_commits(self.trip.died_at + GRACE_MS)
        self.verdict.add(
            findings,
            acknowledged_by_load=len(by_load),
            acknowledged_by_clients=len(acknowledged) - len(by_load),
            load_per_second=records_per_second(by_load),
        )

    def _idle(self, group: str) -> list[Finding]:
        target, clients = self.trip.target, self.seen.after.clients
        if group not in clients.started_on(target):
            return [Finding("clients", f"its consumer never started on {target}", group)]
        if not any(clients.consumed.get((target, group), {}).values()):
            return [Finding("clients", f"was given nothing on {target}", group)]
        return []

    def _late_commits(self, moment: int) -> list[Finding]:
        return [
            Finding(
                "fence",
                f"was committed on {cluster} {commit.at - moment} ms after it was dead and its last answers were in",
                group,
                *place,
                commit.position,
            )
            for (cluster, group), commits in self.seen.before.clients.committed.items()
            for place, commit in commits.items()
            if cluster == self.trip.source and commit.position is not None and commit.at > moment
        ]

    def _judge_consumption(self) -> None:
        clients = self.seen.before.clients
        reached = self.seen.target.positions(sorted(clients.groups()))
        for group, started in clients.started_on(self.trip.source).items():
            for place, start in started.items():
                if place in self.seen.alignments:
                    self._judge_delivery(group, place, start, reached[group])

    def _judge_delivery(self, group: str, place: Place, start: int, reached: Mapping[Place, int]) -> None:
        there = self.seen.there(place)
        given_here = self.seen.before.clients.consumed[self.trip.source, group].get(place, [])
        given_there = self.seen.after.clients.consumed[self.trip.target, group]
        consumption = Consumption(group, *place, start, given_here, given_there.get(there, []), reached.get(there, 0))
        # What a group read after its last commit is read again rightly; positions are judged one by one against their
        # bounds.
        findings, figures = consumed_findings(
            consumption, self.seen.live_logs[place], offset_contents(self.seen.mirrored(place)), sys.maxsize
        )
        new = offset_contents(
            self.seen.written_there(place) if self._identity else self.seen.target_logs.get(place, [])
        )
        written_at = there if self._identity else place
        end = reached.get(written_at, 0)
        findings += unread_new_records(group, written_at, new, given_there.get(written_at, []), end)
        self.verdict.add(findings, **figures, new_records_consumed=sum(offset < end for offset, _ in new))

    # Evidence.

    def _judge_evidence(self) -> None:
        trip = self.trip
        self.verdict.add(
            told.lost_story_findings(trip.evidence, trip.source, trip.target, trip.starter, trip.approver, trip.folder)
        )
        if self.seen.positions_path is not None and self.seen.positions_path.is_file():
            self.verdict.add(agreement_findings(trip.evidence, self.seen.rows, self.seen.positions_path))
        self.verdict.add(unlisted_loss(trip.evidence))
        self.verdict.add(beyond_approved(trip.evidence, self._most_again) + self._told_beyond_interval())
        self._judge_boundary()

    def _judge_boundary(self) -> None:
        mirrored = {self.seen.there(place): place for place in self.seen.places}
        quiet = {
            at: self.seen.target_ends.get(at, 0)
            for at, place in mirrored.items()
            if not self.seen.written_there(place) and at not in self.seen.probed
        }
        self.verdict.add(
            told.boundary_findings(told.offsets_by_partition(self.trip.evidence["boundary"]), mirrored, quiet)
        )

    # The source is back.

    def judge_returned(self, stranded_folder: Path) -> Verdict:
        """Hold the list of stranded records against the source that is back, both ways.

        Args:
            stranded_folder: holds `stranded/*.parquet`, the list, and `loss.parquet`, what is lost by an inventory that
                had read the source.
        """
        listed = listed_in(stranded_folder / "stranded")
        if not (stranded_folder / "stranded").is_dir():
            self.verdict.add([Finding("stranded", f"there is no list under {stranded_folder}")])
        self.verdict.add(
            [
                Finding("stranded", "is listed, and nobody wrote to such a partition", None, *place)
                for place in set(listed) - set(self.seen.places)
            ]
        )
        for place in self.seen.places:
            self._judge_stranded(place, listed.get(place, {}))
        if (stranded_folder / "loss.parquet").is_file():
            self._judge_loss_now(loss_rows(pq.read_table(stranded_folder / "loss.parquet").to_pylist()))
        return self.verdict

    def _judge_loss_now(self, loss: Mapping[Place, list[LossRow]]) -> None:
        for place in self.seen.places:
            rows, acknowledged = loss.get(place, []), acknowledged_of(self.seen.history[place])
            third = unlisted_records(acknowledged, self._present(place, acknowledged), rows)
            certain = sum(row.certain_to - row.from_offset for row in rows if row.certain_to is not None)
            self.verdict.add(
                self._third_place(place, third) + self._wrongly_lost(place, rows), stranded_certain=certain
            )

    def _judge_stranded(self, place: Place, listed: Mapping[int, int]) -> None:
        acknowledged, names = acknowledged_of(self.seen.history[place]), self._names(place)
        if place[0] in self.seen.compacted:
            acknowledged = seen.stale_keys(acknowledged, self.seen.mirrored(place))
        found = compare_stranded(
            acknowledged, offset_contents(self.seen.source_logs[place]), self.seen.at_most_mirrored[place], listed
        )
        wrong = {
            "acknowledged, on the source and not on the target, and not on the list": found.unlisted,
            "is on the list, and on the target": found.mirrored,
            "is on the list, and the source does not hold it so": found.unheld,
        }
        findings = [
            Finding("stranded", text, None, *place, offset, names.get(offset))
            for text, offsets in wrong.items()
            for offset in offsets
        ]
        self.verdict.add(findings, stranded_listed=len(listed), stranded_unconfirmed=len(found.unconfirmed))
