"""A real pseudo-terminal, and a pipe."""

from __future__ import annotations

import os
import pty
import threading
import time
from collections.abc import Iterator

import pytest
from kafka_dr.commands.without_airflow.terminal import Terminal


@pytest.fixture
def pair() -> Iterator[tuple[Terminal, int]]:
    """A terminal, and the person's end of it."""
    master, slave = pty.openpty()
    yield Terminal(slave, slave), master
    os.close(master)
    os.close(slave)


def shown(master: int) -> str:
    """What a person sees."""
    time.sleep(0.2)
    return os.read(master, 65536).decode()


def later(master: int, text: str) -> None:
    """Somebody types in a moment."""
    threading.Timer(0.4, lambda: os.write(master, text.encode())).start()


def test_an_answer_is_a_line_without_blanks(pair: tuple[Terminal, int]) -> None:
    """As it was typed."""
    terminal, master = pair
    later(master, "  alice \n")
    assert terminal.ask("Who? ", lambda: True) == "alice"


def test_a_password_is_not_shown(pair: tuple[Terminal, int]) -> None:
    """Neither while it is typed nor afterwards; what is typed next is shown again."""
    terminal, master = pair
    later(master, "hunter2 \n")
    assert terminal.ask("Password: ", lambda: True, secret=True) == "hunter2 "
    assert "hunter2" not in shown(master)
    later(master, "visible\n")
    terminal.ask("Who? ", lambda: True)
    assert "visible" in shown(master)


def test_the_procedure_goes_on_while_nobody_answers(pair: tuple[Terminal, int]) -> None:
    """And ends the question when it is over."""
    terminal, _ = pair
    looks: list[int] = []
    assert terminal.ask("Who? ", lambda: looks.append(1) or len(looks) < 4) is None
    assert len(looks) == 4 and not terminal.ended


def test_lines_of_a_pipe_are_answers_until_it_ends() -> None:
    """Without a terminal: line by line; then nobody answers any more."""
    given, writer = os.pipe()
    os.write(writer, b"alice\nsecret\n")
    os.close(writer)
    terminal = Terminal(given, os.open(os.devnull, os.O_WRONLY))
    assert [
        terminal.ask("", lambda: True),
        terminal.ask("", lambda: True, secret=True),
        terminal.ask("", lambda: True),
    ] == ["alice", "secret", None]
    assert terminal.ended


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    """A closed window does not stop a procedure half way."""
    read, write = os.pipe()
    os.close(read)
    Terminal(0, write).say("still here")
