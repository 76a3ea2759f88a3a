"""Leases, the right to act on a pair of clusters: functions that work within the caller's transaction."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from kafka_dr.errors import Contradiction, LeaseLost, NotReady, Superseded
from kafka_dr.hooks.journal.tables import ENTRIES, LEASES, CoolDown, Lease, iso_text, read_lease

_RENEWED = "renewed"
#: Outcome of a lease that was passed to the procedure which continues this one.
CONTINUED = "continued"
#: Outcomes without a cool-down: the procedure changed nothing, or the same move of clients continues.
_NO_COOL_DOWN_AFTER = ("refused", _RENEWED, CONTINUED)


def select_newest_lease(pair: str) -> Any:
    """Build the query for a pair's newest lease, released or not."""
    return select(LEASES).where(LEASES.c.pair == pair).order_by(LEASES.c.epoch.desc()).limit(1)


def take_pair(
    connection: Connection,
    pair: str,
    procedure_id: str,
    now: datetime,
    cool_down_seconds: float,
    renew: bool,
    floor: int = 0,
) -> int:
    """Take a pair's lease for a procedure and return the epoch.

    A procedure that already holds the lease gets a new epoch if `renew` is True, else its present epoch. A new epoch is
    greater than `floor`.

    Raises:
        LeaseLost: another procedure holds the lease, or this procedure has already ended.
        NotReady: a cool-down runs.
    """
    row = connection.execute(select_newest_lease(pair)).first()
    current = read_lease(row) if row else None
    if current and current.released_at is None:
        if current.holder != procedure_id:
            seen = f"{current.holder} has held the lease since {iso_text(current.taken_at)} (epoch {current.epoch})"
            raise LeaseLost(
                f"another procedure holds the lease on the clusters {pair}",
                seen,
                f"wait until {current.holder} has ended, or end {current.holder} with a run of abort_procedure (only"
                " before its open_target has begun)",
            )
        if not renew:
            return current.epoch
        _close_row(connection, current, _RENEWED, now)
    else:
        _refuse_ended(connection, pair, procedure_id)
        _refuse_cool_down(connection, pair, now, cool_down_seconds)
    epoch = max(current.epoch if current else 0, floor) + 1
    connection.execute(LEASES.insert().values(pair=pair, epoch=epoch, holder=procedure_id, taken_at=iso_text(now)))
    return epoch


def _refuse_ended(connection: Connection, pair: str, procedure_id: str) -> None:
    """Raise LeaseLost for a procedure that has released the pair's lease: such a procedure has ended."""
    ended = connection.execute(select(LEASES).where(LEASES.c.pair == pair, LEASES.c.holder == procedure_id)).first()
    if ended:
        raise LeaseLost(
            f"{procedure_id} has already ended", f"outcome {ended.outcome} at {ended.released_at}", "start a new run"
        )


def _refuse_cool_down(connection: Connection, pair: str, now: datetime, seconds: float) -> None:
    last = cool_down_after(connection.execute(select_last_end(pair)).first(), now, seconds)
    if last is not None:
        seconds_left = math.ceil((last.ends_at - now).total_seconds())
        seen = (
            f"{last.procedure_id} ended as {last.outcome} at {iso_text(last.ended_at)}; the cool-down ends at"
            f" {iso_text(last.ends_at)}, in {seconds_left} s"
        )
        raise NotReady(
            f"a cool-down runs for the clusters {pair}",
            seen,
            "start a new run when the cool-down has ended",
        )


def select_last_end(pair: str, before: int | None = None) -> Any:
    """Build the query for a pair's newest lease among those whose end a cool-down follows.

    The query returns the lease's row of the table `leases`. No cool-down follows a lease with the outcome `refused`,
    `renewed` or `continued`.

    Args:
        before: only leases with an epoch lower than `before`; None for all leases.
    """
    ended = select(LEASES).where(
        LEASES.c.pair == pair, LEASES.c.released_at.is_not(None), LEASES.c.outcome.not_in(_NO_COOL_DOWN_AFTER)
    )
    older = ended if before is None else ended.where(LEASES.c.epoch < before)
    return older.order_by(LEASES.c.epoch.desc()).limit(1)


def cool_down_after(row: Row[Any] | None, now: datetime, seconds: float) -> CoolDown | None:
    """Return the cool-down that follows an ended lease; None without a lease, or if the cool-down is over at `now`.

    Args:
        row: the ended lease's row of the table `leases`.
        seconds: length of a cool-down in seconds, from the end of the lease.
    """
    if row is None:
        return None
    ended_at = datetime.fromisoformat(row.released_at)
    ends_at = ended_at + timedelta(seconds=seconds)
    return CoolDown(row.holder, row.outcome, ended_at, ends_at) if now < ends_at else None


