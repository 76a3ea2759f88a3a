"""Records inside facts: receipts of files, approvals, answers of hooks, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_dr.procedure.entries.fact import OrAbsent

#: Figures by name, from summaries and counts.
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Receipt:
    """A file that a step wrote beside the evidence: name, number of rows, digest."""

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Approval:
    """Who approved which digest at which gate and when, by Airflow's API."""

    gate: str
    by: str
    at: str
    digest: str


@dataclass(frozen=True)
class ContinuedRun:
    """The planned failover that an unplanned failover continues; `fenced`: its fence of the source had begun."""

    procedure_id: str
    fenced: bool


@dataclass(frozen=True)
class SkippedCoolDown:
    """A cool-down that the run skipped: after which procedure, until when, and why."""

    procedure_id: str
    outcome: str
    ended_at: str
    ends_at: str
    acknowledged: str


@dataclass(frozen=True)
class DrainHookAnswer:
    """Answer of the application's drain hook; `asked`: it was asked to stop, `told`: it was told to resume."""

    asked: OrAbsent[bool] = None
    told: OrAbsent[bool] = None
    answered: OrAbsent[bool] = None
    producers_running: OrAbsent[int] = None
    consumers_running: OrAbsent[int] = None
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class FenceHookAnswer:
    """Answer of the fence hook about the source."""

    fenced: bool
    by: str
    detail: str = ""
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class SourceToFence:
    """A source, with its topics, that the watcher fences as soon as it answers."""

    source: str
    target: str
    topics: Sequence[str]


@dataclass(frozen=True)
class SourceVerdict:
    """Common verdict of all checks of the source; `views`: the result of each check."""

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
    """An excluded group: the reason, the policy for its position, and its current number of members."""

    group: str
    reason: str
    policy: str
    members: int


@dataclass(frozen=True)
class StrandedTopic:
    """Stranded records of one topic, and other differences of its two logs; times in milliseconds since 1970."""

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
    """Folder and receipts of the export of stranded records; `procedure_id` if another procedure exported them."""

    folder: str
    files: Receipt
    older: OrAbsent[Receipt] = None
    procedure_id: OrAbsent[str] = None


@dataclass(frozen=True)
class EarlyTranslation(Receipt):
    """Rows translated together with the loss assessment, and the summary of this translation."""

    digest: str
    classes: Mapping[str, int]
    records_read: Mapping[str, int]
    repeats: Mapping[str, int]
    holes: Sequence[MissingRange]
    cut: Sequence[MissingRange]
    copies: Sequence[Sequence[Any]] = ()


class PlannedTopic(NamedTuple):
    """A topic that moves; `topic_id` is None if unknown."""

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
    """An excluded group, the reason, and the policy for its positions."""

    group: str
    reason: str
    policy: str


@dataclass(frozen=True)
class ApprovedPlan:
    """The parts of a plan, with or without source, that steps read; the digest covers the whole plan."""

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
        """Ids of the plan's topics on the source, as far as known."""
        return {planned.topic: planned.topic_id for planned in self.topics if planned.topic_id}
