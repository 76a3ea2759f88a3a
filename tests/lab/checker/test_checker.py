"""The check must catch every bad history, and let the good ones pass. Histories here are written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.checker import evidence_file as told
from lab.checker.client_behaviour import (
    Consumption,
    absent_positions,
    beyond_cut_off,
    consumed_findings,
    late_acknowledgements,
    misplaced_positions,
    uncalled_positions,
    unread_new_records,
)
from lab.checker.client_history import ClientLogs
from lab.checker.findings import CheckResult, Finding
from lab.checker.positions import Alignment, out_of_order
from lab.checker.records import (
    Held,
    aborted_visible,
    changed_offsets,
    count_repeats,
    foreign_records,
    merge_known,
    missing_records,
    stale_keys,
)
from lab.workload.ground_truth import (
    ABORTED,
    COMMITTED,
    Acknowledgement,
    GroundTruth,
    TopicTruth,
    TruthRecord,
    content_digest,
    key_digest,
)
from tests.lab.checker.round_trips import event

AT = ("orders", 0)


def log(contents: str, first: int = 0) -> list[tuple[int, int]]:
    """Return a log in which every letter is one record's content and `_` an offset that no reader gets."""
    return [(first + offset, ord(letter)) for offset, letter in enumerate(contents) if letter != "_"]


def align(source: str, target: str, boundary: int | None = None, known: str | None = None) -> Alignment:
    """Return an alignment of two written logs."""
    return Alignment(log(source), log(known or source), log(target), len(target) if boundary is None else boundary)


def checks(findings: Sequence[Finding]) -> set[str]:
    """Return the names of the checks that found something."""
    return {finding.check for finding in findings}


def place(alignment: Alignment, position: int, target_position: int, start: int = 0) -> set[str]:
    """Return which checks a target position fails."""
    return checks(misplaced_positions("billing", AT, alignment, position, target_position, start))


def written(contents: str, state: str = COMMITTED) -> list[TruthRecord]:
    """Return one acknowledged record for each letter."""
    return [TruthRecord(offset, digest, f"id-{chr(digest)}", 0, False, 0, state) for offset, digest in log(contents)]


# Positions


@pytest.mark.parametrize(
    ("source", "target", "position", "exact"),
    [
        *[pytest.param("abcdef", "abcdef", n, {n}, id=f"equal logs, {n}") for n in range(7)],
        pytest.param("", "", 0, {0}, id="an empty partition belongs at the boundary"),
        *[
            pytest.param("ab__cd", "ab_cd", n, {2, 3}, id=f"in one hole the same records follow, {n}")
            for n in (2, 3, 4)
        ],
        pytest.param("abc_", "abc", 3, {3}, id="behind a marker at the tail nothing is left to read"),
        pytest.param("abcdefg", "abcdefcdefg", 4, {8}, id="of a repeated block the last copy counts"),
        pytest.param("abcdefg", "abcdefcdefg", 1, {1}, id="before a repeated block"),
        pytest.param("aaaaaaaa", "aaaaaaaa", 5, {5}, id="identical records are counted from the end"),
        pytest.param("aaaaaa", "aaaaaaaa", 4, {6}, id="identical records shifted by a repeat"),
        pytest.param("abcabcabc", "abcabcabc", 4, {4}, id="of equal looking places the right one"),
        pytest.param("abcdef", "a_c__f", 3, {3, 4, 5}, id="compacted on the target only"),
        pytest.param("a________bcdef", "abcdef", 9, {1}, id="interpolation over holes skips records"),
    ],
)
def test_a_position_is_exact_where_the_same_records_follow(
    source: str, target: str, position: int, exact: set[int]
) -> None:
    """Above it skips records, or what clients will write; below it records are read again."""
    assert_exact_at(align(source, target), position, exact)


@pytest.mark.parametrize(
    ("source", "target", "position", "exact"),
    [
        pytest.param("a_c__f", "abcdef", 3, {3, 4, 5}, id="compacted on the source only, and never read"),
        pytest.param("ab__e", "abcde", 2, {2, 3, 4}, id="aborted before the first committed one"),
    ],
)
def test_what_the_source_gives_nobody_may_come_first_or_not(
    source: str, target: str, position: int, exact: set[int]
) -> None:
    """It is neither skipped nor read again."""
    assert_exact_at(align(source, target, known=target), position, exact)


def assert_exact_at(alignment: Alignment, position: int, exact: set[int]) -> None:
    """Try every target position."""
    wrong = {at: {"not exact"} if at < min(exact) else {"skipped"} for at in range(alignment.boundary + 2)}
    found = {at: place(alignment, position, at) for at in wrong}
    assert found == wrong | {at: set() for at in exact}


