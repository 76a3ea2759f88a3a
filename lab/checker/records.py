"""Whether every acknowledged record is on the target, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.workload.ground_truth import ABORTED, TruthRecord


class Held(NamedTuple):
    """One record as a reader of a cluster saw it.

    Args:
        origin: of a replay, where the record was first written, as its header says; None for every other record.
        original: of a replay, the content without what the replay added.
    """

    offset: int
    digest: int
    key: int
    tombstone: bool
    origin: str | None = None
    original: int | None = None


def offset_contents(log: Iterable[Held]) -> list[tuple[int, int]]:
    """Return a log's offsets and contents."""
    return [(held.offset, held.digest) for held in log]


def missing_records(acknowledged: Sequence[TruthRecord], target: Iterable[int]) -> list[TruthRecord]:
    """Return the acknowledged records without a copy on the target, by content and count.

    Args:
        acknowledged: committed records in offset order.
        target: digests of everything a reader of the target gets.

    Returns:
        The missing records; of n identical records with m copies, the first n - m.
    """
    # From the end, so that of identical records it is the oldest that count as missing.
    copies = Counter(target)
    missing = []
    for record in reversed(acknowledged):
        if copies[record.digest] > 0:
            copies[record.digest] -= 1
        else:
            missing.append(record)
    return missing[::-1]


def stale_keys(acknowledged: Sequence[TruthRecord], target: Sequence[Held]) -> list[TruthRecord]:
    """Return the latest acknowledged records of keys that the target holds another latest of (compacted topics).

    A key whose latest record is a tombstone may be absent from the target altogether.
    """
    # Later entries overwrite earlier ones in both mappings: what is left is the latest of each key.
    latest_there = {held.key: held for held in target}
    stale = []
    for record in {record.key: record for record in acknowledged}.values():
        held = latest_there.get(record.key)
        gone_for_good = held is None and record.tombstone
        if not gone_for_good and (held is None or held.digest != record.digest):
            stale.append(record)
    return sorted(stale)


def count_repeats(known: Iterable[int], target: Iterable[int]) -> int:
    """Count the copies on the target beyond those that the source ever held; strangers are not repeats."""
    held = Counter(known)
    return sum(count - held[digest] for digest, count in Counter(target).items() if 0 < held[digest] < count)


def foreign_records(known: Iterable[int], target: Sequence[Held]) -> list[Held]:
    """Return the target's records that the source never held."""
    ours = set(known)
    return [held for held in target if held.digest not in ours]


def aborted_visible(records: Sequence[TruthRecord], target: Iterable[int]) -> int:
    """Count the copies of aborted records on the target."""
    aborted = {record.digest for record in records if record.state == ABORTED}
    return sum(1 for digest in target if digest in aborted)


def merge_known(*logs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return one log holding every (offset, digest) of all logs, in offset order."""
    merged: dict[int, int] = {}
    for log in logs:
        merged.update(log)
    return sorted(merged.items())


def changed_offsets(acknowledged: Iterable[tuple[int, int]], source: Iterable[tuple[int, int]]) -> list[int]:
    """Return the offsets at which the source holds another content than what was acknowledged there."""
    held = dict(source)
    return [offset for offset, digest in acknowledged if held.get(offset, digest) != digest]
