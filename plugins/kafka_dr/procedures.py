"""Defines the procedures, one per DAG: the steps of each in order, and the params of its form.

Airflow's forms, the gates, the live page, the timeline and the manual commands are derived from these definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kafka_dr.form_fields import (
    AGAIN,
    APPROVAL_WAIT,
    CHANGED,
    COMMON,
    COMPARED,
    COOL_DOWN,
    ENDS,
    FENCED,
    KIND,
    LOST,
    LOST_CLUSTER_FIELDS,
    OWNER,
    PART,
    RETURNED,
    START_REVERSE,
    UNDONE,
    VERIFY_WAIT,
    Field,
)
from kafka_dr.vocabulary import Step

#: What the param `topics` may be: all of the flow's topics, some of them by choice, or some that must be named.
TopicChoice = Literal["all", "some", "named"]

#: Steps that ask a second person and wait for the answer.
GATES = (
    Step.DECIDE_STRANDED_RECORDS,
    Step.APPROVE_FAILOVER,
    Step.APPROVE_DATA_LOSS,
    Step.REVIEW_TRANSLATION,
    Step.APPROVE_RESTORE,
    Step.APPROVE_CHANGE,
    Step.APPROVE_RE_REPLICATION,
    Step.APPROVE_LOST_CLUSTER,
    Step.ANNOUNCE_DRILL,
    Step.SIGN_OFF_DRILL,
)
#: Steps that wait for records or consumers; `seconds.drain` in the evidence is the time of these steps.
DRAINS = (Step.WAIT_FOR_CATCH_UP, Step.DRAIN_CONSUMERS, Step.WAIT_FOR_ZERO_LAG, Step.VERIFY_COPIES)


@dataclass(frozen=True)
class ProcedureDefinition:
    """One procedure.

    Attributes:
        steps: the procedure's own steps in DAG order, without the steps that every procedure has.
        fields: the form's params.
        last_step: the step whose outcome completes the procedure.
        needs_source: whether a step needs a source that answers.
        moves_clients: whether clients move to another cluster.
        only_reads: whether no step changes anything on a cluster; such a run may choose some of the flow's topics, and
            keeps no other procedure from the clusters.
        chooses_topics: whether the param `topics` must be given, and may choose some of the flow's topics.
    """

    dag_id: str
    steps: tuple[Step, ...]
    fields: tuple[Field, ...]
    last_step: Step
    needs_source: bool = True
    moves_clients: bool = True
    only_reads: bool = False
    chooses_topics: bool = False

    @property
    def params(self) -> frozenset[str]:
        """Return the names of the form's params."""
        return frozenset(field.name for field in self.fields)

    @property
    def journal_steps(self) -> tuple[Step, ...]:
        """Return all steps that may write to the journal under the procedure's id, in the order of a run."""
        watcher = () if self.needs_source else (Step.WATCH_OLD_SOURCE,)
        return (*self.steps, Step.ABORT_PROCEDURE, Step.RETURN_TO_SOURCE, *watcher, Step.CLOSE_PROCEDURE)


_COMMIT = (Step.TRANSLATE_OFFSETS, Step.REVIEW_TRANSLATION, Step.COMMIT_GROUPS)
_MOVE = (Step.OPEN_TARGET, Step.REDIRECT_CLIENTS, Step.VERIFY_CLIENTS)
_FROM_READINESS = (
    Step.CHECK_READINESS,
    Step.FORECAST,
    Step.APPROVE_FAILOVER,
    Step.FENCE_PRODUCERS,
    Step.DRAIN_CONSUMERS,
    Step.WAIT_FOR_ZERO_LAG,
    Step.STOP_MIRROR_MAKER,
    *_COMMIT,
    Step.SEED_REVERSE_REPLICATION,
    *_MOVE,
    Step.START_REVERSE_REPLICATION,
)

