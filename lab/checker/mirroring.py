"""What replication made of one log: records that are there twice, came back to their origin, or came late.

Clients write to one cluster at a time, so that whatever is right stands in a log by periods: what was written earlier
comes earlier. A flow that begins where it should copies nothing of an earlier period, and no record back to the cluster
that it came from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import TruthRecord

Origins = Mapping[int, Sequence[tuple[int, str]]]


class Mirroring(NamedTuple):
    """What stands in a log, as offsets.

    Args:
        copied: the first copies of records of the other cluster.
        looped: copies of records that were written on this very cluster, and on no other.
        copied_again: copies of records that were here before the other cluster's next period.
        late: first copies that stand behind records of a later period: nobody should have copied them any more.
        repeats: second copies within the period in which their records were written, as MirrorMaker 2 makes them when
            it was killed.
        unknown: records of which nobody was told.
    """

    copied: list[int]
    looped: list[int]
    copied_again: list[int]
    late: list[int]
    repeats: list[int]
    unknown: list[int]


def origins_of(written: Iterable[tuple[int, str, TruthRecord]]) -> dict[int, list[tuple[int, str]]]:
    """Return period and cluster of every record by content, one entry for each time that it was written."""
    origins: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for period, cluster, record in written:
        origins[record.digest].append((period, cluster))
    return origins


def mirroring_of(
    log: Sequence[tuple[int, int]], here: str, origins: Origins, repeated: Mapping[int, int] | None = None
) -> Mirroring:
    """Say what stands in a log.

    Args:
        log: offsets and contents, without replays.
        here: the cluster that has it.
        origins: where every content was written, and when.
        repeated: how often a content may stand in it where that is more often than it was written: the log was copied
            whole from one with repeats.
    """
    found = Mirroring([], [], [], [], [], [])
    seen: Counter[int] = Counter()
    reached = -1
    for offset, digest in log:
        written = origins.get(digest, ())
        seen[digest] += 1
        # What was written in several periods alike tells no period.
        period = written[0][0] if written and all(one[0] == written[0][0] for one in written) else None
        late = period is not None and period < reached
        reached = reached if period is None else max(reached, period)
        at_home = here in {cluster for _, cluster in written}
        extra = seen[digest] > max(len(written), (repeated or {}).get(digest, 0))
        # Of what was written on both, an extra one may be a copy of the other cluster's.
        only_here = at_home and len({cluster for _, cluster in written}) == 1
        kind = _kind(bool(written), at_home, only_here, late, extra, seen[digest])
        if kind:
            getattr(found, kind).append(offset)
    return found


def _kind(known: bool, at_home: bool, only_here: bool, late: bool, extra: bool, seen: int) -> str | None:
    if not known:
        return "unknown" if seen == 1 else "repeats"
    if not extra:
        return "late" if late else (None if at_home else "copied")
    if only_here:
        return "looped"
    return "copied_again" if late else "repeats"
