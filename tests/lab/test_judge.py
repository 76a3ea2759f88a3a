"""The judge must catch every bad history, and let the good ones pass. Histories here are written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lab.judge import evidence as told
from lab.judge.client_logs import ClientLogs
from lab.judge.conduct import (
    Consumption,
    absent_positions,
    beyond_cut_off,
    consumed_findings,
    late_acknowledgements,
    misplaced,
    uncalled_positions,
    unread_new_records,
)
from lab.judge.findings import Finding, Verdict
from lab.judge.positions import Alignment, out_of_order
from lab.judge.records import (
    Held,
    aborted_visible,
    contradictions,
    merge_known,
    missing_records,
    repeats,
    stale_keys,
    strangers,
)
from lab.workload.truth import (
    ABORTED,
    COMMITTED,
    Acknowledgement,
    GroundTruth,
    Record,
    TopicTruth,
    content_digest,
    key_digest,
)

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
    return checks(misplaced("billing", AT, alignment, position, target_position, start))


def written(contents: str, state: str = COMMITTED) -> list[Record]:
    """Return one acknowledged record for each letter."""
    return [Record(offset, digest, f"id-{chr(digest)}", 0, False, 0, state) for offset, digest in log(contents)]


# Positions


@pytest.mark.parametrize("position", range(7))
def test_the_same_offset_on_equal_logs_is_exact(position: int) -> None:
    """Where both logs are equal, every group belongs where it was."""
    assert place(align("abcdef", "abcdef"), position, position) == set()


@pytest.mark.parametrize("position", range(6))
def test_one_ahead_is_a_skipped_record(position: int) -> None:
    """A position one ahead of an unread record skips it."""
    assert place(align("abcdef", "abcdef"), position, position + 1) == {"skipped"}


@pytest.mark.parametrize("position", range(1, 7))
def test_one_behind_is_not_exact(position: int) -> None:
    """A position one behind makes the group read a record again."""
    assert place(align("abcdef", "abcdef"), position, position - 1) == {"not exact"}


def test_a_position_beyond_the_boundary_is_skipping() -> None:
    """A group at the end of its log must not stand where clients of the target will write."""
    assert place(align("abc", "abc"), 3, 4) == {"skipped"}


def test_an_empty_partition_belongs_at_the_boundary() -> None:
    """Position 0 of an empty partition is position 0 of an empty partition."""
    assert place(align("", ""), 0, 0) == set()
    assert place(align("", ""), 0, 1) == {"skipped"}


def test_a_skipped_record_is_named() -> None:
    """The finding names group, topic, partition, offset and record."""
    (finding,) = misplaced("billing", AT, align("abc", "abc"), 1, 2, unread="id-b")
    assert (finding.group, finding.topic, finding.partition, finding.offset, finding.record) == (
        "billing",
        "orders",
        0,
        2,
        "id-b",
    )
    assert "1 unread records skipped, first is source offset 1" in str(finding)


def test_positions_in_one_hole_are_equally_exact() -> None:
    """Offsets that no reader gets make no difference: the same records follow."""
    alignment = align("ab__cd", "ab_cd")
    for position in (2, 3, 4):
        assert place(alignment, position, 2) == place(alignment, position, 3) == set()
        assert place(alignment, position, 4) == {"skipped"}
        assert place(alignment, position, 1) == {"not exact"}


def test_a_marker_at_the_tail_leaves_nothing_to_read() -> None:
    """A group standing on the last transaction marker belongs at the boundary."""
    alignment = align("abc_", "abc")
    assert place(alignment, 3, 3) == set()
    assert place(alignment, 3, 2) == {"not exact"}


def test_a_repeated_block_moves_the_position_to_the_last_copy() -> None:
    """After a repeated block, unread records are counted by their last copy and read ones not read again."""
    alignment = align("abcdefg", "abcdefcdefg")
    assert alignment.exact_position(4) == 8
    assert place(alignment, 4, 8) == set()
    assert place(alignment, 4, 9) == {"skipped"}
    assert place(alignment, 4, 4) == {"not exact"}
    assert place(alignment, 1, 1) == set()


def test_an_earlier_copy_has_no_owner() -> None:
    """Only the last copy of a repeated record belongs to the source's record."""
    alignment = align("abc", "abbc")
    assert [alignment.source_of(offset) for offset in range(4)] == [0, None, 1, 2]


