"""What is replayed, under which marks, in which transactions, and what proves it."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.failback import replay
from kafka_dr.domain.failback.replay import (
    Expected,
    Fate,
    Found,
    Origin,
    ReadBack,
    cut_into_transactions,
    fate_of,
    mark_in,
    mark_of,
    origin_in,
    size_of,
    with_origin_headers,
    without_origin_headers,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

ORIGIN = Origin("old", "orders.v1", 3, 42)


def expected(*offsets: int, keys: dict[int, str] = {}, timestamp: int | None = 7) -> list[Expected]:
    """Records that should be there; each has a key of its own unless told."""
    return [
        Expected(offset, f"c{offset}", timestamp, mark_of(keys.get(offset, f"k{offset}").encode()))
        for offset in offsets
    ]


def found(
    wanted: list[Expected],
    there: list[Expected],
    compacted: bool = False,
    shortened: bool = False,
    clients: dict[int, str] = {},
) -> Found:
    """The verdict on a log; clients wrote a key just before the record at an index, or at the end."""
    proof = ReadBack(wanted, compacted, shortened)
    for index, one in enumerate([*there, None]):
        if index in clients:
            proof.written(mark_of(clients[index].encode()))
        if one is not None:
            proof.replayed(one)
    return proof.end()


def test_marks_say_where_a_record_comes_from() -> None:
    """They stand behind the record's own headers, and come off again."""
    headers = (("a", None), ("switchback.origin", b"old/x/0/1"), ("switchback.procedure", b"p"))
    both = with_origin_headers(headers, ORIGIN, "p")
    assert both[-2:] == (("switchback.origin", b"old/orders.v1/3/42"), ("switchback.procedure", b"p"))
    assert without_origin_headers(both, ("o", "p")) == (ORIGIN, headers)
    assert without_origin_headers(both, ("another",)) is None


@pytest.mark.parametrize(
    "text", [None, b"", b"old/t/0", b"old/t/0/1/2", b"old/t/-1/2", b"old/t/x/2", b"\xff", "old/t/0/\u0662x".encode()]
)
def test_what_is_no_origin_is_none(text: bytes | None) -> None:
    """Headers of clients may be called anything."""
    assert origin_in(text) is None
    assert without_origin_headers((("switchback.origin", text), ("switchback.procedure", b"p")), ("p",)) is None
    assert without_origin_headers((), ("p",)) is None


def test_an_origin_is_read_as_it_was_written() -> None:
    """Alias, topic, partition, offset."""
    assert origin_in(str(ORIGIN).encode()) == ORIGIN and ORIGIN.topic_partition == TopicPartition("orders.v1", 3)


def test_keys_are_remembered_as_the_export_has_them() -> None:
    """By the beginning of their SHA-256; an empty key is a key."""
    assert mark_of(b"k") == mark_in(sha256(b"k").hexdigest()) != mark_of(b"")
    assert mark_of(None) is None


@pytest.mark.parametrize(
    ("offset", "key", "needs_key", "later", "fate"),
    [
        (1, b"k", False, set(), "written"),
        (2, b"k", False, set(), "uncommitted"),
        (2, b"k", True, {mark_of(b"k")}, "uncommitted"),
        (1, None, False, set(), "written"),
        (1, None, True, set(), "keyless"),
        (1, b"k", True, {mark_of(b"other")}, "written"),
        (1, b"k", True, {mark_of(b"k")}, "overwritten"),
    ],
)
def test_each_record_has_one_fate(
    offset: int, key: bytes | None, needs_key: bool, later: set[bytes], fate: str
) -> None:
    """Uncommitted goes before all; then what the topic would refuse, then what would be undone."""
    assert fate_of(offset, key, {2}, needs_key, later) is Fate(fate)


@given(st.lists(st.tuples(st.integers(1, 4_000_000), st.integers(0, 9).map(lambda n: n == 0)), max_size=60))
def test_transactions_keep_order_and_bounds(records: list[tuple[int, bool]]) -> None:
    """None is lost or reordered; what may be refused is alone; only a single record exceeds the size."""
    cut = list(cut_into_transactions(records, lambda r: r[0], lambda r: r[1]))
    assert [record for one in cut for record in one] == records and all(cut)
    assert all(len(one) == 1 or not any(alone for _, alone in one) for one in cut)
    assert all(len(one) == 1 or sum(size for size, _ in one) <= replay.MOST_BYTES for one in cut)


