"""Check where groups of a global view were placed that read copies of another cluster's topic, and moved there.

Example: a group on `east` read `west.orders`, the copy of `orders` on `west`, and continues on `west` in `orders`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.checker.findings import Finding
from lab.checker.readers import Place
from lab.checker.records import Held


class Placing(NamedTuple):
    """Where a group was placed in a topic whose copies it had read.

    Args:
        skipped: number of records below the placing that the group has not read.
        repeated: number of records from the placing on that the group has read, before the first unread record.
    """

    skipped: int
    repeated: int


def placing_of(copies: Iterable[Held], originals: Sequence[Held], left: int, placed: int) -> Placing:
    """Return how a placing compares with the first record that the group has not read; contents must be unique.

    Args:
        copies: the log that the group read.
        originals: the log in which the group continues.
        left: the group's position in the copies.
        placed: the group's position in the originals.
    """
    read, unread = set[int](), set[int]()
    for copy in copies:
        (unread if copy.offset >= left else read).add(copy.digest)
    read -= unread
    below = [record for record in originals if record.offset < placed]
    first = min((record.offset for record in originals if record.digest not in read), default=None)
    between = [r for r in originals if r.offset >= placed and (first is None or r.offset < first)]
    return Placing(sum(record.digest not in read for record in below), len(between))


def check_placings(
    groups: Mapping[str, tuple[Mapping[Place, int], Mapping[Place, int]]],
    logs: Mapping[Place, tuple[Sequence[Held], Sequence[Held]]],
    original: Mapping[Place, Place],
) -> tuple[list[Finding], dict[str, int]]:
    """Return findings, one for each position that is missing or skips records, and figures.

    Args:
        groups: group -> its positions when it left, on copies, and its positions after the move, on originals.
        logs: partition of copies -> the copies' log and the originals' log.
        original: partition of copies -> partition of originals.

    Returns:
        The findings, and `positions`, `exact` (neither skipped nor repeated) and `repeated` (most of one position).
    """
    findings, placings = list[Finding](), list[Placing]()
    for group, (left, placed) in groups.items():
        for place, position in left.items():
            at = placed.get(original[place])
            if at is None:
                findings.append(Finding("global view", f"{group} has no position on {original[place]}"))
                continue
            placing = placing_of(*logs[place], position, at)
            placings.append(placing)
            if placing.skipped:
                text = f"{group} left {place} at {position} and is at {at} on {original[place]}"
                findings.append(Finding("global view", f"{text}: {placing.skipped} unread records are skipped"))
    return findings, {
        "positions": len(placings),
        "exact": sum(placing == (0, 0) for placing in placings),
        "repeated": max((placing.repeated for placing in placings), default=0),
    }
