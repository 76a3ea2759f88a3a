"""The schema of the journal's database: created, adopted, migrated, or refused."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.journal import schema
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import TABLES
from sqlalchemy import Engine, create_engine, event, inspect, text

from tests.support.postgresql import ROOT, Server

#: The tables as the versions before the first migration created them.
FIRST = tuple(
    """
CREATE TABLE entries (sequence INTEGER NOT NULL PRIMARY KEY, procedure_id VARCHAR(300) NOT NULL,
  step VARCHAR(100) NOT NULL, kind VARCHAR(50) NOT NULL, epoch INTEGER NOT NULL, at VARCHAR(40) NOT NULL,
  payload TEXT NOT NULL, previous_hash VARCHAR(64) NOT NULL, hash VARCHAR(64) NOT NULL);
CREATE INDEX ix_entries_procedure_id ON entries (procedure_id);
CREATE TABLE leases (pair VARCHAR(300) NOT NULL, epoch INTEGER NOT NULL, holder VARCHAR(300) NOT NULL,
  taken_at VARCHAR(40) NOT NULL, released_at VARCHAR(40), outcome VARCHAR(50), PRIMARY KEY (pair, epoch));
CREATE INDEX ix_leases_holder ON leases (holder);
CREATE TABLE signs_of_life (name VARCHAR(100) NOT NULL PRIMARY KEY, at VARCHAR(40) NOT NULL)
""".split(";")
)
NEWEST = [(schema.REVISIONS[-1],)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    server: Server = request.getfixturevalue("postgresql")
    return server.url(server.make_database())


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements in one transaction; return the rows of the last."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements:
                result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def whole_schema(url: str) -> dict[str, Any]:
    """Every table with its columns and indexes."""
    engine = create_engine(url)
    try:
        seen = inspect(engine)
        return {
            table: ([column["name"] for column in seen.get_columns(table)], seen.get_indexes(table))
            for table in seen.get_table_names()
        }
    finally:
        engine.dispose()


def version(url: str) -> list[tuple[Any, ...]]:
    """The revision that the database names."""
    return execute(url, f"SELECT version_num FROM {schema.VERSION_TABLE}")


@contextmanager
def counted_statements() -> Any:
    """Every statement that any engine sends meanwhile."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_the_scripts_end_where_the_product_reads() -> None:
    """The revisions that the product names are those of the scripts, in their order."""
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).with_name("migrations")))
    scripts = list(ScriptDirectory.from_config(config).walk_revisions())
    assert [script.revision for script in reversed(scripts)] == list(schema.REVISIONS)


def test_a_migrated_database_has_the_tables_that_queries_use(url: str) -> None:
    """Column by column and index by index, created or adopted."""
    Journal(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, TABLES) == []
    engine.dispose()


