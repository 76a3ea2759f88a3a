"""Facts (contents of journal entries) from before clients move: readiness, lost source, lost records, plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome, read_as
from kafka_dr.procedure.entries.records import ApprovedPlan, EarlyTranslation, Figures, Receipt, SourceVerdict
from kafka_dr.vocabulary import Step


class ReadinessBlocked(Note, steps=(Step.CHECK_READINESS,)):
    """Readiness checks failed; `blockers`: the fields of a `domain.readiness.blocker.Blocker` for each check."""

    blockers: Sequence[Figures]


class AccessToTry(Intent, steps=(Step.CHECK_READINESS,)):
    """Topics and groups that are about to be made on a cluster, to try applications' own logins there."""

    access_cluster: str
    access_topics: Sequence[str]
    access_groups: Sequence[str]


class AccessTried(Note, steps=(Step.CHECK_READINESS, Step.CLOSE_PROCEDURE)):
    """Topics and groups of the trials on a cluster were removed; `access_left` has what was not, as text."""

    access_removed: str
    access_left: Sequence[str]


class ReadinessChecked(StepOutcome, steps=(Step.CHECK_READINESS,)):
    """Every readiness check passed.

    Attributes:
        notes: what the checks observed without refusing, as sentences.
        records_per_second: growth of the target's logs during the checks, in offsets per second; 0 if unknown.
        isolation: isolation level with which MirrorMaker 2 reads the source.
        topic_ids: topic -> its id on the source.
        positions: receipt of the groups' positions on the source, so that the forecast need not read very many
            positions a second time; None for few positions, which the forecast reads itself.
        read_at: when these positions were read; None without `positions`.
        exempt_proven: whether MirrorMaker 2 copied a canary record to a topic that was fenced as clients' topics will
            be; `exempt_seconds`: how long that took.
        access: by application, what its own login showed on the target; None if the topology names no application.
        files_seen_on: machines on which a file of open_procedure was read; `files_at`: in which evidence folder.
    """

    topics: int
    groups: int
    notes: Sequence[str]
    records_per_second: float
    isolation: str
    topic_ids: Mapping[str, str]
    positions: OrAbsent[Receipt] = None
    read_at: OrAbsent[str] = None
    exempt_proven: OrAbsent[bool] = None
    exempt_seconds: OrAbsent[float] = None
    access: OrAbsent[Mapping[str, str]] = None
    files_seen_on: OrAbsent[Sequence[str]] = None
    files_at: OrAbsent[str] = None


class Planned(StepOutcome):
    """A plan, and the digest over all of it.

    Attributes:
        plan_file: receipt of the file with the plan; None in entries of versions that wrote the plan into the journal.
        plan: the plan itself, in those entries, and after `Progress.with_plan` has read the file.
    """

    plan_digest: str
    plan_file: OrAbsent[Receipt] = None
    plan: OrAbsent[Figures] = None

    @property
    def whole_plan(self) -> Figures:
        """Return the plan; only after `Progress.with_plan`, else {}."""
        return self.plan or {}


class MovePlanned(Planned):
    """A plan that moves clients; `active_groups` had members on the source when the plan was written."""

    active_groups: Sequence[str]

    @cached_property
    def planned(self) -> ApprovedPlan:
        """Return the parts of the plan that later steps read; only after `Progress.with_plan`."""
        return read_as(ApprovedPlan, self.whole_plan)


class FailoverForecast(MovePlanned, steps=(Step.FORECAST,)):
    """The plan of a run whose source can be read; `end_sum`: sum of the source's log ends over all partitions."""

    end_sum: int


