"""Wait until the flow back (new primary -> returned cluster) has copied up to the new primary's log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka_dr.actions.failback.resync_scope import topics_back
from kafka_dr.actions.failback.resync_start import NONE_COPIED
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FlowBackCaughtUp, SourceEndsNoted, facts_of
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

#: Shortest time, in seconds, between two readings of the last records on the new primary.
_TAILS_SECONDS = 3.0


class CatchUp:
    """Measures how far the flow back is behind log ends of the new primary that are recorded in the journal.

    The log ends are compared with the offsets that Connect has committed. Connect commits an offset after the record
    is copied, and so its offsets may be too low, but are never too high. This comparison suffices while clients work;
    wait_for_zero_lag proves later that all records were copied.
    """

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._tails: dict[TopicPartition, int] = {}
        self._tails_until = 0.0
        # Half of wait_for_zero_lag's deadline; the other half is for records written while people read the forecast.
        self._allowed = procedure.request.deadlines.zero_lag_seconds / 2

    def look(self) -> FlowBackCaughtUp:
        """Return the figures of the catch-up if all records below the recorded log ends are copied.

        The log ends must have been recorded at most half of `zero_lag_seconds` ago. Older log ends are replaced by the
        current log ends.

        Raises:
            NotYet: partitions are behind (the error names the worst), or the recorded log ends were too old.
            NotReady: the flow back is stopped, or its connector or a task has failed.
        """
        self._refuse_stopped()
        at, ends = self._noted_ends()
        behind = self._behind(ends)
        age = self._procedure.progress.now() - at
        if behind:
            worst = sorted(behind.items(), key=lambda item: (-item[1], item[0]))
            named = ", ".join(f"{tp} by {offsets}" for tp, offsets in worst[:5])
            raise NotYet(
                f"by Connect's committed offsets, {len(behind)} of {len(ends)} partitions are behind the log ends on"
                f" {self._procedure.request.source} of {age:.0f} s ago, in offsets: {named}"
            )
        if age > self._allowed:
            self._note()
            raise NotYet(
                f"all records up to the log ends on {self._procedure.request.source} of {age:.0f} s ago are copied;"
                " newer records are compared next"
            )
        return FlowBackCaughtUp(partitions=len(ends), behind_seconds=round(age, 3), allowed_seconds=self._allowed)

    def _refuse_stopped(self) -> None:
        flow = self._procedure.flow
        worker = self._procedure.mirror_maker(flow)
        for status in map(worker.status, worker.sources):
            if "FAILED" in {status.state, *status.tasks.values()} or status.stopped:
                raise NotReady(
                    f"Connector {status.name} is stopped or failed, or a task has failed",
                    f"flow {flow.source}->{flow.target}: {status}",
                    "Read the log of the Connect worker, and restart a failed connector or task in Connect. Then start"
                    " a new run, which resumes a stopped connector.",
                )

    def _noted_ends(self) -> tuple[float, dict[TopicPartition, int]]:
        """Return the new primary's log ends that this wait recorded last, and when, in seconds since 1970.

        If this wait has recorded no log ends, record the current log ends first.
        """
        began = self._procedure.progress.clock(self._step)
        notes = [row for row in self._notes() if row[0].at.timestamp() >= began]
        entry, note = notes[-1] if notes else self._note()
        return entry.at.timestamp(), frame_partitions(self._procedure.artifacts.load(note.source_ends), "offset")

    def _notes(self) -> list[tuple[JournalEntry, SourceEndsNoted]]:
        entries = self._procedure.journal.entries(self._procedure.id, self._step, Entry.NOTE)
        return list(facts_of(entries, SourceEndsNoted))

    def _note(self) -> tuple[JournalEntry, SourceEndsNoted]:
        scope = topics_back(self._procedure)
        infos = self._procedure.systems.source.topics(scope)
        ends = self._procedure.systems.source.ends(
            [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
        )
        receipt = self._procedure.artifacts.save("ends_to_catch_up", partitions_frame(ends, "offset"))
        record_fact(self._procedure.authority, self._step, SourceEndsNoted(source_ends=receipt))
        return self._notes()[-1]

    def _behind(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return partition of the new primary -> number of its offsets below `ends` that are not copied yet.

        Copied are offsets up to the offset that Connect has committed. Partitions that are copied up to their log end
        are left out.
        """
        flow = self._procedure.flow
        worker = self._procedure.mirror_maker(flow)
        replicated = worker.offsets().of(flow.source)
        behind = {
            tp: end - 1 - copied
            for tp, end in ends.items()
            if end > 0
            for copied in (_last_copied(replicated.get(tp)),)
            if copied < end - 1
        }
        return self._with_records(behind, ends, isolation_of(worker.source_config()))

    def _with_records(
        self, behind: dict[TopicPartition, int], ends: dict[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, int]:
        """Return `behind` without partitions that have only transaction markers after the last copied offset.

        Args:
            behind: partition of the new primary -> number of offsets below `ends` that are not copied yet.
            ends: partition of the new primary -> recorded log end.
            isolation: isolation.level of the flow back's consumer.
        """
        if behind and time.monotonic() >= self._tails_until:
            self._tails, self._tails_until = (
                last_offsets(self._procedure, behind, isolation),
                time.monotonic() + _TAILS_SECONDS,
            )
        last = self._tails
        return {tp: offsets for tp, offsets in behind.items() if last.get(tp, -1) > ends[tp] - 1 - offsets}


def _last_copied(replicated: int | None) -> int:
    return NONE_COPIED if replicated is None else replicated


def last_offsets(procedure: Run, partitions: Iterable[TopicPartition], isolation: str) -> dict[TopicPartition, int]:
    """Return partition of the new primary -> its last record's offset; empty and missing partitions are left out.

    Args:
        isolation: isolation.level of the flow back's consumer.
    """
    infos = procedure.systems.source.topics({tp.topic for tp in partitions})
    existing = [tp for tp in partitions if tp.topic in infos and tp.partition in infos[tp.topic].partitions]
    tails = procedure.systems.reader(procedure.request.source, isolation).last_records(existing, take=digest_of)
    return {tp: tail.last.offset for tp, tail in tails.items() if tail.last is not None}
