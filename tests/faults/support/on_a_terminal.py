"""Run a command on a real pseudo-terminal, where a person would read and type."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[3]


class OnTerminal:
    """One command; all its output is stored in `seen`."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        """Start the command as the leader of a session with its own terminal."""
        self.seen = ""
        self._looked = 0
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)

    def wait_for(self, pattern: str, seconds: float = 180.0) -> str:
        """Wait for a pattern in the output after the last match; return the text up to it."""
        ends_at = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen[self._looked :])
            if found:
                text = self.seen[self._looked : self._looked + found.end()]
                self._looked += found.end()
                return text
            assert time.monotonic() < ends_at, (
                f"{pattern!r} was not shown within {seconds:.0f} s; seen:\n{self.seen[-4000:]}"
            )
            if not self._read():
                raise AssertionError(f"the command ended before it showed {pattern!r}:\n{self.seen[-4000:]}")

    def type(self, text: str) -> None:
        """Type a line, as a person does."""
        # A person does not type in the very moment a question appears: typed ahead of a password it would be thrown
        # away.
        time.sleep(0.3)
        os.write(self._master, f"{text}\n".encode())

    def answer(self, question: str, text: str, seconds: float = 180.0) -> None:
        """Wait for a question, and answer it."""
        self.wait_for(question, seconds)
        self.type(text)

    def interrupt(self) -> None:
        """Send Ctrl-C."""
        os.write(self._master, b"\x03")

    def kill(self) -> None:
        """Kill the command itself with -9, but no process that it started."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def finish(self, seconds: float = 300.0) -> tuple[int, str]:
        """Read to the end; return the exit code and the last line."""
        ends_at = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < ends_at, f"it did not end within {seconds:.0f} s:\n{self.seen[-4000:]}"
        return self.process.wait(30), self.seen.strip().splitlines()[-1]

    def close(self) -> None:
        """End the command in any state."""
        if self.process.poll() is None:
            self.kill()
        os.close(self._master)

    def _read(self) -> bool:
        """Read for a moment; return False if the terminal is closed, or the command has ended and prints nothing."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return self.process.poll() is None
        try:
            found = os.read(self._master, 65536)
        except OSError:
            return False
        self.seen += found.decode("utf-8", "replace")
        return bool(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _take_terminal() -> None:
    """Take the terminal as a login does, so that Ctrl-C arrives although these tests run in the background."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
