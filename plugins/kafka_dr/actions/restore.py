"""Put groups' positions on a cluster back to what stood there before a procedure committed its own.

Invariants
1. Only groups without members are touched, and of these only positions that are as that procedure left them, unless a
   person said otherwise.
2. What is written was approved, position by position, under one digest; what changed since is left alone and named.
3. What stands as it was before is done: a second try, or a second process, writes what is left.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from kafka_dr.actions.groups.at_rest import active_groups
from kafka_dr.actions.offsets.commit import held_positions, translated_positions, with_held_position
from kafka_dr.actions.scope.position_frames import COLUMNS, PLACE, TYPES, in_order
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.offsets.restore_plan import RestorePlan, restore_plan_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, Contradiction, NotReady, ReadBackFailed, Refusal, SystemUnavailable
from kafka_dr.procedure.entries import (
    GroupsCommitted,
    RestorePlanned,
    SnapshotTaken,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: What becomes of a position.
SAME, WRITE, DELETE, LEFT, SINCE = "same", "write", "delete", "left", "since"
_GROUP_SYNC = "sync.group.offsets.enabled"
_NAMED = 10


def undone_procedure(procedure: Run) -> Run:
    """Find the procedure whose commit is undone: the named one, or the last in this direction that committed.

    Raises:
        NotReady: there is none.
        Refusal: the one that was named moves clients otherwise.
    """
    named, request = procedure.request.choices.get("undo_procedure"), procedure.request
    notes = facts_of(procedure.journal.entries(step=Step.COMMIT_GROUPS), SnapshotTaken)
    ids = [entry.procedure_id for entry, _ in notes]
    known = [
        one
        for name in dict.fromkeys(reversed(ids))
        if named in (None, name) and (one := procedure.other(name)) is not None
    ]
    same = [one for one in known if (one.request.source, one.request.target) == (request.source, request.target)]
    if same:
        return same[0]
    if named and known:
        seen = f"it goes from {known[0].request.source} to {known[0].request.target}"
        raise Refusal(
            f"{named} is no procedure from {request.source} to {request.target}",
            seen,
            "Start a new run with its source and target.",
        )
    raise NotReady(
        "There is no commit to be undone",
        f"no procedure{f' called {named}' if named else ''} committed positions on {request.target}",
        "Look for its id in the evidence folder; a procedure that ended before commit_groups changed no position.",
    )


def snapshot_of(undone: Run) -> pd.DataFrame:
    """All that the groups held on the cluster before the first commit."""
    return undone.artifacts.load(undone.progress.facts(SnapshotTaken)[0].snapshot)


def committed_by(undone: Run) -> pd.DataFrame:
    """What the procedure committed, or meant to when its step died."""
    done = undone.progress.done(GroupsCommitted)
    if done is not None and done.ledger is not None:
        return undone.artifacts.load(done.ledger)[[*PLACE, "wanted"]].set_axis(COLUMNS, axis=1).astype(TYPES)
    return translated_positions(undone).astype(TYPES)


def compare_positions(procedure: Run, undone: Run, overwrites: bool) -> pd.DataFrame:
    """A row a position: group, topic, partition, position before, committed, now, and what becomes of it."""
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
    """What becomes of each position."""
    same = rows["now"].eq(rows["before"]).fillna(rows["now"].isna() & rows["before"].isna())
    ours = rows["now"].eq(rows["wanted"]).fillna(False) | overwrites
    found = (
        pd.Series(SINCE, index=rows.index, dtype=object)
        .mask(ours, WRITE)
        .mask(ours & rows["before"].isna(), LEFT)
        .mask(same, SAME)
    )
    # A group that held nothing before, and holds nothing that anybody else gave it, is not there once more.
    kept = set(rows.loc[rows["before"].notna() | (found == SINCE), "group"])
    return found.mask((found == LEFT) & ~rows["group"].isin(kept), DELETE)


def groups_with(rows: pd.DataFrame, action: str) -> list[str]:
    """Groups of which a position has this action."""
    return sorted(set(rows.loc[rows["action"] == action, "group"]))


def by_group_of(rows: pd.DataFrame, action: str) -> dict[str, int]:
    """How many positions of each group have this action."""
    return dict(sorted(Counter(rows.loc[rows["action"] == action, "group"].tolist()).items()))


def changed_since(rows: pd.DataFrame) -> dict[str, int]:
    """How many positions of each group are neither what stood there before nor what was committed."""
    return by_group_of(rows.assign(action=choose_actions(rows, overwrites=False)), SINCE)


def changed_groups(rows: pd.DataFrame) -> list[str]:
    """Groups that will be written to, or deleted."""
    return sorted({*groups_with(rows, WRITE), *groups_with(rows, DELETE)})


def digest_of_rows(rows: pd.DataFrame) -> str:
    """Over every position that is written and every group that is deleted."""
    written = rows.loc[rows["action"] == WRITE, [*PLACE, "before"]]
    return digest_of(
        {
            "writes": [list(row) for row in zip(*(written[name].tolist() for name in written), strict=True)],
            "deletes": groups_with(rows, DELETE),
        }
    )


def refuse_living(procedure: Run, groups: list[str]) -> None:
    """No group that is touched has a member on the cluster."""
    active = active_groups(procedure.systems.target, groups)
    if active:
        raise Refusal(
            f"Groups have members on {procedure.request.target}, and cannot be put back",
            first_few(sorted(active)),
            "Stop those consumers, and start a new run; positions of a living group are never touched.",
        )


def group_sync_runs(procedure: Run) -> bool | None:
    """Whether MirrorMaker 2 moves groups on the cluster by itself; None where nobody answers."""
    flow = procedure.flow
    try:
        worker, name = procedure.mirror_maker(flow), flow.connectors.checkpoint
        return not worker.status(name).stopped and worker.config(name).get(_GROUP_SYNC, "false") == "true"
    except (SystemUnavailable, BadInput):
        return None


def planned_restore(procedure: Run) -> tuple[RestorePlan, pd.DataFrame]:
    """The plan and its rows; a refusal if either is not what its digest names."""
    planned = procedure.progress.require(RestorePlanned)
    plan, rows = (
        restore_plan_of(planned.plan),
        procedure.artifacts.load(planned.rows).astype(dict.fromkeys(("before", "wanted", "now"), "Int64")),
    )
    if plan.digest != planned.plan_digest or plan.rows != digest_of_rows(rows):
        raise Contradiction(
            "The plan of the restore is not the one that its digest names",
            planned.plan_digest,
            "Start a new run: it looks again.",
        )
    return plan, rows


class Left:
    """What is left to do of a plan.

    Attributes:
        wanted: positions as they shall be read back; `todo` those of them that are not there yet.
        doomed: groups that are still there, and are deleted.
        since: how many positions of each group somebody changed since it was planned: these are left alone.
    """

    def __init__(self, wanted: pd.DataFrame, todo: pd.DataFrame, doomed: list[str], since: dict[str, int]) -> None:
        self.wanted, self.todo, self.doomed, self.since = wanted, todo, doomed, since

    @classmethod
    def of(cls, rows: pd.DataFrame, held: pd.DataFrame, overwrites: bool) -> Left:
        """Set what was planned beside what is held now."""
        seen = with_held_position(rows.rename(columns={"now": "planned"}), held, "now")
        writes, deletes = (seen[seen["action"] == action] for action in (WRITE, DELETE))
        done, as_planned = (
            writes["now"].eq(writes[name]).fillna(writes["now"].isna() & writes[name].isna())
            for name in ("before", "planned")
        )
        mine = done | as_planned | overwrites
        wanted = writes.assign(position=writes["before"]).astype({"position": "int64"})[COLUMNS]
        other = deletes["now"].notna() & deletes["now"].ne(deletes["planned"]).fillna(True)
        alive = set(deletes.loc[deletes["now"].notna(), "group"])
        # A position that nobody planned for was made since.
        grown = new_groups(deletes, held)
        spared = set() if overwrites else {*deletes.loc[other, "group"], *grown}
        changed = pd.concat([writes[~mine], deletes[deletes["group"].isin(spared)]]).assign(action=SINCE)
        return cls(wanted[mine], wanted[mine & ~done], sorted(alive - spared), by_group_of(changed, SINCE))


def new_groups(deletes: pd.DataFrame, held: pd.DataFrame) -> set[str]:
    """Groups to be deleted that hold a position which the plan does not know."""
    known = set(zip(*(deletes[name].tolist() for name in PLACE), strict=True))
    doomed = set(deletes["group"])
    return {
        place[0]
        for place in zip(*(held[name].tolist() for name in PLACE), strict=True)
        if place[0] in doomed and place not in known
    }


def refuse_unlike(ledger: pd.DataFrame, doomed: list[str], after: pd.DataFrame, refused: dict[str, str]) -> None:
    """Every position was read back as it was wanted, and no deleted group holds one."""
    wrong = ledger[~ledger["read_back"].eq(ledger["wanted"]).fillna(False)]
    there = sorted(set(after["group"]) & set(doomed) | set(refused))
    if len(wrong) or there:
        seen = (
            f"{wrong.head(5).to_dict('records')}; still there:"
            f" {[f'{group} {refused.get(group, str())}'.strip() for group in there[:_NAMED]]}"
        )
        raise ReadBackFailed(
            f"{len(wrong)} positions and {len(there)} groups are not what was put back",
            seen,
            "The ledger beside the evidence names every position. Stop consumers of these groups, then clear"
            " restore_positions.",
        )
