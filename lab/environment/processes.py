"""Start, record, find and stop processes that outlive the command that started them.

A pid alone does not identify a process, because pids are reused: a record also has the process's start time and the
machine's boot id.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError

MARKER = "SWITCHBACK_LAB_MEMBER"
TAIL_LINES = 25


@dataclass(frozen=True)
class Sighting:
    """One process in /proc: pid, session id, state letter, and start time in clock ticks since the machine's boot."""

    pid: int
    session: int
    state: str
    started: int


@dataclass(frozen=True)
class Started:
    """The record of a started process; the process leads a session, so that its pid is also the session's id."""

    pid: int
    started: int
    boot: str


class ProcessTable:
    """Starts, finds and stops the processes of one lab, by name."""

    def __init__(self, folder: Path, logs: Path, marker: str) -> None:
        """Use ``folder`` for records and ``logs`` for outputs.

        ``marker`` is set in each process's environment, so that the process's descendants are recognized, too.
        """
        self._folder, self._logs, self._marker = folder, logs, marker

    def start(self, name: str, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        """Start a process in a new session; append the process's output to ``<name>.out`` in the folder of logs.

        If an earlier process of this name has ended, the rest of that process's session is killed first, because the
        lab stores one session id for a name, and this start overwrites that id.
        """
        self._kill_session_of_dead(name)
        for folder in (self._folder, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        with self.output(name).open("ab") as output:
            child = subprocess.Popen(
                argv, env=env | {MARKER: self._marker}, cwd=cwd, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        sighting = find_process(child.pid)
        started = Started(child.pid, sighting.started if sighting else 0, boot_id())
        (self._folder / f"{name}.json").write_text(json.dumps(asdict(started)))

    def _kill_session_of_dead(self, name: str) -> None:
        record = self._record(name)
        if record is None or record.boot != boot_id() or self.pid(name) is not None:
            return
        for sighting in list_processes():
            if _may_be_ours(sighting.pid) and _belongs_to(sighting, record):
                _kill_if_same(sighting)

    def pid(self, name: str) -> int | None:
        """Return the pid of the process of this name if it is running, else None."""
        record = self._record(name)
        if record is None:
            return None
        sighting = find_process(record.pid)
        alive = sighting and sighting.state != "Z" and sighting.started == record.started and record.boot == boot_id()
        return record.pid if alive else None

    def output(self, name: str) -> Path:
        """Return the path of the file to which a process's output is appended."""
        return self._logs / f"{name}.out"

    def must_live(self, *names: str) -> None:
        """Refuse to continue if a process of these names is not running.

        Raises:
            LabError: a process has ended; the text has the last lines of its logs.
        """
        for name in names:
            if self.pid(name) is None:
                raise LabError(f"{name} has ended; the last lines of its logs:\n{self.tail(name)}")

    def tail(self, name: str) -> str:
        """Return the last 25 lines of each of a process's output and log files, as one text."""
        texts = [path.read_text(errors="replace") for path in sorted(self._logs.glob(f"{name}.*")) if path.is_file()]
        return "\n".join(line for text in texts for line in text.splitlines()[-TAIL_LINES:])

    def members(self) -> dict[int, Sighting]:
        """Return, by pid, those processes that run now of all that this lab started, and of their descendants."""
        records = [record for record in self._records() if record.boot == boot_id()]
        return {
            sighting.pid: sighting
            for sighting in list_processes()
            if sighting.state != "Z" and sighting.pid != os.getpid() and _may_be_ours(sighting.pid)
            and (any(_belongs_to(sighting, record) for record in records) or self._is_marked(sighting.pid))
        }  # fmt: skip

    def stop(self, grace: float, deadline: float = 20.0, politely: tuple[str, ...] = ()) -> int:
        """Stop all processes of this lab and wait for their ends; return how many processes ran.

        Args:
            grace: seconds between SIGTERM and SIGKILL for processes with a name in `politely`; all other processes get
                SIGKILL at once.
            deadline: seconds until this method gives up.
            politely: prefixes of the names of processes that get SIGTERM first.

        Raises:
            LabError: a process survived SIGKILL.
        """
        count, start = len(self.members()), time.monotonic()
        for name in self._names():
            if name.startswith(politely or "\0") and (pid := self.pid(name)):
                _signal_group(pid, signal.SIGTERM)
                start = time.monotonic()
            elif pid := self.pid(name):
                _signal_group(pid, signal.SIGKILL)
        while remaining := self.members():
            elapsed = time.monotonic() - start
            if elapsed > deadline:
                raise LabError(
                    f"the processes with these pids still run after SIGKILL: {sorted(remaining)}; list the processes"
                    " with: ps -lfp <pid>, where state D means that a process waits for a disk. When the processes have"
                    " ended, repeat: python -m lab down --state <the lab's folder>"
                )
            if elapsed >= grace:
                for sighting in remaining.values():
                    _kill_if_same(sighting)
            time.sleep(0.05)
        return count

    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def _records(self) -> list[Started]:
        return [record for name in self._names() if (record := self._record(name))]

    def _record(self, name: str) -> Started | None:
        try:
            return Started(**json.loads((self._folder / f"{name}.json").read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"{MARKER}={self._marker}".encode() in environment


def boot_id() -> str:
    """Return the machine's boot id, which changes with every boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find_process(pid: int) -> Sighting | None:
    """Return the process of a pid, as read from /proc; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Sighting(pid, session=int(fields[3]), state=fields[0], started=int(fields[19]))


def list_processes() -> Iterator[Sighting]:
    """Yield all processes of the machine, including processes of other users."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (sighting := find_process(int(entry.name))):
            yield sighting


def _belongs_to(sighting: Sighting, record: Started) -> bool:
    # While a session has members, its id is not reused as a pid. So if the pid in the record now belongs to a process
    # with another start time, the session is also another session.
    if sighting.session != record.pid or sighting.started < record.started:
        return False
    leader = find_process(record.pid)
    return leader is None or leader.started == record.started


def _may_be_ours(pid: int) -> bool:
    """Whether this user may have started a process: root also starts processes of another user, PostgreSQL's."""
    try:
        return os.getuid() in (0, Path(f"/proc/{pid}").stat().st_uid)
    except OSError:
        return False


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _kill_if_same(sighting: Sighting) -> None:
    current = find_process(sighting.pid)
    if current and current.started == sighting.started:
        try:
            os.kill(sighting.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
