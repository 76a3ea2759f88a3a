"""A journal to show, not to act by: what was read of it is kept until somebody writes an entry or takes a lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import func, select

from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import ENTRIES, LEASES, JournalEntry

_T = TypeVar("_T")
#: Number of answers that are kept; then all are read anew.
_MOST = 500


class ShownJournal(Journal):
    """Keeps the answers about entries, which are only ever appended; leases and signs of life are always read."""

    def __init__(self, url: str) -> None:
        """Open the journal as `Journal` does."""
        super().__init__(url)
        self._version: Any = None
        self._kept: dict[Any, Any] = {}

    def look_again(self) -> None:
        """Forget what was read if an entry or a lease was added since; called before each page."""
        newest = select(
            select(func.max(ENTRIES.c.sequence)).scalar_subquery(),
            select(func.count()).select_from(LEASES).scalar_subquery(),
        )
        version = tuple(self._read(newest)[0])
        if version != self._version or len(self._kept) > _MOST:
            self._version, self._kept = version, {}

    def entries(
        self, procedure_id: str | None = None, step: str | None = None, kind: str | None = None
    ) -> list[JournalEntry]:
        """Return journal entries by sequence number, as `Journal.entries` does."""
        read = super().entries
        return self._keep(("entries", procedure_id, step, kind), lambda: read(procedure_id, step, kind))

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
