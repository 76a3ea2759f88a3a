"""Facts from before the client move: readiness, a lost source, its lost records, the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kafka_dr.procedure.entries.fact import Note, OrAbsent, StepOutcome, read_as
from kafka_dr.procedure.entries.records import ApprovedPlan, EarlyTranslation, Figures, Receipt, SourceVerdict
from kafka_dr.vocabulary import Step


class ReadinessBlocked(Note, steps=(Step.CHECK_READINESS,)):
    """Failed readiness checks, each with the fields of `domain.readiness.blocker.Blocker`."""

    blockers: Sequence[Figures]


class ReadinessChecked(StepOutcome, steps=(Step.CHECK_READINESS,)):
    """The run has no blocker; `positions` are saved only if they are many, for a forecast that follows at once."""

    topics: int
    groups: int
    notes: Sequence[str]
    records_per_second: float
    isolation: str
    topic_ids: Mapping[str, str]
    positions: OrAbsent[Receipt] = None
    read_at: OrAbsent[str] = None


class Planned(StepOutcome):
    """A plan in full, and the digest of the full plan."""

    plan: Figures
    plan_digest: str


class MovePlanned(Planned):
    """A plan that moves clients, and the groups with members at planning time."""

    active_groups: Sequence[str]

    @cached_property
    def planned(self) -> ApprovedPlan:
        """The parts of the plan that steps read."""
        return read_as(ApprovedPlan, self.plan)


class FailoverForecast(MovePlanned, steps=(Step.FORECAST,)):
    """The plan of a run whose source can be read; `end_sum` is the sum of the source's log ends."""

    end_sum: int


@dataclass(frozen=True, kw_only=True)
class LooksAtSource:
    """Verdict of the checks of the source over a window, and whether the run overrides the verdict."""

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
    """The source is lost, or is declared lost for the reason in `override`."""

    watcher_seen_at: OrAbsent[str] = None


class DataLossAssessed(MovePlanned, steps=(Step.ASSESS_DATA_LOSS,)):
    """The plan of a run without its source, and receipts of the files that later steps read; times in milliseconds.

    Attributes:
        earlier_translation: `holes` and `cut`: records that a continued run's translation missed on the target.
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
    """Number of partitions where the place of older records is unknown, and why."""

    older_records_unknown: int
    why: Mapping[str, str]
