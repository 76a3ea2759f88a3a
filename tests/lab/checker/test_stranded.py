"""The check of stranded records and replays catches what is wrong with them, and passes right ones."""

from __future__ import annotations

import pytest

from lab.checker.ledger import Topic
from lab.checker.records import Held
from lab.checker.round_trip.observed import UNPLANNED
from lab.workload.ground_truth import ABORTED, content_digest
from tests.lab.checker.round_trips import digest
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
)


@pytest.mark.parametrize(
    ("export", "wrong"), [("f", "not in the export"), ("def", "on the other cluster"), ("", "not in the export")]
)
@pytest.mark.parametrize("mode", MODES)
def test_an_export_that_is_not_the_truth_is_caught(make: Make, mode: str, export: str, wrong: str) -> None:
    """One record that lacks, and one that was mirrored."""
    story = lost(make)
    story.fail_back(mode, export=export)
    found = [one for one in story.check().findings if one.check == "stranded"]
    assert found and all(wrong in one.text for one in found)


def test_an_export_of_a_topic_that_nobody_wrote_is_caught(make: Make) -> None:
    """Whatever it holds is nobody's."""
    story = lost_and_returned(make)
    story.ledger.topics.clear()
    story.trip.returned = {}
    assert [one.text for one in story.check().findings if one.check == "stranded"] == [
        "is listed, but no client wrote to such a partition"
    ]


def test_no_export_at_all_is_caught(make: Make) -> None:
    """Each stranded record is named."""
    story = lost_and_returned(make)
    story.trip.evidence["stranded"] = None
    assert [one.record for one in story.check().findings if one.check == "stranded"] == ["id-e", "id-f"]


@pytest.mark.parametrize(
    ("export", "apart", "found"),
    [
        ("f", None, set()),
        ("ef", None, {"stranded"}),
        ("ef", (), {"stranded"}),
        ("ef", (4,), set()),
        ("ef", (4, 5), {"stranded"}),
    ],
)
def test_aborted_records_are_exported_apart_or_not_at_all(
    make: Make, export: str, apart: tuple[int, ...] | None, found: set[str]
) -> None:
    """No transaction committed `e`; `f`, which one did, must not be called uncommitted."""
    story = make("identity", Topic(1, transactional=True))
    story.write("abcd")
    story.write("e", ABORTED)
    story.write("f")
    story.fail_over(UNPLANNED, 4, approver="approver")
    story.passes()
    story.fail_back(export=export)
    if apart is not None:
        story.call_uncommitted(*apart)
    assert story.checks() == found


def test_a_content_that_was_committed_once_may_be_exported(make: Make) -> None:
    """Another record of an aborted transaction looks like it: nobody can tell them apart."""
    story = make("identity", Topic(1, transactional=True))
    story.write("ba")
    story.write("a", ABORTED)
    story.fail_over(UNPLANNED, 1, approver="approver")
    story.passes()
    story.fail_back(export="a")
    assert story.checks() == set()


def test_older_records_of_no_committed_transaction_may_be_kept(make: Make) -> None:
    """They were mirrored like any others, and the other cluster dropped them."""
    story = make("identity", Topic(1, transactional=True))
    story.write("abc")
    story.write("e", ABORTED)
    story.fail_over()
    story.write("u")
    story.passes()
    for letter in "ae":
        drop(story, "standby", letter)
    story.fail_back("recreate", export="")
    story.export_older("ae")
    assert story.checks() == set()


def test_older_records_of_a_deleted_log_are_kept_beside(make: Make) -> None:
    """The other cluster had them and dropped them: before the old log is deleted they are exported, too."""
    for older, found in ((False, {"missing", "stranded"}), (True, set())):
        story = lost(make)
        story.clusters["standby"].logs[AT] = story.clusters["standby"].logs[AT][2:]
        story.fail_back("recreate", export="ef")
        if older:
            story.export_older("ab")
        assert story.checks() == found, older


