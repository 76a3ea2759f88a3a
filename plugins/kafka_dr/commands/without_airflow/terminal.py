"""Questions and answers on a terminal, or over a pipe where there is none; passwords are neither shown nor kept."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

_TICK_SECONDS = 0.2


class Terminal:
    """Says lines with their time; asks without ever standing still, so that the procedure goes on meanwhile."""

    def __init__(self, given: int = 0, shown: int = 1) -> None:
        """Use two file descriptors; what was printed there before has been flushed."""
        self._given, self._shown = given, shown
        self._read = b""
        self.ended = False

    def say(self, text: str) -> None:
        """One line, or several, with the time before the first."""
        self.write(f"{datetime.now().astimezone():%H:%M:%S}  {text}\n")

    def write(self, text: str) -> None:
        """Text as it is; a terminal that is gone does not end a procedure."""
        raw = text.encode("utf-8", "backslashreplace")
        try:
            while raw:
                raw = raw[os.write(self._shown, raw) :]
        except OSError:
            return

    def ask(self, question: str, meanwhile: Callable[[], bool], secret: bool = False) -> str | None:
        """One line of answer.

        Args:
            meanwhile: called again and again while nobody answers; False ends the question.

        Returns:
            The answer without blanks around it; None when the question is over, or nobody can answer any more.
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
        """Read what is there; False at the end, when there will never be more."""
        try:
            found = os.read(self._given, 4096)
        except OSError:
            found = b""
        self.ended = not found
        self._read += found
        return bool(found)

    @contextmanager
    def _unseen(self, secret: bool) -> Iterator[None]:
        """Nothing that is typed inside is shown."""
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
