"""The check of an unplanned failover catches every wrong evidence of made-up clusters, and passes right ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.checker import evidence_file as told
from lab.checker.client_history import ClientCommit, ClientLogs
from lab.checker.loss_rows import (
    LossRow,
    loss_rows,
    mirrored_at_most,
    surely_mirrored,
    unconfirmed_records,
    unlisted_records,
    wrongly_lost,
)
from lab.checker.translation_file import COLUMNS, translation_digest
from lab.checker.unplanned_check import GRACE_MS
from lab.workload.ground_truth import ABORTED, TruthRecord
from tests.lab.checker.round_trips import digest, event, sealed, write_listing
from tests.lab.checker.round_trips import loss_row as row
from tests.lab.checker.test_unplanned_positions import at, place
from tests.lab.checker.unplanned_scene import AT, DIED, Scene, acked, approval, claim, log


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_right_failover_passes(scene: Scene, policy: str) -> None:
    """Records are there or listed, and the group stands where it belongs; writes are tried."""
    scene.policy = policy
    scene.refusing = {scene.remote} - {"orders"}
    verdict = scene.verdict(writes=True)
    assert verdict.passed, verdict.lines()
    assert (verdict.figures["records"], verdict.figures["not_on_target"], verdict.figures["positions"]) == (6, 2, 1)


# (a) There is no third place.


def test_a_record_in_a_third_place_is_named(scene: Scene) -> None:
    """Acknowledged, not on the target, and listed nowhere: named with its id and its offset on the source."""
    scene.loss = [row(5, 6)]
    (finding,) = scene.verdict().findings
    named = (finding.check, finding.record, finding.offset, finding.topic, finding.partition)
    assert named == ("missing", "id-4", 4, "orders", 0)


@pytest.mark.parametrize(("possible_to", "missing"), [(None, 0), (6, 0), (5, 1), (4, 2)])
def test_an_open_end_holds_everything_and_a_closed_one_what_it_says(
    scene: Scene, possible_to: int | None, missing: int
) -> None:
    """`possible_to` is exclusive, and null is no bound."""
    scene.loss = [row(4, None, possible_to)]
    assert scene.verdict().figures["missing"] == missing
    assert scene.checks() == ({"missing"} if missing else set())


def test_a_partition_without_a_row_is_claimed_complete(scene: Scene) -> None:
    """Where nothing is listed nothing may be missing, and another partition's row says nothing about this one."""
    scene.loss = [row(0, None, None, topic="others")]
    assert [finding.record for finding in scene.verdict().findings] == ["id-4", "id-5"]


def test_a_record_withheld_in_the_middle_is_no_loss(scene: Scene) -> None:
    """A hole below `from_offset` is in a third place even where everything after it may be lost."""
    scene.target = "a_cd"
    assert [finding.record for finding in scene.verdict().findings if finding.check == "missing"] == ["id-1"]


def test_of_recurring_contents_the_last_ones_are_missing() -> None:
    """MirrorMaker 2 mirrors in order: with two of three equal records mirrored, the third may be lost."""
    known = log("aaa")
    assert mirrored_at_most(known, [digest("a")] * 2) == {0, 1}
    assert surely_mirrored(known, [digest("a")] * 2) == {0}
    records = [TruthRecord(offset, content, None, 0, False, 0) for offset, content in known]
    assert unlisted_records(records, {0, 1}, [LossRow(2, None, None)]) == []
    assert [record.offset for record in unlisted_records(records, {0, 1}, [LossRow(3, None, None)])] == [2]


def test_repeats_hide_no_missing_record(scene: Scene) -> None:
    """A target that is longer than the source through repeats still lacks what it lacks."""
    scene.source, scene.target, scene.loss, scene.rows = "abcdef", "abcdbcdbcd", [], [claim(2, 8)]
    verdict = scene.verdict()
    assert [finding.record for finding in verdict.findings] == ["id-4", "id-5"]
    assert verdict.figures["repeats"] == 6


