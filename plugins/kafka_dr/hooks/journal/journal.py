"""What happened, and who may act: an append-only, hash-chained journal and the leases, in one SQL database.

Invariants
1. Entries are numbered 1, 2, 3, ... and each carries the hash of the one before; writers never fork the chain.
2. The epoch of a pair of clusters only grows; nothing older than the newest epoch is written.
3. What is not on disk did not happen: a journal that cannot be written is an error. How that is kept on SQLite and on
   PostgreSQL, `journal_database` and `journal_postgresql` say.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Row, String, Table, Text, select

from kafka_dr.errors import (
    BadInput,
    Contradiction,
    LeaseLost,
    NotReady,
    Superseded,
)
from kafka_dr.hooks.journal.database import open_database

_NO_HASH = "0" * 64
_RENEWED = "renewed"
#: What ends the lease of a procedure that another one goes on from.
CONTINUED = "continued"
#: Ends of a lease after which nothing has to cool down: nothing was touched, or the same move goes on.
_NO_END = ("refused", _RENEWED, CONTINUED)
_TABLES = MetaData()
_ENTRIES = Table(
    "entries",
    _TABLES,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("procedure_id", String(300), nullable=False, index=True),
    Column("step", String(100), nullable=False),
    Column("kind", String(50), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("at", String(40), nullable=False),
    Column("payload", Text, nullable=False),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)
_LEASES = Table(
    "leases",
    _TABLES,
    Column("pair", String(300), primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("holder", String(300), nullable=False, index=True),
    Column("taken_at", String(40), nullable=False),
    Column("released_at", String(40)),
    Column("outcome", String(50)),
)
_SIGNS = Table(
    "signs_of_life",
    _TABLES,
    Column("name", String(100), primary_key=True),
    Column("at", String(40), nullable=False),
)


@dataclass(frozen=True)
class JournalEntry:
    """One thing that happened. `payload` is JSON; `at` is UTC."""

    sequence: int
    procedure_id: str
    step: str
    kind: str
    epoch: int
    at: datetime
    payload: Any
    previous_hash: str
    hash: str


@dataclass(frozen=True)
class Lease:
    """The right to act on a pair of clusters; over once `released_at` is set."""

    pair: str
    holder: str
    epoch: int
    taken_at: datetime
    released_at: datetime | None
    outcome: str | None


@dataclass(frozen=True)
class CoolDown:
    """The time in which a pair of clusters is left alone after a procedure, and how that procedure ended."""

    procedure_id: str
    outcome: str
    ended_at: datetime
    ends_at: datetime


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class Journal:
    """Journal and leases behind one SQLAlchemy URL, on SQLite or PostgreSQL."""

    def __init__(self, url: str, clock: Callable[[], datetime] = utc_now, lock_seconds: float = 30.0) -> None:
        """Open the journal and make its tables where they are missing.

        Args:
            url: such as `sqlite:////var/lib/switchback/journal.db`, or `postgresql+psycopg://user@host/database`.
            clock: gives the time of entries and releases.
            lock_seconds: how long to wait for other writers.
        """
        self._clock, self._database = clock, open_database(url, lock_seconds)
        self._database.make_tables(_TABLES)

    def __repr__(self) -> str:
        return f"Journal({self._database.name!r})"

    def append(self, procedure_id: str, step: str, kind: str, epoch: int, payload: Any) -> JournalEntry:
        """Add one entry; it is on disk when this returns.

        Args:
            epoch: of the lease that the procedure acts under; 0 before it has one.
            payload: anything JSON can hold.

        Raises:
            Superseded: a newer process of the same procedure goes on.
            LeaseLost: another procedure took a pair that this one held.
            BadInput: the payload is not JSON, or a name cannot be kept.
            SystemUnavailable: the journal is not writable, or it is unknown whether it was written; then nothing may be
                done.
        """
        text = _canonical(payload)
        _refuse_unkept(_ENTRIES, procedure_id=procedure_id, step=step, kind=kind)

        def add(connection: Connection) -> JournalEntry:
            _refuse_old_epoch(connection, procedure_id, epoch)
            return _add(connection, procedure_id, step, kind, epoch, self._clock(), text)

        return self._database.write(add)

    def entries(
        self, procedure_id: str | None = None, step: str | None = None, kind: str | None = None
    ) -> list[JournalEntry]:
        """Entries in order: all, or those of one procedure, one step, one kind."""
        query = select(_ENTRIES).order_by(_ENTRIES.c.sequence)
        for column, value in (
            (_ENTRIES.c.procedure_id, procedure_id),
            (_ENTRIES.c.step, step),
            (_ENTRIES.c.kind, kind),
        ):
            if value is not None:
                query = query.where(column == str(value))
        return [_entry(row._mapping) for row in self._database.read(query)]

    def last(self, procedure_id: str, step: str, kind: str) -> JournalEntry | None:
        """The newest entry of one kind of one step."""
        query = select(_ENTRIES).where(
            _ENTRIES.c.procedure_id == procedure_id, _ENTRIES.c.step == str(step), _ENTRIES.c.kind == str(kind)
        )
        rows = self._database.read(query.order_by(_ENTRIES.c.sequence.desc()).limit(1))
        return _entry(rows[0]._mapping) if rows else None

    def verify(self) -> int | None:
        """The first sequence number that is missing, changed or out of chain; None when all hold.

        Entries cut off at the end cannot be seen here: compare the last hash with the one kept in evidence.
        """
        expected, previous = 1, _NO_HASH
        for row in self._database.read(select(_ENTRIES).order_by(_ENTRIES.c.sequence)):
            values = dict(row._mapping)
            stored = values.pop("hash")
            if values["sequence"] != expected or values["previous_hash"] != previous or stored != _hash(values):
                return expected
            expected, previous = expected + 1, stored
        return None

    def take_lease(
        self,
        pair: str,
        procedure_id: str,
        now: datetime | None = None,
        cool_down_seconds: float = 0.0,
        renew: bool = False,
    ) -> int:
        """Take the right to act on a pair of clusters.

        Args:
            renew: the same procedure takes a new epoch, so that an older copy of itself loses its own.

        Returns:
            The epoch. A procedure that holds the lease gets its current epoch back.

        Raises:
            LeaseLost: another procedure holds the pair, or this one has already ended.
            NotReady: a cool-down runs; says what ended when, and how long it still lasts.
        """
        taken_at = now or self._clock()
        _refuse_unkept(_LEASES, pair=pair, holder=procedure_id)
        return self._database.write(
            lambda connection: _take(connection, pair, procedure_id, taken_at, cool_down_seconds, renew)
        )

    def cool_down(self, pair: str, procedure_id: str, cool_down_seconds: float) -> CoolDown | None:
        """Read the cool-down that ran when a procedure took the pair; None if none ran or the pair was never taken."""
        first = self._database.read(
            select(_LEASES)
            .where(_LEASES.c.pair == pair, _LEASES.c.holder == procedure_id)
            .order_by(_LEASES.c.epoch)
            .limit(1)
        )
        if not first:
            return None
        taken = _lease(first[0])
        ended = self._database.read(_last_end(pair, taken.epoch))
        return _cool_down(ended[0] if ended else None, taken.taken_at, cool_down_seconds)

    def check_lease(self, pair: str, procedure_id: str, epoch: int) -> None:
        """Raise LeaseLost unless the procedure holds the pair under this epoch; Superseded for its own newer epoch."""
        rows = self._database.read(_newest_lease(pair))
        _held_lease(_lease(rows[0]) if rows else None, pair, procedure_id, epoch)

    def release_lease(
        self, pair: str, procedure_id: str, epoch: int, outcome: str, now: datetime | None = None
    ) -> None:
        """End the lease with an outcome; releasing twice with the same outcome changes nothing.

        Raises:
            LeaseLost: somebody else holds the pair, or a newer epoch exists.
            Contradiction: it was already released with another outcome.
        """
        released_at = now or self._clock()
        _refuse_unkept(_LEASES, outcome=outcome)
        self._database.write(
            lambda connection: _release(connection, pair, procedure_id, epoch, str(outcome), released_at)
        )

    def pass_lease(
        self,
        pair: str,
        giver: str,
        taker: str,
        outcome: str,
        told: tuple[str, str, str, Any],
        seen: int | None = None,
        now: datetime | None = None,
    ) -> int:
        """Hand a pair's lease to another procedure and write the entry, atomically: nobody can take it in between.

        Args:
            outcome: what the giver's lease ends with.
            told: procedure, step, kind and payload of the entry that says so.
            seen: the giver's newest entry that the caller knows; None where nothing depends on it.

        Returns:
            The taker's epoch.

        Raises:
            LeaseLost: the giver does not hold the pair, or has written an entry since.
            BadInput: the payload is not JSON.
        """
        at, text = now or self._clock(), _canonical(told[3])
        _refuse_unkept(_LEASES, pair=pair, holder=taker, outcome=outcome)
        _refuse_unkept(_ENTRIES, procedure_id=told[0], step=told[1], kind=told[2])

        def hand_over(connection: Connection) -> int:
            epoch = _pass(connection, pair, giver, taker, outcome, at, seen)
            _add(connection, *told[:3], epoch, at, text)
            return epoch

        return self._database.write(hand_over)

    def lease(self, pair: str) -> Lease | None:
        """The newest lease of a pair, released or not."""
        rows = self._database.read(_newest_lease(pair))
        return _lease(rows[0]) if rows else None

    def show_life(self, name: str) -> None:
        """Store a service's sign of life. Only the newest is kept; it is no entry, and proves nothing later."""
        at = _iso(self._clock())
        _refuse_unkept(_SIGNS, name=name)

        def replace(connection: Connection) -> None:
            connection.execute(_SIGNS.delete().where(_SIGNS.c.name == str(name)))
            connection.execute(_SIGNS.insert().values(name=str(name), at=at))

        self._database.write(replace)

    def last_sign(self, name: str) -> datetime | None:
        """When something which always runs showed life last, in UTC; None if it never did."""
        rows = self._database.read(select(_SIGNS.c.at).where(_SIGNS.c.name == str(name)))
        return datetime.fromisoformat(rows[0].at) if rows else None