PLANNED_FAILOVER = ProcedureDefinition(
    "planned_failover",
    (Step.OPEN_PROCEDURE, *_FROM_READINESS),
    (*COMMON, *FENCED),
    last_step=Step.START_REVERSE_REPLICATION,
)
UNPLANNED_FAILOVER = ProcedureDefinition(
    "unplanned_failover",
    (
        Step.OPEN_PROCEDURE,
        Step.CONFIRM_SOURCE_LOST,
        Step.ASSESS_DATA_LOSS,
        Step.APPROVE_DATA_LOSS,
        Step.FENCE_SOURCE,
        Step.STOP_MIRROR_MAKER,
        *_COMMIT,
        *_MOVE,
    ),
    (*COMMON, *LOST, PART),
    last_step=Step.VERIFY_CLIENTS,
    needs_source=False,
)
#: Starts and follows the unplanned failovers of all pairs of one lost cluster, under one plan.
LOST_CLUSTER = ProcedureDefinition(
    "lost_cluster",
    (
        Step.OPEN_PROCEDURE,
        Step.START_PAIRS,
        Step.PLAN_LOST_CLUSTER,
        Step.APPROVE_LOST_CLUSTER,
        Step.FOLLOW_PAIRS,
    ),
    (*ENDS, COOL_DOWN, OWNER, APPROVAL_WAIT, VERIFY_WAIT, *LOST_CLUSTER_FIELDS),
    last_step=Step.FOLLOW_PAIRS,
    needs_source=False,
    moves_clients=False,
)
FAILBACK = ProcedureDefinition(
    "failback",
    (
        Step.OPEN_PROCEDURE,
        Step.FENCE_RETURNED_CLUSTER,
        Step.FIND_STRANDED_RECORDS,
        Step.DECIDE_STRANDED_RECORDS,
        Step.PREPARE_TOPICS,
        Step.RECONCILE_STRANDED_RECORDS,
        Step.SEED_FLOW_BACK,
        Step.START_FLOW_BACK,
        Step.WAIT_FOR_CATCH_UP,
        *_FROM_READINESS,
    ),
    (*COMMON, *(field for field in FENCED if field is not START_REVERSE), *RETURNED),
    last_step=Step.START_REVERSE_REPLICATION,
)
RESTORE_GROUP_OFFSETS = ProcedureDefinition(
    "restore_group_offsets",
    (Step.OPEN_PROCEDURE, Step.PLAN_RESTORE, Step.APPROVE_RESTORE, Step.RESTORE_POSITIONS),
    (*ENDS, COOL_DOWN, APPROVAL_WAIT, *UNDONE),
    last_step=Step.RESTORE_POSITIONS,
    moves_clients=False,
)
CHANGE_REPLICATION = ProcedureDefinition(
    "change_replication",
    (
        Step.OPEN_PROCEDURE,
        Step.PLAN_CHANGE,
        Step.APPROVE_CHANGE,
        Step.STOP_CHANGED_FLOW,
        Step.CHANGE_CONNECTORS,
        Step.RESUME_CHANGED_FLOW,
    ),
    (*ENDS, COOL_DOWN, OWNER, APPROVAL_WAIT, *CHANGED),
    last_step=Step.RESUME_CHANGED_FLOW,
    moves_clients=False,
)
RE_REPLICATE_TOPICS = ProcedureDefinition(
    "re_replicate_topics",
    (
        Step.OPEN_PROCEDURE,
        Step.PLAN_RE_REPLICATION,
        Step.APPROVE_RE_REPLICATION,
        Step.EXPORT_TARGET_TOPICS,
        Step.STOP_MIRROR_MAKER,
        Step.RECREATE_TARGET_TOPICS,
        Step.SEED_REPLICATION,
        Step.START_REPLICATION,
        Step.VERIFY_COPIES,
        Step.PLACE_TARGET_GROUPS,
    ),
    (
        *ENDS,
        COOL_DOWN,
        APPROVAL_WAIT,
        *AGAIN,
    ),
    last_step=Step.PLACE_TARGET_GROUPS,
    moves_clients=False,
    chooses_topics=True,
)
FAILOVER_DRILL = ProcedureDefinition(
    "failover_drill",
    (
        Step.OPEN_PROCEDURE,
        Step.CHECK_READINESS,
        Step.FORECAST,
        Step.ANNOUNCE_DRILL,
        Step.PREPARE_DRILL,
        Step.RUN_PLANNED_FAILOVER,
        Step.RUN_FAILBACK,
        Step.RUN_UNPLANNED_FAILOVER,
        Step.RUN_SECOND_FAILBACK,
        Step.CLEAN_DRILL,
        Step.SIGN_OFF_DRILL,
    ),
    (*ENDS, KIND, APPROVAL_WAIT),
    last_step=Step.SIGN_OFF_DRILL,
    moves_clients=False,
)
RECONCILE_CLUSTERS = ProcedureDefinition(
    "reconcile_clusters",
    (Step.OPEN_PROCEDURE, Step.SET_BOUNDS, Step.COMPARE_RECORDS),
    (*ENDS, *COMPARED),
    last_step=Step.COMPARE_RECORDS,
    moves_clients=False,
    only_reads=True,
)
DIAGNOSE_REPLICATION = ProcedureDefinition(
    "diagnose_replication",
    (Step.OPEN_PROCEDURE, Step.DIAGNOSE_REPLICATION),
    ENDS,
    last_step=Step.DIAGNOSE_REPLICATION,
    moves_clients=False,
    only_reads=True,
)
#: How the ids of runs of failover_drill begin that schedule_drills starts.
DUE_RUN = "due__"
#: How the ids of runs begin that the command `run` started; the database of the site's Airflow does not have them.
COMMAND_RUN = "command__"
#: Acts on the procedure that holds the pair of clusters, and writes to that procedure's journal.
ABORT_PROCEDURE = ProcedureDefinition("abort_procedure", (Step.ABORT_PROCEDURE,), ENDS, Step.ABORT_PROCEDURE)

