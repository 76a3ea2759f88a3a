"""What gives the watcher the right to act: the armed fence, not the lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.config.topology import Topology
from kafka_dr.domain.fencing.armed_fence import (
    WatchedSource,
    WatchState,
    watched_sources,
)
from kafka_dr.errors import LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.run import opened_by
from kafka_dr.vocabulary import Entry, Step

STEP = Step.WATCH_OLD_SOURCE.value


class ArmedFenceAuthority:
    """The authority of the watcher: the armed fence of a procedure, not its lease.

    The watcher takes no epoch. While the procedure runs, a new one would supersede the step that works just then; and
    once the procedure is closed it holds no lease, and its id takes no entry any more as soon as another procedure has
    the pair. What gives the right to act is the armed fence itself: it was approved, and it is read from the journal
    just before each act and just after it. So two watchers, or one beside the procedure's own steps, do the same thing
    twice at most.

    Its entries stand under the procedure while that is open, so that they are in its evidence. After that they stand
    under the watcher's own name and epoch 0, which the journal takes at any time since no lease was ever held under
    that name. All of them name the procedure.
    """

    def __init__(self, journal: Journal, topology: Topology, pair: str, procedure_id: str) -> None:
        self._journal, self._topology, self._pair, self._id = journal, topology, pair, procedure_id

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry, under the procedure while it is open, else under the watcher's name."""
        lease = self._journal.lease(self._pair)
        is_open = (
            lease is not None
            and (lease.holder, lease.released_at) == (self._id, None)
            and self._journal.last(self._id, Step.CLOSE_PROCEDURE, Entry.CLOSED) is None
        )
        writer, epoch = (self._id, lease.epoch) if lease is not None and is_open else (STEP, 0)
        self._journal.append(writer, step, kind, epoch, {**payload, "procedure_id": self._id})

    def hold(self) -> None:
        """Refuse once the source was given back, opened to clients or taken over; a fence in place does not refuse."""
        now = self._watch()
        if now is None or now.state in (WatchState.DISARMED, WatchState.REOPENED):
            raise LeaseLost(
                "The old source is not to be fenced any more",
                now.state.value if now else "never armed",
                "Nothing: whoever took it over goes on.",
            )

    def may_undo(self) -> bool:
        """Tell whether clients were let onto the source again, and no one who may own the fence took the pair since."""
        now = self._watch()
        if now is None or now.state is not WatchState.REOPENED or now.reopened_by is None:
            return False
        opened = opened_by(self._journal, now.reopened_by)
        if opened is None:
            return False
        lease = self._journal.lease(self._topology.pair_key(opened.source, opened.target))
        return lease is not None and lease.holder == now.reopened_by

    def _watch(self) -> WatchedSource | None:
        return watch_over(self._journal, self._id)


def watch_over(journal: Journal, procedure_id: str) -> WatchedSource | None:
    """How far the watch over a procedure's source is, by the journal now."""
    return watched_sources(telling_entries(journal)).get(procedure_id)