def test_a_skipped_record_is_named() -> None:
    """The finding names group, topic, partition, offset and record."""
    (finding,) = misplaced_positions("billing", AT, align("abc", "abc"), 1, 2, unread="id-b")
    named = (finding.group, finding.topic, finding.partition, finding.offset, finding.record)
    assert named == ("billing", "orders", 0, 2, "id-b")
    assert "1 unread records skipped, the first at source offset 1" in str(finding)


def test_a_position_below_the_targets_log_start_is_out_of_range() -> None:
    """A consumer below the log start falls to its reset policy."""
    assert place(align("abc", "abc"), 0, 0, start=1) == {"out of range"}


def test_records_out_of_order_are_counted() -> None:
    """A record whose last copy stands before an earlier one's is counted; repeated blocks are in order."""
    assert out_of_order(log("abcd"), log("abdc")) == 1
    assert out_of_order(log("abcd"), log("abcabcd")) == 0


# Records


@pytest.mark.parametrize(
    ("records", "target", "missing"),
    [
        pytest.param("abc", "ababc", [], id="all are there, some twice"),
        pytest.param("abc", "ac", ["id-b"], id="one was withheld"),
        pytest.param("aaaa", "aaa", ["id-a"], id="identical ones are missing by count"),
    ],
)
def test_a_record_without_a_copy_is_missing(records: str, target: str, missing: list[str]) -> None:
    """Named by its id."""
    assert [record.id for record in missing_records(written(records), map(ord, target))] == missing


def test_a_changed_record_is_missing_and_a_stranger() -> None:
    """A record whose header was lost is not the acknowledged one."""
    whole = content_digest(b"k", b"v", [("id", b"1")])
    stripped = content_digest(b"k", b"v", [])
    record = TruthRecord(0, whole, "id-1", 0, False, 0)
    assert missing_records([record], [stripped]) == [record]
    assert foreign_records([whole], [Held(0, stripped, 0, False)])


def keyed(rows: Sequence[tuple[str, str | None]]) -> list[TruthRecord]:
    """Return acknowledged records of a compacted topic from (key, value) pairs."""
    contents = [(key.encode(), value and value.encode()) for key, value in rows]
    return [
        TruthRecord(offset, content_digest(key, value), f"id-{offset}", key_digest(key), value is None, 0)
        for offset, (key, value) in enumerate(contents)
    ]


def held(records: Sequence[TruthRecord]) -> list[Held]:
    """Return records as a reader of the target sees them."""
    return [Held(record.offset, record.digest, record.key, record.tombstone) for record in records]


@pytest.mark.parametrize(
    ("rows", "there", "stale"),
    [
        pytest.param("x1 y1 x2 y2", (2, 3), [], id="older values may be gone"),
        pytest.param("x1 y1 x2 y2", (0, 3), [2], id="the latest of a key is gone"),
        pytest.param("x1 x2", (1, 0), [1], id="a key went back to an older value"),
        pytest.param("x1 x", (), [], id="a deleted key may be absent"),
        pytest.param("x1 x", (0, 1), [], id="a deleted key may be a tombstone"),
        pytest.param("x1 x", (0,), [1], id="a deleted key may not be alive"),
    ],
)
def test_compacted_topics_need_the_latest_of_each_key_only(rows: str, there: Sequence[int], stale: list[int]) -> None:
    """Key and value of each record; a key without a value is a tombstone."""
    records = keyed([(row[0], row[1:] or None) for row in rows.split()])
    assert stale_keys(records, held([records[offset] for offset in there])) == [records[offset] for offset in stale]


def test_repeats_are_counted_apart_from_strangers() -> None:
    """Copies beyond what the source held are repeats; what it never held is no repeat."""
    assert count_repeats([1, 2, 2, 3], [1, 1, 1, 2, 2, 3, 9, 9]) == 2
    assert [found.digest for found in foreign_records([1, 2], [Held(0, 1, 0, False), Held(1, 9, 0, False)])] == [9]


def test_aborted_records_on_the_target_are_counted() -> None:
    """Aborted records that became visible are figures, not losses."""
    assert aborted_visible(written("ab") + written("xy", ABORTED), [ord(letter) for letter in "abx"]) == 1


def test_a_source_that_changed_an_acknowledged_record_is_caught() -> None:
    """An offset that holds another content than was acknowledged there is named; a compacted one is not."""
    assert changed_offsets([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 9)]) == [1]


