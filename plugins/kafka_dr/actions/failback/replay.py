"""Replay stranded records to the new primary as decided: write each once, and prove this by reading them back.

A *part* has one partition's stranded records; its *place* is the partition of the new primary that gets these records.
Each transaction holds stranded records and one progress record. If this process is killed, its child process (the
writer) still ends its transaction. The next process fences that writer, and continues after the last committed record.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd

from kafka_dr.actions.failback.replay_plan import KEPT_FOR_EVER, KEPT_WHOLE, LARGEST_BATCH, ReplayPart, bytes_of
from kafka_dr.actions.failback.stranded_export import Writers, exported_by, progress_record, written_of
from kafka_dr.actions.replication.reverse import ends_at_opening
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.failback.replay import (
    Expected,
    Fate,
    Found,
    Origin,
    ReadBack,
    cut_into_transactions,
    mark_of,
    with_origin_headers,
    without_origin_headers,
)
from kafka_dr.domain.failback.stranded import Decision
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import count_of
from kafka_dr.errors import Contradiction, Superseded
from kafka_dr.hooks.brokers.client import in_batches
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, record_of
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.topics import READ_COMMITTED
from kafka_dr.hooks.brokers.transactional_writer import Outgoing
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import ReplayBegun, StrandedRecordsFound, StrandedRecordsReconciled
from kafka_dr.procedure.run import Run

#: Attempts to write, because an older process that continues late may have fenced this process's writer.
_ATTEMPTS = 3
_LOG_EVERY_SECONDS = 5.0
#: Number of partitions read back at the same time; of each partition, some exported records are in memory.
_AT_ONCE = 16
_READ_SECONDS, _READ_A_SECOND = 120.0, 5_000
_NAMED = 10


class ReplayProof(NamedTuple):
    """Comparison of one part with its records on the new primary; and numbers of records not written, by reason."""

    part: ReplayPart
    comparison: Found
    left_out: Mapping[Fate, int]


class Replay:
    """Writes an export's stranded records to their places on the new primary, and proves that each was written."""

    def __init__(self, procedure: Run, parts: list[ReplayPart], step: str, log: Callable[[str], None]) -> None:
        self._procedure, self._parts, self._step, self._log = procedure, parts, step, log
        self._export_id, self._exports = exported_by(procedure), Writers.of(procedure).exports
        self._names = procedure.systems.own_names
        self.transactional_id = self._names.replay_id(procedure.pair)
        self._writer = procedure.systems.replay_writer(
            procedure.request.source, self.transactional_id, min(LARGEST_BATCH, *(part.largest for part in parts))
        )
        self._committed = procedure.systems.reader(procedure.request.source, READ_COMMITTED)
        self._written, self._interrupted, self._logged_at = 0, False, time.monotonic()
        self._read_back: Counter[TopicPartition] = Counter()

    def run(self) -> None:
        """Write all records that no run has written to their places yet.

        Raises:
            Superseded: a newer process of this procedure acts, or fenced this process's writer three times.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._write_all()
                return  # noqa: TRY300 (an else would stand behind twenty lines)
            except Superseded:
                # The broker does not know the lease's epochs: an older process may have fenced this process's writer.
                # The older process fails at its next check of the lease, so this process may fence again.
                self._interrupted = True
                self._procedure.authority.hold()
                if attempt + 1 == _ATTEMPTS:
                    raise
            finally:
                self._writer.close()

    def _note_begun(self) -> None:
        """Create missing topics; record in the journal that the replay begins, and the log end of each new place."""
        self._make_topics()
        noted = self._ends_noted()
        new = {place: end for place, end in self._ends().items() if place not in noted}
        receipt = self._procedure.artifacts.save("replay_ends_before", partitions_frame(new, "offset")) if new else None
        record_fact(self._procedure.authority, self._step, ReplayBegun(replaying=self._export_id, ends_before=receipt))

    def _make_topics(self) -> None:
        """Create the progress topic and the quarantine topics on the new primary."""
        source = self._procedure.systems.source
        source.create_topic(self._names.progress, 1, configs=KEPT_FOR_EVER)
        # Sorted, so that the last part of a topic has the topic's largest partition.
        quarantines = {
            part.place.topic: part.place.partition + 1
            for part in sorted(self._parts, key=lambda part: part.place)
            if part.decision is Decision.QUARANTINE
        }
        existing = source.topics(quarantines) if quarantines else {}
        for topic, partitions in quarantines.items():
            self._procedure.authority.hold()
            if topic in existing:
                source.create_partitions(topic, partitions)
            else:
                source.create_topic(topic, partitions, configs=KEPT_WHOLE)

    def _ends(self) -> dict[TopicPartition, int]:
        return self._procedure.systems.source.ends([part.place for part in self._parts])

    def _ends_noted(self) -> dict[TopicPartition, int]:
        """Return place -> log end before the first record was replayed to the place, by the oldest journal entry."""
        noted: dict[TopicPartition, int] = {}
        writers = Writers.of(self._procedure)
        for writer in writers.procedures:
            for note in writer.progress.facts(ReplayBegun):
                if note.replaying in writers.exports and note.ends_before is not None:
                    noted = frame_partitions(writer.artifacts.load(note.ends_before), "offset") | noted
        return noted

    # -- writing -------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        self._writer.fence()
        # The lease is checked after older writers are fenced: an older process that continues late must write nothing.
        self._procedure.authority.hold()
        self._note_begun()
        done = self.progress()
        plain = [part for part in self._parts if not part.compacted]
        self._write_parts(plain, done, frozenset)
        for part in self._parts:
            if part.compacted:
                later = LaterKeys(
                    self._procedure, self._committed, part, self._exports, self._clients_since(part.place)
                )
                self._write_parts([part], done, later.look)

    def progress(self) -> dict[TopicPartition, int]:
        """Return partition of the returned cluster -> first offset not yet replayed, by committed progress records."""
        return written_of(self._committed, self._names.progress, self._exports)

    def _write_parts(
        self, parts: list[ReplayPart], done: Mapping[TopicPartition, int], written_later: Callable[[], Any]
    ) -> None:
        rows = chain.from_iterable(
            ((part, record) for record in part.stranded.records(done.get(part.origin, 0))) for part in parts
        )
        now = time.time()
        for transaction in cut_into_transactions(
            rows, lambda row: bytes_of(row[1]), lambda row: row[0].doubtful(row[1], now)
        ):
            self._write(transaction, written_later())

    def _write(self, rows: list[tuple[ReplayPart, Record]], written_later: Any) -> None:
        chosen = [(part, record) for part, record in rows if part.fate(record, written_later) is Fate.WRITTEN]
        if not chosen:
            return
        self._procedure.progress.refuse_if_going_back()
        try:
            self._writer.write(
                [*(self._outgoing(part, record) for part, record in chosen), self._progress_record(rows)],
                self._procedure.authority.hold,
            )
        except BaseException:
            self._interrupted = True
            raise
        self._written += len(chosen)
        self._log_progress()

    def _outgoing(self, part: ReplayPart, record: Record) -> Outgoing:
        origin = Origin(self._procedure.request.target, *part.origin, record.offset)
        return Outgoing(
            *part.place,
            record.key,
            record.value,
            with_origin_headers(record.headers, origin, self._export_id),
            part.stamp(record),
        )

    def _progress_record(self, rows: list[tuple[ReplayPart, Record]]) -> Outgoing:
        return progress_record(
            self._names.progress,
            self._export_id,
            self._procedure.id,
            {part.origin: (record.offset + 1, part.decision) for part, record in rows},
        )

    def _log_progress(self) -> None:
        if time.monotonic() - self._logged_at > _LOG_EVERY_SECONDS:
            self._logged_at = time.monotonic()
            self._log(
                f"{count_of(self._written, 'record')} written by this process, of"
                f" {sum(part.stranded.count() for part in self._parts):,} that were exported"
            )

    def _clients_since(self, place: TopicPartition) -> int:
        """Return the offset of `place` at which clients' records since the failover begin; at least the log start."""
        after = self._procedure.progress.require(StrandedRecordsFound).after
        failover = self._procedure.other(after)
        if failover is None:
            raise Contradiction(
                "The offset from which clients have written on the new primary is unknown",
                f"procedure {after} moved clients to {self._procedure.request.source}, and is missing in the journal",
                f"Restore the journal from a backup that has procedure {after}. Then start a new run.",
            )
        return max(ends_at_opening(failover).get(place, 0), self._procedure.systems.source.starts([place])[place])

    # -- proof ---------------------------------------------------------------------------------------------------

    def prove(self) -> list[ReplayProof]:
        """Compare the committed records of all places with the export; return one proof per part, with mismatches."""
        spans = self._spans()
        return [proof for parts in in_batches(self._parts, _AT_ONCE) for proof in self._prove_parts(parts, spans)]

    def _spans(self) -> dict[TopicPartition, OffsetSpan]:
        """Return place -> offsets to read back: since the replay began; of a compacted part, since the failover."""
        noted, ends = self._ends_noted(), self._ends()
        starts = self._procedure.systems.source.starts(list(ends))
        begin = {
            part.place: self._clients_since(part.place) if part.compacted else noted.get(part.place, 0)
            for part in self._parts
        }
        self._shortened = {place for place in ends if starts[place] > noted.get(place, 0)}
        return {place: OffsetSpan(max(begin[place], starts[place]), end) for place, end in ends.items()}

    def _prove_parts(self, parts: list[ReplayPart], spans: Mapping[TopicPartition, OffsetSpan]) -> list[ReplayProof]:
        left_out = {part.origin: Counter[Fate]() for part in parts}
        by_origin = {
            part.origin: ReadBack(_expected(part, left_out[part.origin]), part.compacted, part.place in self._shortened)
            for part in parts
        }
        watched = {part.place: by_origin[part.origin] for part in parts if part.compacted}
        for record in self._committed_in({part.place: spans[part.place] for part in parts}):
            self._assign(record, by_origin, watched)
        return [ReplayProof(part, by_origin[part.origin].end(), left_out[part.origin]) for part in parts]

    def _committed_in(self, spans: dict[TopicPartition, OffsetSpan]) -> Iterator[Record]:
        """Yield the new primary's committed records between these offsets; wait for open transactions to end."""
        return self._committed.scan(spans, _reading_seconds(spans))

    def _assign(
        self, record: Record, by_origin: Mapping[TopicPartition, ReadBack], watched: Mapping[TopicPartition, ReadBack]
    ) -> None:
        replayed = without_origin_headers(record.headers, self._exports)
        if replayed is None:
            if record.topic_partition in watched:
                watched[record.topic_partition].written(mark_of(record.key))
            return
        origin, headers = replayed
        if origin.topic_partition in by_origin:
            self._read_back[record.topic_partition] += 1
            by_origin[origin.topic_partition].replayed(_as_seen(record, origin, headers))

    def aborted(self) -> dict[TopicPartition, int]:
        """Return place -> number of replayed records in aborted transactions, which only read_uncommitted readers get.

        {}, without reading the logs, if one process wrote all records at its first attempt.
        """
        begun = self._procedure.progress.facts(ReplayBegun)
        if len(begun) < 2 and not self._interrupted and self._exports == (self._procedure.id,):
            return {}
        spans, counts = self._spans(), Counter[TopicPartition]()
        reader = self._procedure.systems.reader(self._procedure.request.source)
        for record in reader.scan(spans, _reading_seconds(spans), take=record_of):
            counts[record.topic_partition] += without_origin_headers(record.headers, self._exports) is not None
        return {
            place: count - self._read_back[place]
            for place, count in sorted(counts.items())
            if count > self._read_back[place]
        }


