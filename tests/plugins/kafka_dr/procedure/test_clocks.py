"""Deadlines while the clocks of the journal's database, of Airflow's API and of the worker are 10 minutes apart."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.actions.old_source.armed_fence import watcher_seen
from kafka_dr.errors import ApprovalMissing, DeadlinePassed, NotReady
from kafka_dr.hooks.journal import database
from kafka_dr.procedure import progress
from kafka_dr.procedure.entries import ApprovalGiven
from kafka_dr.procedure.progress import NotYet, WaitLonger
from kafka_dr.steps.base import ProcedureStep, bounded_by_fence
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.vocabulary import Entry, Step

TEN_MINUTES = timedelta(minutes=10)
GATE, DIGEST = Step.APPROVE_FAILOVER, "a" * 64


@pytest.fixture(params=[TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
def skewed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, bench: Any) -> Any:
    """A bench whose journal's clock is ten minutes off."""
    monkeypatch.setattr(database, "utc_now", lambda: datetime.now(UTC) + request.param)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    return bench


def fence(bench: Any, seconds: float) -> Any:
    """A run whose fence has begun, and may last so long."""
    bench.params = bench.params | {"max_fence_seconds": seconds}
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    return procedure


def never() -> None:
    """What never comes."""
    raise NotYet("3 of 4")


def test_a_fence_is_not_cut_short(skewed: Any) -> None:
    """600 s are 600 s: no step is refused, no wait and no act is ended."""
    procedure = fence(skewed, 600)
    procedure.progress.check_fence_clock()
    assert 590 < procedure.progress.fence_deadline() - procedure.progress.now() <= 600
    with pytest.raises(WaitLonger):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", never, 60)
    with bounded_by_fence(procedure, print):
        time.sleep(0.2)
    assert 590 < ReviewTranslation(task_id="review_translation").wait_seconds(procedure) <= 600


def test_a_fence_is_not_prolonged(skewed: Any) -> None:
    """After its seconds every wait and every act ends."""
    procedure = fence(skewed, 0.3)
    with pytest.raises(DeadlinePassed), bounded_by_fence(procedure, print):
        time.sleep(30)
    with pytest.raises(DeadlinePassed):
        procedure.progress.check_fence_clock()
    with pytest.raises(DeadlinePassed, match="max_fence_seconds are over"):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", never, 60)


def test_a_wait_ends_after_its_own_seconds(skewed: Any) -> None:
    """Counted from the entry with which its try began."""
    procedure = skewed.opened()
    ProcedureStep(task_id="wait_for_zero_lag").intend(procedure, skewed.context())
    with pytest.raises(WaitLonger):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", never, 60)
    with pytest.raises(DeadlinePassed):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", never, 0)
    assert abs(procedure.progress.clock("never_tried") - procedure.progress.now()) < 5


def test_a_watcher_is_heard(skewed: Any, bench: Any) -> None:
    """As long as it writes, and no longer."""
    procedure = skewed.opened()
    assert watcher_seen(procedure)
    skewed.no_watcher(minutes=12)
    with pytest.raises(NotReady, match=r"ago"):
        watcher_seen(procedure)


@pytest.mark.parametrize("api_skew", [TEN_MINUTES, -TEN_MINUTES, timedelta(0)], ids=["ahead", "behind", "exact"])
@pytest.mark.parametrize("date", [True, False], ids=["Date", "no Date"])
def test_an_approval_is_as_old_as_it_is(skewed: Any, api_skew: timedelta, date: bool) -> None:
    """By the API's own clock, or, if it tells none, by the journal's; never by the worker's."""
    skewed.params = skewed.params | {"approval_valid_seconds": 300}
    procedure = skewed.opened()
    skewed.api.now = (lambda: datetime.now(UTC) + api_skew) if date else lambda: None
    given = datetime.now(UTC) + api_skew
    skewed.api.answer(GATE, f"Move? Plan {DIGEST}", responded_at=given)
    assert procedure.approvals.require(GATE, DIGEST).by == "bob"
    if date:
        skewed.api.answer(GATE, f"Move? Plan {DIGEST}", responded_at=given - timedelta(seconds=400))
        with pytest.raises(ApprovalMissing, match=r"given 40\d s ago.*valid for 300 s"):
            procedure.approvals.require(GATE, DIGEST)


@pytest.mark.parametrize("recorded", [True, False], ids=["after its record", "before it"])
def test_without_the_apis_time_the_journal_tells_the_age(
    bench: Any, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """From the gate's record of the approval; before there is one, the answer is no older than the question."""
    bench.params = bench.params | {"approval_valid_seconds": 300}
    procedure = bench.opened()
    ProcedureStep(task_id=GATE).intend(procedure, bench.context())
    if recorded:
        given = ApprovalGiven(gate=GATE, by="bob", at="2026-11-20T12:00:00+00:00", digest=DIGEST)
        procedure.authority.write(GATE, Entry.APPROVAL, given.payload())
    bench.api.now = lambda: None
    bench.api.answer(GATE, f"Move? Plan {DIGEST}", responded_at=datetime.now(UTC) - timedelta(days=1))
    assert procedure.approvals.require(GATE, DIGEST).by == "bob"
    monkeypatch.setattr(database, "utc_now", lambda: datetime.now(UTC) + timedelta(seconds=400))
    with pytest.raises(ApprovalMissing, match=r"given 40\d s ago"):
        bench.procedure().approvals.require(GATE, DIGEST)


def test_a_cool_down_is_counted_by_the_journal(skewed: Any) -> None:
    """A run after it begins, a run within it is refused."""
    procedure = skewed.opened()
    procedure.journal.release_lease(procedure.pair, procedure.id, procedure.authority.epoch, "completed")
    later = skewed.procedure("r2")
    with pytest.raises(NotReady, match=r"in (59|60) s"):
        later.journal.take_lease(later.pair, later.id, cool_down_seconds=60)
    assert later.journal.take_lease(later.pair, later.id, cool_down_seconds=0) > 1