def test_a_compacted_topic_needs_the_latest_of_each_key_or_its_loss(scene: Scene) -> None:
    """All records here share one key: only the latest counts, and it must be there or listed."""
    scene.kind, scene.target, scene.rows = "compacted", "_b_d", [claim(2, 3)]
    assert scene.checks() == set()
    scene.loss = [row(6)]
    assert [finding.record for finding in scene.verdict().findings] == ["id-5"]


def test_aborted_records_may_get_lost(scene: Scene) -> None:
    """Nobody was told that an aborted record is kept."""
    scene.loss = []
    check = scene.check()
    records = check.seen.before.records[AT]
    records |= {offset: records[offset]._replace(state=ABORTED) for offset in (4, 5)}
    assert check.check(writes=False).passed


# (b) What is called lost is not there.


def test_a_record_called_lost_that_is_there_is_named(scene: Scene) -> None:
    """In [from_offset, certain_to) nothing may be on the target."""
    scene.loss = [row(3, 6)]
    (finding,) = scene.verdict().findings
    assert (finding.check, finding.record, finding.offset) == ("not lost", "id-3", 3)


def test_nothing_certain_claims_nothing(scene: Scene) -> None:
    """Without `certain_to` records of the range may be on the target."""
    scene.loss = [row(2, None, None)]
    assert scene.checks() == set()


def test_certain_to_is_exclusive() -> None:
    """The record at `certain_to` may be there."""
    known = log("abcd")
    assert wrongly_lost(known, {3}, [LossRow(1, 3, None)]) == []
    assert wrongly_lost(known, {2}, [LossRow(1, 3, None)]) == [2]


def test_recurring_contents_contradict_only_where_they_must(scene: Scene) -> None:
    """A content that also stands before the range may come from there: a repeat is no proof of a later record."""
    scene.source, scene.target, scene.rows = "abab", "abab", [claim(2, 2)]
    scene.loss = [row(2, 4)]
    assert "not lost" not in scene.checks()
    scene.loss = [row(1, 4)]
    assert [finding.offset for finding in scene.verdict().findings if finding.check == "not lost"] == [1]


def test_rows_are_read_whatever_their_numbers_look_like() -> None:
    """A column with nulls may have made floating numbers of offsets."""
    assert loss_rows([row(4, 6.0, None)]) == {AT: [LossRow(4, 6, None)]}  # type: ignore[arg-type]


# Records of which nobody was told.


def test_an_answer_that_died_with_the_source_leaves_a_record_nobody_was_told_of(scene: Scene) -> None:
    """What follows an acknowledged record on the target, in a gap of the acknowledgements, came from the source."""
    history = [TruthRecord(offset, content, f"id-{offset}", 0, False, 0) for offset, content in log("ab__e")]
    found = [(record.offset, record.digest) for record in unconfirmed_records(history, log("abcdebc"))]
    assert found == [(2, digest("c")), (3, digest("d"))]
    scene.loads = [acked("a", 0)]
    scene.told, scene.source, scene.target, scene.loss = {0, 1}, "abcd", "abcd", []
    assert (scene.checks(), scene.verdict().figures["unconfirmed_mirrored"]) == (set(), 2)


def test_the_same_where_nobody_was_writing_is_a_stranger(scene: Scene) -> None:
    """A topic that rested when the source died holds what was acknowledged, and nothing else."""
    scene.told, scene.source, scene.target, scene.loss = {0, 1}, "abcd", "abcd", []
    assert [finding.offset for finding in scene.verdict().findings if finding.check == "stranger"] == [2, 3]


def test_a_record_where_the_source_had_another_is_a_stranger() -> None:
    """No gap, no unconfirmed record."""
    history = [TruthRecord(offset, content, None, 0, False, 0) for offset, content in log("abc")]
    assert unconfirmed_records(history, log("abxc")) == []
    # Nor has what follows a stranger a place of its own.
    assert unconfirmed_records([record for record in history if record.offset != 2], log("axy")) == []


# (c) Positions.


