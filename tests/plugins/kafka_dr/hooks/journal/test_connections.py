"""Connections to PostgreSQL: kept, tested, left to the parent after a fork, and given up when the server vanishes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.postgresql import shared_database
from sqlalchemy import make_url

from tests.support.postgresql import ROOT, Server


def note(journal: Journal, payload: Any = None) -> Any:
    """Append any entry."""
    return journal.append("p", "s", "note", 0, payload)


def sessions(server: Server, database: str) -> dict[int, str]:
    """The open sessions of a database: process -> state."""
    return dict(
        server.execute(
            f"SELECT pid, state FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        )
    )


def test_a_connection_is_used_again(postgresql: Server, url: str, database: str) -> None:
    """By all journals of the process, and it waits for its next transaction outside of any."""
    note(Journal(url))
    (first,) = sessions(postgresql, database)
    for _ in range(5):
        journal = Journal(url)
        note(journal)
        assert journal.entries() and journal.last_sign("watcher") is None
        with pytest.raises(SwitchbackError):
            journal.append("p", "s", "note", 0, object())
        assert sessions(postgresql, database) == {first: "idle"}


def test_many_threads_leave_two_connections(postgresql: Server, url: str, database: str) -> None:
    """Each gets one when it needs one."""
    journal = Journal(url)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: (note(journal, number), journal.entries()), range(40)))
    assert len(sessions(postgresql, database)) <= 2 and set(sessions(postgresql, database).values()) == {"idle"}
    assert journal.verify() is None and len(journal.entries()) == 40


def test_a_connection_that_failed_is_not_used_again(postgresql: Server, url: str, database: str) -> None:
    """Whatever the error."""
    journal = Journal(url)
    (first,) = sessions(postgresql, database)

    def fail(_: Any) -> None:
        raise KeyError("own")

    with pytest.raises(KeyError):
        journal._database.write(fail)
    assert first not in sessions(postgresql, database)
    assert note(journal).sequence == 1


@pytest.mark.parametrize("act", [note, Journal.entries, Journal.now], ids=["write", "read", "time"])
def test_a_connection_that_died_meanwhile_is_replaced(postgresql: Server, url: str, database: str, act: Any) -> None:
    """Before the transaction begins, so that nobody notices and nothing is done twice."""
    journal = Journal(url)
    note(journal)
    for pid in sessions(postgresql, database):
        postgresql.execute(f"SELECT pg_terminate_backend({pid})")
    act(journal)
    assert len(journal.entries()) == (2 if act is note else 1)


def test_a_forked_process_opens_its_own_connections(postgresql: Server, url: str, database: str) -> None:
    """And leaves the parent's as they are, at its end as well."""
    journal = Journal(url)
    note(journal)
    (parents,) = sessions(postgresql, database)
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            note(journal)
            note(Journal(url))
            own = set(sessions(postgresql, database)) - {parents}
            status = 0 if len(own) == 1 and len(journal.entries()) == 3 else 2
        finally:
            os.write(tell, b"x")
            os._exit(status)
    os.read(ready, 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert note(journal).sequence == 4 and parents in sessions(postgresql, database)
    assert journal.verify() is None


def test_what_the_url_states_is_not_overridden(postgresql: Server, database: str) -> None:
    """Limits of TCP and of connecting are ours only where the URL states none."""
    stated = f"{postgresql.url(database)}&tcp_user_timeout=77000&keepalives_idle=70&connect_timeout=7"
    for url, expected in ((postgresql.url(database), ("10000", "5", "10")), (stated, ("77000", "70", "7"))):
        connection = shared_database(make_url(url), 30.0).engine.raw_connection()
        parameters = connection.driver_connection.info.get_parameters()
        seen = tuple(parameters[name] for name in ("tcp_user_timeout", "keepalives_idle", "connect_timeout"))
        connection.close()
        assert seen == expected


# A server whose packets get lost: in a network of the test's own, so that the kernel's limits are seen.

VANISHED = """
import json, subprocess, sys, threading, time
from pathlib import Path
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.journal.clock import utc_now
from kafka_dr.hooks.journal.journal import Journal
from tests.support.postgresql import Server
from tests.plugins.kafka_dr.hooks.journal.test_database import Proxy
folder, database, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = Server(folder)
proxy = Proxy(server)
url = f"postgresql+psycopg://postgres@127.0.0.1:{proxy.port}/{database}"
def vanish():
    subprocess.run(["iptables", "-A", "INPUT", "-i", "lo", "-j", "DROP"], check=True)
    return utc_now()
journal = Journal(url, clock=vanish if when == "in a write" else None)
if when == "in a read":
    blocker = server.connect(database)
    blocker.execute("BEGIN")
    blocker.execute("LOCK TABLE entries IN ACCESS EXCLUSIVE MODE")
    threading.Timer(1, vanish).start()
elif when == "between two":
    vanish()
began = time.monotonic()
try:
    journal.entries() if when != "in a write" else journal.append("p", "s", "note", 0, {})
    told = "no error"
except SystemUnavailable as error:
    told = str(error)
print(json.dumps([told, time.monotonic() - began]))
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "iptables"))),
    reason="a network namespace of its own needs root, unshare, ip and iptables",
)
@pytest.mark.parametrize("when", ["in a read", "in a write", "between two"])
def test_a_server_that_vanishes_is_noticed(postgresql: Server, url: str, database: str, when: str) -> None:
    """Within seconds, though a writer may wait for others for half a minute; nothing is written."""
    Journal(url)
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "spark", "."))
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", VANISHED, str(postgresql.folder), database, when],
        capture_output=True, text=True, timeout=90, check=False, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, seconds = json.loads(done.stdout.splitlines()[-1])
    assert "the journal is not" in told and 0 < seconds < 25
    assert Journal(url).entries() == []


def test_a_server_out_of_reach_when_opening_is_named(postgresql: Server) -> None:
    """As a system that does not answer."""
    began = time.monotonic()
    with pytest.raises(SystemUnavailable, match="not usable"):
        Journal("postgresql+psycopg://me@127.0.0.1:1/x", lock_seconds=3)
    assert time.monotonic() - began < 15
