"""Acknowledged records, and replays of stranded ones."""

from __future__ import annotations

from lab.checker import accounting
from lab.checker.accounting import Owed
from lab.checker.findings import Finding
from lab.checker.ledger import Place
from lab.checker.loss_rows import loss_rows
from lab.checker.round_trip.base import TripChecks
from lab.checker.round_trip.observed import FAILBACK


class RecordChecks(TripChecks):
    """Every acknowledged record is on the target, exported, or in quarantine; replays stand there once."""

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
        return accounting.unaccounted_records(owed, place, here, held, exported, elsewhere) + gone

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


def _without(owed: list[Owed], gone: list[Owed], exported: set[int]) -> tuple[set[int], list[Owed]]:
    """Leave some records out; return which of the others are exported, and the others."""
    left_out = set(map(id, gone))
    kept = [(index, one) for index, one in enumerate(owed) if id(one) not in left_out]
    return {number for number, (index, _) in enumerate(kept) if index in exported}, [one for _, one in kept]
