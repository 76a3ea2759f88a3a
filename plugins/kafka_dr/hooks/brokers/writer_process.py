"""The transactional writer in its own process, so that a killed task leaves no transaction half done.

An aborted transaction's records stay in the log, and read_uncommitted readers get them, MirrorMaker 2 by default. All
records of a transaction are therefore sent, before it begins, to a process that survives the task: the process finishes
the transaction, then exits.
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
#: Added to the writer's own timeout: time to start the process, and to abort a failed transaction.
_MORE_SECONDS = 30.0


class _Child(subprocess.Popen[bytes]):
    """A process with stdin and stdout pipes."""

    stdin: IO[bytes]
    stdout: IO[bytes]


class ReplayProcess:
    """A `RecordReplay` in a process that outlives its caller by one transaction at most; started on first use."""

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str,
        transactional_id: str,
        batch_bytes: int = 1_000_000,
        timeout: float = 60.0,
    ) -> None:
        """Check the arguments, those of `RecordReplay`; a pipe hands them over, so that no command line shows them."""
        RecordReplay(config, alias, transactional_id, batch_bytes, timeout)
        self._settings = (dict(config), alias, transactional_id, batch_bytes, timeout)
        self._alias, self._id, self._patience = alias, transactional_id, timeout + _MORE_SECONDS
        self._process: _Child | None = None

    def __repr__(self) -> str:
        return f"ReplayProcess({self._alias!r}, {self._id!r})"

    def fence(self) -> None:
        """Take over the transactional id, see `RecordReplay.fence`."""
        self._request(self._process or self._start(), "fence")

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object] = lambda: None) -> None:
        """Write records in one transaction; once sent to the process, the transaction survives the caller.

        Args:
            still_allowed: called after all records are collected, before any is sent to the process; an exception
                prevents the write.
        """
        process = self._process
        if process is None:
            raise BadInput(f"{self._id} was not taken before writing to {self._alias}", "no fence", "call fence first")
        collected = [*records]
        still_allowed()
        self._request(process, "write", collected)

    def close(self) -> None:
        """Let the process finish its transaction and exit; kill it if it does not exit in time."""
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
        # A session of its own: signals to the task's process group do not reach the process.
        self._process = process = _Child(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self._send(process, self._settings)
        return process

    def _request(self, process: _Child, what: str, *arguments: Any) -> None:
        self._send(process, (what, arguments))
        answer = self._answer(process)
        if answer is not None:
            raise answer

    def _send(self, process: _Child, message: Any) -> None:
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
        except OSError as error:
            raise self._lost_process(type(error).__name__) from None

    def _answer(self, process: _Child) -> SwitchbackError | None:
        if not select.select([process.stdout], [], [], self._patience)[0]:
            process.kill()
            raise self._lost_process(f"no answer within {self._patience:g} s")
        try:
            answer: SwitchbackError | None = pickle.load(process.stdout)  # noqa: S301 (a pipe from a child of one's own)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._lost_process(type(error).__name__) from None
        return answer

    def _lost_process(self, seen: str) -> KafkaUnavailable:
        self.close()
        return KafkaUnavailable(
            f"the process that writes to {self._alias} is gone",
            seen,
            "Nothing: what it committed is found by the next one",
        )


def serve_requests(given: IO[bytes], answers: IO[bytes]) -> None:
    """Serve requests in order until the pipe closes; a request that arrived in full is still served.

    Args:
        given: pickled requests; the first holds the arguments of `RecordReplay`.
        answers: for each other request, its pickled error, None for success.
    """
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
            pickle.dump(_call(writer, *message), answers)
            answers.flush()
        except BrokenPipeError:
            return


def _call(writer: RecordReplay, what: str, arguments: tuple[Any, ...]) -> SwitchbackError | None:
    try:
        getattr(writer, what)(*arguments)
    except SwitchbackError as error:
        return error
    return None
