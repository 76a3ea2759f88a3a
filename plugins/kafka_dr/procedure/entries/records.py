"""Data classes that are fields of facts (contents of journal entries): receipts, approvals, answers, plan parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_dr.domain.readiness.terms import BoundCluster
from kafka_dr.procedure.entries.fact import OrAbsent

#: Figures by name, from summaries and counts.
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Receipt:
    """A file that a step wrote beside the evidence: its name, number of rows, and digest."""

    file: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class FolderReceipt:
    """A folder of files that a step wrote beside the evidence: its path there, and the digest of all its files."""

    folder: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Approval:
    """The approval of `digest` at a gate: the user name of the approver, and the time in ISO 8601, by Airflow's API.

    Attributes:
        through: whose Airflow it was; None in entries of versions that did not state this.
    """

    gate: str
    by: str
    at: str
    digest: str
    through: OrAbsent[str] = None


@dataclass(frozen=True, kw_only=True)
class Binding:
    """What a run is bound to, from its beginning to its end.

    Attributes:
        clusters: source and target, by alias.
        topology_digest: SHA-256 of the topology's canonical JSON.
        addresses: Airflow connection -> where it leads, and as which user; the text holds no secret.
    """

    clusters: Mapping[str, BoundCluster]
    topology_digest: str
    addresses: Mapping[str, str]


@dataclass(frozen=True)
class ContinuedRun:
    """The planned run that an unplanned run continues; `fenced`: whether the planned run had begun its fence."""

    procedure_id: str
    fenced: bool


@dataclass(frozen=True)
class SkippedCoolDown:
    """A cool-down that the run skipped: the ended procedure, the cool-down's end, and the reason (`acknowledged`)."""

    procedure_id: str
    outcome: str
    ended_at: str
    ends_at: str
    acknowledged: str


@dataclass(frozen=True)
class DrainHookAnswer:
    """Answer of the application's drain hook to a request to stop or to resume clients.

    Attributes:
        asked: in an answer to a request to stop, whether the request was sent; else None.
        told: in an answer to a request to resume, whether the request was sent; else None.
        answered: False if the hook failed; None if there is no hook.
        producers_running, consumers_running: number of clients that ran, as the hook reports; None without an answer.
        error: why the hook failed; None if it answered.
    """

    asked: OrAbsent[bool] = None
    told: OrAbsent[bool] = None
    answered: OrAbsent[bool] = None
    producers_running: OrAbsent[int] = None
    consumers_running: OrAbsent[int] = None
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class FenceHookAnswer:
    """Answer of the fence hook: whether it fences the source.

    Attributes:
        by: by which means the hook fences, in words; empty without an answer.
        detail: any further information of the hook.
        error: why the hook gave no answer; None if it answered.
    """

    fenced: bool
    by: str
    detail: str = ""
    error: OrAbsent[str] = None


@dataclass(frozen=True)
class ObservedProducers:
    """Idempotent producers that brokers list on the plan's partitions of the fenced source; all stand still.

    Attributes:
        seen: number of producers by partition; brokers list a producer for a day after its last write.
        newest_write: time of the newest write of any of them, in ISO 8601 UTC; None if no write has a time.
        problem: why brokers could not be asked; None if they answered.
    """

    seen: int
    newest_write: OrAbsent[str] = None
    problem: OrAbsent[str] = None


@dataclass(frozen=True)
class SourceToFence:
    """A source that the watcher fences as soon as the source answers, and the source's topics to fence."""

    source: str
    target: str
    topics: Sequence[str]


@dataclass(frozen=True)
class SourceVerdict:
    """The source's state, as judged from the answers to all requests.

    Attributes:
        rounds: number of rounds, in each of which every view sent one request.
        views: results by view: by the place from which requests were sent (Switchback, the target's Connect worker, the
            application).
    """

    state: str
    rounds: int
    views: Sequence[Figures]


