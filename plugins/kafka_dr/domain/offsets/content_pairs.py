"""Content pairs: the target's newest record, matched by content with a source record that has the same content.

Why this is safe: runbooks/decisions/0008-own-pairs-and-first-copies.md.

Invariant: the source record that MirrorMaker 2 copied lies at or below `upstream`, even if several records have the
same content or MirrorMaker 2 mirrored records twice.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnPair(NamedTuple):
    """Target record `downstream` has the content of source record `upstream`, and of no record above `upstream`.

    Attributes:
        source_end: the source's log end: the content was searched below it.
        records: number of records that a reader gets above `upstream` and below `source_end`. If each offset of this
            range has a record, the number of target records above `downstream` gives the last replicated offset.
    """

    upstream: int
    downstream: int
    source_end: int
    records: int


class PairSearch:
    """Pairs a target partition's newest record with the last source record that has the same content."""

    def __init__(self, downstream: int) -> None:
        """Start a search, before any source record is read.

        Args:
            downstream: offset of the last target record that a reader gets; it must be read before the source is.
        """
        self._downstream = downstream
        self._upstream: int | None = None
        self._above = 0

    def saw(self, offset: int, same: bool) -> None:
        """Take the next source record that a reader gets, in offset order.

        Args:
            same: whether this source record has the content of the target's newest record.
        """
        self._above += 1
        if same:
            self._upstream, self._above = offset, 0

    def pair(self, source_end: int) -> OwnPair | None:
        """Return the pair after all source records below `source_end` were taken.

        Args:
            source_end: the source's log end, read after the target's newest record was read.

        Returns:
            The pair; None if no source record had the content of the target's record.
        """
        return None if self._upstream is None else OwnPair(self._upstream, self._downstream, source_end, self._above)


def suffix_starts(
    source_start: int, source_end: int, newest: int, last_pair: OwnPair | None, most: int
) -> tuple[int, ...]:
    """Return the source offsets at which to begin the search for the origin of the target's newest record, in order.

    The origin is the source record that MirrorMaker 2 copied. Each search ends at the source's log end.

    The first search begins where the origin lies if MirrorMaker 2 has repeated no record since the last pair. It reads
    few records, even if the pair is old. The second search begins right above the last pair: the origins of all later
    target records lie there or higher. Only if MirrorMaker 2 repeats records from below the pair, it lies lower;
    then no pair is found until MirrorMaker 2 has caught up. If both searches would begin right above the pair, one
    offset is returned. Offsets more than `most` below the source's log end are never searched: while MirrorMaker 2 lags
    by more, no pair is found.

    Args:
        newest: offset of the newest record on the target.
        last_pair: the partition's last pair; None without a pair: the one search then begins at the lowest offset.
        most: largest number of source offsets to search.
    """
    lowest = max(source_start, source_end - most)
    if last_pair is None:
        return (lowest,)
    above = max(lowest, last_pair.upstream + 1)
    expected = min(last_pair.upstream + newest - last_pair.downstream, source_end)
    return (expected, above) if expected > above else (above,)
