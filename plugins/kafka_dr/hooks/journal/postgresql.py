"""The journal's database on PostgreSQL, by psycopg.

Invariants, beside those of `journal_database`
1. A writer's turn is an advisory lock: whoever has it sees all that was committed before, and nobody else writes.
2. A signal's handler ends every wait by its error; the connection is dropped, and with it the transaction.
3. A commit that got no clear answer is unknown: it is never repeated, and never taken for done.
4. A server that does not take writes may be behind: it is not read either.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import DBAPIError

from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.journal.database import Database
from kafka_dr.hooks.redaction import one_line

_T = TypeVar("_T")
#: The advisory lock of writers, one for each database. Any number that nothing else in the database takes.
TURN = 1937204578
#: Beyond the wait for a turn: for what a transaction does in it.
_WORK_SECONDS = 5
_READ_ONLY = ("session is read-only", "read-only transaction", "cannot set transaction read-write mode")
_MAY_NOT = ("42501", "3F000")
_WHO_HAS_IT = """
SELECT pid, application_name, client_addr, state, xact_start
FROM pg_locks JOIN pg_stat_activity USING (pid) JOIN pg_database ON pg_database.oid = database
WHERE granted AND locktype = 'advisory' AND (classid, objid, objsubid) = (0, %s, 1)
  AND pg_database.datname = current_database()
"""


class Session(psycopg.Connection[Any]):
    """A connection to the server, for one transaction, that waits for no answer after its end."""

    ends = math.inf

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server; an answer that does not come in time closes the connection."""
        left = max(0.0, self.ends - time.monotonic())
        try:
            return super().wait(gen, interval, left if timeout is None else min(left, timeout))
        except psycopg.OperationalError:
            if time.monotonic() < self.ends:
                raise
            self.close()
            raise psycopg.OperationalError("the server did not answer in time") from None


class PostgresqlDatabase(Database):
    """A server that takes writes; of several hosts in the URL the first that does."""

    def __init__(self, url: URL, lock_seconds: float) -> None:
        third = max(1, math.ceil(lock_seconds / 3))
        # A URL may name three hosts; libpq takes whole seconds, two at least.
        patience = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, third)}
        # A pool such as pgbouncer knows no prepared statements: each transaction may meet another session.
        settings = {"target_session_attrs": "read-write", "client_encoding": "utf8", "prepare_threshold": None}
        super().__init__(url, lock_seconds, connect_args=settings | patience)
        event.listen(self.engine, "do_connect", self._connect)
        self._take_turn = _turn_taken(math.ceil(lock_seconds * 1000), third * 1000)

    def _connect(self, _dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Session:
        parameters.setdefault("fallback_application_name", f"switchback {os.getpid()} {socket.gethostname()}")
        session = Session.connect(*arguments, **parameters)
        encoding = session.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            session.close()
            raise BadInput(
                "the journal's database does not keep all text",
                f"its encoding is {encoding}: {self.name}",
                "make a database with ENCODING 'UTF8' and name that one",
            )
        session.ends = time.monotonic() + self.lock_seconds + _WORK_SECONDS
        session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # Told to the server at each BEGIN, which a standby refuses: behind a pool it may be another one by now.
        session.read_only = False
        return session

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection that is dropped after an error, as it may still wait for an answer; the server does the rest."""
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
            self._wait_for_turn(connection)
            result = work(connection)
            self._commit(connection)
            return result

    def _wait_for_turn(self, connection: Connection) -> None:
        try:
            connection.exec_driver_sql(self._take_turn)
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            connection.rollback()
            raise self._no_turn(connection) from None

    def _no_turn(self, connection: Connection) -> SystemUnavailable:
        """Say who has the turn; what PostgreSQL does not show to our role stays empty."""
        waited = f"another writer kept its turn for all of the {self.lock_seconds:g} s that this one waited"
        row = connection.exec_driver_sql(_WHO_HAS_IT, (TURN,)).first()
        if row is None:
            return SystemUnavailable(
                f"the journal is not writable: {self.name}", f"{waited}; now it is free", "try again"
            )
        who = f"process {row.pid} ({row.application_name}) from {row.client_addr}, {row.state} since {row.xact_start}"
        return SystemUnavailable(
            f"the journal is not writable: {self.name}",
            f"{waited}: {one_line(who)}",
            f"look at that process; if it hangs, end it on the server: SELECT pg_terminate_backend({row.pid})",
        )

    def _commit(self, connection: Connection) -> None:
        warnings: list[str] = []
        session: Any = connection.connection.driver_connection
        session.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        try:
            connection.commit()
        except DBAPIError as error:
            # An error with the connection still open is the server's own word that it rolled back.
            if not error.connection_invalidated:
                raise
            raise self._unknown(str(error.orig)) from None
        # A wait for the standby that somebody cancels ends in a warning and a commit on this server alone.
        if warnings:
            raise self._unknown(warnings[0])

    def _unknown(self, seen: str) -> SystemUnavailable:
        return SystemUnavailable(
            f"it is unknown whether the journal was written: {self.name}",
            one_line(seen.partition("\n")[0]),
            "see that the database and its standby are well; a step that is tried again looks at what was written",
        )

    def _next_step(self, error: Exception) -> str:
        cause = getattr(error, "orig", None)
        if any(words in str(cause) for words in _READ_ONLY):
            return "name the server that takes writes, or all of them (?host=a:5432&host=b:5432); no other one is read"
        if getattr(cause, "sqlstate", None) in _MAY_NOT:
            return (
                "GRANT the journal's role SELECT, INSERT on entries, SELECT, INSERT, UPDATE on leases and SELECT,"
                " INSERT, DELETE on signs_of_life; where these are missing, open the journal once as a role that may"
                " make them"
            )
        return super()._next_step(error)


def _turn_taken(wait: int, pause: int) -> str:
    """Statements that begin a transaction which writes, whatever role and database have set; in milliseconds.

    Args:
        wait: for any lock, the turn's included.
        pause: after which whoever stands still in its turn loses it; less than others wait.
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
