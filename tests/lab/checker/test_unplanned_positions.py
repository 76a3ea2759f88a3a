"""The check of positions without the source catches what is wrong with them, and passes right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.checker.client_history import ClientCommit
from lab.checker.unplanned_check import RECENT_MS
from tests.lab.checker.round_trips import loss_row as row
from tests.lab.checker.round_trips import sealed
from tests.lab.checker.unplanned_scene import AT, DIED, Scene, acked, claim


def place(scene: Scene, target_position: int, **spoilt: Any) -> set[str]:
    """Put the group somewhere, in the file and on the target alike."""
    scene.rows = [claim(2, target_position, **spoilt)]
    return scene.checks()


def test_one_ahead_skips(scene: Scene) -> None:
    """The group's first unread record is on the target below its position: named."""
    scene.rows = [claim(2, 3)]
    (finding,) = scene.verdict().findings
    assert (finding.check, finding.group, finding.record, finding.offset) == ("skipped", "billing", "id-2", 3)


def test_rereads_up_to_the_bound_are_announced(scene: Scene) -> None:
    """Two behind with a bound of two is good; with a bound of one, or called exact, it is not."""
    assert place(scene, 0, bound=2) == set()
    assert place(scene, 0, bound=1) == {"bound"}
    assert place(scene, 0, bound=0) == {"not exact"}
    assert place(scene, 0, bound=2, exact=True) == {"not exact", "evidence"}
    assert place(scene, 0, bound=None) == set()


def test_repeats_on_the_target_move_the_position_to_the_last_copy(scene: Scene) -> None:
    """After MirrorMaker 2 began anew, unread records count by their last copy, and its repeats are no re-reads."""
    scene.target = "abcdbcd"
    assert place(scene, 5) == set()
    assert place(scene, 6) == {"skipped"}
    assert place(scene, 4) == {"not exact"}
    assert place(scene, 1, bound=2) == set()
    assert place(scene, 1, bound=1) == {"bound"}


def test_recurring_contents_are_counted_over_the_mirrored_part_only(scene: Scene) -> None:
    """With the last block lost, the copies on the target belong to the first two blocks."""
    scene.source, scene.target, scene.loss, scene.committed = "abcabcabc", "abcabc", [row(6, 9)], {"billing": 4}
    for target_position, found in ((4, set()), (5, {"skipped"}), (1, {"not exact"})):
        scene.rows = [claim(4, target_position)]
        assert scene.checks() == found


def test_a_group_beyond_what_was_mirrored_stands_at_the_end(scene: Scene) -> None:
    """A group that had read what is lost belongs at the boundary; above it clients' new records would be skipped."""
    scene.committed = {"billing": 6}
    for target_position, found in ((4, set()), (5, {"skipped"}), (3, {"not exact"})):
        scene.rows = [claim(6, target_position, kind="END")]
        assert scene.checks() == found


def test_records_nobody_was_told_of_are_not_skipped_either(scene: Scene) -> None:
    """An unread record on the target counts whether or not its producer heard of it."""
    scene.loads, scene.told, scene.source, scene.target, scene.loss = [acked("a", 0)], {0, 1}, "abcd", "abcd", []
    assert place(scene, 3) == {"skipped"}


def test_a_position_older_than_the_last_commit_is_judged_as_recorded(scene: Scene) -> None:
    """Re-reads count from the recorded position, skipping from the last commit, and the age is told."""
    commit = ClientCommit(3, 3, DIED - 60_000, DIED - 1000)
    scene.clients.committed["primary", "billing"] = {AT: commit}
    scene.rows = [claim(2, 2)]
    verdict = scene.verdict()
    assert verdict.passed, verdict.lines()
    assert (verdict.figures["positions_outdated"], verdict.figures["oldest_outdated_ms"]) == (1, 4000)
    assert place(scene, 3) == set()
    assert place(scene, 4) == {"skipped"}
    assert place(scene, 1) == {"not exact"}


