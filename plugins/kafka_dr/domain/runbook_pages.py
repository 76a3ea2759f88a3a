"""The runbook page and heading that explain a step, as text for messages and pages: `runbooks/PAGE.md#HEADING`."""

from __future__ import annotations

from collections.abc import Container, Mapping

from kafka_dr.procedures import (
    CHANGE_REPLICATION,
    DIAGNOSE_REPLICATION,
    FAILOVER_DRILL,
    LOST_CLUSTER,
    PLANNED_FAILOVER,
    PROCEDURES,
    RE_REPLICATE_TOPICS,
    RECONCILE_CLUSTERS,
    RESTORE_GROUP_OFFSETS,
)
from kafka_dr.vocabulary import Step

#: DAGs that no rollback belongs to.
_NEVER_RETURN = tuple(
    row.dag_id
    for row in (LOST_CLUSTER, RESTORE_GROUP_OFFSETS, RECONCILE_CLUSTERS, DIAGNOSE_REPLICATION, FAILOVER_DRILL)
)
#: Tasks without a heading on stuck_procedure.md, each with the page that explains its failures.
_FAILURES_ELSEWHERE: Mapping[str, str] = {
    Step.PLAN_RESTORE: "restore_group_offsets",
    Step.APPROVE_RESTORE: "restore_group_offsets",
    Step.RESTORE_POSITIONS: "restore_group_offsets",
    **{step: CHANGE_REPLICATION.dag_id for step in CHANGE_REPLICATION.steps if step != Step.OPEN_PROCEDURE},
    **{step: LOST_CLUSTER.dag_id for step in LOST_CLUSTER.steps if step != Step.OPEN_PROCEDURE},
    Step.SET_BOUNDS: "reconcile_clusters",
    Step.COMPARE_RECORDS: "reconcile_clusters",
    Step.DIAGNOSE_REPLICATION: "diagnose_replication",
    Step.ABORT_PROCEDURE: "abort_procedure",
    "record_positions": "record_positions",
    "check_flows": "readiness_check",
    "send_notices": "readiness_check",
    "run_drill_clients": "failover_drill",
    "clean_left_drills": "schedule_drills",
    "start_due_drill": "schedule_drills",
    **{step: RE_REPLICATE_TOPICS.dag_id for step in RE_REPLICATE_TOPICS.steps if step not in PLANNED_FAILOVER.steps},
    **{step: "failover_drill" for step in FAILOVER_DRILL.steps if step not in PLANNED_FAILOVER.steps},
}
#: Steps that a procedure's own page does not explain, each with the page that does.
_EXPLAINED_ELSEWHERE: Mapping[str, str] = {
    Step.ABORT_PROCEDURE: "abort_procedure",
    Step.WATCH_OLD_SOURCE: "watch_old_source",
}


def page_of_failure(step: str) -> str:
    """Return `runbooks/PAGE.md#HEADING` of the heading that says what a step's failures mean and what to do."""
    return f"runbooks/{_FAILURES_ELSEWHERE.get(step, 'stuck_procedure')}.md#{step}"


def page_of_step(dag_id: str, step: str) -> str:
    """Return `runbooks/PAGE.md#HEADING` of the heading that says what a step of the DAG `dag_id` does and proves."""
    if dag_id not in PROCEDURES:
        return page_of_failure(step)
    if step == Step.RETURN_TO_SOURCE and dag_id in _NEVER_RETURN:
        return f"runbooks/{Step.ABORT_PROCEDURE}.md#{step}"  # only an abort writes this step for them
    return f"runbooks/{_EXPLAINED_ELSEWHERE.get(step, dag_id)}.md#{step}"


def page_of_finding(finding: str, checks_of_procedures: Container[str]) -> str:
    """Return `runbooks/PAGE.md#HEADING` of the heading that says what a finding of readiness_check means.

    Args:
        finding: id of the finding.
        checks_of_procedures: ids of the findings that the step check_readiness makes, too.
    """
    if finding in checks_of_procedures:
        return f"runbooks/planned_failover.md#{Step.CHECK_READINESS}"
    return f"runbooks/readiness_check.md#{finding}"
