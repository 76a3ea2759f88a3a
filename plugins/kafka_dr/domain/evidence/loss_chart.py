"""The loss as a picture: a lane for each range of a partition, all on one scale of offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.plain_text import Shown, first_of

LANES_SHOWN = 20
_LONGEST_NAME = 60
#: Where a range has no known end, so much of every lane is left for what nobody knows, in per cent.
_UNKNOWN = 30.0


@dataclass(frozen=True)
class Lane:
    """One range: widths in per cent of the whole, what is certainly lost first.

    Attributes:
        told: both as numbers.
        open: whether nobody knows where what may be lost ends.
    """

    name: str
    told: str
    certain: float
    possible: float
    open: bool


def loss_picture(loss: Sequence[Mapping[str, Any]]) -> Shown:
    """Draw the lanes of the evidence's loss rows, largest certain loss first; empty ranges get none."""
    rows = sorted(
        (row for row in loss if _possible(row) != 0), key=lambda row: (-certainly_lost(row), -(_possible(row) or 0))
    )
    whole = 100.0 - _UNKNOWN * any(row["possible_to"] is None for row in rows)
    most = max((max(certainly_lost(row), _possible(row) or 0) for row in rows), default=0) or 1
    return first_of((_lane(row, whole / most) for row in rows), LANES_SHOWN)


def certainly_lost(row: Mapping[str, Any]) -> int:
    """Offsets that are certainly lost."""
    certain: int = (row["certain_to"] or 0) - row["from_offset"]
    return max(0, certain)


def _possible(row: Mapping[str, Any]) -> int | None:
    """Offsets that are lost at most; None where nobody knows."""
    return None if row["possible_to"] is None else max(0, row["possible_to"] - row["from_offset"])


def _lane(row: Mapping[str, Any], scale: float) -> Lane:
    certain, at_most = certainly_lost(row), _possible(row)
    left = round(certain * scale, 2)
    beyond = 100.0 - left if at_most is None else max(0, at_most - certain) * scale
    name = f"{row['topic']}-{row['partition']}"
    shown = name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
    return Lane(
        f"{shown} from {row['from_offset']:,}", _told(certain, at_most), left, round(beyond, 2), at_most is None
    )


def _told(certain: int, at_most: int | None) -> str:
    known = f"{certain:,} certain" if certain else "nothing certain"
    if at_most is None:
        return f"{known}, no end known"
    return f"{known}, {at_most - certain:,} more possible" if at_most > certain else known
