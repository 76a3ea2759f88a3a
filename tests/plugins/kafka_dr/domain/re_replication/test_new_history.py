"""Syncs that make MirrorMaker 2 forget the older copies, judged by a model of what it keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync
from kafka_dr.domain.mirror_maker.offset_sync_store import OffsetSyncStore
from kafka_dr.domain.re_replication.new_history import ComparedPartition, syncs_of_new_copies

TP = TopicPartition("orders", 3)


def sync(upstream: int, downstream: int) -> OffsetSync:
    """Return a sync of the partition."""
    return OffsetSync(*TP, upstream, downstream)


def test_without_a_sync_none_is_written() -> None:
    """MirrorMaker 2 knows nothing of the older copies."""
    assert list(syncs_of_new_copies(ComparedPartition(TP, (0, 0), (9, 9), 10, 0), None)) == []


def test_first_and_last_copy() -> None:
    """The first one is below the newest sync, so that all are dropped; the last one places groups at the end."""
    pair = ComparedPartition(TP, (5, 0), (9, 4), 10, 0)
    assert list(syncs_of_new_copies(pair, sync(9, 9))) == [sync(5, 0), sync(9, 4)]


def test_a_newest_sync_below_the_first_copy() -> None:
    """A sync above the first copy comes first: only a sync below the newest one drops the older ones."""
    two = ComparedPartition(TP, (500, 0), (502, 1), 503, 0)
    assert list(syncs_of_new_copies(two, sync(499, 499))) == [sync(502, 1), sync(500, 0), sync(502, 1)]
    pair = ComparedPartition(TP, (500, 0), (500, 0), 501, 0)
    assert list(syncs_of_new_copies(pair, sync(500, 500))) == [sync(501, 1), sync(500, 0)]


old_syncs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 90)), min_size=1, max_size=8)


@given(old_syncs, st.integers(0, 40), st.integers(0, 20), st.integers(0, 10))
def test_no_group_is_placed_by_an_older_copy(old: list[tuple[int, int]], start: int, count: int, begins: int) -> None:
    """Whatever was synced before: each position is translated to a new copy at or below its own, or not at all."""
    last = (start + count - 1, begins + count - 1)
    pair = ComparedPartition(TP, (start, begins) if count else None, last if count else None, start + count, begins)
    store = OffsetSyncStore()
    for upstream, downstream in old:
        store.update(sync(upstream, downstream))
    for written in syncs_of_new_copies(pair, sync(*old[-1])):
        store.update(written)
    store.finish_loading()
    for position in range(start + count + 1):
        translated = store.translate(position)
        assert translated is None or translated < 0 or begins <= translated <= begins + max(0, position - start)
    assert store.translate(start + count) == begins + count
