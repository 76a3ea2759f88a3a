"""Topics, and the copies in both logs."""

from __future__ import annotations

from lab.checker import records as seen
from lab.checker.client_behaviour import (
    unlike_topics,
)
from lab.checker.findings import Finding
from lab.checker.ledger import Log
from lab.checker.records import offset_contents
from lab.checker.round_trip.base import TripChecks

#: By kind of finding: what is wrong with records that replication should not have put into a log.
MISMIRRORED = {
    "looped": "was written on this cluster, and was mirrored back to it",
    "copied_again": "is a copy of a record that was mirrored before already",
    "late": "was written before the flow began anew, and was mirrored all the same",
}


class CopyChecks(TripChecks):
    """Nothing was mirrored twice, nothing came back to where it was written."""

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
        changed = seen.changed_offsets(
            ((r.offset, r.digest) for r in self.ledger.told(log)), offset_contents(self.seen.logs[log])
        )
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
