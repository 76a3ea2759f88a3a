"""Sends the notices that are due, each at most once on each route, whoever looks and however often.

Invariants
1. A notice is claimed in the journal's database before it is sent; whoever did not claim it does not send it.
2. A notice whose sending is unknown is not sent again, and is named in the log.
3. No other work waits for a server of notices: each route has its own thread, and each notice a limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from kafka_dr.actions.readiness.document import document_path, read_document
from kafka_dr.concurrently import run_in_background
from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.notices.notice import Event, Notice, Severity
from kafka_dr.domain.notices.procedure_notices import procedure_notices
from kafka_dr.domain.notices.service_notices import (
    RECORDER,
    WATCHER,
    MonitoredService,
    SeenReadiness,
    find_silences,
    readiness_notices,
    see_readiness,
)
from kafka_dr.domain.plain_text import parse_moment
from kafka_dr.domain.silence import recorder_limit
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeRecord, NoticeState
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.entries import subject_of
from kafka_dr.recorder.journal_notes import name_in_journal

#: Interval, in seconds, of looks at the journal.
LOOK_SECONDS = 1.0
#: Interval, in seconds, at which topology and connections are read again.
_REFRESH_SECONDS = 60.0
#: How long one notice may take, in seconds; its server then delays the route's next notice no longer.
SEND_SECONDS = 30.0
#: A claim of this age, in seconds, belongs to a process that has ended.
_LOST_SECONDS = 3 * SEND_SECONDS
#: Pause, in seconds, before a notice that was not sent is tried again: twice as long each time, up to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
#: How long after its event a notice is still sent; and how far back entries are read, as deadlines last a week at most.
_TOLD_WITHIN, _READ_BACK = timedelta(days=1), timedelta(days=8)
_READ_ANEW = timedelta(hours=1)
#: In the table of notices, the row with the time from which on a route gets notices.
_ROUTE_BEGAN = "route began"
#: Short-lived processes that look for due notices: their common sign of life, the longest time between two of them that
#: count as one watch, and how long one of them begins to send notices, in seconds.
_LOOKS, _LOOKS_APART, _BEGIN_SECONDS = "short looks for notices", timedelta(minutes=15), 20.0


@dataclass(frozen=True)
class Delivery:
    """What became of a notice: SENT, NOT_SENT (refused by the server), WAITING (nothing reached it) or UNKNOWN."""

    state: NoticeState
    detail: str = ""


#: Sends a notice on a route, at the journal's time; returns within a few times its own timeouts, and never raises.
Deliver = Callable[[NotificationRoute, Notice, datetime], Delivery]


def watch_notices(
    tell: Callable[[str], object],
    deliver: Deliver,
    interval: float = LOOK_SECONDS,
    show_life: Callable[[Journal], object] = lambda _journal: None,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Send due notices until `ended`; call `tell` with a line for people when something is not sent.

    Args:
        interval: seconds between two looks.
        show_life: called with the journal at each look; not called while the topology has no route.
    """
    sender, last_line = NoticeSender(tell, deliver), ""
    settings = _RoutesNow()
    while not ended():
        try:
            line = ""
            topology, journal = settings.read()
            if journal is not None:
                show_life(journal)
                sender.look(journal, topology)
        except SwitchbackError as error:
            line = str(error)
        except Exception as error:  # noqa: BLE001 (a defect must not end the sending of later notices)
            line = f"{type(error).__name__}: {one_line(error)}"
        if line and line != last_line:
            tell(f"notices: {line}")
        last_line = line
        time.sleep(interval)


def send_due_notices(tell: Callable[[str], object], deliver: Deliver) -> None:
    """Send what is due now, for a process that ends soon: within about a minute, whatever the servers do.

    Args:
        tell: called with a line for people when a notice is not sent.

    Raises:
        SwitchbackError: topology or journal cannot be read.
    """
    topology = load_topology()
    if not topology.notifications:
        return
    journal = Journal(Connections().journal_url(topology.journal.connection))
    sender = NoticeSender(tell, deliver, since=_looking_since(journal), ends=time.monotonic() + _BEGIN_SECONDS)
    sender.look(journal, topology)
    sender.wait()


def _looking_since(journal: Journal) -> datetime:
    """Return since when short-lived processes have looked again and again, and note that one looks now."""
    now, last, since = journal.now(), journal.last_sign(_LOOKS), parse_moment(journal.last_detail(_LOOKS))
    begun = now if last is None or since is None or now - last > _LOOKS_APART else since
    journal.show_life(_LOOKS, begun.isoformat())
    return begun