PROCEDURES: Mapping[str, ProcedureDefinition] = {
    row.dag_id: row
    for row in (
        PLANNED_FAILOVER,
        UNPLANNED_FAILOVER,
        LOST_CLUSTER,
        FAILBACK,
        RESTORE_GROUP_OFFSETS,
        RE_REPLICATE_TOPICS,
        CHANGE_REPLICATION,
        RECONCILE_CLUSTERS,
        DIAGNOSE_REPLICATION,
        FAILOVER_DRILL,
        ABORT_PROCEDURE,
    )
}
_PARAMS_OF_ANY = frozenset[str]().union(*(row.params for row in PROCEDURES.values()))


def steps_of(dag_id: str) -> tuple[Step, ...]:
    """Return the steps that may write journal entries for a DAG's procedures; all steps for an unknown DAG."""
    row = PROCEDURES.get(dag_id)
    return tuple(Step) if row is None else row.journal_steps


def lease_name(dag_id: str, pair: str) -> str:
    """Return the name of the lease that a run of a DAG takes on a pair of clusters.

    A drill takes a lease of another name, so that it keeps no procedure from the pair, and so does a procedure that
    only reads, and one that leaves all changes to the runs that it starts.
    """
    if dag_id == FAILOVER_DRILL.dag_id:
        return f"drill:{pair}"
    return f"{dag_id}:{pair}" if only_reads(dag_id) or dag_id == LOST_CLUSTER.dag_id else pair


def topic_choice(dag_id: str) -> TopicChoice:
    """Return which topics of the flow the param `topics` of a DAG may choose."""
    row = PROCEDURES.get(dag_id)
    if row is not None and row.chooses_topics:
        return "named"
    return "some" if only_reads(dag_id) else "all"


def only_reads(dag_id: str) -> bool:
    """Whether no step of a DAG changes anything on a cluster; False for an unknown DAG."""
    row = PROCEDURES.get(dag_id)
    return row is not None and row.only_reads


def foreign_params(dag_id: str) -> frozenset[str]:
    """Return the params that other DAGs take and this DAG does not; an empty set for an unknown DAG."""
    row = PROCEDURES.get(dag_id)
    return frozenset() if row is None else _PARAMS_OF_ANY - row.params
