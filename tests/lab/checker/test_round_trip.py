"""The check of round trips catches every wrong record and position of made-up clusters, and passes right ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.checker import accounting
from lab.checker import evidence_file as told
from lab.checker.accounting import Owed
from lab.checker.client_history import ClientLogs
from lab.checker.ledger import Ledger, Names, Topic
from lab.checker.mirroring import mirroring_of
from lab.checker.readers import PROBE_DIGEST
from lab.checker.records import Held
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED, Trip
from lab.workload.ground_truth import ABORTED, COMMITTED, Acknowledgement, GroundTruth, TopicTruth, TruthRecord
from tests.lab.checker.round_trips import ALIASES, Spoil, Story, digest, event, loss_row, sealed
from tests.lab.checker.trips import (
    AT,
    MODES,
    POLICIES,
    Make,
    assert_exact_at,
    back,
    copy,
    drop,
    lost,
    lost_and_returned,
    moved,
    name_there,
    put,
    repeated,
    returned,
)

# Right ones.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [moved, lost])
def test_a_right_round_trip_passes(make: Make, first: Callable[..., Story], policy: str, mode: str) -> None:
    """After either failover, in either mode, under either policy; what is stranded is exported, and counted."""
    story = back(first(make, policy), mode)
    figures = story.passes().figures
    assert (figures["stranded_listed"], figures["missing"]) == (2 if first is lost else 0, 0)
    assert figures["records"] == 11 and figures["positions"] == figures["exact"] > 0
    assert figures["flowed_on"] == figures["written_since"] == 2


@pytest.mark.parametrize("first", [moved, lost])
def test_evidence_may_name_a_file_by_its_uri_in_a_store(make: Make, first: Callable[..., Story]) -> None:
    """A file is then in the folder that was copied from the store; an export is read from the store."""
    story = back(first(make, "identity"))
    uri, evidence = f"file://{story.trip.folder}", story.trip.evidence
    stranded = evidence["stranded"] and f"{uri}/{evidence['stranded']}"
    story.amend(positions=f"{uri}/{evidence['positions']}", stranded=stranded)
    assert story.passes().figures["stranded_listed"] == (2 if first is lost else 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_ten_right_round_trips_in_a_row_pass(make: Make, policy: str) -> None:
    """Planned and unplanned, append and recreate in turns: everything that ever was written counts until the end."""
    story = make(policy)
    story.place("billing", 0)
    letters = iter(chr(code) for code in range(33, 127))
    for trip in range(10):
        story.write("".join(next(letters) for _ in range(4)))
        story.mirror(story.now, 3)
        unplanned = trip % 2 == 1
        story.fail_over(
            UNPLANNED if unplanned else PLANNED, 0 if unplanned else None, approver="approver" if unplanned else None
        )
        story.write(next(letters))
        story.passes()
        story.fail_back(MODES[trip // 2 % 2])
        story.write(next(letters))
        story.flow_on()
        figures = story.passes().figures
        # What was kept in place is exported again before its log is deleted.
        assert (figures["stranded_listed"] > 0) == (unplanned or (policy == "identity" and trip in (2, 6)))
    assert figures["records"] == 60


@pytest.mark.parametrize("policy", POLICIES)
def test_what_flows_back_before_the_failback_is_right(make: Make, policy: str) -> None:
    """A planned failover's old source takes the new records at once, and they are no loop."""
    story = make(policy)
    story.write("abc")
    story.fail_over()
    story.write("uv")
    story.flow_on()
    story.passes()
    back(story).passes()


def test_positions_on_what_had_flowed_back_before_are_judged(make: Make) -> None:
    """A group that has not read it stands before it on the returned cluster, and nowhere else."""
    story = make()
    story.write("abc")
    story.place("billing", 3)
    story.fail_over()
    story.write("uv")
    story.flow_on()
    story.passes()
    story.fail_back()
    story.write("X")
    assert_exact_at(story, 3)


