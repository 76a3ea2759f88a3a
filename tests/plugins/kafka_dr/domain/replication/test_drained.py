"""When a partition counts as drained, and when it must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.replication.drained import Proof, TailView, proof_of, why_not

TP = TopicPartition("orders", 3)
VIEW = TailView(TP, cut_off=100, source_last=(99, "z"), target_last="z", replicated=99)


def test_an_empty_partition_is_drained() -> None:
    """Nothing below the cut-off is nothing to replicate, whatever the target holds."""
    assert proof_of(replace(VIEW, source_last=None, target_last=None, replicated=None)) is Proof.EMPTY


def test_equal_tails_and_the_last_record_replicated() -> None:
    """Equal content at the tail and MirrorMaker 2's own statement together are a proof."""
    assert proof_of(VIEW) is Proof.REPLICATED


def test_markers_after_the_last_record_do_not_matter() -> None:
    """Invariant 1: the last record is at 90 though the log ends at 100; replicated up to 90 is enough."""
    assert proof_of(replace(VIEW, source_last=(90, "z"), replicated=90)) is Proof.REPLICATED


def test_identical_records_prove_nothing_alone() -> None:
    """Invariant 2: where contents recur an equal tail is no proof while MirrorMaker 2 is behind."""
    assert proof_of(replace(VIEW, replicated=98)) is None
    assert proof_of(replace(VIEW, replicated=None)) is None


def test_another_tail_is_never_a_proof() -> None:
    """MirrorMaker 2's statement without equal content is no proof, nor are counts."""
    assert proof_of(replace(VIEW, target_last="y")) is None
    assert proof_of(replace(VIEW, target_last=None)) is None
    assert proof_of(replace(VIEW, target_last="y", source_since=["z"], target_since=["z", "y"])) is None


def test_other_tails_may_stand_where_nobody_wrote() -> None:
    """Stranded records stay: behind them MirrorMaker 2 has nothing to copy, and reports the same."""
    quiet = replace(VIEW, target_last="stranded", shared=True)
    assert proof_of(quiet) is Proof.SHARED
    assert proof_of(replace(quiet, replicated=98)) is proof_of(replace(quiet, replicated=None)) is None
    assert proof_of(replace(quiet, replicated=100)) is None, "it speaks of another log"
    assert proof_of(replace(quiet, shared=False)) is None


def test_counts_since_a_proven_pair_are_a_proof() -> None:
    """All records since the pair on both sides, repeats allowed."""
    behind = replace(VIEW, replicated=50)
    assert proof_of(replace(behind, source_since=["a", "z"], target_since=["a", "z"])) is Proof.COUNTED
    assert proof_of(replace(behind, source_since=["a", "z"], target_since=["a", "a", "z"])) is Proof.COUNTED


def test_a_missing_copy_among_identical_records_is_seen() -> None:
    """Three equal records on the source and two on the target are not drained."""
    behind = replace(VIEW, replicated=50)
    assert proof_of(replace(behind, source_since=["z", "z", "z"], target_since=["z", "z"])) is None
    assert proof_of(replace(behind, source_since=["a", "z"], target_since=["z", "z"])) is None


def test_one_side_unread_is_no_count() -> None:
    """Counting needs both sides."""
    behind = replace(VIEW, replicated=50)
    assert proof_of(replace(behind, source_since=["z"])) is None
    assert proof_of(replace(behind, target_since=["z"])) is None


def test_a_replicated_offset_past_the_cut_off_is_no_proof() -> None:
    """MirrorMaker 2 cannot have replicated what lies past the cut-off: that statement is of another log."""
    assert proof_of(replace(VIEW, replicated=100)) is None
    assert proof_of(replace(VIEW, replicated=5_000)) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target_last": None}, "the target has no record"),
        ({"target_last": "y"}, "differs from the source's last record, at offset 99; MirrorMaker 2's stored offset is"),
        ({"replicated": 98}, "stored offset is 98"),
        ({"replicated": None}, "stored offset is None"),
    ],
)
def test_what_is_missing_is_said_with_the_partition(change: dict[str, object], said: str) -> None:
    """Whatever is not proven is explained, and names its partition."""
    view = replace(VIEW, **change)
    assert proof_of(view) is None
    assert why_not(view).startswith("orders-3: ") and said in why_not(view)
