"""A planned failover whose source died is continued by an unplanned one: the entries by which both journals
tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kafka_dr.vocabulary import Entry, Step

#: Key of the note in the planned run's journal: who goes on from it; null once that one gave the lease back.
CONTINUED_BY = "continued_by"


class Line(Protocol):
    """One journal entry, as far as it is looked at."""

    @property
    def step(self) -> str:
        """The step that wrote it."""

    @property
    def kind(self) -> str:
        """Which kind of entry."""

    @property
    def payload(self) -> Any:
        """What it says."""


def continued_by(lines: Iterable[Line]) -> str | None:
    """The procedure that goes on from the one whose entries these are; None where none does, or none any more."""
    told = [
        line.payload[CONTINUED_BY]
        for line in lines
        if (line.step, line.kind) == (Step.OPEN_PROCEDURE, Entry.NOTE) and CONTINUED_BY in line.payload
    ]
    return told[-1] if told else None
