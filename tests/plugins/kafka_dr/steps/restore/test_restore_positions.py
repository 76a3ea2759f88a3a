"""restore_group_offsets: what stood there before comes back, only to groups at rest, only where nobody else
wrote since, and only as approved.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import (
    ApprovalMissing,
    Contradiction,
    KafkaUnavailable,
    NotReady,
    ReadBackFailed,
    Refusal,
    Superseded,
)
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import GroupsCommitted
from kafka_dr.procedure.progress import Progress
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.steps.restore.approve_restore import ApproveRestore
from kafka_dr.steps.restore.plan_restore import PlanRestore
from kafka_dr.steps.restore.restore_positions import RestorePositions
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.steps.planned.test_commit_groups import translated
from tests.support.facts import asked_by, figures_of

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
PAIR = "primary+standby"


class Restore:
    """A planned failover has committed to groups on standby, of which some held positions before; it is over, and a
    restore is in hand.

    Attributes:
        undone: the failover.
        procedure: the restore.
    """

    def __init__(
        self,
        bench: Any,
        before: dict[str, dict[TopicPartition, int]],
        *committed: tuple[str, int],
        opened: bool = False,
        **choices: Any,
    ) -> None:
        self.bench, self.standby = bench, bench.clusters["standby"]
        self.standby.delete_groups = self.delete_groups
        self.put(before)
        self.undone = translated(bench, *((group, position, "CONTENT") for group, position in committed))
        done = CommitGroups(task_id="commit_groups").act(self.undone, bench.context())
        record_fact(self.undone.authority, Step.COMMIT_GROUPS, done)
        if opened:
            bench.done(self.undone, Step.OPEN_TARGET)
        self.runs = 0
        self.again(**choices)

    def again(self, **choices: Any) -> None:
        """Open a new restore, after the end of what is in hand."""
        lease = self.bench.journal.lease(PAIR)
        if lease.released_at is None:
            self.bench.journal.release_lease(PAIR, lease.holder, lease.epoch, "returned")
        self.runs += 1
        self.bench.dag_id = "restore_group_offsets"
        self.bench.params = {"source": "primary", "target": "standby", "reason": "it returned", **choices}
        self.procedure: Run = self.bench.opened(f"u{self.runs}")

    def put(self, positions: dict[str, dict[TopicPartition, int]]) -> None:
        """Somebody commits."""
        for group, held in positions.items():
            self.standby.committed.setdefault(group, {}).update({tp: Position(offset) for tp, offset in held.items()})

    def delete_groups(self, names: Any, timeout: float = 60.0) -> dict[str, str]:
        """Delete groups; one that has members stays."""
        words = {name: "ok" if not self.standby.members.get(name) else "group is active" for name in names}
        for name, word in words.items():
            if word == "ok":
                self.standby.committed.pop(name, None)
        return words

    def held(self) -> dict[str, dict[str, int]]:
        """What the groups hold on standby."""
        return {
            group: {str(tp): position.offset for tp, position in sorted(held.items())}
            for group, held in sorted(self.standby.committed.items())
        }

    def plan(self) -> dict[str, Any]:
        """Look, and write the plan."""
        planned = PlanRestore(task_id=Step.PLAN_RESTORE.value).act(
            self.procedure, self.bench.context(self.procedure.identity.run_id)
        )
        self.bench.done(self.procedure, Step.PLAN_RESTORE, **planned.payload())
        return self.procedure.progress.with_plan(planned).plan

    def approve(self) -> None:
        """Bob approves what is asked, if anything is."""
        asked = asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), self.procedure)
        if asked is not None:
            self.bench.api.answer(Step.APPROVE_RESTORE, asked[0])
        self.bench.done(self.procedure, Step.APPROVE_RESTORE, asked=asked is not None)

    def write(self) -> Any:
        """Put them back."""
        return RestorePositions(task_id=Step.RESTORE_POSITIONS.value).act(
            self.procedure, self.bench.context(self.procedure.identity.run_id)
        )

    def whole(self) -> Any:
        """All of it."""
        self.plan()
        self.approve()
        return self.write()


BEFORE = {"a": {ORDERS: 1, OTHER: 8}, "c": {OTHER: 2}}


@pytest.fixture
def restore(bench: Any) -> Restore:
    """Group a was set from 1 to 4, group b had nothing and got 9, group c held another position and got 5."""
    return Restore(bench, BEFORE, ("a", 4), ("b", 9), ("c", 5))


def test_what_stood_there_comes_back(restore: Restore) -> None:
    """A group that held nothing is deleted; so is a position beside others that had none before, by itself."""
    plan = restore.plan()
    assert (plan["writes"], plan["raised"], plan["deletes"], plan["since"]) == (1, 0, ["b"], {})
    assert (plan["removes"], plan["left"]) == ({"c": 1}, {})
    assert plan["undone"] == restore.undone.id and plan["cluster"] == "standby" and not plan["opened"]
    restore.approve()
    figures = restore.write()
    assert restore.held() == {"a": {"orders-0": 1, "other-0": 8}, "c": {"other-0": 2}}
    found = (figures.written, figures.already, figures.deleted, figures.changed_since, figures.approval.by)
    assert found == (1, 0, 1, 0, "bob") and figures.deleted_positions == 1
    ledger = restore.procedure.artifacts.load(figures.ledger)
    assert ledger[["group", "before", "wanted", "read_back"]].values.tolist() == [["a", 4, 1, 1]]


def test_a_position_that_changed_after_the_approval_is_not_deleted(restore: Restore) -> None:
    """Its group reads there by now: without it the group would begin elsewhere."""
    restore.plan()
    restore.approve()
    restore.put({"c": {ORDERS: 6}})
    figures = restore.write()
    assert restore.held()["c"] == {"orders-0": 6, "other-0": 2}
    assert figures.changed_since_planned == {"c": 1} and figures.deleted_positions == 0


def test_a_position_that_is_not_deleted_is_named(restore: Restore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that refuses, or that says yes and keeps it: the read-back names the group."""
    error = KafkaUnavailable("deleting positions of 'c' failed", "GroupSubscribedToTopicError", "stop it")
    for answer in ({"c": error}, {}):
        restore.again()
        restore.plan()
        restore.approve()
        monkeypatch.setattr(restore.standby, "delete_positions", lambda _, answer=answer: answer)
        seen = "c GroupSubscribedToTopicError" if answer else "'c'"
        with pytest.raises(ReadBackFailed, match=f"0 positions and 1 groups were not read back.*{seen}"):
            restore.write()


