"""Classify the records of one log: copies, repeats, late records, records mirrored back to their own cluster.

Clients write to one cluster at a time, so the records of a correct log are ordered by period (the time between two
client moves). A flow that begins at the right offset copies no record of an earlier period, and no record back to the
cluster on which clients wrote it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import TruthRecord

Origins = Mapping[int, Sequence[tuple[int, str]]]


class Mirroring(NamedTuple):
    """Offsets of one log's records by kind; each record has one kind at most.

    If clients wrote a content n times, the log's first n records of this content are regular, and all later ones are
    extra. A record is too late if it follows a record of a later period.

    Args:
        copied: regular records, not too late, whose content clients wrote on the other cluster only.
        looped: extra records whose content clients wrote on this log's cluster only.
        copied_again: extra records that are too late, and whose content clients wrote on the other cluster or on both.
        late: regular records that are too late: a flow mirrored them wrongly.
        repeats: extra records that are neither looped nor too late, as MirrorMaker 2 writes them after a kill.
        unknown: records that no client logged as written, for example because their acknowledgement was lost; a second
            record of the same content counts as a repeat.
    """

    copied: list[int]
    looped: list[int]
    copied_again: list[int]
    late: list[int]
    repeats: list[int]
    unknown: list[int]


def origins_of(written: Iterable[tuple[int, str, TruthRecord]]) -> dict[int, list[tuple[int, str]]]:
    """Return, by content digest, (period, cluster) of every record that clients wrote with this content."""
    origins: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for period, cluster, record in written:
        origins[record.digest].append((period, cluster))
    return origins


def mirroring_of(
    log: Sequence[tuple[int, int]], here: str, origins: Origins, repeated: Mapping[int, int] | None = None
) -> Mirroring:
    """Return the offsets of a log's records by kind.

    A regular record that is not too late has no kind if clients wrote its content on this log's cluster.

    Args:
        log: (offset, digest) of the log's records, without replays of stranded records.
        here: alias of the log's cluster.
        origins: the result of `origins_of`.
        repeated: for a log whose topic was recreated as a copy: how often the original log has each content, by digest.
            That many records of a content are regular, because the original log's repeats were copied, too. None for
            other logs.
    """
    mirroring = Mirroring([], [], [], [], [], [])
    counts: Counter[int] = Counter()
    latest_period = -1
    for offset, digest in log:
        written = origins.get(digest, ())
        counts[digest] += 1
        # A content that clients wrote in several periods does not show the period of this record.
        period = written[0][0] if written and all(write[0] == written[0][0] for write in written) else None
        is_late = period is not None and period < latest_period
        latest_period = latest_period if period is None else max(latest_period, period)
        written_here = here in {cluster for _, cluster in written}
        is_extra = counts[digest] > max(len(written), (repeated or {}).get(digest, 0))
        # If clients wrote the content on both clusters, an extra record may come from the other cluster.
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
