"""The right to act: asked of the journal just before each act and just after it.

A process that stood still in between may act after the right was lost: it undoes that, unless somebody else has taken
the pair since, whose doing it may be by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

from kafka_dr.errors import LeaseLost, Refusal, Superseded
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import Fact, continued_by
from kafka_dr.vocabulary import Entry, Step


class Authority(Protocol):
    """What lets a process act for a run, and write about it."""

    def hold(self) -> None:
        """Refuse unless the right still stands."""

    def may_undo(self) -> bool:
        """Whether what was done too late is to be undone."""

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry to the journal."""


def record_fact(authority: Authority, step: str, fact: Fact) -> None:
    """Append a fact to the journal as an entry of a step."""
    authority.write(step, fact.kind, fact.payload())


@contextmanager
def acting_under(authority: Authority, undo: Callable[[], object]) -> Iterator[None]:
    """Hold the right just before a mutating call and just after it; what was done too late is undone."""
    authority.hold()
    try:
        yield
    finally:
        # Also after a failure: what was interrupted, or had no answer in time, may have taken effect.
        _undo_if_late(authority, undo)


def _undo_if_late(authority: Authority, undo: Callable[[], object]) -> None:
    try:
        authority.hold()
    except (LeaseLost, Superseded):
        if authority.may_undo():
            undo()
        raise


class LeaseAuthority:
    """The lease of the pair, under the epoch of this process.

    Args:
        journal: holds leases and entries.
        pair: order-free name of the two clusters.
        holder: the procedure's id.
    """

    def __init__(self, journal: Journal, pair: str, holder: str) -> None:
        self._journal, self.pair, self.holder = journal, pair, holder

    @cached_property
    def epoch(self) -> int:
        """The epoch this process acts under: the newest of the procedure when it was first asked.

        Raises:
            Refusal: the procedure never took the lease.
        """
        lease = self._journal.lease(self.pair)
        if lease is not None and lease.holder == self.holder:
            return lease.epoch
        opened = self._journal.last(self.holder, Step.OPEN_PROCEDURE, Entry.OPENED)
        if opened is None:
            raise Refusal(f"{self.holder} holds no lease", "it never took one", "Start the procedure anew.")
        return opened.epoch

    @property
    def ever_held(self) -> bool:
        """Whether the procedure ever took its lease."""
        try:
            return self.epoch > 0
        except Refusal:
            return False

    def take_new_epoch(self) -> None:
        """Take a new epoch for this process; an older process of the procedure, orphaned or frozen, can act no more."""
        self.hold()
        self.epoch = self._journal.take_lease(self.pair, self.holder, renew=True)

    def hold(self) -> None:
        """Refuse unless the procedure still holds the pair under this very epoch."""
        try:
            self._journal.check_lease(self.pair, self.holder, self.epoch)
        except LeaseLost:
            self.refuse_if_continued()
            raise

    def refuse_if_continued(self) -> None:
        """Refuse every step of a procedure that another one goes on from."""
        successor = continued_by(self._journal.entries(self.holder, Step.OPEN_PROCEDURE, Entry.NOTE))
        if successor is not None:
            raise LeaseLost(
                f"{self.holder} is continued by {successor}",
                "the lease was handed over",
                "Nothing is left to do in this run; see that one.",
            )

    def may_undo(self) -> bool:
        """Whether the source was given back, and nobody took the pair since."""
        lease = self._journal.lease(self.pair)
        returning = self._journal.entries(self.holder, Step.RETURN_TO_SOURCE, Entry.INTENT)
        return lease is not None and lease.holder == self.holder and bool(returning)

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry under the procedure's epoch."""
        self._journal.append(self.holder, step, kind, self.epoch, dict(payload))


class WithoutUndo:
    """An authority under which nothing is undone: the cluster that is acted on is not the one to be given back."""

    def __init__(self, authority: Authority) -> None:
        self.hold, self.write = authority.hold, authority.write

    def may_undo(self) -> bool:
        """Never."""
        return False