def test_identical_records_are_counted_from_the_end() -> None:
    """Among byte-identical records one too many or one too few is caught."""
    alignment = align("aaaaaaaa", "aaaaaaaa")
    assert place(alignment, 5, 5) == set()
    assert place(alignment, 5, 6) == {"skipped"}
    assert place(alignment, 5, 4) == {"not exact"}


def test_identical_records_shifted_by_a_repeat_are_counted_from_the_end() -> None:
    """A repeated block of identical records shifts the position by its length."""
    alignment = align("aaaaaa", "aaaaaaaa")
    assert place(alignment, 4, 6) == set()
    assert place(alignment, 4, 4) == {"not exact"}
    assert place(alignment, 4, 7) == {"skipped"}


def test_recurring_contents_are_told_apart_by_counting() -> None:
    """In a block that recurs, only the right one of the equal looking places is exact."""
    alignment = align("abcabcabc", "abcabcabc")
    assert place(alignment, 4, 4) == set()
    assert place(alignment, 4, 1) == {"not exact"}
    assert place(alignment, 4, 7) == {"skipped"}


def test_compaction_on_the_source_only_is_no_reread() -> None:
    """A record that only the target still holds, and that the group never read, may come before its position's first
    record.
    """
    alignment = align("a_c__f", "abcdef", known="abcdef")
    assert place(alignment, 3, 5) == place(alignment, 3, 4) == place(alignment, 3, 3) == set()
    assert place(alignment, 3, 2) == {"not exact"}
    assert place(alignment, 3, 6) == {"skipped"}


def test_compaction_on_the_target_only_is_no_skip() -> None:
    """A record that the target's cleaner removed cannot hold a position back."""
    alignment = align("abcdef", "a_c__f")
    assert place(alignment, 3, 5) == place(alignment, 3, 3) == set()
    assert place(alignment, 3, 6) == {"skipped"}


def test_linear_interpolation_over_holes_is_caught() -> None:
    """The usual arithmetic between two pairs skips records in a compacted log."""
    source, target = "a________bcdef", "abcdef"
    assert place(align(source, target), 9, 5) == {"skipped"}
    assert place(align(source, target), 9, 1) == set()


def test_an_aborted_record_may_come_first_or_not() -> None:
    """An aborted record between the position and the first committed one is neither skipped nor read again."""
    alignment = align("ab__e", "abcde", known="abcde")
    assert place(alignment, 2, 2) == place(alignment, 2, 4) == set()
    assert place(alignment, 2, 5) == {"skipped"}


def test_a_position_below_the_targets_log_start_is_out_of_range() -> None:
    """A consumer below the log start falls to its reset policy."""
    assert place(align("abc", "abc"), 0, 0, start=1) == {"out of range"}


def test_records_out_of_order_are_counted() -> None:
    """A record whose last copy stands before an earlier one's is counted; repeated blocks are in order."""
    assert out_of_order(log("abcd"), log("abdc")) == 1
    assert out_of_order(log("abcd"), log("abcabcd")) == 0


# Records


def test_all_records_there_is_good() -> None:
    """Nothing is missing where every record has a copy, repeats or not."""
    assert missing_records(written("abc"), [ord(letter) for letter in "ababc"]) == []


def test_a_withheld_record_is_named() -> None:
    """A record without a copy is found, with its id and source offset."""
    (missing,) = missing_records(written("abc"), [ord("a"), ord("c")])
    assert (missing.id, missing.offset) == ("id-b", 1)


def test_identical_records_are_missing_by_count() -> None:
    """Of four identical records with three copies one is missing."""
    assert len(missing_records(written("aaaa"), [ord("a")] * 3)) == 1


def test_a_changed_record_is_missing_and_a_stranger() -> None:
    """A record whose header was lost is not the acknowledged one."""
    whole = content_digest(b"k", b"v", [("id", b"1")])
    stripped = content_digest(b"k", b"v", [])
    record = Record(0, whole, "id-1", 0, False, 0)
    assert missing_records([record], [stripped]) == [record]
    assert strangers([whole], [Held(0, stripped, 0, False)])


def keyed(rows: Sequence[tuple[str, str | None]]) -> list[Record]:
    """Return acknowledged records of a compacted topic from (key, value) pairs."""
    return [
        Record(
            offset,
            content_digest(key.encode(), value and value.encode()),
            f"id-{offset}",
            key_digest(key.encode()),
            value is None,
            0,
        )
        for offset, (key, value) in enumerate(rows)
    ]


