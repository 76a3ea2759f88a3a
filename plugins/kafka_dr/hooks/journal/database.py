"""The journal's database behind one SQLAlchemy URL: the part that SQLite and PostgreSQL share, and SQLite.

Invariants
1. One writer at a time: a writing transaction excludes other writers from its beginning to its end.
2. When a write returns, its data are on disk; an unknown result is an error.
3. Every wait, for other writers or for a server, has a time limit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Row, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.journal.clock import utc_now
from kafka_dr.hooks.journal.schema import is_newest, load_alembic, migrate_schema
from kafka_dr.hooks.private_files import private_file
from kafka_dr.hooks.redaction import one_line
from kafka_dr.interrupts import hold_back

_T = TypeVar("_T")
_URL_EXAMPLES = "sqlite:////path/journal.db or postgresql+psycopg://user:password@host/database"
_LOST_RACE_ERRORS = ("database is locked", "UNIQUE constraint failed")


def open_database(url: str, lock_seconds: float) -> Database:
    """Return the database behind a URL; no connection is opened yet.

    Raises:
        BadInput: the text is no SQLAlchemy URL.
        SystemUnavailable: the driver is not installed, or not among the tested drivers.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    # An unescaped `@` in a password: the text behind it would be taken for the host, and shown in errors.
    if parsed is None or "@" in (parsed.host or ""):
        raise BadInput(
            "the journal's address is not a SQLAlchemy URL",
            next_step="give the Airflow connection under `journal` in the topology a URL such as"
            f" {_URL_EXAMPLES}; write an @ in a password as %40, several hosts as ?host=a&host=b",
        )
    if parsed.get_backend_name() == "sqlite":
        return SqliteDatabase(parsed, lock_seconds)
    if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
        raise SystemUnavailable(
            "the journal is not usable: its database or driver is not supported",
            parsed.drivername,
            f"give the Airflow connection under `journal` in the topology a URL such as {_URL_EXAMPLES}",
        )
    try:
        from kafka_dr.hooks.journal.postgresql import shared_database  # noqa: PLC0415 (its driver is an extra)
    except ImportError as error:
        raise SystemUnavailable(
            "the journal is not usable: PostgreSQL's driver is missing",
            str(error),
            "install requirements.txt, or Switchback's extra `postgres`, in the Python of Airflow's tasks",
        ) from None
    return shared_database(parsed.set(drivername="postgresql+psycopg"), lock_seconds)


class Database:
    """The common part of SQLite and PostgreSQL.

    Attributes:
        files: the database's folder and files on this machine; () for a server and for a database in memory.
        clock: whose clock states the journal's times, in words.
    """

    files: tuple[Path, ...] = ()
    clock = "the clock of the machine that wrote the journal's entry (the journal is a file of SQLite)"

    def __init__(self, url: URL, lock_seconds: float, **options: Any) -> None:
        """Create the SQLAlchemy engine; no connection is opened yet.

        Args:
            url: database and driver.
            lock_seconds: how long to wait for other writers' transactions, in seconds.
            options: further options of SQLAlchemy's engine.
        """
        self.lock_seconds = lock_seconds
        shown = {key: url.query[key] for key in ("host", "port") if key in url.query}
        # The name is shown in errors: of the URL's query only host and port, as other parts may hold a password.
        self.name = url.set(query=shown).render_as_string(hide_password=True)
        with self._translated("usable"):
            self.engine = create_engine(url, hide_parameters=True, **options)

    def update_schema(self) -> None:
        """Bring the schema to the newest revision; write nothing if the schema is up to date.

        Raises:
            BadInput: the database has an unknown schema; nothing was changed.
        """
        with self._translated("usable"):
            if not self._opening(is_newest):
                load_alembic()
                self._writing(migrate_schema)

    def look(self, work: Callable[[Connection], _T]) -> _T:
        """Call `work`, which only reads, in one transaction; return its result. The schema may be of any revision."""
        with self._translated("readable"):
            return self._reading(work)

    def read(self, query: Any, check: Callable[[Connection], object]) -> list[Row[Any]]:
        """Call `check` and run a query, in one transaction; return all rows."""

        def work(connection: Connection) -> list[Row[Any]]:
            check(connection)
            return list(connection.execute(query))

        with self._translated("readable"):
            return self._reading(work)

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """Call `work` in one writing transaction and return its result; on return the data are on disk.

        On SQLite, if another writer was first, the transaction is rolled back and `work` is called again. A deadline
        interrupts the wait for other writers, but neither `work` nor the commit.
        """
        with self._translated("writable"):
            return self._writing(work)

    def now(self) -> datetime:
        """Return the time by which the journal's times are judged, in UTC."""
        raise NotImplementedError

    def time_in(self, connection: Connection) -> datetime:
        """Return the time of what a transaction writes now, in UTC."""
        raise NotImplementedError

    def _opening(self, work: Callable[[Connection], _T]) -> _T:
        return self._reading(work)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    def _writing(self, work: Callable[[Connection], _T]) -> _T:
        raise NotImplementedError

    def _may_pass(self, _error: Exception) -> bool:
        return False

    def _next_step(self, _error: Exception) -> str:
        return (
            "make sure that the journal's database runs, can be read and written from this machine and has room on its"
            " disk; without the journal no step acts"
        )

    @contextmanager
    def _translated(self, ability: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, ImportError) as error:
            seen = getattr(error, "orig", None) or error
            raise SystemUnavailable(
                f"the journal is not {ability}: {self.name}",
                _short_error(str(seen)),
                self._next_step(error),
                self._may_pass(error),
            ) from None


