"""Two processes of one step, a process that hangs, and a step begun again after a crash."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.fencing.acl_fence import add_fence
from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.domain.fencing.fence import FenceScope
from kafka_dr.errors import LeaseLost, Refusal, Superseded
from kafka_dr.procedure.entries import ZeroLagProven
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.steps.planned.seed_reverse_replication import SeedReverseReplication
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import FENCE, GRANT, ORDERS


class Twice(ProcedureStep):
    """A step in whose middle another process of it begins, acts, and ends."""

    def __init__(self, bench: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bench, self.acts, self.late = bench, [], True

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """The first to begin is the last to act."""
        if self.late:
            self.late = False
            self.execute(self.bench.context())
        procedure.authority.hold()
        self.acts.append(procedure.lease.epoch)
        return ZeroLagProven(partitions=self.acts[-1], proofs={})


class Hanging(ProcedureStep):
    """A step that never comes back."""

    def act(self, procedure: Run, context: Any) -> ZeroLagProven:
        """Hang, and swallow the first interruption as a library might."""
        try:
            time.sleep(60)
        except Exception:  # the first interruption is swallowed, as a library might
            time.sleep(60)
        return ZeroLagProven(partitions=0, proofs={})


def test_the_older_of_two_processes_acts_no_more(bench: Any) -> None:
    """It neither acts nor writes; its failure is not the step's, and Airflow may try again, to find the step done."""
    bench.opened()
    step = Twice(bench=bench, task_id="forecast")
    with pytest.raises(AirflowException) as caught:
        step.execute(bench.context())
    assert not isinstance(caught.value, AirflowFailException) and isinstance(caught.value.__cause__, Superseded)
    assert len(step.acts) == 1 and bench.entries("forecast")[-1].payload == {"partitions": step.acts[0], "proofs": {}}
    assert Entry.FAILURE not in bench.kinds("forecast") and Entry.REFUSAL not in bench.kinds("forecast")
    assert step.execute(bench.context(attempt=2)) == {"done": "forecast"} and len(step.acts) == 1


def test_what_hangs_is_interrupted_when_the_fence_has_lasted_long_enough(bench: Any) -> None:
    """Clients do not wait for a process that hangs: it ends as failed, and the reason is the fence's clock."""
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    bench.change_params(max_fence_seconds=0.5)
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match="fenced for as long as allowed"):
        Hanging(task_id="translate_offsets").execute(bench.context())
    assert time.monotonic() - began < 10
    assert bench.entries("translate_offsets")[-1].payload["seen"] == "the step was interrupted; the fence is on primary"


def test_a_step_is_done_again_after_a_predecessor_was(bench: Any) -> None:
    """What was derived from a predecessor's outcome is derived again from its new one; without a new one it is not."""

    class Counting(ProcedureStep):
        """Counts its acts."""

        acts = 0

        def act(self, procedure: Run, context: Any) -> ZeroLagProven:
            """Count."""
            Counting.acts += 1
            return ZeroLagProven(partitions=0, proofs={})

    procedure = bench.opened()
    with DAG("chain"):
        step = Counting(task_id="translate_offsets")
        Counting(task_id="drain_consumers") >> step
    bench.done(procedure, "drain_consumers")
    step.execute(bench.context())
    step.execute(bench.context())
    assert Counting.acts == 1
    procedure = bench.procedure()
    bench.done(procedure, "drain_consumers")
    step.execute(bench.context())
    assert Counting.acts == 2


CHANGES = {
    "the fence was lifted": (
        lambda b: b.clusters["primary"].acls.discard(FENCE),
        "fence on the source no longer covers all clients",
    ),
    "somebody wrote on the source": (
        lambda b: b.clusters["primary"].log_ends.update({ORDERS: 11}),
        "source has records after the cut-off.*orders-0: newest record at offset 10, 1970-01-01.*, no key, 1 bytes",
    ),
    "a topic of the source was recreated": (
        lambda b: b.clusters["primary"].log_ends.update({ORDERS: 3}),
        "lie before the cut-off.*orders-0: 10 -> 3",
    ),
    "somebody wrote on the target": (
        lambda b: b.clusters["standby"].log_ends.update({ORDERS: 11}),
        "Log ends of the target moved before",
    ),
    "a connector was resumed": (
        lambda b: b.workers["standby"].states.update({"p.source": "RUNNING"}),
        "p.source runs again",
    ),
}


@pytest.mark.parametrize("kind", [CommitGroups, SeedReverseReplication])
@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_resumed_step_looks_again_before_it_acts(bench: Any, kind: type, change: Any, said: str) -> None:
    """Killed and begun again, it believes neither the fence nor the lag it saw before; it refuses and writes nothing
    on the target.
    """
    bench.stopped()
    step = kind(task_id={CommitGroups: "commit_groups", SeedReverseReplication: "seed_reverse_replication"}[kind])
    begun = bench.procedure()
    begun.authority.write("translate_offsets", Entry.OUTCOME, {"digest": "t" * 64})
    begun.authority.write(step.task_id, Entry.INTENT, {"try": 1})
    change(bench)
    with DAG("chain"):
        step = kind(task_id=step.task_id)
        ProcedureStep(task_id="translate_offsets") >> step
    with pytest.raises(AirflowFailException, match=said):
        step.execute(bench.context(attempt=2))
    assert bench.kinds(step.task_id)[-1] == Entry.REFUSAL and bench.clusters["standby"].committed == {}


def test_the_end_of_an_empty_transaction_is_no_write(bench: Any) -> None:
    """A transaction begun before the fence and ended after it adds a marker to the log, no record: the step goes on."""
    bench.stopped()
    source = bench.clusters["primary"]
    source.log_ends[ORDERS], source.markers[ORDERS] = 12, 2
    recheck_preconditions(bench.procedure())
    source.log_ends[ORDERS] = 13
    with pytest.raises(Refusal, match="newest record at offset 10"):
        recheck_preconditions(bench.procedure())


def test_what_was_done_too_late_is_undone(bench: Any) -> None:
    """A process stood still just before its act, and woke after the source was given back: its denials do not stay."""
    procedure = bench.planned()
    cluster, added = bench.clusters["primary"], []
    cluster.acls = {GRANT}

    def frozen_then_add(entries: Any) -> None:
        added.extend(entries)
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
        cluster.acls |= set(entries)

    procedure.systems.source_acls.add = frozen_then_add
    with pytest.raises(Superseded):
        add_fence(procedure, Step.FENCE_PRODUCERS, FenceScope.writes(["orders"]))
    assert added and cluster.acls == {GRANT}


def test_what_another_procedure_may_need_by_now_is_left(bench: Any) -> None:
    """It woke after a newer procedure had taken the pair: the denials may be that one's, and stay."""
    procedure = bench.planned()
    cluster = bench.clusters["primary"]
    cluster.acls = {GRANT}

    def frozen_then_add(entries: Any) -> None:
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
        bench.journal.release_lease("primary+standby", procedure.id, bench.procedure().lease.epoch, "returned")
        bench.opened("r2")
        cluster.acls |= set(entries)

    procedure.systems.source_acls.add = frozen_then_add
    with pytest.raises(LeaseLost):
        add_fence(procedure, Step.FENCE_PRODUCERS, FenceScope.writes(["orders"]))
    assert replace(FENCE, name="orders") in cluster.acls
