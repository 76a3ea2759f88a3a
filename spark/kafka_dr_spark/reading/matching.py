"""Match source records with their copies on the target, counting the occurrences of each content from the end.

Invariants:

1. The c-th last occurrence of a content in the source's range is matched with its c-th last occurrence in the target's
   range. So the target records from the smallest matched offset on contain, as a multiset, all matched source records,
   whichever contents recur.
2. For a unique content the matched copy is the last copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from kafka_dr_spark.contract.columns import Hashes, Ints, Mask

ABSENT = np.iinfo(np.int64).max


class Records(NamedTuple):
    """Offsets and fingerprints of one partition's records, in offset order, without keys and values.

    Attributes:
        offsets: int64, strictly increasing.
        high: uint64, first half of the content's fingerprint.
        low: uint64, second half.
        key: uint64, fingerprint of the key alone; 0 if not requested.
        tombstone: bool, whether the value is null; False if key fingerprints were not requested.
    """

    offsets: Ints
    high: Hashes
    low: Hashes
    key: Hashes
    tombstone: Mask

    def between(self, start: int, end: int) -> Records:
        """Return the records with ``start <= offset < end``."""
        first, last = np.searchsorted(self.offsets, [start, end])
        return Records._make(column[first:last] for column in self)

    def where(self, mask: Mask) -> Records:
        """Return the records for which a mask, one element per record, is True."""
        return Records._make(column[mask] for column in self)

    def size(self) -> int:
        """Return the number of records."""
        return len(self.offsets)

    def same_content(self, offset: int, other: Records, other_offset: int) -> bool | None:
        """Return whether two records have equal content; None if either record is absent."""
        mine, theirs = self.between(offset, offset + 1), other.between(other_offset, other_offset + 1)
        if not mine.size() or not theirs.size():
            return None
        return bool(mine.high[0] == theirs.high[0] and mine.low[0] == theirs.low[0])


def no_records() -> Records:
    """Return an empty set of records."""
    return Records._make(np.empty(0, dtype) for dtype in (np.int64, np.uint64, np.uint64, np.uint64, np.bool_))


def join_records(parts: list[Records]) -> Records:
    """Return the records of all parts together; the parts are of one partition, in offset order."""
    return Records._make(np.concatenate(columns) for columns in zip(no_records(), *parts))


def content_codes(records: Records) -> Ints:
    """Return one number per record, the same for records of equal content; numbered by first occurrence."""
    # Each half is numbered first: a pair of numbers then fits one int64, and no byte strings need hashing.
    high, low = pd.factorize(records.high)[0], pd.factorize(records.low)[0]
    return pd.factorize(high.astype(np.int64) * (len(records.low) + 1) + low)[0].astype(np.int64)


def occurrence_from_end(codes: Ints) -> Ints:
    """Return for each element how many equal elements follow it: 0 for the last occurrence."""
    backwards = codes[::-1]
    order = np.argsort(backwards, kind="stable")
    grouped = backwards[order]
    first = np.ones(len(codes), np.bool_)
    first[1:] = grouped[1:] != grouped[:-1]
    index = np.arange(len(codes))
    counts = np.empty(len(codes), np.int64)
    counts[order] = index - np.maximum.accumulate(np.where(first, index, 0))
    return counts[::-1]


def match_from_end(source: Records, target: Records) -> Ints:
    """Return for each source record the target offset of its match (invariant 1); ABSENT without a match."""
    codes = content_codes(join_records([source, target]))
    return match_codes_from_end(codes[: source.size()], codes[source.size() :], target.offsets)


def match_codes_from_end(ours: Ints, theirs: Ints, offsets: Ints) -> Ints:
    """Return for each record of one log the offset of its match in the other log; ABSENT without a match.

    Args:
        ours: contents of the first log's records as numbers (`content_codes`), in offset order.
        theirs: contents of the other log's records as numbers, in offset order.
        offsets: offsets of the other log's records.
    """
    width = max(int(np.max(ours, initial=0)), int(np.max(theirs, initial=0)), len(ours), len(theirs)) + 1
    our_keys = ours * width + occurrence_from_end(ours)
    their_keys = theirs * width + occurrence_from_end(theirs)
    order = np.argsort(their_keys)
    ranks = np.searchsorted(their_keys[order], our_keys)
    matched = np.full(len(our_keys), ABSENT, np.int64)
    inside = np.flatnonzero(ranks < len(order))
    matched_rows = inside[their_keys[order[ranks[inside]]] == our_keys[inside]]
    matched[matched_rows] = offsets[order[ranks[matched_rows]]]
    return matched


def first_copies(source: Records, matched: Ints, positions: Ints) -> Ints:
    """Return per position the smallest target offset that matches a source record at or above the position.

    ABSENT if no such record has a match.

    Args:
        source: source records.
        matched: per source record the target offset of its match.
        positions: source positions.
    """
    smallest = np.append(np.minimum.accumulate(matched[::-1])[::-1], ABSENT)
    return smallest[np.searchsorted(source.offsets, positions)]


def last_of_key(records: Records) -> Mask:
    """Return a mask of the records after which no record has the same key."""
    last: Mask = occurrence_from_end(pd.factorize(records.key)[0].astype(np.int64)) == 0
    return last
