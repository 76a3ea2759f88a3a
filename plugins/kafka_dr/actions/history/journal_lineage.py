"""Which stretches of two clusters' logs came from which, by the journal; written for the translation's job.

Invariants
1. Only procedures that opened their target count, each by the receipts that it wrote itself, and by what a later
   failback found.
2. What a receipt that is gone, or that contradicts another one, would have told is unknown, and all that is older with
   it.
3. Where no procedure moved clients, or each direction has topics of its own, nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from kafka_dr.actions.history.moves import PairJournal, completed_moves
from kafka_dr.actions.history.seeds import SeededOffset, first_noted, prefixed_seeded_offsets
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.failback.lineage import CopiedSegment, Lineage, SideChange, lineage_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction
from kafka_dr.procedure.entries import (
    EndsNoted,
    MirrorMakerStopped,
    MovePlanned,
    ProducersFenced,
    Receipt,
    StrandedRecordsFound,
    TopicsToCreate,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: Of a target that is a copy from its beginning, and of nothing else.
ONE_COPY = Lineage((CopiedSegment(0, None, 0, None, copied_back=False),))
PARTITION_COLUMNS, _OFFSETS = ["topic", "partition"], ["source_from", "source_to", "target_from", "target_to"]


class LogGrowth(NamedTuple):
    """The two logs of one partition as they are now.

    Attributes:
        source_end: the cut-off; None where the source's end is not known.
        target_end: the boundary; None where the target has no such partition.
        furthest: the highest position that is asked for; None where none is.
    """

    source_end: int | None
    target_end: int | None
    furthest: int | None


def segments_of(segments: Mapping[TopicPartition, tuple[CopiedSegment, ...]]) -> pd.DataFrame:
    """The same, of segments by partition."""
    rows = [(*tp, number, *segment) for tp, found in sorted(segments.items()) for number, segment in enumerate(found)]
    frame = pd.DataFrame(rows, columns=[*PARTITION_COLUMNS, "segment", *_OFFSETS, "copied_back", "drained"])
    return frame.astype(
        {
            "topic": object,
            "partition": "int32",
            "segment": "int32",
            "source_from": "int64",
            "source_to": "Int64",
            "target_from": "int64",
            "target_to": "Int64",
            "copied_back": bool,
            "drained": bool,
        }
    )


def ends_only(log: LogGrowth) -> tuple[CopiedSegment, ...]:
    """Stand-in for unknown segments: what follows both logs' ends corresponds; positions below stay unknown."""
    # One that begins just there would be taken for the target's end: where the source's end is not known, that would be
    # ahead.
    behind_all = None if log.furthest is None else log.furthest + 1
    at = behind_all if log.source_end is None else log.source_end
    return (
        ()
        if at is None or log.target_end is None
        else (CopiedSegment(at, None, log.target_end, None, copied_back=False),)
    )


def recreated_by(told: PairJournal, after: int, until: int | None) -> frozenset[str]:
    """Topics that prepare_topics made between two changes of sides, so that they are mirrored from the beginning."""
    intents = told.facts(TopicsToCreate, Step.PREPARE_TOPICS, after, until)
    return frozenset(name for *_, making in intents for name in making.creates_topics)


