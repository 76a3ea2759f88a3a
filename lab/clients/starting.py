"""Start the demo application of one rehearsal as a local process."""

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
    """How a rehearsal controls the demo application, which runs as a process or in a container."""

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Start one producer that writes all topics, and per group one consumer that reads all topics."""

    def collect(self) -> None:
        """Copy what the clients have written of their event logs by now into the rehearsal's folder."""

    def stop(self) -> None:
        """Stop every client, after which the event logs in the rehearsal's folder are complete."""


class OwnProcess:
    """Controls the demo application as a local process, whose clients write their event logs into `folder`.

    Args:
        lab: the lab whose clusters the clients connect to.
        folder: folder of the clients' event logs.
        log: file for the process's output.
    """

    def __init__(self, lab: Lab, folder: Path, log: Path) -> None:
        self._lab, self._folder, self._log = lab, folder, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Start the application's process: one producer, and one consumer per group, all on all topics.

        The process also ends when the calling process ends.
        """
        argv = [sys.executable, "-m", "lab.clients", "--state", str(self._lab.root), "--folder", str(self._folder)]
        argv += ["--until-eof", *(f"--topic={topic}" for topic in topics), *(f"--group={group}" for group in groups)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def collect(self) -> None:
        """Do nothing, because clients write their event logs into the rehearsal's folder."""

    def stop(self) -> None:
        """Stop the application's process by SIGTERM, and after 30 seconds by SIGKILL; do nothing if none runs."""
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
