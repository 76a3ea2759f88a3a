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
    """Return rows of loss for the source ranges that the translation did not find on the target.

    Args:
        findings: lists of such ranges; a row is returned for each range of every list.

    Returns:
        Rows with `topic`, `partition`, `from_offset`, `certain_to`, `possible_to` (both exclusive), `records` and
        `reason`, sorted. `records` counts lost records only: some records of a range may be on the target.
    """
    rows = [
        {
            "topic": missing.topic,
            "partition": missing.partition,
            "from_offset": missing.from_offset,
            "certain_to": missing.to_offset,
            "possible_to": missing.to_offset,
            "records": missing.records,
            "reason": missing.reason,
        }
        for ranges in findings
        for missing in ranges
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["from_offset"]))