def held(records: Sequence[Record]) -> list[Held]:
    """Return records as a reader of the target sees them."""
    return [Held(record.offset, record.digest, record.key, record.tombstone) for record in records]


def test_compacted_topics_need_the_latest_of_each_key_only() -> None:
    """Older values may be gone; the latest of each key may not."""
    records = keyed([("x", "1"), ("y", "1"), ("x", "2"), ("y", "2")])
    assert stale_keys(records, held(records[2:])) == []
    assert [record.id for record in stale_keys(records, held([records[0], records[3]]))] == ["id-2"]


def test_a_key_gone_back_to_an_older_value_is_stale() -> None:
    """The latest value must also be the last one on the target."""
    records = keyed([("x", "1"), ("x", "2")])
    assert stale_keys(records, held([records[1], records[0]])) == [records[1]]


def test_a_deleted_key_may_be_absent_but_not_alive() -> None:
    """A key that ends with a tombstone is absent or a tombstone on the target, never an older value."""
    records = keyed([("x", "1"), ("x", None)])
    assert stale_keys(records, []) == []
    assert stale_keys(records, held(records)) == []
    assert stale_keys(records, held(records[:1])) == [records[1]]


def test_repeats_are_counted_apart_from_strangers() -> None:
    """Copies beyond what the source held are repeats; what it never held is no repeat."""
    assert repeats([1, 2, 2, 3], [1, 1, 1, 2, 2, 3, 9, 9]) == 2
    assert [found.digest for found in strangers([1, 2], [Held(0, 1, 0, False), Held(1, 9, 0, False)])] == [9]


def test_aborted_records_on_the_target_are_counted() -> None:
    """Aborted records that became visible are figures, not losses."""
    assert aborted_visible(written("ab") + written("xy", ABORTED), [ord(letter) for letter in "abx"]) == 1


def test_a_source_that_changed_an_acknowledged_record_is_caught() -> None:
    """An offset that holds another content than was acknowledged there is named; a compacted one is not."""
    assert contradictions([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 9)]) == [1]


def test_known_logs_merge_by_offset() -> None:
    """Several views of one log become one, in order."""
    assert merge_known([(0, 1), (2, 3)], [(2, 3), (1, 2)]) == [(0, 1), (1, 2), (2, 3)]


def test_digests_tell_null_from_empty_and_headers_apart() -> None:
    """Null and empty, header order, header twins and moved bytes all make different contents."""
    contents: list[tuple[Any, ...]] = [
        (None, None, []),
        (b"", None, []),
        (None, b"", []),
        (b"", b"", []),
        (b"a", b"bc", []),
        (b"ab", b"c", []),
        (b"a", b"bc", [("h", None)]),
        (b"a", b"bc", [("h", b"")]),
        (b"a", b"bc", [("h", b"1"), ("g", b"2")]),
        (b"a", b"bc", [("g", b"2"), ("h", b"1")]),
        (b"a", b"bc", [("h", b"1"), ("h", b"1")]),
    ]
    assert len({content_digest(*content) for content in contents}) == len(contents)
    assert content_digest(b"a", b"b", None) == content_digest(b"a", b"b", [])


# Which positions must exist


def remote(topic: str) -> str:
    """Name topics as default naming does."""
    return f"primary.{topic}"


def test_a_group_missing_on_the_target_is_named() -> None:
    """Every committed source position, that of an empty partition too, needs a target position."""
    found = absent_positions(
        "billing", {("orders", 0): 5, ("empty", 0): 0}, {("orders", 0): 5}, str, local_topics=False
    )
    assert [(f.check, f.group, f.topic, f.partition) for f in found] == [("group missing", "billing", "empty", 0)]


def test_moved_groups_stand_at_zero_on_local_topics() -> None:
    """Under default naming a moved group also has position 0 on the topic that clients write."""
    here = {("orders", 0): 5}
    assert absent_positions("g", here, {("primary.orders", 0): 5, ("orders", 0): 0}, remote, local_topics=True) == []
    assert checks(absent_positions("g", here, {("primary.orders", 0): 5}, remote, local_topics=True)) == {
        "local position"
    }
    assert checks(
        absent_positions("g", here, {("primary.orders", 0): 5, ("orders", 0): 3}, remote, local_topics=True)
    ) == {"local position"}


