"""Looks at a journal's database without creating, migrating or writing anything in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, inspect

from kafka_dr.domain.doctor.durability import ServerSettings
from kafka_dr.hooks.journal.database import Database, open_database
from kafka_dr.hooks.journal.schema import read_revision

_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names", "server_version")
#: Table -> rights that Switchback's role needs; README.md, Journal.
TABLE_RIGHTS: Mapping[str, str] = {
    "entries": "SELECT INSERT",
    "leases": "SELECT INSERT UPDATE",
    "notices": "SELECT INSERT UPDATE",
    "signs_of_life": "SELECT INSERT DELETE",
}
_RIGHT = "SELECT has_table_privilege(%s, %s)"
_MAY_CREATE = "SELECT has_schema_privilege(current_schema(), 'CREATE')"
_STANDBYS = "SELECT count(*) FROM pg_stat_replication"
_LOCK_SECONDS = 9.0


class JournalLook(NamedTuple):
    """What was seen of the journal's database.

    Attributes:
        name: of the database, without password.
        file: the file of SQLite; None on a server.
        exists: whether there is a database to look at; a file of SQLite may be created later.
        revision: of the schema; None without tables.
        server: settings of PostgreSQL; None on SQLite.
        time: by the clock of the server; None on SQLite, whose clock is that of this machine.
    """

    name: str
    file: Path | None
    exists: bool
    revision: str | None = None
    server: ServerSettings | None = None
    time: datetime | None = None


def look_at_journal(url: str) -> JournalLook:
    """Return what can be seen of the journal's database.

    Raises:
        BadInput: the URL cannot be used.
        SystemUnavailable: the database does not answer, refuses the login, or accepts no writes.
    """
    file = sqlite_file(url)
    if file is not None and not file.exists():
        return JournalLook(str(file), file, False)
    database = open_database(url, _LOCK_SECONDS)
    revision = database.look(read_revision)
    if file is not None:
        return JournalLook(str(file), file, True, revision)
    server = database.look(_server_settings)
    return JournalLook(database.name, None, True, revision, server, time_of(database))


def time_of(database: Database) -> datetime:
    """Return the time by the database's clock."""
    return database.look(database.time_in)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a URL of SQLite; None for any other URL, and for a database in memory."""
    path = url.removeprefix("sqlite:///").partition("?")[0]
    if path == url or not path or ":memory:" in path:
        return None
    return Path(path.removeprefix("file:")).absolute()


def _server_settings(connection: Connection) -> ServerSettings:
    def ask(query: str, *given: str) -> object:
        return connection.exec_driver_sql(query, given).scalar_one()

    settings = {name: str(ask("SELECT current_setting(%s)", name)) for name in _SETTINGS}
    tables = [table for table in TABLE_RIGHTS if inspect(connection).has_table(table)]
    missing = [
        f"{right} on {table}"
        for table in tables
        for right in TABLE_RIGHTS[table].split()
        if not ask(_RIGHT, table, right)
    ]
    standbys = int(str(ask(_STANDBYS)))
    return ServerSettings(settings["server_version"], settings, standbys, tuple(missing), bool(ask(_MAY_CREATE)))
