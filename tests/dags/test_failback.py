"""failback: a planned failover the other way, behind what makes the returned cluster fit for it."""

from __future__ import annotations

from typing import Any

from kafka_dr.steps.failback.decide_stranded_records import DecideStrandedRecords
from kafka_dr.steps.planned.approve_failover import ApproveFailover
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.vocabulary import Step

OF_ITS_OWN = (
    "fence_returned_cluster",
    "find_stranded_records",
    "decide_stranded_records",
    "prepare_topics",
    "reconcile_stranded_records",
    "seed_flow_back",
    "start_flow_back",
    "wait_for_catch_up",
)


def test_what_moves_clients_is_a_planned_failover(dag_bag: Any) -> None:
    """The same steps under the same task ids, none copied; only what makes the returned cluster fit is its own."""
    kinds = {
        dag_id: {t.task_id: type(t) for t in dag_bag.dags[dag_id].tasks} for dag_id in ("failback", "planned_failover")
    }
    assert {name: kind for name, kind in kinds["failback"].items() if name not in OF_ITS_OWN} == kinds[
        "planned_failover"
    ]
    assert set(OF_ITS_OWN) == kinds["failback"].keys() - kinds["planned_failover"].keys()


def test_nobody_stands_still_before_the_flow_back_has_caught_up(dag_bag: Any) -> None:
    """Clients of the new primary are fenced only behind it."""
    dag = dag_bag.dags["failback"]
    assert "wait_for_catch_up" in {
        t.task_id for t in dag.get_task(Step.FENCE_PRODUCERS).get_flat_relatives(upstream=True)
    }


def test_people_are_asked(dag_bag: Any) -> None:
    """What becomes of stranded records, the plan, and positions that are not proven."""
    dag = dag_bag.dags["failback"]
    gates = {
        "decide_stranded_records": DecideStrandedRecords,
        "approve_failover": ApproveFailover,
        "review_translation": ReviewTranslation,
    }
    assert {name: type(dag.get_task(name)) for name in gates} == gates
