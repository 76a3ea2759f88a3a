"""Restore of the positions that groups had before a procedure's commit: the plan to approve, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.plain_text import count_of, first_few, shorten_text, table_cell
from kafka_dr.domain.readiness.terms import terms_markdown
from kafka_dr.vocabulary import Outcome, Step

_SHOWN = 20


@dataclass(frozen=True)
class RestorePlan:
    """What a restore will do to groups' positions on one cluster.

    Attributes:
        undone: id of the procedure whose commit of positions is undone.
        opened: whether that procedure had opened the cluster to clients.
        rows: digest of all positions to write and all groups to delete.
        writes: number of positions to restore; `raised` of these are higher than the position that the group has now.
        deletes: groups to delete, because they had no position before the commit.
        since: by group, number of positions that another writer changed after the commit; these positions are restored
            only with `overwrites`.
        left: by group, number of positions that did not exist before the commit, and stay, because another writer
            changed other positions of the group.
        group_sync: whether MirrorMaker 2's group sync runs, which may move these groups again; None if unknown.
        cool_down: the cool-down that is not waited for, and why; None if none was running.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
        removes: by group that is not deleted, number of positions to delete, because they did not exist before the
            commit.
    """

    procedure_id: str
    cluster: str
    reason: str
    undone: str
    opened: bool
    rows: str
    writes: int
    raised: int
    deletes: tuple[str, ...]
    since: dict[str, int]
    left: dict[str, int]
    overwrites: bool
    group_sync: bool | None
    cool_down: dict[str, Any] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)
    removes: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether any position is written or deleted, or any group deleted."""
        return bool(self.writes or self.deletes or self.removes)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        stated = {**asdict(self), "deletes": list(self.deletes)}
        # Plans of earlier versions have neither terms nor removes, and their digests do not cover any.
        return {name: value for name, value in stated.items() if value or name not in ("terms", "removes")}

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; an approval names this digest."""
        return digest_of(self.as_dict())


def restore_plan_of(plan_data: Mapping[str, Any]) -> RestorePlan:
    """Return the plan from its plain data, as returned by `RestorePlan.as_dict`."""
    return RestorePlan(**{**plan_data, "deletes": tuple(plan_data["deletes"])})


def restore_markdown(plan: RestorePlan) -> str:
    """Return the gate's page as Markdown: what the restore will do, and the plan's digest."""
    lines = [
        (
            f"Groups on **{plan.cluster}** get back the positions that they had before {table_cell(plan.undone)}"
            f" committed positions. Reason: {table_cell(plan.reason)}"
        ),
        "",
        *[f"- {line}" for line in _facts(plan)],
        "",
        *_table("Changed since that commit", plan.since),
        *_table("Deleted", plan.removes),
        *_table("Not deleted", plan.left),
        *terms_markdown(plan.terms),
        f"Digest of this plan: `{plan.digest}`",
    ]
    return "\n".join(lines)


def _facts(plan: RestorePlan) -> list[str]:
    since = sum(plan.since.values())
    synced = {
        True: "MirrorMaker 2's group sync runs, and may overwrite these positions within seconds: stop the checkpoint"
        " connector first.",
        None: "Whether MirrorMaker 2's group sync runs is unknown: the sync may overwrite these positions.",
    }
    lines = [
        (
            f"{count_of(plan.writes, 'position')} are written; {plan.raised:,} of them are higher than the group's"
            f" position now: these groups do not read the records in between on {plan.cluster}."
        )
    ]
    lines += (
        [(f"Groups without a position before that commit are deleted: {table_cell(first_few(plan.deletes, _SHOWN))}.")]
        if plan.deletes
        else []
    )
    lines += (
        [
            (
                f"{count_of(since, 'position')} were changed since that commit, and"
                f" {'are overwritten, too' if plan.overwrites else 'are not changed'}."
            )
        ]
        if since
        else []
    )
    lines += (
        [
            (
                f"{count_of(sum(plan.removes.values()), 'position')} did not exist before that commit, and are deleted:"
                " auto.offset.reset of the consumers decides where the groups begin on these partitions."
            )
        ]
        if plan.removes
        else []
    )
    lines += (
        [
            (
                f"{count_of(sum(plan.left.values()), 'position')} did not exist before that commit, and stay: another"
                " writer has changed positions of their groups since."
            )
        ]
        if plan.left
        else []
    )
    lines += (
        [f"{table_cell(plan.undone)} had opened {plan.cluster}: clients may have worked on {plan.cluster} since."]
        if plan.opened
        else []
    )
    lines += (
        [f"This run does not wait for the end of a cool-down: {table_cell(str(plan.cool_down['acknowledged']))}"]
        if plan.cool_down
        else []
    )
    return [*lines, *([synced[plan.group_sync]] if plan.group_sync in synced else [])]


def _table(title: str, by_group: Mapping[str, int]) -> list[str]:
    if not by_group:
        return []
    rows = sorted(by_group.items(), key=lambda row: (-row[1], row[0]))
    return [
        f"| {title}: group | positions |",
        "| --- | --- |",
        *[f"| {table_cell(group)} | {count} |" for group, count in rows[:_SHOWN]],
        *([f"| and {len(rows) - _SHOWN} more groups | |"] if len(rows) > _SHOWN else []),
        "",
    ]


def restore_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return three sentences from the evidence `e` of a restore: on its outcome, on clients, on positions."""
    figures = {step["id"]: step["figures"] for step in e["steps"] if step["state"] == "done"}
    plan, done = e["plan"] or {}, figures.get(Step.RESTORE_POSITIONS)
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    undo = f"undo the commit of {plan['undone']} on {e['target']}" if plan else f"undo a commit on {e['target']}"
    result = {
        Outcome.COMPLETED: f"The commit of {plan.get('undone')} on {e['target']} was undone.",
        Outcome.REFUSED: f"The request to {undo} was refused{at}, before any position was changed.",
        Outcome.ABORTED: f"The attempt to {undo} was aborted.",
    }.get(Outcome(e["outcome"]), f"The attempt to {undo} stopped{at}.")
    return [result, "No client was moved or stopped, and no fence was changed.", _positions_sentence(done)]


def _positions_sentence(done: Mapping[str, Any] | None) -> str:
    if done is None:
        return "The positions of the groups were not read back."
    left_unchanged = (
        f" {count_of(done['changed_since'], 'position')} that another writer changed since were not changed."
        if done["changed_since"]
        else ""
    )
    count = done.get("deleted_positions") or 0
    removed = f" {count_of(count, 'position')} that did not exist before the commit were deleted." if count else ""
    return (
        f"{count_of(done['written'] + done['already'], 'position')} were read back as before the commit, and"
        f" {count_of(done['deleted'], 'group')} deleted.{removed}{left_unchanged}"
    )


def restore_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what the operator has to do now, a sentence each, from the evidence `e` of a restore."""
    if e["outcome"] == Outcome.COMPLETED:
        return ["Nothing."]
    if e["outcome"] == Outcome.FAILED:
        return [
            shorten_text(e["reason_for_outcome"]),
            (
                f"Mend the cause, then clear {e['failing_step'] or 'the failed task'} with its downstream tasks in"
                " Airflow: the step continues where it stopped. Or trigger abort_procedure: written positions stay."
            ),
        ]
    return [
        shorten_text(e["reason_for_outcome"]),
        "Mend the cause, then start a new run, which compares the groups' positions again.",
    ]
