"""Pairs made by content: a target's newest record, found again on the source. Why this is safe: decisions/0008.

Invariant: the record's true origin lies at or below `upstream`, whatever recurs and whatever was mirrored twice.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnPair(NamedTuple):
    """Target record `downstream` has the content of source record `upstream`, and of none above it.

    Attributes:
        source_end: the source's log end up to which it was looked for.
        records: how many returnable records lie between `upstream` and that end. Where they are as many as the offsets
            between, there is no gap among them, and how many of them reached the target tells up to which offset they
            did.
    """

    upstream: int
    downstream: int
    source_end: int
    records: int


class PairSearch:
    """Pairs a target partition's newest record with the source's records as they pass; none of them is kept."""

    def __init__(self, downstream: int) -> None:
        """Nothing has passed yet.

        Args:
            downstream: the offset of the target's last returnable record, read first.
        """
        self._downstream = downstream
        self._upstream: int | None = None
        self._above = 0

    def saw(self, offset: int, same: bool) -> None:
        """Take the next returnable record of the source.

        Args:
            same: whether it has the content of the target's record.
        """
        self._above += 1
        if same:
            self._upstream, self._above = offset, 0

    def pair(self, source_end: int) -> OwnPair | None:
        """Build the pair once all records passed up to the log end, as it stood after the target's record was read.

        Returns:
            None where the content does not occur among them.
        """
        return None if self._upstream is None else OwnPair(self._upstream, self._downstream, source_end, self._above)


def suffix_starts(
    source_start: int, source_end: int, newest: int, last_pair: OwnPair | None, most: int
) -> tuple[int, ...]:
    """Where to begin to look for a partition's newest target record on the source, up to the log's end, in turn.

    First where it stands if MirrorMaker 2 repeated nothing since the last pair, which leaves little to read however
    long ago that was; then right above that pair: what was mirrored since has its origin there, unless MirrorMaker 2
    repeats records from below it. Then there is no pair until it has caught up, nor while it lags by more than `most`
    offsets.

    Args:
        newest: the record's offset on the target.
    """
    lowest = max(source_start, source_end - most)
    if last_pair is None:
        return (lowest,)
    above = max(lowest, last_pair.upstream + 1)
    expected = min(last_pair.upstream + newest - last_pair.downstream, source_end)
    return (expected, above) if expected > above else (above,)
