"""The params of the procedures' forms: what Airflow asks for, and the JSON schema of each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


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
ENDS = (
    _alias("source", "Alias of the cluster where clients are now."),
    _alias("target", "Alias of the cluster where clients go."),
    Field(
        "reason",
        {"type": "string", "minLength": 1, "maxLength": 500},
        "Why this run is made; the evidence states this reason.",
        required=True,
    ),
)
COOL_DOWN = _text(
    "acknowledge_cool_down",
    500,
    "Why this run cannot wait for the end of the cool-down after the last run; empty = the cool-down must have ended."
    " The second person who approves sees this reason.",
)
OWNER = _switch(
    "acknowledge_owner",
    "The program that puts connectors or ACL entries back, such as an operator, does not act during this run.",
)
APPROVAL_WAIT = _seconds("approval_wait_seconds", "How long a gate waits for an answer")
VERIFY_WAIT = _seconds("verify_seconds", "How long verify_clients waits for groups on the target")
COMMON = (
    *ENDS,
    _text("topics", 10_000, _PATTERNS, shortest=0),
    _text("groups", 10_000, _PATTERNS, shortest=0),
    COOL_DOWN,
    OWNER,
    APPROVAL_WAIT,
    VERIFY_WAIT,
)
START_REVERSE = _switch(
    "start_reverse_replication", "Start the reverse flow at the end, so that the target has a standby."
)
FENCED = (
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
        "Abort transactions that stay open after the fence; otherwise the run waits for them to end.",
    ),
    START_REVERSE,
    _seconds("max_fence_seconds", "How long clients may be fenced before the run returns to the source"),
    _seconds("transaction_seconds", "How long the run waits for open transactions after the fence"),
    _seconds("drain_seconds", "How long consumers may take to leave their groups by themselves"),
    _seconds("zero_lag_seconds", "How long wait_for_zero_lag may take"),
)
RETURNED = (
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
        START_REVERSE,
        default=True,
        description="Start the flow target->source at the end, as it was before the first failover: then the target has"
        " a standby.",
    ),
    _seconds("catch_up_seconds", "How long the flow back may take to copy what clients wrote since the failover"),
)
_OVERRIDE = _text(
    "override_source_lost",
    500,
    "Why clients leave the source although it was not shown to be lost; empty = the source must be shown to be"
    " lost. The second person who approves the loss sees this reason.",
)
_LOOKS = (
    _seconds("confirm_seconds", "How long the source must be observed to be lost"),
    _seconds("slow_seconds", "How long an answer of the source may take; a source that takes longer is slow"),
)
LOST = (
    _OVERRIDE,
    _text(
        "continue_procedure",
        300,
        "Id of a planned failover, or of a run of re_replicate_topics, during which the source was lost. This run"
        " continues it, and uses what it has proven.",
    ),
    *_LOOKS,
)
PART = _text(
    "common_plan",
    300,
    "Id of the run of lost_cluster whose plan this run is a part of; lost_cluster sets it. This run then asks nobody,"
    " and waits for the approval of that plan.",
)
LOST_CLUSTER_FIELDS = (
    _text(
        "other_targets",
        1_000,
        "Aliases of further clusters where clients of the lost cluster go, separated by commas; the routing record"
        " leads to `target` alone.",
    ),
    _OVERRIDE,
    *_LOOKS,
)
UNDONE = (
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

CHANGED = (
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

COMPARED = (
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

KIND = Field(
    "kind",
    {"type": ["null", "string"], "enum": [None, "observe", "canary", "full"]},
    "observe: changes nothing. canary: moves topics, groups and clients of the drill's own, there and back, twice."
    " full: announced; people move the real clients there and back. Empty = canary where the topology names Connect"
    " workers for drills, else observe.",
)
AGAIN = (
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
    _seconds("catch_up_seconds", "How long the chosen topics may take to be copied again"),
)
