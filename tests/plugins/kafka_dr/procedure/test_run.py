"""One run: its waits and clocks, its files, its plan, and whose approval counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.scope.position_frames import frame_partitions, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, Contradiction, DeadlinePassed, KafkaUnavailable, Refusal, Superseded
from kafka_dr.procedure import artifacts, progress, systems
from kafka_dr.procedure.entries import FailoverForecast
from kafka_dr.procedure.progress import NotYet, WaitLonger
from kafka_dr.procedure.run import Identity
from kafka_dr.vocabulary import Entry, Step

DIGEST = "a" * 64
GATE = "approve_failover"


def never() -> None:
    """A look that never finds what is awaited."""
    raise NotYet("3 of 4 partitions are not drained")


def after(looks: int) -> Callable[[], str]:
    """A look that succeeds after so many that did not."""
    left = iter(range(looks))

    def look() -> str:
        if next(left, None) is not None:
            raise NotYet("not yet")
        return "found"

    return look


def test_a_wait_ends_when_it_is_found(bench: Any) -> None:
    """What the look found comes back."""
    assert bench.opened().progress.wait("forecast", "It", after(2), 30) == "found"


def test_a_wait_looks_once_even_after_its_deadline(bench: Any) -> None:
    """A state that is there counts, however late the look."""
    procedure = bench.opened()
    procedure.authority.write("forecast", Entry.INTENT, {"try": 1})
    time.sleep(0.02)
    assert procedure.progress.wait("forecast", "It", after(0), 0.01) == "found"


def test_a_wait_ends_at_its_deadline_with_what_was_seen(bench: Any) -> None:
    """No wait is endless; the error says what was awaited and what was seen last."""
    with pytest.raises(DeadlinePassed, match="Zero lag: not within 0 s") as caught:
        bench.opened().progress.wait("wait_for_zero_lag", "Zero lag", never, 0.05)
    assert caught.value.seen == "3 of 4 partitions are not drained"


def test_the_clock_starts_with_the_trys_first_intent(bench: Any) -> None:
    """A step that is woken does not begin to wait anew, whatever else it wrote meanwhile."""
    procedure = bench.opened()
    procedure.authority.write("wait_for_zero_lag", Entry.INTENT, {"try": 1})
    time.sleep(0.06)
    procedure.authority.write("wait_for_zero_lag", Entry.INTENT, {"adds_acl_entries": []})
    looks: list[None] = []
    with pytest.raises(DeadlinePassed):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", lambda: looks.append(None) or never(), 0.05)
    assert len(looks) == 1


def test_a_new_try_starts_the_clock_anew(bench: Any) -> None:
    """A task cleared after its deadline gets its whole time again; the fence's clock still counts from its first
    intent.
    """
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"try": 1})
    fenced_until = procedure.progress.fence_deadline()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"try": 2})
    first, second = (e.at.timestamp() for e in bench.entries(Step.FENCE_PRODUCERS))
    assert (
        procedure.progress.clock(Step.FENCE_PRODUCERS)
        == second
        > first
        == procedure.progress.began(Step.FENCE_PRODUCERS)
    )
    assert procedure.progress.fence_deadline() == fenced_until


def test_a_step_without_an_intent_has_waited_for_nothing(bench: Any) -> None:
    """Before the first intent the clock stands at now."""
    procedure, before = bench.opened(), time.time()
    assert before <= procedure.progress.clock("wait_for_zero_lag") <= time.time()


def test_patience_ends_before_the_deadline(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that outlasts the step's patience gives the slot back."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    with pytest.raises(WaitLonger, match="Zero lag: 3 of 4"):
        bench.opened().progress.wait("wait_for_zero_lag", "Zero lag", never, 30)


def failing(*errors: Exception) -> Callable[[], str]:
    """An act that fails with these errors, one at each call, and then succeeds."""
    left = iter(errors)

    def act() -> str:
        if error := next(left, None):
            raise error
        return "done"

    return act


def away(may_pass: bool = True) -> KafkaUnavailable:
    """The error of a cluster that does not answer."""
    return KafkaUnavailable("listing groups failed", "no answer in time", "look", may_pass)


def test_a_wait_outlasts_an_error_that_may_pass(bench: Any) -> None:
    """A broker that restarts ends no wait; an error that stays does, at once."""
    waits = bench.opened().progress
    assert waits.wait("forecast", "It", failing(away(), NotYet("3 of 4"), away()), 30) == "done"
    with pytest.raises(KafkaUnavailable, match="no answer"):
        waits.wait("forecast", "It", failing(away(may_pass=False)), 30)


def test_a_wait_ends_at_its_deadline_with_the_error_seen_last(bench: Any) -> None:
    """The deadline counts for errors, too."""
    with pytest.raises(DeadlinePassed, match="Zero lag: not within 0 s.*no answer in time"):
        bench.opened().progress.wait("forecast", "Zero lag", failing(*[away()] * 9), 0.05)


def test_an_act_is_repeated_after_errors_that_may_pass(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that stays is raised at once, and a refusal, too."""
    monkeypatch.setattr(progress, "_ACT_AGAIN_SECONDS", 0.01)
    acts = bench.opened().progress
    assert acts.outlast(failing(away(), away())) == "done"
    with pytest.raises(KafkaUnavailable):
        acts.outlast(failing(away(may_pass=False)))
    with pytest.raises(Refusal):
        acts.outlast(failing(Refusal("no")))