def _short_error(text: str) -> str:
    """Return an error's text on one line: the first line, or after tries of several servers the result of each try."""
    first, _, rest = text.partition("\n")
    return one_line(rest.partition("\n")[2] or first, 600) if "connection attempts" in rest else one_line(first)


class SqliteDatabase(Database):
    """A SQLite file; its locks exclude writers of other processes."""

    def __init__(self, url: URL, lock_seconds: float) -> None:
        # A forked task must not use a file that its parent has opened.
        super().__init__(url, lock_seconds, poolclass=NullPool, connect_args={"timeout": lock_seconds})
        if file := _file_of(url):
            # SQLite's further files: the write-ahead log, its index, and a journal while the mode is changed.
            self.files = (file.parent, file, *(Path(f"{file}-{suffix}") for suffix in ("wal", "shm", "journal")))
            if not file.exists():
                # SQLite gives its further files the mode of this one. If the folder is missing, SQLite reports that.
                with suppress(OSError):
                    private_file(file)
            if "uri" not in url.query:
                event.listen(self.engine, "do_connect", partial(_connect_existing, file))
        event.listen(self.engine, "connect", _prepare_sqlite)
        event.listen(self.engine, "begin", _begin_sqlite)

    def now(self) -> datetime:
        """Return the time of this machine, on which the file is."""
        return utc_now()

    def time_in(self, connection: Connection) -> datetime:
        """Return the time of this machine."""
        return utc_now()

    def _opening(self, work: Callable[[Connection], _T]) -> _T:
        """Read when the journal is opened; repeat the read after a lock error.

        The lock error arises when another process is just creating the file and setting its journal mode.
        """
        return self._repeat(lambda: self._reading(work))

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self.engine.connect() as connection:
            return work(connection)

    def _writing(self, work: Callable[[Connection], _T]) -> _T:
        """Call `work` in one writing transaction; repeat this if another writer was first."""
        return self._repeat(lambda: self._transaction(work))

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        with self.engine.connect().execution_options(switchback_write=True) as connection:
            begun = connection.begin()
            with hold_back(), begun:
                return work(connection)

    def _repeat(self, work: Callable[[], _T]) -> _T:
        attempts = Retrying(
            retry=retry_if_exception(_is_lost_race),
            stop=stop_after_delay(self.lock_seconds),
            wait=wait_random_exponential(0.01, max=0.5),
            reraise=True,
        )
        return attempts(work)


def _file_of(url: URL) -> Path | None:
    """Return the file of a SQLite database; None if the database is in memory."""
    name = (url.database or "").removeprefix("file:")
    return Path(name).absolute() if name and ":memory:" not in name else None


def _connect_existing(
    file: Path, _dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]
) -> sqlite3.Connection:
    """Connect to a file that exists.

    Where the file was deleted, SQLite would create an empty journal, readable by all users, in the next process that
    still has the lost journal open.
    """
    connection: sqlite3.Connection = sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, **options)
    return connection


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Set a new connection to write-ahead log and full sync; `_begin_sqlite`, not the driver, begins transactions."""
    connection.isolation_level = None
    cursor = connection.cursor()
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; a writing transaction takes SQLite's write lock at once (BEGIN IMMEDIATE).

    Two transactions that first read, and lock only to write, would block each other.
    """
    writes = connection.get_execution_options().get("switchback_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_lost_race(error: BaseException) -> bool:
    """Whether another writer was first: it has the lock, or has written the same sequence number or epoch."""
    return isinstance(error, DBAPIError) and any(text in str(error.orig) for text in _LOST_RACE_ERRORS)
