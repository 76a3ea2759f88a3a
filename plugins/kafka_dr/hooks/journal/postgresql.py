"""The journal's database on PostgreSQL, reached with the driver psycopg.

Invariants, in addition to those of `database`
1. Writers exclude each other by an advisory lock, taken before a writing transaction's first read: the lock's holder
   sees all earlier commits.
2. An exception from a signal handler ends every wait; the connection is dropped, and with it the transaction.
3. The result of a commit without a clear answer is unknown: the commit is neither repeated nor taken for done.
4. A server that does not accept writes may lag behind: the journal is not read from such a server either.
5. A connection is used again only after a transaction that ended well, only if the connection answers, and never by a
   forked process. Nothing but the test of a connection is repeated.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.pool import QueuePool

from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.journal.clock import DatabaseClock
from kafka_dr.hooks.journal.database import Database
from kafka_dr.hooks.redaction import one_line
from kafka_dr.interrupts import hold_back

_T = TypeVar("_T")
#: Key of the writers' advisory lock, one lock per database; any number that no other program uses in the database.
TURN = 1937204578
#: Time for a transaction's statements, added to the wait for the lock.
_WORK_SECONDS = 5
_READ_ONLY = ("session is read-only", "read-only transaction", "cannot set transaction read-write mode")
_MISSING_RIGHTS = ("42501", "3F000")
#: Classes of PostgreSQL's errors that pass: of connections, of resources, and of a server that starts or ends.
_PASSING = ("08", "53", "57")
_LOCK_HOLDER = """
SELECT pid, application_name, client_addr, state, xact_start
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON pg_database.oid = database
WHERE granted AND locktype = 'advisory' AND (classid, objid, objsubid) = (0, %s, 1)
  AND pg_database.datname = current_database()
"""


#: A server that vanishes is noticed within these limits, unless the URL states others; seconds, and milliseconds.
_TCP_LIMITS = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
#: Connections that one process keeps for its next transactions; threads that need more open some for a moment.
_KEPT_CONNECTIONS = 2
#: How long a connection that was used before may take to answer, in seconds.
_PING_SECONDS = 3.0
#: Whether the server accepts no writes any more. A new connection would have the settings of database and role.
_IS_READ_ONLY = """
SELECT current_setting('transaction_read_only') = 'on' OR EXISTS (
  SELECT FROM pg_db_role_setting LEFT JOIN pg_database ON setdatabase = pg_database.oid
  WHERE coalesce(datname, current_database()) = current_database()
    AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))
    AND array_to_string(setconfig, ' ') ~ 'default_transaction_read_only=(on|true|yes|1)')
"""
_engines: WeakSet[Engine] = WeakSet()


class Session(psycopg.Connection[Any]):
    """A connection; every wait for the server ends at `ends` (monotonic seconds).

    Attributes:
        used: whether the connection was used for a transaction before.
    """

    ends = math.inf
    used = False

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server; if it has not answered at `ends`, close the connection and raise OperationalError.

        psycopg calls this method for each wait. The parameters are those of psycopg's method of the same name.
        """
        remaining = max(0.0, self.ends - time.monotonic())
        try:
            return super().wait(gen, interval, remaining if timeout is None else min(remaining, timeout))
        except psycopg.OperationalError:
            if time.monotonic() < self.ends:
                raise
            self.close()
            raise psycopg.OperationalError("the server did not answer in time") from None

    def ping(self) -> None:
        """Raise psycopg.OperationalError unless the server answers within a few seconds, and accepts writes."""
        self.ends = time.monotonic() + _PING_SECONDS
        self.autocommit = True
        row = self.execute(_IS_READ_ONLY).fetchone()
        self.autocommit = False
        if row is None or row[0]:
            raise psycopg.OperationalError("the server accepts no writes any more")


@lru_cache(maxsize=4)
def shared_database(url: URL, lock_seconds: float) -> PostgresqlDatabase:
    """Return the process's object for a database, so that all journals of the process share its connections."""
    return PostgresqlDatabase(url, lock_seconds)


