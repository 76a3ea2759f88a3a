"""Watches old sources that could not be fenced: fences each once it answers, and lists its accepted writes.

An old source is the cluster that clients left in an unplanned failover. A look checks all old sources once. The watcher
also guards the last move of each pair of clusters against whoever undoes it (`move_guard`).

Invariants
1. Looks end in the same state however often they are repeated, and with any number of watchers at once.
2. Every act has an intent in the journal first; a watch ends only once its fence was proven and read back.
3. A source that was reopened to clients is not fenced; a fence that came too late is lifted again.
4. Of two flows that copy in a circle, the flow in whose direction clients moved last is stopped; without a client move
   in the journal neither flow is stopped.
5. What somebody undoes of the last move is done again once in ten minutes; then the move is contested.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from copy import copy
from functools import cache, partial
from typing import Any

from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.concurrently import run_in_background
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.config.topology import Flow
from kafka_dr.connections import Connections
from kafka_dr.domain.fencing.armed_fence import ArmedFence, armed_fences, unstopped_sources
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.binding import bound_to
from kafka_dr.procedure.entries import ProcedureOpened, facts_of
from kafka_dr.procedure.progress import NotYet, WaitLonger
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.watcher.authority import STEP, ArmedFenceAuthority
from kafka_dr.watcher.duties import fence_if_it_answers, stop_if_it_answers
from kafka_dr.watcher.markers import MarkerKeeper, markers_of
from kafka_dr.watcher.move_guard import MoveGuard
from kafka_dr.watcher.moves import guarded_flows, moved_run
from kafka_dr.watcher.notices import Deliver, watch_notices

_LOOK_SECONDS = 1.0
#: Shortest interval, in seconds, of looks at the last move of each pair: two flows that copy in a circle double the
#: records about once a second. A look that takes long is repeated less often.
_FLOWS_SECONDS, _SHARE_OF_TIME = 1.0, 0.1
#: Interval, in seconds, of looks at the markers; the first look comes as long after the start.
_MARKERS_SECONDS = 5.0
#: Interval, in seconds, at which the watcher writes its heartbeat to the journal's database.
_SIGN_SECONDS = 5.0
#: Interval, in seconds, at which topology and connections are read again.
_REFRESH_SECONDS = 60.0


def watch_sources(tell: Callable[[str], object], deliver: Deliver) -> None:
    """Check all old sources once a second, without end, and send due notices in a thread of their own.

    Args:
        tell: called with a line for people when a result changes.
        deliver: sends one notice.
    """
    watcher = Watcher(tell)
    run_in_background(partial(watch_notices, tell, deliver))
    while True:
        began = time.monotonic()
        watcher.look()
        time.sleep(max(0.0, _LOOK_SECONDS - (time.monotonic() - began)))


class Watcher:
    """Checks old sources, and flows that copy in a circle; journal and topology alone state which to check."""

    def __init__(
        self,
        tell: Callable[[str], object],
        connections: Callable[[], Any] = Connections,
        patience: float = _LOOK_SECONDS,
    ) -> None:
        """Store the arguments; nothing is read yet.

        Args:
            tell: called with a line for people whenever a result differs from the last one.
            connections: creates the reader of Airflow's connections.
            patience: maximum seconds for which `look` waits for its checks; slower checks continue in the background.
        """
        self._tell, self._connections, self._patience = tell, connections, patience
        self._last_lines: dict[str, str] = {}
        self._begun: dict[str, Future[None]] = {}
        self._read_at: float | None = None
        self._sign_due = self._flows_due = 0.0
        self._markers_due = time.monotonic() + _MARKERS_SECONDS
        self._guard, self._keeper = MoveGuard(), MarkerKeeper()

    def look(self) -> None:
        """Check every watched source once, each on its own thread, and the flows that may copy in a circle.

        A check that takes longer than the constructor's `patience` continues in the background.
        """
        self._report("watching", self._check_all)

    def _check_all(self) -> str:
        self._refresh()
        entries = telling_entries(self._journal)
        duties = [(fence, fence_if_it_answers) for fence in armed_fences(entries)]
        duties += [(fence, stop_if_it_answers) for fence in unstopped_sources(entries)]
        self._begun = {about: check for about, check in self._begun.items() if not check.done()}
        for fence, duty in duties:
            # A source whose last check is still running is skipped until that check has ended.
            self._start(fence.procedure_id, partial(self._attend, fence, duty, entries))
        self._check_flows()
        self._check_markers()
        wait(self._begun.values(), self._patience)
        self._show_life()
        return f"{len(duties)} old sources are watched"

    def _start(self, about: str, check: Callable[[], str]) -> None:
        if about not in self._begun:
            self._begun[about] = run_in_background(partial(self._report, about, check))

    def _check_flows(self) -> None:
        """Start a look at the last move of each pair of clusters; do nothing until the look is due."""
        if time.monotonic() < self._flows_due:
            return
        self._flows_due = time.monotonic() + _FLOWS_SECONDS
        for flow in guarded_flows(self._topology):
            self._start(f"{flow.source} and {flow.target}", partial(self._check_pair, flow))

    def _check_pair(self, flow: Flow) -> str:
        began = time.monotonic()
        procedure, move = moved_run(self._journal, flow, self._topology, self._cached_connections)
        try:
            return self._guard.look(procedure, move)
        except SystemUnavailable:
            # An unreachable worker hides whether its flow copies; the next check asks again.
            return ""
        finally:
            procedure.close()
            took = time.monotonic() - began
            self._flows_due = max(self._flows_due, min(began + took / _SHARE_OF_TIME, began + took + 5.0))

    def _check_markers(self) -> None:
        """Start a look at each marker; do nothing until the look is due."""
        if time.monotonic() < self._markers_due:
            return
        self._markers_due = time.monotonic() + _MARKERS_SECONDS
        for marker in markers_of(self._topology, self._cached_connections):
            check = partial(self._keeper.keep, self._journal, marker, self._topology.reconcile_seconds)
            self._start(marker.place, check)

    def _show_life(self) -> None:
        """Write the watcher's heartbeat, which a step requires before the step relies on an armed fence."""
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
        systems = bound_to(opened, self._cached_connections).systems(request, self._topology)
        procedure = Run(identity, request, self._journal, systems, authority)
        try:
            return duty(procedure, fence)
        finally:
            procedure.close()

    def _report(self, about: str, check: Callable[[], str]) -> None:
        """Run a check; call `tell` with its result or error, unless it is empty or the same as last time.

        Args:
            about: what is checked, such as a procedure id or the names of two clusters; begins the line.
            check: returns its result as a line of text.
        """
        try:
            line = check()
        except (SwitchbackError, NotYet, WaitLonger) as error:
            line = str(error)
        except Exception as error:  # noqa: BLE001
            # A defect concerning one source must not keep other sources from being fenced.
            line = f"{type(error).__name__}: {one_line(error)}"
        if line != self._last_lines.get(about, ""):
            self._last_lines[about] = line
            if line:
                self._tell(f"{about}: {line}")

    def _refresh(self) -> None:
        """Read topology and connections again once a minute; if that fails, the values read before stay in use."""
        if self._read_at is not None and time.monotonic() < self._read_at + _REFRESH_SECONDS:
            return
        try:
            topology, cached = load_topology(), with_cached_connections(self._connections())
            self._journal = Journal(cached.journal_url(topology.journal.connection))
            self._topology, self._cached_connections = topology, cached
        except Exception:
            if self._read_at is None:
                raise
        self._read_at = time.monotonic()


def with_cached_connections(connections: Connections) -> Connections:
    """Return a copy of the reader of Airflow's connections that asks Airflow for each connection only once."""
    cached = copy(connections)
    vars(cached).update({name: cache(getattr(connections, name)) for name in ("kafka", "login", "journal_url")})
    return cached