@dataclass(frozen=True, kw_only=True)
class LooksAtSource:
    """Results of many requests to the source, by which the run decides whether the source is lost.

    A view is a place from which requests are sent: Switchback, the target's Connect worker, or the application. In each
    round every view sends one request.

    Attributes:
        override: the reason in the param `override_source_lost`; None without this param.
        overridden: True if the source is not lost, but the run continues because of `override`.
        window_seconds: how long all rounds together took, in seconds.
        rounds_planned: planned number of rounds.
        look_seconds: time limit of one request, in seconds; an answer after more than `slow_seconds` is slow.
    """

    state: str
    override: str | None
    overridden: bool
    window_seconds: float
    rounds_planned: int
    look_seconds: float
    slow_seconds: float
    verdict: SourceVerdict


class SourceStillAnswers(Note, LooksAtSource, steps=(Step.CONFIRM_SOURCE_LOST,)):
    """The source is not lost, and the run has no override."""


class SourceConfirmedLost(StepOutcome, LooksAtSource, steps=(Step.CONFIRM_SOURCE_LOST,)):
    """The source is lost, or the run declares it lost for the reason in `override`."""

    watcher_seen_at: OrAbsent[str] = None


class DataLossAssessed(MovePlanned, steps=(Step.ASSESS_DATA_LOSS,)):
    """The plan of an unplanned failover, and receipts of the files that later steps read.

    Attributes:
        loss: receipt of the lost records, one row per source partition.
        positions: receipt of the groups' positions on the source, as last recorded.
        floors: receipt of the flight recorder's log ends of source and target, per sample and partition.
        syncs: receipt of MirrorMaker 2's offset syncs; `pairs`: of the content pairs.
        bounds: receipt of the log starts and log ends on both clusters, one row per source partition.
        source_ends: receipt of the source's last known log ends.
        cut_off: receipt of the cut-off of the planned run that this run continues; None without such a cut-off.
        stranded: folder with the Spark job's result, if the source could be read; else None.
        exports: what the export of lost records holds of each, as of `RecordExports.form`; None without an export.
        last_sample_at: time of the flight recorder's last sample, in milliseconds since 1970.
        source_last_seen_at: when the source last answered the flight recorder, in milliseconds since 1970.
        missing: what the assessment could not read or prove, as sentences.
        earlier_translation: source records that the target lacks, as the planned run found that this run continues:
            `holes` and `cut` of its translation (`OffsetsTranslated`). {} without such a translation.
        translated_ahead: receipt of the translated positions, if they were translated together with the assessment;
            else None.
        copied_anew: source topics whose copy on the target was recreated while the flight recorder ran.
        flowed_back: whether the reverse flow may have mirrored from target to source.
        samples_signed: whether the flight recorder had signed the samples that were read; None: it could not sign yet.
        samples_missing: whether the flight recorder has stored newer samples than those that could be read; None: the
            journal did not note samples yet.
    """

    inventory_digest: str
    loss: Receipt
    positions: Receipt
    floors: Receipt
    syncs: Receipt
    pairs: Receipt
    bounds: Receipt
    source_ends: Receipt
    cut_off: Receipt | None
    source_readable: bool
    stranded: str | None
    last_sample_at: int | None
    source_last_seen_at: int | None
    missing: Sequence[str]
    records_read: Mapping[str, int]
    earlier_translation: Figures = field(default_factory=dict)
    translated_ahead: EarlyTranslation | None = None
    copied_anew: Sequence[str] = ()
    flowed_back: bool = True
    samples_signed: OrAbsent[bool] = None
    samples_missing: OrAbsent[bool] = None
    exports: OrAbsent[Mapping[str, str]] = None

    @property
    def rests_on_unsigned_samples(self) -> bool:
        """Whether loss and positions rest on samples that are not signed."""
        return self.last_sample_at is not None and not self.samples_signed


class OlderRecordsUnknown(Note, steps=(Step.ASSESS_DATA_LOSS, Step.TRANSLATE_OFFSETS)):
    """On some partitions it is unknown which target records are copies of the older source records.

    Attributes:
        older_records_unknown: number of these partitions.
        why: the reason by partition, for at most ten of these partitions.
    """

    older_records_unknown: int
    why: Mapping[str, str]