def test_known_logs_merge_by_offset() -> None:
    """Several views of one log become one, in order."""
    assert merge_known([(0, 1), (2, 3)], [(2, 3), (1, 2)]) == [(0, 1), (1, 2), (2, 3)]


def test_digests_tell_null_from_empty_and_headers_apart() -> None:
    """Null and empty, header order, header twins and moved bytes all make different contents."""
    pairs = [(None, None), (b"", None), (None, b""), (b"", b""), (b"a", b"bc"), (b"ab", b"c")]
    one, two, other = ("h", b"1"), ("g", b"2"), [[("h", None)], [("h", b"")]]
    headers: list[Any] = [*other, [one, two], [two, one], [one, one]]
    digests = [content_digest(*pair, []) for pair in pairs] + [content_digest(b"a", b"bc", each) for each in headers]
    assert len(set(digests)) == len(digests) == 11
    assert content_digest(b"a", b"b", None) == content_digest(b"a", b"b", [])


# Which positions must exist


def mirrored(place: tuple[str, int]) -> tuple[str, int]:
    """Name topics as default naming does."""
    return f"primary.{place[0]}", place[1]


def same(place: tuple[str, int]) -> tuple[str, int]:
    """Name topics as identity naming does."""
    return place


def test_a_group_missing_on_the_target_is_named() -> None:
    """Every committed source position, that of an empty partition too, needs a target position."""
    found = absent_positions("billing", {AT: 5, ("empty", 0): 0}, {AT: 5}, same)
    assert [(f.check, f.group, f.topic, f.partition) for f in found] == [("group missing", "billing", "empty", 0)]


@pytest.mark.parametrize(
    ("local", "before", "found"),
    [
        ({AT: 0}, {}, set()),
        ({}, {}, {"local position"}),
        ({AT: 3}, {}, {"local position"}),
        ({AT: 3}, {AT: 3}, set()),
        ({AT: 3}, {AT: 4}, {"local position"}),
    ],
)
def test_moved_groups_stand_at_zero_on_local_topics(
    local: dict[tuple[str, int], int], before: dict[tuple[str, int], int], found: set[str]
) -> None:
    """Under default naming a moved group also has position 0 on the topic that clients write, or the one it had."""
    there = {("primary.orders", 0): 5} | local
    assert checks(absent_positions("g", {AT: 5}, there, mirrored, same, before)) == found


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ({("primary.orders", 0): 5, AT: 0, ("orders", 1): 0}, set()),
        ({("orders", 1): 7}, {"never committed"}),
        ({("primary.orders", 1): 0}, {"never committed"}),
        ({("others", 0): 0}, {"never committed"}),
    ],
)
def test_a_partition_never_committed_stays_uncommitted(there: dict[tuple[str, int], int], found: set[str]) -> None:
    """It has nothing on the target, unless it is 0 on a local topic, or was there before."""
    assert checks(uncalled_positions("g", {AT: 5}, there, mirrored, same)) == found
    assert uncalled_positions("g", {AT: 5}, there, mirrored, same, there) == []
    assert checks(uncalled_positions("g", {AT: 5}, {AT: 5, ("orders", 1): 0}, same)) == {"never committed"}


# The fence


def acknowledged(at: int, offset: int = 0) -> Acknowledgement:
    """Return one acknowledgement."""
    return Acknowledgement("orders", 0, offset, 1, "id-late", at)


def test_an_acknowledgement_after_the_fence_is_caught() -> None:
    """A record acknowledged one millisecond after the fence was proven is a finding that names it."""
    assert late_acknowledgements([acknowledged(999), acknowledged(1000)], 1000) == []
    (finding,) = late_acknowledgements([acknowledged(1001)], 1000)
    assert finding.record == "id-late"


def test_an_acknowledgement_beyond_the_cut_off_is_caught() -> None:
    """A record at the cut-off was written after the fence, whatever the clock says."""
    assert beyond_cut_off([acknowledged(0, offset=9)], {AT: 10}) == []
    assert checks(beyond_cut_off([acknowledged(0, offset=10)], {AT: 10})) == {"fence"}


# Consumption