def test_a_partition_never_committed_stays_uncommitted() -> None:
    """Where a group never committed it has nothing on the target, unless it is 0 on a local topic of its own."""
    here = {("orders", 0): 5}
    there = {("orders", 0): 5, ("orders", 1): 0}
    assert checks(uncalled_positions("g", here, there, str, local_topics=False)) == {"never committed"}
    assert uncalled_positions("g", here, {("orders", 0): 5}, str, local_topics=False) == []
    local = {("primary.orders", 0): 5, ("orders", 0): 0, ("orders", 1): 0}
    assert uncalled_positions("g", here, local, remote, local_topics=True) == []
    assert checks(uncalled_positions("g", here, local | {("orders", 1): 7}, remote, local_topics=True)) == {
        "never committed"
    }


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


def consumed(
    source: str, target: str, here: Sequence[int], there: Sequence[int], reached: int, start: int = 0, bound: int = 0
) -> list[Finding]:
    """Return the findings about one group on one partition."""
    return consumed_findings(Consumption("billing", *AT, start, here, there, reached), log(source), log(target), bound)[
        0
    ]


def test_a_group_that_went_on_where_it_was_is_good() -> None:
    """Records read on the source and the rest on the target: nothing skipped, nothing twice."""
    assert consumed("abcdef", "abcdef", [0, 1, 2], [3, 4, 5], 6) == []


def test_a_record_that_neither_cluster_delivered_is_caught() -> None:
    """A group that went past a record on the target without being given it has lost it."""
    (finding,) = consumed("abcdef", "abcdef", [0, 1, 2], [4, 5], 6)
    assert (finding.check, finding.group, finding.offset) == ("never delivered", "billing", 3)


def test_what_is_still_to_come_is_not_skipped() -> None:
    """A group that has not reached a record yet may still read it."""
    assert consumed("abcdef", "abcdef", [0, 1, 2], [3], 4) == []


def test_records_read_again_beyond_the_bound_are_caught() -> None:
    """Re-reads up to the announced bound are kept apart, one more is a finding."""
    assert consumed("abcdef", "abcdef", [0, 1, 2], [1, 2, 3, 4, 5], 6, bound=2) == []
    assert checks(consumed("abcdef", "abcdef", [0, 1, 2], [1, 2, 3, 4, 5], 6, bound=1)) == {"read again"}


def test_repeats_of_replication_are_not_the_groups_rereads() -> None:
    """A record that stands twice on the target may be given twice."""
    assert consumed("abc", "abbc", [0], [1, 2, 3], 4) == []


def test_a_new_record_that_a_group_went_past_is_caught() -> None:
    """What clients write on the target reaches the groups there."""
    assert unread_new_records("billing", AT, log("xyz", first=6), [6, 7, 8], 9) == []
    assert unread_new_records("billing", AT, log("xyz", first=6), [6, 7], 8) == []
    assert [f.offset for f in unread_new_records("billing", AT, log("xyz", first=6), [6, 8], 9)] == [7]


# Evidence


@pytest.fixture
def evidence(tmp_path: Path) -> dict[str, Any]:
    """Evidence of a good planned failover."""
    plan = {"groups": {"größe": 1}, "target": "standby"}
    canonical = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    moment = "2026-11-21T00:00:00+00:00"
    steps = [
        {"id": step, "state": "done", "started_at": moment, "ended_at": moment, "figures": {}}
        for step in told.PLANNED_STEPS
    ]
    return {
        "procedure_id": "planned_failover-1",
        "dag_id": "planned_failover",
        "source": "primary",
        "target": "standby",
        "reason": "test",
        "outcome": "completed",
        "plan": plan,
        "plan_digest": sha256(canonical.encode()).hexdigest(),
        "approvals": [{"user": "approver"}],
        "steps": steps,
        "fenced_at": "2026-11-21T00:00:01Z",
        "cut_off": [{"topic": "orders", "partition": 0, "offset": 6}],
        "boundary": [{"topic": "orders", "partition": 0, "offset": 6}],
        "classes": {"SYNC": 2},
        "rereads": {"bound": 0, "mirror_maker": 5},
        "repeats": 0,
        "loss": [],
        "positions": str(tmp_path),
        "stranded": None,
        "seconds": {"own": 1.0, "drain": 0.1, "people": 2},
        "digest": "0" * 64,
        "previous_digest": None,
    }


