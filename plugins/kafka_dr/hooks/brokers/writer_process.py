"""The transactional writer in its own process, so that a killed task leaves no transaction half done.

An aborted transaction's records stay in the log, and whoever reads uncommitted records is given them, MirrorMaker 2 by
default. A transaction is therefore handed over whole, before it begins, to a process that is killed with nobody: it
ends what it has, and then itself.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kafka_dr.errors import BadInput, KafkaUnavailable, SwitchbackError
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay

_PROGRAM = (
    "import sys; from kafka_dr.hooks.brokers.writer_process import serve_requests;"
    " serve_requests(sys.stdin.buffer, sys.stdout.buffer)"
)
_PACKAGES = Path(__file__).parents[3]
#: Beyond what the writer itself waits: its start, and ending a transaction that failed.
_MORE_SECONDS = 30.0


class _Child(subprocess.Popen[bytes]):
    """A process with both pipes."""

    stdin: IO[bytes]
    stdout: IO[bytes]


class ReplayProcess:
    """A `RecordReplay` that outlives its caller by one transaction at most. Started on first use."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str,
        transactional_id: str,
        batch_bytes: int = 1_000_000,
        timeout: float = 60.0,
    ) -> None:
        """Prepare; arguments as of `RecordReplay`. They reach the process through a pipe: no command line has them."""
        RecordReplay(config, alias, transactional_id, batch_bytes, timeout)
        self._settings = (dict(config), alias, transactional_id, batch_bytes, timeout)
        self._alias, self._id, self._patience = alias, transactional_id, timeout + _MORE_SECONDS
        self._process: _Child | None = None

    def __repr__(self) -> str:
        return f"ReplayProcess({self._alias!r}, {self._id!r})"

    def fence(self) -> None:
        """Make the transactional id this writer's, as of `RecordReplay.fence`."""
        self._ask(self._process or self._start(), "fence")

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object] = lambda: None) -> None:
        """Write records in one transaction; once handed over, they are committed if the cluster takes them.

        Args:
            still_allowed: asked when all are at hand and none is written; what it raises keeps them from it.
        """
        process = self._process
        if process is None:
            raise BadInput(f"{self._id} was not taken before writing to {self._alias}", "no fence", "call fence first")
        together = [*records]
        still_allowed()
        self._ask(process, "write", together)

    def close(self) -> None:
        """Let the process end, after what it has under way."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(self._patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _start(self) -> _Child:
        path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))
        # A session of its own: signals for the task's whole group do not reach it.
        self._process = process = _Child(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self._send(process, self._settings)
        return process

    def _ask(self, process: _Child, what: str, *arguments: Any) -> None:
        self._send(process, (what, arguments))
        answer = self._answer(process)
        if answer is not None:
            raise answer

    def _send(self, process: _Child, message: Any) -> None:
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
        except OSError as error:
            raise self._gone(type(error).__name__) from None

    def _answer(self, process: _Child) -> SwitchbackError | None:
        if not select.select([process.stdout], [], [], self._patience)[0]:
            process.kill()
            raise self._gone(f"no answer within {self._patience:g} s")
        try:
            answer: SwitchbackError | None = pickle.load(process.stdout)  # noqa: S301 (a pipe from a child of one's own)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._gone(type(error).__name__) from None
        return answer

    def _gone(self, seen: str) -> KafkaUnavailable:
        self.close()
        return KafkaUnavailable(
            f"the process that writes to {self._alias} is gone",
            seen,
            "Nothing: what it committed is found by the next one",
        )


def serve_requests(given: IO[bytes], answers: IO[bytes]) -> None:
    """Serve the caller's requests in order until the caller is gone; requests that arrived whole are still done."""
    writer: RecordReplay | None = None
    while True:
        try:
            message = pickle.load(given)  # noqa: S301 (a pipe from the parent)
        except (EOFError, OSError, pickle.UnpicklingError):
            return
        if writer is None:
            writer = RecordReplay(*message)
            continue
        try:
            pickle.dump(_done(writer, *message), answers)
            answers.flush()
        except BrokenPipeError:
            return


def _done(writer: RecordReplay, what: str, arguments: tuple[Any, ...]) -> SwitchbackError | None:
    try:
        getattr(writer, what)(*arguments)
    except SwitchbackError as error:
        return error
    return None
