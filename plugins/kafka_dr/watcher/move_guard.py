"""Guards the last move of clients between two clusters against whoever undoes it.

After open_target the old flow, from the cluster that clients left, must stay STOPPED, and the ACL entries of the move
must stay: the fence of the old source, and on the target the entries that make the old flow harmless. If somebody
undoes one of these the watcher does it again, once; at the second time within ten minutes the move is contested, and
the watcher acts no more. While another procedure works on the pair, and before the target is open, only two flows that
would copy in a circle are stopped: the flow in whose direction clients moved last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_dr.actions.fencing.rules import apply_change, standing_change
from kafka_dr.actions.old_source.lost_source_fence import source_answers
from kafka_dr.actions.recheck import still_stopping
from kafka_dr.actions.replication.stop import STOPPED, parts_of, stop_flow
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.topology import Flow
from kafka_dr.domain.fencing.armed_fence import LatestMove, WatchState
from kafka_dr.domain.fencing.guarded_move import GUARDING, GuardedMove, GuardState, Tenure, guard_of
from kafka_dr.domain.kafka_model.acl import AclChange
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BindingBroken, SwitchbackError, SystemUnavailable
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.binding import refuse_other_cluster
from kafka_dr.procedure.entries import (
    EntriesToRestore,
    LoopStopped,
    MirrorMakerStopped,
    MoveContested,
    MoveDefended,
    RecordsPassed,
    TargetToOpen,
    newest_fact,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.watcher.authority import STEP, watch_over
from kafka_dr.watcher.duties import ASK_SECONDS, STOP_SECONDS, not_stopped
from kafka_dr.watcher.moves import SETTLE_SECONDS, STOPPING_SECONDS
from kafka_dr.watcher.old_flow_offsets import copied_by_old_flow, passed_records, seed_at_ends
from kafka_dr.watcher.returned_brokers import ReturnedBrokers

#: How long a Connect worker may take, in seconds, to answer a request to stop.
_ACT_SECONDS = 5.0
#: What is undone within this time counts as undone at once, in seconds.
_SAME_TIME_SECONDS = 0.5
#: How long the entries that a move has set are kept in memory, in seconds.
_REMEMBER_SECONDS = 60.0


def parts_directions(procedure: Run) -> bool:
    """Whether topic prefixes keep two flows in opposite directions from copying records in a circle."""
    return procedure.topology.naming.policy == "default"


def stop_if_both_run(procedure: Run, move: LatestMove | None) -> str:
    """Check both flows between two clusters; if both run, stop the flow in whose direction clients moved last.

    If clients never moved, no flow is stopped.

    Args:
        procedure: a run between the clusters, with source and target of the last client move (`moved_run`).
        move: the last client move; None if clients never moved.

    Returns:
        A text that states what runs and what was done; "" if at most one flow runs.

    Raises:
        SwitchbackError: both flows run, and the flow could not be stopped yet; the watcher tries again later.
    """
    flow, reverse = procedure.flow, procedure.reverse_flow
    # The first flow is checked again after the second: a procedure may just have stopped `flow` to start `reverse`.
    if reverse is None or parts_directions(procedure):
        return ""
    if not all(may_copy(procedure, checked) for checked in (flow, reverse, flow)):
        return ""
    loop = (
        f"{flow.source}->{flow.target} and {reverse.source}->{reverse.target} both run: they copy records in a circle"
    )
    if move is None:
        return f"{loop}. The journal records no failover: stop the flow whose target is the cluster where clients are"
    procedure.authority.hold()
    seen_at = procedure.now()
    states = stop_flow(procedure, STEP, flow, ASK_SECONDS, STOP_SECONDS)
    figures = {"stopped": states, "flow": f"{flow.source}->{flow.target}", "seen_at": seen_at}
    record_fact(procedure.authority, STEP, LoopStopped(both_flows_run=figures))
    return " ".join(
        [
            (
                f"{loop}. Clients were moved to {flow.target} by {procedure.id}: {flow.source}->{flow.target} was asked"
                " to stop"
            ),
            *not_stopped(states),
        ]
    )


def may_copy(procedure: Run, flow: Flow) -> bool:
    """Whether a flow may copy records now, by the states of its source connectors.

    In dedicated mode: whether the stop hook counts a running process of the flow.
    """
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        return hook.running(f"{flow.source}->{flow.target}", timeout=ASK_SECONDS) > 0
    left = procedure.systems.flow_connectors(flow).not_stopped(timeout=ASK_SECONDS)
    return any(status.state != "PAUSED" for status in left)


@dataclass(frozen=True)
class Undone:
    """What somebody has undone of a move.

    Attributes:
        flow: state by part of the old flow that is not STOPPED.
        entries: by cluster, the change that sets the ACL entries again as the move had set them.
    """

    flow: Mapping[str, str]
    entries: Mapping[str, AclChange]

    def as_texts(self) -> list[str]:
        """Return what was seen, as text; [] if nothing was undone."""
        return [
            *(f"{name} is {state}" for name, state in self.flow.items()),
            *(
                f"on {alias}: {first_few([*map(str, change.adds)], 3)} gone"
                for alias, change in self.entries.items()
                if change.adds
            ),
            *(
                f"on {alias}: {first_few([*map(str, change.removes)], 3)} there again"
                for alias, change in self.entries.items()
                if change.removes
            ),
        ]


class MoveGuard:
    """Looks at what the last move of each pair of clusters has set, and does once again what somebody undid."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, dict[str, AclChange]]] = {}
        self._stopping: dict[str, float] = {}
        self._returned = ReturnedBrokers()

    def look(self, procedure: Run, move: LatestMove | None) -> str:
        """Look once at the last move of a pair; return what was seen and done as text, "" if nothing was undone.

        Args:
            procedure: a run between the clusters, with source and target of the last client move (`moved_run`).
            move: the last client move; None if clients never moved.
        """
        guard = _guard_now(procedure, move)
        if guard.state is GuardState.NOT_GUARDED:
            return stop_if_both_run(procedure, move)
        if guard.state is GuardState.CONTESTED:
            return _contested_text(procedure, guard.contested, guard.passed or _list_passed(procedure))
        first_look = self._undone(procedure)
        if not first_look.as_texts():
            return self._returned.probe(procedure)
        if first_look.flow and not guard.is_spent(procedure.journal.now()):
            # At once: while both flows run, records go in a circle, and double about once a second.
            procedure.authority.hold()
            _stop_reverse(procedure, settle=0.0)
        # Looked at again, by the journal as it is now: a procedure may just have begun, or changed its own fence. A
        # moment later, because a program that undoes several things takes a moment, too.
        time.sleep(_SAME_TIME_SECONDS)
        self._entries.pop(procedure.id, None)
        undone, guard = self._undone(procedure), _guard_now(procedure, move)
        if guard.state is not GuardState.GUARDED or not undone.as_texts():
            return ""
        procedure.authority.hold()
        if guard.is_spent(procedure.journal.now()):
            return _contest(procedure, undone)
        return self._defend(procedure, undone)

    # -- the look ---------------------------------------------------------------------------------------------------

    def _undone(self, procedure: Run) -> Undone:
        with run_concurrently() as start:
            flow = start(self._running_parts, procedure)
            entries = {
                alias: start(_unapplied, procedure, alias, change)
                for alias, change in self._entries_of(procedure).items()
                if change
            }
        changes = {alias: call.result() for alias, call in entries.items()}
        source = procedure.request.source
        if changes.get(source):
            watch = watch_over(procedure.journal, procedure.id)
            if watch is not None and watch.state is WatchState.ARMED:
                # The watcher's own duty is still setting this fence.
                del changes[source]
        return Undone(flow.result(), {alias: change for alias, change in changes.items() if change})

    def _entries_of(self, procedure: Run) -> dict[str, AclChange]:
        """Return by cluster what the move has changed in the ACL entries, and what must stay so."""
        read_at, entries = self._entries.get(procedure.id, (0.0, {}))
        if not read_at or time.monotonic() >= read_at + _REMEMBER_SECONDS:
            source, target = procedure.request.source, procedure.request.target
            opening = newest_fact(procedure.journal.entries(procedure.id, Step.OPEN_TARGET, Entry.INTENT), TargetToOpen)
            denials = AclChange(tuple((opening and opening.denies_old_flow) or ()))
            entries = {source: standing_change(procedure, source), target: denials}
            self._entries[procedure.id] = (time.monotonic(), entries)
        return entries

    def _running_parts(self, procedure: Run) -> dict[str, str]:
        """Return state by part of the old flow that is not STOPPED, but for parts that are still stopping.

        {} after a failback from a cluster whose own clients stay there: its flow runs on.
        """
        if procedure.flow_runs_on:
            return {}
        try:
            states = part_states(procedure, procedure.flow)
        except SystemUnavailable:
            # A stop hook that does not answer.
            return {}
        for name in [name for name, state in states.items() if state == STOPPED]:
            self._stopping.pop(name, None)
        return {
            name: state
            for name, state in states.items()
            if state != STOPPED
            and time.monotonic() >= self._stopping.get(name, 0.0)
            and not _stops_late(procedure, name)
        }

    # -- the act ----------------------------------------------------------------------------------------------------

    def _defend(self, procedure: Run, undone: Undone) -> str:
        """Do again what somebody undid: stop the reverse flow first, then stop the old flow and set the entries."""
        seen_at, seen = procedure.now(), undone.as_texts()
        with run_concurrently() as start:
            # Its request first: while the reverse flow stands nothing new comes to where the old flow reads.
            reverse = start(_stop_reverse, procedure)
            stopping = start(_try_stop, procedure, procedure.flow)
            restoring = [start(_restore, procedure, alias, change) for alias, change in undone.entries.items()]
        states = reverse.result() | stopping.result()
        still = [name for name in parts_of(procedure.flow) if states.get(name, STOPPED) != STOPPED]
        self._stopping |= dict.fromkeys(still, time.monotonic() + STOPPING_SECONDS)
        not_restored = [text for call in restoring for text in call.result()]
        fact = MoveDefended(
            undone=seen,
            seen_at=seen_at,
            states=states,
            **_old_flow_offsets(procedure, not_restored, reverse_stands=not not_stopped(reverse.result())),
            not_restored=not_restored,
        )
        record_fact(procedure.authority, STEP, fact)
        stopped = first_few([name for name, state in states.items() if state == STOPPED]) or "no connector"
        return " ".join(
            [
                (
                    f"somebody undoes the move to {procedure.request.target} by {procedure.id}: {first_few(seen)}."
                    f" Done again, once: {stopped} stopped, ACL entries set on"
                    f" {first_few(sorted(undone.entries)) or 'no cluster'}. At the second time within ten minutes the"
                    " watcher gives up"
                ),
                *not_stopped(states),
                *not_restored[:3],
            ]
        )