class _RoutesNow:
    """Topology and journal, read again once a minute; if that fails, those that were read before stay in use."""

    def __init__(self) -> None:
        self._read: tuple[Topology, Journal | None] | None = None
        self._due = 0.0

    def read(self) -> tuple[Topology, Journal | None]:
        """Return topology and journal; None for the journal if the topology has no route."""
        if self._read is None or time.monotonic() >= self._due:
            try:
                topology = load_topology()
                named = topology.journal.connection
                self._read = topology, Journal(Connections().journal_url(named)) if topology.notifications else None
            except Exception:
                if self._read is None:
                    raise
            self._due = time.monotonic() + _REFRESH_SECONDS
        return self._read


class NoticeSender:
    """Finds the notices that are due, and sends them on the topology's routes, each route on its own thread."""

    def __init__(
        self,
        tell: Callable[[str], object],
        deliver: Deliver,
        send_seconds: float = SEND_SECONDS,
        since: datetime | None = None,
        ends: float = math.inf,
    ) -> None:
        """Store the arguments; nothing is read yet.

        Args:
            tell: called with a line for people when a notice is not sent.
            deliver: sends one notice.
            send_seconds: how long one notice may take.
            since: since when somebody looks for signs of life; None: since the first look.
            ends: by the monotonic clock, when no further notice is begun.
        """
        self._tell, self._deliver, self._send_seconds, self._ends = tell, deliver, send_seconds, ends
        self._board = Board(since)
        self._began: dict[str, datetime] = {}
        self._jobs: dict[str, Future[None]] = {}

    def look(self, journal: Journal, topology: Topology) -> None:
        """Find what is due now, and begin to send it; do nothing without a route."""
        if not topology.notifications:
            return
        now = journal.now()
        due = [notice for notice in self._board.due(journal, topology, now) if notice.at >= now - _TOLD_WITHIN]
        self._name_lost_claims(journal, now)
        known = {(record.notice, record.route): record for record in journal.notices([notice.id for notice in due])}
        wanted: dict[str, tuple[NotificationRoute, dict[str, Notice]]] = {}
        for route in topology.notifications:
            began = self._began_at(journal, route.key)
            chosen = wanted.setdefault(route.key, (route, {}))[1]
            for notice in due:
                if notice.at >= began and _takes(route, notice) and _is_open(known.get((notice.id, route.key)), now):
                    chosen[notice.id] = notice
        for key, (route, notices) in wanted.items():
            ordered = sorted(notices.values(), key=lambda notice: (-notice.severity, notice.at))
            self._start(key, partial(self._send_all, journal, route, ordered))

    def wait(self) -> None:
        """Wait until all that was begun has ended."""
        for job in list(self._jobs.values()):
            job.exception()

    def _start(self, key: str, job: Callable[[], None]) -> None:
        """Start a route's job, unless its last one still runs."""
        running = self._jobs.get(key)
        if running is not None:
            if not running.done():
                return
            if (error := running.exception()) is not None:
                self._tell(f"notices: {one_line(error)}")
        self._jobs[key] = run_in_background(job)

    def _send_all(self, journal: Journal, route: NotificationRoute, notices: Iterable[Notice]) -> None:
        for notice in notices:
            if time.monotonic() < self._ends and journal.claim_notice(notice.id, route.key):
                delivery = self._send(route, notice, journal.now())
                journal.settle_notice(notice.id, route.key, delivery.state, delivery.detail[:500] or None)
                if delivery.state is not NoticeState.SENT:
                    self._tell(f"notice {notice.id}: {_said(delivery.state)} ({route}): {delivery.detail}")

    def _send(self, route: NotificationRoute, notice: Notice, now: datetime) -> Delivery:
        """Send one notice; after the limit its thread is left alone, and whether it was sent is unknown."""
        try:
            return run_in_background(partial(self._deliver, route, notice, now)).result(self._send_seconds)
        except NotInTime:
            return Delivery(NoticeState.UNKNOWN, f"the server did not answer within {self._send_seconds:g} s")
        except Exception as error:  # noqa: BLE001 (any error of a provider is a notice that may have been sent)
            return Delivery(NoticeState.UNKNOWN, type(error).__name__)

    def _name_lost_claims(self, journal: Journal, now: datetime) -> None:
        """Settle claims whose process ended between claim and outcome: their notices are not sent again."""
        for record in journal.notices(state=NoticeState.CLAIMED):
            if (now - record.at).total_seconds() > _LOST_SECONDS:
                detail = "its process ended before it wrote what became of the notice"
                journal.settle_notice(record.notice, record.route, NoticeState.UNKNOWN, detail)
                self._tell(f"notice {record.notice}: {_said(NoticeState.UNKNOWN)} ({record.route}): {detail}")

    def _began_at(self, journal: Journal, key: str) -> datetime:
        """Return since when a route gets notices; events from before the route was in the topology are left out."""
        if key not in self._began:
            journal.claim_notice(_ROUTE_BEGAN, key, state=NoticeState.BEGUN)
            self._began |= {record.route: record.at for record in journal.notices([_ROUTE_BEGAN])}
        return self._began[key]


