"""The source's authorizer logs are read where the topology names them, and what keeps them from telling is said."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.actions.readiness.logged_clients import read_logged_clients
from kafka_dr.domain.clients.logged_clients import NO_LOG, LoggedClients
from kafka_dr.domain.kafka_model.acl import AclRules

REAL = Path(__file__).parents[4] / "fixtures" / "authorizer_logs"
NOW = datetime(2026, 11, 28, 2, tzinfo=UTC).timestamp()


def seen(*logs: Path | str, brokers: tuple[int, ...] = (1,), in_drill: bool = False) -> LoggedClients:
    """What is read from these logs, as a topology names them."""
    run: Any = SimpleNamespace(
        topology=SimpleNamespace(cluster=lambda _: SimpleNamespace(authorizer_logs=tuple(map(str, logs)))),
        request=SimpleNamespace(source="primary"),
        progress=SimpleNamespace(now=lambda: NOW),
        in_drill=in_drill,
    )
    source = SimpleNamespace(alias="primary", brokers=brokers, rules=AclRules(frozenset()))
    observed: Any = SimpleNamespace(source=source, scope={"orders": "orders"}, exempt={"primary": frozenset()})
    return read_logged_clients(run, observed)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A real broker's log."""
    return Path(shutil.copy(REAL / "kafka-4.3.1.log", tmp_path / "kafka-authorizer.log"))


def test_a_real_log_is_read(log: Path) -> None:
    """Its writers, and the reader without a group."""
    found = seen(log)
    assert found.problems == () and found.readers == ("User:mm2 from 127.0.0.1",)
    assert [one.split()[0] for one in found.writers] == ["User:admin", "User:producer"]


def test_rotated_files_belong_to_the_log_of_one_broker(log: Path) -> None:
    """What the log has told before its last rotation counts; of two brokers both logs are read."""
    lines = log.read_text().splitlines(keepends=True)
    log.with_name("kafka-authorizer.log.2026-11-28-00").write_text("".join(lines[:10]))
    log.write_text("".join(lines[10:]))
    whole = seen(f"{log}*")
    assert [one.split()[0] for one in whole.writers] == ["User:admin", "User:producer"]
    assert [one.split()[0] for one in seen(log).writers] == ["User:admin"]
    assert seen(f"{log}*", log, brokers=(1, 2)).covered.startswith("2 brokers")
    assert "the source has 3 brokers" in seen(f"{log}*", log, brokers=(1, 2, 3)).problems[0]


def test_no_log_and_a_drill(log: Path) -> None:
    """A drill has no client but its own, and reads no log of production."""
    assert seen() == NO_LOG
    assert seen(log, in_drill=True).problems == ("a drill reads no authorizer log",)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda log: log.unlink(), "cannot be read (No such file or directory)"),
        (lambda log: (log.unlink(), log.mkdir()), "cannot be read (No such file or directory)"),
        (lambda log: log.write_text(""), "is empty"),
        (lambda log: log.write_bytes(os.urandom(100_000)), "has no line of the authorizer"),
        (
            lambda log: log.write_text("".join(one for one in log.open() if "INFO" in one)),
            "names refused requests only; set the broker's logger kafka.authorizer.logger to DEBUG",
        ),
    ],
)
def test_a_log_that_does_not_tell_is_named_with_the_reason(log: Path, spoil: Any, words: str) -> None:
    """Nothing is concluded, and nothing raised."""
    spoil(log)
    found = seen(log)
    assert len(found.problems) == 1 and found.problems[0].startswith(f"{log} {words}")
    assert (found.readers, found.writers, found.covered) == ((), (), "")


def test_a_file_that_cannot_be_read_is_named_with_the_reason() -> None:
    """This one fails for every user, like a file without the right to read it."""
    (problem,) = seen("/proc/self/mem").problems
    assert problem.startswith("/proc/self/mem cannot be read (Invalid argument); bring the broker's log to each")


def test_nothing_of_a_line_is_told_but_principals_and_hosts(log: Path) -> None:
    """No group, rule or transactional id."""
    text = log.read_text().replace("billing", "hunter2").replace("t1 ", "hunter2 ").replace("based on rule", "hunter2")
    log.write_text(text)
    assert "hunter2" in text and "hunter2" not in repr(seen(log))
