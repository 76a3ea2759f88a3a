"""The steps of a failover whose source was given up: what they need of it was written down before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.domain.fencing.armed_fence import ARMED
from kafka_dr.domain.fencing.fence import FenceScope, client_principals
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import DeadlinePassed, Refusal, SystemUnavailable
from kafka_dr.actions.loss.assessment import existing
from kafka_dr.actions.clients import OpenTarget
from kafka_dr.actions.fencing.acl_fence import active_groups, groups_of, partitions_of_plan, topics_of
from kafka_dr.actions.old_source.lost_source_fence import found_lost, watcher_seen
from kafka_dr.actions.loss.last_known_state import from_connect
from kafka_dr.actions.readiness.observe import remote_partitions, target_rules
from kafka_dr.actions.offsets.commit import CommitGroups, TranslateOffsets, require_reviewed
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.actions.replication.drain import still_target_ends
from kafka_dr.actions.recheck import (
    ResumedStep,
    connector_state,
    mirror_maker_still_stopped,
    running_again,
    source_reopened,
    target_ends_are_boundary,
)
from kafka_dr.actions.replication.stop import STOPPED, parts_of, stop_flow, stopping_since
from kafka_dr.actions.offsets.early_translation import bounds_at_boundary, taken_if_unchanged, write_translation
from kafka_dr.procedure.entries import DataLossAssessed, GroupsCommitted, MirrorMakerStopped, SourceFenced
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

#: A source that still answers lets its connectors go at once. One that is dead keeps each for a minute, and nothing can
#: be mirrored from it meanwhile.
_STOP_SECONDS, _ASK_SECONDS = 10.0, 5.0


class StopLeftMirrorMaker(ResumedStep):
    """Ask MirrorMaker 2 of the lost source to stop; the target's still ends prove that it writes no more."""

    def act(self, procedure: Run, context: Any) -> MirrorMakerStopped:
        """Ask to stop, then wait for still target ends: the boundary, which a later failback begins at."""
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
    """Ask the flow's MirrorMaker 2 to stop: states by connector or flow; why the worker was not asked, else None."""
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
        """Take the assessment's translation if the target is unchanged, else Spark's; add what was missing earlier."""
        assessed = procedure.progress.require(DataLossAssessed)
        bounds, earlier = procedure.artifacts.load(assessed.bounds), assessed.earlier_translation
        taken_ahead = taken_if_unchanged(procedure, assessed.translated_ahead, bounds, positions)
        rows, summary = taken_ahead or super().translated(procedure, context, positions)
        return rows, summary | {name: [*earlier.get(name, ()), *summary[name]] for name in ("holes", "cut")}

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """The inventory's positions, floors and pairs, and the target's log as it is since MirrorMaker 2 stands."""
        assessed = procedure.progress.require(DataLossAssessed)
        floors, syncs, pairs = map(procedure.artifacts.load, (assessed.floors, assessed.syncs, assessed.pairs))
        bounds = bounds_at_boundary(procedure, procedure.artifacts.load(assessed.bounds))
        return write_translation(procedure, folder, positions, floors, syncs, pairs, bounds, assessed.flowed_back)


class CommitWithoutSource(CommitGroups):
    """Commit the positions once MirrorMaker 2's own group sync can move them no more."""

    def act(self, procedure: Run, context: Any) -> GroupsCommitted:
        """The checkpoint connector was asked to stop a while ago; only now it is waited for."""
        group_sync_stopped(procedure, self.task_id)
        return super().act(procedure, context)


def group_sync_stopped(procedure: Run, step: str) -> None:
    """Wait until the checkpoint connector (dedicated: process) stops: its group sync could set back groups in use.

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
    """Look again at the target, then let clients write. The intent is the point of no return."""

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
            FenceScope.writes(topics_of(procedure)),
            FenceScope.group_reads(groups_of(procedure)),
        )
        return [(scope, client_principals(rules, scope, exempt)) for scope in scopes]


def refuse_living_groups(procedure: Run) -> None:
    """No group that moves has a member on the target yet."""
    active = active_groups(procedure.systems.target, groups_of(procedure))
    if active:
        raise Refusal(
            f"Groups came alive on {procedure.request.target}",
            first_few(sorted(active)),
            "Stop those consumers; the procedure returns to the source.",
        )