class Board:
    """Keeps what was read of the journal, so that a look reads only what is new, and finds what is due by it.

    Once an hour everything is read anew, so that procedures of weeks ago are forgotten.
    """

    def __init__(self, since: datetime | None = None) -> None:
        """Store since when somebody looks for signs of life; None: since the first look."""
        self._entries: dict[str, dict[int, JournalEntry]] = {}
        self._read_to = 0
        self._since = since
        self._whole_read: datetime | None = None

    def due(self, journal: Journal, topology: Topology, now: datetime) -> list[Notice]:
        """Return all notices that are due, whether or not they were sent."""
        self._since = self._since or now
        self._read(journal, now)
        found = [
            notice
            for procedure_id, entries in self._entries.items()
            for notice in procedure_notices(procedure_id, [entries[n] for n in sorted(entries)], now)
        ]
        found += find_silences(monitored_services(journal, topology), self._since, now)
        for flow in topology.flows:
            document = read_document(
                document_path(topology.evidence, flow.source, flow.target), Connections().files(topology)
            )
            if document is not None:
                found += self._readiness(journal, f"{flow.source}->{flow.target}", document, now)
        return found

    def _read(self, journal: Journal, now: datetime) -> None:
        since = None
        if self._whole_read is None or now - self._whole_read >= _READ_ANEW:
            self._entries, self._read_to, self._whole_read, since = {}, 0, now, now - _READ_BACK
        for entry in journal.entries_after(self._read_to, since):
            self._entries.setdefault(subject_of(entry), {})[entry.sequence] = entry
            self._read_to = max(self._read_to, entry.sequence)

    def _readiness(self, journal: Journal, flow: str, document: Mapping[str, Any], now: datetime) -> list[Notice]:
        """Return the notices about a flow's readiness, and remember its state for all who look."""
        name = f"readiness {flow}"[:100]
        before = SeenReadiness.from_text(journal.last_detail(name))
        seen = see_readiness(before, document, now)
        if seen != before:
            journal.show_life(name, seen.as_text())
        return readiness_notices(flow, seen, document, now)


def monitored_services(journal: Journal, topology: Topology) -> list[MonitoredService]:
    """Return watcher and recorder with their last signs of life.

    A recorder that signs shows the life of each flow with its samples; of another one only its process is seen.
    """
    services = [MonitoredService(WATCHER, Event.WATCHER_SILENT, journal.last_sign(WATCHER))]
    if topology.recorder is None:
        return services
    flows = [f"{flow.source}->{flow.target}" for flow in topology.flows] if topology.recorder.public_keys else [""]
    limit = recorder_limit(topology.recorder.interval_seconds)
    for flow in flows:
        name = name_in_journal(flow) if flow else RECORDER
        services.append(MonitoredService(name, Event.RECORDER_SILENT, journal.last_sign(name), flow, limit))
    return services


def _takes(route: NotificationRoute, notice: Notice) -> bool:
    """Whether a route gets a notice; a notice of all flows goes to every route."""
    chosen = not route.flows or not notice.flow or notice.flow in route.flows
    return chosen and notice.severity >= Severity[route.least_severity.upper()]


def _is_open(record: NoticeRecord | None, now: datetime) -> bool:
    """Whether a notice is still to be sent on a route: it was never claimed, or is to be tried again now."""
    if record is None:
        return True
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (record.tries - 1))
    return record.state is NoticeState.WAITING and now >= record.at + timedelta(seconds=pause)


def _said(state: NoticeState) -> str:
    return {
        NoticeState.WAITING: "not sent, and tried again later",
        NoticeState.NOT_SENT: "refused by the server, and not sent again",
    }.get(state, "whether it was sent is unknown, and it is not sent again")
