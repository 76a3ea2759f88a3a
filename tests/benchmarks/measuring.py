"""Measuring: passes in turn, their median and spread, ratios with their bounds, and the memory of processes."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Bound:
    """What a figure may be: at most, or at least, a limit."""

    limit: float
    at_least: bool = False

    def holds(self, value: float) -> bool:
        """Whether a figure keeps the bound."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass
class Figure:
    """One line of the end: a ratio (or an own time) beside its bound; None as long as it was not measured."""

    name: str
    bound: Bound | None
    value: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """In a word: ok, MISSED, NOT MEASURED, or `no bound`."""
        if self.value is None:
            return "NOT MEASURED"
        if self.bound is None:
            return "no bound"
        return "ok" if self.bound.holds(self.value) else "MISSED"

    def __str__(self) -> str:
        shown = (
            "-"
            if self.value is None
            else f"{self.value:.3g}{self.unit}"
            if self.value < 100
            else f"{self.value:,.0f}{self.unit}"
        )
        bound = f" (bound {self.bound}{self.unit})" if self.bound else ""
        return f"{self.name}: {shown}{bound} {self.verdict}" + (f"; {self.note}" if self.note else "")


@dataclass
class Figures:
    """The figures a benchmark must deliver; named beforehand, so that none is forgotten."""

    promised: dict[str, Figure] = field(default_factory=dict)

    def promise(self, name: str, bound: Bound | None = None, unit: str = "") -> None:
        """Name a figure that has to be measured."""
        self.promised[name] = Figure(name, bound, unit=unit)

    def measured(self, name: str, value: float, note: str = "") -> None:
        """Fill in a promised figure."""
        figure = self.promised[name]
        figure.value, figure.note = value, note
        say(f"  -> {figure}")


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def told(seconds: list[float]) -> str:
    """Passes as a person reads them: median and spread."""
    return (
        f"median {statistics.median(seconds):.2f} s (min {min(seconds):.2f}, max {max(seconds):.2f}, {len(seconds)}"
        " passes)"
    )


def timed(act: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


def in_turns(
    contestants: Mapping[str, Callable[[], float]], passes: int, warm_up: bool = False
) -> dict[str, list[float]]:
    """Let each do its pass in turn, the order reversed from round to round; each answers its own seconds."""
    if warm_up:
        first = ", ".join(f"{name} {one():.2f} s" for name, one in contestants.items())
        say(f"  first pass in each process, not counted: {first}")
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(passes):
        names = list(contestants)
        for name in names if number % 2 == 0 else reversed(names):
            took[name].append(contestants[name]())
    for name, seconds in took.items():
        say(f"  {name}: {told(seconds)}")
    return took


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the ratio of two medians."""
    return statistics.median(ours) / statistics.median(theirs)


class PeakMemory:
    """Watches a process with all its descendants, and keeps the highest resident memory of each."""

    def __init__(self, pid: int) -> None:
        self._root, self._peaks, self._over = pid, {}, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def of(self, wanted: Callable[[str], bool]) -> int:
        """Return the sum of the peaks, in MB, of processes whose command line is wanted."""
        return sum(kilobytes for command, kilobytes in self._peaks.values() if wanted(command)) // 1024

    def largest(self, wanted: str) -> float:
        """Return the largest peak, in MB, of one process whose command line has a text."""
        return max(kilobytes for command, kilobytes in self._peaks.values() if wanted in command) / 1024

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for pid in family(self._root):
                self._note(pid)

    def _note(self, pid: int) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return
        peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
        self._peaks[pid] = command or self._peaks.get(pid, ("", 0))[0], max(peak, self._peaks.get(pid, ("", 0))[1])


def family(root: int) -> list[int]:
    """Return a process and all that descend from it, living now."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found
