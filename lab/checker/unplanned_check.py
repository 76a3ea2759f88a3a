"""Check an unplanned failover: compare what clients logged with the target and with the evidence."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from lab.checker import evidence_file
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
from lab.checker.evidence_file import boundary_findings, lost_story_findings, offsets_by_partition
from lab.checker.findings import CheckResult, Finding
from lab.checker.loss_rows import LossRow, acknowledged_of, compare_stranded, loss_rows, unlisted_records, wrongly_lost
from lab.checker.objective_claims import objective_findings
from lab.checker.positions import out_of_order
from lab.checker.readers import INTERNAL_GROUPS, Place
from lab.checker.records import Held, aborted_visible, count_repeats, foreign_records, offset_contents, stale_keys
from lab.checker.stranded_export import listed_contents
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

#: Milliseconds after the loss of the source: on a busy machine a client may log its last answer this late.
GRACE_MS = 3_000
#: Milliseconds: a first commit this shortly before the loss of the source may be in no flight recorder's sample.
RECENT_MS = 15_000


class UnplannedCheck:
    """Checks one finished unplanned failover: `check` while its source is lost, `check_returned` after its return."""

    def __init__(self, observed: UnplannedObserved) -> None:
        self.seen, self.trip, self.names = observed, observed.trip, observed.names
        self.verdict = CheckResult()
        self._rereads = 0
        self._identity = self.names.policy == "identity"
        self._client_digests = {record.digest for record in observed.after.clients.acknowledged[self.trip.target]}
        self._most_again = Counter[str]()

    def check(self, writes: bool = True) -> CheckResult:
        """Run every check that does not read the source; return all findings (violations) and figures (counts).

        With `writes` the last check produces one record to every topic of the target.
        """
        self.verdict.add(shape := evidence_file.shape_findings(self.trip.evidence, evidence_file.LOST_FIELDS))
        self._check_topics()
        for place in self.seen.places:
            self._check_records(place)
        self._check_positions()
        self._check_clients()
        self._check_consumption()
        if not shape:
            self._check_evidence()
        if writes:
            topics = sorted(self.seen.ledger.topics)
            mirrored = [] if self._identity else [self.seen.there((topic, 0))[0] for topic in topics]
            self.verdict.add(closed_target(self.seen.target, topics, mirrored))
        return self.verdict

    def _check_topics(self) -> None:
        topics, target = self.seen.ledger.topics, self.trip.target
        expected = {name: topics[topic].partitions for topic in topics for name in self.names.names_on(target, topic)}
        findings = unlike_topics(expected, self.seen.target.partitions())
        self.verdict.add(findings, topics=len(topics), partitions=len(self.seen.places))

    # Records: every record that the source acknowledged is on the target or in the loss list.

    def _check_records(self, place: Place) -> None:
        history, target, rows = self.seen.history[place], self.seen.mirrored(place), self.seen.loss.get(place, [])
        acknowledged, digests = acknowledged_of(history), [copy.digest for copy in target]
        present = self._present_offsets(place, acknowledged)
        unlisted = unlisted_records(acknowledged, present, rows)
        source = self.seen.known[place]
        figures = {
            "records": len(acknowledged),
            "not_on_target": sum(record.offset not in present for record in acknowledged),
            "missing": len(unlisted),
            "listed_certain": sum((row.certain_to or row.from_offset) - row.from_offset for row in rows),
            "open_ends": sum(row.possible_to is None for row in rows),
            "unconfirmed_mirrored": len(self.seen.unconfirmed[place]),
            "repeats": count_repeats([digest for _, digest in source], digests),
            "aborted_visible": aborted_visible(history, digests),
            "out_of_order": out_of_order(self.seen.live_logs[place], offset_contents(target)),
        }
        findings = self._missing_findings(place, unlisted) + self._not_lost_findings(place, rows)
        self.verdict.add(findings + self._foreign_findings(place, [digest for _, digest in source], target), **figures)

    def _foreign_findings(self, place: Place, source_digests: list[int], target: list[Held]) -> list[Finding]:
        foreign = [
            ("stranger", "is on the target below the boundary, but was never on the source", record)
            for record in foreign_records(source_digests, target)
        ]
        foreign += [
            ("boundary", "was mirrored above the boundary, or written by an unknown client", record)
            for record in self.seen.written_there(place)
            if record.digest not in self._client_digests
        ]
        at = self.seen.there(place)
        return [Finding(check, text, None, *at, record.offset) for check, text, record in foreign]

    def _present_offsets(self, place: Place, acknowledged: list[TruthRecord]) -> set[int]:
        """Return the source offsets of records that may be on the target.

        Of a compacted topic all acknowledged records count, except a key's latest if the target's latest is another.
        """
        if place[0] not in self.seen.compacted:
            return self.seen.at_most_mirrored[place]
        stale = {record.offset for record in stale_keys(acknowledged, self.seen.mirrored(place))}
        return {record.offset for record in acknowledged} - stale

    def _missing_findings(self, place: Place, records: list[TruthRecord]) -> list[Finding]:
        text = "acknowledged by the source (offset on the source), but neither on the target nor listed as lost"
        return [Finding("missing", text, None, *place, record.offset, record.id) for record in records]

    def _not_lost_findings(self, place: Place, rows: list[LossRow]) -> list[Finding]:
        record_ids = self._record_ids(place)
        offsets = wrongly_lost(self.seen.known[place], self.seen.surely_mirrored[place], rows) if rows else []
        text = "listed as certainly lost (offset on the source), but is on the target"
        return [Finding("not lost", text, None, *place, offset, record_ids.get(offset)) for offset in offsets]

    def _record_ids(self, place: Place) -> dict[int, str | None]:
        return {record.offset: record.id for record in self.seen.history[place]}

    # Positions: compared with the ground truth, and with the product's claims.

    def _check_positions(self) -> None:
        groups = {group: stands for group, stands in self.seen.stands.items() if not group.startswith(INTERNAL_GROUPS)}
        positions_now = self.seen.target.positions(sorted(groups))
        started = self.seen.after.clients.started_on(self.trip.target)
        for group, stands in groups.items():
            # Consumers on the target have committed, too: what counts is their group's position before the first one.
            self._check_stands(group, stands, started.get(group, positions_now.get(group, {})))
        self.verdict.figures["positions_of_others"] = sum(
            len(rows) for group, rows in self.seen.claims.items() if group not in groups
        )

    def _check_stands(self, group: str, stands: Mapping[Place, Stand], positions: Mapping[Place, int]) -> None:
        rows = self.seen.claims.get(group, {})
        names = (self.seen.there, None if self._identity else lambda place: place)
        unknown = {place for place, stand in stands.items() if place not in rows and self._may_be_unknown(stand)}
        refused = {place for place, claim in rows.items() if claim.target_position is None}
        expected = {place: stand.position for place, stand in stands.items() if place not in unknown | refused}
        on_target = {
            place: offset
            for place, offset in positions.items()
            if self.names.local(place[0]) in self.seen.ledger.topics
        }
        self.verdict.add(
            absent_positions(group, expected, on_target, *names),
            groups=1,
            positions_unknown=len(unknown),
            positions_refused=len(refused & set(stands)),
        )
        # A refused position is absent on the mirrored topic only; on the topic that clients write the group has 0.
        started_at_0 = {place for place in refused if names[1] and place in stands and on_target.get(place) == 0}
        other_positions = {place: offset for place, offset in on_target.items() if place not in started_at_0}
        self.verdict.add(uncalled_positions(group, expected, other_positions, *names))
        for place in expected:
            self._check_stand(group, place, stands[place], rows.get(place), on_target.get(self.seen.there(place)))

    def _may_be_unknown(self, stand: Stand) -> bool:
        """Whether samples may lack the position: no recorder ran, or its first commit was just before the loss."""
        died_at = self.trip.died_at
        return not self.trip.recorded or (
            died_at is not None and stand.first_at is not None and stand.first_at > died_at - RECENT_MS
        )

    def _check_stand(
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
            findings += self._check_place(group, place, stand.known_as(claim.position), claim, target_position)
        self._count_age(stand, claim)
        return self.verdict.add(findings, positions=1, claimed_exact=int(claim.exact))

    def _check_place(
        self, group: str, place: Place, position: int, claim: PositionClaim, target_position: int
    ) -> list[Finding]:
        at, alignment = self.seen.there(place), self.seen.alignments[place]
        skipped = alignment.standing(position, target_position).skipped
        unread = self._record_ids(place).get(skipped[0]) if skipped else None
        start, bound = self.seen.target_starts.get(at, 0), 0 if claim.exact else claim.bound
        findings = misplaced_positions(
            group, at, alignment, position, target_position, start, unread, claim.position, bound
        )
        rereads = alignment.consumed_again(claim.position, target_position)
        self._rereads = max(self._rereads, rereads)
        # The plan cannot announce re-reads of records that were mirrored after assess_data_loss.
        self._most_again[group] = max(self._most_again[group], rereads - self.seen.taken_since(at))
        return findings + self._beyond_interval(group, at, claim)

    def _beyond_interval(self, group: str, at: Place, claim: PositionClaim) -> list[Finding]:
        maxima = self.trip.mirrored_in_interval
        if not maxima or claim.exact or (claim.bound is not None and claim.bound <= maxima.get(at, 0)):
            return []
        return [
            Finding(
                "interval",
                f"bound is {claim.bound}, at most {maxima.get(at, 0)} records were mirrored in one sampling interval",
                group,
                *at,
                claim.target_position,
            )
        ]

    def _approved_beyond_interval(self) -> list[Finding]:
        """Return a finding per group whose approved bound of re-reads is higher than a sampling interval explains.

        The limit is the most records that were mirrored to one of the group's partitions in one interval. A bound that
        the plan does not state is a finding, too. Groups with consumers are left out.
        """
        maxima, clients, source = self.trip.mirrored_in_interval, self.seen.before.clients, self.trip.source
        busy = {group for cluster, group in clients.committed if cluster == source} | {*clients.started_on(source)}
        if not maxima:
            return []
        findings = []
        for group, bound in approved_bounds(self.trip.evidence).items():
            most = max((maxima.get(self.seen.there(place), 0) for place in self.seen.stands.get(group, {})), default=0)
            if group in self.seen.stands and group not in busy and (bound is None or bound > most):
                text = (
                    f"the plan announced up to {bound} re-reads, at most {most} records were mirrored to one partition"
                    " of the group in one sampling interval"
                )
                findings.append(Finding("approved interval", text, group))
        return findings

    def _count_age(self, stand: Stand, claim: PositionClaim) -> None:
        figures = self.verdict.figures
        figures["rereads_at_most"] = max(figures["rereads_at_most"], self._rereads)
        if stand.position > claim.position:
            age = (stand.at or 0) - claim.recorded_at if claim.recorded_at and stand.at else 0
            figures["positions_outdated"] += 1
            figures["oldest_outdated_ms"] = max(figures["oldest_outdated_ms"], age)

    def _check_clients(self) -> None:
        before, after, source, target = self.seen.before, self.seen.after, self.trip.source, self.trip.target
        acknowledged, by_load = list(before.acknowledged.values()), before.by_load()
        findings = [finding for group in before.clients.started_on(source) for finding in self._idle_findings(group)]
        if before.clients.acknowledged[source] and not after.clients.acknowledged[target]:
            findings.append(Finding("clients", f"clients wrote on {source}, but {target} acknowledged no record"))
        if self.trip.died_at is not None:
            findings += late_acknowledgements(acknowledged, self.trip.died_at, f"{source} was lost", GRACE_MS)
            findings += self._late_commits(self.trip.died_at + GRACE_MS)
        self.verdict.add(
            findings,
            acknowledged_by_load=len(by_load),
            acknowledged_by_clients=len(acknowledged) - len(by_load),
            load_per_second=records_per_second(by_load),
        )

    def _idle_findings(self, group: str) -> list[Finding]:
        target, clients = self.trip.target, self.seen.after.clients
        if group not in clients.started_on(target):
            return [Finding("clients", f"the consumer never started on {target}", group)]
        if not any(clients.consumed.get((target, group), {}).values()):
            return [Finding("clients", f"received no record on {target}", group)]
        return []

    def _late_commits(self, moment: int) -> list[Finding]:
        return [
            Finding(
                "fence",
                f"was committed on {cluster} {commit.at - moment} ms after the cluster's last answers had arrived",
                group,
                *place,
                commit.position,
            )
            for (cluster, group), commits in self.seen.before.clients.committed.items()
            for place, commit in commits.items()
            if cluster == self.trip.source and commit.position is not None and commit.at > moment
        ]

    def _check_consumption(self) -> None:
        clients = self.seen.before.clients
        reached = self.seen.target.positions(sorted(clients.groups()))
        for group, started in clients.started_on(self.trip.source).items():
            for place, start in started.items():
                if place in self.seen.alignments:
                    self._check_delivery(group, place, start, reached[group])

    def _check_delivery(self, group: str, place: Place, start: int, reached: Mapping[Place, int]) -> None:
        at = self.seen.there(place)
        consumed_here = self.seen.before.clients.consumed[self.trip.source, group].get(place, [])
        consumed_there = self.seen.after.clients.consumed[self.trip.target, group]
        consumption = Consumption(group, *place, start, consumed_here, consumed_there.get(at, []), reached.get(at, 0))
        # Re-reads without bound: records that were consumed after the last commit are rightly read again, and
        # `_check_positions` compares each position with its bound.
        findings, figures = consumed_findings(
            consumption, self.seen.live_logs[place], offset_contents(self.seen.mirrored(place)), sys.maxsize
        )
        new = offset_contents(
            self.seen.written_there(place) if self._identity else self.seen.target_logs.get(place, [])
        )
        written_at = at if self._identity else place
        end = reached.get(written_at, 0)
        findings += unread_new_records(group, written_at, new, consumed_there.get(written_at, []), end)
        self.verdict.add(findings, **figures, new_records_consumed=sum(offset < end for offset, _ in new))

    def _check_evidence(self) -> None:
        trip, told = self.trip, self.trip.evidence
        self.verdict.add(lost_story_findings(told, trip.source, trip.target, trip.starter, trip.approver, trip.folder))
        if self.seen.positions_path is not None and self.seen.positions_path.is_file():
            self.verdict.add(agreement_findings(told, self.seen.rows, self.seen.positions_path))
        self.verdict.add(unlisted_loss(told) + objective_findings(told))
        self.verdict.add(beyond_approved(told, self._most_again) + self._approved_beyond_interval())
        self._check_boundary()

    def _check_boundary(self) -> None:
        mirrored = {self.seen.there(place): place for place in self.seen.places}
        unwritten = {
            at: self.seen.target_ends.get(at, 0)
            for at, place in mirrored.items()
            if not self.seen.written_there(place) and at not in self.seen.probed
        }
        self.verdict.add(boundary_findings(offsets_by_partition(self.trip.evidence["boundary"]), mirrored, unwritten))

    # Checks after the source has returned.

    def check_returned(self, stranded_folder: Path) -> CheckResult:
        """Compare the list of stranded records with the logs of the failover's source, which answers again.

        The list is `stranded/*.parquet` in the folder. If `loss.parquet` is there, too, its loss rows are compared.
        """
        listed = listed_contents(stranded_folder / "stranded")
        if not (stranded_folder / "stranded").is_dir():
            self.verdict.add([Finding("stranded", f"no list of stranded records under {stranded_folder}")])
        self.verdict.add(
            [
                Finding("stranded", "is listed, but no client wrote to such a partition", None, *place)
                for place in set(listed) - set(self.seen.places)
            ]
        )
        for place in self.seen.places:
            self._check_stranded(place, listed.get(place, {}))
        if (stranded_folder / "loss.parquet").is_file():
            self._check_loss_now(loss_rows(pq.read_table(stranded_folder / "loss.parquet").to_pylist()))
        return self.verdict

    def _check_loss_now(self, loss: Mapping[Place, list[LossRow]]) -> None:
        for place in self.seen.places:
            rows, acknowledged = loss.get(place, []), acknowledged_of(self.seen.history[place])
            unlisted = unlisted_records(acknowledged, self._present_offsets(place, acknowledged), rows)
            certain = sum(row.certain_to - row.from_offset for row in rows if row.certain_to is not None)
            self.verdict.add(
                self._missing_findings(place, unlisted) + self._not_lost_findings(place, rows),
                stranded_certain=certain,
            )

    def _check_stranded(self, place: Place, listed: Mapping[int, int]) -> None:
        acknowledged, record_ids = acknowledged_of(self.seen.history[place]), self._record_ids(place)
        if place[0] in self.seen.compacted:
            acknowledged = stale_keys(acknowledged, self.seen.mirrored(place))
        result = compare_stranded(
            acknowledged, offset_contents(self.seen.source_logs[place]), self.seen.at_most_mirrored[place], listed
        )
        violations = {
            "acknowledged and only on the source, but not on the list": result.unlisted,
            "is on the list, but also on the target": result.mirrored,
            "is on the list, but the source has another record at this offset or none": result.unheld,
        }
        findings = [
            Finding("stranded", text, None, *place, offset, record_ids.get(offset))
            for text, offsets in violations.items()
            for offset in offsets
        ]
        self.verdict.add(findings, stranded_listed=len(listed), stranded_unconfirmed=len(result.unconfirmed))
