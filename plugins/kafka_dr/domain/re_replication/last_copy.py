"""Find the source record of which the target's last record is the copy, by the last records of both logs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tails:
    """The last records of one partition.

    Attributes:
        stored: offset that Connect stores, of the last record that it knows to be copied; None without one.
        copies: fingerprints of the target's last records, in order.
        originals: (offset, fingerprint) of the source's records from some records before `stored` on, in order.
    """

    stored: int | None
    copies: tuple[str, ...]
    originals: tuple[tuple[int, str], ...]


def last_copied(tails: Tails) -> int | None:
    """Return the offset of the source record whose copy is the target's last record; None if none is.

    That is the source record up to which most of the target's last records agree with the source's. Of several, the
    first one at or above the stored offset counts: a later one could skip records, this one repeats at most some.
    """
    best: tuple[int, bool, int] | None = None
    for n, (offset, _) in enumerate(tails.originals):
        agreeing = _agreeing(tails, n)
        if not agreeing:
            continue
        known = tails.stored is None or offset >= tails.stored
        rank = (agreeing, known, -offset)
        best = rank if best is None else max(best, rank)
    return None if best is None else -best[2]


def _agreeing(tails: Tails, last: int) -> int:
    """Return how many of the last copies agree with the source records that end at the index `last`."""
    count = 0
    while count < len(tails.copies) and count <= last:
        if tails.copies[-1 - count] != tails.originals[last - count][1]:
            break
        count += 1
    return count