def _newest_lease(pair: str) -> Any:
    return select(_LEASES).where(_LEASES.c.pair == pair).order_by(_LEASES.c.epoch.desc()).limit(1)


def _take(
    connection: Connection, pair: str, procedure_id: str, now: datetime, cool_down_seconds: float, renew: bool
) -> int:
    row = connection.execute(_newest_lease(pair)).first()
    current = _lease(row) if row else None
    if current and current.released_at is None:
        if current.holder != procedure_id:
            seen = f"{current.holder} holds it since {_iso(current.taken_at)} (epoch {current.epoch})"
            raise LeaseLost(
                f"the clusters {pair} are in another procedure's hands", seen, "wait for it, or abort it first"
            )
        if not renew:
            return current.epoch
        _close_row(connection, current, _RENEWED, now)
    else:
        _refuse_ended(connection, pair, procedure_id)
        _refuse_cool_down(connection, pair, now, cool_down_seconds)
    epoch = current.epoch + 1 if current else 1
    connection.execute(_LEASES.insert().values(pair=pair, epoch=epoch, holder=procedure_id, taken_at=_iso(now)))
    return epoch


def _refuse_ended(connection: Connection, pair: str, procedure_id: str) -> None:
    """A procedure that released its lease has ended; its id never acts again."""
    ended = connection.execute(select(_LEASES).where(_LEASES.c.pair == pair, _LEASES.c.holder == procedure_id)).first()
    if ended:
        raise LeaseLost(
            f"{procedure_id} has already ended", f"outcome {ended.outcome} at {ended.released_at}", "trigger a new run"
        )