def _guard_now(procedure: Run, move: LatestMove | None) -> GuardedMove:
    lease = procedure.journal.lease(procedure.pair)
    tenure = Tenure(lease.holder, lease.released_at is not None, lease.taken_at) if lease else Tenure(None)
    if move is None:
        return guard_of((), None, tenure)
    return guard_of(procedure.journal.entries_of_steps(GUARDING), move, tenure)


def _stops_late(procedure: Run, name: str) -> bool:
    """Whether a part had not stopped when the procedure went on without the source, and may still be stopping."""
    stopped = procedure.progress.done(MirrorMakerStopped)
    late = (stopped and stopped.still_stopping) or ()
    return name in late and still_stopping(procedure, name)


def part_states(procedure: Run, flow: Flow) -> dict[str, str]:
    """Return the state of each part of a flow that exists: of its connectors, or in dedicated mode of its processes."""
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        (name,) = parts_of(flow)
        running = hook.running(name, timeout=ASK_SECONDS)
        return {name: f"{running} processes run" if running else STOPPED}
    states: dict[str, str] = {}
    for worker, names in procedure.systems.flow_connectors(flow).workers:
        try:
            existing = worker.existing(names, timeout=ASK_SECONDS)
            states |= {name: str(worker.status(name, timeout=ASK_SECONDS).state) for name in existing}
        except SystemUnavailable:
            # An unreachable worker hides what its connectors do; the next look asks again.
            continue
    return states