# Records.


@pytest.mark.parametrize("policy", POLICIES)
def test_a_skipped_record_is_named(make: Make, policy: str) -> None:
    """Acknowledged where clients were, and not where they are."""
    story = returned(make, policy)
    drop(story, "primary", "v")
    (finding,) = [one for one in story.check().findings if one.check == "missing"]
    assert (finding.record, finding.offset, finding.topic) == ("id-v", 1 if policy == "default" else 7, "orders")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_record_from_before_the_first_trip_counts_until_the_end(make: Make, policy: str) -> None:
    """It was there after every earlier trip."""
    story = returned(make, policy)
    story.passes()
    story.fail_over()
    drop(story, "standby", "b")
    assert "id-b" in {one.record for one in story.check().findings if one.check == "missing"}


def test_repeats_hide_no_missing_record(make: Make) -> None:
    """Where records look alike, one that stands where it was written vouches for itself only."""
    owed = [Owed(0, "primary", TruthRecord(offset, 7, None, 0, False, 0), True) for offset in range(3)]
    held = [Held(offset, 7, 0, False) for offset in (0, 1)]
    assert [one.record.offset for one in accounting.unaccounted_records(owed, AT, "primary", held, set(), [])] == [2]
    assert accounting.unaccounted_records(owed, AT, "primary", held, {2}, []) == []
    assert accounting.unaccounted_records(owed, AT, "primary", held, set(), [7]) == []
    assert len(accounting.unaccounted_records(owed, AT, "primary", held, {1}, [])) == 1


@pytest.mark.parametrize("offset", [0, 5])
def test_an_exported_record_of_a_log_made_anew_takes_no_others_copy(offset: int) -> None:
    """Of two alike one is exported; the other's copy stands in the new log, perhaps where the first one stood."""
    owed = [Owed(0, "primary", TruthRecord(number, 7, None, 0, False, 0), False) for number in range(2)]
    assert accounting.unaccounted_records(owed, AT, "primary", [Held(offset, 7, 0, False)], {0}, []) == []
    in_place = [owed[0]._replace(in_place=True), owed[1]]
    assert accounting.unaccounted_records(in_place, AT, "primary", [Held(offset, 7, 0, False)], {0}, []) == (
        [owed[1]] if offset == 0 else []
    )


