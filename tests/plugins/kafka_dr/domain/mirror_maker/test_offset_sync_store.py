"""The twin of MirrorMaker 2's offset sync store, against the figures of its own tests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync
from kafka_dr.domain.mirror_maker.offset_sync_store import SLOTS, OffsetSyncStore, translate_as_mirror_maker


def sync(upstream: int, downstream: int | None = None) -> OffsetSync:
    """A sync of the one partition; downstream equals upstream unless given."""
    return OffsetSync("topic", 0, upstream, upstream if downstream is None else downstream)


def store_of(loaded: Iterable[int], streamed: Iterable[int] = (), strict: bool = False) -> OffsetSyncStore:
    """A store that loaded some syncs at its start and saw others later."""
    store = OffsetSyncStore(must_read_to_end=strict)
    for upstream in loaded:
        store.update(sync(upstream))
    store.finish_loading()
    for upstream in streamed:
        store.update(sync(upstream))
    return store


def assert_sparse(store: OffsetSyncStore, upstream: int, previous: int) -> None:
    """`upstream` is kept, and the kept one before it is `previous` (-1: none)."""
    before = -1 if previous == -1 else previous + 1
    found = [store.translate(upstream + step) for step in (-1, 0, 1, 2)]
    assert found == [before, upstream, upstream + 1, upstream + 1]


def test_translation_while_syncs_arrive() -> None:
    """Exact on a sync, one past it behind it, refused before all; a rewind or a truncated target starts anew."""
    store = OffsetSyncStore(must_read_to_end=True)
    store.finish_loading()
    answers = []
    for step, asked in (((100, 200), 150), ((150, 251), 150), ((200, 10), 200), ((20, 20), 20)):
        store.update(sync(*step))
        answers.append(store.translate(asked))
    assert answers == [201, 251, 10, 20]


def test_position_before_all_syncs_is_ahead() -> None:
    """A position below every kept sync has no translation."""
    store = OffsetSyncStore()
    store.finish_loading()
    store.update(sync(100, 200))
    store.update(sync(150, 251))
    assert store.translate(5) == -1


def test_nothing_is_translated_before_the_end_was_read() -> None:
    """While the topic is being loaded there is no answer; after it there is."""
    store = OffsetSyncStore(must_read_to_end=True)
    assert store.translate(0) is None
    store.update(sync(100, 200))
    assert [store.translate(upstream) for upstream in (0, 100, 200)] == [None, None, None]
    store.finish_loading()
    assert [store.translate(upstream) for upstream in (0, 100, 200)] == [-1, 200, 201]


def test_no_translation_without_syncs() -> None:
    """A partition without any sync has no answer, which is not the same as lying before all syncs."""
    assert translate_as_mirror_maker([], 0) is None
    assert translate_as_mirror_maker([sync(5)], 0) == -1


def test_strict_mode_keeps_only_the_last_loaded_sync() -> None:
    """Strict mode forgets history from before the start; later syncs thin out as MirrorMaker 2 thins them."""
    assert_sparse(store_of(range(0, 1001, 10), strict=True), 1000, -1)
    store = store_of(range(0, 1001, 10), range(1010, 10001, 10), strict=True)
    kept = [1000, 4840, 6760, 8680, 9160, 9640, 9880, 9940, 9970, 9990, 10000]
    for previous, upstream in zip([-1, *kept], kept):
        assert_sparse(store, upstream, previous)
    assert [s.upstream for s in store.stored_syncs()] == kept[::-1]


def test_tolerant_mode_keeps_history() -> None:
    """In the usual mode history from before the start is kept, and an equal sync that comes again is no rewind."""
    loaded = store_of(range(0, 1001, 10))
    assert [s.upstream for s in loaded.stored_syncs()] == [1000, 990, 960, 900, 840, 720, 480, 0]
    assert_sparse(loaded, 480, 0)
    assert_sparse(loaded, 720, 480)
    assert_sparse(loaded, 1000, 990)
    store = store_of(range(0, 1001, 10), range(1000, 10001, 10))
    kept = [0, 3840, 7680, 8640, 9120, 9600, 9840, 9900, 9960, 9990, 10000]
    assert [s.upstream for s in store.stored_syncs()] == kept[::-1]
    for previous, upstream in itertools.pairwise(kept):
        assert_sparse(store, upstream, previous)


@pytest.mark.parametrize("strict", [True, False])
def test_rewind_forgets_everything(strict: bool) -> None:
    """A sync below the newest one wipes the history of the partition."""
    store = store_of(range(0, 1001, 10), range(1010, 10001, 10), strict)
    store.update(sync(1500, 11000))
    assert [store.translate(upstream) for upstream in (1499, 1500, 2000)] == [-1, 11000, 11001]


@pytest.mark.parametrize(
    ("syncs", "upstream", "expected"),
    [
        ([(3, 4)], 10, 5),
        ([(7, 8)], 12, 9),
        ([(7, 8)], 7, 8),
        ([(11, 4), (12, 5)], 13, 6),
        ([(11, 4), (12, 5), (13, 6), (14, 7), (15, 8), (16, 9), (17, 10)], 13, 5),
        ([(100, 100), (200, 200), (300, 300)], 250, 201),
        ([(175, 175), (275, 275), (375, 375), (475, 475)], 250, 176),
        ([(175, 175), (275, 275), (375, 375), (475, 475)], 370, 176),
        ([(175, 175), (275, 275), (375, 375), (475, 475)], 400, 376),
    ],
)
def test_checkpoint_vectors(syncs: list[tuple[int, int]], upstream: int, expected: int) -> None:
    """Syncs and positions of MirrorMaker 2's checkpoint tests give the checkpoints stated there."""
    assert translate_as_mirror_maker([sync(*pair) for pair in syncs], upstream) == expected


