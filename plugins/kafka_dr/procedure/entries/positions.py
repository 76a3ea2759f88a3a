"""Facts of groups' positions (translated, committed, restored), and of the target's opening to clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.procedure.entries.records import Approval, DrainHookAnswer, Figures, MissingRange, Receipt
from kafka_dr.vocabulary import Step


class OffsetsTranslated(StepOutcome, steps=(Step.TRANSLATE_OFFSETS,)):
    """Translated positions, one row each; bounds: most records that one position reads again, None if unknown."""

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


class TopicsToCreate(Intent, steps=(Step.COMMIT_GROUPS, Step.PREPARE_TOPICS)):
    """Topics about to be created, and topics about to get more partitions."""

    creates_topics: Sequence[str]
    grows_topics: OrAbsent[Sequence[str]] = None


class SnapshotTaken(Note, steps=(Step.COMMIT_GROUPS,)):
    """Positions of the groups on the target before the first commit."""

    snapshot: Receipt


class PositionsToCommit(Intent, steps=(Step.COMMIT_GROUPS,)):
    """Number of positions about to be committed, of all wanted positions."""

    positions: int
    of: int


class GroupsCommitted(StepOutcome, steps=(Step.COMMIT_GROUPS,)):
    """All positions were read back; `local_ends`: log ends of topics that MirrorMaker 2 does not mirror."""

    positions: int
    local_ends: Receipt
    groups: OrAbsent[int] = None
    committed: OrAbsent[int] = None
    snapshot: OrAbsent[Receipt] = None
    ledger: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class TargetToOpen(Intent, steps=(Step.OPEN_TARGET,)):
    """The point of no return: denials about to be removed; `looked_at_entry`: the newest entry at the rechecks."""

    removes_acl_entries: Sequence[AclEntry]
    looked_at_entry: OrAbsent[int] = None
    by_hand: OrAbsent[str] = None


class TargetOpened(StepOutcome, steps=(Step.OPEN_TARGET,)):
    """Clients may write on the target."""

    opened_at: str
    acl_entries_removed: OrAbsent[int] = None
    clients_refused: OrAbsent[Sequence[str]] = None
    positions_unchanged: OrAbsent[str] = None
    canary: OrAbsent[Figures] = None
    by_hand: OrAbsent[str] = None


class ClientsRedirected(StepOutcome, steps=(Step.REDIRECT_CLIENTS,)):
    """The routing record after the change."""

    changed: bool
    answered: str
    clients_see: Figures
    drain_hook: DrainHookAnswer


class ClientsVerified(StepOutcome, steps=(Step.VERIFY_CLIENTS,)):
    """The expected groups are active on the target."""

    expected_groups: int
    left_on_source: int | None
    records_since_opening: int
    note: OrAbsent[str] = None


class RestorePlanned(Planned, steps=(Step.PLAN_RESTORE,)):
    """The plan of a restore, and the receipt of its rows, one for each position."""

    rows: Receipt


class PositionsToRestore(Intent, steps=(Step.RESTORE_POSITIONS,)):
    """Number of positions about to be restored, and of groups about to be deleted."""

    restores_positions: int
    deletes_groups: int


class PositionsRestored(StepOutcome, steps=(Step.RESTORE_POSITIONS,)):
    """Restored positions; positions changed meanwhile were left as they were."""

    approval: Approval | None
    undone: str
    written: int
    already: int
    deleted: int
    changed_since: int
    changed_since_planned: Mapping[str, int]
    ledger: Receipt