def require_held(current: Lease | None, pair: str, procedure_id: str, epoch: int) -> Lease:
    """Return `current`, a pair's newest lease, if the procedure holds this lease with exactly this epoch.

    Raises:
        Superseded: the same procedure has a newer epoch.
        LeaseLost: the procedure does not hold the lease.
    """
    if current and (current.holder, current.released_at) == (procedure_id, None) and current.epoch > epoch:
        raise superseded_by(procedure_id, epoch, current.epoch)
    if current and (current.holder, current.epoch, current.released_at) == (procedure_id, epoch, None):
        return current
    seen = (
        f"holder {current.holder}, epoch {current.epoch}, outcome {current.outcome or 'none yet'}"
        if current
        else "no procedure ever held the lease"
    )
    raise LeaseLost(
        f"{procedure_id} does not hold the lease on the clusters {pair} with epoch {epoch}",
        seen,
        f"clear no task of {procedure_id}, because {procedure_id} has no right to act on the clusters {pair}",
    )


def superseded_by(procedure_id: str, epoch: int, newer: int) -> Superseded:
    """Build the error for a process that must stop, because a newer process of the same procedure has a newer epoch.

    Args:
        epoch: the old epoch, of the process that must stop.
        newer: the newer epoch.
    """
    return Superseded(
        f"A newer process continues {procedure_id}",
        f"the newer process has epoch {newer}, this process has {epoch}",
        "Do nothing, because the newer process does the work",
    )


def pass_pair(
    connection: Connection,
    pair: str,
    giver: str,
    taker: str,
    outcome: str,
    now: datetime,
    seen: int | None,
    floor: int = 0,
) -> int:
    """End the giver's lease of a pair with an outcome, give the lease to the taker, and return the taker's epoch.

    Args:
        giver: id of the procedure that holds the lease; `taker`: id of the procedure that gets the lease.
        seen: sequence number of the giver's newest journal entry that the caller has read; None to pass the lease
            whatever the giver has written since.
        floor: the taker's epoch is greater than this epoch.

    Raises:
        LeaseLost: the giver does not hold the lease, or the giver has written a journal entry after `seen`.
    """
    row = connection.execute(select_newest_lease(pair)).first()
    current = read_lease(row) if row else None
    lease = require_held(current, pair, giver, current.epoch if current else 0)
    newest = connection.execute(
        select(ENTRIES.c.sequence, ENTRIES.c.step)
        .where(ENTRIES.c.procedure_id == giver)
        .order_by(ENTRIES.c.sequence.desc())
        .limit(1)
    ).first()
    if seen is not None and newest is not None and newest.sequence != seen:
        raise LeaseLost(
            f"{giver} is still at work",
            f"{giver}'s step {newest.step} wrote to the journal after this run had read the journal",
            f"wait until no task of {giver} runs, then start a new run",
        )
    _close_row(connection, lease, outcome, now)
    epoch = max(lease.epoch, floor) + 1
    connection.execute(LEASES.insert().values(pair=pair, epoch=epoch, holder=taker, taken_at=iso_text(now)))
    return epoch


def release_pair(connection: Connection, pair: str, procedure_id: str, epoch: int, outcome: str, now: datetime) -> None:
    """End a procedure's lease of a pair with an outcome; a lease that ended with this outcome is left unchanged.

    Raises:
        LeaseLost: the procedure does not hold the pair's lease with this epoch.
        Superseded: the same procedure has a newer epoch.
        Contradiction: the lease was already released with another outcome.
    """
    row = connection.execute(select_newest_lease(pair)).first()
    current = read_lease(row) if row else None
    if current and current.released_at and (current.holder, current.epoch) == (procedure_id, epoch):
        if current.outcome == outcome:
            return
        raise Contradiction(
            f"{procedure_id} has already ended with another outcome",
            f"the lease ended as {current.outcome}, this process would end it as {outcome}",
            f"find out on which cluster clients work, because the outcome on the evidence page of {procedure_id} may be"
            " wrong. The lease has ended: to move clients, start a new run whose source is that cluster",
        )
    _close_row(connection, require_held(current, pair, procedure_id, epoch), outcome, now)


def _close_row(connection: Connection, lease: Lease, outcome: str, now: datetime) -> None:
    lease_row = (LEASES.c.pair == lease.pair) & (LEASES.c.epoch == lease.epoch)
    connection.execute(LEASES.update().where(lease_row).values(released_at=iso_text(now), outcome=outcome))
