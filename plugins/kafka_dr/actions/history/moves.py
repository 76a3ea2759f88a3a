"""Find procedures that moved clients between the pair's clusters, and facts in the journal about them.

A *fact* is the content of one kind of journal entry.
"""

from __future__ import annotations

from typing import TypeVar

from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.entries import Fact, SourceReturned, TargetTopicsReady, TopicsToCreate, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

F = TypeVar("F", bound=Fact)


def completed_moves(procedure: Run, pair: str | None = None) -> list[tuple[JournalEntry, Run]]:
    """Return the other procedures of the pair that opened their target, oldest first.

    Args:
        pair: name of the pair's lease, for a procedure whose own lease has another name; None: the procedure's.

    Returns:
        (journal entry of open_target's intent, procedure). Procedures that were rolled back are left out, and the given
        procedure itself.
    """
    entries = procedure.journal.entries(step=Step.OPEN_TARGET, kind=Entry.INTENT)
    first = {entry.procedure_id: entry for entry in reversed(entries) if entry.procedure_id != procedure.id}
    openings = [(entry, procedure.other(name)) for name, entry in first.items()]
    moves = [
        (entry, move)
        for entry, move in openings
        if move is not None and move.pair == (pair or procedure.pair) and move.progress.done(SourceReturned) is None
    ]
    return sorted(moves, key=lambda item: item[0].sequence)


def last_move(procedure: Run, pair: str | None = None) -> Run | None:
    """Return the last other procedure of the pair that opened its target and was not rolled back, or None."""
    moves = completed_moves(procedure, pair)
    return moves[-1][1] if moves else None


def target_opened_before(procedure: Run) -> Run | None:
    """Return the last procedure that moved clients, if it moved them to this procedure's target; else None.

    The journal does not record moves without Switchback, and clients may have left the target by such a move.
    """
    last = last_move(procedure)
    return last if last is not None and last.request.target == procedure.request.target else None


class PairJournal:
    """Reads facts in journal entries of all procedures of the pair, the given procedure included."""

    def __init__(self, procedure: Run) -> None:
        self._procedure = procedure
        self._runs: dict[str, Run | None] = {procedure.id: procedure}

    def facts(
        self, fact: type[F], step: Step, after: int = 0, until: int | None = None
    ) -> list[tuple[JournalEntry, Run, F]]:
        """Return the facts of one class that `step` wrote to the journal.

        Args:
            after, until: sequence numbers of journal entries, both exclusive; None for `until`: up to now.

        Returns:
            (journal entry, procedure that wrote it, fact), oldest first.
        """
        entries = self._procedure.journal.entries(step=step, kind=fact.kind)
        within = [entry for entry in entries if after < entry.sequence and (until is None or entry.sequence < until)]
        return [
            (entry, writer, written)
            for entry, written in facts_of(within, fact)
            if (writer := self._writer(entry.procedure_id)) is not None and writer.pair == self._procedure.pair
        ]

    def same_way(self, fact: type[F], step: Step, after: int | None = None) -> list[tuple[JournalEntry, Run, F]]:
        """Return facts of one class that `step` wrote in procedures with this procedure's source and target.

        Args:
            after: sequence number of a journal entry, exclusive; None: facts since the last client move.

        Returns:
            (journal entry, procedure that wrote it, fact), oldest first.
        """
        if after is None:
            moved = completed_moves(self._procedure)
            after = moved[-1][0].sequence if moved else 0
        request = self._procedure.request
        return [
            row
            for row in self.facts(fact, step, after)
            if (row[1].request.source, row[1].request.target) == (request.source, request.target)
        ]

    def _writer(self, procedure_id: str) -> Run | None:
        if procedure_id not in self._runs:
            self._runs[procedure_id] = self._procedure.other(procedure_id)
        return self._runs[procedure_id]


def recreated_by(journal: PairJournal, after: int, until: int | None) -> frozenset[str]:
    """Return topics that procedures created again between journal entries `after` and `until` (None: up to now)."""
    intents = journal.facts(TopicsToCreate, Step.PREPARE_TOPICS, after, until)
    copied_again = journal.facts(TargetTopicsReady, Step.RECREATE_TARGET_TOPICS, after, until)
    return frozenset(
        [name for *_, intent in intents for name in intent.creates_topics]
        + [name for *_, ready in copied_again if ready.recreated for name in ready.topic_ids]
    )
