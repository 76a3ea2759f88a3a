"""The steps of a failover whose source was given up: what they need of it was written down before."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.armed import ARMED
from kafka_dr.domain.fence import FenceScope, client_principals
from kafka_dr.domain.rereads import COMPARED
from kafka_dr.errors import DeadlinePassed, Refusal, SystemUnavailable
from kafka_dr.operators.assessing import existing
from kafka_dr.operators.clients import OpenTarget
from kafka_dr.operators.fencing import active_groups, groups_of, partitions_of_plan
from kafka_dr.operators.fencing_source import found_lost, watcher_seen
from kafka_dr.operators.last_known import from_connect
from kafka_dr.operators.observing import remote_partitions, target_rules
from kafka_dr.operators.offsets import KEY, CommitGroups, TranslateOffsets, require_reviewed
from kafka_dr.operators.positions import partitions_frame
from kafka_dr.operators.replication import still_target_ends
from kafka_dr.operators.still_true import (
    ResumedStep,
    connector_state,
    mirror_maker_still_stopped,
    running_again,
    source_reopened,
    target_ends_are_boundary,
)
from kafka_dr.operators.stopping import STOPPED, parts_of, stop_flow, stopping_since
from kafka_dr.operators.translating_ahead import bounds_at_boundary, taken_if_unchanged, write_translation
from kafka_dr.procedure.entries import DataLossAssessed, GroupsCommitted, MirrorMakerStopped, SourceFenced
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION

#: A source that still answers lets its connectors go at once. One that is dead keeps each for a minute, and nothing can
#: be mirrored from it meanwhile.
_STOP_SECONDS, _ASK_SECONDS = 10.0, 5.0


class StopLeftMirrorMaker(ResumedStep):
    """Have what mirrored the lost source stopped; that it writes nothing any more is proven by the target's still
    ends, not waited for.
    """

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Asked to stop, and after that the target's ends still for a window: the boundary, which a later failback
        begins at.
        """
        procedure.approvals.require_plan()
        remote = existing(procedure, remote_partitions(procedure, partitions_of_plan(procedure)).values())
        states, silent = asked_to_stop(procedure, self.task_id)
        left = [name for name, state in states.items() if state != STOPPED]
        # What was on its way when the connectors were asked is in the log once its ends stand still.
        ends = still_target_ends(procedure, self.task_id, sorted(remote))
        # Connect answers this where it also stops tasks: one that is at it, or died with the source, is not waited for.
        replicated = from_connect(procedure, []) if states and not left else {}
        return MirrorMakerStopped(
            asked=silent is None,
            states=states,
            worker_silent=silent,
            still_stopping=left or None,
            boundary=procedure.artifacts.save("boundary", partitions_frame(ends, "offset")),
            replicated=procedure.artifacts.save("replicated", partitions_frame(replicated, "offset")),
        )


def asked_to_stop(procedure: Run, step: str) -> tuple[dict[str, str], str | None]:
    """Ask the flow's MirrorMaker 2 to stop: how far it came, by connector or flow; and why the worker was not asked,
    None if it was.
    """
    seconds = 0.0 if found_lost(procedure) else _STOP_SECONDS
    try:
        return stop_flow(procedure, step, procedure.flow, _ASK_SECONDS, seconds), None
    except SystemUnavailable as error:
        return {}, str(error)


