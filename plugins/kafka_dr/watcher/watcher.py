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
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from copy import copy
from functools import cache, partial
from typing import Any

from kafka_dr.actions.concurrently import run_in_background
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.config.topology import Flow
from kafka_dr.connections import Connections
from kafka_dr.domain.fencing.armed_fence import (
    ArmedFence,
    armed_fences,
    unstopped_sources,
)
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.entries import (
    ProcedureOpened,
    facts_of,
)
from kafka_dr.procedure.progress import NotYet, WaitLonger
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.watcher.authority import STEP, ArmedFenceAuthority
from kafka_dr.watcher.duties import fence_if_it_answers, stop_if_it_answers
from kafka_dr.watcher.loop_guard import circling_flows, moved_run, stop_if_both_run

_LOOK_SECONDS = 1.0
#: Flows that may not run against each other are looked at this often: a circle doubles its records about once a second.
_FLOWS_SECONDS = 2.0
#: The watcher shows that it lives this often.
_SIGN_SECONDS = 5.0
#: Topology and connections are read anew this often.
_REFRESH_SECONDS = 60.0


def watch_sources(tell: Callable[[str], object]) -> None:
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
        duties += [(fence, stop_if_it_answers) for fence in unstopped_sources(entries)]
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
            self._begun[about] = run_in_background(partial(self._say, about, work))

    def _look_at_flows(self) -> None:
        """Every pair of flows that would copy the same topics back and forth."""
        if time.monotonic() < self._flows_due:
            return
        self._flows_due = time.monotonic() + _FLOWS_SECONDS
        for flow in circling_flows(self._topology):
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
            topology, remembered = load_topology(), with_cached_connections(self._connections())
            self._journal = Journal(remembered.journal_url(topology.journal.connection))
            self._topology, self._remembered = topology, remembered
        except Exception:
            if self._read_at is None:
                raise
        self._read_at = time.monotonic()


def with_cached_connections(connections: Connections) -> Connections:
    """The same connections, each asked for once."""
    made = copy(connections)
    vars(made).update({name: cache(getattr(connections, name)) for name in ("kafka", "login", "journal_url")})
    return made