def test_a_replay_vouches_for_the_record_that_it_names(make: Make) -> None:
    """Not for another one with the same content, nor where its content was changed."""
    owed = [Owed(0, "primary", TruthRecord(offset, 7, None, 0, False, 0), False) for offset in (4, 5)]
    replays = [Held(9, 99, 0, False, "primary/orders/0/5", 7)]
    assert [one.record.offset for one in accounting.unaccounted_records(owed, AT, "standby", replays, set(), [])] == [4]
    changed = [replays[0]._replace(original=8)]
    assert len(accounting.unaccounted_records(owed, AT, "standby", changed, set(), [])) == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_the_original_flow_copying_all_again_is_caught(make: Make, policy: str) -> None:
    """After the failback it begins at the beginning, instead of where clients came back."""
    story = returned(make, policy)
    place = name_there(story, "standby")
    copy(story, "standby", "abc", place)
    verdict = story.check()
    assert {one.check for one in verdict.findings} == {"copied again"}
    assert [one.record for one in verdict.findings] == ["id-a", "id-b", "id-c"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_flow_back_copying_all_again_is_caught(make: Make, policy: str) -> None:
    """What came from the returned cluster comes back to it, or comes to it a second time."""
    story = lost(make, policy)
    story.fail_back()
    place = AT if policy == "identity" else story.names.counterpart(("standby", AT))[1]
    copy(story, "primary", "ab" if policy == "identity" else "u", place)
    expected = {"looped"} if policy == "identity" else {"mirrored twice"}
    assert expected <= story.checks()


def test_a_stranded_record_that_is_mirrored_after_all_is_caught(make: Make) -> None:
    """It was written before the flow began anew: nobody decided that it goes there."""
    story = back(lost(make))
    copy(story, "standby", "e")
    (finding,) = [one for one in story.check().findings if one.check == "late"]
    assert finding.record == "id-e"


def test_a_repeat_is_somebodys_fault_unless_mirror_maker_was_killed(make: Make) -> None:
    """MirrorMaker 2's own repeats after a crash are counted apart, and once."""
    for crashed, found in ((False, {"mirrored twice"}), (True, set())):
        story = repeated(make, crashed)
        story.write("u")
        assert story.checks() == found
        assert story.check().figures["repeats"] == 3
    story.fail_back()
    story.write("X")
    story.passes()


def test_a_repeat_of_what_both_clusters_wrote_is_somebodys_fault_unless_mirror_maker_was_killed(make: Make) -> None:
    """The flow back was killed, and copies records again that look like some that were written here."""
    for crashed, found in ((False, {"mirrored twice"}), (True, set())):
        story = make()
        story.write("abcd")
        story.fail_over()
        story.write("cd")
        story.mirror("standby")
        copy(story, "primary", "cd")
        story.fail_over(crashed=crashed)
        assert story.checks() == found
        assert story.check().figures["repeats"] == 2


def test_a_log_made_anew_from_one_with_repeats_has_them_too(make: Make) -> None:
    """Mirrored whole means with MirrorMaker 2's repeats: nothing looped; one copy more did."""
    story = repeated(make)
    story.write("u")
    story.passes()
    story.fail_back("recreate")
    story.write("X")
    story.passes()
    copy(story, "primary", "b")
    assert "looped" in story.checks()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_record_of_nobody_is_a_stranger(make: Make, policy: str) -> None:
    """On the target below the boundary, and never held by the source."""
    story = moved(make, policy)
    copy(story, "primary", "?", AT if policy == "identity" else ("standby.orders", 0))
    story.fail_over(PLANNED)
    story.write("X")
    assert story.checks() == {"stranger"}


@pytest.mark.parametrize("policy", POLICIES)
def test_an_append_that_lost_the_old_log_is_caught(make: Make, policy: str) -> None:
    """In append mode the old log stays as it was, also where all of its records are elsewhere."""
    story = returned(make, policy)
    log = story.clusters["primary"].logs[AT]
    log[0], log[1] = log[0]._replace(digest=log[1].digest), log[1]._replace(digest=log[0].digest)
    assert "log changed" in story.checks()


def test_an_append_that_made_the_log_anew_is_caught(make: Make) -> None:
    """No offset holds another record, and yet the log ends too early."""
    story = moved(make)
    story.fail_back()
    cut = story.clusters["primary"].logs[AT]
    story.clusters["primary"].logs[AT], story.clusters["primary"].log_ends[AT] = cut[:4], 4
    texts = {one.text for one in story.check().findings if one.check == "log changed"}
    assert texts == {"does not have the same records as when the cluster returned"}


def end_boundary_at(story: Story, offset: int) -> None:
    """Let the evidence have one row of boundary."""
    story.trip.evidence["boundary"] = [{"topic": "orders", "partition": 0, "offset": offset}]


def mirror_late(story: Story) -> None:
    """The old flow still wrote when clients did."""
    story.write("abcd")
    story.fail_over()
    end_boundary_at(story, 3)
    story.write("u")


def change_old_record(story: Story) -> None:
    """An offset that was acknowledged two trips before holds something else."""
    story.fail_over()
    story.write("m")
    story.passes()
    story.clusters["standby"].logs[AT][7] = story.clusters["standby"].logs[AT][7]._replace(digest=digest("!"))


def grow_one_side(story: Story) -> None:
    """Add a partition where clients are, and return."""
    story.clusters["standby"].logs["orders", 1] = []
    story.clusters["standby"].partitions = lambda: {"orders": 2}
    story.fail_back()


def swap_exported(story: Story) -> None:
    """Let two exported records have each other's content: the offset alone proves nothing."""
    held = story.trip.returned[AT]
    held[4], held[5] = held[4]._replace(digest=digest("f")), held[5]._replace(digest=digest("e"))


def drop_step(story: Story) -> None:
    """Let the evidence of a failback lack the search for stranded records."""
    steps = [step for step in story.trip.evidence["steps"] if step["id"] != "find_stranded_records"]
    story.trip.evidence["steps"] = steps


def die_before(story: Story) -> None:
    """Let the source have died before everything."""
    story.trip.died_at = 1


EARLY = "1970-01-01T00:00:00+00:00"
WRONG: dict[str, tuple[Callable[[Make], Story], Spoil, str]] = {
    "both flows run, and a record loops": (returned, lambda story: copy(story, "primary", "XY"), "looped"),
    "a mirrored record above the boundary": (lambda make: make(), mirror_late, "boundary"),
    "clients wrote before the target was open": (moved, lambda story: end_boundary_at(story, 7), "boundary"),
    "an old record changed": (returned, change_old_record, "log changed"),
    "a topic grew on one side": (moved, grow_one_side, "topic"),
    "a write at the cut-off": (moved, lambda story: story.write("g", cluster="primary"), "fence"),
    "a write after the fence": (moved, lambda story: story.trip.evidence.update(fenced_at=EARLY), "fence"),
    "a write after the death": (lost, die_before, "fence"),
    "an exported record with another content": (lost_and_returned, swap_exported, "stranded"),
    "evidence without a boundary": (returned, lambda story: story.trip.evidence.pop("boundary"), "evidence"),
}


@pytest.mark.parametrize(("story", "spoil", "check"), WRONG.values(), ids=WRONG)
def test_whatever_is_wrong_with_a_trip_is_caught(
    make: Make, story: Callable[[Make], Story], spoil: Spoil, check: str
) -> None:
    """By a check of its own."""
    told_of = story(make)
    spoil(told_of)
    assert check in told_of.checks()


ONLY: dict[str, tuple[Callable[[Make], Story], Spoil, str]] = {
    "a group without a position": (
        returned,
        lambda story: story.clusters["primary"].committed["billing"].clear(),
        "group missing",
    ),
    "no position on what clients write": (
        lambda make: moved(make, "default"),
        lambda story: story.clusters["standby"].committed["billing"].pop(AT),
        "local position",
    ),
    "kept in place, and not exported": (
        lambda make: lost_and_returned(make, export="e"),
        lambda story: None,
        "stranded",
    ),
    "another outcome": (returned, lambda story: story.trip.evidence.update(outcome="returned"), "evidence"),
    "another procedure": (returned, lambda story: story.trip.evidence.update(dag_id=PLANNED), "evidence"),
    "a step less": (returned, drop_step, "evidence"),
}


@pytest.mark.parametrize(("story", "spoil", "check"), ONLY.values(), ids=ONLY)
def test_what_is_wrong_with_a_trip_is_caught_by_one_check(
    make: Make, story: Callable[[Make], Story], spoil: Spoil, check: str
) -> None:
    """No other check finds anything."""
    told_of = story(make)
    spoil(told_of)
    assert told_of.checks() == {check}


# One planned failover, checked alone.


def planned(make: Make, policy: str = "identity", before: Spoil = lambda story: None) -> Story:
    """Clients went over for the first time; where they may write is as it should be."""
    story = make(policy)
    story.write("abcdef")
    story.place("billing", 2)
    before(story)
    story.fail_over(approver="approver", placed={"billing": {AT: 2}})
    story.write("uvw")
    story.clusters["primary"].refusing = {"orders"}
    story.clusters["standby"].refusing = set() if policy == "identity" else {"primary.orders"}
    return story


def ends(story: Story, which: str, topic: str, offset: int) -> None:
    """Let the evidence tell another cut-off or boundary."""
    for row in story.trip.evidence[which]:
        row["offset"] = offset if row["topic"] == topic else row["offset"]


def tell_loss(story: Story) -> None:
    """Let the evidence tell a loss as if clients were returning to a log that retention had cut."""
    loss = {"topic": "orders", "partition": 0, "from_offset": 0, "certain_to": 1, "possible_to": 1}
    loss |= {"records": 1, "reason": "below the target's log start"}
    story.amend(loss=[loss])
    story.clusters["standby"].log_starts[AT] = 1


def step_of(story: Story, **changes: str) -> None:
    """Let the evidence tell another story of a step."""
    story.trip.evidence["steps"][3] |= changes


@pytest.mark.parametrize("policy", POLICIES)
def test_a_right_planned_failover_passes(make: Make, policy: str) -> None:
    """Also where the check had tried to write before, and where evidence is told in other letters than English ones."""
    story = planned(make, policy)
    plan = {"groups": {"größe": 1}}
    story.amend(plan=plan, plan_digest=sealed(plan))
    for place in (AT, story.names.counterpart(("primary", AT))[1]):
        story.clusters["standby"].append(place, Held(0, PROBE_DIGEST, 0, False))
    verdict = story.check(writes=True)
    assert verdict.passed, verdict.lines()
    assert verdict.figures["positions"] == verdict.figures["exact"] == 1
    assert (verdict.figures["acknowledged_by_load"], verdict.figures["acknowledged_by_clients"]) == (6, 0)


STRANGE = Held(0, digest("?"), 0, False, "standby/orders/0/0", digest("a"))
SPOILT: list[tuple[str, Spoil, str, str]] = [
    ("identity", lambda story: story.clusters["primary"].logs.clear(), "topic", "is gone from the source"),
    ("identity", lambda story: story.place("billing", 3, alias="primary"), "source position", "on the source now 3"),
    ("identity", lambda story: story.clusters["primary"].committed.clear(), "source position",
     "on the source now None"),
    ("default", lambda story: story.place("billing", 3, alias="standby"), "local position", "local topic must be 0"),
    ("identity", lambda story: story.clusters["primary"].refusing.clear(), "source open", "orders (accepted)"),
    ("identity", lambda story: story.clusters["standby"].refusing.add("orders"), "target closed", "orders (TOPIC"),
    ("default", lambda story: story.clusters["standby"].refusing.clear(), "mirror open", "accepts a producer's write"),
    ("identity", lambda story: ends(story, "cut_off", "orders", 7), "evidence", "cut_off in the evidence is 7"),
    ("default", lambda story: ends(story, "boundary", "primary.orders", 7), "evidence",
     "boundary in the evidence is 7"),
    ("identity", lambda story: story.trip.evidence["boundary"].clear(), "evidence", "has no boundary"),
    ("identity", lambda story: story.amend(classes={}), "evidence", "fewer than the 1 positions"),
    ("identity", lambda story: story.amend(rereads={"bound": None}), "evidence", "re-reads bound is None"),
    ("identity", lambda story: put(story, 1), "evidence", "one position would read 1 records again"),
    ("identity", tell_loss, "evidence", "loss is ["),
    ("identity", lambda story: story.amend(outcome="returned"), "evidence", "outcome is 'returned'"),
    ("identity", lambda story: story.amend(source="standby"), "evidence", "source is 'standby'"),
    ("identity", lambda story: story.amend(approvals=[{"user": "operator"}]), "evidence", "do not name approver"),
    ("identity", lambda story: story.amend(plan={"target": "elsewhere"}), "evidence", "plan_digest"),
    ("identity", lambda story: story.amend(positions="/nowhere/positions.parquet"), "evidence", "no positions file"),
    ("identity", lambda story: story.amend(positions="s3://a/other/positions.parquet"), "evidence",
     "no positions file"),
    ("identity", lambda story: story.amend(seconds={"own": 1, "drain": 1}), "evidence", "seconds.people"),
    ("identity", lambda story: story.amend(steps=[]), "evidence", "open_procedure"),
    ("identity", lambda story: step_of(story, state="failed"), "evidence", "failed although the outcome is completed"),
    ("identity", lambda story: step_of(story, ended_at="2026-11-20T00:00:00Z"), "evidence", "ended before it started"),
    *[
        ("identity", lambda story, name=name: story.trip.evidence.pop(name), "evidence", f"field {name} is absent")
        for name in sorted(told.FIELDS)
    ],
]  # fmt: skip


@pytest.mark.parametrize(("policy", "spoil", "check", "said"), SPOILT)
def test_whatever_is_wrong_with_a_planned_failover_is_caught(
    make: Make, policy: str, spoil: Spoil, check: str, said: str
) -> None:
    """Each is named by its check, in words that tell it from the others."""
    story = planned(make, policy)
    spoil(story)
    findings = story.check(writes=True).findings
    assert any(one.check == check and said in one.text for one in findings), findings


def test_a_replay_of_what_nobody_exported_is_a_stranger(make: Make) -> None:
    """Below the boundary, though its header names a record."""
    story = planned(make, before=lambda story: story.mirror("primary") or story.clusters["standby"].append(AT, STRANGE))
    assert "stranger" in story.checks()


@pytest.mark.parametrize(("given", "skipped"), [((0, 1, 2), []), ((0, 2), [1])])
def test_under_default_naming_new_records_stand_beside_the_copies(
    make: Make, tmp_path: Path, given: tuple[int, ...], skipped: list[int]
) -> None:
    """What clients write after the failover reaches the groups, or is named."""
    story = planned(make, "default", before=lambda story: story.place("readers", 6))
    lines = [event("started", "primary", 0, positions=[["orders", 0, 6]])]
    lines += [event("started", "standby", story.at, positions=[["primary.orders", 0, 6], ["orders", 0, 0]])]
    lines += [event("consumed", "standby", story.at, offset=offset) for offset in given]
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "c.jsonl").write_text("".join(lines))
    story.ledger.take_clients(tmp_path / "clients")
    story.place("readers", 3, alias="standby")
    verdict = story.check()
    assert [(one.check, one.offset) for one in verdict.findings] == [("never delivered", offset) for offset in skipped]
    assert verdict.figures["new_records_consumed"] == 3