@pytest.mark.parametrize(
    ("target", "here", "there", "reached", "bound", "found"),
    [
        pytest.param("abcdef", [0, 1, 2], [3, 4, 5], 6, 0, None, id="went on where it was"),
        pytest.param("abcdef", [0, 1, 2], [4, 5], 6, 0, ("never delivered", 3), id="given on neither cluster"),
        pytest.param("abcdef", [0, 1, 2], [3], 4, 0, None, id="what is still to come is not skipped"),
        pytest.param("abcdef", [0, 1, 2], [1, 2, 3, 4, 5], 6, 2, None, id="read again up to the bound"),
        pytest.param("abcdef", [0, 1, 2], [1, 2, 3, 4, 5], 6, 1, ("read again", None), id="one more read again"),
        pytest.param("abbcdef", [0], [1, 2, 3, 4, 5, 6], 7, 0, None, id="a repeat of replication is no re-read"),
    ],
)
def test_a_group_is_given_every_record(
    target: str, here: list[int], there: list[int], reached: int, bound: int, found: tuple[str, int | None] | None
) -> None:
    """Some on the source, the rest on the target, and none again beyond what was announced."""
    consumption = Consumption("billing", *AT, 0, here, there, reached)
    findings = consumed_findings(consumption, log("abcdef"), log(target), bound)[0]
    assert [(one.check, one.group, one.offset) for one in findings] == (
        [(found[0], "billing", found[1])] if found else []
    )


def test_a_new_record_that_a_group_went_past_is_caught() -> None:
    """What clients write on the target reaches the groups there."""
    assert unread_new_records("billing", AT, log("xyz", first=6), [6, 7, 8], 9) == []
    assert unread_new_records("billing", AT, log("xyz", first=6), [6, 7], 8) == []
    assert [f.offset for f in unread_new_records("billing", AT, log("xyz", first=6), [6, 8], 9)] == [7]


# Evidence


def test_ends_that_the_cluster_denies_are_caught() -> None:
    """A boundary one off, and a partition without a row, are findings."""
    rows = told.offsets_by_partition([{"topic": "orders", "partition": 0, "offset": 5}])
    assert checks(told.offset_findings("boundary", rows, {AT: 6})) == {"evidence"}
    assert told.offset_findings("boundary", rows, {AT: 5}) == []
    assert len(told.offset_findings("boundary", rows, {AT: 5, ("orders", 1): 0})) == 1


def test_times_without_a_zone_are_refused() -> None:
    """A time that could mean several moments is no proof."""
    assert told.wall_clock_milliseconds("1970-01-01T00:00:01Z") == 1000
    with pytest.raises(ValueError, match="without a zone"):
        told.wall_clock_milliseconds("1970-01-01T00:00:01")


# What the check keeps and says


def test_a_verdict_passes_only_without_findings() -> None:
    """One finding fails the verdict; long lists are cut with their count."""
    verdict = CheckResult()
    verdict.add([], positions=2)
    assert verdict.passed
    verdict.add([Finding("missing", "gone", record=f"id-{n}") for n in range(60)], positions=1)
    assert not verdict.passed
    assert verdict.figures["positions"] == 3
    assert verdict.lines()[-1] == "[missing] and 10 more"
    assert json.loads(json.dumps(verdict.document()))["findings"][0]["record"] == "id-0"


def test_a_truth_survives_its_file(tmp_path: Path) -> None:
    """What was written is read back, unicode names and all."""
    truth = GroundTruth(7, "primary")
    truth.topics["orders"] = TopicTruth("orders", "plain", 1, records={0: written("ab") + written("c", ABORTED)})
    truth.place("группа", "orders", 0, 2)
    truth.save(tmp_path / "truth.json")
    read = GroundTruth.load(tmp_path / "truth.json")
    assert read == truth
    assert [record.id for record in read.topics["orders"].committed(0)] == ["id-a", "id-b"]
    assert list(read.placed()) == [("группа", "orders", 0, 2)]


def test_client_logs_keep_the_first_positions_found(tmp_path: Path) -> None:
    """Positions of a group's first consumer count, later ones do not; a torn line is left out."""
    events = [
        event("started", "standby", 2, group="g", positions=[["orders", 0, 9]]),
        event("started", "standby", 1, group="g", positions=[["orders", 0, 5], ["orders", 1, None]]),
        event("consumed", "standby", 3, group="g", offset=5, id="i"),
        event("acknowledged", "primary", 4, offset=1, digest=3, id="i"),
    ]
    (tmp_path / "a.jsonl").write_text("".join(events) + '{"event": "cons')
    logs = ClientLogs.read(tmp_path)
    assert logs.started_on("standby") == {"g": {AT: 5}}
    assert logs.consumed["standby", "g"][AT] == [5]
    assert [a.offset for a in logs.acknowledged["primary"]] == [1]
    assert logs.groups() == {"g"}