def test_a_second_restore_has_nothing_to_do_and_asks_nobody(restore: Restore) -> None:
    """All is as it was."""
    restore.whole()
    before = restore.held()
    restore.again()
    plan = restore.plan()
    assert (plan["writes"], plan["deletes"]) == (0, [])
    assert asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), restore.procedure) is None
    restore.approve()
    assert restore.write().written == 0 and restore.held() == before


def test_a_try_that_was_killed_is_gone_on_with(restore: Restore) -> None:
    """What was written before it died is not written again; the approval holds."""
    restore.plan()
    restore.approve()
    restore.put({"a": {ORDERS: 1}})
    figures = restore.write()
    assert (figures.written, figures.already, figures.deleted) == (0, 1, 1)
    again = restore.write()
    assert (again.written, again.already, again.deleted, again.changed_since) == (0, 1, 0, 0)
    assert (figures.deleted_positions, again.deleted_positions) == (1, 0)


def test_what_somebody_committed_since_is_named_and_left(restore: Restore) -> None:
    """In place of ours, or beside it: a group of which one position is somebody's is not deleted, nor is a position."""
    restore.put({"a": {ORDERS: 6}, "b": {OTHER: 3}})
    plan = restore.plan()
    assert plan["since"] == {"a": 1, "b": 1}
    assert (plan["writes"], plan["deletes"], plan["left"], plan["removes"]) == (0, [], {"b": 1}, {"c": 1})
    restore.approve()
    figures = restore.write()
    assert restore.held()["a"]["orders-0"] == 6 and restore.held()["b"] == {"orders-0": 9, "other-0": 3}
    assert figures.changed_since == 2


def test_it_is_overwritten_where_that_was_asked_for(bench: Any) -> None:
    """And told to the second person; a position that somebody took away comes back, too."""
    restore = Restore(bench, BEFORE, ("a", 4), ("b", 9), ("c", 5), overwrite_later_commits=True)
    restore.put({"a": {ORDERS: 6}, "b": {OTHER: 3}})
    del restore.standby.committed["c"]
    plan = restore.plan()
    assert plan["since"] == {"a": 1, "b": 1, "c": 1} and (plan["writes"], plan["deletes"]) == (2, ["b"])
    body = asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), restore.procedure)[1]
    assert "3 positions were changed since that commit, and are overwritten, too" in body
    restore.approve()
    restore.write()
    assert restore.held() == {"a": {"orders-0": 1, "other-0": 8}, "c": {"other-0": 2}}


