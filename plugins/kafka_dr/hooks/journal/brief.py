"""Queries for journal entries without their long payloads, so that a reading is quick whatever a plan holds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import case, func, select

from kafka_dr.hooks.journal.tables import ENTRIES
from kafka_dr.vocabulary import Entry, Step

#: A longer payload, in characters, is read as {}; of entries that open or close a procedure all is read.
_LONGEST = 20_000
_WHOLE = (Entry.OPENED.value, Entry.CLOSED.value)


def select_brief(procedure_id: str) -> Any:
    """Build the query for a procedure's entries, by sequence number."""
    return _select_entries().where(ENTRIES.c.procedure_id == procedure_id)


def select_ends(most: int) -> Any:
    """Build the query for the newest `most` entries that closed procedures, and those that opened these procedures."""
    closing = (ENTRIES.c.step == Step.CLOSE_PROCEDURE.value) & (ENTRIES.c.kind == Entry.CLOSED.value)
    newest = select(ENTRIES.c.procedure_id).where(closing).order_by(ENTRIES.c.sequence.desc()).limit(most)
    ended = select(newest.subquery().c.procedure_id)
    return _select_entries().where(ENTRIES.c.kind.in_(_WHOLE), ENTRIES.c.procedure_id.in_(ended))


def _select_entries() -> Any:
    is_short = (func.length(ENTRIES.c.payload) <= _LONGEST) | ENTRIES.c.kind.in_(_WHOLE)
    payload = case((is_short, ENTRIES.c.payload), else_="{}").label("payload")
    others = [column for column in ENTRIES.c if column.name != "payload"]
    return select(*others, payload).order_by(ENTRIES.c.sequence)
