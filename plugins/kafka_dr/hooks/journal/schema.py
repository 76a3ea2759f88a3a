"""The schema of the journal's database: its revision, and its migration by Alembic when a journal is opened.

Invariants
1. A database whose tables are not known exactly is refused, and nothing in the database is changed.
2. A migration is one transaction, under the writers' lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from kafka_dr.errors import BadInput

#: The revisions, oldest first.
REVISIONS = ("0001", "0002", "0003")
#: The journal may share its database with other programs, which may also use Alembic.
VERSION_TABLE = "switchback_version"
_VERSION = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32)))
_SCRIPTS = Path(__file__).with_name("migrations")
#: Revision 0001 as it was created before there was a table of the version.
_FIRST_COLUMNS = {
    "entries": "sequence procedure_id step kind epoch at payload previous_hash hash".split(),
    "leases": "pair epoch holder taken_at released_at outcome".split(),
    "signs_of_life": ["name", "at"],
}
#: Along the search path of another role, new tables would be created in another schema than the journal's.
_STAY_IN_SCHEMA = (
    "SELECT set_config('search_path', relnamespace::regnamespace::text, true)"
    " FROM pg_class WHERE oid = to_regclass('entries')"
)
#: Alembic keeps the state of a migration in its modules.
_ONE_THREAD = Lock()


def is_newest(connection: Connection) -> bool:
    """Whether the database has the newest revision of the schema."""
    return read_revision(connection) == REVISIONS[-1]


def migrate_schema(connection: Connection) -> None:
    """Bring the database to the newest revision, within the caller's writing transaction.

    Raises:
        BadInput: the database has an unknown revision, or tables of unknown columns; nothing was changed.
    """
    found = read_revision(connection)
    if found == REVISIONS[-1]:
        return
    if found is not None and found not in REVISIONS:
        raise BadInput(
            "the journal's database has a schema that this version of Switchback does not know",
            f"revision {found} in the table {VERSION_TABLE}; this version knows {', '.join(REVISIONS)}",
            "install the version of Switchback that wrote to this database last, or a newer version; nothing was"
            " changed",
        )
    with _ONE_THREAD, _quiet_alembic():
        _run_alembic(connection, adopt=found is None and _has_first_schema(connection))


def load_alembic() -> None:
    """Import Alembic, which takes half a second: too long under the writers' lock."""
    import_module("alembic.command")


def read_revision(connection: Connection) -> str | None:
    """Return the database's revision; None without a table of the version, or without a row in it."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return " and ".join(sorted(connection.scalars(select(_VERSION.c.version_num)))) or None


def _has_first_schema(connection: Connection) -> bool:
    """Whether the database has the tables of revision 0001; False if it has none of them.

    Raises:
        BadInput: tables are missing, or have other columns.
    """
    inspector = inspect(connection)
    columns = {
        table: [column["name"] for column in inspector.get_columns(table)]
        for table in _FIRST_COLUMNS
        if inspector.has_table(table)
    }
    if columns and columns != _FIRST_COLUMNS:
        seen = "; ".join(f"{table} ({', '.join(names)})" for table, names in columns.items())
        raise BadInput(
            "the journal's database has tables that are no journal of any known version",
            f"no revision in the table {VERSION_TABLE}, and the tables {seen}",
            "name a database of its own in the journal's connection if the tables belong to another program; else"
            " restore the journal's database from a backup. Nothing was changed",
        )
    return bool(columns)


@contextmanager
def _quiet_alembic() -> Iterator[None]:
    """Keep Alembic's progress lines from the standard output of commands, to which Airflow's logging sends them."""
    logger = logging.getLogger("alembic")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _run_alembic(connection: Connection, adopt: bool) -> None:
    """Migrate to the newest revision.

    Args:
        adopt: the tables are of the first revision, although no table says so.
    """
    from alembic import command  # noqa: PLC0415 (only a migration needs it, and most openings migrate nothing)
    from alembic.config import Config  # noqa: PLC0415 (likewise)

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["migration_context"] = {"connection": connection, "version_table": VERSION_TABLE}
    on_postgresql = connection.dialect.name == "postgresql"
    if on_postgresql:
        connection.exec_driver_sql(_STAY_IN_SCHEMA)
    if adopt:
        command.stamp(config, REVISIONS[0])
    command.upgrade(config, REVISIONS[-1])
    if on_postgresql:
        # Each opening reads the revision, also under a role that may only add entries.
        connection.exec_driver_sql(f"GRANT SELECT ON {VERSION_TABLE} TO PUBLIC")
