"""Pairs made by content: a target's newest record, found again on the source.

Invariant: a pair (upstream, downstream) never places a group ahead. All records of the source up to the record's true origin were
mirrored no later than `downstream`; the origin lies at or below `upstream`, the highest source record with the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Seen(NamedTuple):
    """A record as far as it is compared."""

    offset: int
    fingerprint: str


class OwnPair(NamedTuple):
    """Who has read the source up to `upstream` may go on at `downstream` + 1.

    Attributes:
        lowest: the lowest record of the stretch with the same content; what lies between may be read again.
        exact: the content occurs once, and the origin cannot lie below the stretch.
    """

    upstream: int
    downstream: int
    lowest: int
    exact: bool


def own_pair(newest: Seen, stretch: Sequence[Seen], reaches_below: bool) -> OwnPair | None:
    """Pair a target partition's newest record with the source.

    Args:
        newest: the target's last returnable record, read first.
        stretch: all returnable source records from some offset to the log end, as that stood after `newest` was read.
        reaches_below: the stretch begins at or below a record whose mirroring is older than `newest`'s, or at the log start.

    Returns:
        None where the content does not occur in the stretch.
    """
    found = [record.offset for record in stretch if record.fingerprint == newest.fingerprint]
    if not found:
        return None
    return OwnPair(max(found), newest.offset, min(found), exact=len(found) == 1 and reaches_below)