def story(evidence: dict[str, Any]) -> list[Finding]:
    """Return what is wrong with the evidence's story."""
    return told.story_findings(evidence, "primary", "standby", "approver")


def test_good_evidence_passes(evidence: dict[str, Any]) -> None:
    """A complete document that tells one story has no findings."""
    assert told.shape_findings(evidence) + story(evidence) + told.count_findings(evidence, 2, 0) == []


@pytest.mark.parametrize("field", sorted(told.FIELDS))
def test_an_absent_field_is_caught(evidence: dict[str, Any], field: str) -> None:
    """Every contracted field must be there."""
    del evidence[field]
    assert any(field in finding.text for finding in told.shape_findings(evidence))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outcome": "returned"}, "outcome"),
        ({"source": "standby"}, "source"),
        ({"loss": [{"topic": "orders"}]}, "loss"),
        ({"approvals": [{"user": "operator"}]}, "approver"),
        ({"plan": {"target": "elsewhere"}}, "plan_digest"),
        ({"positions": "/nowhere/positions.parquet"}, "positions"),
        ({"seconds": {"own": 1, "drain": 1}}, "people"),
        ({"steps": []}, "open_procedure"),
    ],
)
def test_a_story_that_does_not_hold_is_caught(evidence: dict[str, Any], change: dict[str, Any], said: str) -> None:
    """Evidence that contradicts a completed failover is named by its field."""
    assert any(said in finding.text for finding in story(evidence | change))


def test_a_failed_step_in_a_completed_run_is_caught(evidence: dict[str, Any]) -> None:
    """A completed procedure has no failed step, and none that ended before it began."""
    evidence["steps"][3]["state"] = "failed"
    evidence["steps"][4]["ended_at"] = "2026-11-20T00:00:00+00:00"
    assert len(story(evidence)) == 2


def test_ends_that_the_cluster_denies_are_caught() -> None:
    """A boundary one off, and a partition without a row, are findings."""
    rows = told.offsets([{"topic": "orders", "partition": 0, "offset": 5}])
    assert checks(told.offset_findings("boundary", rows, {AT: 6})) == {"evidence"}
    assert told.offset_findings("boundary", rows, {AT: 5}) == []
    assert len(told.offset_findings("boundary", rows, {AT: 5, ("orders", 1): 0})) == 1


def test_uncounted_positions_and_rereads_are_caught(evidence: dict[str, Any]) -> None:
    """The evidence must cover every position, and its bound every re-read."""
    assert len(told.count_findings(evidence, 3, 0)) == 1
    assert len(told.count_findings(evidence, 2, 1)) == 1


def test_times_without_a_zone_are_refused() -> None:
    """A time that could mean several moments is no proof."""
    assert told.milliseconds("1970-01-01T00:00:01Z") == 1000
    with pytest.raises(ValueError, match="without a zone"):
        told.milliseconds("1970-01-01T00:00:01")


# What the judge keeps and says


def test_a_verdict_passes_only_without_findings() -> None:
    """One finding fails the verdict; long lists are cut with their count."""
    verdict = Verdict()
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
    """Positions found by a group's first consumer count; later ones have been moved by reading. A torn line is left
    out.
    """
    events = [
        {"event": "started", "at": 2, "cluster": "standby", "group": "g", "positions": [["orders", 0, 9]]},
        {
            "event": "started",
            "at": 1,
            "cluster": "standby",
            "group": "g",
            "positions": [["orders", 0, 5], ["orders", 1, None]],
        },
        {
            "event": "consumed",
            "cluster": "standby",
            "group": "g",
            "topic": "orders",
            "partition": 0,
            "offset": 5,
            "id": "i",
        },
        {
            "event": "acknowledged",
            "cluster": "primary",
            "topic": "orders",
            "partition": 0,
            "offset": 1,
            "digest": 3,
            "id": "i",
            "at": 4,
        },
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "cons')
    logs = ClientLogs.read(tmp_path)
    assert logs.started_on("standby") == {"g": {AT: 5}}
    assert logs.consumed["standby", "g"][AT] == [5]
    assert [a.offset for a in logs.acknowledged["primary"]] == [1]
    assert logs.groups() == {"g"}