# Mirroring, on one log.


def test_records_of_two_periods_that_look_alike_are_counted_only() -> None:
    """Nobody can say of which period one is; one too many is found all the same."""
    origins = {7: [(0, "primary"), (2, "primary")], 8: [(1, "standby")]}
    assert mirroring_of([(0, 7), (1, 8), (2, 7)], "standby", origins).late == []
    assert mirroring_of([(0, 7), (1, 8), (2, 7), (3, 7)], "standby", origins).repeats == [3]
    assert mirroring_of([(0, 7), (1, 8), (2, 7), (3, 7)], "primary", origins).looped == [3]


def test_one_too_many_of_what_both_clusters_wrote_is_a_repeat() -> None:
    """A killed MirrorMaker 2 may mirror the other cluster's again; without a kill it is a finding."""
    origins = {7: [(0, "primary"), (1, "standby")]}
    assert (
        mirroring_of([(0, 7), (1, 7)], "primary", origins)
        == mirroring_of([(0, 7), (1, 7)], "standby", origins)
        == ([], [], [], [], [], [])
    )
    found = mirroring_of([(0, 7), (1, 7), (2, 7)], "primary", origins)
    assert (found.looped, found.repeats) == ([], [2])


def test_what_nobody_was_told_of_is_unknown_once_and_a_repeat_after() -> None:
    """A dead cluster's answers died with it; a second copy is no answer."""
    found = mirroring_of([(0, 5), (1, 5)], "standby", {})
    assert (found.unknown, found.repeats) == ([0], [1])


