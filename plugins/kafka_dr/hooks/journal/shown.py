"""A journal to show, not to act by: what was read of it is kept until somebody writes an entry or takes a lease.

Entries are read and parsed once, whoever looks: when there are new ones, only these are read. A plan of an older
version, or a list of ten thousand groups, would else be parsed at each entry that a running procedure writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import func, select

from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import ENTRIES, LEASES, JournalEntry

_T = TypeVar("_T")
#: Number of answers that are kept; then all are read anew.
_MOST = 500
#: Begins the key of an answer that is a list of entries.
_ENTRIES = "entries"


class ShownJournal(Journal):
    """Keeps the answers about entries, which are only ever appended; leases and signs of life are always read."""

    def __init__(self, url: str) -> None:
        """Open the journal as `Journal` does."""
        super().__init__(url)
        self._version: Any = None
        self._kept: dict[Any, Any] = {}
        self._newest: JournalEntry | None = None

    def look_again(self) -> None:
        """Bring what is kept up to date if an entry or a lease was added since; called before each page."""
        newest = select(
            select(func.max(ENTRIES.c.sequence)).scalar_subquery(),
            select(func.count()).select_from(LEASES).scalar_subquery(),
        )
        version = tuple(self._read(newest)[0])
        if version != self._version or len(self._kept) > _MOST:
            self._version, self._kept = version, self._continued() if len(self._kept) <= _MOST else {}

    def _continued(self) -> dict[Any, Any]:
        """Return the kept lists of entries, with the entries since.

        None is kept if the newest entry that was known is not in the journal as it was: each entry has the hash of the
        one before, so this journal is then another one.
        """
        known = self._newest
        since = self.entries_after(known.sequence - 1) if known else self._last_one()
        self._newest = since[-1] if since else None
        if known is None or not since or since[0].hash != known.hash:
            return {}
        return {
            (kind, *asked): [*answer, *_newer(answer, [entry for entry in since if _is_asked(entry, *asked)])]
            for (kind, *asked), answer in self._kept.items()
            if kind == _ENTRIES
        }

    def _last_one(self) -> list[JournalEntry]:
        """Return the newest entry, [] of an empty journal."""
        newest = self._read(select(func.max(ENTRIES.c.sequence)))[0][0]
        return [] if newest is None else self.entries_after(newest - 1)

    def entries(
        self, procedure_id: str | None = None, step: str | None = None, kind: str | None = None
    ) -> list[JournalEntry]:
        """Return journal entries by sequence number, as `Journal.entries` does."""
        read = super().entries
        return self._keep((_ENTRIES, procedure_id, step, kind), lambda: read(procedure_id, step, kind))

    def last(self, procedure_id: str, step: str, kind: str) -> JournalEntry | None:
        """Return the newest entry of this kind that a procedure's step wrote, as `Journal.last` does."""
        read = super().last
        return self._keep(("last", procedure_id, step, kind), lambda: read(procedure_id, step, kind))

    def holders(self, pair: str) -> list[str]:
        """Return the procedures that ever held a pair's lease, the newest first."""
        read = super().holders
        return self._keep(("holders", pair), lambda: read(pair))

    def _keep(self, question: Any, read: Callable[[], _T]) -> _T:
        # Answers go to the pages that asked: another thread may have begun a newer dictionary meanwhile.
        kept = self._kept
        if question not in kept:
            kept[question] = read()
        answer: _T = kept[question]
        return answer


def _newer(answer: list[JournalEntry], entries: list[JournalEntry]) -> list[JournalEntry]:
    """Return the entries after those of an answer, which may have been read after the newest entry that was known."""
    last = answer[-1].sequence if answer else 0
    return [entry for entry in entries if entry.sequence > last]


def _is_asked(entry: JournalEntry, procedure_id: str | None, step: str | None, kind: str | None) -> bool:
    """Whether an entry belongs to the answer to a question for entries."""
    asked = ((procedure_id, entry.procedure_id), (step, entry.step), (kind, entry.kind))
    return all(wanted is None or str(wanted) == value for wanted, value in asked)
