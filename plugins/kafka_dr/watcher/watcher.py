"""Watch old sources that could not be fenced: fence each once it answers, and list what it accepted till then.

Beside that it watches that no two flows copy the same topics in a circle, whoever started them.

Invariants
1. Looks end in the same state however often they are made, and by however many watchers at once.
2. What the watcher means to do stands in the journal first; a fence is over only once it was proven and read back.
3. A source that was given back or opened to clients again is not fenced; what was done too late is undone.
4. Of two flows that run against each other the one is stopped that the journal says must stand; where it says nothing,
   none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from copy import copy
from datetime import datetime
from functools import cache, partial
from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.domain.fencing.armed_fence import (
    BY_ACL,
    MOVING,
    ArmedFence,
    Move,
    Watch,
    Watched,
    armed_fences,
    last_moves,
    unstopped,
    watched,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import FenceNotProven, KafkaUnavailable, LeaseLost, SwitchbackError, SystemUnavailable
from kafka_dr.hooks.redaction import one_line
from kafka_dr.hooks.journal.journal import Journal, JournalEntry
from kafka_dr.actions.old_source.writes_after_failover import accepted_since, log_ends, producers_since
from kafka_dr.hooks.connections import Connections
from kafka_dr.actions.old_source.lost_source_fence import fence_old_source, source_answers, telling_entries
from kafka_dr.actions.readiness.observe import side_by_side
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.actions.old_source.views import in_background
from kafka_dr.actions.replication.stop import STOPPED, stop_flow
from kafka_dr.procedure.authority import record
from kafka_dr.procedure.entries import (
    FenceDisarmed,
    LoopStopped,
    OldMirrorMakerStopped,
    OldSourceAnswers,
    OldSourceFenced,
    ProcedureOpened,
    all_of,
    facts_of,
)
from kafka_dr.procedure.progress import NotYet, WaitLonger
from kafka_dr.procedure.run import Identity, Run, opened_by
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.vocabulary import Entry, Step

STEP = Step.WATCH_OLD_SOURCE.value

_LOOK_SECONDS = 1.0
#: A system that does not answer must not keep the next look waiting.
_ASK_SECONDS = 1.0
_ENDS_SECONDS = 5.0
_STOP_SECONDS = 20.0
#: Flows that may not run against each other are looked at this often: a circle doubles its records about once a second.
_FLOWS_SECONDS = 2.0
#: The watcher shows that it lives this often.
_SIGN_SECONDS = 5.0
#: Topology and connections are read anew this often.
_REFRESH_SECONDS = 60.0


class WatchOldSource(BaseOperator):
    """Look at every armed source once a second while the task lives; at a slow one once its last look ended."""

    def execute(self, context: Any) -> None:
        """Look until the task is ended; what goes wrong is told and looked at again."""
        watch(self.log.info)


def watch(tell: Callable[[str], object]) -> None:
    """Look once a second, without end; `tell` takes a line whenever there is something new to say."""
    watcher = Watcher(tell)
    while True:
        began = time.monotonic()
        watcher.look()
        time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - began)))


class Watcher:
    """Looks at what the journal says is armed; knows nothing that the journal does not."""

    def __init__(
        self,
        tell: Callable[[str], object],
        connections: Callable[[], Any] = Connections,
        patience: float = _LOOK_SECONDS,
    ) -> None:
        """Nothing is read yet.

        Args:
            tell: takes a line for people, whenever there is something new to say.
            connections: makes what reads Airflow's connections.
            patience: how many seconds a look waits at most for what it has begun.
        """
        self._tell, self._connections, self._patience = tell, connections, patience
        self._told: dict[str, str] = {}
        self._begun: dict[str, Future[None]] = {}
        self._read_at: float | None = None
        self._sign_due = self._flows_due = 0.0

    def look(self) -> None:
        """Look at every armed source, a thread each, so that a slow or failing one delays no other's fence."""
        self._say("watching", self._pass)

    def _pass(self) -> str:
        self._refresh()
        entries = telling_entries(self._journal)
        duties = [(fence, fence_if_it_answers) for fence in armed_fences(entries)]
        duties += [(fence, stop_if_it_answers) for fence in unstopped(entries)]
        self._begun = {about: look for about, look in self._begun.items() if not look.done()}
        for fence, duty in duties:
            # One whose last look is still under way is looked at again when that has ended.
            self._begin(fence.procedure_id, partial(self._attend, fence, duty, entries))
        self._look_at_flows()
        wait(self._begun.values(), self._patience)
        self._show_life()
        return f"{len(duties)} old sources are watched"

    def _begin(self, about: str, work: Callable[[], str]) -> None:
        if about not in self._begun:
            self._begun[about] = in_background(partial(self._say, about, work))

    def _look_at_flows(self) -> None:
        """Every pair of flows that would copy the same topics back and forth."""
        if time.monotonic() < self._flows_due:
            return
        self._flows_due = time.monotonic() + _FLOWS_SECONDS
        for flow in circles(self._topology):
            self._begin(f"{flow.source} and {flow.target}", partial(self._attend_flows, flow))

    def _attend_flows(self, flow: Flow) -> str:
        procedure, move = moved_run(self._journal, flow, self._topology, self._remembered)
        try:
            return stop_if_both_run(procedure, move)
        except SystemUnavailable:
            # A worker that is away copies nothing that could be seen from here; whoever runs without it is looked at
            # again.
            return ""
        finally:
            procedure.close()

    def _show_life(self) -> None:
        """Whoever arms a fence wants to know that somebody looks."""
        if time.monotonic() >= self._sign_due:
            self._journal.show_life(STEP)
            self._sign_due = time.monotonic() + _SIGN_SECONDS

    def _attend(
        self, fence: ArmedFence, duty: Callable[[Run, ArmedFence], str], entries: Iterable[JournalEntry]
    ) -> str:
        opened = next(
            fact for entry, fact in facts_of(entries, ProcedureOpened) if entry.procedure_id == fence.procedure_id
        )
        identity, request = Identity(opened.dag_id, opened.run_id), Request(**opened.request)
        pair = self._topology.pair_key(request.source, request.target)
        authority = ArmedFenceAuthority(self._journal, self._topology, pair, identity.procedure_id)
        systems = self._remembered.systems(request, self._topology)
        procedure = Run(identity, request, self._journal, systems, authority)
        try:
            return duty(procedure, fence)
        finally:
            procedure.close()

    def _say(self, about: str, work: Callable[[], str]) -> None:
        """Do something, and say how it went if that is not what was said last; an empty line is nothing to say."""
        try:
            line = work()
        except (SwitchbackError, NotYet, WaitLonger) as error:
            line = str(error)
        except Exception as error:  # noqa: BLE001
            # Whatever is wrong with one source, the others are still to be fenced.
            line = f"{type(error).__name__}: {one_line(error)}"
        if line != self._told.get(about, ""):
            self._told[about] = line
            if line:
                self._tell(f"{about}: {line}")

    def _refresh(self) -> None:
        """Reload topology and connections once a minute: Airflow's API may be away, and is not asked at every look."""
        if self._read_at is not None and time.monotonic() < self._read_at + _REFRESH_SECONDS:
            return
        try:
            topology, remembered = load_topology(), remembering(self._connections())
            self._journal = Journal(remembered.journal_url(topology.journal.connection))
            self._topology, self._remembered = topology, remembered
        except Exception:
            if self._read_at is None:
                raise
        self._read_at = time.monotonic()


