"""A command on a real pseudo-terminal: what a person sees, and what they type."""

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
    """One command; everything it shows is kept in `seen`."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        """Start it as the leader of a session whose terminal is ours."""
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
        """Look until a pattern is shown that was not looked for before; return the text up to it."""
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
        """A line, as a person types it."""
        # A person does not type in the very moment a question appears: typed ahead of a password it would be thrown
        # away.
        time.sleep(0.3)
        os.write(self._master, f"{text}\n".encode())

    def answer(self, question: str, text: str, seconds: float = 180.0) -> None:
        """Wait for a question, and answer it."""
        self.wait_for(question, seconds)
        self.type(text)

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self._master, b"\x03")

    def kill(self) -> None:
        """kill -9 of the command itself, of nothing it started."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def finish(self, seconds: float = 300.0) -> tuple[int, str]:
        """Read to the end; the exit code and the last line."""
        ends_at = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < ends_at, f"it did not end within {seconds:.0f} s:\n{self.seen[-4000:]}"
        return self.process.wait(30), self.seen.strip().splitlines()[-1]

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.kill()
        os.close(self._master)

    def _read(self) -> bool:
        """Read for a moment; False once nobody holds the terminal any more, or the command has ended and is silent."""
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
    """As a login does; Ctrl-C must arrive also where these tests run in the background, which ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
