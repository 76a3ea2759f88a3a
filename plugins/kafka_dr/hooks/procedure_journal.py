"""What happened, and who may act: an append-only, hash-chained journal and the leases, in one SQL database.

Invariants
1. Entries are numbered 1, 2, 3, ... and each carries the hash of the one before; writers never fork the chain.
2. The epoch of a pair of clusters only grows; nothing older than the newest epoch is written.
3. What is not on disk did not happen: SQLite runs with synchronous=FULL, and a journal that cannot be written is an
   error.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from kafka_dr.errors import (
    BadInput,
    Contradiction,
    LeaseLost,
    NotReady,
    Superseded,
    SystemUnavailable,
)
from kafka_dr.hooks.outside_text import one_line

_T = TypeVar("_T")
_NO_HASH = "0" * 64
_RENEWED = "renewed"
#: What ends the lease of a procedure that another one goes on from.
CONTINUED = "continued"
#: Ends of a lease after which nothing has to cool down: nothing was touched, or the same move goes on.
_NO_END = ("refused", _RENEWED, CONTINUED)
#: PostgreSQL: serialisation failure, deadlock, duplicate key, table made meanwhile.
_LOST_RACES = ("40001", "40P01", "23505", "42P07")
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
    """Journal and leases behind one SQLAlchemy URL; SQLite and PostgreSQL have been tried.

    Connections are not kept, so that a forked task never shares one.
    """

    def __init__(self, url: str, clock: Callable[[], datetime] = utc_now, lock_seconds: float = 30.0) -> None:
        """Open the journal and make its tables where they are missing.

        Args:
            url: such as `sqlite:////var/lib/switchback/journal.db`.
            clock: gives the time of entries and releases.
            lock_seconds: how long to wait for other writers.
        """
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise BadInput(
                "the journal's address is not a SQLAlchemy URL", next_step="give it as sqlite:////path/journal.db"
            ) from None
        self._clock, self._lock_seconds = clock, lock_seconds
        # A query may hold a password too.
        self._name = parsed.set(query={}).render_as_string(hide_password=True)
        sqlite = parsed.get_backend_name() == "sqlite"
        options: dict[str, Any] = (
            {"connect_args": {"timeout": lock_seconds}} if sqlite else {"isolation_level": "SERIALIZABLE"}
        )
        with self._translated("usable"):
            self._engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True, **options)
            if sqlite:
                event.listen(self._engine, "connect", _prepare_sqlite)
                event.listen(self._engine, "begin", _begin_sqlite)
            if not self._repeated(self._has_tables):
                self._write(_TABLES.create_all)

    def __repr__(self) -> str:
        return f"Journal({self._name!r})"

    def append(self, procedure_id: str, step: str, kind: str, epoch: int, payload: Any) -> JournalEntry:
        """Add one entry; it is on disk when this returns.

        Args:
            epoch: of the lease that the procedure acts under; 0 before it has one.
            payload: anything JSON can hold.

        Raises:
            Superseded: a newer process of the same procedure goes on.
            LeaseLost: another procedure took a pair that this one held.
            BadInput: the payload is not JSON.
            SystemUnavailable: the journal is not writable; then nothing may be done.
        """
        text = _canonical(payload)

        def add(connection: Connection) -> JournalEntry:
            _refuse_old_epoch(connection, procedure_id, epoch)
            return _add(connection, procedure_id, step, kind, epoch, self._clock(), text)

        return self._write(add)

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
        return [_entry(row._mapping) for row in self._read(query)]

    def last(self, procedure_id: str, step: str, kind: str) -> JournalEntry | None:
        """The newest entry of one kind of one step."""
        query = select(_ENTRIES).where(
            _ENTRIES.c.procedure_id == procedure_id, _ENTRIES.c.step == str(step), _ENTRIES.c.kind == str(kind)
        )
        rows = self._read(query.order_by(_ENTRIES.c.sequence.desc()).limit(1))
        return _entry(rows[0]._mapping) if rows else None

    def verify(self) -> int | None:
        """The first sequence number that is missing, changed or out of chain; None when all hold.

        Entries cut off at the end cannot be seen here: compare the last hash with the one kept in evidence.
        """
        expected, previous = 1, _NO_HASH
        for row in self._read(select(_ENTRIES).order_by(_ENTRIES.c.sequence)):
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
        return self._write(lambda connection: _take(connection, pair, procedure_id, taken_at, cool_down_seconds, renew))

    def cool_down(self, pair: str, procedure_id: str, cool_down_seconds: float) -> CoolDown | None:
        """Read the cool-down that ran when a procedure took the pair; None if none ran or the pair was never taken."""
        first = self._read(
            select(_LEASES)
            .where(_LEASES.c.pair == pair, _LEASES.c.holder == procedure_id)
            .order_by(_LEASES.c.epoch)
            .limit(1)
        )
        if not first:
            return None
        taken = _lease(first[0])
        ended = self._read(_last_end(pair, taken.epoch))
        return _cool_down(ended[0] if ended else None, taken.taken_at, cool_down_seconds)

    def check_lease(self, pair: str, procedure_id: str, epoch: int) -> None:
        """Raise LeaseLost unless the procedure holds the pair under this epoch; Superseded for its own newer epoch."""
        rows = self._read(_newest_lease(pair))
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
        self._write(lambda connection: _release(connection, pair, procedure_id, epoch, str(outcome), released_at))

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

        def hand_over(connection: Connection) -> int:
            epoch = _pass(connection, pair, giver, taker, outcome, at, seen)
            _add(connection, *told[:3], epoch, at, text)
            return epoch

        return self._write(hand_over)

    def lease(self, pair: str) -> Lease | None:
        """The newest lease of a pair, released or not."""
        rows = self._read(_newest_lease(pair))
        return _lease(rows[0]) if rows else None

    def show_life(self, name: str) -> None:
        """Store a service's sign of life. Only the newest is kept; it is no entry, and proves nothing later."""
        at = _iso(self._clock())

        def replace(connection: Connection) -> None:
            connection.execute(_SIGNS.delete().where(_SIGNS.c.name == str(name)))
            connection.execute(_SIGNS.insert().values(name=str(name), at=at))

        self._write(replace)

    def last_sign(self, name: str) -> datetime | None:
        """When something which always runs showed life last, in UTC; None if it never did."""
        rows = self._read(select(_SIGNS.c.at).where(_SIGNS.c.name == str(name)))
        return datetime.fromisoformat(rows[0].at) if rows else None

    def _read(self, query: Any) -> list[Row[Any]]:
        with self._translated("readable"), self._engine.connect() as connection:
            return list(connection.execute(query))

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        """One transaction; repeated when another writer was first."""
        with self._translated("writable"):
            return self._repeated(lambda: self._transaction(work))

    def _repeated(self, work: Callable[[], _T]) -> _T:
        attempts = Retrying(
            retry=retry_if_exception(_another_was_first),
            stop=stop_after_delay(self._lock_seconds),
            wait=wait_random_exponential(0.01, max=0.5),
            reraise=True,
        )
        return attempts(work)

    def _has_tables(self) -> bool:
        return set(_TABLES.tables) <= set(inspect(self._engine).get_table_names())

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        with self._engine.connect().execution_options(switchback_write=True) as connection, connection.begin():
            return work(connection)

    @contextmanager
    def _translated(self, ability: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, ImportError) as error:
            seen = getattr(error, "orig", None) or error
            next_step = "make room or repair the database; without a journal nothing is done"
            raise SystemUnavailable(
                f"the journal is not {ability}: {self._name}", one_line(str(seen).partition("\n")[0]), next_step
            ) from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Durable and shared between processes; transactions are begun by us (see `_begin_sqlite`)."""
    connection.isolation_level = None
    cursor = connection.cursor()
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Writers lock at once: two that upgrade from reading would fail each other."""
    writes = connection.get_execution_options().get("switchback_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _another_was_first(error: BaseException) -> bool:
    """Whether a transaction lost against another writer: same sequence, same epoch, or not serialisable."""
    if not isinstance(error, DBAPIError):
        return False
    sqlstate = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    text = str(error.orig)
    return sqlstate in _LOST_RACES or "database is locked" in text or "UNIQUE constraint failed" in text


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
