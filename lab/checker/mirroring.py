"""What replication did to one log: repeated records, records mirrored back to their origin, late records.

Clients write to one cluster at a time, so a correct log is ordered by period. A flow with the right start offset copies
no record of an earlier period, and no record back to the cluster that the record was written on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import TruthRecord

Origins = Mapping[int, Sequence[tuple[int, str]]]


class Mirroring(NamedTuple):
    """Records of a log by kind, as offsets.

    Args:
        copied: first copies of the other cluster's records.
        looped: extra copies of records that were written on this cluster only.
        copied_again: extra copies behind records of a later period.
        late: first copies behind records of a later period; the flow should not have copied these records.
        repeats: extra copies within the period of their records, as MirrorMaker 2 writes them after a kill.
        unknown: unacknowledged records.
    """

    copied: list[int]
    looped: list[int]
    copied_again: list[int]
    late: list[int]
    repeats: list[int]
    unknown: list[int]


def origins_of(written: Iterable[tuple[int, str, TruthRecord]]) -> dict[int, list[tuple[int, str]]]:
    """Return (period, cluster) of every write of each content, by digest."""
    origins: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for period, cluster, record in written:
        origins[record.digest].append((period, cluster))
    return origins


def mirroring_of(
    log: Sequence[tuple[int, int]], here: str, origins: Origins, repeated: Mapping[int, int] | None = None
) -> Mirroring:
    """Classify the records of a log.

    Args:
        log: (offset, digest) of its records, without replays.
        here: alias of the log's cluster.
        origins: (period, cluster) of every write, by digest.
        repeated: allowed count by digest if higher than the number of writes: the log is a full copy of a log with
            repeats.
    """
    mirroring = Mirroring([], [], [], [], [], [])
    counts: Counter[int] = Counter()
    latest_period = -1
    for offset, digest in log:
        written = origins.get(digest, ())
        counts[digest] += 1
        # A content written in several periods does not identify a period.
        period = written[0][0] if written and all(write[0] == written[0][0] for write in written) else None
        is_late = period is not None and period < latest_period
        latest_period = latest_period if period is None else max(latest_period, period)
        written_here = here in {cluster for _, cluster in written}
        is_extra = counts[digest] > max(len(written), (repeated or {}).get(digest, 0))
        # An extra copy of a content written on both clusters may be a copy of the other cluster's record.
        written_only_here = written_here and len({cluster for _, cluster in written}) == 1
        kind = _classify_record(bool(written), written_here, written_only_here, is_late, is_extra, counts[digest])
        if kind:
            getattr(mirroring, kind).append(offset)
    return mirroring


def _classify_record(
    is_known: bool, written_here: bool, written_only_here: bool, is_late: bool, is_extra: bool, count: int
) -> str | None:
    if not is_known:
        return "unknown" if count == 1 else "repeats"
    if not is_extra:
        return "late" if is_late else (None if written_here else "copied")
    if written_only_here:
        return "looped"
    return "copied_again" if is_late else "repeats"
