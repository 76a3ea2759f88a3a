"""What all procedures share: default arguments, tags, and the form's params."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

#: A killed task is retried; a refusal fails at once (it raises AirflowFailException).
DEFAULT_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 2, "retry_delay": timedelta(seconds=2)}

#: The recorder is started again for as long as its run lives, and by the next run after that.
RECORDER_ARGS: dict[str, Any] = {"owner": "switchback", "retries": 1_000, "retry_delay": timedelta(seconds=5)}

#: The watcher too, and sooner: while it is away, an old source may accept writes.
WATCHER_ARGS: dict[str, Any] = {**RECORDER_ARGS, "retry_delay": timedelta(seconds=1)}

TAGS = ["switchback", "kafka"]


def _alias(description: str) -> Param:
    return Param(type="string", minLength=1, maxLength=100, description=description)


def _seconds(default: float | None, description: str) -> Param:
    return Param(default, type=["null", "number"], exclusiveMinimum=0, maximum=86_400, description=description)


def abort_params() -> dict[str, Param]:
    """The form of the abort: the pair of clusters says which procedure, since only one can hold it."""
    return {
        "source": _alias("Alias of the cluster where clients are now."),
        "target": _alias("Alias of the cluster where clients go."),
        "reason": Param(type="string", minLength=1, maxLength=500, description="Why; it stands in the evidence."),
    }


def _common_params() -> dict[str, Param]:
    """What every procedure that moves clients is told: cluster aliases come from the topology, never addresses."""
    return {
        "source": _alias("Alias of the cluster where clients are now."),
        "target": _alias("Alias of the cluster where clients go."),
        "reason": Param(type="string", minLength=1, maxLength=500, description="Why; it stands in the evidence."),
        "topics": Param(
            None,
            type=["null", "string"],
            maxLength=10_000,
            description="Regular expressions as MirrorMaker 2 uses them; empty = all of the flow.",
        ),
        "groups": Param(
            None,
            type=["null", "string"],
            maxLength=10_000,
            description="Regular expressions as MirrorMaker 2 uses them; empty = all of the flow.",
        ),
        "acknowledge_cool_down": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=500,
            description=(
                "Why this run cannot wait for the end of the cool-down after the last one; empty = it must have ended."
                " The second person who approves sees it."
            ),
        ),
        "approval_wait_seconds": _seconds(None, "How long an answer is waited for; empty = the topology's."),
        "verify_seconds": _seconds(None, "How long groups are waited for on the target; empty = the topology's."),
    }


def procedure_params() -> dict[str, Param]:
    """The form of a planned failover."""
    return {
        **_common_params(),
        "acknowledge_recreated_topics": Param(
            False,
            type="boolean",
            description=(
                "Topics with another id than last time are meant to be new, and their old offset syncs are gone."
            ),
        ),
        "exclude_groups": Param(
            None,
            type=["null", "object"],
            additionalProperties={"type": "string", "minLength": 1, "maxLength": 500},
            description=(
                'Groups that are not waited for, each with the reason: {"group": "why"}. Their positions are left to'
                " their policies."
            ),
        ),
        "abort_open_transactions": Param(
            False,
            type="boolean",
            description=(
                "Transactions that stay open behind the fence are aborted by Kafka's own tool; otherwise they are"
                " waited for."
            ),
        ),
        "start_reverse_replication": Param(
            False, type="boolean", description="Give the new primary a standby at the end."
        ),
        "max_fence_seconds": _seconds(None, "Clients are fenced no longer than this; empty = the topology's."),
        "transaction_seconds": _seconds(
            None, "How long open transactions are waited for behind the fence; empty = the topology's."
        ),
        "drain_seconds": _seconds(None, "How long consumers are given to leave by themselves; empty = the topology's."),
        "zero_lag_seconds": _seconds(None, "Deadline of the drain; empty = the topology's."),
    }


def failback_params() -> dict[str, Param]:
    """The form of a failback: that of a planned failover, and what becomes of the returned cluster's logs."""
    return {
        **procedure_params(),
        "mode": Param(
            "append",
            type="string",
            enum=["append", "recreate"],
            description=(
                "append: the returned cluster's logs stay, only what is new is added. recreate: its topics are deleted"
                " and mirrored whole."
            ),
        ),
        "stranded": Param(
            None,
            type=["null", "object"],
            additionalProperties={"type": "string", "enum": ["keep", "replay", "quarantine", "discard"]},
            description=(
                'What becomes of records that were never replicated, by topic: {"regular expression": "keep"}. Empty ='
                " they are kept in place. All are exported before."
            ),
        ),
        "compare": Param(
            "proven",
            type="string",
            enum=["proven", "whole"],
            description=(
                "proven: the logs are compared from where they were last proven alike. whole: from their beginnings."
            ),
        ),
        "start_reverse_replication": Param(
            True,
            type="boolean",
            description="Give the new primary a standby at the end: the flow as it was before the first failover.",
        ),
        "catch_up_seconds": _seconds(
            None,
            "How long the flow back is given to copy what clients wrote since the failover; empty = the topology's.",
        ),
    }


def restore_params() -> dict[str, Param]:
    """The form of a restore: which commit is undone. It moves no client, and waits for none."""
    common = ("source", "target", "reason", "acknowledge_cool_down", "approval_wait_seconds")
    return {
        **{name: param for name, param in _common_params().items() if name in common},
        "undo_procedure": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=300,
            description=(
                "The procedure whose commit is undone, by its id; empty = the last one from source to target that"
                " committed."
            ),
        ),
        "overwrite_later_commits": Param(
            False,
            type="boolean",
            description=(
                "Positions that somebody changed since that commit are put back, too; otherwise they are left as they"
                " are, and named."
            ),
        ),
    }


def lost_source_params() -> dict[str, Param]:
    """The form of an unplanned failover."""
    return {
        **_common_params(),
        "override_source_lost": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=500,
            description=(
                "Why the source is left although it was not seen lost; empty = it must be. The second person who"
                " approves the loss sees it."
            ),
        ),
        "continue_procedure": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=300,
            description=(
                "A planned failover in whose middle the source died: its procedure id. What it had proven is taken"
                " over."
            ),
        ),
        "confirm_seconds": _seconds(None, "How long the source must be seen lost; empty = the topology's."),
        "slow_seconds": _seconds(None, "A source that answers later than this is slow; empty = the topology's."),
    }
