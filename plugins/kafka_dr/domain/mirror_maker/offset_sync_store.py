"""MirrorMaker 2's own use of offset syncs: which syncs it stores, and how these syncs translate a position."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync

SLOTS = 64
AHEAD_OF_ALL = -1

# MirrorMaker 2's distances by slot. Java's sums wrap, and Java's `1L << 63` is negative: for the last slot the sum is
# upstream + 2^62. In all other slots a wrapped bound counts as met for recency and as not met for separation: Python's
# unbounded sums give the same.
_RECENT_WITHIN = [0, *(1 << slot - 1 for slot in range(1, SLOTS))]
_SEPARATED_BY = [1 << max(slot - 2, 0) for slot in range(SLOTS)]


class OffsetSyncStore:
    """MirrorMaker 2's memory of one partition's offset syncs: 64 slots, the sparser the older the syncs are.

    About one sync is stored per power of two of distance from the newest sync. The store translates positions as
    MirrorMaker 2 would: never above the true position, but not exactly.

    Args:
        must_read_to_end: if True, only the last of all syncs read before `finish_loading` is stored, as MirrorMaker 2
            does if it could not load its checkpoints at its start.
    """

    def __init__(self, must_read_to_end: bool = False) -> None:
        self._slots: list[OffsetSync] = []
        self._keep_latest_only = must_read_to_end
        self._loading = True

    def update(self, sync: OffsetSync) -> None:
        """Take the next sync of this partition, in the order of the offset-syncs topic."""
        rewound = bool(self._slots) and sync.upstream < self._slots[0].upstream
        if not self._slots or rewound or (self._loading and self._keep_latest_only):
            self._slots = [sync] * SLOTS
        else:
            self._slots = _with_newest(self._slots, sync)

    def finish_loading(self) -> None:
        """End loading: the offset-syncs topic was read to its end. Before this call no position is translated."""
        self._loading = False

    def translate(self, upstream: int) -> int | None:
        """Return the target position to which MirrorMaker 2 translates a group's source position.

        Returns:
            None without any sync, or while loading; `AHEAD_OF_ALL` if every stored sync lies above the position. In
            both cases MirrorMaker 2 writes no checkpoint. Else a target position at or below the true position.
        """
        if self._loading or not self._slots:
            return None
        sync = next((kept for kept in self._slots if kept.upstream <= upstream), None)
        if sync is None:
            return AHEAD_OF_ALL
        return sync.downstream + (sync.upstream < upstream)

    def stored_syncs(self) -> list[OffsetSync]:
        """Return the syncs in the slots, each once, newest first."""
        return list({id(sync): sync for sync in self._slots}.values())


def translate_as_mirror_maker(syncs: Iterable[OffsetSync], upstream: int, must_read_to_end: bool = False) -> int | None:
    """Return the target position to which a just started MirrorMaker 2 translates a source position.

    None without any sync; `AHEAD_OF_ALL` if every sync that MirrorMaker 2 stores lies above the position.

    Args:
        syncs: one partition's offset syncs, in the order of the offset-syncs topic.
        must_read_to_end: whether that MirrorMaker 2 could not load its checkpoints; then only the last sync counts.
    """
    store = OffsetSyncStore(must_read_to_end)
    for sync in syncs:
        store.update(sync)
    store.finish_loading()
    return store.translate(upstream)


def _with_newest(old: list[OffsetSync], newest: OffsetSync) -> list[OffsetSync]:
    slots, replacement, candidate = old.copy(), newest, 0
    slots[0] = newest
    for current in range(1, SLOTS):
        previous, skip = current - 1, True
        while skip and candidate < current:
            value = old[candidate]
            separated = _is_separated(slots[previous], value, previous)
            promote = (
                separated
                and _is_recent(slots[previous], value, current)
                and (current + 1 >= SLOTS or _is_separated(value, slots[current + 1], current))
            )
            replacement = value if promote else replacement
            skip = not separated or value is old[candidate + 1]
            candidate += promote or skip
        if _is_recent(slots[previous], slots[current], current):
            break
        slots[current] = replacement
    return slots


def _is_recent(newer: OffsetSync, older: OffsetSync, slot: int) -> bool:
    return newer is older or newer.upstream <= older.upstream + _RECENT_WITHIN[slot]


def _is_separated(newer: OffsetSync, older: OffsetSync, slot: int) -> bool:
    return newer is older or newer.upstream >= older.upstream + _SEPARATED_BY[slot]