# The export.


# Replays and the quarantine.


@pytest.mark.parametrize(
    ("topic", "decided"), [("orders", "replay"), ("metrics.cpu", "discard"), ("other", "quarantine")]
)
def test_a_topics_own_name_goes_before_expressions(topic: str, decided: str) -> None:
    """And `.*` counts last."""
    decisions = {".*": "quarantine", "metrics.*": "discard", "orders": "replay"}
    assert Trip(1, FAILBACK, "standby", "primary", {}, decisions=decisions).decision(topic) == decided
    assert Trip(1, FAILBACK, "standby", "primary", {}).decision(topic) == "keep"


# Compacted topics.


def test_of_compacted_topics_the_latest_value_of_each_key_counts(make: Make) -> None:
    """Older values may be gone; the latest may not, and no older one may stand for it."""
    story = make("identity", Topic(1, compacted=True))
    story.write("abc", keys="kkx")
    story.fail_over()
    story.write("u", keys="k")
    story.passes()
    story.fail_back()
    story.write("X", keys="y")
    story.passes()
    log = story.clusters["primary"].logs[AT]
    story.clusters["primary"].logs[AT] = [one for one in log if one.digest not in (digest("a", "k"), digest("b", "k"))]
    story.passes()
    story.clusters["primary"].logs[AT] = [one for one in log if one.digest != digest("u", "k")]
    assert [one.record for one in story.check().findings if one.check == "missing"] == ["id-u"]


