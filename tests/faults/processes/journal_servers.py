"""The journal's PostgreSQL at an address that stays, also when another server takes the place of the former one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kafka_dr.hooks.journal.chain import hash_of
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from psycopg.rows import dict_row

from tests.faults.support.scene import until
from tests.support.postgresql import Server, running_server

_DATABASE = "journal"
Rows = tuple[list[Any], list[Any]]


class JournalServers:
    """The server that the journal's address leads to, and the standbys that take its place.

    Attributes:
        url: the journal's SQLAlchemy URL, the same for every server.
        leading: the server at the address.
    """

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._address, self._running, self._numbers = folder / "address", running, itertools.count(1)
        self.url = f"postgresql+psycopg://postgres@/{_DATABASE}?host={self._address}"
        self.leading = running.enter_context(running_server())
        self.leading.execute(f"CREATE DATABASE {_DATABASE}")
        self._move_to(self.leading)
        # Its tables must be older than the first copy.
        self.journal()
        self.keep_copy()

    def _move_to(self, server: Server) -> None:
        aside = self._address.with_suffix(".next")
        aside.symlink_to(server.folder)
        aside.replace(self._address)
        self.leading = server

    def journal(self) -> Journal:
        """The journal on the leading server, over connections of this server's own."""
        return Journal(self.leading.url(_DATABASE))

    def entries(self) -> list[JournalEntry]:
        """All entries on the leading server."""
        return self.journal().entries()

    def rows(self) -> Rows:
        """Everything that a procedure writes: entries and leases, as the leading server has them."""
        entries, leases = (
            self.leading.execute(f"SELECT * FROM {table} ORDER BY 1, 2", database=_DATABASE)
            for table in ("entries", "leases")
        )
        return entries, leases

    def keep_copy(self) -> None:
        """Keep a copy of the leading server's data: only what is written from now on can be lost."""
        self.leading.keep_copy()
        self._kept = len(self.entries())

    @property
    def losable(self) -> int:
        """How many of the newest entries a standby can lack."""
        return len(self.entries()) - self._kept

    # -- promotions ------------------------------------------------------------------------------------------------

    def promote(self) -> None:
        """A synchronous standby takes the place of the leading server, which crashes; nothing is lost."""
        former = self.leading
        standby = self._running.enter_context(running_server(standby_of=former))
        former.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        replicas = "SELECT sync_state FROM pg_stat_replication"
        until(lambda: former.execute(replicas) == [("sync",)], "every commit waits for the standby")
        self._move_to(standby)
        former.restart()
        standby.execute("SELECT pg_promote()")
        self.keep_copy()

    def promote_without(self, lost: int) -> None:
        """A standby that lacks the newest entries takes the place of the leading server for good."""
        standby = self._running.enter_context(self._standby_without(lost))
        self._move_to(standby)
        self.keep_copy()

    @contextmanager
    def promoted_without(self, lost: int, crash: bool = False) -> Iterator[None]:
        """A standby without the newest entries leads; afterwards the former server does again, with what it has.

        Args:
            crash: whether the former server ends its connections, as processes that have some would go on with them.
        """
        former = self.leading
        with self._standby_without(lost) as standby:
            self._move_to(standby)
            if crash:
                former.restart()
            try:
                yield
            finally:
                self._move_to(former)

    @contextmanager
    def _standby_without(self, lost: int) -> Iterator[Server]:
        """Yield a standby that was promoted just after the commit of the last entry that it has."""
        kept = self.leading.execute("SELECT sequence, xmin::text FROM entries ORDER BY 1", database=_DATABASE)[:-lost]
        at = f"recovery_target_xid = {kept[-1][1]}" if lost < self.losable else "recovery_target = 'immediate'"
        with running_server(standby_of=self.leading, promoted_at=at) as standby:
            until(lambda: standby.execute("SELECT NOT pg_is_in_recovery()") == [(True,)], "the promotion")
            held = standby.execute("SELECT sequence FROM entries ORDER BY 1", database=_DATABASE)
            assert held == [(sequence,) for sequence, _ in kept]
            yield standby

    # -- somebody with full rights ---------------------------------------------------------------------------------

    def copy_database(self) -> str:
        """Copy the whole database within the server; return the copy's name."""
        name = f"copy_{next(self._numbers)}"
        self._alone()
        self.leading.execute(f"CREATE DATABASE {name} TEMPLATE {_DATABASE}")
        return name

    def put_back(self, copy: str) -> None:
        """Replace the database by a copy of it."""
        self._alone()
        self.leading.execute(f"DROP DATABASE {_DATABASE}", f"CREATE DATABASE {_DATABASE} TEMPLATE {copy}")

    def _alone(self) -> None:
        self.leading.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_DATABASE}'")
        others = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{_DATABASE}'"
        until(lambda: self.leading.execute(others) == [(0,)], "the end of all connections")

    def delete_last(self) -> None:
        """Delete the newest entry."""
        newest = "(SELECT max(sequence) FROM entries)"
        self.leading.execute(f"DELETE FROM entries WHERE sequence = {newest}", database=_DATABASE)

    def rewrite(self, sequence: int, alter: Callable[[Any], Any]) -> None:
        """Alter one entry's payload, and make its hash and those of all later entries anew."""
        with self.leading.connect(_DATABASE) as connection:
            rows = connection.cursor(row_factory=dict_row)
            rows.execute("SELECT * FROM entries WHERE sequence >= %s ORDER BY sequence", [sequence])
            previous = None
            for row in rows.fetchall():
                if previous is None:
                    row["payload"] = json.dumps(alter(json.loads(row["payload"])), sort_keys=True)
                else:
                    row["previous_hash"] = previous
                previous = hash_of({name: value for name, value in row.items() if name != "hash"})
                connection.execute(
                    "UPDATE entries SET payload = %s, previous_hash = %s, hash = %s WHERE sequence = %s",
                    [row["payload"], row["previous_hash"], previous, row["sequence"]],
                )
        assert self.journal().verify() is None
