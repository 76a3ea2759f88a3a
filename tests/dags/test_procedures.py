"""What holds of every procedure's DAG: one vocabulary, the point of no return, and who runs when something
fails.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization
from kafka_dr.procedures import steps_of
from kafka_dr.steps.base import JournaledStep
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.vocabulary import Step

IRREVERSIBLE = "open_target"
#: Steps of a procedure that other DAGs do.
NO_TASKS = {Step.ABORT_PROCEDURE, Step.WATCH_OLD_SOURCE}
#: By DAG, its last step before the closing.
PROCEDURES = {
    "planned_failover": "start_reverse_replication",
    "unplanned_failover": "verify_clients",
    "failback": "start_reverse_replication",
}
#: By DAG and step, what must precede it.
PLANNED = {
    "check_readiness": {"open_procedure"},
    "approve_failover": {"check_readiness", "forecast"},
    "fence_producers": {"approve_failover"},
    "drain_consumers": {"fence_producers"},
    "stop_mirror_maker": {"wait_for_zero_lag", "drain_consumers", "fence_producers"},
    "translate_offsets": {"stop_mirror_maker", "drain_consumers"},
    "commit_groups": {"review_translation", "translate_offsets", "stop_mirror_maker"},
    "seed_reverse_replication": {"stop_mirror_maker"},
    "open_target": {
        "commit_groups",
        "stop_mirror_maker",
        "wait_for_zero_lag",
        "fence_producers",
        "approve_failover",
        "review_translation",
        "seed_reverse_replication",
    },
    "redirect_clients": {"open_target", "commit_groups"},
    "verify_clients": {"redirect_clients"},
    "start_reverse_replication": {"open_target", "seed_reverse_replication"},
}
ORDER = {
    "planned_failover": PLANNED,
    "unplanned_failover": {
        "assess_data_loss": {"confirm_source_lost", "open_procedure"},
        "approve_data_loss": {"assess_data_loss"},
        "fence_source": {"approve_data_loss"},
        "stop_mirror_maker": {"fence_source", "approve_data_loss"},
        "translate_offsets": {"stop_mirror_maker", "assess_data_loss"},
        "commit_groups": {"review_translation", "translate_offsets", "stop_mirror_maker"},
        "open_target": {
            "commit_groups",
            "stop_mirror_maker",
            "fence_source",
            "approve_data_loss",
            "review_translation",
        },
        "redirect_clients": {"open_target", "commit_groups"},
        "verify_clients": {"redirect_clients"},
    },
    "failback": {
        **PLANNED,
        "find_stranded_records": {"fence_returned_cluster"},
        "decide_stranded_records": {"find_stranded_records"},
        "prepare_topics": {"decide_stranded_records", "find_stranded_records", "fence_returned_cluster"},
        "reconcile_stranded_records": {"decide_stranded_records", "prepare_topics"},
        "seed_flow_back": {"prepare_topics"},
        "start_flow_back": {"seed_flow_back", "reconcile_stranded_records", "fence_returned_cluster"},
        "wait_for_catch_up": {"start_flow_back"},
        "check_readiness": {"wait_for_catch_up", "prepare_topics", "open_procedure"},
    },
}


@pytest.fixture(params=PROCEDURES)
def dag(dag_bag: Any, request: pytest.FixtureRequest) -> Any:
    """Each procedure's DAG in turn."""
    return dag_bag.dags[request.param]


def upstream(dag: Any, task_id: str) -> set[str]:
    """Everything that precedes a task."""
    return {t.task_id for t in dag.get_task(task_id).get_flat_relatives(upstream=True)}


def steps(dag: Any) -> list[str]:
    """The procedure's steps that are tasks of its DAG, in the vocabulary's order."""
    return [step.value for step in steps_of(dag.dag_id) if step not in NO_TASKS]


def test_one_vocabulary(dag: Any) -> None:
    """Task ids are the steps, both ways, and every task is a journaled step."""
    assert set(dag.task_ids) == set(steps(dag))
    assert all(isinstance(t, JournaledStep) for t in dag.tasks)


def test_the_steps_follow_the_vocabularys_order(dag: Any) -> None:
    """Each step's predecessor is the one before it in the vocabulary."""
    order = [step for step in steps(dag) if step != Step.RETURN_TO_SOURCE]
    for before, step in itertools.pairwise(order):
        assert before in dag.get_task(step).upstream_task_ids, step


