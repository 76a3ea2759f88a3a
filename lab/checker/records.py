"""Find missing, repeated, foreign and changed records, by comparing acknowledged records with a cluster's logs.

A replay is a stranded record that the product wrote again; its header `switchback.origin` names the stranded record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import ABORTED, TruthRecord


class Held(NamedTuple):
    """One record as a consumer read it from a cluster.

    Args:
        offset: the record's offset on this cluster.
        digest: digest of key, value and headers (`content_digest`).
        key: digest of the key alone; 0 if the reader was not asked for the keys of this topic.
        tombstone: the record's value is null.
        origin: for a replay of a stranded record, the cluster, topic, partition and offset to which a client wrote the
            record, from the replay's header; else None.
        original: for a replay, the digest of the content without the headers that the replay added; else None.
    """

    offset: int
    digest: int
    key: int
    tombstone: bool
    origin: str | None = None
    original: int | None = None


def offset_contents(log: Iterable[Held]) -> list[tuple[int, int]]:
    """Return (offset, content digest) of each of a log's records, in the same order."""
    return [(record.offset, record.digest) for record in log]


def missing_records(acknowledged: Sequence[TruthRecord], target: Iterable[int]) -> list[TruthRecord]:
    """Return the acknowledged records that have no copy on the target; compared by content and number of copies.

    Args:
        acknowledged: committed records in offset order.
        target: digests of all records that a consumer of the target gets.

    Returns:
        The missing records; of n identical records with m copies, the first n - m are missing.
    """
    # From the end, so that the first of identical records count as missing.
    copies = Counter(target)
    missing = []
    for record in reversed(acknowledged):
        if copies[record.digest] > 0:
            copies[record.digest] -= 1
        else:
            missing.append(record)
    return missing[::-1]


def stale_keys(acknowledged: Sequence[TruthRecord], target: Sequence[Held]) -> list[TruthRecord]:
    """Return, per key of a compacted topic, the latest acknowledged record if the target's latest is another.

    If the target has no record of a key, the key's latest acknowledged record is returned unless it is a tombstone.
    """
    # In both mappings later records overwrite earlier ones: the latest record of each key remains.
    target_latest = {target_record.key: target_record for target_record in target}
    stale = []
    for record in {record.key: record for record in acknowledged}.values():
        target_record = target_latest.get(record.key)
        may_be_compacted_away = target_record is None and record.tombstone
        if not may_be_compacted_away and (target_record is None or target_record.digest != record.digest):
            stale.append(record)
    return sorted(stale)


def count_repeats(known: Iterable[int], target: Iterable[int]) -> int:
    """Return how many more copies the target has than the source has records of equal content.

    Contents that were never on the source are not counted.

    Args:
        known: content digests of all records that were ever on the source.
        target: content digests of the target's records.
    """
    source_counts = Counter(known)
    return sum(
        count - source_counts[digest] for digest, count in Counter(target).items() if 0 < source_counts[digest] < count
    )


def foreign_records(known: Iterable[int], target: Sequence[Held]) -> list[Held]:
    """Return the target's records whose content was never in the source's log.

    Args:
        known: content digests of all records that were ever on the source.
        target: the target's records.
    """
    source_digests = set(known)
    return [record for record in target if record.digest not in source_digests]


def aborted_visible(records: Sequence[TruthRecord], target: Iterable[int]) -> int:
    """Return the number of target records with the content of a record written in an aborted transaction."""
    aborted = {record.digest for record in records if record.state == ABORTED}
    return sum(1 for digest in target if digest in aborted)


def merge_known(*logs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return several readings of one log as one list of (offset, digest) in offset order.

    If the readings have different digests at an offset, the digest of the last argument counts.
    """
    merged: dict[int, int] = {}
    for log in logs:
        merged.update(log)
    return sorted(merged.items())


def changed_offsets(acknowledged: Iterable[tuple[int, int]], source: Iterable[tuple[int, int]]) -> list[int]:
    """Return the acknowledged offsets at which the source now has a record of another content."""
    source_digests = dict(source)
    return [offset for offset, digest in acknowledged if source_digests.get(offset, digest) != digest]