# (d) The evidence.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (at("classes", {"NEAREST": 2}), "classes"),
        (at("classes", {"SYNC": 1}), "classes"),
        (at("rereads.bound", 7), "rereads.bound"),
        (at("rereads.mirror_maker", 0), "rereads.mirror_maker"),
        (at("translate_offsets.positions", 2), "translate_offsets.positions"),
        (at("translate_offsets.exact", 0), "translate_offsets.exact"),
        (at("translate_offsets.digest", "0" * 64), "translate_offsets.digest"),
        (at("translate_offsets.translation.sha256", "0" * 64), "sha256"),
        (at("translate_offsets.translation.rows", 9), "translation.rows"),
        (at("dag_id", "planned_failover"), "dag_id"),
        (at("outcome", "failed"), "outcome"),
        (at("plan_digest", "0" * 64), "plan_digest"),
        (at("steps", []), "confirm_source_lost"),
        (at("positions", "elsewhere.parquet"), "no positions file"),
        (at("positions", "s3://bucket/elsewhere/positions.parquet"), "no positions file"),
        (at("boundary", []), "has no boundary"),
    ],
)
def test_a_figure_that_the_file_of_positions_denies_is_caught(
    scene: Scene, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    """Each contradiction is named by its field."""
    scene.change = change
    verdict = scene.verdict()
    assert any(finding.check == "evidence" and said in finding.text for finding in verdict.findings), verdict.lines()


@pytest.mark.parametrize("field", sorted(told.LOST_FIELDS))
def test_an_absent_field_is_caught(scene: Scene, field: str) -> None:
    """Every contracted field must be there."""
    scene.spoil = lambda evidence: evidence.pop(field)
    assert any(finding.check == "evidence" and field in finding.text for finding in scene.verdict().findings)


def test_evidence_changed_after_it_was_sealed_is_caught(scene: Scene) -> None:
    """The digest covers every byte."""
    scene.spoil = at("reason", "another")
    (finding,) = scene.verdict().findings
    assert finding.text.startswith("digest is not")


@pytest.mark.parametrize(
    ("gate", "fault"),
    [
        ("approve_data_loss", {"by": "operator"}),
        ("approve_data_loss", {"by": None}),
        ("approve_data_loss", {"by": "viewer"}),
        ("approve_data_loss", {"digest": "0" * 64}),
        ("review_translation", {"digest": "0" * 64}),
    ],
)
def test_an_approval_that_binds_nobody_is_caught(scene: Scene, gate: str, fault: dict[str, Any]) -> None:
    """The starter's own answer, nobody's, a stranger's, or one for something else."""
    scene.change = lambda evidence: next(a for a in evidence["approvals"] if a["gate"] == gate).update(fault)
    (finding,) = scene.verdict().findings
    assert finding.check == "evidence" and gate in finding.text


def test_the_starter_approves_nothing_whoever_was_expected(scene: Scene) -> None:
    """Also where any second person may have answered."""
    scene.change = lambda evidence: evidence["approvals"][0].update(by="operator")
    check = scene.check()
    check.trip.approver = None
    (finding,) = check.check(writes=False).findings
    assert "answered by 'operator'" in finding.text


def test_an_answer_to_an_earlier_question_may_stand_before_the_last(scene: Scene) -> None:
    """A gate that was asked anew has two answers; the last one must be for this plan."""
    earlier = approval("approve_data_loss", "0" * 64)
    scene.change = lambda evidence: evidence["approvals"].insert(0, earlier)
    assert scene.checks() == set()
    scene.change = lambda evidence: evidence["approvals"].append(earlier)
    assert scene.checks() == {"evidence"}


def test_a_gate_that_nobody_answered_is_caught(scene: Scene) -> None:
    """Without an approval of the loss no failover is right."""
    scene.change = at("approvals", [])
    found = {finding.text for finding in scene.verdict().findings}
    assert found == {
        "approve_data_loss was not approved by any person",
        "review_translation was not approved by any person",
    }


def test_loss_that_was_approved_must_stay_listed(scene: Scene) -> None:
    """A row of the plan that the evidence leaves out is a finding; rows may be added."""
    scene.change = at("loss", [row(4, 5), row(5, 6)])
    assert any("loss lacks a row" in finding.text for finding in scene.verdict().findings)
    scene.change = at("loss", [row(4, 6) | {"approved": {"from_offset": 3, "certain_to": 6, "possible_to": None}}])
    assert any("loss lacks a row" in finding.text for finding in scene.verdict().findings)
    scene.change = at("loss", [row(4, 5) | {"approved": {"from_offset": 4, "certain_to": 6, "possible_to": None}}])
    assert scene.checks() == set()
    scene.change = lambda evidence: evidence.update(loss=[*evidence["loss"], row(9, 9, 9)])
    assert scene.checks() == set()


def grown_row(topic: str) -> dict[str, Any]:
    """Return one loss that nobody approved."""
    now = {"from_offset": 4, "certain_to": 6, "possible_to": None}
    return {"topic": topic, "partition": 0, "approved": None, "now": now, "why": "x"}


def test_a_loss_that_has_grown_is_approved_with_the_translation(scene: Scene) -> None:
    """Then an answer that names the translation alone is none."""
    grown = [grown_row("größe")]
    scene.change = lambda evidence: evidence.update(loss_grown=grown)
    assert {finding.check for finding in scene.verdict().findings} == {"evidence"}
    both = sealed({"translation": translation_digest(scene.rows), "loss": grown})
    scene.change = lambda evidence: (evidence.update(loss_grown=grown), evidence["approvals"][1].update(digest=both))
    assert scene.checks() == set()


def test_a_loss_that_has_grown_while_nobody_was_asked_is_caught(scene: Scene) -> None:
    """Positions that are all exact open the review by themselves; a larger loss may not."""

    def unasked(evidence: dict[str, Any], more: list[dict[str, Any]]) -> None:
        at("review_translation.asked", False)(evidence)
        evidence["loss_grown"] = more
        del evidence["approvals"][1]

    scene.change = lambda evidence: unasked(evidence, [])
    assert scene.checks() == set()
    scene.change = lambda evidence: unasked(evidence, [grown_row("orders")])
    (finding,) = scene.verdict().findings
    assert finding.check == "evidence" and "review_translation asked no person" in finding.text


def test_a_row_that_contradicts_itself_is_caught(scene: Scene) -> None:
    """Exact with a bound, twice the same place."""
    scene.rows = [claim(2, 2), claim(2, 2)]
    assert scene.checks() == {"evidence"}
    assert place(scene, 2, bound=3, exact=True) == {"evidence"}


def test_the_digest_of_a_translation_follows_its_contract() -> None:
    """Columns in order, rows by group, partitions by topic and number, non-ASCII characters as they are."""
    rows = [
        claim(2, 2, group="zoo") | {"partition": 1},
        claim(1, 1, group="группа"),
        claim(0, 0, bound=None, group="a", exact=False),
    ]

    def digest_of(value: Any) -> str:
        return sha256(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()

    ordered = [[[one[name] for name in COLUMNS] for one in part] for part in ((rows[2], rows[1]), rows[:1])]
    partitions = [["orders", number, digest_of(part)] for number, part in enumerate(ordered)]
    assert translation_digest(rows) == digest_of(partitions)


# (e) Clients.


def test_clients_that_went_on_are_good(busy: Scene) -> None:
    """They read what was mirrored and what is new, and write where they are."""
    verdict = busy.verdict()
    assert verdict.passed, verdict.lines()
    assert (verdict.figures["records_consumed"], verdict.figures["new_records_consumed"]) == (4, 2)


def test_a_consumer_that_never_came_is_caught(busy: Scene) -> None:
    """Restarted means that it reads there."""
    del busy.clients.started["standby", "billing"]
    busy.there = {"billing": 2}
    assert "clients" in busy.checks()


def test_a_consumer_that_was_given_nothing_is_caught(busy: Scene) -> None:
    """A consumer that only joined reads nothing."""
    busy.clients.consumed["standby", "billing"] = {}
    busy.there = {"billing": 2}
    assert busy.checks() == {"clients"}


def test_producers_that_never_came_are_caught(busy: Scene) -> None:
    """Somebody wrote on the source; nobody does on the target."""
    busy.written, busy.there = "", {"billing": 4}
    busy.clients.acknowledged["standby"] = []
    busy.clients.consumed["standby", "billing"] = {AT: [2, 3]}
    assert busy.checks() == {"clients"}


def test_an_unread_record_that_was_given_to_nobody_is_caught(busy: Scene) -> None:
    """Neither cluster delivered it."""
    busy.clients.consumed["standby", "billing"] = {AT: [3, 4, 5]}
    assert busy.checks() == {"never delivered"}


@pytest.mark.parametrize(("late", "found"), [(GRACE_MS, set()), (GRACE_MS + 1, {"fence"})])
def test_a_write_on_the_source_after_its_death_is_caught(scene: Scene, late: int, found: set[str]) -> None:
    """An answer may be taken note of a little late; after that somebody wrote to a source that was given up."""
    scene.loads = [acked("d", 3, DIED + late)]
    assert scene.checks() == found


def test_commits_on_the_target_are_none_on_the_source(busy: Scene) -> None:
    """They are made after the source's death, and say nothing of where a group stood there."""
    busy.clients.committed["standby", "billing"] = {AT: ClientCommit(6, 6, DIED + 60_000, DIED + 90_000)}
    verdict = busy.verdict()
    assert verdict.passed, verdict.lines()
    assert verdict.figures["positions_outdated"] == 0


def test_a_commit_on_the_source_after_its_death_is_caught(scene: Scene) -> None:
    """A group is served on one side only."""
    scene.clients.committed["primary", "billing"] = {AT: ClientCommit(2, 2, DIED - 60_000, DIED + GRACE_MS + 1)}
    assert scene.checks() == {"fence"}


def test_a_record_that_nobody_wrote_above_the_boundary_is_caught(scene: Scene) -> None:
    """What was mirrored after MirrorMaker 2 was stopped, or came from nowhere, stands where only clients write."""
    scene.written = "cz"
    assert [finding.offset for finding in scene.verdict().findings if finding.check == "boundary"] == [4, 5]


def test_a_target_that_is_not_open_is_caught(scene: Scene) -> None:
    """Clients must be able to write."""
    scene.refusing = {"orders"}
    assert {finding.check for finding in scene.verdict(writes=True).findings} == {"target closed"}


def test_the_attained_rate_is_counted_from_acknowledgements(scene: Scene) -> None:
    """From the first to the last one; of a single moment there is none."""
    scene.loads = [acked(letter, offset, DIED - 4000 + 1000 * offset) for offset, letter in enumerate("abcde")]
    assert scene.verdict().figures["load_per_second"] == 1
    scene.loads = [acked("a", 0, DIED - 4000)]
    assert scene.verdict().figures["load_per_second"] == 0


# (f) The source is back.


def listed(folder: Path, records: Mapping[int, str]) -> None:
    """Write a list of stranded records."""
    write_listing(folder / "stranded", [(offset, letter, None) for offset, letter in records.items()])


@pytest.mark.parametrize(
    ("records", "offsets"),
    [
        ({4: "e", 5: "f"}, []),
        ({4: "e"}, [5]),
        ({}, [4, 5]),
        ({3: "d", 4: "e", 5: "f"}, [3]),
        ({4: "e", 5: "x"}, [5, 5]),
        ({4: "e", 5: "f", 6: "g"}, [6]),
    ],
)
def test_the_exact_list_equals_the_truth_both_ways(
    scene: Scene, tmp_path: Path, records: dict[int, str], offsets: list[int]
) -> None:
    """Nothing left out, nothing that is on the target, nothing that the source does not hold or holds otherwise."""
    listed(tmp_path, records)
    verdict = scene.check().check_returned(tmp_path)
    assert sorted(finding.offset for finding in verdict.findings) == offsets
    assert {finding.check for finding in verdict.findings} <= {"stranded"}


def test_a_stranded_record_is_named(scene: Scene, tmp_path: Path) -> None:
    """The finding carries the record's id."""
    listed(tmp_path, {4: "e"})
    assert [finding.record for finding in scene.check().check_returned(tmp_path).findings] == ["id-5"]


def test_a_stranded_record_nobody_was_told_of_may_be_listed(scene: Scene, tmp_path: Path) -> None:
    """It is on the source and not on the target: whoever decides on the list should see it."""
    scene.told = {0, 1, 2, 3, 4}
    listed(tmp_path, {4: "e", 5: "f"})
    verdict = scene.check().check_returned(tmp_path)
    assert (verdict.passed, verdict.figures["stranded_unconfirmed"]) == (True, 1)


def test_an_absent_list_and_a_foreign_partition_are_caught(scene: Scene, tmp_path: Path) -> None:
    """No list is not an empty list."""
    scene.source, scene.loss = "abcd", []
    assert len(scene.check().check_returned(tmp_path).findings) == 1
    listed(tmp_path, {})
    assert scene.check().check_returned(tmp_path).passed


@pytest.mark.parametrize(
    ("found", "check"), [(row(4, 6), set()), (row(4), set()), (row(3, 6), {"not lost"}), (row(5, 6), {"missing"})]
)
def test_what_is_lost_by_the_source_itself_is_held_against_the_truth(
    scene: Scene, tmp_path: Path, found: dict[str, Any], check: set[str]
) -> None:
    """An inventory that read the source may neither call lost what is there, nor leave anything out."""
    listed(tmp_path, {4: "e", 5: "f"})
    kinds = {name: pa.string() if name == "topic" else pa.int64() for name in found}
    pq.write_table(pa.Table.from_pylist([found], pa.schema(kinds)), tmp_path / "loss.parquet")
    verdict = scene.check().check_returned(tmp_path)
    assert {finding.check for finding in verdict.findings} == check
    assert verdict.figures["stranded_certain"] == (0 if found["certain_to"] is None else 6 - found["from_offset"])


def test_of_a_compacted_topic_the_latest_of_each_key_is_stranded(scene: Scene, tmp_path: Path) -> None:
    """All records here share one key: an older value that the target's cleaner took is nobody's loss."""
    scene.kind, scene.target = "compacted", "_b_d"
    listed(tmp_path, {5: "f"})
    assert scene.check().check_returned(tmp_path).passed


def test_recurring_contents_are_stranded_by_count(scene: Scene, tmp_path: Path) -> None:
    """With two of three equal blocks mirrored, the third is stranded."""
    scene.source, scene.target = "abcabcabc", "abcabc"
    listed(tmp_path, {6: "a", 7: "b", 8: "c"})
    assert scene.check().check_returned(tmp_path).passed


# What clients write down.


def test_client_logs_keep_the_last_commit_and_what_was_asked_for(tmp_path: Path) -> None:
    """A commit without an answer may have been taken: the highest offset asked for is kept, too."""
    events = [
        event("committed", "primary", 2, group="g", positions=[["orders", 0, 5]]),
        event("committed", "primary", 1, group="g", positions=[["orders", 0, 3]]),
        event("commit failed", "primary", 3, group="g", error="x", positions=[["orders", 0, 8], ["orders", 1, 1]]),
        event("commit failed", "primary", 4, group="g", error="x", positions=[["orders", 0, 6]]),
        event("commit failed", "primary", 5, group="g", error="x"),
    ]
    (tmp_path / "a.jsonl").write_text("".join(events))
    committed = ClientLogs.read(tmp_path).committed["primary", "g"]
    assert committed == {AT: ClientCommit(5, 8, 1, 2), ("orders", 1): ClientCommit(None, 1, 3, 3)}
