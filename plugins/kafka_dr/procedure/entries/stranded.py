"""Facts of a returned cluster: its stranded records, its topics, and what was done with both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.records import Approval, Figures, Receipt, StrandedExport, StrandedTopic
from kafka_dr.vocabulary import Step


class StrandedRecordsFound(StepOutcome, steps=(Step.FIND_STRANDED_RECORDS,)):
    """Records of the returned cluster that were never replicated, and their export.

    Attributes:
        after: the procedure that moved clients away from the returned cluster.
        frontier: receipt of the offsets, by partition, where the replicated part of each log ends.
        gone: topics whose old log an earlier run has deleted.
    """

    after: str
    digest: str
    topics: Sequence[StrandedTopic]
    compacted: Sequence[str]
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
    frontier: Receipt
    export: StrandedExport
    returned_ends: Receipt
    records_to_copy: int | None = None
    gone: OrAbsent[Sequence[str]] = None


class StrandedRecordsFoundWithSizes(StrandedRecordsFound, steps=(Step.FIND_STRANDED_RECORDS,)):
    """StrandedRecordsFound in mode recreate, with bytes to delete and to copy; None if unknown, and why."""

    bytes_there: int | None
    bytes_to_copy: int | None
    bytes_unknown: str | None


class TopicsToDelete(Intent, steps=(Step.PREPARE_TOPICS,)):
    """Receipt of the topics about to be deleted, with their ids."""

    deletes_topics: Receipt


class TopicsPrepared(StepOutcome, steps=(Step.PREPARE_TOPICS,)):
    """The returned cluster has all topics; `prepared`, `recreated`: topic ids. Optional fields: mode recreate."""

    approval: Approval | None
    mode: str
    topics: int
    created: Sequence[str]
    grown: Sequence[str]
    settings_differ: Sequence[Figures]
    prepared: Receipt
    recreated: Receipt
    export_verified: OrAbsent[int] = None
    stopped: OrAbsent[Mapping[str, str]] = None
    deleted: OrAbsent[int] = None
    internal_topics_deleted: OrAbsent[Sequence[str]] = None


class ReplayBegun(Note, steps=(Step.RECONCILE_STRANDED_RECORDS,)):
    """A process begins to replay the export of the procedure `replaying`.

    Attributes:
        ends_before: log ends, before the first record is written, of the partitions that the replay writes to; without
            those that an earlier note has.
    """

    replaying: str
    ends_before: OrAbsent[Receipt] = None


class StrandedRecordsReconciled(StepOutcome, steps=(Step.RECONCILE_STRANDED_RECORDS,)):
    """Numbers of records read back, left out or gone, by reason."""

    replayed: int
    quarantined: int
    overwritten: int
    overtaken: int
    uncommitted: int
    keyless: int
    expired: int
    restamped: int
    aborted: int
    aborted_are_mirrored: bool
    export_of: str
    transactional_id: str | None
    by_partition: Receipt