def _unapplied(procedure: Run, alias: str, change: AclChange) -> AclChange:
    """Return what a cluster lacks of a change of its ACL entries; nothing if the cluster does not answer."""
    try:
        if alias == procedure.request.source and not source_answers(procedure, ASK_SECONDS):
            return AclChange()
        entries = procedure.systems.acls_of(alias).entries()
    except SystemUnavailable:
        return AclChange()
    return AclChange(
        tuple(entry for entry in change.adds if entry not in entries),
        tuple(entry for entry in change.removes if entry in entries),
    )


def _stop_reverse(procedure: Run, settle: float | None = None) -> dict[str, str]:
    """Stop the flow to the old source if it runs, unless topic prefixes part the two directions; see `_try_stop`."""
    reverse = procedure.reverse_flow
    if reverse is None or parts_directions(procedure):
        return {}
    return _try_stop(procedure, reverse, settle)


def _try_stop(procedure: Run, flow: Flow, settle: float | None = None) -> dict[str, str]:
    """Ask a flow to stop, and wait a moment; return state by part, or why the flow could not be stopped.

    Also parts that are STOPPED are asked: a request to resume may be under way, and the last request counts.

    Args:
        settle: how long to wait, in seconds; None: SETTLE_SECONDS.
    """
    try:
        wait = SETTLE_SECONDS if settle is None else settle
        return stop_flow(procedure, STEP, flow, _ACT_SECONDS, wait, trusted=False)
    except SystemUnavailable as error:
        return {f"{flow.source}->{flow.target}": str(error)}


