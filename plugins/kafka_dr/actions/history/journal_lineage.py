"""Derive segments of both clusters' logs (which range was copied from which cluster) from the journal.

A *client move* is a procedure that opened its target; its *receipts* are journal entries that name the files with its
offsets. A failback in mode append leaves stranded records *in place*: no flow mirrors these records of the returned
cluster. An *open* segment has no end yet, and grows with the logs.

Invariants
1. Offsets of a client move come from its own receipts, and from the search for stranded records of a later failback.
2. If a receipt is missing or contradicts another receipt, its offsets and all older segments are unknown.
3. Without a client move there are no segments, because each target log is one copy. `History.lineage` is for identity
   naming. If the two flows write to different names, only stranded records left in place divide a log into segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from kafka_dr.actions.history.moves import PairJournal, completed_moves, recreated_by
from kafka_dr.actions.history.seeds import SeededOffset, first_noted, prefixed_seeded_offsets
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.failback.lineage import CopiedSegment, Lineage, MoveOffsets, lineage_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction
from kafka_dr.procedure.entries import (
    EndsNoted,
    MirrorMakerStopped,
    MovePlanned,
    ProducersFenced,
    Receipt,
    StrandedRecordsFound,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: Lineage of a target log that is one copy of the source log from its beginning.
ONE_COPY = Lineage((CopiedSegment(0, None, 0, None, copied_back=False),))
PARTITION_COLUMNS = ["topic", "partition"]


class LogGrowth(NamedTuple):
    """The current log ends of one partition on source and target.

    Attributes:
        source_end: the cut-off; None if the source's log end is unknown.
        target_end: the boundary; None if the target has no such partition.
        furthest: the highest source position to translate; None if the partition has no positions.
    """

    source_end: int | None
    target_end: int | None
    furthest: int | None


def segments_of(segments: Mapping[TopicPartition, tuple[CopiedSegment, ...]]) -> pd.DataFrame:
    """Return one row per segment: topic, partition, segment (its number), and the fields of `CopiedSegment`."""
    rows = [(*tp, number, *segment) for tp, parts in sorted(segments.items()) for number, segment in enumerate(parts)]
    frame = pd.DataFrame(rows, columns=[*PARTITION_COLUMNS, "segment", *CopiedSegment._fields])
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
            "copied_to": "Int64",
        }
    )


def ends_only(log: LogGrowth) -> tuple[CopiedSegment, ...]:
    """Return one open segment that begins at both log ends of the partition; () if its begin is unknown."""
    # If the source's log end is unknown, the segment begins above all positions: if it began at the highest position,
    # that position would be translated to the target's log end, which may be too far.
    above_positions = None if log.furthest is None else log.furthest + 1
    source_from = above_positions if log.source_end is None else log.source_end
    return (
        ()
        if source_from is None or log.target_end is None
        else (CopiedSegment(source_from, None, log.target_end, None, copied_back=False),)
    )


@dataclass(frozen=True)
class ClientMove:
    """One procedure that moved clients from cluster `source` to cluster `target` (aliases); offsets by partition.

    Attributes:
        planned: whether all records below the cut-off were proven to be on the target.
        cut_off: the source's log ends; None if receipt or file is missing.
        boundary: the target's log ends; None if receipt or file is missing.
        frontiers: by the search of a later failback, the source offset from which on no record was mirrored, and the
            source offset of the first copy from the target; None without a search, or if its receipt is missing.
        ends_after_move: recorded source log ends after the move, before the reverse flow first wrote.
        recreated: topics of the target that were recreated between the previous move and this move.
        ids: topic -> topic id on the source, by the plan.
        seeded: start offsets seeded after the move for the flow target -> source; {} unless names separate directions.
    """

    source: str
    target: str
    planned: bool
    cut_off: dict[TopicPartition, int] | None
    boundary: dict[TopicPartition, int] | None
    frontiers: dict[TopicPartition, tuple[int, int]] | None
    ends_after_move: dict[TopicPartition, int]
    recreated: frozenset[str]
    ids: dict[str, str]
    seeded: dict[TopicPartition, SeededOffset]

    @classmethod
    def of(
        cls,
        moved: Run,
        journal: PairJournal,
        seeded: dict[TopicPartition, SeededOffset],
        before: int,
        opened: int,
        until: int | None,
    ) -> ClientMove:
        """Return the client move of procedure `moved`, from its receipts and later procedures' journal entries.

        Args:
            seeded: value of the attribute `seeded`.
            before, opened, until: sequence numbers of the journal entries with which the previous, this and the next
                client move opened their targets; `before` is 0 for the first move, `until` is None for the last.
        """
        fenced, stopped = moved.progress.done(ProducersFenced), moved.progress.done(MirrorMakerStopped)
        return cls(
            source=moved.request.source,
            target=moved.request.target,
            planned=fenced is not None,
            cut_off=offsets_in(moved, fenced.cut_off if fenced else None, "offset"),
            boundary=offsets_in(moved, stopped.boundary if stopped else None, "offset"),
            frontiers=searched_frontiers(moved, journal, opened),
            ends_after_move=recorded_ends(journal, opened, until),
            recreated=recreated_by(journal, before, opened),
            ids=source_topic_ids(moved),
            seeded=seeded,
        )

    def move(self, tp: TopicPartition, doubted: bool = False) -> MoveOffsets:
        """Return the offsets of this client move for one partition.

        Args:
            doubted: whether the source topic was recreated at an unrecorded time; `source_end` is then unknown.
        """
        contradicts = self._receipts_contradict(tp)
        source_end = None if doubted or contradicts else self.source_end(tp)
        target_end = None if self.boundary is None else self.boundary.get(tp, None if contradicts else 0)
        return MoveOffsets(
            self.source,
            self.target,
            source_end,
            target_end,
            self._source_resumes(tp),
            tp.topic in self.recreated,
            self.drained(tp),
        )

    def _receipts_contradict(self, tp: TopicPartition) -> bool:
        """Whether only one of the two receipts, cut-off and boundary, lists the partition."""
        return self.cut_off is not None and self.boundary is not None and (tp in self.cut_off) != (tp in self.boundary)

    def source_end(self, tp: TopicPartition) -> int | None:
        """Return the source offset below which all records were mirrored, 0 without such records; None if unknown."""
        frontier = None if self.frontiers is None else self.frontiers.get(tp)
        if self.planned:
            cut_off = None if self.cut_off is None else self.cut_off.get(tp, 0)
            # A source log that lost its tail after the move ends below the cut-off.
            return cut_off if cut_off is None or frontier is None else min(cut_off, frontier[0])
        if frontier is not None:
            return frontier[0]
        return None if self.frontiers is None or self.boundary is None or tp in self.boundary else 0

    def drained(self, tp: TopicPartition) -> bool:
        """Whether the last copied record on the target is proven to be a copy of the last one below `source_end`."""
        return self.planned and self.source_end(tp) == (self.cut_off or {}).get(tp)

    def _source_resumes(self, tp: TopicPartition) -> int | None:
        """Return the source offset at which copies from the target begin after the move; None if unknown."""
        frontier = (self.frontiers or {}).get(tp)
        copies_begin = frontier[1] if frontier else None
        candidates = (self.ends_after_move.get(tp), copies_begin, (self.cut_off or {}).get(tp))
        return next((offset for offset in candidates if offset is not None), None)


def offsets_in(procedure: Run, receipt: Receipt | None, column: str) -> dict[TopicPartition, int] | None:
    """Return offsets by partition from a receipt's file; None without receipt, or for a missing or changed file."""
    with suppress(Contradiction):
        return None if receipt is None else frame_partitions(procedure.artifacts.load(receipt), column)
    return None


