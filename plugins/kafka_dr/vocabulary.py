"""Words that task ids, journal, runbooks and evidence share: steps, entry kinds, outcomes, Switchback's topics.

This module imports no other module of Switchback.
"""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """Names of steps, the same in task ids, journal entries and runbook headings."""

    OPEN_PROCEDURE = "open_procedure"
    FENCE_RETURNED_CLUSTER = "fence_returned_cluster"
    FIND_STRANDED_RECORDS = "find_stranded_records"
    DECIDE_STRANDED_RECORDS = "decide_stranded_records"
    PREPARE_TOPICS = "prepare_topics"
    RECONCILE_STRANDED_RECORDS = "reconcile_stranded_records"
    SEED_FLOW_BACK = "seed_flow_back"
    START_FLOW_BACK = "start_flow_back"
    WAIT_FOR_CATCH_UP = "wait_for_catch_up"
    CHECK_READINESS = "check_readiness"
    FORECAST = "forecast"
    APPROVE_FAILOVER = "approve_failover"
    CONFIRM_SOURCE_LOST = "confirm_source_lost"
    ASSESS_DATA_LOSS = "assess_data_loss"
    APPROVE_DATA_LOSS = "approve_data_loss"
    FENCE_SOURCE = "fence_source"
    FENCE_PRODUCERS = "fence_producers"
    DRAIN_CONSUMERS = "drain_consumers"
    WAIT_FOR_ZERO_LAG = "wait_for_zero_lag"
    STOP_MIRROR_MAKER = "stop_mirror_maker"
    TRANSLATE_OFFSETS = "translate_offsets"
    REVIEW_TRANSLATION = "review_translation"
    COMMIT_GROUPS = "commit_groups"
    SEED_REVERSE_REPLICATION = "seed_reverse_replication"
    OPEN_TARGET = "open_target"
    REDIRECT_CLIENTS = "redirect_clients"
    VERIFY_CLIENTS = "verify_clients"
    START_REVERSE_REPLICATION = "start_reverse_replication"
    ANNOUNCE_DRILL = "announce_drill"
    PREPARE_DRILL = "prepare_drill"
    RUN_PLANNED_FAILOVER = "run_planned_failover"
    RUN_FAILBACK = "run_failback"
    RUN_UNPLANNED_FAILOVER = "run_unplanned_failover"
    RUN_SECOND_FAILBACK = "run_second_failback"
    CLEAN_DRILL = "clean_drill"
    SIGN_OFF_DRILL = "sign_off_drill"
    PLAN_RESTORE = "plan_restore"
    APPROVE_RESTORE = "approve_restore"
    RESTORE_POSITIONS = "restore_positions"
    PLAN_CHANGE = "plan_change"
    APPROVE_CHANGE = "approve_change"
    STOP_CHANGED_FLOW = "stop_changed_flow"
    CHANGE_CONNECTORS = "change_connectors"
    RESUME_CHANGED_FLOW = "resume_changed_flow"
    SET_BOUNDS = "set_bounds"
    COMPARE_RECORDS = "compare_records"
    PLAN_RE_REPLICATION = "plan_re_replication"
    APPROVE_RE_REPLICATION = "approve_re_replication"
    EXPORT_TARGET_TOPICS = "export_target_topics"
    RECREATE_TARGET_TOPICS = "recreate_target_topics"
    SEED_REPLICATION = "seed_replication"
    START_REPLICATION = "start_replication"
    VERIFY_COPIES = "verify_copies"
    PLACE_TARGET_GROUPS = "place_target_groups"
    DIAGNOSE_REPLICATION = "diagnose_replication"
    START_PAIRS = "start_pairs"
    PLAN_LOST_CLUSTER = "plan_lost_cluster"
    APPROVE_LOST_CLUSTER = "approve_lost_cluster"
    FOLLOW_PAIRS = "follow_pairs"
    ABORT_PROCEDURE = "abort_procedure"
    RETURN_TO_SOURCE = "return_to_source"
    WATCH_OLD_SOURCE = "watch_old_source"
    CLOSE_PROCEDURE = "close_procedure"


class Entry(StrEnum):
    """Kinds of journal entries."""

    OPENED = "opened"
    INTENT = "intent"
    OUTCOME = "outcome"
    REFUSAL = "refusal"
    FAILURE = "failure"
    APPROVAL = "approval"
    NOTE = "note"
    ABORT = "abort"
    CLOSED = "closed"


class ApprovedThrough(StrEnum):
    """How a run was approved.

    AIRFLOW: at the gates of the site's Airflow. OWN_DATABASE: at gates in the database of the command run_procedure.
    BY_HAND: a person opened the target manually, and no step checked an approval. DRILL: the run is a pass of a drill,
    which needs no approval.
    """

    AIRFLOW = "airflow"
    OWN_DATABASE = "own_database"
    BY_HAND = "by_hand"
    DRILL = "drill"


class Outcome(StrEnum):
    """How a procedure ended.

    REFUSED: ended before a cluster was changed. RETURNED: rolled back before the point of no return. ABORTED: rolled
    back because a person ran abort_procedure. FAILED: stopped in the middle; the procedure still holds the lease.
    """

    COMPLETED = "completed"
    RETURNED = "returned"
    REFUSED = "refused"
    ABORTED = "aborted"
    FAILED = "failed"


class TranslationClass(StrEnum):
    """How a target position was computed, best first.

    END: the boundary, because no unread record follows the group's position on the source. SYNC: stated by an offset
    sync. CONTENT: by comparing records of both clusters. INTERPOLATED: counted between two recorded pairs of offsets;
    no longer computed. NEAREST: the nearest recorded pair below. POLICY: the group's policy. REFUSED: no position,
    because a person must decide.
    """

    END = "END"
    SYNC = "SYNC"
    CONTENT = "CONTENT"
    INTERPOLATED = "INTERPOLATED"
    NEAREST = "NEAREST"
    POLICY = "POLICY"
    REFUSED = "REFUSED"


APPROVE = "Approve"
REJECT = "Reject"

#: Switchback's topics, on either cluster. MirrorMaker 2 never mirrors names that start with two underscores.
PROBE_TOPIC = "__switchback_probe"
CANARY_TOPIC = "__switchback_canary"
JOURNAL_TOPIC = "__switchback_journal"
#: Topic on the new primary. A progress record is committed in one transaction with replayed records, and has for each
#: partition of these records the first offset that is not replayed yet.
PROGRESS_TOPIC = "__switchback_replayed"
#: A transactional id that has no transaction: a try to abort it proves the rights to abort others.
CHECK_TRANSACTIONAL_ID = "__switchback_check"
#: A topic that a connector of Switchback's mirrors, so its name must be none of those that MirrorMaker 2 never mirrors.
#: The default of `topics.exclude` excludes it from all other connectors.
EXEMPT_TOPIC, EXEMPT_CONNECTOR = "switchback-canary.replica", "switchback-canary"
#: Markers: a connector that never runs, and an ACL entry for a principal that nobody has, on a topic that nobody makes.
MARKER_CONNECTOR, MARKER_TOPIC, MARKER_PRINCIPAL = "switchback-marker", "__switchback_marker", "User:switchback-marker"
#: Kafka's own topic with the commits of all groups.
COMMITS_TOPIC = "__consumer_offsets"
#: Kafka's own topics with the states of groups and transactions: those of a partition without leader stand still, and
#: their groups are not listed.
STATE_TOPICS = frozenset({COMMITS_TOPIC, "__transaction_state"})
#: Types of groups that hold positions which an admin client can read and commit, as Kafka calls them.
MOVED_GROUP_TYPES = frozenset({"classic", "consumer"})
