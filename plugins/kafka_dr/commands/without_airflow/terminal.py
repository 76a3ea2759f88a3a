"""Asks questions on a terminal, or over pipes if no terminal is used; passwords are neither shown nor stored."""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

_TICK_SECONDS = 0.2


class Terminal:
    """Prints lines with the time of day, and asks questions; calls a function while it waits for an answer."""

    def __init__(self, given: int = 0, shown: int = 1) -> None:
        """Store two file descriptors, `given` to read from and `shown` to write to; earlier output must be flushed."""
        self._given, self._shown = given, shown
        self._read = b""
        self.ended = False

    def say(self, text: str) -> None:
        """Print a text of one or more lines, with the time of day before the first."""
        self.write(f"{datetime.now().astimezone():%H:%M:%S}  {text}\n")

    def write(self, text: str) -> None:
        """Print a text as it is; errors are ignored, because a closed terminal must not end a procedure."""
        raw = text.encode("utf-8", "backslashreplace")
        try:
            while raw:
                raw = raw[os.write(self._shown, raw) :]
        except OSError:
            return

    def ask(self, question: str, meanwhile: Callable[[], bool], secret: bool = False) -> str | None:
        """Print a question and return one line of answer.

        Args:
            meanwhile: called repeatedly until there is an answer; if it returns False, the wait for an answer ends.
            secret: whether to hide what is typed.

        Returns:
            The answer, without surrounding blanks unless secret; None if `meanwhile` returned False, or input ended.
        """
        self.write(question)
        with self._unseen(secret):
            line = self._line(meanwhile)
        if secret or line is None:
            self.write("\n")
        return None if line is None else (line if secret else line.strip())

    def _line(self, meanwhile: Callable[[], bool]) -> str | None:
        while b"\n" not in self._read:
            if not meanwhile():
                return None
            ready, _, _ = select.select([self._given], [], [], _TICK_SECONDS)
            if ready and not self._more():
                return None
        line, _, self._read = self._read.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8", "replace")

    def _more(self) -> bool:
        """Read the available input; return False if the input has ended."""
        try:
            data = os.read(self._given, 4096)
        except OSError:
            data = b""
        self.ended = not data
        self._read += data
        return bool(data)

    @contextmanager
    def _unseen(self, secret: bool) -> Iterator[None]:
        """Hide typed characters inside this context, if `secret` and input is a terminal."""
        if not secret or not os.isatty(self._given):
            yield
            return
        before = termios.tcgetattr(self._given)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(self._given, termios.TCSAFLUSH, silent)
        try:
            yield
        finally:
            termios.tcsetattr(self._given, termios.TCSADRAIN, before)


def redirect_output(folder: Path) -> None:
    """Send standard output and error to command.log in a folder, because the terminal shows only the procedure."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(folder / "command.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