def offsets_seeded(procedure: Run, moved: Run) -> dict[TopicPartition, SeededOffset]:
    """Return start offsets that procedure `moved` seeded, for prefixed naming; {} if none, or if a file is missing."""
    with suppress(Contradiction):
        return prefixed_seeded_offsets(procedure, moved)
    return {}


def source_topic_ids(procedure: Run) -> dict[str, str]:
    """Return topic -> topic id on the source, of a procedure; {} without a plan, or if its file is missing."""
    with suppress(Contradiction):
        return procedure.progress.moved_topic_ids() if procedure.progress.done(MovePlanned) else {}
    return {}


def searched_frontiers(moved: Run, journal: PairJournal, opened: int) -> dict[TopicPartition, tuple[int, int]] | None:
    """Return partition -> (end of mirrored records, begin of copies) in the source's log; None if unknown."""
    searches = journal.facts(StrandedRecordsFound, Step.FIND_STRANDED_RECORDS, opened)
    frontiers = [(finder, found.frontier) for _, finder, found in searches if found.after == moved.id]
    if not frontiers:
        return None
    ends, resumes = (offsets_in(*frontiers[-1], column) for column in ("source_tail", "source_resumes"))
    return None if ends is None or resumes is None else {tp: (end, resumes[tp]) for tp, end in ends.items()}


