"""Close drills that nobody will close: their run was killed or deleted, and they hold the lease of drills."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kafka_dr.actions.drill.judgement import file_drill
from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.actions.drill.removal import remove_drill
from kafka_dr.config.topology import Topology
from kafka_dr.domain.drill.schedule import longest_silence
from kafka_dr.errors import LeaseLost, Superseded, SwitchbackError
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry, Lease
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import DrillCleaned, DrillGivenUp, DrillToPrepare, ProcedureClosed
from kafka_dr.procedure.run import Run, opened_by
from kafka_dr.procedures import FAILOVER_DRILL, lease_name
from kafka_dr.vocabulary import Outcome, Step

CLOSED = "closed"


def close_given_up_drills(journal: Journal, topology: Topology, connections: Any) -> dict[str, str]:
    """Close as failed every drill that is given up; return drill -> `closed`, or why it could not be closed."""
    answers, pairs = {}, [topology.pair_key(flow.source, flow.target) for flow in topology.flows]
    for pair in dict.fromkeys(lease_name(FAILOVER_DRILL.dag_id, pair) for pair in pairs):
        lease = journal.lease(pair)
        if lease is None or lease.released_at is not None:
            continue
        try:
            if _close_if_given_up(lease, journal, topology, connections):
                answers[lease.holder] = CLOSED
        except (LeaseLost, Superseded):
            # The drill has closed itself meanwhile, or a process of it acts.
            continue
        except SwitchbackError as error:
            answers[lease.holder] = str(error)
    return answers


def _close_if_given_up(lease: Lease, journal: Journal, topology: Topology, connections: Any) -> bool:
    """Close the drill that holds a lease if the drill is given up; return whether it was."""
    opened = opened_by(journal, lease.holder)
    if opened is None:
        return _release_unopened(lease, journal)
    procedure = Run.reopened(opened, journal, topology, connections)
    try:
        last = journal.entries(procedure.id)[-1]
        if procedure.progress.done(DrillGivenUp) is None and not _is_given_up(procedure, last):
            return False
        procedure.lease.take_new_epoch()
        # A process of the drill may have written meanwhile: then the drill acts, and goes on under a newer epoch.
        if journal.entries(procedure.id)[-1].sequence != last.sequence:
            return False
        close_given_up_drill(procedure, last)
        return True
    finally:
        procedure.close()


def _is_given_up(procedure: Run, last: JournalEntry) -> bool:
    """Whether a drill has written nothing for longer than it ever waits, and its time to live is over."""
    notice, wait = procedure.flow.objectives.notice_hours, procedure.request.deadlines.approval_wait_seconds
    now, made = procedure.journal.now(), procedure.progress.done(DrillToPrepare)
    lives = made is not None and datetime.fromisoformat(made.ends_at) > now
    return not lives and now - last.at > longest_silence(kind_of(procedure), notice, wait)


def close_given_up_drill(procedure: Run, last: JournalEntry) -> None:
    """Write that the drill is given up, its evidence and its closing, and release its lease; safe to repeat.

    Args:
        last: the newest entry that the drill wrote itself.
    """
    progress, authority = procedure.progress, procedure.authority
    closed = progress.done(ProcedureClosed)
    if closed is None:
        note_given_up(procedure, last)
        if progress.done(DrillToPrepare) is None and progress.done(DrillCleaned) is None:
            record_fact(authority, Step.CLEAN_DRILL, remove_drill(procedure, Step.CLEAN_DRILL))
        closed = file_drill(procedure, procedure.lease.epoch)
    procedure.journal.release_lease(procedure.pair, procedure.id, procedure.lease.epoch, Outcome(closed.outcome))


def note_given_up(procedure: Run, last: JournalEntry) -> None:
    """Write that the drill is given up, unless the journal says so: from then on nobody waits for it."""
    if procedure.progress.done(DrillGivenUp) is None:
        given_up = DrillGivenUp(silent_step=last.step, silent_since=last.at.isoformat())
        record_fact(procedure.authority, Step.CLOSE_PROCEDURE, given_up)


def _release_unopened(lease: Lease, journal: Journal) -> bool:
    """Release the lease of a drill that was killed before its first entry, which alone names its params."""
    if journal.now() - lease.taken_at <= longest_silence("", 0, 0):
        return False
    journal.release_lease(lease.pair, lease.holder, lease.epoch, Outcome.FAILED)
    return True