@dataclass(frozen=True)
class ChangeOfSides:
    """What the journal says of one procedure that moved clients; offsets by partition.

    Attributes:
        planned: whether everything below the cut-off was proven to be on the target.
        cut_off: where the source's logs ended then; None where the receipt is gone, or there is none.
        boundary: where the target's logs ended; None where the receipt is gone.
        found: what a later failback found of the old source's log: from which offset on nothing was mirrored, and where
            copies begin; None where none looked, or its receipt is gone.
        noted: where the old source's logs ended just before copies were first written to them, as far as somebody noted
            that.
        anew: topics of the target that were made anew for this change.
        ids: ids of the source's topics.
        begun: where the flow from its target was told to begin then, where names part the directions.
    """

    source: str
    target: str
    planned: bool
    cut_off: dict[TopicPartition, int] | None
    boundary: dict[TopicPartition, int] | None
    found: dict[TopicPartition, tuple[int, int]] | None
    noted: dict[TopicPartition, int]
    anew: frozenset[str]
    ids: dict[str, str]
    begun: dict[TopicPartition, SeededOffset]

    @classmethod
    def of(
        cls,
        moved: Run,
        told: PairJournal,
        begun: dict[TopicPartition, SeededOffset],
        before: int,
        opened: int,
        until: int | None,
    ) -> ChangeOfSides:
        """Read a procedure's receipts, and those that speak of it.

        Args:
            begun: as the attribute.
            before, opened, until: numbers in the journal: when the procedure before it opened its target, when it did,
            and when the next one did.
        """
        fenced, stopped = moved.progress.done(ProducersFenced), moved.progress.done(MirrorMakerStopped)
        return cls(
            source=moved.request.source,
            target=moved.request.target,
            planned=fenced is not None,
            cut_off=offsets_in(moved, fenced.cut_off if fenced else None, "offset"),
            boundary=offsets_in(moved, stopped.boundary if stopped else None, "offset"),
            found=found_later(moved, told, opened),
            noted=noted_ends(told, opened, until),
            anew=recreated_by(told, before, opened),
            ids=ids_then(moved),
            begun=begun,
        )

    def move(self, tp: TopicPartition, doubted: bool = False) -> SideChange:
        """The change as one partition saw it.

        Args:
            doubted: its log on the source is another one than before, and nobody wrote down since when.
        """
        contradicts = self._contradicts(tp)
        source_end = None if doubted or contradicts else self.source_end(tp)
        target_end = None if self.boundary is None else self.boundary.get(tp, None if contradicts else 0)
        return SideChange(
            self.source, self.target, source_end, target_end, self._resumes(tp), tp.topic in self.anew, self.drained(tp)
        )

    def _contradicts(self, tp: TopicPartition) -> bool:
        """Whether one of the two receipts of a planned procedure knows a partition that the other one does not."""
        return self.cut_off is not None and self.boundary is not None and (tp in self.cut_off) != (tp in self.boundary)

    def source_end(self, tp: TopicPartition) -> int | None:
        """Source offset up to which records were mirrored; 0 for a partition not there then, None if unknown."""
        found = None if self.found is None else self.found.get(tp)
        if self.planned:
            cut_off = None if self.cut_off is None else self.cut_off.get(tp, 0)
            # A log that lost its tail since ends before the cut-off.
            return cut_off if cut_off is None or found is None else min(cut_off, found[0])
        if found is not None:
            return found[0]
        return None if self.found is None or self.boundary is None or tp in self.boundary else 0

    def drained(self, tp: TopicPartition) -> bool:
        """Tell whether the last copy was proven to be of the last record below the source's end, still present."""
        return self.planned and self.source_end(tp) == (self.cut_off or {}).get(tp)

    def _resumes(self, tp: TopicPartition) -> int | None:
        """Where copies of what clients wrote on the target begin on the old source, as far as anybody told it."""
        found = (self.found or {}).get(tp)
        told = (self.noted.get(tp), None if found is None else found[1], (self.cut_off or {}).get(tp))
        return next((offset for offset in told if offset is not None), None)


def offsets_in(procedure: Run, receipt: Receipt | None, column: str) -> dict[TopicPartition, int] | None:
    """Load offsets by partition from a kept file; None without the file, or if it is not the one written."""
    if receipt is None:
        return None
    try:
        return frame_partitions(procedure.artifacts.load(receipt), column)
    except Contradiction:
        return None


def begun_then(procedure: Run, moved: Run) -> dict[TopicPartition, SeededOffset]:
    """Where the flow was told to begin after an earlier procedure moved clients; {} if not, or receipt gone."""
    try:
        return prefixed_seeded_offsets(procedure, moved)
    except Contradiction:
        return {}


def ids_then(procedure: Run) -> dict[str, str]:
    """Ids that the topics of a procedure's plan had on its source, as far as they were known."""
    move = procedure.progress.done(MovePlanned)
    return move.planned.topic_ids if move else {}


def found_later(moved: Run, told: PairJournal, opened: int) -> dict[TopicPartition, tuple[int, int]] | None:
    """What the last failback that went back from a procedure found of the logs that clients had left."""
    looks = told.facts(StrandedRecordsFound, Step.FIND_STRANDED_RECORDS, opened)
    frontiers = [(finder, found.frontier) for _, finder, found in looks if found.after == moved.id]
    if not frontiers:
        return None
    ends, resumes = (offsets_in(*frontiers[-1], column) for column in ("source_tail", "source_resumes"))
    return None if ends is None or resumes is None else {tp: (end, resumes[tp]) for tp, end in ends.items()}


def noted_ends(told: PairJournal, opened: int, until: int | None) -> dict[TopicPartition, int]:
    """Where logs ended before the flow back first wrote to them since clients left; the oldest note counts."""
    read = [
        (entry.sequence, offsets_in(writer, note.ends_before, "offset"), note.all_noted)
        for step in EndsNoted.steps
        for entry, writer, note in told.facts(EndsNoted, step, opened, until)
    ]
    return first_noted([(sequence, ends, whole) for sequence, ends, whole in read if ends is not None])[0]


