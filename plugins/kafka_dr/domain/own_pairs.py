"""Pairs made by content: a target's newest record, found again on the source. Why this is safe: decisions/0008.

Invariant: the record's true origin lies at or below `upstream`, whatever recurs and whatever was mirrored twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Seen(NamedTuple):
    """A record as far as it is compared."""

    offset: int
    fingerprint: str


class OwnPair(NamedTuple):
    """Target record `downstream` has the content of source record `upstream`, and of none above it.

    Attributes:
        source_end: the source's log end up to which it was looked for.
        records: how many returnable records lie between `upstream` and that end. Where they are as many as the offsets between, there is no
            gap among them, and how many of them reached the target tells up to which offset they did.
    """

    upstream: int
    downstream: int
    source_end: int
    records: int


def own_pair(newest: Seen, suffix: Sequence[Seen], source_end: int) -> OwnPair | None:
    """Pair a target partition's newest record with the source.

    Args:
        newest: the target's last returnable record, read first.
        suffix: all returnable source records from some offset to the log end, as that stood after `newest` was read.
        source_end: that log end.

    Returns:
        None where the content does not occur in the suffix.
    """
    found = [index for index, record in enumerate(suffix) if record.fingerprint == newest.fingerprint]
    return OwnPair(suffix[found[-1]].offset, newest.offset, source_end, len(suffix) - found[-1] - 1) if found else None


def suffix_start(source_start: int, source_end: int, last_pair: OwnPair | None, most: int) -> int:
    """Where the suffix begins in which a partition's newest target record is looked for; it ends at the log's end.

    Above the last pair: what was mirrored since has its origin there, unless MirrorMaker 2 repeats records; then there is no pair until
    it has caught up. Nor is there one while it lags by more than `most` offsets, which are read at every sample at most.
    """
    return max(source_start, source_end - most, last_pair.upstream + 1 if last_pair else 0)
