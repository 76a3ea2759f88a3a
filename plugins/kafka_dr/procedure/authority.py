"""The right to act, checked in the journal just before each act and again just after the act.

A process that was paused between the first check and the act may act after losing the right. The process then undoes
its act if the procedure's rollback has begun, but not if a later procedure has taken the pair of clusters, because the
later procedure may rely on the same change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

from kafka_dr.errors import LeaseLost, Refusal, Superseded
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.interrupts import hold_back, let_through
from kafka_dr.procedure.entries import Fact, continued_by
from kafka_dr.vocabulary import Entry, Step


class Authority(Protocol):
    """The right of a process to act for a run and to write to its journal."""

    def hold(self) -> None:
        """Return if the process has the right to act; else raise LeaseLost, or Superseded if a newer process acts."""

    def may_undo(self) -> bool:
        """Whether an act must be undone that took place after the right was lost."""

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry to the journal."""


def record_fact(authority: Authority, step: str, fact: Fact) -> None:
    """Append a fact to the journal as an entry of a step."""
    authority.write(step, fact.kind, fact.payload())


@contextmanager
def acting_under(authority: Authority, undo: Callable[[], object]) -> Iterator[None]:
    """Check the right just before and just after the body; if the right was lost meanwhile, call `undo` and raise.

    The body is one call that changes a cluster or a connector. `undo` is called only if `authority.may_undo()` is True.
    A deadline may interrupt the body, but neither the undo nor the way from the body to the undo.
    """
    authority.hold()
    with hold_back():
        try:
            with let_through():
                yield
        finally:
            # Also after a failure: a call that was interrupted or timed out may have taken effect.
            with hold_back():
                _undo_if_late(authority, undo)


def _undo_if_late(authority: Authority, undo: Callable[[], object]) -> None:
    try:
        authority.hold()
    except (LeaseLost, Superseded):
        if authority.may_undo():
            undo()
        raise


class LeaseAuthority:
    """The right to act of a process whose procedure has the lease of a pair of clusters, under the process's epoch.

    Args:
        journal: holds leases and entries.
        pair: name of the two clusters, the same in both directions.
        holder: the procedure's id.
    """

    def __init__(self, journal: Journal, pair: str, holder: str) -> None:
        self._journal, self.pair, self.holder = journal, pair, holder

    @cached_property
    def epoch(self) -> int:
        """The epoch of this process: the procedure's newest epoch when this property is first read.

        If the procedure no longer has the lease: the epoch under which open_procedure wrote.

        Raises:
            Refusal: the procedure never took the lease.
        """
        lease = self._journal.lease(self.pair)
        if lease is not None and lease.holder == self.holder:
            return lease.epoch
        opened = self._journal.last(self.holder, Step.OPEN_PROCEDURE, Entry.OPENED)
        if opened is None:
            raise Refusal(
                f"{self.holder} holds no lease",
                "open_procedure has not taken the lease",
                "If open_procedure is red, correct the cause in its message. Then start a new run.",
            )
        return opened.epoch

    @property
    def ever_held(self) -> bool:
        """Whether the procedure ever took its lease."""
        try:
            return self.epoch > 0
        except Refusal:
            return False

    def take_new_epoch(self) -> None:
        """Take a new epoch for this process, so that older processes of the procedure can no longer act.

        An older process may still exist, for example frozen, or orphaned by its worker.
        """
        self.hold()
        self.epoch = self._journal.take_lease(self.pair, self.holder, renew=True)

    def hold(self) -> None:
        """Return if the procedure has the lease under this process's epoch; else raise LeaseLost or Superseded."""
        try:
            self._journal.check_lease(self.pair, self.holder, self.epoch)
        except LeaseLost:
            self.refuse_if_continued()
            raise

    def refuse_if_continued(self) -> None:
        """Raise LeaseLost if the lease passed to an unplanned failover that continues this procedure."""
        successor = continued_by(self._journal.entries(self.holder, Step.OPEN_PROCEDURE, Entry.NOTE))
        if successor is not None:
            raise LeaseLost(
                f"{self.holder} is continued by {successor}",
                f"{successor} has taken over the lease of the clusters",
                f"Clear no task of this run. Read the evidence page of {successor}, which moves the clients instead.",
            )

    def may_undo(self) -> bool:
        """Whether this procedure's rollback has begun, and no later procedure has taken the pair of clusters."""
        lease = self._journal.lease(self.pair)
        rollback_intents = self._journal.entries(self.holder, Step.RETURN_TO_SOURCE, Entry.INTENT)
        return lease is not None and lease.holder == self.holder and bool(rollback_intents)

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry to the journal, under this process's epoch."""
        self._journal.append(self.holder, step, kind, self.epoch, dict(payload))


class WithoutUndo:
    """The right to act on the target.

    A change of the target, made after the right was lost, is never undone, because a rollback concerns the source.
    """

    def __init__(self, authority: Authority) -> None:
        self.hold, self.write = authority.hold, authority.write

    def may_undo(self) -> bool:
        """Return False: no act is undone."""
        return False
