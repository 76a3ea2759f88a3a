"""A PostgreSQL server of Debian's package for the journal and for Airflow, with its data in the lab's folder.

PostgreSQL refuses to run as root: root starts it as the user `postgres`, or `nobody` where there is no such user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from lab.environment.production.profile import DATABASES, POSTGRES
from lab.environment.progress import wait_until
from lab.environment.state import LOOPBACK, Lab, write_private
from lab.errors import LabError
from lab.install.setup import postgresql_programs

READY_SECONDS, STOP_SECONDS, REQUEST_SECONDS = 240.0, 20.0, 30
#: A longer path of a socket is refused by the operating system.
LONGEST_SOCKET = 107
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    # As files in the data folder, which `down` removes; else a killed server leaves them in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "password_encryption": "'scram-sha-256'",
    "log_destination": "stderr",
}
#: Every user needs the password, also on the socket.
_RULES = "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n"


def start_postgres(lab: Lab) -> bool:
    """Start PostgreSQL unless it runs, and wait until it answers; in a new lab, create roles and databases.

    Returns:
        Whether the server of an existing lab had died.
    """
    is_new = not (_data(lab) / "PG_VERSION").exists()
    if started := lab.processes.pid(POSTGRES) is None:
        if is_new:
            _create_data(lab)
        _write_settings(lab)
        lab.processes.start(POSTGRES, _as_server(lab, "postgres", "-D", str(_data(lab))), dict(os.environ), lab.home)
    wait_until(
        lambda: _answers(lab),
        "PostgreSQL to answer",
        READY_SECONDS,
        still_possible=lambda: lab.processes.must_live(POSTGRES),
    )
    for name in DATABASES:
        lab.once(f"database-{name}", lambda name=name: _create_database(lab, name))  # type: ignore[misc]
    return started and not is_new


def stop_postgres(lab: Lab) -> None:
    """Stop PostgreSQL and all its processes at once, if it runs, without the time that a shutdown takes.

    After SIGKILL alone its other processes would live on for a moment, and write into the folder that `down` removes.
    """
    if (pid := lab.processes.pid(POSTGRES)) is None:
        return
    try:
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: lab.processes.pid(POSTGRES) is None, "PostgreSQL to stop", STOP_SECONDS)
    except (ProcessLookupError, LabError):
        # It has ended, or gets SIGKILL as all other processes.
        return


def _create_data(lab: Lab) -> None:
    """Create an empty database cluster, whose superuser has the lab's password.

    Raises:
        LabError: PostgreSQL is not installed, or initdb failed.
    """
    data = _data(lab)
    # What an interrupted run left behind.
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, mode=0o700)
    data.parent.chmod(0o700)
    password = data.parent / "password"
    write_private(password, lab.load().passwords[f"database_{POSTGRES}"] + "\n")
    if account := _account():
        for path in (data.parent, data, password):
            shutil.chown(path, account.pw_uid, account.pw_gid)
    options = ["-U", POSTGRES, "-E", "UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
    command = _as_server(lab, "initdb", "-D", str(data), *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    password.unlink()
    if done.returncode:
        raise LabError(
            f"initdb failed with exit code {done.returncode}; remove the cause, then start the lab again:"
            f" {(done.stdout + done.stderr)[-2000:]}"
        )


def _write_settings(lab: Lab) -> None:
    """Replace the file that PostgreSQL reads after its own settings, and the rules of logins."""
    data = _data(lab)
    socket = data.parent / f".s.PGSQL.{lab.load().ports[POSTGRES]}"
    own = {
        **_SETTINGS,
        "listen_addresses": f"'{LOOPBACK}'",
        "port": str(lab.load().ports[POSTGRES]),
        # Without a socket if its path is too long; the lab itself connects by TCP.
        "unix_socket_directories": f"'{data.parent if len(str(socket)) <= LONGEST_SOCKET else ''}'",
    }
    (data / "postgresql.auto.conf").write_text("".join(f"{key} = {value}\n" for key, value in own.items()))
    (data / "pg_hba.conf").write_text(_RULES)


def _create_database(lab: Lab, name: str) -> None:
    """Create a role and a database of this name, which the role owns; the password is never shown to anyone."""
    password = lab.load().passwords[f"database_{name}"]
    role = sql.Identifier(name)
    _execute(lab, sql.SQL("DROP DATABASE IF EXISTS {}").format(role))
    _execute(lab, sql.SQL("DROP ROLE IF EXISTS {}").format(role))
    _execute(lab, sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
    _execute(lab, sql.SQL("CREATE DATABASE {} OWNER {}").format(role, role))


def _answers(lab: Lab) -> bool:
    _execute(lab, sql.SQL("SELECT 1"))
    return True


def _execute(lab: Lab, statement: sql.SQL | sql.Composed) -> None:
    """Run one statement as superuser, in a transaction of its own."""
    record = lab.load()
    with psycopg.connect(
        host=LOOPBACK,
        port=record.ports[POSTGRES],
        user=POSTGRES,
        password=record.passwords[f"database_{POSTGRES}"],
        dbname=POSTGRES,
        connect_timeout=REQUEST_SECONDS,
        autocommit=True,
    ) as connection:
        connection.execute(statement)


def _as_server(lab: Lab, program: str, *arguments: str) -> list[str]:
    """Return the command that runs one of PostgreSQL's programs as the server's user.

    Raises:
        LabError: PostgreSQL is not installed.
    """
    programs = postgresql_programs()
    if programs is None:
        raise LabError(
            "profile production needs a PostgreSQL server, and none is installed here; install Debian's postgresql"
            " package, for example with: python3 -m lab.install.setup postgresql"
        )
    command = [str(programs / program), *arguments]
    account = _account()
    if account is None:
        return command
    prefix = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    if not _may_enter(lab.home):
        # Root's private folders, such as those of pytest, would keep the server's user from its own data.
        prefix += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return [*prefix, *command]


def _account() -> pwd.struct_passwd | None:
    """Return the account that runs PostgreSQL if this process runs as root; None: this process's own."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _may_enter(folder: Path) -> bool:
    """Whether every user may enter a folder and all folders above it."""
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _data(lab: Lab) -> Path:
    return lab.home / POSTGRES / "data"
