"""Secrets in a lab's connections, systems that repeat their requests, and a search of every place for secrets."""

from __future__ import annotations

import base64
import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pandas as pd
import requests

from lab.environment.state import Lab
from tests.support.json_server import JsonHandler, served

NAMES = (
    "kafka password",
    "kafka password that is wrong",
    "probe password",
    "jaas password",
    "oauth client secret",
    "private key",
    "private key password",
    "keystore password",
    "broken extra",
    "connect password",
    "connect password in its address",
    "drain hook password",
    "routing password",
    "journal password",
    "journal password in a query",
    "airflow password",
    "airflow password that is wrong",
    "airflow token",
    "spark password",
    "spark api token",
)


class Secrets:
    """Twenty secrets, each a word that occurs nowhere else, and every form in which a secret could occur."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Use the given secrets (the lab's own) and invent the others."""
        self.values = {name: given.get(name, f"s3cr3t{secrets.token_hex(12)}") for name in NAMES}
        self._logins: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def login(self, user: str, name: str) -> dict[str, str]:
        """Return login and password of a connection; their encoded form in HTTP is a secret, too."""
        self._logins[name] = base64.b64encode(f"{user}:{self[name]}".encode()).decode()
        return {"login": user, "password": self[name]}

    def pem(self) -> str:
        """Return a private key that no library can parse."""
        return (
            f"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBX{self['private key']}\nAgEA\n-----END ENCRYPTED PRIVATE"
            " KEY-----\n"
        )

    def needles(self) -> dict[str, bytes]:
        """Return the texts to search for, by name."""
        plain = {name: value.encode() for name, value in self.values.items()}
        return plain | {f"{name}, as HTTP sends it": value.encode() for name, value in self._logins.items()}


# -- systems that repeat what they are sent ----------------------------------------------------------------------------


class Parrot(JsonHandler, BaseHTTPRequestHandler):
    """Refuses every request, and repeats the request with its headers in the body of the error."""

    token = ""

    def do_GET(self) -> None:
        """Repeat the request."""
        self.repeat(403)

    do_POST = do_PUT = do_PATCH = do_GET

    def repeat(self, status: int, **more: Any) -> None:
        """Answer with the whole request."""
        sent = f"{self.command} {self.path} with {dict(self.headers)} and {self.content()!r}"
        self.answer(status, {"message": sent, **more})


class TokenParrot(Parrot):
    """Gives a token to every login, and repeats the login in every error."""

    def do_POST(self) -> None:
        """A token for any login."""
        self.content()
        self.answer(201, {"access_token": self.token})


class RoutingParrot(Parrot):
    """Stores the routing record, and repeats each request that changes it."""

    record: Any = None

    def do_GET(self) -> None:
        """The record."""
        self.answer(200, self.record) if self.record else self.answer(404, {})

    def do_PUT(self) -> None:
        """Keep the record."""
        type(self).record = json.loads(self.content())
        self.answer(200, {"stored": True, "headers": dict(self.headers)})


class TellingConnect(Parrot):
    """Connect, whose connectors have all failed with a stack trace that contains their JAAS line."""

    behind, trace = "", ""

    def do_GET(self) -> None:
        """What Connect answers, with failed tasks; a request that tests the right to change offsets changes none."""
        kind = {"Content-Type": "application/json"}
        answer = requests.request(self.command, self.behind + self.path, data=self.content(), headers=kind, timeout=10)
        document = answer.json()
        if self.path.endswith("/status"):
            document["connector"] |= {"state": "FAILED", "trace": self.trace}
            document["tasks"] = [{"id": 0, "worker_id": "w", "state": "FAILED", "trace": self.trace}]
        self.answer(answer.status_code, document)

    do_PATCH = do_GET


def parrot(kind: type[Parrot], **settings: Any) -> AbstractContextManager[str]:
    """Serve one of these handlers; yield its address."""
    return served(type(kind.__name__, (kind,), settings))


# -- places ------------------------------------------------------------------------------------------------------------


class CommandLines:
    """Every command line that `ps` could have listed during the block, of any process on the machine."""

    def __init__(self, pause: float = 0.05) -> None:
        """Prepare; nothing is read before `watching`."""
        self.seen: set[bytes] = set()
        self._pause, self._stop = pause, threading.Event()

    @contextmanager
    def watching(self) -> Iterator[CommandLines]:
        """Read all command lines again and again during the block."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._pause):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    self.seen.add((process / "cmdline").read_bytes())
                except OSError:
                    continue


@dataclass(frozen=True)
class Hit:
    """A secret in a place that must have none."""

    place: str
    where: str
    secret: str


Content = Iterator[tuple[str, bytes]]


class Places:
    """Places that could contain a secret, by kind; each returns its content."""

    def __init__(self, lab: Lab, command_lines: CommandLines, events: Path) -> None:
        """Store the places' owners; `events` is the folder of Spark's event logs."""
        self.lab, self.command_lines, self.events = lab, command_lines, events

    def kinds(self) -> dict[str, Callable[[], Content]]:
        """Return by kind of place a function that yields the contents of its places."""
        return {
            "task logs": lambda: files(self.lab.logs / "airflow"),
            "logs of Airflow's components": lambda: files(self.lab.logs, "airflow-*"),
            "XCom": lambda: rows(self.lab.airflow_home / "airflow.db", {"xcom"}),
            "rendered fields": lambda: rows(self.lab.airflow_home / "airflow.db", {"rendered_task_instance_fields"}),
            "the rest of Airflow's database": lambda: rows(
                self.lab.airflow_home / "airflow.db", but={"xcom", "rendered_task_instance_fields", "connection"}
            ),
            "the journal": lambda: rows(self.lab.journal),
            "evidence": lambda: files(self.lab.evidence),
            "command lines": lambda: iter([("ps", line) for line in self.command_lines.seen]),
            "Spark's event logs": lambda: files(self.events),
        }

    def hits(self, needles: Mapping[str, bytes]) -> list[Hit]:
        """Return every secret in every place."""
        return [
            Hit(kind, where, name)
            for kind, content in self.kinds().items()
            for where, text in content()
            for name, needle in needles.items()
            if needle in text
        ]


def files(folder: Path, pattern: str = "*") -> Content:
    """Yield the files below a folder; Parquet files are unpacked."""
    found = folder.rglob(pattern) if pattern == "*" else folder.glob(pattern)
    for path in sorted(path for path in found if path.is_file()):
        yield str(path), path.read_bytes()
        if path.suffix == ".parquet":
            yield f"{path} (unpacked)", repr(pd.read_parquet(path).to_dict("records")).encode()


def rows(database: Path, only: set[str] | None = None, but: frozenset[str] | set[str] = frozenset()) -> Content:
    """Yield the rows of an SQLite database, table by table."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in sorted((tables & only if only else tables) - but):
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield (
                    f"{database.name} {table}",
                    b"\0".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in row),
                )
