"""Offset pairs by content: the target's newest record, found on the source. Why this is safe: decisions/0008.

Invariant: the record's true origin lies at or below `upstream`, even if contents recur or records were mirrored twice.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnPair(NamedTuple):
    """Target record `downstream` has the content of source record `upstream`, and of no record above `upstream`.

    Attributes:
        source_end: the source's log end up to which the content was searched.
        records: number of returnable records between `upstream` and `source_end`. If it equals the number of offsets
            between, the range has no gap: the number of its records on the target then gives the last replicated
            offset.
    """

    upstream: int
    downstream: int
    source_end: int
    records: int


class PairSearch:
    """Pairs a target partition's newest record with one of the source's records, which are read one by one."""

    def __init__(self, downstream: int) -> None:
        """Start a search, before any source record is read.

        Args:
            downstream: the offset of the target's last returnable record, read first.
        """
        self._downstream = downstream
        self._upstream: int | None = None
        self._above = 0

    def saw(self, offset: int, same: bool) -> None:
        """Take the next returnable record of the source.

        Args:
            same: whether this source record has the content of the target's record.
        """
        self._above += 1
        if same:
            self._upstream, self._above = offset, 0

    def pair(self, source_end: int) -> OwnPair | None:
        """Build the pair after all source records below `source_end` were taken.

        Args:
            source_end: the source's log end, read after the target's record was read.

        Returns:
            None if no source record had the content.
        """
        return None if self._upstream is None else OwnPair(self._upstream, self._downstream, source_end, self._above)


def suffix_starts(
    source_start: int, source_end: int, newest: int, last_pair: OwnPair | None, most: int
) -> tuple[int, ...]:
    """Source offsets from which to search for a partition's newest target record up to the log end, in this order.

    The first start is the record's offset if MirrorMaker 2 repeated nothing since the last pair: the range to read is
    small however old the pair is. The second start is right above the last pair: the origins of all records mirrored
    since lie there, unless MirrorMaker 2 repeats records from below the pair. In that case no pair is found until
    MirrorMaker 2 has caught up, nor while it lags by more than `most` offsets.

    Args:
        newest: the record's offset on the target.
        most: largest number of source offsets to search.
    """
    lowest = max(source_start, source_end - most)
    if last_pair is None:
        return (lowest,)
    above = max(lowest, last_pair.upstream + 1)
    expected = min(last_pair.upstream + newest - last_pair.downstream, source_end)
    return (expected, above) if expected > above else (above,)