def _refuse_cool_down(connection: Connection, pair: str, now: datetime, seconds: float) -> None:
    found = _cool_down(connection.execute(_last_end(pair)).first(), now, seconds)
    if found is not None:
        left = math.ceil((found.ends_at - now).total_seconds())
        seen = (
            f"{found.procedure_id} ended as {found.outcome} at {_iso(found.ended_at)}; the cool-down ends at"
            f" {_iso(found.ends_at)}, in {left} s"
        )
        raise NotReady(f"a cool-down runs for the clusters {pair}", seen, "wait until it has ended")


def _last_end(pair: str, before: int | None = None) -> Any:
    """Select the newest lease that a cool-down follows, below an epoch; a refused run neither starts nor ends one."""
    ended = select(_LEASES).where(
        _LEASES.c.pair == pair, _LEASES.c.released_at.is_not(None), _LEASES.c.outcome.not_in(_NO_END)
    )
    older = ended if before is None else ended.where(_LEASES.c.epoch < before)
    return older.order_by(_LEASES.c.epoch.desc()).limit(1)


def _cool_down(row: Row[Any] | None, now: datetime, seconds: float) -> CoolDown | None:
    """The cool-down after a lease, if it runs now."""
    if row is None:
        return None
    ended_at = datetime.fromisoformat(row.released_at)
    ends_at = ended_at + timedelta(seconds=seconds)
    return CoolDown(row.holder, row.outcome, ended_at, ends_at) if now < ends_at else None


