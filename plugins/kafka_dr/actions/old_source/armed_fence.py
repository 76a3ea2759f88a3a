"""Arm a fence: the watcher fences the source as soon as the source answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kafka_dr.actions.old_source.lost_source_fence import found_lost
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK, TELLING, WatchedSource, watched_sources
from kafka_dr.errors import NotReady, ReadBackFailed
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FenceToArm, SourceToFence
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: A watcher without a sign of life for so long counts as dead; a live watcher writes a sign every few seconds.
_SILENT_SECONDS = 60.0


def arm_fence(procedure: Run, step: str, topics: Iterable[str]) -> WatchedSource:
    """Have the watcher fence the source as soon as the source answers; read the armed fence back from the journal."""
    source = SourceToFence(procedure.request.source, procedure.request.target, sorted(topics))
    record_fact(procedure.authority, step, FenceToArm(arms_fence=source))
    armed = watched_sources(telling_entries(procedure.journal)).get(procedure.id)
    if armed is None:
        raise ReadBackFailed("The armed fence is not in the journal", procedure.id, "Look at the journal's database.")
    return armed


def watcher_seen(procedure: Run) -> str:
    """Time of the watcher's last sign of life, ISO 8601 UTC.

    Raises:
        NotReady: no sign for a minute: without a watcher no process would execute an armed fence or measure its window.
    """
    last, now = procedure.journal.last_sign(Step.WATCH_OLD_SOURCE), datetime.now(UTC)
    if last is None or (now - last).total_seconds() > _SILENT_SECONDS:
        sign_text = (
            "it never showed life"
            if last is None
            else (
                f"it showed life last at {last.isoformat(timespec='seconds')}, {(now - last).total_seconds():.0f} s ago"
            )
        )
        raise NotReady(
            "Nobody watches for the old source: watch_old_source does not run",
            sign_text,
            "Unpause that DAG, or run `python -m kafka_dr.commands.watch_old_source`; then start a new run. A fence"
            " hook that keeps clients from the source does without it.",
        )
    return last.isoformat()


def expected_fence_method(procedure: Run) -> str:
    """Method by which the source will probably be fenced: by ACL, by hook, or armed."""
    if not found_lost(procedure):
        return BY_ACL
    return ARMED if procedure.systems.fence_hook is None else BY_HOOK


def telling_entries(journal: Journal) -> list[JournalEntry]:
    """Journal entries of all procedures that arm, execute or lift armed fences, in order."""
    if not journal.entries(step=Step.FENCE_SOURCE):
        return []
    return sorted((entry for step in TELLING for entry in journal.entries(step=step)), key=lambda entry: entry.sequence)
