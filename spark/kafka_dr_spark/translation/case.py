"""Types of a translation: a case (one partition or one of its segments), offset ranges to read, and an answer."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from kafka_dr_spark.logs.bounds import FullBounds, LogBounds, SourceBounds, TargetBounds
from kafka_dr_spark.logs.pairs import WHOLE, Pairs
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.logs.segment import Segment
from kafka_dr_spark.reading.matching import Records

SOURCE, TARGET = "source", "target"


class Answer(NamedTuple):
    """A group's position on the target, and how certain this position is.

    Attributes:
        target_position: next target offset that the group will read; None for a refusal.
        class_: translation class: END, SYNC, CONTENT, NEAREST, POLICY or REFUSED.
        exact: whether this is certainly the highest target offset at or above which all unread records have copies.
        bound: most records that the group gets again; None if unknown.
        evidence: what the position was determined from, or the reason for a refusal.
        clamped: note that a position was raised or that records are skipped; None without a note.
    """

    target_position: int | None
    class_: str
    exact: bool
    bound: int | None
    evidence: str
    clamped: str | None = None


class ReadWindow(NamedTuple):
    """An offset range of one partition to read, from ``start`` to ``end`` (exclusive).

    Attributes:
        side: the cluster, SOURCE or TARGET.
        with_timestamps: whether a record's fingerprint covers its timestamp.
        with_keys: whether each key gets a fingerprint of its own.
    """

    side: str
    topic: str
    partition: int
    start: int
    end: int
    with_timestamps: bool = True
    with_keys: bool = False


# A search is a generator that yields read windows, is sent their records in the same order, and returns a result.
# So `drive_searches` can read the windows of many partitions at once.
Search = Generator[list[ReadWindow], list[Records], Any]


def refused_answer(reason: str) -> Answer:
    """Return an answer of class REFUSED, without a target position, because a person must decide."""
    return Answer(None, "REFUSED", False, None, reason)


def noted_answer(answer: Answer, note: str) -> Answer:
    """Return the answer with a note in ``clamped`` (a position was raised, or records are skipped).

    A refusal is returned unchanged.
    """
    if answer.class_ == "REFUSED":
        return answer
    return answer._replace(clamped=f"{note}; {answer.clamped}" if answer.clamped else note)


def by_policy(policy: str, bounds: LogBounds) -> Answer:
    """Return the answer by the group's policy (earliest, boundary, fail) for a position without any other answer."""
    start, end = bounds.target_start, bounds.boundary
    if policy == "earliest" and start is not None and end is not None:
        size = end - start
        return Answer(
            start, "POLICY", size == 0, size, "policy earliest: no offset sync, and the source cannot be read"
        )
    if policy == "boundary" and end is not None:
        return Answer(end, "POLICY", False, None, "policy boundary: no offset sync, and the source cannot be read")
    return refused_answer(f"policy {policy}: no offset sync, and the source cannot be read")


@dataclass
class Limits:
    """Read limits and other settings of a job, from job.json.

    Attributes:
        isolation: isolation level at which MirrorMaker 2 reads the source.
        source_readable: whether the job reads the source.
        content_limit: most offsets to read per case (partition or segment) and cluster.
        target_isolation: isolation level at which the job reads the target.
        reach: length in offsets. A range between two pairs that is equally long on both clusters, and longer than this,
            is assumed to hide no restart of MirrorMaker 2.
        near: positions at most this many offsets below the cut-off are matched from both logs' ends downwards.
        deadline_seconds: most seconds that one Spark task reads.
        rows_per_read: most records that one read of a consumer returns.
        source_final: whether clients have stopped writing to the source, so that its log end stays at the cut-off.
        only_mirrored: whether the target's logs, as far as is recorded, hold only records that the flow mirrored.
        whole: whether the search for stranded records also lists replicated records that are no longer on the target.
        samples_missing: whether the flight recorder took newer samples than those of the input; then no position that
            relies on samples is exact.
    """

    isolation: str = "read_uncommitted"
    source_readable: bool = True
    content_limit: int = 1_000_000
    target_isolation: str = "read_uncommitted"
    reach: int = 20_000
    near: int = 2_000
    deadline_seconds: int = 600
    rows_per_read: int = 10_000
    source_final: bool = False
    only_mirrored: bool = False
    whole: bool = False
    samples_missing: bool = False