def _forget_connections() -> None:
    """In a forked process: leave the parent's connections to the parent, unclosed."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)


class PostgresqlDatabase(Database):
    """PostgreSQL, on the first host of the URL that accepts writes."""

    clock = "the clock of the journal's PostgreSQL server"

    def __init__(self, url: URL, lock_seconds: float) -> None:
        third = max(1, math.ceil(lock_seconds / 3))
        # A third of the wait per host, as a URL may name three; libpq takes whole seconds, two at least.
        limits = {"connect_timeout": max(2, third)} | _TCP_LIMITS
        unstated = {name: limit for name, limit in limits.items() if name not in url.query}
        # Behind a pool such as pgbouncer each transaction may use another session: no prepared statements.
        settings = {"target_session_attrs": "read-write", "client_encoding": "utf8", "prepare_threshold": None}
        pool = {"poolclass": QueuePool, "pool_size": _KEPT_CONNECTIONS, "max_overflow": -1}
        super().__init__(url, lock_seconds, connect_args=settings | unstated, **pool)
        _engines.add(self.engine)
        event.listen(self.engine, "do_connect", self._connect)
        event.listen(self.engine, "checkout", self._check_out)
        self._lock_statements = _build_lock_statements(math.ceil(lock_seconds * 1000), third * 1000)
        self._clock = DatabaseClock(self._ask_time)

    def now(self) -> datetime:
        """Return the server's time, which is the same for all machines; the server is asked every few seconds."""
        return self._clock.now()

    def time_in(self, connection: Connection) -> datetime:
        """Return the server's time now, not the time at which the transaction began."""
        # A number, because the text of a time depends on the settings of role and database.
        seconds = connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one()
        return datetime.fromtimestamp(float(seconds), UTC)

    def _ask_time(self) -> datetime:
        with self._translated("readable"):
            return self._reading(self.time_in)

    def _connect(self, _dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Session:
        parameters.setdefault("fallback_application_name", f"switchback {os.getpid()} {socket.gethostname()}")
        session = Session.connect(*arguments, **parameters)
        encoding = session.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            session.close()
            raise BadInput(
                "the journal's database cannot store every text",
                f"encoding {encoding} of {self.name}",
                "create a database with ENCODING 'UTF8' and name that database in the journal's connection",
            )
        session.ends = time.monotonic() + self.lock_seconds + _WORK_SECONDS
        session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # With this, each BEGIN demands read-write, which a standby refuses: behind a pool the server may have changed.
        session.read_only = False
        return session

    def _check_out(self, session: Session, _record: Any, _proxy: Any) -> None:
        """Limit the transaction's time; test a connection that was used before. The pool replaces one that fails."""
        if session.used:
            try:
                session.ping()
            except psycopg.Error as error:
                raise DisconnectionError(str(error)) from None
        session.used = True
        session.ends = time.monotonic() + self.lock_seconds + _WORK_SECONDS

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Open a connection for the body. If the body raises an error, drop the connection; the server then rolls back.

        After an error the connection cannot be used, because an answer of the server may still be pending.
        """
        with self.engine.connect() as connection:
            try:
                yield connection
            except BaseException:
                connection.invalidate()
                raise

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self._connected() as connection:
            result = work(connection)
            connection.rollback()
            return result

    def _writing(self, work: Callable[[Connection], _T]) -> _T:
        with self._connected() as connection:
            self._take_lock(connection)
            with hold_back():
                result = work(connection)
                self._commit(connection)
            return result

    def _take_lock(self, connection: Connection) -> None:
        try:
            connection.exec_driver_sql(self._lock_statements)
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            connection.rollback()
            raise self._lock_timeout_error(connection) from None

    def _lock_timeout_error(self, connection: Connection) -> SystemUnavailable:
        """Build the error for a wait in vain for the write lock; it names the PostgreSQL session that has the lock.

        Fields of the session that the journal's PostgreSQL role has no right to read are shown as None.
        """
        waited = (
            f"another process held the journal's write lock for all of the {self.lock_seconds:g} s that this process"
            " waited"
        )
        row = connection.exec_driver_sql(_LOCK_HOLDER, (TURN,)).first()
        if row is None:
            return SystemUnavailable(
                f"the journal is not writable: {self.name}",
                f"{waited}; the lock is free now",
                "nothing was written; the lock is free, so the next try of the task can write",
                may_pass=True,
            )
        who = f"process {row.pid} ({row.application_name}) from {row.client_addr}, {row.state} since {row.xact_start}"
        return SystemUnavailable(
            f"the journal is not writable: {self.name}",
            f"{waited}: {one_line(who)}",
            f"nothing was written. If process {row.pid} hangs, end process {row.pid} on the database server:"
            f" SELECT pg_terminate_backend({row.pid})",
            may_pass=True,
        )

    def _commit(self, connection: Connection) -> None:
        warnings: list[str] = []
        session: Any = connection.connection.driver_connection

        def note(notice: psycopg.errors.Diagnostic) -> None:
            warnings.append(notice.message_primary or "")

        session.add_notice_handler(note)
        try:
            connection.commit()
        except DBAPIError as error:
            # If the connection is still open, the error is the server's own statement that it has rolled back.
            if not error.connection_invalidated:
                raise
            raise self._unknown_result(str(error.orig)) from None
        session.remove_notice_handler(note)
        # If the wait for a synchronous standby is cancelled, the server warns and has committed on itself alone.
        if warnings:
            raise self._unknown_result(warnings[0])

    def _unknown_result(self, seen: str) -> SystemUnavailable:
        return SystemUnavailable(
            f"it is unknown whether the journal was written: {self.name}",
            one_line(seen.partition("\n")[0]),
            "make sure that the database and its standby run; the next try of the step first reads which journal"
            " entries were written",
            may_pass=True,
        )

    def _may_pass(self, error: Exception) -> bool:
        """Whether the server is away, starts, ends, or has too many connections: then it may answer later."""
        cause = getattr(error, "orig", None)
        state = getattr(cause, "sqlstate", None) or ""
        return isinstance(cause, psycopg.OperationalError) and (not state or state[:2] in _PASSING)

    def _next_step(self, error: Exception) -> str:
        cause = getattr(error, "orig", None)
        if any(words in str(cause) for words in _READ_ONLY):
            return (
                "name the server that accepts writes, or all servers (?host=a:5432&host=b:5432), in the journal's"
                " connection; a server that refuses writes is not read either"
            )
        if getattr(cause, "sqlstate", None) in _MISSING_RIGHTS:
            return (
                "GRANT the journal's role SELECT, INSERT on entries, SELECT, INSERT, UPDATE on leases and on notices,"
                " and SELECT, INSERT, DELETE on signs_of_life; if tables are missing or older than this version, open"
                " the journal once with the role that owns them, or may create them"
            )
        return super()._next_step(error)


def _build_lock_statements(wait: int, pause: int) -> str:
    """Return SQL that sets the limits of a writing transaction and takes the writers' lock.

    The limits override the settings of role and database.

    Args:
        wait: how long to wait for any lock, the writers' lock included, in milliseconds.
        pause: how long the transaction may be idle, in milliseconds; less than `wait`, so that an idle writer loses the
            lock before other writers stop waiting.
    """
    return f"""
SET LOCAL lock_timeout = {wait};
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = {pause};
SET LOCAL client_min_messages = warning;
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                                        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
SELECT pg_advisory_xact_lock({TURN})
"""
