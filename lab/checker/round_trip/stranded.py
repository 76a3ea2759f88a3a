"""Stranded records of one change of sides."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping

from lab.checker import accounting
from lab.checker import records as seen
from lab.checker.findings import Finding
from lab.checker.ledger import Log, Place
from lab.checker.loss_rows import compare_stranded, mirrored_at_most
from lab.checker.records import Held, offset_contents
from lab.checker.round_trip.base import TripChecks
from lab.checker.stranded_export import Export
from lab.workload.ground_truth import COMMITTED, TruthRecord


class StrandedChecks(TripChecks):
    """What is exported as stranded is the truth, both ways; the export was made before anything was changed."""

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
        found = compare_stranded(
            self._due_for_export(log, held, mirrored, aborted), offset_contents(held), mirrored, rows
        )
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
        return mirrored_at_most([pair for pair in offset_contents(held) if pair[0] not in own], later)

    def _due_for_export(self, log: Log, held: list[Held], mirrored: set[int], aborted: set[int]) -> list[TruthRecord]:
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
            TruthRecord(one.offset, one.digest, None, one.key, one.tombstone, 0)
            for one in held
            if one.offset not in mirrored and one.digest not in aborted
        ]

    def _take_note_of_new_logs(self) -> None:
        for place, before in self.trip.returned.items():
            log = (self.trip.target, place)
            now = self.seen.logs.get(log, [])
            changed = seen.changed_offsets(offset_contents(before), offset_contents(now)) or (
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
        return mirrored_at_most(
            [pair for pair in offset_contents(self.seen.logs[log]) if pair[0] in apart], copies.elements()
        )

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
            held = dict(offset_contents(self.seen.logs[log]))
            self.ledger.due[log] = {
                record.offset
                for record in told
                if record.offset not in mirrored and held.get(record.offset) == record.digest
            }
            self.verdict.add([], stranded=len(self.ledger.due[log]))