class TranslateWithoutSource(TranslateOffsets):
    """Translate the positions that were seen last, from what was recorded and from the target's log alone."""

    def positions(self, procedure: Run) -> pd.DataFrame:
        """What is translated: the positions of the inventory."""
        return procedure.artifacts.load(procedure.progress.require(DataLossAssessed).positions)

    def translated(self, procedure: Run, context: Any, positions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """What was translated with the assessment, or by a continued run, is taken as it is where the target is as
        it was; Spark translates the rest.
        """
        assessed = procedure.progress.require(DataLossAssessed)
        bounds = procedure.artifacts.load(assessed.bounds)
        earlier, receipt = assessed.earlier_translation, assessed.earlier_positions
        if not earlier:
            taken_ahead = taken_if_unchanged(procedure, assessed.translated_ahead, bounds, positions)
            return taken_ahead or super().translated(procedure, context, positions)
        bounds = bounds_at_boundary(procedure, bounds)
        taken = (
            positions[:0] if receipt is None else taken_as_it_is(procedure.artifacts.load(receipt), positions, bounds)
        )
        rest = without(positions, taken)
        rows, made = super().translated(procedure, context, rest) if len(rest) else (rest, _NOTHING_MADE)
        both = pd.concat([found for found in (taken, rows) if len(found)] or [taken], ignore_index=True)
        return both, together(earlier, made, both)

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """The inventory's positions, floors and pairs, and the target's log as it is since MirrorMaker 2 stands."""
        assessed = procedure.progress.require(DataLossAssessed)
        floors, syncs, pairs = map(procedure.artifacts.load, (assessed.floors, assessed.syncs, assessed.pairs))
        bounds = bounds_at_boundary(procedure, procedure.artifacts.load(assessed.bounds))
        return write_translation(procedure, folder, positions, floors, syncs, pairs, bounds, assessed.flowed_back)


_NOTHING_MADE: dict[str, Any] = {"records_read": {"source": 0, "target": 0}, "repeats": {}, "holes": [], "cut": []}
_RAISED = "raised to where the target's log begins since it was translated"


def taken_as_it_is(earlier: pd.DataFrame, positions: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Rows of an earlier translation of these very positions, on partitions that are drained still.

    A position below which the target's retention has deleted records since is raised, and not called exact any more.
    """
    there = bounds.loc[bounds["drained"], [*PARTITION, "target_start"]]
    rows = earlier.drop(columns=COMPARED).merge(positions[KEY], on=KEY).merge(there, on=PARTITION)
    rows = rows.astype({"partition": "int32", "target_position": "Int64", "target_start": "Int64", "bound": "Int64"})
    short = rows["target_position"].lt(rows["target_start"]).fillna(False).astype(bool)
    bound = (rows["bound"] - (rows["target_start"] - rows["target_position"])).clip(lower=0)
    return rows.assign(
        target_position=rows["target_position"].mask(short, rows["target_start"]),
        bound=rows["bound"].mask(short, bound),
        exact=rows["exact"].astype(bool) & ~short,
        clamped=rows["clamped"].astype(object).mask(short, _RAISED),
    ).drop(columns="target_start")


def without(positions: pd.DataFrame, taken: pd.DataFrame) -> pd.DataFrame:
    """The positions that are not among those taken."""
    both = positions.merge(taken[KEY].assign(taken=True), on=KEY, how="left")
    return positions[both["taken"].isna().to_numpy()].reset_index(drop=True)


def together(earlier: Mapping[str, Any], made: Mapping[str, Any], rows: pd.DataFrame) -> dict[str, Any]:
    """The summary of both: what the earlier one found missing is missing still, whatever of it is taken."""
    return {
        "digest": translation_digest(rows),
        "classes": (
            {str(name): int(count) for name, count in rows["class"].value_counts().sort_index().items()}
            if len(rows)
            else {}
        ),
        "records_read": made["records_read"],
        "repeats": made["repeats"] | earlier["repeats"],
        "holes": [*earlier["holes"], *made["holes"]],
        "cut": [*earlier["cut"], *made["cut"]],
    }


#: What the digest of a translation covers of a row, in this order, and as what.
_COVERED = {
    "group": str,
    "topic": str,
    "partition": int,
    "position": int,
    "position_at": int,
    "target_topic": str,
    "target_position": int,
    "class": str,
    "exact": bool,
    "bound": int,
    "evidence": str,
    "clamped": str,
}


def translation_digest(rows: pd.DataFrame) -> str:
    """The digest of these very rows, by the contract by which Spark tells that of the rows it makes: who has the
    rows can check it.
    """
    covered = _COVERED if len(rows) else {}
    columns = [
        [None if pd.isna(value) else kind(value) for value in rows[name].tolist()] for name, kind in covered.items()
    ]
    lines = sorted(zip(*columns, strict=True), key=lambda line: (*line[1:3], line[0]))
    return _digest(
        [[*place, _digest([*map(list, mine)])] for place, mine in groupby(lines, key=lambda line: line[1:3])]
    )


def _digest(told: list[Any]) -> str:
    return sha256(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


class CommitWithoutSource(CommitGroups):
    """Commit the positions once MirrorMaker 2's own group sync can move them no more."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """The checkpoint connector was asked to stop a while ago; only now it is waited for."""
        group_sync_stopped(procedure, self.task_id)
        return super().act(procedure, context)


def group_sync_stopped(procedure: Run, step: str) -> None:
    """Wait until the flow's checkpoint connector stands without tasks, or in dedicated mode no process runs: its
    group sync could set back a group that has consumers by then.

    A worker or a stop hook that is silent died with the source, as far as anybody can know, and is not waited for.

    Raises:
        Refusal: it runs, and nobody has asked it to stop since it stood.
        DeadlinePassed: it does not stand `stop_seconds` after it was asked.
    """
    name, limit = parts_of(procedure.flow)[-1], procedure.request.deadlines.stop_seconds

    def stopped() -> None:
        status, since = connector_state(procedure, name), stopping_since(procedure, name)
        if status is None or status.stopped:
            return
        if since is None:
            raise running_again(status)
        if time.time() >= since + limit:
            raise DeadlinePassed(
                f"{name} does not stand still {limit:.0f} s after it was asked to stop",
                str(status),
                "It could move groups: look at the worker's log, or end the worker; the procedure returns to the"
                " source.",
            )
        raise NotYet(f"{name} was asked to stop and still has to: {status}")

    procedure.progress.wait(step, "The checkpoint connector standing still", stopped, limit)


class OpenWithoutSource(OpenTarget):
    """Look again at what waiting may have changed on the target, then let clients write. Its intent is the point of
    no return.
    """

    def look_again(self, procedure: Run, begun: bool) -> str:
        """Nothing of the source is asked: it is fenced, or armed. Answers what shows that no position changed."""
        if source_reopened(procedure):
            raise Refusal(
                "The source was given back to its clients",
                "return_to_source had begun",
                "Clear return_to_source until it is done; then start a new procedure.",
            )
        mirror_maker_still_stopped(procedure)
        group_sync_stopped(procedure, self.task_id)
        if not begun:
            require_reviewed(procedure)
            refuse_living_groups(procedure)
            if procedure.progress.require(SourceFenced).fenced == ARMED:
                watcher_seen(procedure)
            # Last of all: a connector that still has to stop is believed only because nothing moves.
            target_ends_are_boundary(procedure)
        return "the source was given up"

    def client_scopes(self, procedure: Run) -> list[tuple[FenceScope, frozenset[str]]]:
        """What clients will do on the target, and the principals that hold the right there, but for a denial."""
        rules, exempt = target_rules(procedure), procedure.exempt(procedure.request.target)
        scopes = (
            FenceScope.writes(procedure.progress.move().planned.local_names.values()),
            FenceScope.group_reads(groups_of(procedure)),
        )
        return [(scope, client_principals(rules, scope, exempt)) for scope in scopes]


def refuse_living_groups(procedure: Run) -> None:
    """No group that moves has a member on the target yet."""
    active = active_groups(procedure.systems.target, groups_of(procedure))
    if active:
        raise Refusal(
            f"Groups came alive on {procedure.request.target}",
            ", ".join(sorted(active)[:10]),
            "Stop those consumers; the procedure returns to the source.",
        )
