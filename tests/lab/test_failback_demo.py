"""What the demo of a round trip does with what it is told: nothing of it needs a lab."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lab.checker import CheckResult, Finding, Trip
from lab.checker.round_trip.observed import FAILBACK
from lab.demo import failback
from lab.demo.demonstration import Choices
from lab.demo.failback import FailbackDemo
from lab.workload import GroundTruth

WRONG = CheckResult([Finding("missing", "one record")])


class Told:
    """Round trips that come out as they are told to."""

    def __init__(self, folder: Path, there: CheckResult, back: CheckResult) -> None:
        self.folder, self.verdicts, self.done = folder, {"leave": there, "come_back": back}, []
        self.meddle: Callable[[Trip], object] = lambda trip: None

    def seed_topics(self) -> GroundTruth:
        """Nothing."""
        return GroundTruth(1, "primary")

    def leave(self, how: Any) -> CheckResult:
        """Clients go over."""
        return self._change("leave")

    def come_back(self, how: Any) -> CheckResult:
        """Clients return."""
        return self._change("come_back")

    def evidence(self) -> tuple[Path, dict[str, Any]]:
        """What the last one left."""
        return self.last, {"classes": {"END": 1}}

    def _change(self, name: str) -> CheckResult:
        self.done.append(name)
        self.last = self.folder / name
        self.last.mkdir()
        self.meddle(Trip(0, FAILBACK, "standby", "primary", {}))
        return self.verdicts[name]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, Told]]:
    """A demo's exit code, what it printed, and what it had done."""

    def one(there: CheckResult, back: CheckResult, tamper: str = "") -> tuple[int, str, Told]:
        shown, told = StringIO(), Told(tmp_path, there, back)
        monkeypatch.setattr(failback, "up", lambda state: {"airflow": {}})
        monkeypatch.setattr(failback, "keep_evidence", lambda folder: folder)
        monkeypatch.setattr(failback, "GateWatcher", lambda *_: nullcontext())
        monkeypatch.setattr(FailbackDemo, "rehearsal", lambda *_: told)
        monkeypatch.setattr(FailbackDemo, "_meddle", lambda self, trip: told.done.append("meddled"))
        code = FailbackDemo(
            Choices(tamper, False), tmp_path, Console(file=shown, width=140, force_terminal=False)
        ).run()
        return code, shown.getvalue(), told

    return one


def test_both_ways_are_shown_and_kept(run: Callable[..., Any], tmp_path: Path) -> None:
    """The exit code is 0 only after both; each verdict lies beside its evidence."""
    code, shown, told = run(CheckResult(), CheckResult())
    assert (code, told.done) == (0, ["leave", "come_back", "meddled"])
    assert "PASSED: no record skipped" in shown and shown.count("evidence: ") == 2
    assert all(json.loads((tmp_path / name / "verdict.json").read_text())["passed"] for name in ("leave", "come_back"))


def test_nobody_returns_from_a_failover_that_was_not_right(run: Callable[..., Any]) -> None:
    """Its findings are shown."""
    code, shown, told = run(WRONG, CheckResult())
    assert (code, told.done) == (1, ["leave"])
    assert "one record" in shown and "FAILED" in shown


@pytest.mark.parametrize(("back", "code"), [(WRONG, 1), (CheckResult(), 2)])
def test_tampering_must_be_noticed(run: Callable[..., Any], back: CheckResult, code: int) -> None:
    """It is done after the way back, and the demo fails either way; unnoticed it says so."""
    found, shown, told = run(CheckResult(), back, "record")
    assert (found, told.done) == (code, ["leave", "come_back", "meddled"])
    assert ("did not detect the tampering" in shown) == (code == 2)