def recorded_ends(journal: PairJournal, opened: int, until: int | None) -> dict[TopicPartition, int]:
    """Return source partition -> oldest log end recorded between two journal entries, by their sequence numbers."""
    notes = [
        (entry.sequence, offsets_in(writer, note.ends_before, "offset"), note.all_noted)
        for step in EndsNoted.steps
        for entry, writer, note in journal.facts(EndsNoted, step, opened, until)
    ]
    return first_noted([(sequence, ends, whole) for sequence, ends, whole in notes if ends is not None])[0]


@dataclass(frozen=True)
class History:
    """All client moves between the pair's clusters, and the current topic ids.

    Attributes:
        source: alias of the cluster where clients are now.
        target: alias of the other cluster.
        changes: the client moves, oldest first.
        recreated: topics of the target that were recreated after the last client move, and copied from the beginning.
        ids: cluster alias -> topic -> current topic id.
    """

    source: str
    target: str
    changes: tuple[ClientMove, ...]
    recreated: frozenset[str]
    ids: dict[str, dict[str, str]]

    @classmethod
    def of(cls, procedure: Run) -> History | None:
        """Read the client moves from the journal and their files; None if no procedure has moved clients."""
        moved = completed_moves(procedure)
        if not moved:
            return None
        journal, source, target = PairJournal(procedure), procedure.request.source, procedure.request.target
        opened = [entry.sequence for entry, _ in moved]
        windows = zip([0, *opened], opened, [*opened[1:], None], strict=False)
        separate = names_separate_directions(procedure)
        seeded = [
            offsets_seeded(procedure if move.request.target == source else procedure.reversed, move) if separate else {}
            for _, move in moved
        ]
        changes = tuple(
            ClientMove.of(move, journal, offsets, *window)
            for (_, move), offsets, window in zip(moved, seeded, windows, strict=True)
        )
        # If the source is declared lost, its recreated topics are recognised by the flight recorder's samples instead.
        source_ids = {} if procedure.progress.without_source else source_topic_ids(procedure)
        target_ids = {name: info.topic_id for name, info in procedure.systems.target.topics().items()}
        return cls(
            source,
            target,
            changes,
            recreated_by(journal, opened[-1], None),
            {source: source_ids, target: target_ids},
        )

    @property
    def _last_move_from_target(self) -> ClientMove | None:
        moves = [change for change in self.changes if change.source == self.target]
        return moves[-1] if moves else None

    def copied_up_to(self, tp: TopicPartition) -> int | None:
        """Return up to which target offset the source had all records when clients left the target; None if unknown."""
        return self._last_move_from_target.source_end(tp) if self._last_move_from_target else None

    def drained(self, tp: TopicPartition) -> bool:
        """Whether the last copied record on the source is proven to be a copy of the last one below `copied_up_to`."""
        return self._last_move_from_target is not None and self._last_move_from_target.drained(tp)

    def copies_end(self, copy: TopicPartition, tp: TopicPartition) -> int | None:
        """Return the log end of `copy`, the source's copy of `tp`, when clients last left the target; None: unknown."""
        if (
            self._last_move_from_target is None
            or self._last_move_from_target.boundary is None
            or self.copied_up_to(tp) is None
        ):
            return None
        return self._last_move_from_target.boundary.get(copy)

    def lineage(self, tp: TopicPartition) -> Lineage:
        """Return one partition's segments, for identity naming; without segments if these are unknown."""
        doubted, last_ids = self._topic_ids_at_moves(tp.topic)
        if tp.topic in self.recreated or self._has_new_id(last_ids, self.source, tp.topic):
            return ONE_COPY
        if self._has_new_id(last_ids, self.target, tp.topic):
            return Lineage((), f"the topic was recreated on {self.target}, and the journal does not record when")
        return lineage_of(
            [change.move(tp, number in doubted) for number, change in enumerate(self.changes)], self.source, self.target
        )

    def around_stranded(self, tp: TopicPartition, copy: TopicPartition) -> Lineage:
        """Return segments of source partition `tp` and its copy on the target, around stranded records left in place.

        For prefixed naming. Without segments if no stranded records were left in place, or if offsets are unknown.
        """
        segments, begin = self._segments_around_stranded(self.source, tp, copy)
        return (
            Lineage((*segments, CopiedSegment(begin[0], None, begin[1], None, copied_back=False)))
            if segments
            else Lineage(())
        )

    def copied_around_stranded(self, copy: TopicPartition, tp: TopicPartition) -> tuple[CopiedSegment, ...]:
        """Return segments of target partition `tp` and its copy on the source, around stranded records left in place.

        The last segment is open, and the only one if no stranded records were left, or if offsets are unknown.
        """
        segments, begin = self._segments_around_stranded(self.target, tp, copy)
        from_original = (*segments, CopiedSegment(begin[0], None, begin[1], None, copied_back=False))
        return tuple(
            CopiedSegment(
                part.target_from,
                part.target_to,
                part.source_from,
                part.source_to,
                copied_back=True,
                drained=part.drained,
            )
            for part in from_original
        )

    def _segments_around_stranded(
        self, home: str, tp: TopicPartition, copy: TopicPartition
    ) -> tuple[list[CopiedSegment], tuple[int, int]]:
        """Return closed segments, each ending before stranded records, and both begin offsets of the open segment.

        Args:
            home: alias of the cluster where clients write `tp`; `copy` is the partition's copy on the other cluster.
        """
        doubted, last_ids = self._topic_ids_at_moves(tp.topic)
        begin, segments = (0, 0), list[CopiedSegment]()
        end: tuple[int | None, int | None] | None = None
        if doubted or copy.topic in self.recreated or self._has_new_id(last_ids, home, tp.topic):
            return segments, begin
        for change in self.changes:
            if change.source == home:
                begin, segments = ((0, 0), []) if copy.topic in change.recreated else (begin, segments)
                end, drained = (change.source_end(tp), (change.boundary or {}).get(copy)), change.drained(tp)
            elif end is not None:
                seed, (original_end, copy_end) = change.seeded.get(tp), end
                if seed is None or original_end is None or copy_end is None:
                    return [], (0, 0)
                if seed.replicated + 1 > original_end:
                    segments.append(
                        CopiedSegment(begin[0], original_end, begin[1], copy_end, copied_back=False, drained=drained)
                    )
                    begin = seed.replicated + 1, max(seed.target_end, copy_end)
        return segments, begin

    def _topic_ids_at_moves(self, topic: str) -> tuple[set[int], dict[str, str]]:
        """Return indexes of moves before which the topic was recreated, unrecorded; cluster -> last planned id."""
        doubted, last_ids = set[int](), dict[str, str]()
        for number, change in enumerate(self.changes):
            if topic in change.recreated:
                last_ids.pop(change.target, None)
            topic_id = change.ids.get(topic)
            if topic_id is not None and last_ids.get(change.source, topic_id) != topic_id:
                doubted.add(number)
            last_ids |= {} if topic_id is None else {change.source: topic_id}
        return doubted, last_ids

    def _has_new_id(self, last_ids: Mapping[str, str], alias: str, topic: str) -> bool:
        topic_id = self.ids[alias].get(topic)
        return topic_id is not None and last_ids.get(alias, topic_id) != topic_id
