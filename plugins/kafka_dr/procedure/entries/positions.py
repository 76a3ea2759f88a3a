"""Facts of groups' positions and of the opening: translated, committed, restored; the target opened to clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.procedure.entries.records import Approval, DrainHookAnswer, Figures, MissingRange, Receipt
from kafka_dr.vocabulary import Step


class OffsetsTranslated(StepOutcome, steps=(Step.TRANSLATE_OFFSETS,)):
    """One row a position; bounds are the most records that one position reads again, None if unknown."""

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
    """Topics that are about to be made, and those that are about to get more partitions."""

    creates_topics: Sequence[str]
    grows_topics: OrAbsent[Sequence[str]] = None


class SnapshotTaken(Note, steps=(Step.COMMIT_GROUPS,)):
    """What the groups held on the target before the first commit."""

    snapshot: Receipt


class PositionsToCommit(Intent, steps=(Step.COMMIT_GROUPS,)):
    """How many positions are about to be committed, of all that are wanted."""

    positions: int
    of: int


class GroupsCommitted(StepOutcome, steps=(Step.COMMIT_GROUPS,)):
    """Every position was read back; `local_ends` are log ends of topics that MirrorMaker 2 does not mirror."""

    positions: int
    local_ends: Receipt
    groups: OrAbsent[int] = None
    committed: OrAbsent[int] = None
    snapshot: OrAbsent[Receipt] = None
    ledger: OrAbsent[Receipt] = None
    by_hand: OrAbsent[str] = None


class TargetToOpen(Intent, steps=(Step.OPEN_TARGET,)):
    """The point of no return: denials that are about to be removed; `looked_at_entry` was the newest entry then."""

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
    """What the routing record says now."""

    changed: bool
    answered: str
    clients_see: Figures
    drain_hook: DrainHookAnswer


class ClientsVerified(StepOutcome, steps=(Step.VERIFY_CLIENTS,)):
    """Groups that were expected are active on the target."""

    expected_groups: int
    left_on_source: int | None
    records_since_opening: int
    note: OrAbsent[str] = None


class RestorePlanned(Planned, steps=(Step.PLAN_RESTORE,)):
    """The plan of a restore, and a row for each position."""

    rows: Receipt


class PositionsToRestore(Intent, steps=(Step.RESTORE_POSITIONS,)):
    """How many positions are about to be put back, and how many groups deleted."""

    restores_positions: int
    deletes_groups: int


class PositionsRestored(StepOutcome, steps=(Step.RESTORE_POSITIONS,)):
    """What was put back; what somebody changed since was left alone."""

    approval: Approval | None
    undone: str
    written: int
    already: int
    deleted: int
    changed_since: int
    changed_since_planned: Mapping[str, int]
    ledger: Receipt
