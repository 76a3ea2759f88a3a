"""Facts (contents of journal entries) about groups' positions, and about opening the target to clients.

In all classes `by_hand` is the name of the person who did the step manually; None if the step did its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.procedure.entries.records import (
    Approval,
    DrainHookAnswer,
    Figures,
    FolderReceipt,
    MissingRange,
    Receipt,
)
from kafka_dr.vocabulary import Step


class OffsetsTranslated(StepOutcome, steps=(Step.TRANSLATE_OFFSETS,)):
    """Figures of the translation; `translation`: receipt of the file with one row per position.

    Attributes:
        made_by: the step that translated: translate_offsets, or assess_data_loss ahead of it.
        classes: number of positions by translation class.
        mirror_maker_missing: number of positions for which MirrorMaker 2 has no checkpoint.
        records_read: number of records read by Spark, by side (source, target).
        holes: ranges of source records that are missing on the target.
        cut: ranges of source records whose copies the target's retention has deleted.
        bound: most records that a group reads again on one partition; None if unknown.
        mirror_maker_bound: the same number if each group began at MirrorMaker 2's checkpoint.
        may_have_moved: number of positions whose group may have committed later positions after the sample.
        job_input: receipt of the folder with the Spark job's input; None in entries of older versions.
        target_topics: receipt of the ids that the topics had on the target; None in entries of older versions.
    """

    digest: str
    made_by: str
    classes: Mapping[str, int]
    exact: int
    positions: int
    mirror_maker_bound: int | None
    mirror_maker_missing: int
    rereads_by_group: Sequence[Figures]
    records_read: Mapping[str, int]
    repeats: Mapping[str, int]
    holes: Sequence[MissingRange]
    cut: Sequence[MissingRange]
    translation: Receipt
    may_have_moved: int = 0
    bound: int | None = None
    job_input: OrAbsent[FolderReceipt] = None
    target_topics: OrAbsent[Receipt] = None


class TopicsToCreate(Intent, steps=(Step.COMMIT_GROUPS, Step.PREPARE_TOPICS)):
    """Topics about to be created on the target, and topics about to get more partitions on the target."""

    creates_topics: Sequence[str]
    grows_topics: OrAbsent[Sequence[str]] = None


class SnapshotTaken(Note, steps=(Step.COMMIT_GROUPS,)):
    """Receipt of the positions that the groups had on the target before the first commit."""

    snapshot: Receipt


class FewerReplicasMade(Note, steps=(Step.COMMIT_GROUPS,)):
    """Topics that got fewer replicas than on the source, because the target has fewer brokers.

    Attributes:
        fewer_replicas: topic -> number of its replicas on the source; only the first 100 topics.
        brokers: number of live brokers on the target.
        topics: number of all such topics.
    """

    fewer_replicas: Mapping[str, int]
    brokers: int
    topics: int


class PositionsToCommit(Intent, steps=(Step.COMMIT_GROUPS,)):
    """Number of positions about to be committed because they differ on the target; `of`: number of all positions."""

    positions: int
    of: int


class GroupsCommitted(StepOutcome, steps=(Step.COMMIT_GROUPS,)):
    """All positions were read back as wanted; positions that the target had already were not committed.

    Attributes:
        positions: number of all positions; `committed`: number of positions that differed and were committed.
        local_ends: receipt of the target's log ends of topics to which MirrorMaker 2 does not mirror.
        ledger: receipt of the file that has every position before and after the commit.
    """

    positions: int
    local_ends: Receipt
    groups: OrAbsent[int] = None
    committed: OrAbsent[int] = None
    snapshot: OrAbsent[Receipt] = None
    ledger: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class TargetToOpen(Intent, steps=(Step.OPEN_TARGET,)):
    """The point of no return: ACL entries that refuse clients are about to be removed from the target.

    Attributes:
        adds_acl_entries: ALLOW entries that an earlier fence of the target replaced, and that are added again before.
        denies_old_flow: entries that are added before, too, so that the flow from the old source writes no more.
        looked_at_entry: sequence number of the newest journal entry before open_target made its last checks.
        lifts_fence_hook: whether the fence hook, which fences the target, is about to be asked to let clients in.
    """

    removes_acl_entries: Sequence[AclEntry]
    adds_acl_entries: OrAbsent[Sequence[AclEntry]] = None
    denies_old_flow: OrAbsent[Sequence[AclEntry]] = None
    looked_at_entry: OrAbsent[int] = None
    lifts_fence_hook: OrAbsent[bool] = None
    by_hand: OrAbsent[str] = None


class TargetOpened(StepOutcome, steps=(Step.OPEN_TARGET,)):
    """The target is open to clients: its DENY entries are removed.

    Attributes:
        clients_refused: operations that the target still refuses to clients, as text.
        positions_unchanged: how it was proven that no group's position on the source changed.
        canary: result of writing and reading back one record on the target.
        old_flow: whether MirrorMaker 2's principals may no longer write to the target's data topics, as text.
    """

    opened_at: str
    acl_entries_removed: OrAbsent[int] = None
    old_flow: OrAbsent[str] = None
    clients_refused: OrAbsent[Sequence[str]] = None
    positions_unchanged: OrAbsent[str] = None
    canary: OrAbsent[Figures] = None
    by_hand: OrAbsent[str] = None


class ClientsRedirected(StepOutcome, steps=(Step.REDIRECT_CLIENTS,)):
    """The routing record points at the target; `clients_see`: the record as read back."""

    changed: bool
    answered: str
    clients_see: Figures
    drain_hook: DrainHookAnswer


class ClientsVerified(StepOutcome, steps=(Step.VERIFY_CLIENTS,)):
    """The groups that were active at the forecast are active on the target.

    Attributes:
        expected_groups: number of groups that were active at the forecast.
        left_on_source: number of groups that are still active on the source; None if the source was declared lost.
        records_since_opening: number of offsets between the boundary and the target's log ends.
    """

    expected_groups: int
    left_on_source: int | None
    records_since_opening: int
    note: OrAbsent[str] = None


class RestorePlanned(Planned, steps=(Step.PLAN_RESTORE,)):
    """The plan of a restore, and the receipt of the file with one row per position."""

    rows: Receipt


class PositionsToRestore(Intent, steps=(Step.RESTORE_POSITIONS,)):
    """Number of positions about to be restored, and of groups and single positions about to be deleted."""

    restores_positions: int
    deletes_groups: int
    deletes_positions: OrAbsent[int] = None


class PositionsRestored(StepOutcome, steps=(Step.RESTORE_POSITIONS,)):
    """Positions were restored to their values before the commit of the procedure `undone`.

    Attributes:
        written: number of positions restored; `deleted`: number of groups deleted; `deleted_positions`: number of
            positions deleted by themselves.
        already: number of positions that had the old value already.
        changed_since: number of positions not restored, because another writer changed them after that commit.
        changed_since_planned: by group, number of positions that another writer changed after the restore was planned.
    """

    approval: Approval | None
    undone: str
    written: int
    already: int
    deleted: int
    changed_since: int
    changed_since_planned: Mapping[str, int]
    ledger: Receipt
    deleted_positions: OrAbsent[int] = None
