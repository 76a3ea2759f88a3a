"""unplanned_failover: one vocabulary, the dangerous order, and who runs when something fails."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_dr.operators.approval import ApproveDataLoss, ReviewTranslation
from kafka_dr.operators.fencing import DrainConsumers, FenceProducers
from kafka_dr.operators.procedure_step import JournaledStep, ProcedureGate
from kafka_dr.operators.readiness import CheckReadiness, Forecast
from kafka_dr.operators.replication import StopMirrorMaker, WaitForZeroLag
from kafka_dr.operators.without_source import CommitWithoutSource, OpenWithoutSource, StopLeftMirrorMaker, TranslateWithoutSource
from kafka_dr.vocabulary import Step, steps_of

IRREVERSIBLE = "open_target"
STEPS = steps_of("unplanned_failover")
#: Steps of the procedure that other DAGs do.
NO_TASKS = {Step.ABORT_PROCEDURE, Step.WATCH_OLD_SOURCE}


@pytest.fixture
def dag(dag_bag: Any) -> Any:
    """The DAG."""
    return dag_bag.dags["unplanned_failover"]


def upstream(dag: Any, task_id: str) -> set[str]:
    """Everything that precedes a task."""
    return {t.task_id for t in dag.get_task(task_id).get_flat_relatives(upstream=True)}


def test_one_vocabulary(dag: Any) -> None:
    """Task ids are the steps, both ways, and every task is a journaled step."""
    assert set(dag.task_ids) == {s.value for s in STEPS} - NO_TASKS
    assert all(isinstance(t, JournaledStep) for t in dag.tasks)


def test_the_steps_follow_the_vocabularys_order(dag: Any) -> None:
    """Each step's predecessor is the one before it in the vocabulary."""
    order = [s.value for s in STEPS if s not in NO_TASKS | {Step.RETURN_TO_SOURCE}]
    for before, step in zip(order, order[1:], strict=False):
        assert before in dag.get_task(step).upstream_task_ids, step


ORDER = {
    "assess_data_loss": {"confirm_source_lost", "open_procedure"},
    "approve_data_loss": {"assess_data_loss"},
    "fence_source": {"approve_data_loss"},
    "stop_mirror_maker": {"fence_source", "approve_data_loss"},
    "translate_offsets": {"stop_mirror_maker", "assess_data_loss"},
    "commit_groups": {"review_translation", "translate_offsets", "stop_mirror_maker"},
    "open_target": {"commit_groups", "stop_mirror_maker", "fence_source", "approve_data_loss", "review_translation"},
    "redirect_clients": {"open_target", "commit_groups"},
    "verify_clients": {"redirect_clients"},
}


@pytest.mark.parametrize(("step", "before"), ORDER.items(), ids=ORDER)
def test_the_dangerous_order(dag: Any, step: str, before: set[str]) -> None:
    """What must precede a step precedes it, by way of tasks that all must succeed."""
    assert before <= upstream(dag, step)
    assert dag.get_task(step).trigger_rule == "all_success"
    assert all(dag.get_task(t).trigger_rule == "all_success" for t in upstream(dag, step))


def test_going_on_never_waits_for_the_way_back(dag: Any) -> None:
    """return_to_source precedes nothing but the closing."""
    assert dag.get_task("return_to_source").downstream_task_ids == {"close_procedure"}


def test_the_way_back_runs_when_a_step_before_the_opening_failed(dag: Any) -> None:
    """It hangs on every step up to open_target, and on the one behind it, which finds out when open_target was only marked successful."""
    task = dag.get_task("return_to_source")
    order = [s.value for s in STEPS]
    assert task.trigger_rule == "one_failed"
    assert task.upstream_task_ids == {*order[: order.index(IRREVERSIBLE) + 1], "redirect_clients"}


def test_closing_always_runs_and_is_the_only_leaf(dag: Any) -> None:
    """Evidence whatever happened; the run's state is the closing's own, which never turns a failed run green."""
    assert dag.get_task("close_procedure").trigger_rule == "all_done"
    assert [t.task_id for t in dag.leaves] == ["close_procedure"]
    assert {"verify_clients", "return_to_source"} <= dag.get_task("close_procedure").upstream_task_ids


def test_only_one_thing_starts_the_run(dag: Any) -> None:
    """Nothing happens before the lease."""
    assert [t.task_id for t in dag.roots] == ["open_procedure"]


@pytest.mark.parametrize(("gate", "kind"), [("approve_data_loss", ApproveDataLoss), ("review_translation", ReviewTranslation)])
def test_silence_never_approves(dag: Any, gate: str, kind: type) -> None:
    """A gate has no default answer and takes one option."""
    task = dag.get_task(gate)
    assert isinstance(task, kind) and task.defaults is None and not task.multiple and task.options == ["Approve", "Reject"]


def test_an_answer_that_counts_for_nothing_is_asked_again(dag: Any) -> None:
    """Gates have tries of their own, beyond the house's default."""
    assert {t.retries for t in dag.tasks if isinstance(t, ProcedureGate)} == {5}


def test_the_graph_shows_one_box_a_step(dag: Any) -> None:
    """No task group, no mapped task, no name in code that is not the box's."""
    assert dag.task_group.children.keys() == set(dag.task_ids)


def test_no_step_needs_a_living_source(dag: Any) -> None:
    """None is of a kind that asks the source for its fence, its positions or its log ends."""
    asking = (FenceProducers, DrainConsumers, WaitForZeroLag, StopMirrorMaker, Forecast, CheckReadiness)
    assert not [t.task_id for t in dag.tasks if isinstance(t, asking)]
    kinds = {"stop_mirror_maker": StopLeftMirrorMaker, "translate_offsets": TranslateWithoutSource, "commit_groups": CommitWithoutSource, "open_target": OpenWithoutSource}
    assert {name: type(dag.get_task(name)) for name in kinds} == kinds