def test_an_exported_value_lets_the_one_before_it_stand() -> None:
    """The latest was stranded and is in the export; what was before it must still be there."""
    records = [TruthRecord(offset, digest(letter), None, 1, False, 0) for offset, letter in enumerate("ab")]
    owed = [Owed(0, "primary", record, True) for record in records]
    assert accounting.stale_keys(owed, [Held(0, digest("a"), 1, False)], {1}) == []
    assert accounting.stale_keys(owed, [Held(0, digest("a"), 1, False)], set()) == [owed[1]]
    assert accounting.stale_keys(owed, [], {1}) == [owed[0]]


# Positions.


# Clients, flows, rights.


# Evidence.


def test_what_the_old_cluster_deleted_itself_is_a_loss_that_may_be_told(make: Make) -> None:
    """It is as many records as the log dropped below its start, and no other loss."""
    below, elsewhere = "below the target's log start", "not on the target"
    for start, reason, checks in ((0, below, {"evidence"}), (2, below, set()), (2, elsewhere, {"evidence"})):
        story = returned(make)
        story.clusters["primary"].log_starts[AT] = start
        story.amend(loss=[loss_row(0, 2, 2) | {"records": 2, "reason": reason}])
        assert story.checks() == checks


def test_a_loss_that_is_not_listed_is_in_a_third_place(make: Make) -> None:
    """Until the source is back, what it did not give away must be listed as lost."""
    story = lost(make)
    story.trip.evidence["loss"] = []
    assert {one.record for one in story.check().findings if one.check == "missing"} == {"id-e", "id-f"}


