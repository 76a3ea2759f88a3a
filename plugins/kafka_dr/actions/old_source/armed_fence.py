"""Arm a fence: the watcher fences the source as soon as it answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kafka_dr.actions.old_source.lost_source_fence import found_lost
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK, TELLING, WatchedSource, watched_sources
from kafka_dr.errors import (
    NotReady,
    ReadBackFailed,
)
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import (
    FenceToArm,
    SourceToFence,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: A watcher that showed no life for so long is taken for dead; it does every few seconds.
_SILENT_SECONDS = 60.0


def arm_fence(procedure: Run, step: str, topics: Iterable[str]) -> WatchedSource:
    """Have the watcher fence the source as soon as it answers; read back from the journal."""
    source = SourceToFence(procedure.request.source, procedure.request.target, sorted(topics))
    record_fact(procedure.authority, step, FenceToArm(arms_fence=source))
    armed = watched_sources(telling_entries(procedure.journal)).get(procedure.id)
    if armed is None:
        raise ReadBackFailed("The armed fence is not in the journal", procedure.id, "Look at the journal's database.")
    return armed


def watcher_seen(procedure: Run) -> str:
    """When the watcher of old sources showed life last, ISO 8601 UTC.

    Raises:
        NotReady: not for a minute: an armed fence would be nobody's, and its window measured by nobody.
    """
    seen, now = procedure.journal.last_sign(Step.WATCH_OLD_SOURCE), datetime.now(UTC)
    if seen is None or (now - seen).total_seconds() > _SILENT_SECONDS:
        told = (
            "it never showed life"
            if seen is None
            else (
                f"it showed life last at {seen.isoformat(timespec='seconds')}, {(now - seen).total_seconds():.0f} s ago"
            )
        )
        raise NotReady(
            "Nobody watches for the old source: watch_old_source does not run",
            told,
            "Unpause that DAG, or run `python -m kafka_dr.commands.watch_old_source`; then start a new run. A fence"
            " hook that keeps clients from the source does without it.",
        )
    return seen.isoformat()


def expected_fence_method(procedure: Run) -> str:
    """How the source will be kept from its clients, as far as can be said before it is tried."""
    if not found_lost(procedure):
        return BY_ACL
    return ARMED if procedure.systems.fence_hook is None else BY_HOOK


def telling_entries(journal: Journal) -> list[JournalEntry]:
    """Entries that say what is armed, in order; of all procedures."""
    if not journal.entries(step=Step.FENCE_SOURCE):
        return []
    return sorted((entry for step in TELLING for entry in journal.entries(step=step)), key=lambda entry: entry.sequence)
