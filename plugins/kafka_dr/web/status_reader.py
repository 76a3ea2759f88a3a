"""Reads topology, journal and evidence for the web pages; never connects to Kafka.

Nothing is written but copies of the store's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from html import escape
from pathlib import Path

from kafka_dr.actions.loss.pairs import procedure_id_of
from kafka_dr.config.settings import Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.evidence.live_status import ProcedureStatus, live_status
from kafka_dr.domain.fencing.guarded_move import contested_text
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import Line, PairsStarted, entries_about, newest_fact
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web.sources import journal_of, topology_now

_ID = re.compile(r"[A-Za-z0-9._-]{1,300}")
PAGE, DATA = "evidence.html", "evidence.json"
_BODY = re.compile("<body[^>]*>")


class StatusReader:
    """Reads procedures' states from the journal, and finds their evidence pages.

    Args:
        may_read: returns whether the person may read the runs of a DAG; other DAGs' procedures are left out.
    """

    def __init__(self, topology: Topology, journal: Journal, may_read: Callable[[str], bool]) -> None:
        self._topology, self._journal, self._may_read = topology, journal, may_read

    @classmethod
    def now(cls, may_read: Callable[[str], bool]) -> StatusReader:
        """Return a reader for the topology file that the environment's KAFKA_DR_TOPOLOGY names, read now."""
        topology = topology_now()
        return cls(topology, journal_of(topology), may_read)

    def journal_time(self) -> datetime:
        """Return the journal's time, by which a procedure's deadlines are counted down."""
        return self._journal.now()

    def procedure(self, procedure_id: str, now: datetime) -> ProcedureStatus | None:
        """Return one procedure's status; None if it was never opened, or the person may not read it."""
        lines = self._journal.entries(procedure_id)
        status = live_status(procedure_id, lines, now)
        if status is None or not status.dag_id or not self._may_read(status.dag_id):
            return None
        # After the end of a procedure the watcher writes under its own name.
        later = self._journal.entries(Step.WATCH_OLD_SOURCE, kind=Entry.NOTE)
        contested = contested_text([*lines, *entries_about(later, procedure_id)], status.target)
        return replace(status, contested=contested or "", pairs=tuple(self._pairs(lines, now)))

    def _pairs(self, lines: Sequence[Line], now: datetime) -> Iterator[tuple[str, str, str]]:
        """Yield for each run that lost_cluster started: where clients go, its id, and its outcome or present step."""
        started = newest_fact(lines, PairsStarted)
        for pair in started.pairs if started else ():
            name = procedure_id_of(pair)
            status = live_status(name, self._journal.entries(name), now)
            steps = [f"{step.id}: {step.state}" for step in status.steps if step.began] if status else []
            yield pair.target, name, (status and status.outcome) or (steps[-1] if steps else "not begun")

    def evidence_page(self, procedure_id: str) -> str | None:
        """Return a procedure's evidence page; None without such a file, or if the person may not read it.

        The file is fetched from the store, if the topology names one, into the evidence folder of the machine that
        serves this page. While the store is away, the page begins with the age of this machine's copy.
        """
        if not _ID.fullmatch(procedure_id) or set(procedure_id) == {"."}:
            return None
        folder = Path(self._topology.evidence) / procedure_id
        files = Connections().files(self._topology)
        old = next(filter(None, [files.refresh(folder / DATA), files.refresh(folder / PAGE)]), "")
        try:
            dag_id = read_json((folder / DATA).read_text(encoding="utf-8"))["dag_id"]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        if not self._may_read(str(dag_id)) or not (folder / PAGE).is_file():
            return None
        page = (folder / PAGE).read_text(encoding="utf-8")
        return _BODY.sub(lambda body: f'{body[0]}\n<p role="alert">{escape(old)}</p>', page, count=1) if old else page

    def has_evidence(self, procedure_id: str) -> bool:
        """Whether a procedure has an evidence page, in this machine's evidence folder or in the store."""
        page = Path(self._topology.evidence) / procedure_id / PAGE
        if not page.is_file():
            Connections().files(self._topology).refresh(page)
        return page.is_file()
