"""Runs the transactional writer in a process of its own, so that a killed task leaves no transaction half done.

Records of an aborted transaction stay in the log, and read_uncommitted readers get them, such as MirrorMaker 2 by
default. Before a transaction begins, all its records are therefore sent to a process that survives the task: this
process finishes the transaction, then exits.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import IO, Any

from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.errors import BadInput, KafkaUnavailable, SwitchbackError
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay
from kafka_dr.installation import python_path

_PROGRAM = (
    "import sys; from kafka_dr.hooks.brokers.writer_process import serve_requests;"
    " serve_requests(sys.stdin.buffer, sys.stdout.buffer)"
)
#: Added to the writer's own timeout: time to start the process, and to abort a failed transaction.
_MORE_SECONDS = 30.0


class _Child(subprocess.Popen[bytes]):
    """A child process whose stdin and stdout are pipes to this process."""

    stdin: IO[bytes]
    stdout: IO[bytes]


class ReplayProcess:
    """Writes records in transactions from a child process, which `fence` starts.

    The child process outlives its caller by one transaction at most.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        alias: str,
        transactional_id: str,
        batch_bytes: int = 1_000_000,
        timeout: float = 60.0,
        scope: DrillScope | None = None,
    ) -> None:
        """Check the arguments; no process is started yet.

        The process gets the arguments over a pipe, because a command line would show secrets.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
            transactional_id: the writer's transactional id.
            batch_bytes: maximum size of a batch, in bytes; a larger record is a batch of its own.
            timeout: limit of one `fence`, and of one transaction, in seconds.
            scope: in a drill, the topics and transactional ids that the writer may use.
        """
        RecordReplay(config, alias, transactional_id, batch_bytes, timeout, scope)
        self._settings = (dict(config), alias, transactional_id, batch_bytes, timeout, scope)
        self._alias, self._id, self._patience = alias, transactional_id, timeout + _MORE_SECONDS
        self._process: _Child | None = None

    def __repr__(self) -> str:
        return f"ReplayProcess({self._alias!r}, {self._id!r})"

    def fence(self) -> None:
        """Take over the transactional id: every older transaction under the id is then committed or aborted.

        The process is started if none runs.
        """
        self._request(self._process or self._start(), "fence")

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object] = lambda: None) -> None:
        """Write records in one transaction; on return the transaction is committed.

        Once the child process has all records, it finishes the transaction even if the calling process is killed.

        Args:
            still_allowed: called before the first record is sent to the child process; if it raises an error, nothing
                is written.
        """
        process = self._process
        if process is None:
            raise BadInput(
                f"{self._id} was not initialized before writing to {self._alias}",
                "the method fence was not called before the method write",
                "report this message as a defect of Switchback; nothing was written",
            )
        collected = [*records]
        still_allowed()
        self._request(process, "write", collected)

    def close(self) -> None:
        """Wait until the child process has finished its transaction and exited; at the time limit, kill it.

        The time limit is the constructor's `timeout` and a few seconds more.
        """
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
        # The process gets a session of its own: signals to the task's process group must not reach the process.
        self._process = process = _Child(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
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
            f"the process that writes to {self._alias} has ended, or did not answer",
            seen,
            "whether the last transaction is committed is unknown. Do nothing: the next attempt of the task reads which"
            " records are committed, and writes the other records",
        )


def serve_requests(given: IO[bytes], answers: IO[bytes]) -> None:
    """Run the child process: serve requests in order until the pipe closes.

    A request that arrived as a whole before the pipe closed is still served.

    Args:
        given: pickled messages: first the arguments of `RecordReplay`, then one message per request.
        answers: gets one pickled answer per request: None for success, else the error.
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
