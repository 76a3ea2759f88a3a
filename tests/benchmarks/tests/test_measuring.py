"""The benchmarks' last lines: no ratio is forgotten, none that misses its bound passes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from tests.benchmarks.__main__ import BENCHMARKS, conclude, main
from tests.benchmarks.measuring import Bound, Figures, PeakMemory, in_turns, ratio
from tests.benchmarks.passes.contestants import JOBS, PEERS, QUIET_LOGGING


@pytest.mark.parametrize(
    ("bound", "value", "line", "code"),
    [
        (Bound(1.5), 1.4, "x: 1.4 (bound <= 1.5) ok; why", 0),
        (Bound(1.5), 1.6, "x: 1.6 (bound <= 1.5) MISSED; why", 1),
        (Bound(0.9, at_least=True), 0.85, "x: 0.85 (bound >= 0.9) MISSED; why", 1),
        (Bound(0.9, at_least=True), 0.9, "x: 0.9 (bound >= 0.9) ok; why", 0),
        (None, 3515.2, "x: 3,515 no bound; why", 0),
        (Bound(1.5), None, "x: - (bound <= 1.5) NOT MEASURED", 1),
        (None, None, "x: - NOT MEASURED", 1),
    ],
)
def test_every_figure_stands_beside_its_bound(
    capsys: pytest.CaptureFixture, bound: Bound | None, value: float | None, line: str, code: int
) -> None:
    """On the last line; the exit code is 0 only where all were measured and kept."""
    figures = Figures()
    figures.promise("x", bound)
    if value is not None:
        figures.measured("x", value, "why")
    assert conclude(figures, 1) == code
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_a_benchmark_that_fails_leaves_its_figures_unmeasured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It is told with its reason, and the exit code is not 0."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "b"])
    monkeypatch.setattr("tests.benchmarks.commits.run", lambda *_: 1 / 0)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert main() == 1
    said = capsys.readouterr()
    assert said.out.count("NOT MEASURED") >= 5 and "ZeroDivisionError" in said.err


def test_every_letter_is_there() -> None:
    """(a) to (p), each a module."""
    assert list(BENCHMARKS) == list("abcdefghijklmnop")


@pytest.mark.parametrize("letter", BENCHMARKS)
def test_every_figure_is_named_beforehand(letter: str) -> None:
    """Under its letter, as long as nothing was measured."""
    figures = Figures()
    importlib.import_module(f"tests.benchmarks.{BENCHMARKS[letter]}").promise(figures)
    assert figures.promised
    assert all(
        name.startswith(f"({letter}) ") and figure.verdict == "NOT MEASURED"
        for name, figure in figures.promised.items()
    )


def test_turns_are_taken_in_changing_order() -> None:
    """Whoever is first in one round is last in the next; the median counts."""
    order: list[str] = []
    took = in_turns({name: lambda name=name: order.append(name) or float(len(order)) for name in "xy"}, 3)
    assert "".join(order) == "xyyxxy"
    assert ratio(took["x"], took["y"]) == 4.0 / 3.0


def test_peak_memory_is_seen_though_it_was_given_back() -> None:
    """Of the child too, by its command line."""
    program = (
        "import os, subprocess, sys, time\nif len(sys.argv) > 1:\n    subprocess.run([sys.executable, '-c',"
        " sys.argv[1]])\nelse:\n    pass"
    )
    child = "import time; big = bytearray(200_000_000); del big; time.sleep(0.8)"
    with (
        subprocess.Popen([sys.executable, "-c", program, child], env=dict(os.environ)) as process,
        PeakMemory(process.pid) as memory,
    ):
        process.wait()
    assert memory.of(lambda command: "bytearray" in command and "subprocess" not in command) > 180
    assert memory.of(lambda command: "nobody" in command) == 0


def test_files_that_benchmarks_start_with_exist() -> None:
    """Java takes the path of a missing source file for the name of a class."""
    assert {path.name for path in PEERS.glob("*.java")} == {"ConsumerPasses.java", "MirrorClientPasses.java"}
    assert QUIET_LOGGING.is_file() and JOBS.is_dir()
