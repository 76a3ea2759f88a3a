"""Loss: records of the source that the target does not have, by partition and offset range.

Invariants
1. A range is listed as certain only where a record was read on the source and not found on the target.
2. A partition without a row is claimed complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_dr.procedure.entries import MissingRange


def loss_of(*findings: Iterable[MissingRange]) -> list[dict[str, Any]]:
    """Rows of loss from what the translation found missing.

    Returns:
        `topic`, `partition`, `from_offset`, `certain_to`, `possible_to` (both exclusive), `records`, `reason`; ordered.
        Between the first and the last lost record of a range others may have arrived: `records` counts the lost ones.
    """
    rows = [
        {
            "topic": found.topic,
            "partition": found.partition,
            "from_offset": found.from_offset,
            "certain_to": found.to_offset,
            "possible_to": found.to_offset,
            "records": found.records,
            "reason": found.reason,
        }
        for some in findings
        for found in some
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["from_offset"]))
