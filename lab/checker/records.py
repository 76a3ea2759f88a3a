"""Whether every acknowledged record is on the target, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import ABORTED, TruthRecord


class Held(NamedTuple):
    """One record as a consumer read it from a cluster.

    Args:
        origin: of a replay, where the record was first written, from the replay's header; None for other records.
        original: of a replay, the digest of the content without the headers that the replay added; else None.
    """

    offset: int
    digest: int
    key: int
    tombstone: bool
    origin: str | None = None
    original: int | None = None


def offset_contents(log: Iterable[Held]) -> list[tuple[int, int]]:
    """Return a log's offsets and content digests."""
    return [(record.offset, record.digest) for record in log]


def missing_records(acknowledged: Sequence[TruthRecord], target: Iterable[int]) -> list[TruthRecord]:
    """Return the acknowledged records that have no copy on the target, by content and count.

    Args:
        acknowledged: committed records in offset order.
        target: digests of all records that a consumer of the target gets.

    Returns:
        The missing records; of n identical records with m copies, the first n - m are missing.
    """
    # From the end, so that the oldest of identical records count as missing.
    copies = Counter(target)
    missing = []
    for record in reversed(acknowledged):
        if copies[record.digest] > 0:
            copies[record.digest] -= 1
        else:
            missing.append(record)
    return missing[::-1]


def stale_keys(acknowledged: Sequence[TruthRecord], target: Sequence[Held]) -> list[TruthRecord]:
    """Return each key's latest acknowledged record that is not the key's latest on the target (compacted topics).

    A key whose latest record is a tombstone may be absent from the target.
    """
    # Later entries overwrite earlier entries in both mappings: the latest record of each key remains.
    target_latest = {target_record.key: target_record for target_record in target}
    stale = []
    for record in {record.key: record for record in acknowledged}.values():
        target_record = target_latest.get(record.key)
        may_be_compacted_away = target_record is None and record.tombstone
        if not may_be_compacted_away and (target_record is None or target_record.digest != record.digest):
            stale.append(record)
    return sorted(stale)


def count_repeats(known: Iterable[int], target: Iterable[int]) -> int:
    """Count the target's copies in excess of the source's records; foreign records are not repeats."""
    source_counts = Counter(known)
    return sum(
        count - source_counts[digest] for digest, count in Counter(target).items() if 0 < source_counts[digest] < count
    )


def foreign_records(known: Iterable[int], target: Sequence[Held]) -> list[Held]:
    """Return the target's records that were never in the source's log."""
    source_digests = set(known)
    return [record for record in target if record.digest not in source_digests]


def aborted_visible(records: Sequence[TruthRecord], target: Iterable[int]) -> int:
    """Count the copies of aborted records on the target."""
    aborted = {record.digest for record in records if record.state == ABORTED}
    return sum(1 for digest in target if digest in aborted)


def merge_known(*logs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge logs into one list of (offset, digest), in offset order."""
    merged: dict[int, int] = {}
    for log in logs:
        merged.update(log)
    return sorted(merged.items())


def changed_offsets(acknowledged: Iterable[tuple[int, int]], source: Iterable[tuple[int, int]]) -> list[int]:
    """Return the offsets where the source's content differs from the acknowledged content."""
    source_digests = dict(source)
    return [offset for offset, digest in acknowledged if source_digests.get(offset, digest) != digest]
