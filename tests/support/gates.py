"""The gate of a planned failover, and the plan that it asks about."""

from __future__ import annotations

from kafka_dr.steps.planned.approve_failover import ApproveFailover
from kafka_dr.vocabulary import Step

GATE = Step.APPROVE_FAILOVER
PLAN = {
    "source": "primary",
    "target": "standby",
    "reason": "r",
    "lag": 0,
    "drain_seconds": None,
    "unproven": [],
    "deadlines": {"max_fence_seconds": 600.0},
}


def gate() -> ApproveFailover:
    """The gate of the failover, made anew as Airflow does for each try."""
    return ApproveFailover(task_id=GATE.value)
