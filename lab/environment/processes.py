"""Processes that outlive the command that started them, found again and stopped for certain.

A pid alone proves nothing, for pids are used again: a record also holds the start time and the machine's boot.
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
    """One line of the process table: start time in clock ticks since boot, session, state letter."""

    pid: int
    session: int
    state: str
    started: int


@dataclass(frozen=True)
class Started:
    """What is kept of a started process; it leads a session of its own, so its pid names the session too."""

    pid: int
    started: int
    boot: str


class ProcessTable:
    """The processes of one lab, by name."""

    def __init__(self, folder: Path, logs: Path, marker: str) -> None:
        """Records are kept in ``folder``, output goes to ``logs``; ``marker`` stands in every member's environment."""
        self._folder, self._logs, self._marker = folder, logs, marker

    def start(self, name: str, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        """Start a process in a session of its own, its output appended to ``<name>.out``.

        What a dead process of this name left in its session ends first: with its record gone, nobody would find it.
        """
        self._end_left_behind(name)
        for folder in (self._folder, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        with self.output(name).open("ab") as output:
            child = subprocess.Popen(
                argv, env=env | {MARKER: self._marker}, cwd=cwd, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        seen = find_process(child.pid)
        started = Started(child.pid, seen.started if seen else 0, boot_id())
        (self._folder / f"{name}.json").write_text(json.dumps(asdict(started)))

    def _end_left_behind(self, name: str) -> None:
        old = self._record(name)
        if old is None or old.boot != boot_id() or self.pid(name) is not None:
            return
        for seen in list_processes():
            if _owner(seen.pid) == os.getuid() and _belongs(seen, old):
                _kill_if_same(seen)

    def pid(self, name: str) -> int | None:
        """The pid of a living process of this name, else None."""
        record = self._record(name)
        if record is None:
            return None
        seen = find_process(record.pid)
        alive = seen and seen.state != "Z" and seen.started == record.started and record.boot == boot_id()
        return record.pid if alive else None

    def output(self, name: str) -> Path:
        """Where a process's output goes."""
        return self._logs / f"{name}.out"

    def must_live(self, *names: str) -> None:
        """Raise with the tail of its logs when one of these has died."""
        for name in names:
            if self.pid(name) is None:
                raise LabError(f"{name} has died; the last lines of its logs:\n{self.tail(name)}")

    def tail(self, name: str) -> str:
        """The last lines a process wrote, output and log file."""
        texts = [path.read_text(errors="replace") for path in sorted(self._logs.glob(f"{name}.*")) if path.is_file()]
        return "\n".join(line for text in texts for line in text.splitlines()[-TAIL_LINES:])

    def members(self) -> dict[int, Sighting]:
        """Every living process of this lab: led by, or descended from, one that it started."""
        records = [record for record in self._records() if record.boot == boot_id()]
        own = os.getuid()
        return {
            seen.pid: seen
            for seen in list_processes()
            if seen.state != "Z" and seen.pid != os.getpid() and _owner(seen.pid) == own
            and (any(_belongs(seen, record) for record in records) or self._is_marked(seen.pid))
        }  # fmt: skip

    def stop(self, grace: float, deadline: float = 20.0, politely: tuple[str, ...] = ()) -> int:
        """Stop everything and return only when it is gone; answers how many processes there were.

        Args:
            grace: seconds that the named ones get between SIGTERM and SIGKILL; all others are killed at once.
            deadline: seconds after which this gives up.
            politely: beginnings of the names that get the grace.

        Raises:
            LabError: some process survived SIGKILL.
        """
        count, start = len(self.members()), time.monotonic()
        for name in self._names():
            if name.startswith(politely or "\0") and (pid := self.pid(name)):
                _signal_group(pid, signal.SIGTERM)
                start = time.monotonic()
            elif pid := self.pid(name):
                _signal_group(pid, signal.SIGKILL)
        while left := self.members():
            waited = time.monotonic() - start
            if waited > deadline:
                raise LabError(f"still alive after SIGKILL: {sorted(left)}; look at them with: ps -fp <pid>")
            if waited >= grace:
                for seen in left.values():
                    _kill_if_same(seen)
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
    """Changes with every boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find_process(pid: int) -> Sighting | None:
    """What the process table says of a pid, None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Sighting(pid, session=int(fields[3]), state=fields[0], started=int(fields[19]))


def list_processes() -> Iterator[Sighting]:
    """All processes of the machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (seen := find_process(int(entry.name))):
            yield seen


def _belongs(seen: Sighting, record: Started) -> bool:
    # A session's number is not used again while it has members, so a later leader with this pid is told by its start
    # time.
    if seen.session != record.pid or seen.started < record.started:
        return False
    leader = find_process(record.pid)
    return leader is None or leader.started == record.started


def _owner(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _kill_if_same(seen: Sighting) -> None:
    now = find_process(seen.pid)
    if now and now.started == seen.started:
        try:
            os.kill(seen.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
