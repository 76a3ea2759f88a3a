"""The judge of one change of sides among several: by record ids and ordinals over both clusters.

Every acknowledged record is accounted for; nothing was mirrored twice, nothing came back to where it was written; every
group stands where it belongs; what is exported as stranded is the truth, both ways; and a flow that begins anew copies
what was written since, and nothing else.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lab.checker import accounting
from lab.checker import evidence_file as told
from lab.checker import records as seen
from lab.checker.accounting import Owed
from lab.checker.client_behaviour import (
    Consumption,
    absent_positions,
    beyond_cut_off,
    closed_target,
    consumed_findings,
    late_acknowledgements,
    misplaced,
    uncalled_positions,
    unlike_topics,
    unread_new_records,
)
from lab.checker.stranded_export import Export
from lab.checker.findings import Finding, Verdict, examples
from lab.checker.ledger import Log, Place, Topic
from lab.checker.unplanned_check import GRACE_MS, RECENT_MS
from lab.checker.loss_rows import loss_rows, mirrored_at_most, stranded
from lab.checker.translation_file import Claim, claims, read_rows
from lab.checker.readers import INTERNAL_GROUPS, REFUSALS
from lab.checker.records import Held, pairs
from lab.checker.round_trip_observed import FAILBACK, RoundTripExhibits
from lab.workload.ground_truth import COMMITTED, Record

#: By kind of finding: what is wrong with records that replication should not have put into a log.
MISMIRRORED = {
    "looped": "was written on this cluster, and was mirrored back to it",
    "copied_again": "is a copy of a record that was mirrored before already",
    "late": "was written before the flow began anew, and was mirrored all the same",
}


class TripJudge:
    """Judges one finished change of sides; load and clients stand still, both clusters can be read."""

    def __init__(self, exhibits: RoundTripExhibits) -> None:
        self.seen, self.trip, self.ledger, self.names = exhibits, exhibits.trip, exhibits.ledger, exhibits.names
        self.verdict = Verdict()
        self.source, self.target = exhibits.readers[self.trip.source], exhibits.readers[self.trip.target]
        self._rereads = 0

    def judge(self, writes: bool = False) -> Verdict:
        """Run every check.

        Args:
            writes: also try one write to every topic on both clusters, at the very end.
        """
        shape = told.shape_findings(self.trip.evidence, told.LOST_FIELDS if self.trip.lost else told.FIELDS)
        self.verdict.add(shape + ([] if shape else self._story()))
        self._take_note_of_followers()
        if self.trip.dag_id == FAILBACK:
            self._judge_export()
            self._take_note_of_new_logs()
        if self.trip.lost:
            self._keep_apart()
        self._judge_topics()
        for log in self.seen.logs:
            self._judge_copies(log)
            self._judge_kept(log)
        for log in self.seen.on(self.trip.source):
            there = self.names.counterpart(log)
            self.verdict.add(self._foreign(log, there) if there in self.seen.logs else [])
        self._judge_records()
        self._judge_replays()
        self._judge_positions()
        if not self.trip.lost:
            self._judge_ends()
            self.verdict.add([] if shape else self._uncounted())
        self._judge_acknowledgements()
        self._judge_consumption()
        self._judge_flow_on()
        self._take_note_of_ends()
        if writes:
            self._judge_writes()
        return self.verdict

    # Evidence.

    def _story(self) -> list[Finding]:
        trip = self.trip
        if trip.lost:
            return told.lost_story_findings(
                trip.evidence, trip.source, trip.target, trip.starter, trip.approver, trip.folder
            )
        steps = told.FAILBACK_STEPS if trip.dag_id == FAILBACK else told.PLANNED_STEPS
        gone, lost = self._deleted_there(trip.evidence["loss"])
        return (
            told.story_findings(
                {**trip.evidence, "loss": lost},
                trip.source,
                trip.target,
                trip.approver,
                trip.folder,
                trip.dag_id,
                steps,
            )
            + gone
        )

    def _deleted_there(self, rows: list[Mapping[str, Any]]) -> tuple[list[Finding], list[Mapping[str, Any]]]:
        """Return findings on rows that exceed what the target's retention deleted; and other rows (none allowed)."""
        # Where clients never were before, nobody's retention can have deleted what is due there.
        below = [row for row in rows if self.trip.number and row.get("reason") == "below the target's log start"]
        deleted = {
            id(row): self.seen.starts.get(
                self.names.counterpart((self.trip.source, (row["topic"], row["partition"]))), 0
            )
            for row in below
        }
        wrong = [row for row in below if row["records"] > deleted[id(row)]]
        told_too_many = [
            Finding(
                "evidence",
                f"loss tells {row['records']} records below a log that begins at {deleted[id(row)]}",
                None,
                row["topic"],
                row["partition"],
            )
            for row in wrong
        ]
        return told_too_many, [row for row in rows if row not in below]

    def _uncounted(self) -> list[Finding]:
        return told.count_findings(self.trip.evidence, self.verdict.figures["positions"], self._rereads)

    def _judge_ends(self) -> None:
        """Cut-off and boundary are the ends of the logs, as far as nobody has written since."""
        here = [log for log in self.seen.on(self.trip.source) if self.trip.source in self.names.written_on(log)]
        there = [log for log in map(self.names.counterpart, here) if log in self.seen.logs]
        if not self.trip.flows_on:
            ends = {place: self.seen.ends[alias, place] for alias, place in here}
            self.verdict.add(told.offset_findings("cut_off", self.seen.claimed("cut_off"), ends))
        quiet = {
            log[1]: self.seen.ends[log]
            for log in there
            if log not in self.seen.probed
            and not any(one.offset >= self.seen.boundary[log[1]] for one in self.seen.logs[log])
        }
        claimed = self.seen.claimed("boundary")
        self.verdict.add(told.boundary_findings(claimed, [place for _, place in there], quiet))

    # Stranded records: the export is made before anything is changed, so that it is held against what was seen then.

    def _judge_export(self) -> None:
        folder = self.trip.evidence.get("stranded")
        export = Export.read(self.trip.folder / folder) if isinstance(folder, str) else Export({}, {}, {})
        rows, known = export.records, set(self.trip.returned)
        self.verdict.add(
            [
                Finding("stranded", "is listed, and nobody wrote to such a partition", None, *place)
                for place in set(rows) - known
            ]
        )
        for place in sorted(known):
            self._judge_exported(place, rows.get(place, {}), set(export.stranded.get(place, {})))
        # What is exported for nothing vouches for no record.
        self.ledger.take_export(
            self.trip.target, self.trip.number - 1, {place: rows[place] for place in set(rows) & known}
        )
        self.verdict.add([], stranded_apart=sum(map(len, export.apart.values())))

    def _judge_exported(self, place: Place, rows: Mapping[int, int], called_committed: set[int]) -> None:
        log, held = (self.trip.target, place), self.trip.returned[place]
        mirrored, aborted = self.seen.mirrored(log, held), self.seen.aborted(log)
        found = stranded(self._due_for_export(log, held, mirrored, aborted), pairs(held), mirrored, rows)
        # Which one of several that look alike was repeated, nobody can tell: one too many in the list is on the safe
        # side.
        there = self.names.counterpart(log)
        doubtful = set(found.mirrored) if self.seen.recurs(log) and self.ledger.repeats.get(there) else set()
        wrong = {
            "acknowledged, on the returned cluster and not on the other one, and not in the export": found.unlisted,
            "is in the export, and on the other cluster": [
                offset for offset in found.mirrored if offset not in doubtful
            ],
            "is in the export, and the returned cluster did not hold it so": found.unheld,
            "is in the export, and no transaction committed it": [
                offset for offset, digest in rows.items() if digest in aborted and offset in called_committed
            ],
        }
        rightly = set(rows) - set(found.unheld) - set(found.mirrored)
        self.ledger.stood |= {accounting.origin_of(self.trip.target, place, offset): rows[offset] for offset in rightly}
        names = {record.offset: record.id for record in self.ledger.told(log, self.trip.number)}
        findings = [
            Finding("stranded", text, None, *place, offset, names.get(offset))
            for text, offsets in wrong.items()
            for offset in offsets
        ]
        self.verdict.add(
            findings,
            stranded_listed=len(rows),
            stranded_doubtful=len(doubtful),
            stranded_unconfirmed=len(found.unconfirmed),
        )
        self.ledger.apart[log] |= {one.offset for one in held} - mirrored - self._flowed_back(log, held, mirrored)
        self.ledger.due.pop(log, None)

    def _flowed_back(self, log: Log, held: list[Held], mirrored: set[int]) -> set[int]:
        """Offsets on the returned cluster that are copies of what clients wrote on the other one after moving there."""
        there = self.names.counterpart(log)
        later = [
            one.digest
            for one in self.seen.logs.get(there, [])
            if one.offset >= self.ledger.opened.get(there, sys.maxsize)
        ]
        own = mirrored | {record.offset for record in self.ledger.told(log, self.trip.number)}
        return mirrored_at_most([pair for pair in pairs(held) if pair[0] not in own], later)

    def _due_for_export(self, log: Log, held: list[Held], mirrored: set[int], aborted: set[int]) -> list[Record]:
        """Records due for export: the never replicated; of a deleted log, all that the other log lacks."""
        due, end = self.ledger.due.get(log, set()), self.ledger.seen_to.get(log, 0)
        told = [
            record
            for record in self.ledger.told(log, self.trip.number)
            if record.state == COMMITTED and (record.offset in due or record.offset >= end)
        ]
        if not self._deleted(log) or self._topic(log).compacted:
            return told
        return [
            Record(one.offset, one.digest, None, one.key, one.tombstone, 0)
            for one in held
            if one.offset not in mirrored and one.digest not in aborted
        ]

    def _clients_wrote(self, log: Log) -> bool:
        return self.trip.target in self.names.written_on(log)

    def _deleted(self, log: Log) -> bool:
        """Whether a log of the returned cluster is made anew: it holds what the flow back copies."""
        return self.trip.mode == "recreate" and self.trip.source in self.names.written_on(log)

    def _take_note_of_new_logs(self) -> None:
        for place, before in self.trip.returned.items():
            log = (self.trip.target, place)
            now = self.seen.logs.get(log, [])
            changed = seen.contradictions(pairs(before), pairs(now)) or (
                before and self.seen.ends.get(log, 0) <= before[-1].offset
            )
            if self._deleted(log):
                self.ledger.made_anew(log, self.seen.logs.get(self.names.counterpart(log), []))
                self.verdict.add([], logs_made_anew=1)
            elif changed:
                self.verdict.add(
                    [
                        Finding(
                            "log changed", "does not hold any more what it held when the cluster returned", None, *place
                        )
                    ]
                )

    def _take_note_of_followers(self) -> None:
        """Take followed records off `apart`: where names part directions, a resumed flow mirrors what it had not."""
        for log, apart in self.ledger.apart.items() if self.names.policy != "identity" else ():
            if apart and log in self.seen.logs and not (self.trip.lost and log[0] == self.trip.source):
                apart -= self._following(log, apart)  # noqa: PLW2901 (the ledger's own set shrinks)

    def _following(self, log: Log, apart: set[int]) -> set[int]:
        """Those of `apart` on the other cluster: of like records only copies left over once all others have theirs."""
        there = self.names.counterpart(log)
        repeated = self.ledger.repeats.get(there, set())
        copies = Counter(one.digest for one in self.seen.logs.get(there, []) if one.offset not in repeated)
        copies.subtract(one.digest for one in self.seen.logs[log] if one.offset not in apart)
        return mirrored_at_most([pair for pair in pairs(self.seen.logs[log]) if pair[0] in apart], copies.elements())

    def _keep_apart(self) -> None:
        """Keep what a lost source never mirrored apart from all that is replicated; the next export must hold it."""
        for log in self.seen.on(self.trip.source):
            mirrored = self.seen.mirrored(log, self.seen.logs[log])
            self.ledger.apart[log] |= {one.offset for one in self.seen.logs[log]} - mirrored
            told = self.ledger.periods[self.trip.number].committed(log[1])
            if self._topic(log).compacted:
                there = [
                    one
                    for one in self.seen.logs.get(self.names.counterpart(log), [])
                    if one.offset < self.seen.boundary.get(self.names.counterpart(log)[1], 0)
                ]
                told = seen.stale_keys(told, there)
            held = dict(pairs(self.seen.logs[log]))
            self.ledger.due[log] = {
                record.offset
                for record in told
                if record.offset not in mirrored and held.get(record.offset) == record.digest
            }
            self.verdict.add([], stranded=len(self.ledger.due[log]))

    def _take_note_of_ends(self) -> None:
        self.ledger.opened |= {(self.trip.target, place): offset for place, offset in self.seen.boundary.items()}
        self.ledger.seen_to |= {log: self.seen.ends[log] for log in self.seen.on(self.trip.source)}
        self.ledger.repeats |= {log: set(self.seen.mirroring(log).repeats) for log in self.seen.logs}

    # Topics and records.

    def _judge_topics(self) -> None:
        here, there = (self.seen.partitions[alias] for alias in (self.trip.source, self.trip.target))
        wanted = {self.names.counterpart((self.trip.source, (topic, 0)))[1][0]: count for topic, count in here.items()}
        wanted |= {self.names.local(topic): count for topic, count in here.items()}
        gone = [
            Finding("topic", "is gone from the source", topic=name) for name in self.ledger.topics if name not in here
        ]
        self.verdict.add(
            gone + unlike_topics(wanted, there),
            topics=len(self.ledger.topics),
            partitions=len(self.seen.on(self.trip.source)),
        )

    def _judge_copies(self, log: Log) -> None:
        found = self.seen.mirroring(log)
        alias, place = log
        names = {one.offset: one.digest for one in self.seen.logs[log]}
        ids = {record.digest: record.id for _, _, record in self.ledger.written(log)}
        findings = [
            Finding(kind.replace("_", " "), f"on {alias}: {text}", None, *place, offset, ids.get(names[offset]))
            for kind, text in MISMIRRORED.items()
            for offset in getattr(found, kind)
        ]
        if not self.trip.crashed:
            text = f"on {alias}: stands in the log a second time, and nobody had killed MirrorMaker 2"
            findings += [
                Finding("mirrored twice", text, None, *place, offset, ids.get(names[offset]))
                for offset in self._new_repeats(log, found.repeats)
            ]
        self.verdict.add(findings, copies=len(found.copied), repeats=len(found.repeats), unconfirmed=len(found.unknown))

    def _new_repeats(self, log: Log, repeats: list[int]) -> list[int]:
        # Repeats of an earlier crash were counted then.
        old = self.ledger.repeats.get(log, set())
        return [offset for offset in repeats if offset not in old]

    def _judge_kept(self, log: Log) -> None:
        changed = seen.contradictions(((r.offset, r.digest) for r in self.ledger.told(log)), pairs(self.seen.logs[log]))
        text = f"on {log[0]}: holds another record than was acknowledged"
        self.verdict.add([Finding("log changed", text, None, *log[1], offset) for offset in changed])

    def _foreign(self, log: Log, there: Log) -> list[Finding]:
        """What stands on the target and did not come from the source, and what came too late."""
        held_here = {one.digest for one in self.seen.logs[log]} | {
            record.digest for _, _, record in self.ledger.written(log)
        }
        ours = {record.digest for record in self.ledger.periods[self.trip.number + 1].written(there[1])}
        boundary, place = self.seen.boundary[there[1]], there[1]
        below = [
            one for one in self.seen.below(there) if one.digest not in held_here and one.origin not in self.ledger.stood
        ]
        early = [one for one in self.seen.below(there) if one.digest in ours and self._clients_wrote(there)]
        above = [one for one in self.seen.logs[there] if one.offset >= boundary and one.digest not in ours]
        findings = [
            Finding(
                "stranger", "is on the target below the boundary, the source never held it", None, *place, one.offset
            )
            for one in below
        ]
        findings += [
            Finding("boundary", "was written by clients below the boundary", None, *place, one.offset) for one in early
        ]
        return findings + [
            Finding(
                "boundary",
                "was mirrored above the boundary, or written by nobody the judge knows",
                None,
                *place,
                one.offset,
            )
            for one in above
        ]

    # Every acknowledged record is somewhere.

    def _judge_records(self) -> None:
        for topic, known in self.ledger.topics.items():
            for partition in range(known.partitions):
                self._judge_place((topic, partition))

    def _judge_place(self, place: Place) -> None:
        owed = self._owed(place)
        exported = {
            index for index, one in enumerate(owed) if (one.period, place, one.record.offset) in self.ledger.exported
        }
        lost = self._lost_of(
            owed,
            place,
            self._stale(owed, place, exported) if self._compacted(place) else self._unaccounted(owed, place, exported),
        )
        text = f"acknowledged by {{}} (its offset there), neither on {self.trip.target} nor exported nor in quarantine"
        findings = [
            Finding("missing", text.format(one.cluster), None, *place, one.record.offset, one.record.id) for one in lost
        ]
        self.verdict.add(findings, records=len(owed), missing=len(lost), exported=len(exported))

    def _owed(self, place: Place) -> list[Owed]:
        return [
            Owed(number, period.cluster, record, number >= self.ledger.since.get((period.cluster, place), 0))
            for number, period in enumerate(self.ledger.periods)
            for record in period.committed(place)
        ]  # fmt: skip

    def _unaccounted(self, owed: list[Owed], place: Place, exported: set[int]) -> list[Owed]:
        here = self.trip.target
        # Of a lost source's records that look alike it is the last ones that were not mirrored.
        absent = self._not_mirrored(place) if self.trip.lost else set()
        gone = [one for one in owed if one.period == self.trip.number and one.record.offset in absent]
        exported, owed = _without(owed, gone, exported)
        logs = [(here, (name, place[1])) for name in self.names.names_on(here, place[0])]
        held = [one for log in logs for one in self.seen.committed.get(log, [])]
        elsewhere = [*self.seen.quarantined.get(place, []), *self.ledger.exported_copies[place].elements()]
        return accounting.unaccounted(owed, place, here, held, exported, elsewhere) + gone

    def _not_mirrored(self, place: Place) -> set[int]:
        log = (self.trip.source, place)
        held = self.seen.logs.get(log, [])
        return {
            record.offset for record in self.ledger.periods[self.trip.number].committed(place)
        } - self.seen.mirrored(log, held)

    def _stale(self, owed: list[Owed], place: Place, exported: set[int]) -> list[Owed]:
        here, found = self.trip.target, []
        for name in self.names.names_on(here, place[0]):
            log = (here, (name, place[1]))
            clusters = self.names.written_on(log)
            mine = [(index, one) for index, one in enumerate(owed) if one.cluster in clusters]
            renumbered = {number for number, (index, _) in enumerate(mine) if index in exported}
            found += accounting.stale_keys([one for _, one in mine], self.seen.committed.get(log, []), renumbered)
        kept = {*self.seen.quarantined.get(place, []), *self.ledger.exported_copies[place]}
        return [one for one in found if one.record.digest not in kept]

    def _lost_of(self, owed: list[Owed], place: Place, missing: list[Owed]) -> list[Owed]:
        """Of a lost source's last records those that the evidence does not list as lost."""
        if not self.trip.lost or not missing:
            return missing
        try:
            rows = loss_rows(self.trip.evidence["loss"])
        except (KeyError, TypeError, ValueError):
            return missing
        return [
            one
            for one in missing
            if not (
                one.period == self.trip.number and any(row.may_lack(one.record.offset) for row in rows.get(place, []))
            )
        ]

    # Replays.

    def _judge_replays(self) -> None:
        written = self.ledger.stood | {
            accounting.origin_of(period.cluster, place, record.offset): record.digest
            for period in self.ledger.periods for place in period.records for record in period.written(place)
        } if any(one.origin for held in self.seen.logs.values() for one in held) else {}  # fmt: skip
        for log, held in self.seen.committed.items():
            twice = accounting.twice_replayed(held)
            findings = [
                Finding("replayed twice", f"on {log[0]}: {count} replays of {origin}", None, *log[1])
                for origin, count in twice.items()
                if not self.trip.crashed or log[0] == self.trip.source
            ]
            wrong = accounting.replayed_wrongly(held, written)
            findings += [
                Finding(
                    "replayed wrongly",
                    f"on {log[0]}: says it comes from {one.origin}, which was another record",
                    None,
                    *log[1],
                    one.offset,
                )
                for one in wrong
            ]
            self.verdict.add(findings, replays=sum(one.origin is not None for one in held))
        if self.trip.dag_id == FAILBACK:
            self._judge_replayed()

    def _judge_replayed(self) -> None:
        """Every exported record of a topic that is replayed is on the cluster that clients came from, once."""
        here, period = self.trip.source, self.trip.number - 1
        replays = {
            one.origin for log in self.seen.on(here) for one in self.seen.committed[log] if one.origin is not None
        }
        due = [
            (place, offset)
            for number, place, offset in sorted(self.ledger.exported)
            if number == period and self.trip.decision(place[0]) == "replay"
        ]
        absent = [
            (place, offset)
            for place, offset in due
            if accounting.origin_of(self.trip.target, place, offset) not in replays
            and not self._overwritten(place, offset)
        ]
        self.verdict.add(
            [
                Finding("not replayed", f"is exported and to be replayed, and is not on {here}", None, *place, offset)
                for place, offset in absent
            ],
            replays_due=len(due),
        )

    def _overwritten(self, place: Place, offset: int) -> bool:
        """Tell whether a stranded compacted value is obsolete: its key was written again, on either cluster."""
        if not self._compacted(place):
            return False
        stranded_record = self.ledger.periods[self.trip.number - 1].records[place][offset]
        later = [
            r for r in self.ledger.periods[self.trip.number - 1].written(place) if r.offset > offset
        ] + self.ledger.periods[self.trip.number].written(place)
        return any(record.key == stranded_record.key for record in later)

    # Positions.

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

    def _claims(self) -> Mapping[str, Mapping[Place, Claim]]:
        path = self.trip.folder / str(self.trip.evidence.get("positions"))
        return claims(read_rows(path)) if self.trip.lost and path.is_file() else {}

    def _judge_group(
        self, group: str, here: Mapping[Place, int], there: Mapping[Place, int], claimed: Mapping[Place, Claim]
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

    def _there(self, place: Place) -> Place:
        return self.names.counterpart((self.trip.source, place))[1]

    def _local(self, place: Place) -> Place:
        return self.names.local(place[0]), place[1]

    def _may_be_absent(self, group: str, place: Place, claim: Claim | None) -> bool:
        """Of a lost source a position that was refused, or that nobody can have seen before it died."""
        if claim is not None:
            return claim.target_position is None
        commit = self.ledger.periods[self.trip.number].clients.committed.get((self.trip.source, group), {}).get(place)
        return commit is not None and self.trip.died_at is not None and commit.first_at > self.trip.died_at - RECENT_MS

    def _judge_position(
        self, group: str, place: Place, position: int, target_position: int, claim: Claim | None
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
        findings = misplaced(
            group, at[1], alignment, position, target_position, self.seen.starts[at], unread, known, bound
        )
        self._rereads = max(self._rereads, standing.rereads)
        self.verdict.add(findings, positions=1, exact=int(standing.exact))
        return None

    def _id_of(self, log: Log, offset: int) -> str | None:
        digest = next((one.digest for one in self.seen.logs[log] if one.offset == offset), None)
        return next((record.id for _, _, record in self.ledger.written(log) if record.digest == digest), None)

    # Clients.

    def _judge_acknowledgements(self) -> None:
        acknowledged = list(self.ledger.periods[self.trip.number].acknowledged.values())
        findings = beyond_cut_off(acknowledged, self.seen.claimed("cut_off")) if not self.trip.lost else []
        if self.trip.lost and self.trip.died_at is not None:
            findings += late_acknowledgements(acknowledged, self.trip.died_at, f"{self.trip.source} was dead", GRACE_MS)
        elif not self.trip.lost and self.trip.evidence.get("fenced_at"):
            findings += late_acknowledgements(acknowledged, told.milliseconds(self.trip.evidence["fenced_at"]))
        by_load = len(self.ledger.periods[self.trip.number].by_load())
        self.verdict.add(findings, acknowledged_by_load=by_load, acknowledged_by_clients=len(acknowledged) - by_load)

    def _judge_consumption(self) -> None:
        before, after = (self.ledger.periods[self.trip.number + one].clients for one in (0, 1))
        reached = self.target.positions(sorted(before.groups()))
        for group, started in before.started_on(self.trip.source).items():
            if group not in after.started_on(self.trip.target):
                self.verdict.add([Finding("group missing", "its consumer never started on the target", group)])
                continue
            read = [place for place in started if (self.trip.source, place) in self.seen.logs]
            for place in read:
                self._judge_delivery(group, place, started[place], reached[group])
            # Under default naming clients write beside the mirrored copies.
            for at in {self._there(place) if self.names.policy == "identity" else self._local(place) for place in read}:
                self._judge_new_records(group, at, reached[group].get(at, 0))

    def _judge_delivery(self, group: str, place: Place, start: int, reached: Mapping[Place, int]) -> None:
        log = (self.trip.source, place)
        at = self.names.counterpart(log)
        if at not in self.seen.logs or self.seen.ambiguous(log):
            return
        before, after = (self.ledger.periods[self.trip.number + one].clients for one in (0, 1))
        given_here = before.consumed.get((self.trip.source, group), {}).get(place, [])
        given_there = after.consumed.get((self.trip.target, group), {}).get(at[1], [])
        consumption = Consumption(group, *place, start, given_here, given_there, reached.get(at[1], 0))
        live = pairs(self.seen.here(log))
        bound = sys.maxsize if self.trip.lost else ((self.trip.evidence.get("rereads") or {}).get("bound") or 0)
        findings, figures = consumed_findings(consumption, live, pairs(self.seen.below(at)), bound)
        self.verdict.add(findings, **figures)

    def _judge_new_records(self, group: str, at: Place, reached: int) -> None:
        """What clients write on the target reaches the groups there."""
        given = self.ledger.periods[self.trip.number + 1].clients.consumed.get((self.trip.target, group), {})
        new = [
            (one.offset, one.digest)
            for one in self.seen.logs.get((self.trip.target, at), [])
            if one.offset >= self.seen.boundary[at]
        ]
        findings = unread_new_records(group, at, new, given.get(at, []), reached)
        self.verdict.add(findings, new_records_consumed=sum(offset < reached for offset, _ in new))

    # What flows from now on.

    def _judge_flow_on(self) -> None:
        """Judge the flow target->source: it copies all that clients write now where it runs, and else nothing."""
        now = self.trip.number + 1
        for place in self.ledger.periods[now].records:
            back = self.names.counterpart((self.trip.target, place))
            new = self.ledger.periods[now].committed(place)
            copies = {one.digest for one in self.seen.logs.get(back, [])}
            there = [record for record in new if record.digest in copies]
            findings = []
            if self.trip.flows_on and not self._compacted(place):
                absent = [record for record in new if record.digest not in copies]
                findings = [
                    Finding(
                        "not flowing",
                        f"was written on {self.trip.target} since, and is not on {back[0]}",
                        None,
                        *place,
                        record.offset,
                        record.id,
                    )
                    for record in absent
                ]
            elif there and not self.trip.flows_on:
                findings = [
                    Finding(
                        "flowing",
                        f"was mirrored to {back[0]}, although that flow stands",
                        None,
                        *place,
                        record.offset,
                        record.id,
                    )
                    for record in there
                ]
            self.verdict.add(
                findings, flowed_on=len(there), written_since=len(new), standing=0 if self.trip.flows_on else len(new)
            )

    def _judge_writes(self) -> None:
        # Last of all, for an accepted write changes what the other checks read.
        topics = sorted(self.ledger.topics)
        here = self.source.try_writes(topics)
        open_here = [
            f"{topic} ({here.get(topic, 'no answer') or 'accepted'})"
            for topic in topics
            if here.get(topic) not in REFUSALS
        ]
        if open_here:
            self.verdict.add([Finding("source open", f"does not refuse a producer's write: {examples(open_here)}")])
        mirrored = [self._there((topic, 0))[0] for topic in topics]
        self.verdict.add(closed_target(self.target, topics, [] if self.names.policy == "identity" else mirrored))

    def _topic(self, log: Log) -> Topic:
        return self.ledger.topics[self.names.local(log[1][0])]

    def _compacted(self, place: Place) -> bool:
        return self.ledger.topics[place[0]].compacted


def _without(owed: list[Owed], gone: list[Owed], exported: set[int]) -> tuple[set[int], list[Owed]]:
    """Leave some records out; return which of the others are exported, and the others."""
    left_out = set(map(id, gone))
    kept = [(index, one) for index, one in enumerate(owed) if id(one) not in left_out]
    return {number for number, (index, _) in enumerate(kept) if index in exported}, [one for _, one in kept]
