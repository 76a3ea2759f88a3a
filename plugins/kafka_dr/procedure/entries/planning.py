"""Facts from before clients move: readiness, whether the source is lost, its lost records, the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kafka_dr.procedure.entries.fact import Note, OrAbsent, StepOutcome, read_as
from kafka_dr.procedure.entries.records import ApprovedPlan, EarlyTranslation, Figures, Receipt, SourceVerdict
from kafka_dr.vocabulary import Step


class ReadinessBlocked(Note, steps=(Step.CHECK_READINESS,)):
    """The readiness checks that failed, each as the fields of a `domain.readiness.blocker.Blocker`."""

    blockers: Sequence[Figures]


class ReadinessChecked(StepOutcome, steps=(Step.CHECK_READINESS,)):
    """Every readiness check passed.

    Attributes:
        positions: receipt of the groups' positions, if they are so many that the forecast should not read them again.
        read_at: when these positions were read.
    """

    topics: int
    groups: int
    notes: Sequence[str]
    records_per_second: float
    isolation: str
    topic_ids: Mapping[str, str]
    positions: OrAbsent[Receipt] = None
    read_at: OrAbsent[str] = None


class Planned(StepOutcome):
    """A plan in full, and the digest over all of it."""

    plan: Figures
    plan_digest: str


class MovePlanned(Planned):
    """A plan that moves clients, and the groups that had members when the plan was written."""

    active_groups: Sequence[str]

    @cached_property
    def planned(self) -> ApprovedPlan:
        """Those parts of the plan that later steps read."""
        return read_as(ApprovedPlan, self.plan)


class FailoverForecast(MovePlanned, steps=(Step.FORECAST,)):
    """The plan of a run whose source can be read; `end_sum` is the sum of the source's log ends."""

    end_sum: int


@dataclass(frozen=True, kw_only=True)
class LooksAtSource:
    """Results of many looks (requests to the source), and whether the run leaves the source although it is not lost.

    Attributes:
        override: the reason in the param `override_source_lost`, else None; `overridden`: whether the run needs the
            override.
        window_seconds: how long all looks together took.
        look_seconds: how long one look may take; an answer after more than `slow_seconds` is slow.
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
        stranded: folder with the Spark job's result, if the source could be read; else None.
        last_sample_at: time of the flight recorder's last sample; all times in milliseconds since 1970.
        earlier_translation: `holes` and `cut` of the planned run that this run continues: records that its
            translation did not find on the target.
        translated_ahead: the positions, if they were translated together with the assessment.
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


class OlderRecordsUnknown(Note, steps=(Step.ASSESS_DATA_LOSS, Step.TRANSLATE_OFFSETS)):
    """Number of partitions where the target's copies of older source records are unknown, and why by partition."""

    older_records_unknown: int
    why: Mapping[str, str]
