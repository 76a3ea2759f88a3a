"""How far the flow back is behind the new primary's log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka_dr.actions.failback.resync_scope import topics_back
from kafka_dr.actions.failback.resync_start import NONE_COPIED
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.readiness import isolation_of
from kafka_dr.errors import NotReady
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FlowBackCaughtUp, SourceEndsNoted, facts_of
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

#: Shortest interval between two reads of the new primary's last records.
_TAILS_SECONDS = 3.0


class CatchUp:
    """Measures how far the flow back is behind the new primary's log ends of a moment noted in the journal.

    Connect's committed offsets are used. These offsets are up to one flush old: possibly too low, never too high. Such
    precision suffices while clients are working; the proof record by record comes later, behind the fence.
    """

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._tails: dict[TopicPartition, int] = {}
        self._tails_until = 0.0
        # Half of the drain's deadline; the other half is for records written while people read the forecast.
        self._allowed = procedure.request.deadlines.zero_lag_seconds / 2

    def look(self) -> FlowBackCaughtUp:
        """Figures, once all records below recently noted log ends have been copied.

        Raises:
            NotYet: partitions are behind (the worst are named), or the noted log ends are too old.
            NotReady: the flow is stopped or failed.
        """
        self._refuse_stopped()
        at, ends = self._noted_ends()
        behind = self._behind(ends)
        age = time.time() - at
        if behind:
            worst = sorted(behind.items(), key=lambda item: (-item[1], item[0]))
            named = ", ".join(f"{tp} by {offsets}" for tp, offsets in worst[:5])
            raise NotYet(
                f"{len(behind)} of {len(ends)} partitions are behind what was written {age:.0f} s ago, in offsets:"
                f" {named}"
            )
        if age > self._allowed:
            self._note()
            raise NotYet(f"what was written {age:.0f} s ago is copied; what came since is looked at next")
        return FlowBackCaughtUp(partitions=len(ends), behind_seconds=round(age, 3), allowed_seconds=self._allowed)

    def _refuse_stopped(self) -> None:
        flow = self._procedure.flow
        status = self._procedure.mirror_maker(flow).status(flow.connectors.source)
        if "FAILED" in {status.state, *status.tasks.values()} or status.stopped:
            raise NotReady(
                f"{status.name} does not run",
                str(status),
                "Look at its worker's log, restart what failed; then start a new run.",
            )

    def _noted_ends(self) -> tuple[float, dict[TopicPartition, int]]:
        """Time and ends of this try's newest note of the new primary's log ends; writes a note if there is none."""
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
        """Partitions with records that are not proven to be copied -> how many offsets they are behind."""
        flow = self._procedure.flow
        worker = self._procedure.mirror_maker(flow)
        replicated = worker.offsets(flow.connectors.source).of(flow.source)
        behind = {
            tp: end - 1 - copied
            for tp, end in ends.items()
            if end > 0
            for copied in (_last_copied(replicated.get(tp)),)
            if copied < end - 1
        }
        return self._with_records(behind, ends, isolation_of(worker.config(flow.connectors.source)))

    def _with_records(
        self, behind: dict[TopicPartition, int], ends: dict[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, int]:
        """Leave out partitions with only markers, or no record at all, behind the last copied offset."""
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
    """Offset of the new primary's last readable record, by partition; empty and missing partitions are left out."""
    infos = procedure.systems.source.topics({tp.topic for tp in partitions})
    existing = [tp for tp in partitions if tp.topic in infos and tp.partition in infos[tp.topic].partitions]
    tails = procedure.systems.reader(procedure.request.source, isolation).last_records(existing)
    return {tp: tail.last.offset for tp, tail in tails.items() if tail.last is not None}
