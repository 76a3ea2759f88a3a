"""Facts (contents of journal entries) about a returned cluster: its stranded records, its topics, their changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.records import Approval, Figures, Receipt, StrandedExport, StrandedTopic
from kafka_dr.vocabulary import Step


class StrandedRecordsFound(StepOutcome, steps=(Step.FIND_STRANDED_RECORDS,)):
    """Records of the returned cluster that were never replicated, and their export.

    Attributes:
        topics: counts per topic. The fields from `records` to `inexact` are sums over all topics, with the meanings
            that they have in `StrandedTopic`.
        compacted: topics of `topics` that are compacted on one of the clusters.
        records_to_copy: number of offsets that the flow back will copy; None if unknown.
        after: the procedure that moved clients away from the returned cluster.
        frontier: receipt of the offsets, by partition, where the replicated part of each log ends.
        returned_ends: receipt of the returned cluster's log ends at the search.
        gone: topics whose log on the returned cluster an earlier run has deleted.
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
    """StrandedRecordsFound in mode recreate, with the bytes to delete and to copy.

    Attributes:
        bytes_there: size in bytes of the topics that will be deleted on the returned cluster; None if unknown.
        bytes_to_copy: bytes that the flow back will copy; None if unknown.
        bytes_unknown: why a size is unknown; None if both are known.
    """

    bytes_there: int | None
    bytes_to_copy: int | None
    bytes_unknown: str | None


class TopicsToDelete(Intent, steps=(Step.PREPARE_TOPICS,)):
    """Receipt of the topics about to be deleted on the returned cluster, with their ids."""

    deletes_topics: Receipt


class TopicsPrepared(StepOutcome, steps=(Step.PREPARE_TOPICS,)):
    """The returned cluster has all topics that the flow back needs. Optional fields are set in mode recreate only.

    Attributes:
        created: topics that were created; `grown`: topics that got more partitions.
        settings_differ: topic settings that differ between the clusters, with both values.
        prepared: receipt of the ids of all these topics on the returned cluster.
        recreated: receipt of the ids of the topics that this procedure created.
        deleted: number of topics that were deleted; `internal_topics_deleted`: MirrorMaker 2's internal topics deleted.
    """

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
        ends_before: receipt of the new primary's log ends, by partition to which the replay writes, from before the
            replay's first record there. A partition that an earlier note lists is left out; None if all are left out.
    """

    replaying: str
    ends_before: OrAbsent[Receipt] = None


class StrandedRecordsReconciled(StepOutcome, steps=(Step.RECONCILE_STRANDED_RECORDS,)):
    """What became of the stranded records, in numbers of records.

    Attributes:
        quarantined: written to quarantine topics, and not to the topics from which they come.
        overwritten: compacted away, because a later record has the same key.
        overtaken: replayed above a client's record of the same key, whose value the replay undoes.
        uncommitted: not replayed, because the transaction was not committed.
        keyless: not replayed, because the record has no key.
        expired: replayed, and then deleted by retention.
        restamped: replayed with the time of the replay as timestamp.
        aborted: replayed in transactions that were aborted, and then again; `aborted_are_mirrored`: whether the flow
            back mirrors the aborted records, too.
        export_of: id of the procedure whose export was replayed.
        by_partition: receipt of these numbers, one row per partition.
    """

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
