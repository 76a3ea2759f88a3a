"""A restore as its approver and its evidence tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka_dr.domain.evidence.evidence import outcome_of
from kafka_dr.domain.offsets.restore_plan import (
    RestorePlan,
    restore_markdown,
    restore_plan_of,
    restore_sentences,
    restore_to_do,
)
from kafka_dr.procedures import RESTORE_GROUP_OFFSETS
from kafka_dr.vocabulary import Entry, Outcome, Step

from tests.support.facts import entry

PLAN = RestorePlan(
    "restore-1", "west", "it returned", "failover-1", False, "r" * 64, 3, 1, ("new",), {}, {}, False, False
)


CHANGED = {"rows": "s" * 64, "deletes": (), "overwrites": True, "undone": "failover-2", "cluster": "east"}
CHANGED |= {"since": {"g": 1}, "removes": {"g": 1}}


@pytest.mark.parametrize("change", [{name: value} for name, value in CHANGED.items()])
def test_the_digest_covers_all_that_is_approved(change: dict[str, Any]) -> None:
    """And it is the same after a way through the journal."""
    assert replace(PLAN, **change).digest != PLAN.digest and restore_plan_of(PLAN.as_dict()).digest == PLAN.digest


def test_a_plan_without_writes_and_deletions_changes_nothing() -> None:
    """Whatever it names beside."""
    assert PLAN.changes and replace(PLAN, writes=0).changes
    assert replace(PLAN, writes=0, deletes=(), removes={"g": 1}).changes
    assert not replace(PLAN, writes=0, deletes=(), since={"g": 1}).changes


def test_the_approver_reads_names_as_text() -> None:
    """A group may be called anything; of many the largest are shown."""
    body = restore_markdown(
        replace(
            PLAN,
            deletes=("<b>|",),
            since={f"g{n:02d}": n for n in range(1, 31)},
            left={"h": 2},
            removes={"r": 3},
            cool_down={"acknowledged": "at once"},
        )
    )
    assert "<b>" not in body and "| g30 | 30 |" in body and "| g05 |" not in body and "and 10 more groups" in body
    assert "at once" in body and "| h | 2 |" in body and "are not changed" in body
    assert "| r | 3 |" in body and "3 positions did not exist before that commit, and are deleted" in body


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_told_in_three_sentences(outcome: Outcome) -> None:
    """None says that clients were moved, and only a completed one that the commit was undone."""
    figures = {"written": 2, "already": 1, "deleted": 1, "changed_since": 4, "deleted_positions": 2}
    done = {"id": Step.RESTORE_POSITIONS, "state": "done", "figures": figures}
    e = {"outcome": outcome.value, "failing_step": "plan_restore", "reason_for_outcome": "why", "target": "west"}
    e |= {"plan": PLAN.as_dict(), "steps": [done] if outcome is Outcome.COMPLETED else []}
    told = restore_sentences(e)
    assert len(told) == 3 and all(told) and restore_to_do(e)
    assert ("was undone" in told[0]) == (outcome is Outcome.COMPLETED)
    deleted = "3 positions were read back as before the commit, and 1 group deleted. 2 positions that did not exist"
    assert (deleted in told[2]) == ("4 positions that another writer" in told[2]) == (outcome is Outcome.COMPLETED)
    assert restore_sentences({**e, "plan": None})[0]


OPENED = [
    entry(Step.OPEN_PROCEDURE, Entry.OPENED, dag_id=RESTORE_GROUP_OFFSETS.dag_id),
    entry(Step.OPEN_PROCEDURE, Entry.OUTCOME),
    entry(Step.PLAN_RESTORE, Entry.OUTCOME),
]
BEGUN = entry(Step.RESTORE_POSITIONS, Entry.INTENT, **{"try": 1})
WRITING = entry(Step.RESTORE_POSITIONS, Entry.INTENT, restores_positions=3)


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (OPENED, Outcome.REFUSED), ([*OPENED, BEGUN], Outcome.REFUSED), ([*OPENED, BEGUN, WRITING], Outcome.FAILED),
        ([*OPENED, BEGUN, WRITING, entry(Step.RESTORE_POSITIONS, Entry.OUTCOME)], Outcome.COMPLETED),
    ],
)  # fmt: skip
def test_it_is_refused_as_long_as_nothing_was_written(lines: list[Any], outcome: Outcome) -> None:
    """After that it must be ended, one way or the other."""
    assert outcome_of(lines, RESTORE_GROUP_OFFSETS.dag_id) is outcome