def test_a_recorded_position_that_was_never_committed_is_caught(scene: Scene) -> None:
    """The product may know less than the truth, never more."""
    scene.rows = [claim(3, 3)]
    assert scene.checks() == {"recorded position", "skipped"}


def test_a_commit_whose_answer_was_lost_may_have_been_recorded(scene: Scene) -> None:
    """What the group asked for may have been committed: then it counts as its position."""
    scene.clients.committed["primary", "billing"] = {AT: ClientCommit(None, 3, DIED - 100, DIED - 100)}
    scene.rows = [claim(3, 3)]
    assert scene.checks() == set()
    scene.rows = [claim(2, 3)]
    assert scene.checks() == {"skipped"}


def test_a_position_that_the_target_does_not_hold_is_caught(scene: Scene) -> None:
    """What stands on the target counts, not the file: a position is named even where its bound allows it."""
    scene.rows, scene.there = [claim(2, 0, bound=2)], {"billing": 1}
    (finding,) = scene.verdict().findings
    assert (finding.check, finding.group) == ("position", "billing")
    scene.there = {}
    assert scene.checks() == {"group missing"}


def test_a_group_without_a_row_is_caught(scene: Scene) -> None:
    """Every committed position is known, unless nothing recorded it, or it was committed just before the end."""
    scene.rows = [claim(2, 2, group="others")]
    scene.there = {"billing": 2}
    assert scene.checks() == {"group missing"}
    scene.there = {}
    assert scene.checks() == {"group missing"}
    scene.more = {"recorded": False}
    assert (scene.checks(), scene.verdict().figures["positions_unknown"]) == (set(), 1)


@pytest.mark.parametrize(("before", "found"), [(RECENT_MS - 1, set()), (RECENT_MS + 1, {"group missing"})])
def test_a_first_commit_just_before_the_end_need_not_be_known(scene: Scene, before: int, found: set[str]) -> None:
    """No sample may have seen it; one that is older must be known."""
    scene.clients.committed["primary", "late"] = {AT: ClientCommit(1, 1, DIED - before, DIED - 100)}
    assert scene.checks() == found


def test_a_refused_position_stands_nowhere(scene: Scene) -> None:
    """What a person must decide on has no position on the target."""
    scene.rows = [claim(2, None, bound=None, kind="REFUSED", mirror_maker_rereads=None)]
    assert scene.checks() == set()
    scene.there = {"billing": 2}
    assert scene.checks() == {"never committed"}


@pytest.mark.parametrize(("at", "found"), [(0, set()), (1, {"never committed"})])
def test_a_refused_position_begins_on_the_local_topic(scene: Scene, at: int, found: set[str]) -> None:
    """What clients write under default naming is read from its beginning, and from nowhere else."""
    scene.policy, scene.rows = "default", [claim(2, None, bound=None, kind="REFUSED", mirror_maker_rereads=None)]
    check = scene.check()
    check.seen.target.committed["billing"] = {AT: at}
    assert {finding.check for finding in check.check(writes=False).findings} == found


def test_a_group_must_stand_at_zero_on_local_topics(scene: Scene) -> None:
    """Under default naming clients write elsewhere than where they read the past."""
    scene.policy = "default"
    check = scene.check()
    del check.seen.target.committed["billing"][AT]
    assert {finding.check for finding in check.check(writes=False).findings} == {"local position"}


def test_default_naming_finds_the_same(scene: Scene) -> None:
    """Positions are checked on the mirrored topic, losses by the source's name."""
    scene.policy, scene.rows, scene.loss = "default", [claim(2, 3)], [row(3, 5, 5)]
    found = {(finding.check, finding.topic) for finding in scene.verdict().findings}
    assert found == {("skipped", "primary.orders"), ("not lost", "orders"), ("missing", "orders")}


