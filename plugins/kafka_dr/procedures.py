"""Defines the procedures, one per DAG: the steps of each in order, and the params of its form.

Airflow's forms, the gates, the live page, the timeline and the manual commands are derived from these definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
    Step.ANNOUNCE_DRILL,
    Step.SIGN_OFF_DRILL,
)
#: Steps that wait for records or consumers; `seconds.drain` in the evidence is the time of these steps.
DRAINS = (Step.WAIT_FOR_CATCH_UP, Step.DRAIN_CONSUMERS, Step.WAIT_FOR_ZERO_LAG, Step.VERIFY_COPIES)


@dataclass(frozen=True)
class Field:
    """One param of a form.

    Attributes:
        schema: JSON schema of the value.
        description: text beside the field.
        default: value if the person gives none. With None the topology's value applies, or the param counts as not
            given.
        required: whether Airflow refuses a run without a value.
    """

    name: str
    schema: Mapping[str, Any]
    description: str
    default: Any = None
    required: bool = False


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


def _alias(name: str, description: str) -> Field:
    return Field(name, {"type": "string", "minLength": 1, "maxLength": 100}, description, required=True)


def _text(name: str, longest: int, description: str, shortest: int = 1) -> Field:
    return Field(name, {"type": ["null", "string"], "minLength": shortest, "maxLength": longest}, description)


def _seconds(name: str, description: str) -> Field:
    schema = {"type": ["null", "number"], "exclusiveMinimum": 0, "maximum": 86_400}
    return Field(name, schema, f"{description}; empty = the topology's value.")


def _switch(name: str, description: str) -> Field:
    return Field(name, {"type": "boolean"}, description, default=False)


def _choice(name: str, options: tuple[str, ...], description: str) -> Field:
    return Field(name, {"type": "string", "enum": list(options)}, description, default=options[0])


def _map(name: str, values: Mapping[str, Any], description: str) -> Field:
    schema = {"type": ["null", "object"], "additionalProperties": {"type": "string", **values}}
    return Field(name, schema, description)


_PATTERNS = "Regular expressions as MirrorMaker 2 uses them; empty = all of the flow."
_ENDS = (
    _alias("source", "Alias of the cluster where clients are now."),
    _alias("target", "Alias of the cluster where clients go."),
    Field(
        "reason",
        {"type": "string", "minLength": 1, "maxLength": 500},
        "Why this run is made; the evidence states this reason.",
        required=True,
    ),
)
_COOL_DOWN = _text(
    "acknowledge_cool_down",
    500,
    "Why this run cannot wait for the end of the cool-down after the last run; empty = the cool-down must have ended."
    " The second person who approves sees this reason.",
)
_OWNER = _switch(
    "acknowledge_owner",
    "The program that puts connectors or ACL entries back, such as an operator, does not act during this run.",
)
_APPROVAL_WAIT = _seconds("approval_wait_seconds", "How long a gate waits for an answer")
_COMMON = (
    *_ENDS,
    _text("topics", 10_000, _PATTERNS, shortest=0),
    _text("groups", 10_000, _PATTERNS, shortest=0),
    _COOL_DOWN,
    _OWNER,
    _APPROVAL_WAIT,
    _seconds("verify_seconds", "How long verify_clients waits for groups on the target"),
)
_START_REVERSE = _switch(
    "start_reverse_replication", "Start the reverse flow at the end, so that the target has a standby."
)
_FENCED = (
    _switch(
        "acknowledge_recreated_topics",
        "Topics with another id than last time are meant to be new, and their old offset syncs are gone.",
    ),
    _map(
        "exclude_groups",
        {"minLength": 1, "maxLength": 500},
        'Groups for which the run does not wait, each with the reason: {"group": "why"}. The policies of these groups'
        " decide their positions.",
    ),
    _switch(
        "abort_open_transactions",
        "Abort transactions that stay open after the fence, with Kafka's own tool; otherwise the run waits for them to"
        " end.",
    ),
    _START_REVERSE,
    _seconds("max_fence_seconds", "How long clients may be fenced before the run returns to the source"),
    _seconds("transaction_seconds", "How long the run waits for open transactions after the fence"),
    _seconds("drain_seconds", "How long consumers may take to leave their groups by themselves"),
    _seconds("zero_lag_seconds", "How long wait_for_zero_lag may take"),
)
_RETURNED = (
    _choice(
        "mode",
        ("append", "recreate"),
        "append: the returned cluster's logs stay, and only new records are added. recreate: the returned cluster's"
        " topics are deleted and mirrored from their beginnings.",
    ),
    _map(
        "stranded",
        {"enum": ["keep", "replay", "quarantine", "discard"]},
        'What is done with stranded records (never replicated), by topic: {"regular expression": "keep"}. Empty ='
        " stranded records stay in place. All stranded records are exported first.",
    ),
    _choice(
        "compare",
        ("proven", "whole"),
        "proven: two logs are compared from the offsets up to which they were last proven alike. whole: from their"
        " beginnings.",
    ),
    replace(
        _START_REVERSE,
        default=True,
        description="Start the flow target->source at the end, as it was before the first failover: then the target has"
        " a standby.",
    ),
    _seconds("catch_up_seconds", "How long the flow back may take to copy what clients wrote since the failover"),
)
_LOST = (
    _text(
        "override_source_lost",
        500,
        "Why clients leave the source although it was not shown to be lost; empty = the source must be shown to be"
        " lost. The second person who approves the loss sees this reason.",
    ),
    _text(
        "continue_procedure",
        300,
        "Id of a planned failover during which the source was lost. This run continues it, and uses what it has"
        " proven.",
    ),
    _seconds("confirm_seconds", "How long the source must be observed to be lost"),
    _seconds("slow_seconds", "How long an answer of the source may take; a source that takes longer is slow"),
)
_UNDONE = (
    _text(
        "undo_procedure",
        300,
        "Id of the procedure whose commit is undone; empty = the last procedure from source to target that committed"
        " positions.",
    ),
    _switch(
        "overwrite_later_commits",
        "Restore also positions that were changed since that commit; otherwise these positions stay unchanged and are"
        " named.",
    ),
)

_CHANGED = (
    *(
        _text(f"{verb}_{kind}s", 10_000, f"{what}: regular expressions for {kind} names, separated by commas.")
        for verb, what in (("add", "Mirrored from now on"), ("remove", "No longer mirrored"))
        for kind in ("topic", "group")
    ),
    _map(
        "settings",
        {"maxLength": 100},
        'Settings of the connectors: {"tasks.max": "4"}; an empty value removes a setting. Taken are tasks.max,'
        " offset.lag.max, offset-syncs.topic.location, intervals, and tuning of producer.override.*, source.consumer.*"
        " and consumer.*.",
    ),
    _text("connector", 200, "The source connector to change, where several share the flow; empty = the only one."),
    _choice(
        "excluded_interval",
        ("copy", "skip"),
        "Topics that were mirrored once, and are included again: copy = what was written meanwhile is copied, too. skip"
        " = the target never gets these records.",
    ),
    _switch(
        "names_to_come",
        "Take a pattern that changes nothing for the topics or groups that exist now; it is meant for later names.",
    ),
)

_COMPARED = (
    _text("topics", 10_000, "Topics of the source, by regular expressions; empty = all of the flow.", shortest=0),
    _text(
        "since",
        40,
        "Time, such as 2026-11-28T10:00Z: only records from it on are compared; empty = from the logs' beginnings.",
    ),
    _text("until", 40, "Time: only records before it are compared; empty = up to the logs' ends."),
    _map(
        "offset_ranges",
        {"pattern": r"^\d*-\d*$"},
        'Source offsets to compare, by partition: {"TOPIC:PARTITION": "FROM-TO"}, without TO itself; FROM or TO may be'
        " left out.",
    ),
)

_KIND = Field(
    "kind",
    {"type": ["null", "string"], "enum": [None, "observe", "canary", "full"]},
    "observe: changes nothing. canary: moves topics, groups and clients of the drill's own, there and back, twice."
    " full: announced; people move the real clients there and back. Empty = canary where the topology names Connect"
    " workers for drills, else observe.",
)
_AGAIN = (
    Field(
        "topics",
        {"type": "string", "minLength": 1, "maxLength": 10_000},
        "Topics of the source to copy again: names, or regular expressions as MirrorMaker 2 uses them; `.*` = all of"
        " the flow.",
        required=True,
    ),
    _switch(
        "delete_target_topics",
        "Delete these topics on the target first, so that each record is there once; otherwise the older copies stay,"
        " and every record that is copied again is there twice.",
    ),
    _switch(
        "include_compacted",
        "Copy compacted topics again, too: records that compaction has removed on the source are not copied.",
    ),
    _map("from_offset", {"type": "integer"}, '{"topic": 1000} or {"topic:partition": 1000}: first offset to copy.'),
    _map("from_time", {}, '{"topic": "2026-11-28T10:00:00Z"} or {"topic:partition": ...}: copy from this time on.'),
)

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
    (*_COMMON, *_FENCED),
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
    (*_COMMON, *_LOST),
    last_step=Step.VERIFY_CLIENTS,
    needs_source=False,
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
    (*_COMMON, *(field for field in _FENCED if field is not _START_REVERSE), *_RETURNED),
    last_step=Step.START_REVERSE_REPLICATION,
)
RESTORE_GROUP_OFFSETS = ProcedureDefinition(
    "restore_group_offsets",
    (Step.OPEN_PROCEDURE, Step.PLAN_RESTORE, Step.APPROVE_RESTORE, Step.RESTORE_POSITIONS),
    (*_ENDS, _COOL_DOWN, _APPROVAL_WAIT, *_UNDONE),
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
    (*_ENDS, _COOL_DOWN, _OWNER, _APPROVAL_WAIT, *_CHANGED),
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
        *_ENDS,
        _COOL_DOWN,
        _APPROVAL_WAIT,
        *_AGAIN,
        _seconds("catch_up_seconds", "How long the chosen topics may take to be copied again"),
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
    (*_ENDS, _KIND, _APPROVAL_WAIT),
    last_step=Step.SIGN_OFF_DRILL,
    moves_clients=False,
)
RECONCILE_CLUSTERS = ProcedureDefinition(
    "reconcile_clusters",
    (Step.OPEN_PROCEDURE, Step.SET_BOUNDS, Step.COMPARE_RECORDS),
    (*_ENDS, *_COMPARED),
    last_step=Step.COMPARE_RECORDS,
    moves_clients=False,
    only_reads=True,
)
DIAGNOSE_REPLICATION = ProcedureDefinition(
    "diagnose_replication",
    (Step.OPEN_PROCEDURE, Step.DIAGNOSE_REPLICATION),
    _ENDS,
    last_step=Step.DIAGNOSE_REPLICATION,
    moves_clients=False,
    only_reads=True,
)
#: How the ids of runs of failover_drill begin that schedule_drills starts.
DUE_RUN = "due__"
#: Acts on the procedure that holds the pair of clusters, and writes to that procedure's journal.
ABORT_PROCEDURE = ProcedureDefinition("abort_procedure", (Step.ABORT_PROCEDURE,), _ENDS, Step.ABORT_PROCEDURE)

PROCEDURES: Mapping[str, ProcedureDefinition] = {
    row.dag_id: row
    for row in (
        PLANNED_FAILOVER,
        UNPLANNED_FAILOVER,
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
    only reads.
    """
    if dag_id == FAILOVER_DRILL.dag_id:
        return f"drill:{pair}"
    return f"{dag_id}:{pair}" if only_reads(dag_id) else pair


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