def test_what_was_kept_in_place_follows_where_names_tell_whose_it_is(make: Make) -> None:
    """Under default naming the flow goes on behind what it mirrored, and positions among these are checked."""
    story = back(lost(make, "default"))
    story.passes()
    story.place("billing", 4)
    story.fail_over()
    story.write("m")
    right = story.position("billing", "standby", "primary.orders")
    assert (right, story.checks()) == (4, set())
    assert_exact_at(story, 4, "default")


def test_what_was_kept_in_place_is_not_what_looks_like_it(make: Make) -> None:
    """Under default naming the flow begins behind them: the copies are of the like records written later."""
    story = make("default")
    story.write("aaaaa")
    story.place("billing", 2)
    story.fail_over(UNPLANNED, 3, approver="approver")
    story.place("billing", 2, "primary.orders", "standby")
    story.write("u")
    story.passes()
    story.fail_back()
    story.place("billing", 2, alias="primary")
    story.copied["primary", AT] = story.clusters["primary"].end(AT)
    story.passes()
    story.write("aa")
    story.fail_over()
    story.write("m")
    assert_exact_at(story, 2, "default")


def test_of_records_that_look_alike_the_last_ones_are_stranded(make: Make) -> None:
    """Three of five were mirrored: two are due, not one and not three; positions before them stay exact."""
    for rows, found in (((3, 4), set()), ((4,), {"stranded"}), ((2, 3, 4), {"stranded"})):
        story = make()
        story.write("aaaaa")
        story.place("billing", 1)
        story.fail_over(UNPLANNED, 3, approver="approver")
        story.place("billing", 1, alias="standby")
        story.passes()
        story.write("u")
        story.fail_back()
        story.place("billing", 1, alias="primary")
        story._export([story.trip.returned[AT][offset] for offset in rows])
        assert story.checks() == found, rows


def test_what_the_old_cluster_took_later_is_due_too(make: Make) -> None:
    """It answered once more before it was fenced: that is stranded, and must be in the export."""
    story = lost(make)
    story.write("g", cluster="primary")
    story.fail_back(export="ef")
    assert [one.record for one in story.check().findings if one.check == "stranded"] == ["id-g"]


def test_a_quarantine_that_was_mirrored_counts_once(make: Make) -> None:
    """Two stranded records look alike, and one of them is in it."""
    story = make()
    story.write("ee")
    story.fail_over(UNPLANNED, 0, approver="approver")
    story.write("u")
    story.passes()
    story.fail_back("recreate")
    story.trip.evidence["stranded"] = None
    for cluster in story.clusters.values():
        cluster.logs["orders.stranded", 0] = [
            Held(0, content_digest(None, b"e"), 0, False, "primary/orders/0/0", digest("e"))
        ]
    assert len([one for one in story.check().findings if one.check == "missing"]) == 1


def test_where_mirror_maker_repeated_what_recurs_one_too_many_is_safe(make: Make) -> None:
    """Nobody can tell which copy was the repeat: it is counted, and named by nobody."""
    story = make()
    story.write("aaaaab")
    story.mirror("primary", 3)
    copy(story, "standby", "ab")
    story.fail_over(UNPLANNED, 0, crashed=True, approver="approver")
    copy(story, "standby", "b")
    story.seed("standby")
    story.trip.mirrored_until[AT] = 6
    story.amend(boundary=[{"topic": "orders", "partition": 0, "offset": 6}])
    story.passes()
    story.fail_back()
    story._export([story.trip.returned[AT][offset] for offset in (3, 4)])
    verdict = story.passes()
    assert verdict.figures["stranded_doubtful"] == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_after_a_recreate_the_export_is_the_only_place(make: Make, policy: str) -> None:
    """What it lacks is in a third place, and named as missing."""
    story = lost(make, policy)
    story.fail_back("recreate", export="e")
    missing = {one.record for one in story.check().findings if one.check == "missing"}
    assert missing == ({"id-f"} if policy == "identity" else set())


