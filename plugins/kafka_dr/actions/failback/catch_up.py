"""How near the flow back is to the new primary's log ends."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka_dr.actions.failback.resync_scope import (
    topics_back,
)
from kafka_dr.actions.failback.resync_start import NONE_COPIED
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.readiness import isolation_of
from kafka_dr.errors import NotReady
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    FlowBackCaughtUp,
    SourceEndsNoted,
    facts_of,
)
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry

#: Last records of the new primary are read again this often at most.
_TAILS_SECONDS = 3.0


class CatchUp:
    """Looks how far the flow back is behind what clients had written at a moment that stands in the journal.

    Connect's own offsets are used, up to a flush old: they say too little, never too much. That suffices here, since
    nobody stands still meanwhile; what is proven record by record is proven behind the fence.
    """

    def __init__(self, procedure: Run, step: str) -> None:
        self._procedure, self._step = procedure, step
        self._tails: dict[TopicPartition, int] = {}
        self._tails_until = 0.0
        # The drain may last so long; half of it is left for what is written while people read the forecast.
        self._allowed = procedure.request.deadlines.zero_lag_seconds / 2

    def look(self) -> FlowBackCaughtUp:
        """Figures, once what was there not long ago has been copied.

        Raises:
            NotYet: with the partitions that are farthest behind.
            NotReady: the flow does not run.
        """
        self._refuse_standing()
        at, ends = self._moment()
        behind = self._behind(ends)
        age = time.time() - at
        if behind:
            worst = sorted(behind.items(), key=lambda item: (-item[1], item[0]))
            told = ", ".join(f"{tp} by {offsets}" for tp, offsets in worst[:5])
            raise NotYet(
                f"{len(behind)} of {len(ends)} partitions are behind what was written {age:.0f} s ago, in offsets:"
                f" {told}"
            )
        if age > self._allowed:
            self._note()
            raise NotYet(f"what was written {age:.0f} s ago is copied; what came since is looked at next")
        return FlowBackCaughtUp(partitions=len(ends), behind_seconds=round(age, 3), allowed_seconds=self._allowed)

    def _refuse_standing(self) -> None:
        flow = self._procedure.flow
        status = self._procedure.mirror_maker(flow).status(flow.connectors.source)
        if "FAILED" in {status.state, *status.tasks.values()} or status.stopped:
            raise NotReady(
                f"{status.name} does not run",
                str(status),
                "Look at its worker's log, restart what failed; then start a new run.",
            )

    def _moment(self) -> tuple[float, dict[TopicPartition, int]]:
        """When the newest look at the new primary's log ends was made in this try, and what it saw."""
        began = self._procedure.progress.clock(self._step)
        noted = [one for one in self._noted() if one[0].at.timestamp() >= began]
        entry, note = noted[-1] if noted else self._note()
        return entry.at.timestamp(), frame_partitions(self._procedure.artifacts.load(note.source_ends), "offset")

    def _noted(self) -> list[tuple[JournalEntry, SourceEndsNoted]]:
        entries = self._procedure.journal.entries(self._procedure.id, self._step, Entry.NOTE)
        return list(facts_of(entries, SourceEndsNoted))

    def _note(self) -> tuple[JournalEntry, SourceEndsNoted]:
        scope = topics_back(self._procedure)
        infos = self._procedure.systems.source.topics(scope)
        ends = self._procedure.systems.source.ends(
            [TopicPartition(topic, p) for topic, info in infos.items() for p in info.partitions]
        )
        kept = self._procedure.artifacts.save("ends_to_catch_up", partitions_frame(ends, "offset"))
        record_fact(self._procedure.authority, self._step, SourceEndsNoted(source_ends=kept))
        return self._noted()[-1]

    def _behind(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Partitions with records that are not known to be copied, and by how many offsets they are behind."""
        flow = self._procedure.flow
        worker = self._procedure.mirror_maker(flow)
        replicated = worker.offsets(flow.connectors.source).of(flow.source)
        left = {
            tp: end - 1 - done
            for tp, end in ends.items()
            if end > 0
            for done in (_done(replicated.get(tp)),)
            if done < end - 1
        }
        return self._with_records(left, ends, isolation_of(worker.config(flow.connectors.source)))

    def _with_records(
        self, left: dict[TopicPartition, int], ends: dict[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, int]:
        """Without those that hold markers only behind what is copied, or nothing at all any more."""
        if left and time.monotonic() >= self._tails_until:
            self._tails, self._tails_until = (
                last_offsets(self._procedure, left, isolation),
                time.monotonic() + _TAILS_SECONDS,
            )
        last = self._tails
        return {tp: offsets for tp, offsets in left.items() if last.get(tp, -1) > ends[tp] - 1 - offsets}


def _done(replicated: int | None) -> int:
    return NONE_COPIED if replicated is None else replicated


def last_offsets(procedure: Run, partitions: Iterable[TopicPartition], isolation: str) -> dict[TopicPartition, int]:
    """Offset of the last readable record of the new primary by partition; without empty and missing partitions."""
    infos = procedure.systems.source.topics({tp.topic for tp in partitions})
    there = [tp for tp in partitions if tp.topic in infos and tp.partition in infos[tp.topic].partitions]
    tails = procedure.systems.reader(procedure.request.source, isolation).last_records(there)
    return {tp: tail.last.offset for tp, tail in tails.items() if tail.last is not None}
