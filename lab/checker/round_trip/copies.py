"""Check the topics of both clusters after one client move, and the mirrored records in all logs.

A period is the time between two client moves.
"""

from __future__ import annotations

from lab.checker import records as record_checks
from lab.checker.client_behaviour import unlike_topics
from lab.checker.findings import Finding
from lab.checker.ledger import Log
from lab.checker.records import offset_contents
from lab.checker.round_trip.base import TripChecks

#: Texts of findings on wrongly mirrored records, by kind.
MISMIRRORED = {
    "looped": "was written on this cluster, and was mirrored back to it",
    "copied_again": "is a second copy of a record that was mirrored before",
    "late": "was written before the offset at which the flow was restarted, but was mirrored",
}


class CopyChecks(TripChecks):
    """Checks partition counts of the topics on both clusters, and that records were mirrored correctly.

    No record may be mirrored twice, after records of a later period, or back to the cluster on which clients wrote it.
    """

    def _check_topics(self) -> None:
        source_topics, target_topics = (self.seen.partitions[alias] for alias in (self.trip.source, self.trip.target))
        expected_topics = {
            self.names.counterpart((self.trip.source, (topic, 0)))[1][0]: count
            for topic, count in source_topics.items()
        }
        expected_topics |= {self.names.local(topic): count for topic, count in source_topics.items()}
        missing_findings = [
            Finding("topic", "is gone from the source", topic=name)
            for name in self.ledger.topics
            if name not in source_topics
        ]
        self.verdict.add(
            missing_findings + unlike_topics(expected_topics, target_topics),
            topics=len(self.ledger.topics),
            partitions=len(self.seen.on(self.trip.source)),
        )

    def _check_copies(self, log: Log) -> None:
        mirroring = self.seen.mirroring(log)
        alias, place = log
        digests = {record.offset: record.digest for record in self.seen.logs[log]}
        ids = {record.digest: record.id for _, _, record in self.ledger.written(log)}
        findings = [
            Finding(kind.replace("_", " "), f"on {alias}: {text}", None, *place, offset, ids.get(digests[offset]))
            for kind, text in MISMIRRORED.items()
            for offset in getattr(mirroring, kind)
        ]
        if not self.trip.crashed:
            text = f"on {alias}: occurs in the log a second time, although MirrorMaker 2 was not killed"
            findings += [
                Finding("mirrored twice", text, None, *place, offset, ids.get(digests[offset]))
                for offset in self._new_repeats(log, mirroring.repeats)
            ]
        self.verdict.add(
            findings, copies=len(mirroring.copied), repeats=len(mirroring.repeats), unconfirmed=len(mirroring.unknown)
        )

    def _new_repeats(self, log: Log, repeats: list[int]) -> list[int]:
        # Repeats after an earlier kill of MirrorMaker 2 were counted by the check of that client move.
        earlier_repeats = self.ledger.repeats.get(log, set())
        return [offset for offset in repeats if offset not in earlier_repeats]

    def _check_kept(self, log: Log) -> None:
        changed = record_checks.changed_offsets(
            ((record.offset, record.digest) for record in self.ledger.client_records(log)),
            offset_contents(self.seen.logs[log]),
        )
        text = f"on {log[0]}: holds another record than was acknowledged"
        self.verdict.add([Finding("log changed", text, None, *log[1], offset) for offset in changed])

    def _foreign_findings(self, log: Log, counterpart: Log) -> list[Finding]:
        """Return findings on target records that were never on the source, or are on the wrong side of the boundary.

        Records that clients wrote on the target must be at or above the boundary, mirrored records below the boundary.

        Args:
            log: a log of the source.
            counterpart: the log on the target to which `log` is mirrored.
        """
        source_digests = {record.digest for record in self.seen.logs[log]} | {
            record.digest for _, _, record in self.ledger.written(log)
        }
        client_digests = {record.digest for record in self.ledger.periods[self.trip.number + 1].written(counterpart[1])}
        boundary, place = self.seen.boundary[counterpart[1]], counterpart[1]
        foreign = [
            record
            for record in self.seen.below(counterpart)
            if record.digest not in source_digests and record.origin not in self.ledger.rightly_exported
        ]
        below_boundary = [
            record
            for record in self.seen.below(counterpart)
            if record.digest in client_digests and self._target_clients_write(counterpart)
        ]
        above_boundary = [
            record
            for record in self.seen.logs[counterpart]
            if record.offset >= boundary and record.digest not in client_digests
        ]
        findings = [
            Finding(
                "stranger",
                "is on the target below the boundary, but was never on the source",
                None,
                *place,
                record.offset,
            )
            for record in foreign
        ]
        findings += [
            Finding("boundary", "was written by clients below the boundary", None, *place, record.offset)
            for record in below_boundary
        ]
        return findings + [
            Finding(
                "boundary",
                "was mirrored above the boundary, or written by an unknown client",
                None,
                *place,
                record.offset,
            )
            for record in above_boundary
        ]