@dataclass(frozen=True)
class MissingRange:
    """A range of offsets with records of the source that the target lacks; `to_offset` is exclusive."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    records: int
    reason: str


@dataclass(frozen=True)
class ExcludedNow:
    """A group that the drain does not wait for: reason, policy for its positions, number of members on the source."""

    group: str
    reason: str
    policy: str
    members: int


@dataclass(frozen=True)
class StrandedTopic:
    """Counts of one topic's stranded records, and of other differences between its logs on the two clusters.

    Attributes:
        aborted: stranded records of aborted transactions.
        undecided: stranded records behind a transaction that is still open.
        bytes: size of the stranded records; `older_bytes`: size of the older records.
        lacking: replicated records that the returned cluster has lost.
        older: replicated records that only the returned cluster still has.
        inexact: partitions whose counts are not exact.
        first_at: time of the first stranded record, in milliseconds since 1970; `last_at`: of the last.
    """

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
    """Folder and receipts of the export of stranded records; `procedure_id`: the exporting run, None for this run.

    Attributes:
        form: what the export holds of each record, as of `RecordExports.form`; None if nothing was exported.
    """

    folder: str
    files: Receipt
    older: OrAbsent[Receipt] = None
    procedure_id: OrAbsent[str] = None
    form: OrAbsent[Mapping[str, str]] = None


@dataclass(frozen=True)
class EarlyTranslation(Receipt):
    """Receipt of positions that assess_data_loss already translated, and the summary of that translation.

    Attributes:
        copies: one list per partition of a source topic that is a copy of a target topic under a prefixed name: topic,
            partition, log end of the copy, then log start and log end of the original on the target.
        job_input: receipt of the folder with the Spark job's input; None in entries of older versions.
    """

    digest: str
    classes: Mapping[str, int]
    records_read: Mapping[str, int]
    repeats: Mapping[str, int]
    holes: Sequence[MissingRange]
    cut: Sequence[MissingRange]
    copies: Sequence[Sequence[Any]] = ()
    job_input: OrAbsent[FolderReceipt] = None


class PlannedTopic(NamedTuple):
    """A topic that moves; `remote`: its name on the target, `topic_id`: its id on the source, None if unknown."""

    topic: str
    remote: str
    partitions: int
    topic_id: str | None


@dataclass(frozen=True)
class PlannedGroup:
    """A consumer group whose positions are translated and committed on the target."""

    group: str


@dataclass(frozen=True)
class PlannedExclusion:
    """A group that the drain does not wait for: the reason, and the policy for its positions."""

    group: str
    reason: str
    policy: str


@dataclass(frozen=True)
class ApprovedPlan:
    """The parts of a plan that later steps read; the plan's digest covers the whole plan.

    Attributes:
        opening: ACL entries that open_target will remove from the target, as text.
        opening_adds: ALLOW entries for User:* that open_target will add on the target before, as text.
        denials: entries that open_target will add on the target before, so that the old flow writes no more, as text.
        deadlines: limits in seconds, by name.
        fence: ACL entries that the fence will add on the source, as text.
        fence_removes: ALLOW entries for User:* that the fence will remove from the source afterwards, as text.
        copies: source topic -> target topic, for each source topic that is a copy of a target topic under a prefixed
            name.
        inventory: figures of the loss, in an unplanned failover; else {}.
        loss: rows with ranges of lost records by partition, in an unplanned failover; else ().
    """

    source: str
    target: str
    topics: Sequence[PlannedTopic]
    groups: Sequence[PlannedGroup]
    opening: Sequence[str]
    deadlines: Mapping[str, float]
    fence: Sequence[str] = ()
    fence_removes: Sequence[str] = ()
    opening_adds: Sequence[str] = ()
    denials: Sequence[str] = ()
    excluded: Sequence[PlannedExclusion] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    abort_open_transactions: bool = False
    inventory: Figures = field(default_factory=dict)
    loss: Sequence[Figures] = ()