def test_a_position_below_the_log_start_is_out_of_range(scene: Scene) -> None:
    """A consumer there falls to its reset policy, whatever the bound allows."""
    scene.rows = [claim(2, 1, bound=1)]
    check = scene.check()
    check.seen.target.log_starts[AT] = 2
    assert {finding.check for finding in check.check(writes=False).findings} == {"out of range"}


def test_a_bound_beyond_one_sampling_interval_is_caught(scene: Scene) -> None:
    """With a recorder, no position may be vaguer than what was mirrored between two samples."""
    scene.more = {"mirrored_in_interval": {AT: 2}}
    assert place(scene, 0, bound=2) == set()
    assert place(scene, 0, bound=3) == {"interval"}
    assert place(scene, 0, bound=None) == {"interval"}
    assert place(scene, 2) == set()


def told_before(bound: int | None) -> Callable[[dict[str, Any]], None]:
    """Return what has the approved plan tell a group's bound."""

    def change(evidence: dict[str, Any]) -> None:
        evidence["plan"]["groups"] = [{"group": "billing", "rereads": bound}]
        evidence["plan_digest"] = sealed(evidence["plan"])
        evidence["approvals"][0]["digest"] = evidence["plan_digest"]

    return change


@pytest.mark.parametrize(("bound", "found"), [(1, {"approved bound"}), (2, set()), (None, set())])
def test_more_read_again_than_was_told_before_the_approval_is_caught(
    scene: Scene, bound: int | None, found: set[str]
) -> None:
    """What the review says later takes nothing back; a bound that nobody told binds nobody."""
    scene.change = told_before(bound)
    assert place(scene, 0, bound=2) == found


@pytest.mark.parametrize(("told", "found"), [(2, set()), (3, {"approved interval"}), (None, {"approved interval"})])
def test_a_bound_told_before_the_approval_beyond_one_sampling_interval_is_caught(
    scene: Scene, told: int | None, found: set[str]
) -> None:
    """The approver of a resting group's bound sees at most one interval, however exact the translation is later."""
    scene.more, scene.change = {"mirrored_in_interval": {AT: 2}}, told_before(told)
    assert place(scene, 2) == found
    scene.policy, scene.more = "default", {"mirrored_in_interval": {("primary.orders", 0): 2, AT: 9}}
    assert place(scene, 2) == found
    # Where nobody counted, nothing is held against it.
    scene.more = {}
    assert place(scene, 2) == set()


def test_of_a_group_that_consumed_the_told_bound_may_be_larger(scene: Scene) -> None:
    """How far it got since it was seen nobody knows; a group that only committed was at work, too."""
    scene.more, scene.change = {"mirrored_in_interval": {AT: 2}}, told_before(4)
    scene.clients.committed["primary", "billing"] = {AT: ClientCommit(2, 2, DIED - 60_000, DIED - 1000)}
    assert scene.checks() == set()
    scene.clients.committed["standby", "billing"] = scene.clients.committed.pop(("primary", "billing"))
    assert scene.checks() == {"approved interval"}


def test_what_the_target_took_since_the_approval_was_foretold_by_nobody(scene: Scene) -> None:
    """Records that arrive between the assessment and the stop are no part of what could be told."""
    bounds = [{"topic": "orders", "partition": 0, "target_topic": "orders", "boundary": 3}]
    pq.write_table(pa.Table.from_pylist(bounds), scene.folder / "bounds.parquet")
    assessed = at("assess_data_loss.bounds", {"file": "bounds.parquet"})
    for told_bound, found in ((1, set()), (0, {"approved bound"})):
        scene.change = lambda evidence, bound=told_bound: (told_before(bound)(evidence), assessed(evidence))
        assert place(scene, 0, bound=2) == found


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets one field of the evidence; a step's figures are reached by the step's name."""

    def change(evidence: dict[str, Any]) -> None:
        *way, last = path.split(".")
        here: Any = evidence
        for name in way:
            here = (
                here[name]
                if name in here
                else next(step["figures"] for step in evidence["steps"] if step["id"] == name)
            )
        here[last] = value

    return change
