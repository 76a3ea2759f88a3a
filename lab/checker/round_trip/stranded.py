"""Check the export of stranded records of a failback, and store stranded records in the checker's ledger."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping

from lab.checker import accounting
from lab.checker import records as record_checks
from lab.checker.findings import Finding
from lab.checker.ledger import Log, Place
from lab.checker.loss_rows import compare_stranded, mirrored_at_most
from lab.checker.records import Held, offset_contents
from lab.checker.round_trip.base import TripChecks
from lab.checker.stored.stated_place import stated_place
from lab.checker.stranded_export import Export
from lab.workload.ground_truth import COMMITTED, TruthRecord


class StrandedChecks(TripChecks):
    """Checks that the export has all stranded records and no other record, and that a failback changed no log.

    Logs of topics that the failback recreated on the returned cluster may change.
    """

    def _check_export(self) -> None:
        folder = self.trip.evidence.get("stranded")
        stated = stated_place(self.trip.folder, folder) if isinstance(folder, str) else None
        export = Export({}, {}, {}) if stated is None else Export.read(stated)
        rows, partitions = export.records, set(self.trip.returned)
        self.verdict.add(
            [
                Finding("stranded", "is listed, but no client wrote to such a partition", None, *place)
                for place in set(rows) - partitions
            ]
        )
        for place in sorted(partitions):
            self._check_exported(place, rows.get(place, {}), set(export.stranded.get(place, {})))
        # Exported rows of partitions that the returned cluster did not have account for no record.
        self.ledger.take_export(
            self.trip.target, self.trip.number - 1, {place: rows[place] for place in set(rows) & partitions}
        )
        self.verdict.add([], stranded_apart=sum(map(len, export.uncommitted.values())))

    def _check_exported(self, place: Place, rows: Mapping[int, int], called_committed: set[int]) -> None:
        log, log_before = (self.trip.target, place), self.trip.returned[place]
        mirrored, aborted = self.seen.mirrored(log, log_before), self.seen.aborted(log)
        result = compare_stranded(
            self._due_for_export(log, log_before, mirrored, aborted), offset_contents(log_before), mirrored, rows
        )
        # If contents recur, it is unknown which record MirrorMaker 2 repeated: one exported record too many is allowed.
        counterpart = self.names.counterpart(log)
        ambiguous = set(result.mirrored) if self.seen.recurs(log) and self.ledger.repeats.get(counterpart) else set()
        violations = {
            "acknowledged and only on the returned cluster, but not in the export": result.unlisted,
            "is in the export, but also on the other cluster": [
                offset for offset in result.mirrored if offset not in ambiguous
            ],
            "is in the export, but the returned cluster had another record at this offset or none": result.unheld,
            "is in the export as committed, but its transaction was aborted": [
                offset for offset, digest in rows.items() if digest in aborted and offset in called_committed
            ],
        }
        rightly_exported = set(rows) - set(result.unheld) - set(result.mirrored)
        self.ledger.rightly_exported |= {
            accounting.origin_of(self.trip.target, place, offset): rows[offset] for offset in rightly_exported
        }
        record_ids = {record.offset: record.id for record in self.ledger.client_records(log, self.trip.number)}
        findings = [
            Finding("stranded", text, None, *place, offset, record_ids.get(offset))
            for text, offsets in violations.items()
            for offset in offsets
        ]
        self.verdict.add(
            findings,
            stranded_listed=len(rows),
            stranded_doubtful=len(ambiguous),
            stranded_unconfirmed=len(result.unconfirmed),
        )
        self.ledger.stranded[log] |= (
            {record.offset for record in log_before} - mirrored - self._reverse_mirrored(log, log_before, mirrored)
        )
        self.ledger.due.pop(log, None)

    def _reverse_mirrored(self, log: Log, records: list[Held], mirrored: set[int]) -> set[int]:
        """Return the offsets in `records` of copies of records that clients wrote on the new primary.

        Args:
            log: a log of the returned cluster.
            records: the log's records, as read before the run.
            mirrored: offsets of the log's records that may have been mirrored to the new primary.
        """
        counterpart = self.names.counterpart(log)
        later = [
            record.digest
            for record in self.seen.logs.get(counterpart, [])
            if record.offset >= self.ledger.opened.get(counterpart, sys.maxsize)
        ]
        excluded = mirrored | {record.offset for record in self.ledger.client_records(log, self.trip.number)}
        return mirrored_at_most([pair for pair in offset_contents(records) if pair[0] not in excluded], later)

    def _due_for_export(
        self, log: Log, records: list[Held], mirrored: set[int], aborted: set[int]
    ) -> list[TruthRecord]:
        """Return the records of a log that the export must have: the acknowledged stranded records.

        If the failback recreates the log's topic, and the topic is not compacted, the export must have all committed
        records that the other cluster lacks.

        Args:
            log: a log of the returned cluster.
            records: the log's records, as read before the run.
            mirrored: offsets of the log's records that may have been mirrored to the other cluster.
            aborted: digests of the contents that clients wrote in aborted transactions only.
        """
        due, end_at_move = self.ledger.due.get(log, set()), self.ledger.seen_to.get(log, 0)
        stranded = [
            record
            for record in self.ledger.client_records(log, self.trip.number)
            if record.state == COMMITTED and (record.offset in due or record.offset >= end_at_move)
        ]
        if not self._is_recreated(log) or self._topic(log).compacted:
            return stranded
        return [
            TruthRecord(record.offset, record.digest, None, record.key, record.tombstone, 0)
            for record in records
            if record.offset not in mirrored and record.digest not in aborted
        ]

    def _note_new_logs(self) -> None:
        for place, before in self.trip.returned.items():
            log = (self.trip.target, place)
            log_now = self.seen.logs.get(log, [])
            changed = record_checks.changed_offsets(offset_contents(before), offset_contents(log_now)) or (
                before and self.seen.ends.get(log, 0) <= before[-1].offset
            )
            if self._is_recreated(log):
                self.ledger.record_recreation(log, self.seen.logs.get(self.names.counterpart(log), []))
                self.verdict.add([], logs_made_anew=1)
            elif changed:
                self.verdict.add(
                    [
                        Finding(
                            "log changed", "does not have the same records as when the cluster returned", None, *place
                        )
                    ]
                )

    def _note_followers(self) -> None:
        """Remove from the ledger's stranded records all records that have been mirrored by now.

        Only under default naming can a flow that is resumed mirror stranded records later.
        """
        for log, apart in self.ledger.stranded.items() if self.names.policy != "identity" else ():
            if apart and log in self.seen.logs and not (self.trip.lost and log[0] == self.trip.source):
                apart -= self._mirrored_later(log, apart)  # noqa: PLW2901 (changes the ledger's own set)

    def _mirrored_later(self, log: Log, apart: set[int]) -> set[int]:
        """Return the offsets in `apart` whose records have been mirrored by now.

        The other cluster then has more copies of the content than this log has records outside of `apart`.

        Args:
            log: a log with stranded records.
            apart: offsets of the log's stranded records.
        """
        counterpart = self.names.counterpart(log)
        repeated = self.ledger.repeats.get(counterpart, set())
        copies = Counter(
            record.digest for record in self.seen.logs.get(counterpart, []) if record.offset not in repeated
        )
        copies.subtract(record.digest for record in self.seen.logs[log] if record.offset not in apart)
        return mirrored_at_most(
            [pair for pair in offset_contents(self.seen.logs[log]) if pair[0] in apart], copies.elements()
        )

    def _note_lost_records(self) -> None:
        """Note the stranded records of the failed source, which answers again, in the checker's ledger.

        The export of the next failback must have these records.
        """
        for log in self.seen.on(self.trip.source):
            mirrored = self.seen.mirrored(log, self.seen.logs[log])
            self.ledger.stranded[log] |= {record.offset for record in self.seen.logs[log]} - mirrored
            committed = self.ledger.periods[self.trip.number].committed(log[1])
            if self._topic(log).compacted:
                target_records = [
                    record
                    for record in self.seen.logs.get(self.names.counterpart(log), [])
                    if record.offset < self.seen.boundary.get(self.names.counterpart(log)[1], 0)
                ]
                committed = record_checks.stale_keys(committed, target_records)
            digests = dict(offset_contents(self.seen.logs[log]))
            self.ledger.due[log] = {
                record.offset
                for record in committed
                if record.offset not in mirrored and digests.get(record.offset) == record.digest
            }
            self.verdict.add([], stranded=len(self.ledger.due[log]))