def _held_lease(current: Lease | None, pair: str, procedure_id: str, epoch: int) -> Lease:
    """The newest lease, if the procedure holds the pair by it under this very epoch."""
    if current and (current.holder, current.released_at) == (procedure_id, None) and current.epoch > epoch:
        raise _superseded(procedure_id, epoch, current.epoch)
    if current and (current.holder, current.epoch, current.released_at) == (procedure_id, epoch, None):
        return current
    seen = (
        f"now: {current.holder}, epoch {current.epoch}, outcome {current.outcome}" if current else "nobody ever held it"
    )
    raise LeaseLost(
        f"{procedure_id} does not hold the clusters {pair} under epoch {epoch}", seen, "stop; look at who does"
    )


def _superseded(procedure_id: str, epoch: int, newer: int) -> Superseded:
    """Whoever takes a new epoch for a step leaves its older processes without one."""
    return Superseded(
        f"A newer process goes on with {procedure_id}",
        f"epoch {newer}, this one has {epoch}",
        "Nothing: that process does the work",
    )


def _pass(
    connection: Connection, pair: str, giver: str, taker: str, outcome: str, now: datetime, seen: int | None
) -> int:
    row = connection.execute(_newest_lease(pair)).first()
    current = _lease(row) if row else None
    lease = _held_lease(current, pair, giver, current.epoch if current else 0)
    newest = connection.execute(
        select(_ENTRIES.c.sequence, _ENTRIES.c.step)
        .where(_ENTRIES.c.procedure_id == giver)
        .order_by(_ENTRIES.c.sequence.desc())
        .limit(1)
    ).first()
    if seen is not None and newest is not None and newest.sequence != seen:
        raise LeaseLost(
            f"{giver} is still at work", f"its step {newest.step} wrote meanwhile", "look at it, then try again"
        )
    _close_row(connection, lease, outcome, now)
    connection.execute(_LEASES.insert().values(pair=pair, epoch=lease.epoch + 1, holder=taker, taken_at=_iso(now)))
    return lease.epoch + 1


