"""Start PostgreSQL servers for tests, with the programs of Debian's package, each on a socket in its own folder.

A guardian process creates folder and server, and removes both when its input ends, also if the tests are killed.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg

from lab.install.setup import faketime_library, postgresql_programs

ROOT = Path(__file__).parents[2]
#: Nothing here has to outlive the machine, and durability is asked of the settings, not of the disk.
SETTINGS = (
    "fsync = off\nfull_page_writes = off\nlisten_addresses = ''\nshared_buffers = 16MB\nlog_min_messages = log\n"
    "log_destination = stderr\nautovacuum = off\nmax_wal_size = 64MB\nmin_wal_size = 32MB\n"
    # For standbys that begin with an older copy; and what a copied server was promoted at is not for its own copies.
    "wal_keep_size = 512MB\nrecovery_target = ''\nrecovery_target_xid = ''\nrecovery_target_action = promote\n"
)
#: Whoever is called `locked...` needs a password.
RULES = "local all /^locked scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
_DIES_WITH_PARENT = 1


class Server:
    """A running server; its superuser is `postgres`."""

    def __init__(self, folder: Path, guardian: subprocess.Popen[str] | None = None) -> None:
        self.folder, self._guardian = folder, guardian
        self._numbers = count(1)

    def restart(self) -> None:
        """End the server without its leave, as a crash does, and start it again."""
        self._guardian.stdin.write("restart\n")
        self._guardian.stdin.flush()
        assert self._guardian.stdout.readline().strip() == str(self.folder)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of the server's processes for the time of the block; its sockets stay open."""
        parent = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]))
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements as superuser, each in a transaction of its own; return the rows of the last."""
        with self.connect(database) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection:
        """Return a connection on which each statement is a transaction."""
        return psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True)

    def keep_copy(self) -> None:
        """Keep a copy of the data: standbys can be promoted at any later moment, `running_server` says how."""
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        copy_data(self.folder / "copy", self.folder, unprivileged_account())

    def make_database(self, options: str = "") -> str:
        """Create a new and empty database; return its name."""
        name = f"journal_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return name


def clock_of(seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is so many seconds ahead; its monotonic clock is the machine's.

    The library libfaketime is needed.
    """
    return {
        "LD_PRELOAD": str(faketime_library()), "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip


@contextmanager
def running_server(standby_of: Server | None = None, ahead: int = 0, promoted_at: str = "") -> Iterator[Server]:
    """Yield a server that ends with the block, or with this process.

    Args:
        standby_of: a running server, which the new one follows.
        promoted_at: setting that names the last transaction which the standby takes over before it is promoted, such as
            `recovery_target_xid = 750`; `standby_of` must have a copy (`keep_copy`) from before.
        ahead: how many seconds the server's clock is ahead of the machine's.
    """
    command = [sys.executable, "-m", "tests.support.postgresql", *([str(standby_of.folder)] if standby_of else [])]
    command += [promoted_at] if promoted_at else []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"SERVER_AHEAD": str(ahead)},
    ) as guardian:
        told = guardian.stdout.readline().strip()
        try:
            assert told, "the server did not start; its guardian says why on standard error"
            yield Server(Path(told), guardian)
        finally:
            # A child that was forked meanwhile may hold the other end of the pipe, so that it does not close.
            guardian.stdin.write("end\n")
            guardian.stdin.flush()
            guardian.wait()


def guard(primary: str | None = None, promoted_at: str = "") -> None:
    """Start a server in a new folder, print the folder, and end the server with our input."""
    account = unprivileged_account()
    folder = Path(tempfile.mkdtemp(prefix="switchback-postgresql-"))
    try:
        if account:
            shutil.chown(folder, **account)
        make_data(folder, account, primary, promoted_at)
        server = start_server(folder, account)
        try:
            wait_until_ready(folder, server)
            print(folder, flush=True)
            while sys.stdin.readline() == "restart\n":
                server.send_signal(signal.SIGQUIT)
                server.wait()
                server = start_server(folder, account)
                wait_until_ready(folder, server)
                print(folder, flush=True)
        finally:
            # It handles its signals only while it runs.
            server.send_signal(signal.SIGCONT)
            server.send_signal(signal.SIGQUIT)
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_server(folder: Path, account: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the server on the data in its folder."""
    ahead = int(os.environ["SERVER_AHEAD"])
    return subprocess.Popen(
        [program("postgres"), "-D", folder / "data", "-k", folder],
        stdin=subprocess.DEVNULL, stdout=(folder / "log").open("ab"), stderr=subprocess.STDOUT, cwd=folder,
        env=os.environ | (clock_of(ahead) if ahead else {}), preexec_fn=die_with_parent, **account,
    )  # fmt: skip


def unprivileged_account() -> dict[str, Any]:
    """Return the account of the server as arguments of `subprocess`, because PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    return {"user": name, "group": pwd.getpwnam(name).pw_gid}


def make_data(folder: Path, account: dict[str, Any], primary: str | None, promoted_at: str) -> None:
    """Create an empty database cluster, or a copy of the primary's, of now or of before, that follows the primary."""
    data = folder / "data"
    if promoted_at:
        run_program(["cp", "-a", Path(str(primary), "copy"), data], folder, account)
    elif primary:
        copy_data(data, Path(primary), account)
    else:
        make = [program("initdb"), "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        run_program(make, folder, account)
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(f"{SETTINGS}{promoted_at}\n")
    (data / "pg_hba.conf").write_text(RULES)


def copy_data(data: Path, primary: Path, account: dict[str, Any]) -> None:
    """Copy a running server's data to a new folder, for a server that follows it."""
    make = [program("pg_basebackup"), "-D", data, "-h", primary, "-U", "postgres", "-R", "-c", "fast", "--no-sync"]
    run_program(make, data.parent, account)


def run_program(command: list[Any], folder: Path, account: dict[str, Any]) -> None:
    """Run a program that makes a server's data."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, **account)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")


def wait_until_ready(folder: Path, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + 60
    while subprocess.run([program("pg_isready"), "-q", "-h", folder], check=False).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the server did not start: {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)


def program(name: str) -> str:
    """Return the path of one of the server's programs."""
    return str(postgresql_programs() / name)


def die_with_parent() -> None:
    """Stop at once if the guardian is killed."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGQUIT)


if __name__ == "__main__":
    guard(*sys.argv[1:])