def test_a_journal_without_revision_is_adopted(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of the first schema keep their rows, and end as a new journal begins; nothing is printed."""
    execute(url, *FIRST, "INSERT INTO signs_of_life VALUES ('watcher', '2026-11-20T12:00:00.000000+00:00')")
    journal = Journal(url)
    assert journal.last_sign("watcher") is not None
    assert journal.append("p", "s", "note", 0, {}).sequence == 1 and journal.verify() is None
    assert version(url) == NEWEST and capsys.readouterr().out == ""
    assert "ix_entries_step_kind" in {index["name"] for index in whole_schema(url)["entries"][1]}
    assert whole_schema(url)["signs_of_life"][0] == ["name", "at", "detail"]


def test_an_older_version_works_on_a_migrated_journal(url: str) -> None:
    """The statements of revision 0001 stay valid: a worker that is updated last does not stand still."""
    Journal(url)
    execute(url, "INSERT INTO signs_of_life (name, at) VALUES ('watcher', '2026-11-20T12:00:00.000000+00:00')")
    assert Journal(url).last_sign("watcher") is not None


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (("CREATE TABLE entries (id INTEGER)",), r"entries \(id\)"),
        ((*FIRST, "ALTER TABLE leases ADD COLUMN more INTEGER"), r"leases \(.*, more\)"),
        (FIRST[:2], "no journal of any known version"),
        (
            (*FIRST, "CREATE TABLE switchback_version (version_num VARCHAR(32))",
             "INSERT INTO switchback_version VALUES ('0099')"),
            "revision 0099.*knows 0001, 0002.*install the version",
        ),
        (
            (*FIRST, "CREATE TABLE switchback_version (version_num VARCHAR(32))",
             "INSERT INTO switchback_version VALUES ('0001')", "INSERT INTO switchback_version VALUES ('0002')"),
            "revision 0001 and 0002",
        ),
    ],
    ids=["another program's", "one more column", "a table is missing", "newer", "two revisions"],
)  # fmt: skip
def test_an_unknown_schema_is_refused_and_left_alone(url: str, statements: tuple[str, ...], told: str) -> None:
    """With what was seen and what to do; nothing is changed."""
    execute(url, *statements)
    before = whole_schema(url)
    with pytest.raises(BadInput, match=told):
        Journal(url)
    assert whole_schema(url) == before


def test_opening_an_up_to_date_journal_is_cheap(url: str) -> None:
    """It looks at the revision and at no other table, writes nothing, and does not even import Alembic."""
    Journal(url)
    with counted_statements() as seen:
        Journal(url)
    assert len([statement for statement in seen if schema.VERSION_TABLE in statement or "pg_class" in statement]) <= 2
    assert not [statement for statement in seen if any(table in statement for table in TABLES.tables)]
    assert not [statement for statement in seen if statement.startswith(("CREATE", "INSERT", "ALTER"))]
    script = (
        f"import sys; from kafka_dr.hooks.journal.journal import Journal; Journal({url!r});"
        " print('alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == "False"


def open_and_note(url: str) -> int:
    """Open the journal and add an entry, in a process of its own."""
    return Journal(url).append("p", "s", "note", 0, {}).sequence


@pytest.mark.parametrize("first", [(), FIRST], ids=["empty", "old"])
def test_several_processes_migrate_at_once(url: str, first: tuple[str, ...]) -> None:
    """One migrates, the others wait for it; no entry is lost."""
    if first:
        execute(url, *first)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert sorted(pool.map(open_and_note, [url] * 8, chunksize=1)) == list(range(1, 9))
    assert version(url) == NEWEST


def test_threads_migrate_several_databases_at_once(tmp_path: Path) -> None:
    """Alembic's own state is one a process: two migrations do not mix."""
    urls = [f"sqlite:///{tmp_path / str(number)}.db" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(Journal, urls))
    assert [version(url) for url in urls] == [NEWEST] * len(urls)


def test_a_percent_sign_in_the_checkout_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alembic's settings know a % as a mark of their own."""
    scripts = tmp_path / "50%s"
    scripts.symlink_to(Path(schema.__file__).with_name("migrations"))
    monkeypatch.setattr(schema, "_SCRIPTS", scripts)
    assert Journal(f"sqlite:///{tmp_path}/journal.db").entries() == []


def test_other_tables_in_the_database_are_left_alone(url: str) -> None:
    """Also those of another program that uses Alembic."""
    execute(url, "CREATE TABLE alembic_version (version_num VARCHAR(32))", "INSERT INTO alembic_version VALUES ('abc')")
    Journal(url)
    assert execute(url, "SELECT version_num FROM alembic_version") == [("abc",)]
    assert version(url) == NEWEST


# On PostgreSQL alone.


def test_a_role_without_the_right_to_change_tables(postgresql: Server) -> None:
    """It opens a journal that is up to date, and is told who can migrate an older one; nothing is changed."""
    database = postgresql.make_database()
    url, runner = postgresql.url(database), postgresql.url(database, "migration_runner")
    execute(url, *FIRST)
    if not postgresql.execute("SELECT 1 FROM pg_roles WHERE rolname = 'migration_runner'"):
        postgresql.execute("CREATE ROLE migration_runner LOGIN")
    postgresql.execute("GRANT SELECT, INSERT ON entries, leases TO migration_runner", database=database)
    before = whole_schema(url)
    with pytest.raises(SystemUnavailable, match="permission denied.*older than this version.*the role that owns them"):
        Journal(runner)
    assert whole_schema(url) == before
    Journal(url)
    assert Journal(runner).append("p", "s", "note", 0, {}).sequence == 1


def test_a_role_with_its_own_schema_migrates_in_the_journals(postgresql: Server) -> None:
    """The revision stands beside the tables that it describes, whatever the role's search path."""
    database = postgresql.make_database()
    execute(postgresql.url(database), *FIRST)
    postgresql.execute(
        "DROP ROLE IF EXISTS wanderer", "CREATE ROLE wanderer LOGIN SUPERUSER", "CREATE SCHEMA wanderer",
        database=database,
    )  # fmt: skip
    Journal(postgresql.url(database, "wanderer"))
    assert version(postgresql.url(database)) == NEWEST
    assert Journal(postgresql.url(database)).entries() == []