class LaterKeys:
    """Finds keys of one compacted partition's stranded records that clients have written again since the failover."""

    def __init__(
        self, procedure: Run, reader: RecordReader, part: ReplayPart, exports: Collection[str], begin: int
    ) -> None:
        self._procedure, self._reader, self._place, self._exports = procedure, reader, part.place, exports
        self._read_to, self._marks = begin, part.stranded.key_marks()
        self._written_later: set[bytes | None] = set()

    def look(self) -> set[bytes | None]:
        """Return marks (first 16 bytes of the SHA-256) of the keys found so far; wait for open transactions to end."""
        end = self._procedure.systems.source.ends([self._place])[self._place]
        if end > self._read_to:
            spans = {self._place: OffsetSpan(self._read_to, end)}
            marks = (
                mark_of(record.key)
                for record in self._reader.scan(spans, _reading_seconds(spans), take=record_of)
                if without_origin_headers(record.headers, self._exports) is None
            )
            self._written_later |= self._marks.intersection(marks)
            self._read_to = end
        return self._written_later


def _reading_seconds(spans: Mapping[TopicPartition, OffsetSpan]) -> float:
    return _READ_SECONDS + sum(span.end - span.start for span in spans.values()) / _READ_A_SECOND


def _expected(part: ReplayPart, left_out: Counter[Fate]) -> Iterator[Expected]:
    """Yield the part's records that must be on the new primary; count all other records in `left_out`, by fate."""
    for record in part.stranded.records():
        fate = part.fate(record)
        if fate is Fate.WRITTEN:
            yield Expected(
                record.offset,
                record.fingerprint(),
                None if part.restamps else part.stamp(record),
                mark_of(record.key) if part.compacted else None,
            )
        else:
            left_out[fate] += 1


