"""The demo application of one rehearsal, as a process of this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol, cast

from lab.environment.state import Lab
from lab.install.jars import PROJECT

STOP_SECONDS = 30.0


class Clients(Protocol):
    """What a rehearsal needs of the demo application, wherever it runs."""

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Start one producer, and a consumer for each group."""

    def collect(self) -> None:
        """Bring what clients wrote down until now into the rehearsal's folder."""

    def stop(self) -> None:
        """Stop every client; their folder is complete after that."""


class OwnProcess:
    """The application as a process; its clients write straight into the folder.

    Args:
        lab: where clients work.
        folder: where they write what they do.
        log: takes the process's output.
    """

    def __init__(self, lab: Lab, folder: Path, log: Path) -> None:
        self._lab, self._folder, self._log = lab, folder, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Start the process; it also ends when this process is gone."""
        argv = [sys.executable, "-m", "lab.clients", "--state", str(self._lab.root), "--folder", str(self._folder)]
        argv += ["--until-eof", *(f"--topic={topic}" for topic in topics), *(f"--group={group}" for group in groups)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def collect(self) -> None:
        """Do nothing: everything is there."""

    def stop(self) -> None:
        """Stop the process, with force if it does not end by itself."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cast("IO[bytes]", self._process.stdin).close()
        self._process = None
