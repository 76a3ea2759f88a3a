"""Arm a fence: have the watcher (watch_old_source) fence a source as soon as that source answers."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_dr.actions.old_source.lost_source_fence import is_source_lost
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK, TELLING, WatchedSource, watched_sources
from kafka_dr.domain.silence import SILENT_SECONDS
from kafka_dr.errors import NotReady, ReadBackFailed
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import FenceToArm, SourceToFence
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def arm_fence(procedure: Run, step: str, topics: Iterable[str]) -> WatchedSource:
    """Arm a fence for these source topics by a journal entry, which the watcher reads; return the armed fence.

    Raises:
        ReadBackFailed: the armed fence is not in the journal.
    """
    source = SourceToFence(procedure.request.source, procedure.request.target, sorted(topics))
    record_fact(procedure.authority, step, FenceToArm(arms_fence=source))
    armed = watched_sources(telling_entries(procedure.journal)).get(procedure.id)
    if armed is None:
        raise ReadBackFailed(
            "The armed fence is not in the journal",
            f"{procedure.id} wrote the fence of {procedure.request.source} to the journal, and reads none back",
            f"Without this entry no watcher fences {procedure.request.source} when it answers. Find out in the log of"
            " the journal's database why the journal entry is missing; then start a new run.",
        )
    return armed


def watcher_seen(procedure: Run) -> str:
    """Return the time of the watcher's last heartbeat in the journal, ISO 8601 UTC.

    Raises:
        NotReady: the watcher wrote no heartbeat for a minute; without a watcher no process sets an armed fence.
    """
    if procedure.in_drill:
        # No watcher serves a drill: its source is whole, and the failback that follows fences it first.
        return procedure.now()
    last, now = procedure.journal.last_sign(Step.WATCH_OLD_SOURCE), procedure.journal.now()
    if last is None or (now - last).total_seconds() > SILENT_SECONDS:
        sign_text = (
            "the journal has no heartbeat of watch_old_source"
            if last is None
            else (
                f"the last heartbeat of watch_old_source was at {last.isoformat(timespec='seconds')},"
                f" {(now - last).total_seconds():.0f} s ago"
            )
        )
        raise NotReady(
            "No process watches the old source: watch_old_source does not run",
            sign_text,
            "Unpause the DAG watch_old_source, or run `python -m kafka_dr.commands.watch_old_source`; then start a new"
            f" run. Without watch_old_source no process would fence {procedure.request.source} when it answers, unless"
            " a fence hook fences that cluster.",
        )
    return last.isoformat()


def expected_fence_method(procedure: Run) -> str:
    """Return how the source will probably be fenced: by ACL if the source is not confirmed lost.

    A lost source is fenced by the fence hook. If the topology names no fence hook, the fence is armed.
    """
    if not is_source_lost(procedure):
        return BY_ACL
    return ARMED if procedure.systems.fence_hook is None else BY_HOOK


def telling_entries(journal: Journal) -> list[JournalEntry]:
    """Return the journal entries of all procedures that arm, set or lift armed fences, in the journal's order."""
    if not journal.entries(step=Step.FENCE_SOURCE):
        return []
    return journal.entries_of_steps(TELLING)