def _old_flow_offsets(procedure: Run, problems: list[str], reverse_stands: bool) -> dict[str, Any]:
    """Return what the old flow has copied meanwhile, and set its offsets so that it copies nothing back.

    Args:
        problems: gets what could not be done, as text.
        reverse_stands: whether the reverse flow is STOPPED; else the offsets are left alone, as they would be too low.
    """
    found: dict[str, Any] = {}
    # In dedicated mode the members of the worker group would have to be awaited, which takes a session's time.
    in_connect = procedure.flow.connect is not None
    loops = in_connect and procedure.reverse_flow is not None and not parts_directions(procedure)
    # A source that does not answer would hold up the next look for a minute.
    may_seed = loops and reverse_stands and source_answers(procedure, ASK_SECONDS)
    # What was copied is read first, because the seeds replace the offsets that show it.
    reads = {"copied": copied_by_old_flow, **({"seeds": seed_at_ends} if may_seed else {})}
    for name, read in reads.items():
        try:
            found[name] = read(procedure)
        except SwitchbackError as error:
            problems.append(str(error))
    return found


def _restore(procedure: Run, alias: str, change: AclChange) -> list[str]:
    """Set ACL entries of a cluster again; return what the cluster has not applied, as text."""
    try:
        refuse_other_cluster(procedure, alias, procedure.systems.cluster(alias))
        intent = EntriesToRestore(cluster=alias, restores_acl_entries=change.adds, removes_again=change.removes)
        record_fact(procedure.authority, STEP, intent)
        procedure.authority.hold()
        return apply_change(procedure, procedure.systems.acls_of(alias), change)
    except (SystemUnavailable, BindingBroken) as error:
        return [str(error)]


def _contest(procedure: Run, undone: Undone) -> str:
    seen = undone.as_texts()
    record_fact(procedure.authority, STEP, MoveContested(contested=seen, contested_at=procedure.now()))
    return _contested_text(procedure, seen)


def _contested_text(procedure: Run, seen: Sequence[str], passed: RecordsPassed | None = None) -> str:
    source, target = procedure.request.source, procedure.request.target
    text = (
        f"contested: somebody undoes the move to {target} by {procedure.id} again and again: {first_few(seen)}. The"
        f" watcher acts no more on {procedure.pair} until another procedure has begun. Find out which program does it,"
        f" and stop this program; then stop the flow {source}->{target}"
    )
    if passed is None:
        return text
    boundary, cut_off = (first_few(rows) or "nothing seen" for rows in (passed.passed_boundary, passed.passed_cut_off))
    return f"{text}. Copied to {target} after the boundary: {boundary}. On {source} after the cut-off: {cut_off}"


def _list_passed(procedure: Run) -> RecordsPassed:
    """Record what passed the boundary and the cut-off of a contested move, and return it."""
    passed = passed_records(procedure)
    record_fact(procedure.authority, STEP, passed)
    return passed
