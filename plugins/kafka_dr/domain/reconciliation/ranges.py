"""Which ranges of a partition's two logs are read, and which of their records are judged.

Invariants
1. Every copy that MirrorMaker 2 may have written of a judged record lies in the target's range.
2. Every original of a target record in the range lies in the source's range, or is older than what is judged.
3. A record that came after the bounds were read is no difference: the target's end is read before the source's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: So many offsets more are read on each side of a chosen range, to see where the chosen records begin and end.
MARGIN = 1_000


@dataclass(frozen=True)
class PartitionLogs:
    """The logs of a source partition and of its target partition, as read; the target's are None without one.

    Attributes:
        source_end: the source's log end, read after the target's; the last stable offset under read_committed.
        replicated: the last replicated offset that Connect stored before the target's log end was read; None if none.
        comparable_times: whether a record and its copy have the same timestamp.
        compacted: whether either topic is compacted.
    """

    source_start: int
    source_end: int
    target_start: int | None
    target_end: int | None
    replicated: int | None
    comparable_times: bool
    compacted: bool


@dataclass(frozen=True)
class ChosenOffsets:
    """The records of one partition that a run chooses; None: from the log's start, or up to its end.

    Attributes:
        source_from, source_to: source offsets.
        target_from, target_to: first target offsets whose records are as new as those at the source offsets.
    """

    source_from: int | None = None
    source_to: int | None = None
    target_from: int | None = None
    target_to: int | None = None


EVERYTHING = ChosenOffsets()


def ranges_of(logs: PartitionLogs, chosen: ChosenOffsets) -> dict[str, Any]:
    """Return the offsets and switches of a partition's rows in the job's inputs `bounds` and `judged`.

    Of a compacted topic all is compared, because the latest value of a key may stand anywhere.
    """
    chosen = EVERYTHING if logs.compacted else chosen
    in_target = logs.comparable_times and logs.target_start is not None and logs.target_end is not None
    judged_from = max(logs.source_start, min(_or(chosen.source_from, 0), logs.source_end))
    judged_to = max(judged_from, min(logs.source_end, _or(chosen.source_to, logs.source_end)))
    source_from = max(logs.source_start, judged_from - (MARGIN if chosen.source_from is not None else 0))
    source_to = min(logs.source_end, judged_to + (MARGIN if chosen.source_to is not None else 0))
    target_from, target_to = logs.target_start, logs.target_end
    if in_target and chosen.target_from is not None:
        target_from = min(max(logs.target_start or 0, chosen.target_from - MARGIN), logs.target_end or 0)
    if in_target and chosen.target_to is not None:
        target_to = max(target_from or 0, min(logs.target_end or 0, chosen.target_to + MARGIN))
    return {
        "source_start": source_from,
        "cut_off": source_to,
        "target_start": target_from,
        "boundary": target_to,
        "judged_from": judged_from,
        "judged_to": judged_to,
        "replicated": replicated_to(logs),
        "source_low": logs.source_start,
        "source_high": logs.source_end,
        "target_low": logs.target_start,
        "target_high": logs.target_end,
    }


def replicated_to(logs: PartitionLogs) -> int | None:
    """Return the source offset below which Connect states that every record is replicated.

    None without a statement, or if it is that of a longer log, which the topic had before it was recreated.
    """
    if logs.replicated is None or logs.replicated >= logs.source_end:
        return None
    return logs.replicated + 1


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