def test_an_outage_is_outlasted_for_its_time_only(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over several wakings of the step: their times add up."""
    monkeypatch.setattr(progress, "_ACT_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    procedure = bench.opened()
    with pytest.raises(WaitLonger, match="no answer") as waits:
        procedure.progress.outlast(failing(*[away()] * 99))
    assert waits.value.outlasted is not None and 0 <= waits.value.outlasted < 30
    procedure.progress.outlasted = procedure.request.deadlines.outage_seconds
    with pytest.raises(KafkaUnavailable):
        procedure.progress.outlast(failing(away()))


def test_the_fence_limits_every_wait_behind_it(bench: Any) -> None:
    """A step's own deadline of a day does not outlast max_fence_seconds, and the error names the limit that counted."""
    bench.params = bench.params | {"max_fence_seconds": 0.05}
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    with pytest.raises(DeadlinePassed, match="Zero lag: not within 0 s, because max_fence_seconds are over"):
        procedure.progress.wait("wait_for_zero_lag", "Zero lag", never, 86_400)


def test_the_fence_limits_no_wait_past_the_opening(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the target's opening is meant, a wait has its own deadline only."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    bench.params = bench.params | {"max_fence_seconds": 0.01}
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {})
    with pytest.raises(WaitLonger):
        procedure.progress.wait("verify_clients", "Groups", never, 30)


def test_the_fence_clock(bench: Any) -> None:
    """No clock before the fence; with it, the deadline counts from the fence's first intent."""
    procedure = bench.opened()
    assert procedure.progress.fence_deadline() is None
    procedure.progress.check_fence_clock()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    assert abs(procedure.progress.fence_deadline() - time.time() - 600) < 5
    procedure.progress.check_fence_clock()


def test_a_frame_comes_back_as_it_was_kept(bench: Any) -> None:
    """Kept and read back, a frame is the same, and the receipt says how many rows."""
    procedure = bench.procedure()
    ends = {TopicPartition("b", 1): 2**40, TopicPartition("a", 10): 0, TopicPartition("a", 9): 7}
    receipt = procedure.artifacts.save("cut_off", partitions_frame(ends, "offset"))
    assert receipt.rows == 3 and frame_partitions(procedure.artifacts.load(receipt), "offset") == ends
    assert [p.name for p in procedure.artifacts.folder.iterdir()] == [receipt.file]


def test_an_empty_frame_can_be_kept(bench: Any) -> None:
    """No partitions is a frame, too."""
    procedure = bench.procedure()
    found = frame_partitions(
        procedure.artifacts.load(procedure.artifacts.save("cut_off", partitions_frame({}, "offset"))), "offset"
    )
    assert found == {}


def test_a_changed_file_is_refused(bench: Any) -> None:
    """A file that is not the one the journal knows is not believed, nor a missing one."""
    procedure = bench.procedure()
    receipt = procedure.artifacts.save("positions", pd.DataFrame({"position": [1]}))
    path = procedure.artifacts.folder / receipt.file
    pd.DataFrame({"position": [2]}).to_parquet(path)
    with pytest.raises(Contradiction, match="is not the file that was written") as changed:
        procedure.artifacts.load(receipt)
    assert changed.value.seen.endswith(f"not with {receipt.sha256[:12]}")
    path.unlink()
    with pytest.raises(Contradiction) as missing:
        procedure.artifacts.load(receipt)
    assert missing.value.seen == "the file is missing"


def test_two_that_keep_the_same_at_once_are_not_in_each_others_way(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process too: the second one begins and ends while the first one stands between its writing and its
    renaming.
    """
    procedure, told, digest = bench.opened(), [], artifacts.sha256_of

    def overtaken(path: Any) -> str:
        if not told:
            told.append(None)
            told.append(procedure.artifacts.save("cut_off", pd.DataFrame({"offset": [1]})))
        return digest(path)

    monkeypatch.setattr(artifacts, "sha256_of", overtaken)
    assert procedure.artifacts.save("cut_off", pd.DataFrame({"offset": [1]})) == told[1]
    assert procedure.artifacts.load(told[1])["offset"].tolist() == [1]


def test_keeping_again_leaves_what_was_kept(bench: Any) -> None:
    """What another process of the step keeps replaces nothing: both receipts find their own file; equal content is
    one file.
    """
    procedure = bench.procedure()
    old = procedure.artifacts.save("positions", pd.DataFrame({"position": [1]}))
    new = procedure.artifacts.save("positions", pd.DataFrame({"position": [2]}))
    assert procedure.artifacts.load(new)["position"].tolist() == [2]
    assert procedure.artifacts.load(old)["position"].tolist() == [1]
    assert procedure.artifacts.save("positions", pd.DataFrame({"position": [2]})) == new


def test_a_plan_that_is_not_the_digests_is_refused(bench: Any) -> None:
    """A plan changed under its digest is not carried out."""
    procedure = bench.opened()
    bench.done(procedure, Step.FORECAST, plan={"topics": ["more"]}, plan_digest=DIGEST)
    with pytest.raises(Contradiction):
        procedure.progress.move()


def test_a_second_person_approves(bench: Any) -> None:
    """Bob's answer to alice's run counts, and the record says who, when and what."""
    bench.api.answer(GATE, f"Move? Plan {DIGEST}")
    record = bench.procedure().approvals.require(GATE, DIGEST)
    assert (record.gate, record.by, record.digest) == (GATE, "bob", DIGEST)
    assert datetime.fromisoformat(record.at).tzinfo is not None


REFUSED: dict[str, dict[str, Any]] = {
    "the starter": {"responded_by_id": "alice", "responded_by_name": "alice"},
    "the starter by name, with FAB's number": {"responded_by_id": "7", "responded_by_name": "alice"},
    "the starter by id": {"responded_by_id": "alice", "responded_by_name": "Alice Smith"},
    "rejected": {"chosen_options": ("Reject",)},
    "both options": {"chosen_options": ("Approve", "Reject")},
    "a timeout's default": {"responded_by_id": None, "responded_by_name": None},
    "half a name": {"responded_by_name": None},
    "no time": {"responded_at": None},
    "expired": {"responded_at": datetime.now(UTC) - timedelta(hours=2)},
    "never answered": {"chosen_options": ()},
    "another digest": {"subject": "Move? Plan " + "b" * 64},
    "no digest": {"subject": "Move?"},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_what_is_no_approval(bench: Any, changes: dict[str, Any]) -> None:
    """The starter's own answer, a rejection, silence, age, or another plan approve nothing."""
    bench.api.answer(GATE, **{"subject": f"Move? Plan {DIGEST}", **changes})
    with pytest.raises(ApprovalMissing):
        bench.procedure().approvals.require(GATE, DIGEST)


def test_a_gate_that_was_never_reached_is_no_approval(bench: Any) -> None:
    """A gate marked successful by hand has no answer."""
    with pytest.raises(ApprovalMissing, match="never answered"):
        bench.procedure().approvals.require(GATE, DIGEST)


@pytest.mark.parametrize("starter", [None, ""])
def test_an_unknown_starter_is_refused(bench: Any, starter: str | None) -> None:
    """Without knowing who started the run nobody can be the second person."""
    bench.api.starter = starter
    bench.api.answer(GATE, f"Move? Plan {DIGEST}")
    with pytest.raises(ApprovalMissing, match="who started"):
        bench.procedure().approvals.require(GATE, DIGEST)


def test_fab_numbers_do_not_hide_the_second_person(bench: Any) -> None:
    """Under FAB the id is a number and the name the user's: bob approves alice's run."""
    bench.api.answer(GATE, f"Move? Plan {DIGEST}", responded_by_id="2")
    assert bench.procedure().approvals.require(GATE, DIGEST).by == "bob"


def test_each_gate_has_its_own_digest(bench: Any) -> None:
    """The failover's approval is none of the translation."""
    bench.api.answer(GATE, f"Move? Plan {DIGEST}")
    with pytest.raises(ApprovalMissing):
        bench.procedure().approvals.require("review_translation", DIGEST)
    with pytest.raises(ApprovalMissing):
        bench.procedure().approvals.require(GATE, "c" * 64)


def test_an_empty_digest_is_never_approved(bench: Any) -> None:
    """Nothing to name is nothing approved."""
    bench.api.answer(GATE, f"Move? Plan {DIGEST}")
    with pytest.raises(ApprovalMissing):
        bench.procedure().approvals.require(GATE, "")


def test_the_lease_is_asked_under_our_own_epoch(bench: Any) -> None:
    """A newer epoch of our own procedure means that this copy is the old one."""
    procedure = bench.opened()
    procedure.authority.hold()
    bench.journal.take_lease("primary+standby", procedure.id, renew=True)
    with pytest.raises(Superseded):
        procedure.authority.hold()


def test_what_did_not_happen_has_no_figures(bench: Any) -> None:
    """An intent is no outcome."""
    procedure = bench.opened()
    procedure.authority.write(Step.FORECAST, Entry.INTENT, {})
    with pytest.raises(Refusal, match="forecast did not happen"):
        procedure.progress.require(FailoverForecast)


def test_the_id_is_fit_for_a_folder() -> None:
    """No separator, blank or dot-dot of a run id gets into a path."""
    found = Identity("planned_failover", "manual__2026-11-21T02:00:00+00:00/../x y").procedure_id
    assert found == "planned_failover-manual__2026-11-21T02_00_00_00_00_.._x_y"


def test_whom_no_fence_touches(bench: Any) -> None:
    """MirrorMaker 2, the orchestrator and others the topology exempts."""
    assert bench.procedure().exempt("primary") == {"User:mm2", "User:orchestrator", "User:admin"}


@pytest.mark.parametrize("hook", ["drain", "routing"])
def test_hooks_get_the_connections_login(
    make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    """A drain or routing hook that asks for a login gets the connection's."""
    given: list[Any] = []
    for name in ("ApplicationDrain", "HttpRouting"):
        monkeypatch.setattr(systems, name, lambda url, auth, tls: given.append(auth))
    procedure = make_bench(drain={"connection": "app"}, routing={"kind": "http", "connection": "app"}).procedure()
    getattr(procedure.systems, hook)
    assert given == [("user", "password")]


def test_a_procedure_that_was_never_opened_is_a_contradiction_where_entries_name_it(bench: Any) -> None:
    """Who only asks for it gets None."""
    procedure = bench.opened()
    assert procedure.require_other(procedure.id).identity == procedure.identity and procedure.other("nobody") is None
    with pytest.raises(Contradiction, match="does not record the params with which nobody was started"):
        procedure.require_other("nobody")


def test_a_turned_procedure_is_the_same_run_from_the_other_side(bench: Any) -> None:
    """Same id, journal, epoch and pair; source and target, their clients and their flows are swapped; turned twice
    it is itself.
    """
    procedure = bench.opened()
    there = procedure.reversed
    found = (there.id, there.pair, there.lease.epoch, there.artifacts.folder)
    assert found == (procedure.id, procedure.pair, procedure.lease.epoch, procedure.artifacts.folder)
    assert (there.request.source, there.request.target) == ("standby", "primary") and there.journal is procedure.journal
    assert there.systems.source is procedure.systems.target and there.systems.target is procedure.systems.source
    assert there.flow == procedure.reverse_flow and there.reverse_flow == procedure.flow
    assert there.systems.source_acls is procedure.systems.target_acls and there.reversed is procedure
    there.authority.write("forecast", Entry.NOTE, {"seen": 1})
    assert bench.entries("forecast")[0].payload == {"seen": 1}


def test_a_turned_procedure_loses_its_lease_with_the_whole(bench: Any) -> None:
    """An older process can act on neither cluster; and what it did too late on the other one is not undone: clients
    are not there.
    """
    procedure = bench.opened()
    procedure.reversed.authority.hold()
    bench.procedure().lease.take_new_epoch()
    with pytest.raises(Superseded):
        procedure.reversed.authority.hold()
    newer = bench.procedure()
    newer.reversed.lease.take_new_epoch()
    newer.reversed.authority.hold()
    newer.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"try": 1})
    assert newer.authority.may_undo() and not newer.reversed.authority.may_undo()