def remembering(connections: Connections) -> Connections:
    """The same connections, each asked for once."""
    made = copy(connections)
    vars(made).update({name: cache(getattr(connections, name)) for name in ("kafka", "login", "journal_url")})
    return made


class ArmedFenceAuthority:
    """The authority of the watcher: the armed fence of a procedure, not its lease.

    The watcher takes no epoch. While the procedure runs, a new one would supersede the step that works just then; and
    once the procedure is closed it holds no lease, and its id takes no entry any more as soon as another procedure has
    the pair. What gives the right to act is the armed fence itself: it was approved, and it is read from the journal
    just before each act and just after it. So two watchers, or one beside the procedure's own steps, do the same thing
    twice at most.

    Its entries stand under the procedure while that is open, so that they are in its evidence. After that they stand
    under the watcher's own name and epoch 0, which the journal takes at any time since no lease was ever held under
    that name. All of them name the procedure.
    """

    def __init__(self, journal: Journal, topology: Topology, pair: str, procedure_id: str) -> None:
        self._journal, self._topology, self._pair, self._id = journal, topology, pair, procedure_id

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry, under the procedure while it is open, else under the watcher's name."""
        lease = self._journal.lease(self._pair)
        is_open = (
            lease is not None
            and (lease.holder, lease.released_at) == (self._id, None)
            and self._journal.last(self._id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is None
        )
        writer, epoch = (self._id, lease.epoch) if lease is not None and is_open else (STEP, 0)
        self._journal.append(writer, step, kind, epoch, {**payload, "procedure_id": self._id})

    def hold(self) -> None:
        """Refuse once the source was given back, opened to clients or taken over; a fence in place does not refuse."""
        now = self._watch()
        if now is None or now.state in (Watch.DISARMED, Watch.REOPENED):
            raise LeaseLost(
                "The old source is not to be fenced any more",
                now.state.value if now else "never armed",
                "Nothing: whoever took it over goes on.",
            )

    def may_undo(self) -> bool:
        """Tell whether clients were let onto the source again, and no one who may own the fence took the pair since."""
        now = self._watch()
        if now is None or now.state is not Watch.REOPENED or now.reopened_by is None:
            return False
        opened = opened_by(self._journal, now.reopened_by)
        if opened is None:
            return False
        lease = self._journal.lease(self._topology.pair_key(opened.source, opened.target))
        return lease is not None and lease.holder == now.reopened_by

    def _watch(self) -> Watched | None:
        return watch_over(self._journal, self._id)


def watch_over(journal: Journal, procedure_id: str) -> Watched | None:
    """How far the watch over a procedure's source is, by the journal now."""
    return watched(telling_entries(journal)).get(procedure_id)


class MoveAuthority(ArmedFenceAuthority):
    """The authority of the watcher over a pair of flows: the last change of sides, while it is the last.

    Args:
        move: what the journal said when this was made; None where it knows of no change of sides.
    """

    def __init__(self, journal: Journal, topology: Topology, pair: str, procedure_id: str, move: Move | None) -> None:
        super().__init__(journal, topology, pair, procedure_id)
        self._move = move

    def hold(self) -> None:
        """Refuse once clients were moved again: another flow must stand then."""
        if last_move(self._journal, self._pair.split("+")) != self._move:
            raise LeaseLost(
                "Clients were moved meanwhile",
                "another procedure opened its target, or this one was taken back",
                "Nothing: the next look goes by that.",
            )

    def may_undo(self) -> bool:
        """Never: what was stopped copied in a circle."""
        return False


def last_move(journal: Journal, clusters: Iterable[str]) -> Move | None:
    """The change of sides of a pair that the journal tells of last."""
    return last_moves(moving_entries(journal)).get(frozenset(clusters))


def moved_run(journal: Journal, flow: Flow, topology: Topology, connections: Any) -> tuple[Run, Move | None]:
    """The run that last changed sides, to act against circling flows, and its move; never moved: along `flow`."""
    move = last_move(journal, (flow.source, flow.target))
    opened = opened_by(journal, move.procedure_id) if move else None
    identity = Identity(opened.dag_id, opened.run_id) if opened else Identity(STEP, "flows")
    source, target = (move.source, move.target) if move else (flow.source, flow.target)
    request = Request(source=source, target=target, reason="no two flows may copy in a circle")
    pair = topology.pair_key(source, target)
    authority = MoveAuthority(journal, topology, pair, identity.procedure_id, move)
    return Run(identity, request, journal, connections.systems(request, topology), authority), move


def moving_entries(journal: Journal) -> list[JournalEntry]:
    """Entries that say which way clients were moved, in order; of all procedures."""
    return sorted((entry for step in MOVING for entry in journal.entries(step=step)), key=lambda entry: entry.sequence)


def circles(topology: Any) -> list[Flow]:
    """A flow of each pair that would copy in a circle with its reverse: only default naming protects from that."""
    if topology.naming.policy == "default":
        return []
    return [
        flow
        for flow in topology.flows
        if flow.source < flow.target and topology.find_flow(flow.target, flow.source) is not None
    ]


def stop_if_both_run(procedure: Run, move: Move | None) -> str:
    """One look at a pair of flows; says what was seen or done, nothing where they do not run against each other.

    Raises:
        SwitchbackError: both run, and the one that must stand could not be stopped yet; the next look goes on.
    """
    flow, reverse = procedure.flow, procedure.reverse_flow
    # The first again after the second: a procedure may just have stopped the one to start the other.
    if reverse is None or not all(copies(procedure, one) for one in (flow, reverse, flow)):
        return ""
    named = (
        f"{flow.source}->{flow.target} and {reverse.source}->{reverse.target} both run: they copy records in a circle"
    )
    if move is None:
        return f"{named}. The journal knows of no failover: stop the flow that does not come from where clients are"
    procedure.authority.hold()
    seen_at = procedure.now()
    states = stop_flow(procedure, STEP, flow, _ASK_SECONDS, _STOP_SECONDS)
    seen = {"stopped": states, "flow": f"{flow.source}->{flow.target}", "seen_at": seen_at}
    record(procedure.authority, STEP, LoopStopped(both_flows_run=seen))
    return " ".join(
        [
            f"{named}. Clients were moved to {flow.target} by {procedure.id}: {flow.source}->{flow.target} was stopped",
            *_left(states),
        ]
    )


def copies(procedure: Run, flow: Flow) -> bool:
    """Whether anything of a flow may copy records now."""
    hook = procedure.systems.stop_hook(flow)
    if hook is not None:
        return hook.running(f"{flow.source}->{flow.target}", timeout=_ASK_SECONDS) > 0
    worker, name = procedure.systems.connect_worker(flow), flow.connectors.source
    if name not in worker.connectors(timeout=_ASK_SECONDS):
        return False
    status = worker.status(name, timeout=_ASK_SECONDS)
    return not (status.stopped or status.state == "PAUSED")


def fence_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """One look at an armed source; says what was seen or done.

    Raises:
        SwitchbackError: it answers and could not be fenced yet; the next look goes on.
    """
    answers = source_answers(procedure, _ASK_SECONDS)
    if answers and fence.answers_since is None:
        record(procedure.authority, STEP, OldSourceAnswers(answers_since=procedure.now()))
    with side_by_side() as start:
        # Beside the fence: a worker that is slow, or away, must not leave clients writing.
        stopping = start(stop_replication, procedure, answers)
        if not answers:
            return " ".join([f"{fence.source} does not answer", *_left(stopping.result())])
        seen = start(_ends_if_known, procedure, fence.topics)
        made, topics = fence_old_source(procedure, STEP, fence.topics)
        fenced_at = procedure.now()
        if not made.authorizer:
            raise FenceNotProven(
                "The old source answers and has no authorizer",
                "nothing but an ACL can fence it from here",
                "Keep clients from it by other means, or disarm it with a failback.",
            )
        since = _answers_since(procedure, fence) or fenced_at
        accepted, first, states = accepted_since(procedure, topics), seen.result(), stopping.result()
    ends = None if first is None else procedure.artifacts.save("ends_when_seen", partitions_frame(first, "offset"))
    done = OldSourceFenced(
        source=fence.source,
        fenced=BY_ACL,
        fenced_at=fenced_at,
        answers_since=since,
        # In which it may have accepted writes beside the new source.
        window_seconds=round((datetime.fromisoformat(fenced_at) - datetime.fromisoformat(since)).total_seconds(), 3),
        acl_entries_added=made.added,
        brokers_refusing=made.refusing,
        ends_when_seen=ends,
        mirror_maker=states,
        mirror_maker_stopped=not _left(states),
        **vars(accepted),
    )
    record(procedure.authority, STEP, done)
    if not _left(states):
        tell_producers(procedure)
    return " ".join(
        [
            (
                f"{fence.source} is fenced; it answered since {since}, and accepted at most"
                f" {done.records_at_most} records on {done.partitions_written} partitions"
            ),
            *_left(states),
        ]
    )


def stop_if_it_answers(procedure: Run, fence: ArmedFence) -> str:
    """One look at the MirrorMaker 2 of a source that is fenced: its worker may come back later than the brokers."""
    states = stop_replication(procedure, True)
    if not _left(states):
        stopped = OldMirrorMakerStopped(source=fence.source, mirror_maker=states, mirror_maker_stopped=True)
        record(procedure.authority, STEP, stopped)
        tell_producers(procedure)
    return " ".join([f"{fence.source} is fenced", *_left(states)])


def tell_producers(procedure: Run) -> None:
    """Note who wrote meanwhile, as brokers know; last, as it takes seconds, and the fence and the list come first."""
    every = all_of(procedure.journal.entries(step=STEP, kind=Entry.OUTCOME), OldSourceFenced)
    done = [fact for fact in every if fact.procedure_id == procedure.id]
    producers = producers_since(procedure, done[-1].accepted) if done else None
    if producers is not None:
        record(procedure.authority, STEP, producers)


def stop_replication(procedure: Run, answers: bool) -> dict[str, str]:
    """Stop flows from or to the old source; states by connector or flow, with the reason where one is not stopped.

    Args:
        answers: whether the source answers; before, the flow from it is stopped only if the procedure has begun to stop
            it.
    """
    states: dict[str, str] = {}
    for flow in (
        _flows(procedure) if answers else [procedure.flow] if procedure.progress.began(Step.STOP_MIRROR_MAKER) else []
    ):
        try:
            # A dead source keeps its connectors for a minute: whoever waited for that would miss its first answer.
            states |= stop_flow(
                procedure, STEP, flow, _ASK_SECONDS, _STOP_SECONDS if answers else 0.0, trusted=not answers
            )
        except SwitchbackError as error:
            states[f"{flow.source}->{flow.target}"] = str(error)
    return states


def _flows(procedure: Run) -> list[Flow]:
    """The flow from the old source, and the one to it, unless names protect against loops: that one does no harm."""
    reverse = procedure.reverse_flow
    return (
        [procedure.flow]
        if reverse is None or procedure.topology.naming.policy == "default"
        else [procedure.flow, reverse]
    )


def _left(states: Mapping[str, str]) -> list[str]:
    return [f"({name}: {state})" for name, state in states.items() if state != STOPPED]


def _answers_since(procedure: Run, fence: ArmedFence) -> str | None:
    """When the watcher saw the source answer first, by the journal now."""
    now = watch_over(procedure.journal, procedure.id)
    return now.fence.answers_since if now and now.fence.answers_since else fence.answers_since


def _ends_if_known(procedure: Run, topics: Iterable[str]) -> dict[TopicPartition, int] | None:
    """Ends as the fence is begun; None where the source does not say in time."""
    try:
        return log_ends(procedure, topics, _ENDS_SECONDS)
    except KafkaUnavailable:
        return None


def disarm(procedure: Run, alias: str, reason: str) -> tuple[ArmedFence, ...]:
    """End every watch over a cluster that a procedure has fenced itself; returns what was disarmed.

    What the watcher added stays: it is part of that fence by now.
    """
    entries = telling_entries(procedure.journal)
    ended = tuple(fence for fence in (*armed_fences(entries), *unstopped(entries)) if fence.source == alias)
    for fence in ended:
        disarmed = FenceDisarmed(disarms_fence=fence.procedure_id, source=alias, reason=reason)
        record(procedure.authority, STEP, disarmed)
    return ended
