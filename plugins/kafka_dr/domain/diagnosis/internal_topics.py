"""The tree of MirrorMaker 2's internal topics: offset syncs, checkpoints and heartbeats that stay away."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply


class InternalKind(StrEnum):
    """What an internal topic holds."""

    OFFSET_SYNCS = "offset syncs"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"


@dataclass(frozen=True)
class InternalTopicFacts:
    """One internal topic of the flow.

    Attributes:
        alias: the cluster on which it is.
        exists: whether that cluster has it.
        due: what it should have a newer record of, as text; "" if nothing is known to be due.
        newest: the age of its newest record, as text.
        writer_works: whether the connector that writes it, or mirrors it, has no finding of its own.
        written: of heartbeats, whether the source has new ones; None if unknown.
    """

    kind: InternalKind
    name: str
    alias: str
    exists: bool = True
    due: str = ""
    newest: str = ""
    writer_works: bool = True
    written: bool | None = None


INTERNAL_TOPIC_MISSING = DiagnosisEnd(
    "internal_topic_missing",
    "An internal topic of MirrorMaker 2 does not exist, although there is something to write to it: it was deleted, or"
    " MirrorMaker 2 may not create it.",
    "Restart the connector that writes it, which creates it at its start; or create it by hand: one partition,"
    " `cleanup.policy=compact`. Older offset syncs and checkpoints do not come back.",
)
OFFSET_SYNCS_QUIET = DiagnosisEnd(
    "offset_syncs_quiet",
    "Records were copied, and no offset sync was written since: new positions cannot be translated.",
    "Check MirrorMaker 2's right to WRITE to the offset-syncs topic, then search the worker's log for `offset sync`."
    " Restart the source connector.",
)
HEARTBEATS_NOT_WRITTEN = DiagnosisEnd(
    "heartbeats_not_written",
    "No new heartbeat is written on the source: the heartbeat connector there is missing, stopped or failed.",
    "Start the heartbeat connector that writes to the source. It usually runs in the worker of the opposite flow.",
)
HEARTBEATS_NOT_MIRRORED = DiagnosisEnd(
    "heartbeats_not_mirrored",
    "The source has new heartbeats, and the target has no new copy of them.",
    "Remove `heartbeats.replication.enabled=false` from the source connector, or look at what holds its task back.",
)


def _ask_due(topic: InternalTopicFacts) -> Reply:
    return Reply("yes", topic.due) if topic.due else Reply("no")


def _ask_writer(topic: InternalTopicFacts) -> Reply:
    return Reply("yes" if topic.writer_works else "no")


def _ask_exists(topic: InternalTopicFacts) -> Reply:
    return Reply("yes", topic.newest) if topic.exists else Reply("no", f"{topic.name} on {topic.alias} is missing")


def _ask_kind(topic: InternalTopicFacts) -> Reply:
    return Reply(topic.kind.value)


def _ask_written(topic: InternalTopicFacts) -> Reply:
    return Reply("no" if topic.written is False else "yes, or unknown")


_KIND = DiagnosisQuestion[InternalTopicFacts](
    "What does it hold?",
    _ask_kind,
    {
        InternalKind.OFFSET_SYNCS: OFFSET_SYNCS_QUIET,
        InternalKind.CHECKPOINTS: NothingFound("the tree of the groups asks about each checkpoint"),
        InternalKind.HEARTBEATS: HEARTBEATS_NOT_MIRRORED,
    },
)
_WRITER = DiagnosisQuestion[InternalTopicFacts](
    "Does the connector that writes or mirrors it work?",
    _ask_writer,
    {
        "no": NothingFound("the connector has a finding"),
        "yes": DiagnosisQuestion("Does it exist?", _ask_exists, {"no": INTERNAL_TOPIC_MISSING, "yes": _KIND}),
    },
)

INTERNAL_TOPIC_TREE = DiagnosisTree[InternalTopicFacts](
    "internal_topics",
    lambda topic: f"{topic.name} on {topic.alias}",
    DiagnosisQuestion(
        "Should it have a newer record?",
        _ask_due,
        {
            "no": NothingFound("nothing was due"),
            "yes": DiagnosisQuestion(
                "Are heartbeats written on the source?",
                _ask_written,
                {"no": HEARTBEATS_NOT_WRITTEN, "yes, or unknown": _WRITER},
            ),
        },
    ),
)
