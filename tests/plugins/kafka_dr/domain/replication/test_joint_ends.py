"""Log ends that belong together: the target below the one has all records below the other, and no later one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.replication.joint_ends import GrowingView, JointEnds, joint_ends_of, why_no_joint_ends

PLACE = TopicPartition("orders", 0)


def view(replicated: int | None = 3, last: str | None = "e", newest: str = "def") -> GrowingView:
    """A source log abcdef, of which d and what follows is new, and of which the target has all up to record `last`."""
    rows = [(3 + number, content) for number, content in enumerate(newest)]
    return GrowingView(PLACE, replicated, last, 9, rows)


def test_the_last_copy_tells_which_source_records_are_below_it() -> None:
    """Record e at offset 4 is the target's last one; what follows on the source is copied from the target's end on."""
    assert joint_ends_of(view()) == JointEnds(5, 9)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (view(replicated=None), "stored offset is None, needed is 3"),
        (view(replicated=2), "stored offset is 2, needed is 3"),
        (view(last="c"), "0 of the source's newest records equal"),
        (view(last=None), "0 of the source's newest records equal"),
        (view(newest="dee"), "2 of the source's newest records equal"),
    ],
    ids=["nothing stored", "stored below", "last copy is older", "empty target", "content recurs"],
)
def test_what_is_not_proven_is_waited_for(seen: GrowingView, why: str) -> None:
    """A record that recurs may be the copy of either."""
    assert joint_ends_of(seen) is None and why in why_no_joint_ends(seen)


@settings(max_examples=500)
@given(data=st.data(), contents=st.text(alphabet="abc", min_size=1, max_size=8))
def test_a_group_placed_by_them_skips_nothing(data: st.DataObject, contents: str) -> None:
    """Whatever recurs, and however often MirrorMaker 2 was restarted: all below s is below t, all later comes after."""
    copied: list[int] = []
    stored = 0
    for _ in range(data.draw(st.integers(1, 3), label="runs of MirrorMaker 2")):
        end = data.draw(st.integers(stored, len(contents)), label="copied to")
        copied += range(stored, end)
        stored = data.draw(st.integers(stored, end), label="stored")
    needed = data.draw(st.integers(0, len(contents) - 1), label="needed")
    newest = [(offset, contents[offset]) for offset in range(needed, len(contents))]
    last = contents[copied[-1]] if copied else None
    ends = joint_ends_of(GrowingView(PLACE, stored - 1 if stored else None, last, len(copied), newest))
    if ends is not None:
        assert ends == (copied[-1] + 1, len(copied)) and ends.source > needed
        assert set(range(ends.source)) <= set(copied)
