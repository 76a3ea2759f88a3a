"""Restore groups' positions on a cluster to their values before a procedure committed its own.

The *undone procedure* is that earlier procedure; the restore's own procedure has the same source and target.

Invariants
1. Only groups without members are touched, and in these groups only positions that are as the undone procedure left
   them, unless the operator chose to overwrite.
2. Every written position was approved under one digest; positions that another writer changed are left alone and named.
3. A position that already has its old value is done: a second try, or a second process, writes the other positions.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.offsets.commit import held_positions, translated_positions, with_held_position
from kafka_dr.actions.scope.position_frames import COLUMNS, PLACE, TYPES, in_order
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.offsets.restore_plan import RestorePlan, restore_plan_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import Contradiction, NotReady, ReadBackFailed, Refusal
from kafka_dr.procedure.entries import GroupsCommitted, RestorePlanned, SnapshotTaken, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: Action for a position: has its old value already; write the old value; delete with its group; had no old value, so
#: delete it alone; had no old value, but another writer changed its group, so leave it; was changed by another writer
#: after the undone procedure, so leave it.
SAME, WRITE, DELETE, REMOVE, LEFT, SINCE = "same", "write", "delete", "remove", "left", "since"
_NAMED = 10


def undone_procedure(procedure: Run) -> Run:
    """Return the procedure whose commit of positions is to be undone.

    That is the procedure that param undo_procedure names; without this param, the last procedure that began to commit.

    Raises:
        NotReady: no procedure with this run's source and target (and with the id in undo_procedure) began to commit.
        Refusal: the named procedure has another source or target.
    """
    named, request = procedure.request.choices.get("undo_procedure"), procedure.request
    notes = facts_of(procedure.journal.entries(step=Step.COMMIT_GROUPS), SnapshotTaken)
    ids = [entry.procedure_id for entry, _ in notes]
    candidates = [
        run
        for name in dict.fromkeys(reversed(ids))
        if named in (None, name) and (run := procedure.other(name)) is not None
    ]
    same_direction = [
        run for run in candidates if (run.request.source, run.request.target) == (request.source, request.target)
    ]
    if same_direction:
        return same_direction[0]
    if named and candidates:
        direction = f"{named} goes from {candidates[0].request.source} to {candidates[0].request.target}"
        raise Refusal(
            f"{named} is not a procedure from {request.source} to {request.target}",
            direction,
            f"Start a new run with the source and target of {named}.",
        )
    raise NotReady(
        "No commit of positions was found to undo",
        f"no procedure{f' called {named}' if named else ''} from {request.source} to {request.target} began to commit",
        "List the evidence folder, in which each folder is named after a procedure id. Start a new run with the id of"
        " the procedure to undo in the param undo_procedure. If that procedure never reached the step commit_groups, it"
        " changed no position.",
    )


def snapshot_of(undone: Run) -> pd.DataFrame:
    """Return the positions that the groups had on the target before the undone procedure's first commit."""
    return undone.artifacts.load(undone.progress.facts(SnapshotTaken)[0].snapshot)


def committed_by(undone: Run) -> pd.DataFrame:
    """Return the positions that the undone procedure committed on the target.

    If commit_groups was killed, some of the returned positions may not have been committed.
    """
    done = undone.progress.done(GroupsCommitted)
    if done is not None and done.ledger is not None:
        return undone.artifacts.load(done.ledger)[[*PLACE, "wanted"]].set_axis(COLUMNS, axis=1).astype(TYPES)
    return translated_positions(undone).astype(TYPES)


def compare_positions(procedure: Run, undone: Run, overwrites: bool) -> pd.DataFrame:
    """Return one row per position on the target: group, topic, partition, before, wanted, now, action.

    `before` and `wanted` are the values before and after the undone procedure's commit, `now` is the current value;
    null without a position. `action` is what the restore does with the position (`choose_actions`).

    Args:
        overwrites: whether positions that another writer has changed since then are restored, too.
    """
    before, wanted = snapshot_of(undone).astype(TYPES), committed_by(undone)
    groups = sorted({*before["group"], *wanted["group"]})
    now = held_positions(procedure, groups)
    places = {
        place
        for frame in (before, wanted, now)
        for place in zip(*(frame[name].tolist() for name in PLACE), strict=True)
    }
    rows = in_order(pd.DataFrame(sorted(places), columns=PLACE).astype({name: TYPES[name] for name in PLACE}))
    for name, frame in (("before", before), ("wanted", wanted), ("now", now)):
        rows = with_held_position(rows, frame, name)
    return rows.assign(action=choose_actions(rows, overwrites))