def test_the_export_counts_when_clients_leave_again(make: Make) -> None:
    """Kept in place on the returned cluster, never on the other one: after the next failover only the export has it."""
    story = back(lost(make))
    story.passes()
    story.fail_over()
    story.write("m")
    assert story.passes().figures["exported"] == 2
    story.ledger.exported.clear()
    assert {one.record for one in story.check().findings if one.check == "missing"} == {"id-e", "id-f"}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_stranded_record_is_replayed_once(make: Make, policy: str) -> None:
    """A right replay passes; none, two, and a wrong one are caught."""
    decided = {"decisions": {"orders": "replay"}, "mode": "recreate"}
    right = lost(make, policy)
    right.fail_back(**decided)
    assert right.passes().figures["replays_due"] == 2
    twice = lost(make, policy)
    twice.replay(twice.clusters["primary"].logs[AT][4])
    twice.fail_back(**decided)
    assert "replayed twice" in twice.checks()
    absent = lost(make, policy)
    absent.fail_back("recreate")
    absent.trip.decisions = decided["decisions"]
    assert [one.offset for one in absent.check().findings if one.check == "not replayed"] == [4, 5]
    wrong = lost(make, policy)
    wrong.replay(wrong.clusters["primary"].logs[AT][4]._replace(digest=digest("!")))
    wrong.fail_back("recreate")
    assert "replayed wrongly" in wrong.checks()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_no_client_was_told_to_be_kept_may_be_replayed_too(make: Make, policy: str) -> None:
    """It stood on the returned cluster, and is in the export: its content there is what the replay must have."""
    right = lost(make, policy)
    del right.ledger.periods[0].records[AT][4]
    right.fail_back(decisions={"orders": "replay"}, mode="recreate")
    assert right.passes().figures["replays_due"] == 1
    wrong = lost(make, policy)
    del wrong.ledger.periods[0].records[AT][4]
    wrong.replay(wrong.clusters["primary"].logs[AT][4]._replace(digest=digest("!")))
    wrong.fail_back("recreate")
    assert "replayed wrongly" in wrong.checks()


def test_a_replay_that_no_transaction_committed_is_none(make: Make) -> None:
    """What a killed replay left is no record; where it was mirrored as one, it is one too many."""
    story = lost(make)
    stranded = story.clusters["primary"].logs[AT][4]
    story.replay(stranded)
    aborted = story.clusters["standby"].logs[AT][-1]
    story.clusters["standby"].uncommitted.add((AT, aborted.offset))
    story.fail_back("recreate", decisions={"orders": "replay"})
    found = [one for one in story.check().findings if one.check == "replayed twice"]
    assert [one.text for one in found] == ["on primary: 2 replays of primary/orders/0/4"]


def test_a_stranded_value_that_was_written_over_is_not_replayed(make: Make) -> None:
    """Of a compacted topic: the key's later value counts; where it was not written later, its replay is due."""
    for later, due in (("k", []), ("x", [1])):
        story = make("identity", Topic(1, compacted=True))
        story.write("ab", keys="kk")
        story.fail_over(UNPLANNED, 1, approver="approver")
        story.write("u", keys=later)
        story.passes()
        story.fail_back("recreate")
        story.trip.decisions = {"orders": "replay"}
        story.trip.evidence["stranded"] = None
        story.ledger.exported.add((0, AT, 1))
        assert [one.offset for one in story.check().findings if one.check == "not replayed"] == due


def test_the_quarantine_holds_what_is_nowhere_else(make: Make) -> None:
    """A topic of its own beside the application's, by origin or by content."""
    story = lost_and_returned(make, "recreate")
    story.trip.evidence["stranded"] = None
    story.clusters["standby"].logs["orders.stranded", 0] = []
    for letter, offset in (("e", 4), ("f", 5)):
        held = Held(0, content_digest(None, letter.encode()), 0, False, f"primary/orders/0/{offset}", digest(letter))
        story.clusters["standby"].append(("orders.stranded", 0), held)
    assert "missing" not in story.checks()
    # It was mirrored: one record stands in both copies, and accounts for one.
    story.clusters["primary"].logs["orders.stranded", 0] = [story.clusters["standby"].logs["orders.stranded", 0][0]]
    story.clusters["standby"].logs["orders.stranded", 0].pop()
    assert [one.record for one in story.check().findings if one.check == "missing"] == ["id-f"]
