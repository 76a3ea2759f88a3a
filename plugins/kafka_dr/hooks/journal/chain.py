"""The hash chain of journal entries: functions that add and check entries within the caller's transaction."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from kafka_dr.errors import Contradiction, LeaseLost
from kafka_dr.hooks.journal.leases import superseded_by
from kafka_dr.hooks.journal.tables import ENTRIES, LEASES, JournalEntry, canonical_text, iso_text, read_entry

NO_HASH = "0" * 64


def add_entry(
    connection: Connection, procedure_id: str, step: str, kind: str, epoch: int, at: datetime, text: str
) -> JournalEntry:
    """Write the next journal entry, with the hash of the last entry, and return it; `text` is the payload as JSON."""
    newest = connection.execute(
        select(ENTRIES.c.sequence, ENTRIES.c.hash).order_by(ENTRIES.c.sequence.desc()).limit(1)
    ).first()
    values = {
        "sequence": newest.sequence + 1 if newest else 1,
        "procedure_id": procedure_id,
        "step": str(step),
        "kind": str(kind),
        "epoch": epoch,
        "at": iso_text(at),
        "payload": text,
        "previous_hash": newest.hash if newest else NO_HASH,
    }
    values["hash"] = hash_of(values)
    connection.execute(ENTRIES.insert().values(**values))
    return read_entry(values)


def refuse_old_epoch(connection: Connection, procedure_id: str, epoch: int) -> None:
    """Refuse an entry whose epoch is older than the newest epoch of a pair of clusters that the procedure has held.

    The process that writes such an entry must not act any more.

    Raises:
        Superseded: the same procedure has the newer epoch.
        LeaseLost: another procedure has the newer epoch.
    """
    own_pairs = select(LEASES.c.pair).where(LEASES.c.holder == procedure_id)
    newer = connection.execute(
        select(LEASES).where(LEASES.c.pair.in_(own_pairs), LEASES.c.epoch > epoch).order_by(LEASES.c.epoch.desc())
    ).first()
    if newer and newer.holder == procedure_id:
        raise superseded_by(procedure_id, epoch, newer.epoch)
    if newer:
        seen = f"epoch {newer.epoch} was taken by {newer.holder} at {newer.taken_at}"
        raise LeaseLost(
            f"{procedure_id} acts under the old epoch {epoch}",
            seen,
            f"clear no task of {procedure_id}, because {newer.holder} now has the right to act on the clusters"
            f" {newer.pair}. The journal entry of {procedure_id} was not written",
        )


def refuse_lost_entry(connection: Connection, seen: tuple[int, str] | None) -> None:
    """Raise Contradiction if the database lacks an entry that this process has seen there.

    Between two transactions of a process, a standby without the newest entries may have been promoted.

    Args:
        seen: sequence number and hash of the entry; None if this process has seen none.
    """
    if seen is None:
        return
    sequence, digest = seen
    found = connection.execute(select(ENTRIES.c.hash).where(ENTRIES.c.sequence == sequence)).scalar()
    if found != digest:
        raise Contradiction(
            "The journal lost entries while this process used it",
            f"entry {sequence} was there before, and is now {'missing' if found is None else 'another one'}",
            "The process stopped before its next act. If the journal's database was promoted or restored without its"
            " last entries, follow runbooks/stuck_procedure.md, The journal lost entries.",
        )


def hash_of(values: dict[str, Any]) -> str:
    """Return the SHA-256 over the canonical JSON of an entry's fields but `hash`; the payload is the text as stored."""
    return hashlib.sha256(canonical_text(values).encode()).hexdigest()