@dataclass
class Case:
    """One partition, or one segment of a partition, to translate.

    Attributes:
        bounds: log starts and ends on both clusters; of the segment if only a segment is translated.
        pairs: offset syncs that no later sync contradicts. If positions are translated and the source cannot be read,
            also the flight recorder's content pairs.
        limits: read limits of the job.
        floors: log ends of both clusters as the flight recorder sampled them, for a source that cannot be read.
        segment: the segment to translate; `WHOLE` means both logs in full.
        left: number of offsets that may still be read, by cluster (SOURCE, TARGET).
        read: number of records that were read, by cluster.
        holes: ranges of source offsets with records that are missing on the target.
        cut: ranges of source offsets with records whose copies the target's retention has deleted.
    """

    bounds: LogBounds
    pairs: Pairs
    limits: Limits
    floors: Floors = field(default_factory=Floors)
    segment: Segment = WHOLE
    left: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=lambda: {SOURCE: 0, TARGET: 0})
    holes: list[dict[str, Any]] = field(default_factory=list)
    cut: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self.left or {SOURCE: self.limits.content_limit, TARGET: self.limits.content_limit}

    @property
    def ends_match(self) -> bool:
        """Whether the target holds all source records below the cut-off, and no records of other writers."""
        return (self.bounds.drained or self.segment.complete) and not self.bounds.other_writer

    @property
    def target_cut(self) -> bool:
        """Whether the target's log starts above the segment's begin, because retention deleted the oldest records."""
        return self.bounds.target_start != self.segment.target_from

    def first_offset(self, upstream: int) -> int | None:
        """Return a target offset at or below all copies of source record ``upstream`` and of later records.

        None if some of these copies may have been removed by a cleaner or by retention.
        """
        floor = self.floors.below(upstream)
        begin = self.bounds.target_start
        start = begin if floor is None and not self.target_cut else floor
        return None if start is None or begin is None or start < begin or self.bounds.target_compacted else start

    def window(self, side: str, start: int, end: int) -> ReadWindow:
        """Return the offset range ``start`` to ``end`` (exclusive) of this partition on cluster ``side``."""
        bounds = self.bounds
        topic = bounds.topic if side == SOURCE else bounds.target_topic
        with_keys = bounds.target_compacted or bounds.source_compacted
        return ReadWindow(side, topic, bounds.partition, start, end, bounds.compare_timestamps, with_keys)

    def fetch(self, *windows: ReadWindow) -> Search:
        """Request the records of offset ranges from the caller; return the records of each range, in order.

        An empty range is not requested, and its result is None. The numbers of records are added to `read`.
        """
        requested = [window for window in windows if window.start < window.end]
        received = iter((yield requested) if requested else [])
        parts = [next(received) if window.start < window.end else None for window in windows]
        for window, records in zip(windows, parts):
            self.read[window.side] += records.size() if records else 0
        return parts

    def may_read(self, side: str, count: int) -> bool:
        """Return whether ``count`` more offsets may be read of cluster ``side``; if so, deduct them from `left`."""
        if count > self.left[side]:
            return False
        self.left[side] -= count
        return True


class SourceCase(Case):
    """A case whose log start and cut-off on the source are not None."""

    bounds: SourceBounds


class TargetCase(Case):
    """A case whose target partition exists."""

    bounds: TargetBounds


class FullCase(SourceCase, TargetCase):
    """A case whose log starts and log ends are not None, on both clusters."""

    bounds: FullBounds


def source_known(case: Case) -> TypeGuard[SourceCase]:
    """Return whether a case's log start and cut-off on the source are not None."""
    return case.bounds.source_start is not None and case.bounds.cut_off is not None


def target_known(case: Case) -> TypeGuard[TargetCase]:
    """Return whether a case's target partition exists."""
    return case.bounds.target_exists


def both_known(case: Case) -> TypeGuard[FullCase]:
    """Return whether a case's log starts and log ends are not None, on both clusters."""
    return source_known(case) and target_known(case)