@pytest.mark.parametrize(("dag_id", "step"), [(dag_id, step) for dag_id, order in ORDER.items() for step in order])
def test_the_dangerous_order(dag_bag: Any, dag_id: str, step: str) -> None:
    """What must precede a step precedes it, by way of tasks that all must succeed."""
    dag = dag_bag.dags[dag_id]
    assert ORDER[dag_id][step] <= upstream(dag, step)
    assert dag.get_task(step).trigger_rule == "all_success"
    assert all(dag.get_task(t).trigger_rule == "all_success" for t in upstream(dag, step))


def test_going_on_never_waits_for_the_way_back(dag: Any) -> None:
    """return_to_source precedes nothing but the closing."""
    assert dag.get_task("return_to_source").downstream_task_ids == {"close_procedure"}


def test_the_way_back_runs_when_a_step_before_the_opening_failed(dag: Any) -> None:
    """It hangs on every step up to open_target, and on the one behind it, which finds out when open_target was only
    marked successful.
    """
    task, order = dag.get_task("return_to_source"), steps(dag)
    assert task.trigger_rule == "one_failed"
    assert task.upstream_task_ids == {*order[: order.index(IRREVERSIBLE) + 1], "redirect_clients"}


def test_closing_always_runs_and_is_the_only_leaf(dag: Any) -> None:
    """Evidence whatever happened; the run's state is the closing's own, which never turns a failed run green."""
    assert dag.get_task("close_procedure").trigger_rule == "all_done"
    assert [t.task_id for t in dag.leaves] == ["close_procedure"]
    assert {PROCEDURES[dag.dag_id], "return_to_source"} <= dag.get_task("close_procedure").upstream_task_ids


def test_only_one_thing_starts_the_run(dag: Any) -> None:
    """Nothing happens before the lease."""
    assert [t.task_id for t in dag.roots] == ["open_procedure"]


def test_silence_never_approves(dag: Any) -> None:
    """A gate has no default answer and takes one option."""
    gates = {t.task_id: t for t in dag.tasks if isinstance(t, ProcedureGate)}
    assert len(gates) >= 2 and "review_translation" in gates
    for gate in gates.values():
        assert gate.defaults is None and not gate.multiple and gate.options == ["Approve", "Reject"]


def test_an_answer_that_counts_for_nothing_is_asked_again(dag: Any) -> None:
    """Gates have tries of their own, beyond the house's default."""
    assert {t.retries for t in dag.tasks if isinstance(t, ProcedureGate)} == {5}


#: By DAG, the phases of its graph, and the tasks in none of them.
PHASES = {
    "planned_failover": ["prepare", "fence_and_drain", "translate_and_commit", "open_and_redirect", "afterwards"],
    "unplanned_failover": [
        "assess_the_loss",
        "fence_and_stop",
        "translate_and_commit",
        "open_and_redirect",
        "afterwards",
    ],
    "failback": [
        "settle_stranded_records",
        "flow_back",
        "prepare",
        "fence_and_drain",
        "translate_and_commit",
        "open_and_redirect",
        "afterwards",
    ],
}
IN_NO_PHASE = ["return_to_source", "close_procedure"]


def test_the_graph_shows_one_box_a_phase_and_in_it_one_box_a_step(dag: Any) -> None:
    """The phases follow each other as their steps do; what belongs to all of them stands apart; nothing is mapped."""
    phases = dag.task_group.children
    assert list(phases) == [*PHASES[dag.dag_id], *IN_NO_PHASE]
    inside = [task for phase in PHASES[dag.dag_id] for task in phases[phase].children]
    assert inside == [step for step in steps(dag) if step not in IN_NO_PHASE]


def test_a_phase_changes_no_id_and_no_predecessor(dag: Any) -> None:
    """A task's id is its step's name, and what precedes a task are steps alone."""
    assert set(dag.task_ids) == set(dag.task_dict) and not any("." in task_id for task_id in dag.task_ids)
    for task in dag.tasks:
        assert task.upstream_task_ids <= set(steps(dag))


def test_the_phases_are_stored_with_the_dag(dag: Any) -> None:
    """Airflow's page, which reads the stored DAG, has the phases under their titles."""
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    titles = [group.group_display_name for group in stored.task_group.children.values() if hasattr(group, "children")]
    assert sorted(titles) == sorted(phase.replace("_", " ") for phase in PHASES[dag.dag_id])
    assert set(stored.task_ids) == set(dag.task_ids)
