"""Compare the two logs of one partition, chunk by chunk, so that neither need fit into memory.

Both logs are read side by side. If the other log holds nothing of a whole chunk, one log is read on alone until its
records are again those of the other: a long stretch is missing there, or was deleted by retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kafka_dr_spark.contract.columns import Hashes, Mask
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reading.matching import Records, join_records, no_records
from kafka_dr_spark.reconciliation.alignment import SURE_RUN, align_records
from kafka_dr_spark.reconciliation.differences import Keys, sort_unpaired, tell_differences, uneven_places
from kafka_dr_spark.reconciliation.scope import Judged
from kafka_dr_spark.reconciliation.settled import BEFORE_ALL, Settled, Unpaired
from kafka_dr_spark.translation.case import SOURCE, TARGET, ReadWindow, Search

#: Offsets of a partition that are read at once of each log.
CHUNK = 1_000_000
#: Records of the source whose contents are kept, to tell repeats from records of others; more are read once more.
KEPT = 32_000_000
#: Most records without a pair that are kept of a partition; a record takes some 40 bytes.
MOST_UNPAIRED = 20_000_000
#: Most records of which the keys are read, to see which records of a place belong together.
_MOST_KEYS = 1_000


@dataclass
class Feed:
    """One log of a partition: what was read of it and is not settled, and where reading goes on.

    Attributes:
        window: the range of the log that is compared.
        waiting: records that are not settled yet.
        read: number of records read.
    """

    window: ReadWindow
    waiting: Records = field(default_factory=no_records)
    read: int = 0

    def __post_init__(self) -> None:
        self.at = self.window.start

    @property
    def left(self) -> bool:
        """Whether not all of the range was read."""
        return self.at < self.window.end

    def next_window(self, chunk: int, at: int | None = None) -> ReadWindow:
        """Return the next range of at most so many offsets, from where reading goes on, or from another offset."""
        start = self.at if at is None else at
        return self.window._replace(start=start, end=min(self.window.end, start + chunk))

    def take(self, window: ReadWindow, records: Records) -> None:
        """Take over the records of the range that `next_window` returned."""
        self.at = window.end
        self.read += records.size()
        self.waiting = join_records([self.waiting, records])


@dataclass
class SourceContents:
    """Which contents the source holds, for records of the target that have no pair.

    Attributes:
        forgotten: ranges of the source that must be read once more, because too many contents would have to be kept.
    """

    kept: list[tuple[ReadWindow, Hashes]] = field(default_factory=list)
    forgotten: list[ReadWindow] = field(default_factory=list)

    def add(self, window: ReadWindow, records: Records) -> None:
        """Keep the contents of a range that was read; forget the oldest if these are too many."""
        self.kept.append((window, records.high))
        while len(self.kept) > 1 and sum(len(high) for _, high in self.kept) > KEPT:
            self.forgotten.append(self.kept.pop(0)[0])

    def hold(self, high: Hashes) -> Mask:
        """Return whether the kept contents include each of these halves of fingerprints."""
        return find_in(high, [kept for _, kept in self.kept])


@dataclass
class LogComparison:
    """The comparison of one partition's logs, in offset order.

    Attributes:
        source, target: both logs.
        judged: which records are judged.
        chunk: offsets to read at once.
    """

    source: Feed
    target: Feed
    judged: Judged
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        self.settled, self.contents = Settled(self.judged.judged_from, self.judged.judged_to), SourceContents()
        self._apart = False

    def pair_records(self) -> Search:
        """Pair the records of both logs; a search that requests ranges of both logs."""
        while self.source.left or self.target.left:
            yield from self._read_next()
            pairs = align_records(self.source.waiting, self.target.waiting)
            over = not (self.source.left or self.target.left)
            self.source.waiting, self.target.waiting = self.settled.settle(
                self.source.waiting, self.target.waiting, pairs, over
            )
            if not over:
                yield from self._catch_up(paired=bool(len(pairs.ours)))
            self._refuse_too_many()

    def tell(self) -> Search:
        """Return the `Differences`, once records are paired; a search that may request records again."""
        sorted_records = sort_unpaired(self.settled, self.judged, (yield from self._source_holds()))
        return tell_differences(sorted_records, self.judged, (yield from self._keys_of(*sorted_records[:2])))

    def _read_next(self) -> Search:
        """Read a chunk of each log that has less than a chunk waiting, or of any log that is left."""
        feeds = [feed for feed in (self.source, self.target) if feed.left]
        chosen = [feed for feed in feeds if feed.waiting.size() < self.chunk] or feeds
        windows = [feed.next_window(self.chunk) for feed in chosen]
        for feed, window, records in zip(chosen, windows, (yield windows), strict=True):
            feed.take(window, records)
            if feed is self.source:
                self.contents.add(window, records)

    def _catch_up(self, paired: bool) -> Search:
        """Let one log go on alone if a whole chunk of both waits without a pair; settle what waits for too long."""
        if not paired and not self._apart and self._waiting() >= self.chunk:
            self._apart = not (yield from self._read_on_alone())
        for feed, parts in ((self.source, self.settled.ours), (self.target, self.settled.theirs)):
            if feed.waiting.size() > 2 * self.chunk:
                parts.append(self._unpaired(feed.waiting.between(0, int(feed.waiting.offsets[self.chunk]))))
                feed.waiting = feed.waiting.where(feed.waiting.offsets >= feed.waiting.offsets[self.chunk])

    def _waiting(self) -> int:
        return min(self.source.waiting.size(), self.target.waiting.size())

    def _read_on_alone(self) -> Search:
        """Read on in one log until the records come that wait in the other; return whether they came.

        What was passed is settled. If they come in neither log, both go on side by side.
        """
        for still, moving in ((self.source, self.target), (self.target, self.source)):
            wanted, passed = unique_values(still.waiting.high), dict[ReadWindow, Records]()
            window = moving.next_window(self.chunk)
            while window.start < window.end:
                (records,) = yield [window]
                if np.isin(wanted, records.high).sum() >= min(SURE_RUN, len(wanted) // 10 + 1):
                    self._pass(moving, passed, window.start)
                    return True
                passed[window] = records
                self._refuse_too_many(sum(part.size() for part in passed.values()))
                window = moving.next_window(self.chunk, window.end)
        return False

    def _pass(self, moving: Feed, passed: dict[ReadWindow, Records], at: int) -> None:
        """Settle records that one log alone has, those of ``passed`` and those that wait; reading goes on at ``at``."""
        alone = join_records([moving.waiting, *passed.values()])
        (self.settled.ours if moving is self.source else self.settled.theirs).append(self._unpaired(alone))
        if moving is self.source:
            for window, records in passed.items():
                self.contents.add(window, records)
        moving.read += alone.size() - moving.waiting.size()
        moving.at, moving.waiting = at, no_records()

    def _unpaired(self, records: Records) -> Unpaired:
        gap = self.settled.last_pair[1] if self.settled.last_pair else BEFORE_ALL
        return Unpaired(records, np.full(records.size(), gap))

    def _refuse_too_many(self, more: int = 0) -> None:
        if self.settled.sizes() + more > MOST_UNPAIRED:
            raise ContractBroken(
                f"{self.source.window.topic}-{self.source.window.partition}: more than {MOST_UNPAIRED} records have no"
                " equal record on the other cluster; compare a shorter range of this partition by time or offsets, and"
                " find out whether the topics are copies of each other at all"
            )

    def _source_holds(self) -> Search:
        """Return a function that says of halves of fingerprints whether the source holds a record with each.

        Contents that are no longer kept are read once more, if a record of the target asks for them.
        """
        asked = np.concatenate([np.empty(0, np.uint64), *(part.records.high for part in self.settled.theirs)])
        unknown = asked[~self.contents.hold(asked)]
        found = np.empty(0, np.uint64)
        for window in self.contents.forgotten if len(unknown) else ():
            (records,) = yield [window]
            found = np.append(found, unknown[find_in(unknown, [records.high])])
        return lambda high: self.contents.hold(high) | np.isin(high, found)

    def _keys_of(self, missing: Unpaired, extra: Unpaired) -> Search:
        """Return the keys of the first records that stand in uneven places."""
        places = uneven_places(missing, extra)
        windows = [
            feed.window._replace(start=offset, end=offset + 1, with_keys=True)
            for feed, offsets in zip((self.source, self.target), places, strict=True)
            for offset in offsets[:_MOST_KEYS].tolist()
        ]
        keys = Keys({}, {})
        for window, records in zip(windows, (yield windows) if windows else (), strict=True):
            if records.size():
                (keys.ours if window.side == SOURCE else keys.theirs)[window.start] = int(records.key[0])
        return keys


def find_in(few: Hashes, many: Iterable[Hashes]) -> Mask:
    """Return whether the arrays of `many` include each value of `few`.

    np.isin would sort `many`: for a few values that takes twenty times as long.
    """
    wanted, places = np.unique(few, return_inverse=True)
    found = np.zeros(len(wanted), np.bool_)
    for values in many if len(wanted) else ():
        at = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
        found[at[wanted[at] == values]] = True
    held: Mask = found[places]
    return held


def unique_values(high: Hashes) -> Hashes:
    """Return the values that occur once."""
    values, counts = np.unique(high, return_counts=True)
    unique: Hashes = values[counts == 1]
    return unique


def windows_of(bounds: LogBounds) -> Iterator[ReadWindow]:
    """Yield the ranges of both logs that are compared, the source's first; an absent log's range is empty."""
    keyed = bounds.source_compacted or bounds.target_compacted
    for side, topic, start, end in (
        (SOURCE, bounds.topic, bounds.source_start, bounds.cut_off),
        (TARGET, bounds.target_topic, bounds.target_start, bounds.boundary),
    ):
        yield ReadWindow(side, topic, bounds.partition, start or 0, end or 0, bounds.compare_timestamps, keyed)
