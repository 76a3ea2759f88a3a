"""Stop and remove a demo's lab if the demo's process was killed before the demo removed the lab."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from lab.containers.compose import Stack
from lab.environment.take_down import down
from lab.install.jars import PROJECT

DONE = b"done\n"


class Guard:
    """Starts a process that waits for the end of the demo's process, and removes the lab if the demo was killed."""

    def __init__(self, state: Path) -> None:
        argv = [sys.executable, "-m", "lab.demo.guard", str(state)]
        no_output = subprocess.DEVNULL
        self._process = subprocess.Popen(
            argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=no_output, stderr=no_output, start_new_session=True
        )

    def dismiss(self) -> None:
        """End the guard's process, because the lab has been removed, and wait until the process has ended."""
        self._process.communicate(DONE)


def take_down(state: Path) -> None:
    """Stop a folder's lab, or its stack of containers with their volumes, and remove the folder."""
    if stack := Stack.of(state):
        stack.down()
    down(state)
    shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The end of the input without DONE: the demo was killed.
    if sys.stdin.buffer.read() != DONE:
        take_down(Path(sys.argv[1]))