def test_what_changed_after_the_approval_is_left(restore: Restore) -> None:
    """The second person had not seen it: written over, or deleted with its group, it would be lost."""
    restore.plan()
    restore.approve()
    restore.put({"a": {ORDERS: 7}, "b": {OTHER: 3}})
    figures = restore.write()
    assert figures.changed_since_planned == {"a": 1, "b": 1} and (figures.written, figures.deleted) == (0, 0)
    assert restore.held()["a"]["orders-0"] == 7 and restore.held()["b"] == {"orders-0": 9, "other-0": 3}


@pytest.mark.parametrize("late", [False, True])
def test_a_living_group_is_never_touched(bench: Any, late: bool) -> None:
    """Whether its member was there at the plan or came while somebody thought; one that nothing is done to may live."""
    restore = Restore(bench, BEFORE | {"d": {ORDERS: 7}}, ("a", 4), ("b", 9), ("c", 5), ("d", 7))
    restore.standby.members = {"d": 1}
    if late:
        restore.plan()
        restore.approve()
    restore.standby.members = {"b": 1, "d": 1}
    before = restore.held()
    with pytest.raises(Refusal, match="Groups have members on standby, so their positions cannot be restored. Seen: b"):
        restore.write() if late else restore.plan()
    assert restore.held() == before and restore.bench.kinds(Step.RESTORE_POSITIONS, "u1") == []


def test_nothing_is_written_without_a_second_persons_word_on_this_very_plan(restore: Restore) -> None:
    """A gate marked as done, the starter's own answer, and an answer to another plan approve nothing."""
    restore.plan()
    asked = asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), restore.procedure)
    restore.bench.done(restore.procedure, Step.APPROVE_RESTORE, asked=True)
    before = restore.held()
    with pytest.raises(ApprovalMissing, match="never answered"):
        restore.write()
    for answer in ({"responded_by_id": "alice", "responded_by_name": "alice"}, {}):
        restore.bench.api.answer(Step.APPROVE_RESTORE, asked[0] if answer else f"Put back? Plan {'0' * 64}", **answer)
        with pytest.raises(ApprovalMissing, match="not a valid approval"):
            restore.write()
    assert restore.held() == before


def test_another_plan_has_another_digest(restore: Restore) -> None:
    """By what is written, not by how much: the same count of other positions is another plan."""
    first = restore.plan()
    restore.put({"a": {OTHER: 8, ORDERS: 1}, "b": {ORDERS: 9}})
    second = restore.plan()
    assert first["rows"] != second["rows"]


def test_a_plan_that_was_changed_is_refused(restore: Restore) -> None:
    """In the journal, though its file is whole."""
    figures = {"plan": restore.plan() | {"deletes": []}, "plan_digest": "d" * 64}
    restore.bench.done(
        restore.procedure, Step.PLAN_RESTORE, **(figures_of(restore.procedure, Step.PLAN_RESTORE) | figures)
    )
    with pytest.raises(Contradiction, match="does not match its digest in the journal"):
        asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), restore.procedure)


def test_a_snapshot_that_is_gone_stops_it(restore: Restore) -> None:
    """Nobody else knows what stood there."""
    for path in restore.undone.artifacts.folder.glob("snapshot-*.parquet"):
        path.unlink()
    with pytest.raises(Contradiction, match="is not the file that was written"):
        restore.plan()


