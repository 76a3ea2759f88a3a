"""Records inside facts: receipts of files, approvals, what hooks answered, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_dr.procedure.entries.fact import OrAbsent

#: Figures by name, as summaries and counts tell them.
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Receipt:
    """A file that a step wrote beside the evidence, and what was written."""

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Who approved which digest at which gate, by Airflow's API."""

    gate: str
    by: str
    at: str
    digest: str


@dataclass(frozen=True)
class ContinuedRun:
    """The planned failover that an unplanned one goes on from, and whether that one had begun to fence the source."""

    procedure_id: str
    fenced: bool


@dataclass(frozen=True)
class SkippedCoolDown:
    """A cool-down that the run did not wait for: after which procedure, until when, and why."""

    procedure_id: str
    outcome: str
    ended_at: str
    ends_at: str
    acknowledged: str


@dataclass(frozen=True)
class DrainHookAnswer:
    """What the application's drain hook was asked (to stop) or told (to resume), and what it answered."""

    asked: OrAbsent[bool] = None
    told: OrAbsent[bool] = None
    answered: OrAbsent[bool] = None
    producers_running: OrAbsent[int] = None
    consumers_running: OrAbsent[int] = None
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class FenceHookAnswer:
    """What the fence hook says about the source."""

    fenced: bool
    by: str
    detail: str = ""
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class SourceToFence:
    """A source that the watcher fences as soon as it answers, with its topics."""

    source: str
    target: str
    topics: Sequence[str]


@dataclass(frozen=True)
class SourceVerdict:
    """What all looks at the source said together; `views` tells what each of them saw."""

    state: str
    rounds: int
    views: Sequence[Figures]


@dataclass(frozen=True)
class MissingRange:
    """Records of the source that the target lacks; `to_offset` is exclusive."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int
    reason: str


@dataclass(frozen=True)
class ExcludedNow:
    """A group that is not waited for: why, what becomes of its position, and how many members it still has."""

    group: str
    reason: str
    policy: str
    members: int


@dataclass(frozen=True)
class StrandedTopic:
    """Stranded records of one topic, and what else its two logs lack; times in milliseconds since 1970."""

    topic: str
    records: int
    bytes: int
    aborted: int
    undecided: int
    lacking: int
    older: int
    older_bytes: int
    inexact: int
    first_at: int | None
    last_at: int | None


@dataclass(frozen=True)
class StrandedExport:
    """Folder and receipts of the export of stranded records; `procedure_id` if another procedure made it."""

    folder: str
    files: Receipt
    older: OrAbsent[Receipt] = None
    procedure_id: OrAbsent[str] = None


@dataclass(frozen=True)
class EarlyTranslation(Receipt):
    """Rows that were translated together with the assessment of the loss, and the summary of that translation."""

    digest: str
    classes: Mapping[str, int]
    records_read: Mapping[str, int]
    repeats: Mapping[str, int]
    holes: Sequence[MissingRange]
    cut: Sequence[MissingRange]
    copies: Sequence[Sequence[Any]] = ()


class PlannedTopic(NamedTuple):
    """A topic that moves; `topic_id` is None if nobody recorded it."""

    topic: str
    remote: str
    partitions: int
    topic_id: str | None


@dataclass(frozen=True)
class PlannedGroup:
    """A group that moves."""

    group: str


@dataclass(frozen=True)
class PlannedExclusion:
    """A group that is not waited for, why, and its policy."""

    group: str
    reason: str
    policy: str


@dataclass(frozen=True)
class ApprovedPlan:
    """What steps read of a plan, with or without its source; its whole text is what the digest covers."""

    source: str
    target: str
    topics: Sequence[PlannedTopic]
    groups: Sequence[PlannedGroup]
    opening: Sequence[str]
    deadlines: Mapping[str, float]
    fence: Sequence[str] = ()
    excluded: Sequence[PlannedExclusion] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    abort_open_transactions: bool = False
    inventory: Figures = field(default_factory=dict)
    loss: Sequence[Figures] = ()

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of its topics on the source, as far as somebody recorded them."""
        return {planned.topic: planned.topic_id for planned in self.topics if planned.topic_id}