# The ledger.


def test_what_clients_wrote_belongs_to_the_period_of_their_cluster(tmp_path: Path) -> None:
    """By cluster and moment: an answer that came late belongs to where it came from."""
    ledger = Ledger("primary", Names(ALIASES), 100)
    ledger.turn("standby", 200)
    ledger.turn("primary", 300)
    rows = [("primary", 150, 0), ("standby", 250, 0), ("primary", 260, 1), ("primary", 310, 2)]
    lines = [event("acknowledged", cluster, at, offset=n, digest=at, id=f"r{at}") for cluster, at, n in rows]
    (tmp_path / "c.jsonl").write_text("".join(lines))
    ledger.take_clients(tmp_path)
    ledger.take_clients(tmp_path)
    committed = [[(r.offset, r.digest) for r in period.committed(AT)] for period in ledger.periods]
    assert committed == [[(0, 150), (1, 260)], [(0, 250)], [(2, 310)]]
    assert [sorted(period.acknowledged) for period in ledger.periods] == [[(AT, 0), (AT, 1)], [(AT, 0)], [(AT, 2)]]


@pytest.mark.parametrize("anew", [False, True])
def test_a_truth_that_is_taken_in_again_adds_what_is_new(anew: bool) -> None:
    """What a workload wrote since; and in a log made anew the same offset and content again."""
    first, more = TruthRecord(0, 5, "a", 0, False, 0), TruthRecord(1, 6, "b", 0, False, 0)
    topic = TopicTruth("orders", "plain", 1, records={0: [first]})
    ledger = Ledger("primary", Names(ALIASES))
    ledger.take_truth(GroundTruth(1, "primary", {"orders": topic}))
    ledger.turn("standby", 1)
    ledger.turn("primary", 2)
    if anew:
        ledger.record_recreation(("primary", AT), [])
    else:
        topic.records[0].append(more)
    ledger.take_truth(GroundTruth(1, "primary", {"orders": topic}))
    assert [period.written(AT) for period in ledger.periods] == [[first], [], [first if anew else more]]