def test_what_was_not_kept_is_named(restore: Restore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that says OK and keeps nothing: the read-back finds it, and the ledger is there."""
    restore.plan()
    restore.approve()
    monkeypatch.setattr(
        restore.standby,
        "commit_many",
        lambda positions: {group: dict.fromkeys(held, "ok") for group, held in positions},
    )
    monkeypatch.setattr(
        restore.standby, "delete_groups", lambda names, timeout=60.0: dict.fromkeys(names, "NOT_COORDINATOR")
    )
    with pytest.raises(
        ReadBackFailed, match="1 positions and 1 groups were not read back as planned.*b NOT_COORDINATOR"
    ):
        restore.write()
    assert len(list(restore.procedure.artifacts.folder.glob("restored-*.parquet"))) == 1


def test_the_last_commit_in_this_direction_is_undone_unless_one_is_named(restore: Restore) -> None:
    """One that is named must go this way, and must have committed."""
    restore.again(undo_procedure=restore.undone.id)
    assert restore.plan()["undone"] == restore.undone.id
    restore.again(undo_procedure="planned_failover-r7")
    with pytest.raises(
        NotReady, match="No commit of positions was found to undo. Seen: no procedure called planned_failover-r7"
    ):
        restore.plan()
    restore.again(undo_procedure=restore.undone.id, source="standby", target="primary")
    with pytest.raises(
        Refusal, match="is not a procedure from standby to primary. Seen: .* goes from primary to standby"
    ):
        restore.plan()
    restore.again(source="standby", target="primary")
    with pytest.raises(NotReady, match="No commit of positions was found to undo"):
        restore.plan()


def test_a_commit_that_died_is_undone_by_its_translation(restore: Restore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It left a snapshot and no ledger."""
    done, undone = Progress.done, (restore.undone.id, GroupsCommitted)
    monkeypatch.setattr(
        Progress, "done", lambda self, outcome: None if (self._id, outcome) == undone else done(self, outcome)
    )
    assert restore.plan()["writes"] == 1
    restore.approve()
    restore.write()
    assert restore.held()["a"]["orders-0"] == 1 and "b" not in restore.held()


def test_the_approver_sees_what_is_raised_and_that_mirror_maker_moves_groups(bench: Any) -> None:
    """A position that becomes higher skips what lies in between; group sync comes back within seconds."""
    restore = Restore(bench, {"a": {ORDERS: 8}}, ("a", 4), opened=True)
    bench.workers["standby"].settings = {"sync.group.offsets.enabled": "true"}
    bench.workers["standby"].states["p.checkpoint"] = "RUNNING"
    assert restore.plan()["raised"] == 1
    subject, body, digest = asked_by(ApproveRestore(task_id=Step.APPROVE_RESTORE.value), restore.procedure)
    assert "1 of them are higher" in body and "group sync runs" in body
    assert (
        "had opened standby: clients may have worked on standby since" in body and digest in subject and digest in body
    )
    bench.workers["standby"].away = True
    restore.again()
    assert restore.plan()["group_sync"] is None


def run(restore: Restore, *kinds: Any) -> dict[str, Any]:
    """Execute steps as Airflow does, and close; the evidence."""
    context = restore.bench.context(restore.procedure.identity.run_id)
    steps = {
        PlanRestore: Step.PLAN_RESTORE,
        ApproveRestore: Step.APPROVE_RESTORE,
        RestorePositions: Step.RESTORE_POSITIONS,
    }
    for kind in kinds:
        try:
            kind(task_id=steps[kind].value).execute(context)
        except AirflowFailException:
            break
    with contextlib.suppress(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(context)
    return json.loads((restore.procedure.artifacts.folder / "evidence.json").read_text())


def test_a_restore_that_was_done_completes(restore: Restore) -> None:
    """Its evidence has plan, digest and figures; the lease is free."""
    restore.plan()
    restore.approve()
    evidence = run(restore, RestorePositions)
    assert evidence["outcome"] == "completed" and evidence["plan"]["undone"] == restore.undone.id
    assert evidence["plan_digest"]
    assert evidence["steps"][-1]["figures"]["written"] == 1
    assert restore.bench.journal.lease(PAIR).released_at is not None
    page = (restore.procedure.artifacts.folder / "evidence.html").read_text()
    assert f"The commit of {restore.undone.id} on standby was undone." in page and "No client was moved" in page
    assert "All clients" not in page


def test_a_restore_that_wrote_nothing_is_refused_and_holds_nothing(restore: Restore) -> None:
    """A consumer is there: the next run may begin at once."""
    restore.standby.members = {"a": 1}
    evidence = run(restore, PlanRestore)
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "plan_restore")
    assert restore.bench.journal.lease(PAIR).outcome == "refused"


def test_a_restore_that_stopped_in_the_middle_holds_both_clusters(
    restore: Restore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some positions may be written: it is gone on with, and nothing else begins before."""
    restore.plan()
    restore.approve()
    monkeypatch.setattr(
        restore.standby,
        "commit_many",
        lambda positions: {group: dict.fromkeys(held, "ok") for group, held in positions},
    )
    evidence = run(restore, RestorePositions)
    assert evidence["outcome"] == "failed" and restore.bench.journal.lease(PAIR).released_at is None


def test_a_restore_acts_only_under_its_own_lease(restore: Restore) -> None:
    """A process of an older epoch writes nothing."""
    restore.plan()
    restore.approve()
    old = restore.procedure
    assert old.lease.epoch
    restore.bench.procedure(old.identity.run_id).lease.take_new_epoch()
    before = restore.held()
    with pytest.raises(Superseded):
        restore.write()
    assert restore.held() == before and restore.bench.kinds(Step.RESTORE_POSITIONS, "u1") == []
