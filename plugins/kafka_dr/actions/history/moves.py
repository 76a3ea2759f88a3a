"""Procedures of the pair that moved clients, and what they wrote to the journal."""

from __future__ import annotations

from typing import TypeVar

from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import (
    Fact,
    SourceReturned,
    facts_of,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

F = TypeVar("F", bound=Fact)


def completed_moves(procedure: Run) -> list[tuple[JournalEntry, Run]]:
    """Procedures of the pair that opened their target and did not return, each with its opening, oldest first."""
    entries = procedure.journal.entries(step=Step.OPEN_TARGET, kind=Entry.INTENT)
    first = {entry.procedure_id: entry for entry in reversed(entries) if entry.procedure_id != procedure.id}
    known = [(entry, procedure.other(name)) for name, entry in first.items()]
    kept = [
        (entry, one)
        for entry, one in known
        if one is not None and one.pair == procedure.pair and one.progress.done(SourceReturned) is None
    ]
    return sorted(kept, key=lambda both: both[0].sequence)


class PairJournal:
    """Facts of all procedures of the pair, this one included."""

    def __init__(self, procedure: Run) -> None:
        """Nothing is read yet."""
        self._procedure = procedure
        self._known: dict[str, Run | None] = {procedure.id: procedure}

    def facts(
        self, fact: type[F], step: Step, after: int = 0, until: int | None = None
    ) -> list[tuple[JournalEntry, Run, F]]:
        """Facts of a class that a step wrote between two entries, oldest first, with entry and writing procedure."""
        entries = self._procedure.journal.entries(step=step, kind=fact.kind)
        within = [entry for entry in entries if after < entry.sequence and (until is None or entry.sequence < until)]
        return [
            (entry, writer, said)
            for entry, said in facts_of(within, fact)
            if (writer := self._writer(entry.procedure_id)) is not None and writer.pair == self._procedure.pair
        ]

    def same_way(self, fact: type[F], step: Step, after: int | None = None) -> list[tuple[JournalEntry, Run, F]]:
        """As `facts`, of procedures in the same direction; without a number since clients changed sides last."""
        if after is None:
            moved = completed_moves(self._procedure)
            after = moved[-1][0].sequence if moved else 0
        wanted = self._procedure.request
        return [
            told
            for told in self.facts(fact, step, after)
            if (told[1].request.source, told[1].request.target) == (wanted.source, wanted.target)
        ]

    def _writer(self, procedure_id: str) -> Run | None:
        if procedure_id not in self._known:
            self._known[procedure_id] = self._procedure.other(procedure_id)
        return self._known[procedure_id]