def choose_actions(rows: pd.DataFrame, overwrites: bool) -> pd.Series:
    """Return per row what the restore does with the position: SAME, WRITE, DELETE, REMOVE, LEFT or SINCE.

    SAME: nothing, because the position has its old value. WRITE: write the old value. DELETE: delete the position with
    its group. REMOVE: delete the position alone, because it had no old value and its group had others. SINCE: nothing,
    because another writer changed the position after the undone procedure. LEFT: nothing, although the position had no
    old value, because another writer changed other positions of its group.

    If `overwrites` is True, positions that another writer changed are treated like the other positions: no action is
    then SINCE.
    """
    same = rows["now"].eq(rows["before"]).fillna(rows["now"].isna() & rows["before"].isna())
    ours = rows["now"].eq(rows["wanted"]).fillna(False) | overwrites
    actions = (
        pd.Series(SINCE, index=rows.index, dtype=object)
        .mask(ours, WRITE)
        .mask(ours & rows["before"].isna(), LEFT)
        .mask(same, SAME)
    )
    # A group that another writer uses is not deleted, and loses no position: its consumers would begin elsewhere.
    shared, older = rows["group"].isin(groups_of(rows[actions == SINCE])), groups_of(rows[rows["before"].notna()])
    ends = actions.eq(LEFT) & ~shared
    return actions.mask(ends, DELETE).mask(ends & rows["group"].isin(older), REMOVE)


def groups_of(rows: pd.DataFrame) -> set[str]:
    """Return the groups of these rows."""
    return set(rows["group"])


def groups_with(rows: pd.DataFrame, action: str) -> list[str]:
    """Return the groups with at least one position that has this action, sorted."""
    return sorted(set(rows.loc[rows["action"] == action, "group"]))


def by_group_of(rows: pd.DataFrame, action: str) -> dict[str, int]:
    """Return group -> number of its positions with this action."""
    return dict(sorted(Counter(rows.loc[rows["action"] == action, "group"].tolist()).items()))


def changed_since(rows: pd.DataFrame) -> dict[str, int]:
    """Return group -> number of its positions that equal neither the snapshot nor the undone procedure's commit."""
    return by_group_of(rows.assign(action=choose_actions(rows, overwrites=False)), SINCE)


def changed_groups(rows: pd.DataFrame) -> list[str]:
    """Return the groups of which positions will be written or deleted, and the groups that will be deleted; sorted."""
    return sorted(groups_of(rows[rows["action"].isin((WRITE, REMOVE, DELETE))]))


def digest_of_rows(rows: pd.DataFrame) -> str:
    """Return the digest, for the approval, of what is written, with its values, and of what is deleted."""
    written, removed = rows.loc[rows["action"] == WRITE, [*PLACE, "before"]], rows.loc[rows["action"] == REMOVE, PLACE]
    content = {
        "writes": [list(row) for row in zip(*(written[name].tolist() for name in written), strict=True)],
        "deletes": groups_with(rows, DELETE),
        "removes": [list(row) for row in zip(*(removed[name].tolist() for name in removed), strict=True)],
    }
    # Digests of plans of earlier versions, which delete no single position, do not cover any.
    return digest_of(content if content["removes"] else {k: v for k, v in content.items() if k != "removes"})


def refuse_living(procedure: Run, groups: list[str]) -> None:
    """Refuse if one of these groups, which are to be written or deleted, has a member on the target."""
    active = active_groups(procedure.systems.target, groups)
    if active:
        raise Refusal(
            f"Groups have members on {procedure.request.target}, so their positions cannot be restored",
            first_few(sorted(active)),
            "This try wrote no position and deleted no group. Stop the consumers of these groups. Then clear the"
            " Airflow task restore_positions if this run has begun to write positions; otherwise (the outcome of this"
            " run is refused) start a new run.",
        )


def planned_restore(procedure: Run) -> tuple[RestorePlan, pd.DataFrame]:
    """Return the planned restore, from the journal, and its rows, one per position on the target, from the file.

    Raises:
        Contradiction: plan or rows do not match the digest in the journal.
    """
    planned = procedure.progress.with_plan(procedure.progress.require(RestorePlanned))
    plan, rows = (
        restore_plan_of(planned.whole_plan),
        procedure.artifacts.load(planned.rows).astype(dict.fromkeys(("before", "wanted", "now"), "Int64")),
    )
    if plan.digest != planned.plan_digest or plan.rows != digest_of_rows(rows):
        raise Contradiction(
            "The plan of the restore does not match its digest in the journal",
            f"the plan's SHA-256 in the journal is {planned.plan_digest}; the plan in the journal, or the file with its"
            " rows, gives another",
            "This try wrote no position and deleted no group. Start a new run, which plans the restore again.",
        )
    return plan, rows


