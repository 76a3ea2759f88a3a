"""Facts (contents of journal entries) about topics that re_replicate_topics copies again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.procedure.entries.records import Approval, Receipt
from kafka_dr.procedure.entries.replication import MirrorMakerStopped
from kafka_dr.vocabulary import Step


class ReReplicationPlanned(Planned, steps=(Step.PLAN_RE_REPLICATION,)):
    """The plan; `starts`: receipt of the first source offset to copy, by partition.

    Attributes:
        connectors: connectors of the flow that ran, and run again afterwards.
    """

    starts: Receipt
    connectors: Sequence[str]


class TargetTopicsExported(StepOutcome, steps=(Step.EXPORT_TARGET_TOPICS,)):
    """What only the target holds of the chosen topics was written to files.

    Attributes:
        target_only: number of records that only the target holds; `records`: receipts of the files with them.
        positions: receipt of the groups' positions on the target topics; `source_positions`: receipt of the same
            groups' positions on the source topics that follow from the older copies, where the source has none.
        settings: receipt of the target topics' ids, partitions, replicas and own settings.
        ends: receipt of the target's log ends up to which the older copies were compared.
        exports: what the files hold of each record, as of `RecordExports.form`; None in entries of older versions.
    """

    target_only: int
    records: Sequence[Receipt]
    positions: Receipt
    source_positions: Receipt
    settings: Receipt
    ends: Receipt
    exports: OrAbsent[Mapping[str, str]] = None


class FlowStopped(MirrorMakerStopped, steps=(Step.STOP_MIRROR_MAKER,)):
    """MirrorMaker 2 was stopped, and the last copy of each topic that is not copied again was found by content.

    Attributes:
        stored: receipt of the offsets that Connect stores, by source partition; partitions without one are left out.
        proven: receipt of the last source offset whose copy is proven to be on the target, of the other topics.
        not_proven: partitions of other topics whose last copy could not be found on the source.
    """

    stored: Receipt
    proven: Receipt
    not_proven: Sequence[str]


class TopicsToRecreate(Intent, steps=(Step.RECREATE_TARGET_TOPICS,)):
    """The point of no return: these target topics are about to be deleted, and created again.

    Attributes:
        recreates_topics: receipt of the topics' ids, partitions, replicas and own settings before the deletion.
    """

    recreates_topics: Receipt


class TargetTopicsReady(StepOutcome, steps=(Step.RECREATE_TARGET_TOPICS,)):
    """The target topics were deleted and created again, or are kept; `begins`: receipt of their log ends now.

    Attributes:
        approval: of the plan.
        recreated: number of topics that were deleted and created again; `kept`: number that were kept.
        topic_ids: target topic -> its id now.
    """

    approval: Approval
    recreated: int
    kept: int
    topic_ids: Mapping[str, str]
    begins: Receipt


class OffsetsToReset(Intent, steps=(Step.SEED_REPLICATION,)):
    """Offsets in Connect that are about to be set; -1 stands for none.

    Attributes:
        resets_offsets: receipt of the offset before, and of the wanted offset, by source partition.
    """

    resets_offsets: Receipt


class ReplicationSeeded(StepOutcome, steps=(Step.SEED_REPLICATION,)):
    """Connect stores the wanted offsets, and of all other partitions the offsets as after the stop.

    Attributes:
        seeded: number of partitions that are copied again.
        advanced: other partitions whose offset lagged behind the last record that is proven to be on the target, and
            was set to it; `untouched`: number of other partitions whose offset was read back as it was.
        held: other partitions without an offset, which got the one before the log end that they had at planning.
        begin_at_first_record: connectors whose `auto.offset.reset` is `earliest` until the copies are compared.
    """

    seeded: int
    advanced: Sequence[str]
    untouched: int
    held: OrAbsent[Sequence[str]] = None
    begin_at_first_record: OrAbsent[Sequence[str]] = None


class ReplicationStarted(StepOutcome, steps=(Step.START_REPLICATION,)):
    """The flow's source connectors run again."""

    connectors: Sequence[str]


class CopiesAwaited(Note, steps=(Step.VERIFY_COPIES,)):
    """Source log ends up to which records must be copied, and groups' positions to place, read before these ends.

    Attributes:
        source_ends: receipt of the log ends; `positions`: receipt of the positions on the source.
    """

    source_ends: Receipt
    positions: Receipt


class CopiesVerified(StepOutcome, steps=(Step.VERIFY_COPIES,)):
    """Every source record was compared with its copy, by content.

    Attributes:
        partitions, records: numbers of partitions and of records that were compared.
        repeats: number of copies that repeat records, because the copier began again at an earlier record.
        deleted: number of source records whose copies the target's retention has deleted since.
        foreign: target partitions with records of another writer among the copies: how many, and the first offset.
        placed: receipt of the groups' places on the target.
        pairs: receipt of the first and the last compared record of each partition, with their copies.
    """

    partitions: int
    records: int
    repeats: int
    deleted: int
    foreign: Sequence[str]
    placed: Receipt
    pairs: Receipt


class HistoryToBegin(Intent, steps=(Step.PLACE_TARGET_GROUPS,)):
    """Positions about to be committed, and records about to be written to MirrorMaker 2's internal topics.

    Attributes:
        places_positions: number of positions about to be committed.
        writes_syncs, writes_checkpoints: number of offset syncs and checkpoints about to be written.
    """

    places_positions: int
    writes_syncs: int
    writes_checkpoints: int


class GroupsPlaced(StepOutcome, steps=(Step.PLACE_TARGET_GROUPS,)):
    """All groups have their exact positions again, and the checkpoint connector runs on a new history.

    Attributes:
        positions: number of positions that were read back; `committed`: number of those that were committed.
        settings_set: topic settings that differed from the export and were set again.
        syncs, checkpoints: numbers of records written to MirrorMaker 2's internal topics.
        ledger: receipt of every position before and after.
        connectors: connectors that run again.
        reset_as_before: source connectors that have their former `auto.offset.reset` again.
    """

    positions: int
    committed: int
    syncs: int
    checkpoints: int
    ledger: Receipt
    connectors: Sequence[str]
    settings_set: OrAbsent[Mapping[str, Sequence[str]]] = None
    reset_as_before: OrAbsent[Sequence[str]] = None
