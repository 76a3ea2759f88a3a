"""Check acknowledged records, and replays: stranded records that a failback wrote again on the new primary.

A quarantine topic, `TOPIC.stranded`, gets stranded records with the decision `quarantine`.
"""

from __future__ import annotations

from lab.checker import accounting
from lab.checker.accounting import Owed
from lab.checker.findings import Finding
from lab.checker.ledger import Place
from lab.checker.loss_rows import loss_rows
from lab.checker.round_trip.base import TripChecks
from lab.checker.round_trip.observed import FAILBACK


class RecordChecks(TripChecks):
    """Checks that each acknowledged record is on the target, exported or in quarantine, and not replayed twice."""

    def _check_records(self) -> None:
        for topic, properties in self.ledger.topics.items():
            for partition in range(properties.partitions):
                self._check_place((topic, partition))

    def _check_place(self, place: Place) -> None:
        owed = self._owed_records(place)
        exported = {
            index for index, due in enumerate(owed) if (due.period, place, due.record.offset) in self.ledger.exported
        }
        missing = self._unlisted_missing(
            owed,
            place,
            self._stale_records(owed, place, exported)
            if self._compacted(place)
            else self._unaccounted_records(owed, place, exported),
        )
        text = (
            f"acknowledged by {{}} (at this offset), but neither on {self.trip.target} nor exported nor in quarantine"
        )
        findings = [
            Finding("missing", text.format(due.cluster), None, *place, due.record.offset, due.record.id)
            for due in missing
        ]
        self.verdict.add(findings, records=len(owed), missing=len(missing), exported=len(exported))

    def _owed_records(self, place: Place) -> list[Owed]:
        return [
            Owed(number, period.cluster, record, number >= self.ledger.since.get((period.cluster, place), 0))
            for number, period in enumerate(self.ledger.periods)
            for record in period.committed(place)
        ]  # fmt: skip

    def _unaccounted_records(self, owed: list[Owed], place: Place, exported: set[int]) -> list[Owed]:
        target = self.trip.target
        # Of a lost source's records with equal content, the last ones were not mirrored: mirroring is in order.
        not_mirrored = self._not_mirrored_offsets(place) if self.trip.lost else set()
        lost_with_source = [due for due in owed if due.period == self.trip.number and due.record.offset in not_mirrored]
        exported, owed = _without(owed, lost_with_source, exported)
        logs = [(target, (name, place[1])) for name in self.names.names_on(target, place[0])]
        target_records = [record for log in logs for record in self.seen.committed.get(log, [])]
        elsewhere = [*self.seen.quarantined.get(place, []), *self.ledger.exported_copies[place].elements()]
        return (
            accounting.unaccounted_records(owed, place, target, target_records, exported, elsewhere) + lost_with_source
        )

    def _not_mirrored_offsets(self, place: Place) -> set[int]:
        log = (self.trip.source, place)
        source_log = self.seen.logs.get(log, [])
        return {
            record.offset for record in self.ledger.periods[self.trip.number].committed(place)
        } - self.seen.mirrored(log, source_log)

    def _stale_records(self, owed: list[Owed], place: Place, exported: set[int]) -> list[Owed]:
        target, stale = self.trip.target, []
        for name in self.names.names_on(target, place[0]):
            log = (target, (name, place[1]))
            clusters = self.names.written_on(log)
            indexed = [(index, due) for index, due in enumerate(owed) if due.cluster in clusters]
            renumbered = {number for number, (index, _) in enumerate(indexed) if index in exported}
            stale += accounting.stale_keys([due for _, due in indexed], self.seen.committed.get(log, []), renumbered)
        accounted_for = {*self.seen.quarantined.get(place, []), *self.ledger.exported_copies[place]}
        return [due for due in stale if due.record.digest not in accounted_for]

    def _unlisted_missing(self, owed: list[Owed], place: Place, missing: list[Owed]) -> list[Owed]:
        """Return the records of `missing` that the evidence does not list as lost with the source."""
        if not self.trip.lost or not missing:
            return missing
        try:
            rows = loss_rows(self.trip.evidence["loss"])
        except (KeyError, TypeError, ValueError):
            return missing
        return [
            due
            for due in missing
            if not (
                due.period == self.trip.number and any(row.may_lack(due.record.offset) for row in rows.get(place, []))
            )
        ]

    def _check_replays(self) -> None:
        written = self.ledger.rightly_exported | {
            accounting.origin_of(period.cluster, place, record.offset): record.digest
            for period in self.ledger.periods for place in period.records for record in period.written(place)
        } if any(replay.origin for records in self.seen.logs.values() for replay in records) else {}  # fmt: skip
        for log, records in self.seen.committed.items():
            twice = accounting.twice_replayed(records)
            findings = [
                Finding("replayed twice", f"on {log[0]}: {count} replays of {origin}", None, *log[1])
                for origin, count in twice.items()
                if not self.trip.crashed or log[0] == self.trip.source
            ]
            wrongly_replayed = accounting.replayed_wrongly(records, written)
            findings += [
                Finding(
                    "replayed wrongly",
                    f"on {log[0]}: names {replay.origin} as its origin, but that record has another content",
                    None,
                    *log[1],
                    replay.offset,
                )
                for replay in wrongly_replayed
            ]
            self.verdict.add(findings, replays=sum(replay.origin is not None for replay in records))
        if self.trip.dag_id == FAILBACK:
            self._check_replayed()

    def _check_replayed(self) -> None:
        """Check that each exported record with the decision `replay` has a replay on the new primary.

        For a compacted topic a later record of the same key counts, too.
        """
        source, period = self.trip.source, self.trip.number - 1
        replays = {
            replay.origin
            for log in self.seen.on(source)
            for replay in self.seen.committed[log]
            if replay.origin is not None
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
            and not self._is_overwritten(place, offset)
        ]
        self.verdict.add(
            [
                Finding("not replayed", f"is exported and to be replayed, but not on {source}", None, *place, offset)
                for place, offset in absent
            ],
            replays_due=len(due),
        )

    def _is_overwritten(self, place: Place, offset: int) -> bool:
        """Whether clients wrote a later record with the key of this stranded record; False if not compacted."""
        if not self._compacted(place):
            return False
        stranded_record = self.ledger.periods[self.trip.number - 1].records[place][offset]
        later = [
            record for record in self.ledger.periods[self.trip.number - 1].written(place) if record.offset > offset
        ] + self.ledger.periods[self.trip.number].written(place)
        return any(record.key == stranded_record.key for record in later)


def _without(owed: list[Owed], removed: list[Owed], exported: set[int]) -> tuple[set[int], list[Owed]]:
    """Remove records from `owed`; return the new indexes of the exported records, and the records that remain.

    Args:
        owed: acknowledged records.
        removed: the records of `owed` to remove.
        exported: indexes in `owed` of exported records.
    """
    removed_ids = set(map(id, removed))
    rest = [(index, due) for index, due in enumerate(owed) if id(due) not in removed_ids]
    return {number for number, (index, _) in enumerate(rest) if index in exported}, [due for _, due in rest]