@dataclass(frozen=True)
class History:
    """All changes of sides of the pair, oldest first, and the logs' topics as they are now.

    Attributes:
        anew: topics of the target that were made anew since the last one, to be copied from the beginning.
        ids: by cluster, the ids that its topics have now.
    """

    source: str
    target: str
    changes: tuple[ChangeOfSides, ...]
    anew: frozenset[str]
    ids: dict[str, dict[str, str]]

    @classmethod
    def of(cls, procedure: Run) -> History | None:
        """Read the journal: one listing, and files only of procedures that moved clients; None where none did."""
        moved = completed_moves(procedure)
        if not moved:
            return None
        told, source, target = PairJournal(procedure), procedure.request.source, procedure.request.target
        opened = [entry.sequence for entry, _ in moved]
        windows = zip([0, *opened], opened, [*opened[1:], None], strict=False)
        apart = names_separate_directions(procedure)
        begun = [
            begun_then(procedure if one.request.target == source else procedure.reversed, one) if apart else {}
            for _, one in moved
        ]
        changes = tuple(
            ChangeOfSides.of(one, told, flow, *window)
            for (_, one), flow, window in zip(moved, begun, windows, strict=True)
        )
        # Of a source that was given up the recorder says which topics were made anew.
        here = {} if procedure.progress.without_source else ids_then(procedure)
        there = {name: info.topic_id for name, info in procedure.systems.target.topics().items()}
        return cls(source, target, changes, recreated_by(told, opened[-1], None), {source: here, target: there})

    @property
    def _left(self) -> ChangeOfSides | None:
        """The last time that clients left the target."""
        left = [change for change in self.changes if change.source == self.target]
        return left[-1] if left else None

    def copied_up_to(self, tp: TopicPartition) -> int | None:
        """Target offset copied to the source by the time clients left for the source; None if unknown."""
        return self._left.source_end(tp) if self._left else None

    def drained(self, tp: TopicPartition) -> bool:
        """Whether the last copy of it was proven then to be of the last record below that offset."""
        return self._left is not None and self._left.drained(tp)

    def copies_end(self, copy: TopicPartition, tp: TopicPartition) -> int | None:
        """End of a target partition's complete copy on the source when clients left for it; None if unknown."""
        if self._left is None or self._left.boundary is None or self.copied_up_to(tp) is None:
            return None
        return self._left.boundary.get(copy)

    def lineage(self, tp: TopicPartition) -> Lineage:
        """One partition's, by its name on the source."""
        doubted, seen = self._sightings(tp.topic)
        if tp.topic in self.anew or self._differs(seen, self.source, tp.topic):
            return ONE_COPY
        if self._differs(seen, self.target, tp.topic):
            return Lineage((), f"its topic was made anew on {self.target}, and nobody wrote down when")
        return lineage_of(
            [change.move(tp, number in doubted) for number, change in enumerate(self.changes)], self.source, self.target
        )

    def around_stranded(self, tp: TopicPartition, copy: TopicPartition) -> Lineage:
        """Lineage of a source partition around records left behind (names part directions); empty if none or unknown.

        The flow was told to begin behind such records when clients had come back. All stretches were copied the same
        way.
        """
        segments, begin = self._stretches(self.source, tp, copy)
        return (
            Lineage((*segments, CopiedSegment(begin[0], None, begin[1], None, copied_back=False)))
            if segments
            else Lineage(())
        )

    def copied_around_stranded(self, copy: TopicPartition, tp: TopicPartition) -> tuple[CopiedSegment, ...]:
        """Segments of a copy on the source, likewise; the last is open, and the only one if none stayed or unknown."""
        segments, begin = self._stretches(self.target, tp, copy)
        along = (*segments, CopiedSegment(begin[0], None, begin[1], None, copied_back=False))
        return tuple(
            CopiedSegment(
                one.target_from, one.target_to, one.source_from, one.source_to, copied_back=True, drained=one.drained
            )
            for one in along
        )

    def _stretches(
        self, home: str, tp: TopicPartition, copy: TopicPartition
    ) -> tuple[list[CopiedSegment], tuple[int, int]]:
        """Stretches of a cluster's partition that end in records left behind, as copied; and where the rest begins."""
        doubted, seen = self._sightings(tp.topic)
        begin, segments = (0, 0), list[CopiedSegment]()
        end: tuple[int | None, int | None] | None = None
        if doubted or copy.topic in self.anew or self._differs(seen, home, tp.topic):
            return segments, begin
        for change in self.changes:
            if change.source == home:
                begin, segments = ((0, 0), []) if copy.topic in change.anew else (begin, segments)
                end, drained = (change.source_end(tp), (change.boundary or {}).get(copy)), change.drained(tp)
            elif end is not None:
                flow, (left, copied) = change.begun.get(tp), end
                if flow is None or left is None or copied is None:
                    return [], (0, 0)
                if flow.replicated + 1 > left:
                    segments.append(CopiedSegment(begin[0], left, begin[1], copied, copied_back=False, drained=drained))
                    begin = flow.replicated + 1, max(flow.target_end, copied)
        return segments, begin

    def _sightings(self, topic: str) -> tuple[set[int], dict[str, str]]:
        """Changes at which a source topic's id differed without a recorded recreation; and last id by cluster."""
        doubted, seen = set[int](), dict[str, str]()
        for number, change in enumerate(self.changes):
            if topic in change.anew:
                seen.pop(change.target, None)
            now = change.ids.get(topic)
            if now is not None and seen.get(change.source, now) != now:
                doubted.add(number)
            seen |= {} if now is None else {change.source: now}
        return doubted, seen

    def _differs(self, seen: Mapping[str, str], alias: str, topic: str) -> bool:
        now = self.ids[alias].get(topic)
        return now is not None and seen.get(alias, now) != now