class RemainingRestore:
    """What a planned restore still has to write and delete on the target.

    Attributes:
        wanted: positions that must be on the target at the end, and are read back then.
        todo: rows of `wanted` that are not committed yet.
        doomed: groups to delete that still exist on the target.
        removals: by group, positions to delete by themselves that still exist on the target.
        since: group -> number of positions that another writer changed after the plan was made; the restore does not
            change these positions.
    """

    def __init__(
        self,
        wanted: pd.DataFrame,
        todo: pd.DataFrame,
        doomed: list[str],
        removals: dict[str, list[TopicPartition]],
        since: dict[str, int],
    ) -> None:
        self.wanted, self.todo, self.doomed, self.removals, self.since = wanted, todo, doomed, removals, since

    @classmethod
    def of(cls, rows: pd.DataFrame, held: pd.DataFrame, overwrites: bool) -> RemainingRestore:
        """Return what remains of the plan's `rows`, by the positions that the groups have on the target now (`held`).

        With `overwrites`, positions that another writer changed are restored, too.
        """
        rows_now = with_held_position(rows.rename(columns={"now": "planned"}), held, "now")
        writes, deletes, removes = (rows_now[rows_now["action"] == action] for action in (WRITE, DELETE, REMOVE))
        done, as_planned = (
            writes["now"].eq(writes[name]).fillna(writes["now"].isna() & writes[name].isna())
            for name in ("before", "planned")
        )
        may_write = done | as_planned | overwrites
        wanted = writes.assign(position=writes["before"]).astype({"position": "int64"})[COLUMNS]
        changed_deletes, changed_removes = (
            gone["now"].notna() & gone["now"].ne(gone["planned"]).fillna(True) for gone in (deletes, removes)
        )
        existing_groups = set(deletes.loc[deletes["now"].notna(), "group"])
        # If a group to delete has a position that is not in the plan, it was committed after the plan was made.
        regrown_groups = new_groups(deletes, held)
        spared_groups = set() if overwrites else {*deletes.loc[changed_deletes, "group"], *regrown_groups}
        # Another writer uses these groups: their consumers would begin elsewhere without these positions.
        shared_groups = set() if overwrites else groups_of(writes[~may_write]) | groups_of(removes[changed_removes])
        kept = removes[removes["group"].isin(shared_groups) & removes["now"].notna()]
        changed = pd.concat([writes[~may_write], deletes[deletes["group"].isin(spared_groups)], kept])
        return cls(
            wanted[may_write],
            wanted[may_write & ~done],
            sorted(existing_groups - spared_groups),
            _partitions_by_group(removes[removes["now"].notna() & ~removes["group"].isin(shared_groups)]),
            by_group_of(changed.assign(action=SINCE), SINCE),
        )


def _partitions_by_group(rows: pd.DataFrame) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for group, topic, partition in zip(*(rows[name].tolist() for name in PLACE), strict=True):
        found.setdefault(group, []).append(TopicPartition(topic, partition))
    return found


def new_groups(deletes: pd.DataFrame, held: pd.DataFrame) -> set[str]:
    """Return the groups to be deleted that now have a position which the plan does not list."""
    planned_places = set(zip(*(deletes[name].tolist() for name in PLACE), strict=True))
    doomed = set(deletes["group"])
    return {
        place[0]
        for place in zip(*(held[name].tolist() for name in PLACE), strict=True)
        if place[0] in doomed and place not in planned_places
    }


def refuse_unlike(
    ledger: pd.DataFrame, remaining: RemainingRestore, after: pd.DataFrame, refused: dict[str, str]
) -> None:
    """Raise ReadBackFailed unless all positions were read back as wanted, and all that was to be deleted is gone.

    Args:
        ledger: one row per position to restore, with the columns wanted and read_back.
        remaining: the groups and positions that were to be deleted.
        after: positions on the target after the restore.
        refused: group that could not be deleted, or positions of which could not -> the broker's error.
    """
    wrong = ledger[~ledger["read_back"].eq(ledger["wanted"]).fillna(False)]
    still_held = _partitions_by_group(after)
    kept_positions = {group for group, gone in remaining.removals.items() if set(gone) & {*still_held.get(group, ())}}
    remaining_groups = sorted(still_held.keys() & set(remaining.doomed) | kept_positions | set(refused))
    if len(wrong) or remaining_groups:
        details = (
            f"{wrong.head(5).to_dict('records')}; not deleted:"
            f" {[f'{group} {refused.get(group, str())}'.strip() for group in remaining_groups[:_NAMED]]}"
        )
        raise ReadBackFailed(
            f"{len(wrong)} positions and {len(remaining_groups)} groups were not read back as planned",
            details,
            "Stop the consumers of these groups. Then clear the Airflow task restore_positions, which writes the"
            " remaining positions. The newest file restored-*.parquet in the run's evidence folder lists every position"
            " to restore, with the position that was read back and the broker's error.",
        )
