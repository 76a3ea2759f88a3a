"""The watcher's right to act: it follows from the armed fence, not from the lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.config.topology import Topology
from kafka_dr.domain.fencing.armed_fence import WatchedSource, WatchState, watched_sources
from kafka_dr.errors import LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.run import opened_by
from kafka_dr.vocabulary import Entry, Step

STEP = Step.WATCH_OLD_SOURCE.value


class ArmedFenceAuthority:
    """The watcher's right to act for a procedure that has armed a fence; it does not need the procedure's lease.

    The watcher takes no epoch. In an open procedure a new epoch would supersede the running step. A closed procedure
    holds no lease, and the journal refuses journal entries under its id once another procedure has the lease. The right
    to act is the armed fence itself, which was approved and is read from the journal just before and just after each
    act. So two watchers, or a watcher beside the procedure's steps, at most do the same act twice.

    While the procedure is open, the watcher writes journal entries under the procedure's id, because the procedure's
    evidence must have these entries. After the procedure was closed, the watcher writes under the name
    `watch_old_source` and epoch 0: the journal always accepts such entries, because no lease is ever taken under that
    name. All journal entries of the watcher name the procedure.
    """

    def __init__(self, journal: Journal, topology: Topology, pair: str, procedure_id: str) -> None:
        self._journal, self._topology, self._pair, self._id = journal, topology, pair, procedure_id

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry, under the procedure's id if the procedure is open, else under the watcher's name."""
        lease = self._journal.lease(self._pair)
        is_open = (
            lease is not None
            and (lease.holder, lease.released_at) == (self._id, None)
            and self._journal.last(self._id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is None
        )
        writer, epoch = (self._id, lease.epoch) if lease is not None and is_open else (STEP, 0)
        self._journal.append(writer, step, kind, epoch, {**payload, "procedure_id": self._id})

    def hold(self) -> None:
        """Raise LeaseLost if the fence was never armed, was disarmed, or the source was reopened to clients."""
        watch = self._watch()
        if watch is None or watch.state in (WatchState.DISARMED, WatchState.REOPENED):
            raise LeaseLost(
                "The watcher has no right to fence the old source",
                (
                    f"{self._id} has armed no fence"
                    if watch is None
                    else f"the fence of {watch.fence.source} was disarmed"
                    if watch.state is WatchState.DISARMED
                    else f"{watch.reopened_by} let clients onto {watch.fence.source} again"
                ),
                "Nothing to do: the watcher no longer acts on this source.",
            )

    def may_undo(self) -> bool:
        """Whether a procedure reopened the source to clients, and no later procedure has taken the lease since.

        A later procedure might rely on the fence.
        """
        watch = self._watch()
        if watch is None or watch.state is not WatchState.REOPENED or watch.reopened_by is None:
            return False
        opened = opened_by(self._journal, watch.reopened_by)
        if opened is None:
            return False
        lease = self._journal.lease(self._topology.pair_key(opened.source, opened.target))
        return lease is not None and lease.holder == watch.reopened_by

    def _watch(self) -> WatchedSource | None:
        return watch_over(self._journal, self._id)


def watch_over(journal: Journal, procedure_id: str) -> WatchedSource | None:
    """Return the fence that a procedure armed, with its present state by the journal; None if it armed no fence."""
    return watched_sources(telling_entries(journal)).get(procedure_id)
