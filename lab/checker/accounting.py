"""Whether every acknowledged record is where clients are in the end, in an export, or in the quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.checker.records import Held, missing_records
from lab.workload.ground_truth import TruthRecord


class Owed(NamedTuple):
    """One acknowledged record.

    Args:
        period: in which it was written.
        cluster: that acknowledged it.
        in_place: its offset on that cluster counts still, for its log was never made anew.
    """

    period: int
    cluster: str
    record: TruthRecord
    in_place: bool


def origin_of(cluster: str, place: tuple[str, int], offset: int) -> str:
    """Return how a replay tells where its record was first written."""
    return f"{cluster}/{place[0]}/{place[1]}/{offset}"


def unaccounted_records(
    owed: Sequence[Owed],
    place: tuple[str, int],
    here: str,
    held: Sequence[Held],
    exported: set[int],
    elsewhere: Iterable[int],
) -> list[Owed]:
    """Return the records that are nowhere.

    A record that stands where it was written, was replayed, or is exported, as itself, vouches for no record that looks
    like it.

    Args:
        owed: in the order in which they were written.
        place: of the application's topic.
        here: the cluster where clients are in the end.
        held: what it holds of this topic and partition, in all logs.
        exported: indexes of those that are in an export.
        elsewhere: contents in the quarantine, and those in exports that are no record at its own place.
    """
    copies = Counter(one.digest for one in held if one.origin is None)
    own = {(one.offset, one.digest) for one in held if one.origin is None}
    replays = {(one.origin, one.original) for one in held if one.origin is not None}
    left = []
    for index, one in enumerate(owed):
        record = one.record
        if one.cluster == here and one.in_place and (record.offset, record.digest) in own and copies[record.digest] > 0:
            copies[record.digest] -= 1
        elif index not in exported and (origin_of(one.cluster, place, record.offset), record.digest) not in replays:
            left.append(one)
    missing = set(map(id, missing_records([one.record for one in left], [*copies.elements(), *elsewhere])))
    return [one for one in left if id(one.record) in missing]


def stale_keys(owed: Sequence[Owed], held: Sequence[Held], exported: set[int]) -> list[Owed]:
    """Return the latest record of each key that is not the key's latest in the end, nor in an export.

    Where the latest ones of a key were exported, the one before them may stand for it.

    Args:
        owed: in the order in which they were written; a compacted topic's.
        held: one log, in offset order.
        exported: indexes of those that are in an export.
    """
    latest = {one.key: one for one in held}
    by_key: dict[int, list[int]] = {}
    for index, one in enumerate(owed):
        by_key.setdefault(one.record.key, []).append(index)
    return [
        owed[found]
        for key, indexes in by_key.items()
        if (found := _stale(owed, indexes, latest.get(key), exported)) is not None
    ]


def _stale(owed: Sequence[Owed], indexes: Sequence[int], held: Held | None, exported: set[int]) -> int | None:
    for index in reversed(indexes):
        record = owed[index].record
        if (held is None and record.tombstone) or (held is not None and record.digest in (held.digest, held.original)):
            return None
        if index not in exported:
            return index
    return None


def twice_replayed(held: Iterable[Held]) -> dict[str, int]:
    """Return the origins that a log holds more than one replay of, with their number."""
    return {
        origin: count
        for origin, count in Counter(one.origin for one in held if one.origin is not None).items()
        if count > 1
    }


def replayed_wrongly(held: Iterable[Held], written: Mapping[str, int]) -> list[Held]:
    """Return the replays that are not the record, by its content, that was written where they say they come from."""
    return [one for one in held if one.origin is not None and written.get(one.origin) != one.original]
