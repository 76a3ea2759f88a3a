"""What has moved since the check before: log ends by topic, and positions of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

#: Into how many parts topics and groups are divided to see what moves.
_PARTS = 64


@dataclass(frozen=True)
class Movement:
    """A sum that was read at each check, and when what it counts was last seen to have grown.

    Attributes:
        at: when the sum was read, in seconds since 1970.
        changed_from, changed_to: the two checks between which a part last grew; None: no growth was seen.
        parts: by number of a part: a digest of the names of which it is the sum, and the sum.
    """

    sum: int
    at: float
    changed_from: float | None = None
    changed_to: float | None = None
    parts: tuple[tuple[int, ...], ...] = ()


def moved_on(before: Movement | None, sums: Mapping[str, int], now: float) -> Movement:
    """Return the movement after a new reading of sums by name, such as log ends by topic.

    A topic or group that came or went changes sums, too, although nothing has moved: a part counts only if it is of
    the same names as before. Names are spread over parts, so that those that stay are seen to move all the same.
    """
    parts = _parts_of(sums)
    moved = before is not None and any(
        names == names_before and part > part_before
        for (names, part), (names_before, part_before) in zip(parts, before.parts, strict=False)
    )
    changed = (
        (None, None) if before is None else (before.at, now) if moved else (before.changed_from, before.changed_to)
    )
    return Movement(sum(sums.values()), now, *changed, parts=parts)


def _parts_of(sums: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    names: list[list[str]] = [[] for _ in range(_PARTS)]
    for name in sorted(sums):
        names[crc32(name.encode()) % _PARTS].append(name)
    return tuple((crc32("\n".join(part).encode()), sum(sums[name] for name in part)) for part in names)