def _release(connection: Connection, pair: str, procedure_id: str, epoch: int, outcome: str, now: datetime) -> None:
    row = connection.execute(_newest_lease(pair)).first()
    current = _lease(row) if row else None
    if current and current.released_at and (current.holder, current.epoch) == (procedure_id, epoch):
        if current.outcome == outcome:
            return
        raise Contradiction(
            f"{procedure_id} has already ended otherwise", f"{current.outcome}, not {outcome}", "look at its evidence"
        )
    _close_row(connection, _held_lease(current, pair, procedure_id, epoch), outcome, now)


def _close_row(connection: Connection, lease: Lease, outcome: str, now: datetime) -> None:
    this = (_LEASES.c.pair == lease.pair) & (_LEASES.c.epoch == lease.epoch)
    connection.execute(_LEASES.update().where(this).values(released_at=_iso(now), outcome=outcome))


def _add(
    connection: Connection, procedure_id: str, step: str, kind: str, epoch: int, at: datetime, text: str
) -> JournalEntry:
    """The next entry of the chain; `text` is its payload as canonical JSON."""
    newest = connection.execute(
        select(_ENTRIES.c.sequence, _ENTRIES.c.hash).order_by(_ENTRIES.c.sequence.desc()).limit(1)
    ).first()
    values = {
        "sequence": newest.sequence + 1 if newest else 1,
        "procedure_id": procedure_id,
        "step": str(step),
        "kind": str(kind),
        "epoch": epoch,
        "at": _iso(at),
        "payload": text,
        "previous_hash": newest.hash if newest else _NO_HASH,
    }
    values["hash"] = _hash(values)
    connection.execute(_ENTRIES.insert().values(**values))
    return _entry(values)


def _refuse_old_epoch(connection: Connection, procedure_id: str, epoch: int) -> None:
    """An entry of a procedure whose pair has a newer epoch comes from a copy that must not act any more."""
    mine = select(_LEASES.c.pair).where(_LEASES.c.holder == procedure_id)
    newer = connection.execute(
        select(_LEASES).where(_LEASES.c.pair.in_(mine), _LEASES.c.epoch > epoch).order_by(_LEASES.c.epoch.desc())
    ).first()
    if newer and newer.holder == procedure_id:
        raise _superseded(procedure_id, epoch, newer.epoch)
    if newer:
        seen = f"epoch {newer.epoch} was taken by {newer.holder} at {newer.taken_at}"
        raise LeaseLost(f"{procedure_id} acts under the old epoch {epoch}", seen, "stop; nothing was written")


def _refuse_unkept(table: Table, **names: str) -> None:
    """Refuse what one of the databases would not keep as it is, so that both keep the same."""
    for column, name in names.items():
        longest, text = table.c[column].type.length, str(name)  # type: ignore[attr-defined]
        if len(text) > longest:
            problem = f"it has {len(text)} characters, {longest} are kept"
        elif any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            problem = "it holds a NUL or half a surrogate pair"
        else:
            continue
        raise BadInput(
            f"the journal cannot keep a {column} of its {table.name}",
            f"{text[:60]!r}: {problem}",
            "shorten or correct it",
        )


def _canonical(value: Any) -> str:
    """JSON with one spelling for one value (keys become strings first, then are sorted)."""
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput("a journal entry's payload is not JSON", str(error)) from None
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hash(values: dict[str, Any]) -> str:
    """SHA-256 over the canonical JSON of all fields but the hash itself; the payload as stored."""
    return hashlib.sha256(_canonical(values).encode()).hexdigest()


def _iso(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise BadInput("a time without zone cannot be journalled", repr(moment), "give UTC")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _entry(values: Any) -> JournalEntry:
    return JournalEntry(
        **{**values, "at": datetime.fromisoformat(values["at"]), "payload": json.loads(values["payload"])}
    )


def _lease(row: Row[Any]) -> Lease:
    released = None if row.released_at is None else datetime.fromisoformat(row.released_at)
    return Lease(row.pair, row.holder, row.epoch, datetime.fromisoformat(row.taken_at), released, row.outcome)