def _as_seen(record: Record, origin: Origin, headers: tuple[tuple[str, bytes | None], ...]) -> Expected:
    return Expected(
        origin.offset, record._replace(headers=headers).fingerprint(), record.timestamp, mark_of(record.key)
    )


def refuse_unproven(procedure: Run, proven: Iterable[ReplayProof]) -> None:
    """Refuse unless every record to be replayed was read back from its place, once and unchanged."""
    wrong = [
        f"{proof.part.place}: {'; '.join(proof.comparison.problems)}" for proof in proven if proof.comparison.problems
    ]
    if wrong:
        raise Contradiction(
            f"Replayed records on {procedure.request.source} do not match the export",
            " | ".join(wrong[:_NAMED]),
            "The export still has all records, and replayed records stay on the cluster. Find out which client wrote to"
            " these topics or deleted records from them. Then start a new run, which reads the records back again.",
        )


def figures_of(
    procedure: Run, proven: list[ReplayProof], aborted: Mapping[TopicPartition, int], transactional_id: str | None
) -> StrandedRecordsReconciled:
    """Return the outcome of the replay: sums over all partitions, and a file with one row per partition."""
    rows = pd.DataFrame(
        [_row(proof, aborted) for proof in proven], columns=["topic", "partition", "decision", "place", *_COUNTED]
    ).astype({"partition": "int32"} | dict.fromkeys(_COUNTED, "int64"))
    sums = {name: int(rows[name].sum()) for name in _COUNTED if name != "read_back"}
    read_back = {
        decision: int(rows.loc[rows["decision"] == decision, "read_back"].sum())
        for decision in (Decision.REPLAY, Decision.QUARANTINE)
    }
    return StrandedRecordsReconciled(
        replayed=read_back[Decision.REPLAY],
        quarantined=read_back[Decision.QUARANTINE],
        **sums,
        aborted_are_mirrored=bool(aborted) and procedure.flow.isolation != READ_COMMITTED,
        export_of=exported_by(procedure),
        transactional_id=transactional_id,
        by_partition=procedure.artifacts.save("replayed", rows),
    )


_COUNTED = ("read_back", "overwritten", "overtaken", "uncommitted", "keyless", "expired", "restamped", "aborted")


def _row(proof: ReplayProof, aborted: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found, left_out = proof.comparison, proof.left_out
    return {
        "topic": proof.part.origin.topic,
        "partition": proof.part.origin.partition,
        "decision": str(proof.part.decision),
        "place": proof.part.place.topic,
        **{name: getattr(found, name) for name in ("read_back", "overwritten", "overtaken", "expired", "restamped")},
        "uncommitted": left_out[Fate.UNCOMMITTED],
        "keyless": left_out[Fate.KEYLESS],
        "aborted": aborted.get(proof.part.place, 0),
    }
