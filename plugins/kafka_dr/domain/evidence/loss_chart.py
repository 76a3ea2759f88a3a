"""The loss as a chart: one horizontal bar (lane) per lost range of a partition, all on one scale of offsets.

A row of loss is such a range: topic, partition, from_offset, certain_to (up to which loss is certain; None if no loss
is certain) and possible_to (up to which loss is possible; None if unknown).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.domain.plain_text import Shown, first_of

LANES_SHOWN = 20
_LONGEST_NAME = 60
#: If the end of any range is unknown, this share of every lane, in per cent, is kept free for unknown loss.
_UNKNOWN = 30.0


@dataclass(frozen=True)
class Lane:
    """One lost range of offsets.

    Attributes:
        figures: the certain and the possible loss in offsets, as text.
        certain, possible: widths of the lane's two parts, in per cent of the lane, `certain` first.
        open: whether the end of the possible loss is unknown.
    """

    name: str
    figures: str
    certain: float
    possible: float
    open: bool


def loss_picture(loss: Sequence[Mapping[str, Any]]) -> Shown:
    """Return one lane per row of loss, largest certain loss first, at most `LANES_SHOWN`.

    A row whose range is empty gets no lane.
    """
    rows = sorted(
        (row for row in loss if _at_most_lost(row) != 0),
        key=lambda row: (-certainly_lost(row), -(_at_most_lost(row) or 0)),
    )
    whole = 100.0 - _UNKNOWN * any(row["possible_to"] is None for row in rows)
    most = max((max(certainly_lost(row), _at_most_lost(row) or 0) for row in rows), default=0) or 1
    return first_of((_lane(row, whole / most) for row in rows), LANES_SHOWN)


def certainly_lost(row: Mapping[str, Any]) -> int:
    """Return the number of offsets that, according to a row of loss, are certainly lost."""
    certain: int = (row["certain_to"] or 0) - row["from_offset"]
    return max(0, certain)


def _at_most_lost(row: Mapping[str, Any]) -> int | None:
    """Return the largest number of offsets that, according to a row of loss, may be lost; None if it is unknown."""
    return None if row["possible_to"] is None else max(0, row["possible_to"] - row["from_offset"])


def _lane(row: Mapping[str, Any], scale: float) -> Lane:
    certain, at_most = certainly_lost(row), _at_most_lost(row)
    certain_width = round(certain * scale, 2)
    possible_width = 100.0 - certain_width if at_most is None else max(0, at_most - certain) * scale
    name = f"{row['topic']}-{row['partition']}"
    shown = name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
    return Lane(
        f"{shown} from {row['from_offset']:,}",
        _numbers(certain, at_most),
        certain_width,
        round(possible_width, 2),
        at_most is None,
    )


def _numbers(certain: int, at_most: int | None) -> str:
    certain_text = f"{certain:,} certain" if certain else "nothing certain"
    if at_most is None:
        return f"{certain_text}, end unknown"
    return f"{certain_text}, {at_most - certain:,} more possible" if at_most > certain else certain_text