def test_a_transaction_has_no_more_than_so_many_records() -> None:
    """That is what a killed process leaves at most."""
    assert [len(one) for one in cut_into_transactions(range(2_500), lambda _: 1, lambda _: False)] == [
        1_000,
        1_000,
        500,
    ]


def test_sizes_count_all_parts() -> None:
    """Key, value, names and values of headers; null counts as nothing."""
    assert size_of(b"kk", b"vvv", (("\u00fc", None), ("h", b"1234"))) - size_of(None, None, ()) == 2 + 3 + (10 + 2) + (
        10 + 1 + 4
    )


def test_what_was_exported_and_stands_there_once_is_proven() -> None:
    """No problem, and the count."""
    wanted = expected(3, 5, 9)
    assert found(wanted, wanted) == Found(3, 0, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (expected(3, 9), "exported offset 5 is missing"),
        (expected(3, 5), "exported offset 9 is missing"),
        ([], "exported offset 3 is missing"),
        (expected(3, 3, 5, 9), "exported offset 3 was read back twice"),
        (expected(5, 3, 9), "exported offset 3 was read back twice, or after a higher offset"),
        (expected(3, 4, 5, 9), "exported offset 4 was read back, but was not to be replayed"),
        (expected(3, 5, 9, 10), "exported offset 10 was read back, but was not to be replayed"),
        ([*expected(3, 5), Expected(9, "another", 7, None)], "exported offset 9 has other content"),
        ([*expected(3, 5), *expected(9, timestamp=8)], "exported offset 9 has another timestamp"),
    ],
)
def test_what_differs_is_told(there: list[Expected], told: str) -> None:
    """Missing, doubled, out of order, added, changed."""
    assert any(told in problem for problem in found(expected(3, 5, 9), there).problems)


def test_of_many_problems_some_are_named_and_all_are_counted() -> None:
    """A page is not filled with offsets."""
    seen = found(expected(*range(100)), []).problems
    assert seen == (*(f"exported offset {n} is missing" for n in range(5)), "95 more problems")


def test_a_record_that_could_not_keep_its_time_is_counted() -> None:
    """It is there all the same."""
    assert found(expected(3, timestamp=None), expected(3, timestamp=99)) == Found(1, 0, 0, 0, 1, ())


def test_what_retention_took_from_the_beginning_is_told_apart() -> None:
    """A hole behind a record that is there is a hole, though."""
    assert found(expected(3, 5, 9), expected(9), shortened=True) == Found(1, 0, 2, 0, 0, ())
    assert found(expected(3, 5), [], shortened=True) == Found(0, 0, 2, 0, 0, ())
    assert found(expected(3, 5, 9), expected(3, 9), shortened=True).problems == ("exported offset 5 is missing",)


def test_in_a_compacted_topic_a_later_value_of_the_key_explains_a_missing_one() -> None:
    """A client's, before or behind, or a replayed one; without such a value it is missing."""
    wanted = expected(3, 5, 9, keys={3: "a", 5: "a"})
    assert found(wanted, wanted[1:], compacted=True) == Found(2, 1, 0, 0, 0, ())
    assert found(wanted, wanted[:2], compacted=True, clients={2: "k9"}) == Found(2, 1, 0, 0, 0, ())
    assert found(wanted, wanted[:1] + wanted[2:], compacted=True).problems == ("exported offset 5 is missing",)
    assert found(wanted, [], compacted=True, shortened=True) == Found(0, 0, 3, 0, 0, ())


def test_a_value_that_was_written_over_a_newer_one_is_counted() -> None:
    """A client wrote the key between the last look and the commit."""
    wanted = expected(3, 5)
    assert found(wanted, wanted, compacted=True, clients={1: "k5"}).overtaken == 1
    assert found(wanted, wanted, compacted=True, clients={2: "k5"}).overtaken == 0


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 40), max_size=45))
def test_only_the_very_same_sequence_is_proof(wanted: set[int], there: list[int]) -> None:
    """Whatever else stands there is no proof."""
    verdict = found(expected(*sorted(wanted)), expected(*there))
    assert (not verdict.problems) == (there == sorted(wanted))
    assert verdict.read_back <= len(wanted)