def test_steady_syncs_drop_at_most_one() -> None:
    """With evenly spaced syncs each update forgets at most one, keeps the newest, and keeps the first for ever."""
    for first in (0, 1, 29):
        for step in (1, 3, 7, 15, 31):
            assert_drops(range(first, first + 100 * step, step), 1, first)


@pytest.mark.parametrize("bits", [1, 4, 10])
def test_random_syncs_drop_few(bits: int) -> None:
    """With random gaps below 2^n each update forgets at most n + 2 syncs."""
    rng, at, upstreams = random.Random(bits), 0, []
    for _ in range(1024):
        at += rng.randrange(2**bits)
        upstreams.append(at)
    assert_drops(upstreams, bits + 2, upstreams[0])
    assert_drops([at + 2**16 for at in upstreams], bits + 2, upstreams[0] + 2**16)


def assert_drops(upstreams: Iterable[int], at_most: int, first: int) -> None:
    """Feeds the store and looks at what each update forgot."""
    store, count = OffsetSyncStore(), 0
    for upstream in upstreams:
        store.update(sync(upstream))
        kept = store.stored_syncs()
        assert len(kept) >= count + 1 - at_most and kept[0].upstream == upstream and kept[-1].upstream == first
        count = len(kept)


def java_long(number: int) -> int:
    """Wraps as a signed 64-bit number."""
    return (number + 2**63) % 2**64 - 2**63


def plain_update(old: list[OffsetSync], newest: OffsetSync) -> list[OffsetSync]:
    """The rules written out once more, with every sum wrapped; slow."""

    def recent(i_sync: OffsetSync, j_sync: OffsetSync, i: int, j: int) -> bool:
        bound = java_long(java_long(j_sync.upstream + java_long(1 << j)) - java_long(1 << i))
        return i_sync is j_sync or bound < 0 or i_sync.upstream <= bound

    def separated(i_sync: OffsetSync, j_sync: OffsetSync, i: int) -> bool:
        bound = java_long(j_sync.upstream + java_long(1 << max(i - 2, 0)))
        return i_sync is j_sync or (bound >= 0 and i_sync.upstream >= bound)

    new, replacement, index = list(old), newest, 0
    new[0] = newest
    for current in range(1, SLOTS):
        while True:
            value, previous, following = old[index], current - 1, current + 1
            apart = separated(new[previous], value, previous)
            promote = (
                recent(new[previous], value, previous, current)
                and apart
                and (following >= SLOTS or separated(value, new[following], current))
            )
            skip = value is old[index + 1] or not apart
            replacement = value if promote else replacement
            index += 1 if promote or skip else 0
            if not (index < current and skip):
                break
        if recent(new[current - 1], new[current], current - 1, current):
            break
        new[current] = replacement
    return new


STEPS = st.one_of(st.integers(0, 300), st.integers(0, 2**12), st.integers(0, 62).map(lambda power: 2**power))


@given(
    start=st.sampled_from([0, 2**30, 2**62 - 3000, 2**62, 2**63 - 2**20]),
    steps=st.lists(STEPS, min_size=1, max_size=100),
)
def test_slots_are_those_of_signed_64_bit_sums(start: int, steps: list[int]) -> None:
    """Over the whole range of numbers the slots are those of arithmetic that wraps at every sum."""
    store, plain, at = OffsetSyncStore(), [], start
    for step in steps:
        at = min(at + step, 2**63 - 1)
        store.update(sync(at))
        plain = plain_update(plain, sync(at)) if plain else [sync(at)] * SLOTS
        assert [kept.upstream for kept in store.stored_syncs()] == [
            kept.upstream for kept in {id(s): s for s in plain}.values()
        ]


def test_gaps_of_half_the_range_reach_the_last_slot() -> None:
    """Syncs so far apart that every slot is looked at are handled, the last slot included."""
    store, plain = OffsetSyncStore(), [sync(0)] * SLOTS
    store.update(sync(0))
    for upstream in (2**61, 2**62, 2**62 + 2**61, 2**62 + 2**61 + 1, 2**63 - 1):
        store.update(sync(upstream))
        plain = plain_update(plain, sync(upstream))
        assert [kept.upstream for kept in store.stored_syncs()] == [
            kept.upstream for kept in {id(s): s for s in plain}.values()
        ]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=80), st.integers(0, 50_000))
def test_never_ahead_of_the_truth(gaps: list[int], asked: int) -> None:
    """Where every record was mirrored one to one, the answer is never past the true position."""
    at, syncs = 0, []
    for gap in gaps:
        at += gap
        syncs.append(sync(at))
    answer = translate_as_mirror_maker(syncs, asked)
    assert (answer == -1 and asked < gaps[0]) or answer <= asked
