"""Where copying begins again: what Connect must store, and which starts cannot be used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.re_replication.starts import (
    RESET,
    SourceSpan,
    by_partition,
    connectors_to_reset,
    first_offsets,
    offset_before,
    place_problem,
    reset_of,
    time_of,
    unknown_places,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@given(st.integers(0, 2**40))
def test_a_source_task_begins_at_the_first_offset(first: int) -> None:
    """MirrorMaker 2 seeks to the stored offset + 1, and without one to the log start; 0 stored would skip record 0."""
    stored = offset_before(first)
    assert (0 if stored is None else stored + 1) == first


@pytest.mark.parametrize(
    ("config", "reset"),
    [
        ({}, "earliest"),
        ({"consumer.auto.offset.reset": "latest"}, "latest"),
        ({"consumer.auto.offset.reset": "latest", "source.consumer.auto.offset.reset": "earliest"}, "earliest"),
        ({"source.consumer.auto.offset.reset": "Latest "}, "latest"),
    ],
)
def test_the_consumers_own_setting_counts_most(config: dict[str, str], reset: str) -> None:
    """A setting for the source's consumer overrides that for all consumers; without both it is earliest."""
    assert reset_of(config) == reset


def test_only_a_connector_that_copies_from_offset_0_needs_earliest() -> None:
    """A log start above 0 has an offset before it that can be stored, whatever the setting."""
    firsts, configs = {A0: 0, A1: 5, B0: 7}, {"one": {RESET: "latest"}, "two": {"consumer.auto.offset.reset": "none"}}
    owners = {"a": ["one"], "b": ["two"]}
    assert connectors_to_reset(firsts, owners, configs) == {"one": "latest"}
    assert connectors_to_reset(firsts, {"a": ["one", "two"], "b": ["one"]}, configs) == {"one": "latest", "two": None}
    assert connectors_to_reset(firsts, owners, {**configs, "one": {}}) == {}


def test_a_partitions_own_start_counts_before_its_topics() -> None:
    """Both forms may be given; places that name nothing are told."""
    starts = {"a": 3, "a:1": 4, "a:9": 1, "c": 2}
    assert by_partition(starts, [A0, A1, B0]) == {A0: 3, A1: 4}
    assert unknown_places(starts, [A0, A1, B0]) == ["a:9", "c"]


def test_starts_within_the_log() -> None:
    """An offset in the log, a time, or the log start; a time behind all records begins at the log end."""
    spans = {A0: SourceSpan(2, 10), A1: SourceSpan(0, 4), B0: SourceSpan(0, 7)}
    assert first_offsets(spans, {A0: 10}, {A1: 3, B0: -1}) == ({A0: 10, A1: 3, B0: 7}, [])


def test_starts_outside_the_log_are_told() -> None:
    """Each with the log's bounds; an offset and a time for one partition contradict each other."""
    firsts, problems = first_offsets(
        {A0: SourceSpan(2, 10), A1: SourceSpan(0, 4), B0: SourceSpan(0, 7)}, {A0: 1, A1: 5, B0: 1}, {B0: 1}
    )
    assert firsts == {}
    assert problems == [
        "a-0: offset 1 is outside the log, 2 to 10",
        "a-1: offset 5 is outside the log, 0 to 4",
        "b-0: an offset and a time are given; state one of them",
    ]


@pytest.mark.parametrize("place", ["orders", "orders:12", "a.b-c_d:0"])
def test_places(place: str) -> None:
    """A topic, or a topic and a partition."""
    assert place_problem(place) is None


@pytest.mark.parametrize("place", ["", "orders:", "orders:x", ":1", "a b", "orders:1:2"])
def test_texts_that_are_no_places(place: str) -> None:
    """They are told."""
    assert place_problem(place) is not None


def test_times() -> None:
    """UTC unless a zone is stated; other texts are no times."""
    assert time_of("1970-01-01T00:00:01") == 1000
    assert time_of("1970-01-01T01:00:01+01:00") == 1000
    assert time_of("1970-01-01T00:00:00.5Z") == 500
    assert time_of("yesterday") is None