def test_an_exported_record_is_the_one_that_was_written_there_or_just_a_content() -> None:
    """Offset and content both, or it vouches for its content only."""
    ledger = Ledger("primary", Names(ALIASES))
    ledger.take_loads([Acknowledgement("orders", 0, offset, 7, "l", 5) for offset in (0, 1)], {"orders": 1}, 0)
    ledger.take_export("primary", 0, {AT: {0: 7, 1: 8, 2: 9}})
    assert ledger.exported == {(0, AT, 0)} and dict(ledger.exported_copies[AT]) == {8: 1, 9: 1}


def test_loads_are_taken_into_the_period_that_is_named() -> None:
    """A producer that goes on knocking at the old cluster is asked when it has ended."""
    ledger = Ledger("primary", Names(ALIASES))
    ledger.turn("standby", 9)
    ledger.take_loads([Acknowledgement("load", 0, 3, 7, "l", 5)], {"load": 2}, 0)
    assert [record.offset for record in ledger.periods[0].committed(("load", 0))] == [3]
    assert ledger.topics["load"].partitions == 2 and ledger.now.records == {}


@pytest.mark.parametrize(
    ("policy", "log", "counterpart", "written_on"),
    [
        ("identity", ("primary", ("orders", 1)), ("standby", ("orders", 1)), ALIASES),
        ("default", ("primary", ("orders", 1)), ("standby", ("primary.orders", 1)), ("primary",)),
        ("default", ("standby", ("primary.orders", 1)), ("primary", ("orders", 1)), ("primary",)),
        ("default", ("primary", ("standby.orders", 1)), ("standby", ("orders", 1)), ("standby",)),
        ("default", ("standby", ("ho.orders-eu.v1", 0)), ("primary", ("standby.ho.orders-eu.v1", 0)), ("standby",)),
    ],
)
def test_logs_of_one_topic_find_each_other(
    policy: str, log: tuple[str, tuple[str, int]], counterpart: tuple[str, tuple[str, int]], written_on: tuple[str, ...]
) -> None:
    """There and back, under both policies; a name is no mirrored one unless it begins with an alias."""
    names = Names(ALIASES, policy)
    assert names.counterpart(log) == counterpart and names.counterpart(counterpart) == log
    assert names.written_on(log) == names.written_on(counterpart) == written_on
    assert log[1][0] in names.names_on(log[0], names.local(log[1][0]))


def test_client_logs_are_made_of_events() -> None:
    """Also of those of one period only."""
    assert ClientLogs.of([]).groups() == set()
    assert COMMITTED != ABORTED
