"""Where the journal's tables lie, behind one SQLAlchemy URL: how they are read and written; here on SQLite.

Invariants
1. One writer at a time: a transaction that writes has its turn from its beginning to its end.
2. What was written is on disk; where that cannot be known an error says so.
3. Whoever waits, for a turn or for a server, ends in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, MetaData, Row, create_engine, event, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.redaction import one_line

_T = TypeVar("_T")
_WRITTEN = "sqlite:////path/journal.db or postgresql+psycopg://user:password@host/database"
_LOST_RACES = ("database is locked", "UNIQUE constraint failed")


def open_database(url: str, lock_seconds: float) -> Database:
    """The database behind a URL.

    Raises:
        BadInput: it is no URL.
        SystemUnavailable: the driver is not installed, or another one than was tried.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    # The rest of a password that has an `@` in it would be taken for a host, and shown.
    if parsed is None or "@" in (parsed.host or ""):
        raise BadInput(
            "the journal's address is not a SQLAlchemy URL",
            next_step=f"give it as {_WRITTEN}; write an @ in a password as %40, several hosts as ?host=a&host=b",
        )
    if parsed.get_backend_name() == "sqlite":
        return SqliteDatabase(parsed, lock_seconds)
    if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
        raise SystemUnavailable(
            "the journal is not usable: its database or driver is one that was never tried",
            parsed.drivername,
            f"give {_WRITTEN}",
        )
    try:
        from kafka_dr.hooks.journal.postgresql import PostgresqlDatabase  # noqa: PLC0415 (its driver is an extra)
    except ImportError as error:
        raise SystemUnavailable(
            "the journal is not usable: PostgreSQL's driver is missing",
            str(error),
            "install requirements.txt, or the extra `postgres`",
        ) from None
    return PostgresqlDatabase(parsed.set(drivername="postgresql+psycopg"), lock_seconds)


class Database:
    """What SQLite and PostgreSQL have in common. Connections are not kept, so that a forked task never shares one."""

    def __init__(self, url: URL, lock_seconds: float, **options: Any) -> None:
        """Prepare the way to a database; nothing is connected yet.

        Args:
            url: names database and driver.
            lock_seconds: how long to wait for other writers.
            options: further ones for SQLAlchemy's engine.
        """
        self.lock_seconds = lock_seconds
        shown = {key: url.query[key] for key in ("host", "port") if key in url.query}
        # What else stands in a query may be a password, too.
        self.name = url.set(query=shown).render_as_string(hide_password=True)
        with self._translated("usable"):
            self.engine = create_engine(url, poolclass=NullPool, hide_parameters=True, **options)

    def make_tables(self, tables: MetaData) -> None:
        """Make the tables that are missing; writes nothing where all are there."""
        with self._translated("usable"):
            if not set(tables.tables) <= self._opening(lambda connection: set(inspect(connection).get_table_names())):
                self._writing(tables.create_all)

    def read(self, query: Any) -> list[Row[Any]]:
        """All rows of a query."""
        with self._translated("readable"):
            return self._reading(lambda connection: list(connection.execute(query)))

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """Do work in one transaction that has its turn; it is on disk when this returns."""
        with self._translated("writable"):
            return self._writing(work)

    def _opening(self, work: Callable[[Connection], _T]) -> _T:
        return self._reading(work)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    def _writing(self, work: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    def _next_step(self, _error: Exception) -> str:
        return "make room or repair the database; without a journal nothing is done"

    @contextmanager
    def _translated(self, ability: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, ImportError) as error:
            seen = getattr(error, "orig", None) or error
            raise SystemUnavailable(
                f"the journal is not {ability}: {self.name}", _told(str(seen)), self._next_step(error)
            ) from None


def _told(text: str) -> str:
    """The first line of an error; where several servers were tried, what became of each."""
    first, _, rest = text.partition("\n")
    return one_line(rest.partition("\n")[2] or first, 600) if "connection attempts" in rest else one_line(first)


class SqliteDatabase(Database):
    """A file; writers of several processes share it by its locks."""

    def __init__(self, url: URL, lock_seconds: float) -> None:
        super().__init__(url, lock_seconds, connect_args={"timeout": lock_seconds})
        event.listen(self.engine, "connect", _prepare_sqlite)
        event.listen(self.engine, "begin", _begin_sqlite)

    def _opening(self, work: Callable[[Connection], _T]) -> _T:
        """Another process may be giving the new file its mode."""
        return self._repeated(lambda: self._reading(work))

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self.engine.connect() as connection:
            return work(connection)

    def _writing(self, work: Callable[[Connection], _T]) -> _T:
        """One transaction; repeated when another writer was first."""
        return self._repeated(lambda: self._transaction(work))

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        with self.engine.connect().execution_options(switchback_write=True) as connection, connection.begin():
            return work(connection)

    def _repeated(self, work: Callable[[], _T]) -> _T:
        attempts = Retrying(
            retry=retry_if_exception(_another_was_first),
            stop=stop_after_delay(self.lock_seconds),
            wait=wait_random_exponential(0.01, max=0.5),
            reraise=True,
        )
        return attempts(work)


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
    """Whether a transaction lost against another writer: the lock, the same sequence, or the same epoch."""
    return isinstance(error, DBAPIError) and any(text in str(error.orig) for text in _LOST_RACES)
