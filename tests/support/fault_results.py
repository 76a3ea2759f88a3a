"""The pytest plugin of `make faults`: runs fault and property tests in parts, and resumes after an interrupted run.

Results of a commit are in `.faults/<commit>.jsonl`, one line per test; a test that a commit has passed is not run
again.
With uncommitted changes no result is stored and all tests are run.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

FAULTS = "tests/faults/"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the part to run."""
    parser.addoption("--shard", default="1/1", help="the part of all files that is run: 2/3 is the second of three")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin of this run."""
    number, _, count = config.getoption("--shard").partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"SHARD={config.getoption('--shard')}: must be i/n with 1 <= i <= n, for example 2/3")
    config.pluginmanager.register(FaultResults(config.rootpath, int(number), int(count)))


class FaultResults:
    """Selects the tests to run, and stores their results.

    Attributes:
        commit: of the checkout; None with uncommitted changes.
    """

    def __init__(self, root: Path, number: int, count: int) -> None:
        self._number, self._count = number, count
        self.commit = _commit(root)
        self._file = root / ".faults" / f"{self.commit}.jsonl"
        self._wanted: set[str] = set()
        self._failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out tests of `make test`, files of other parts, and what this commit has passed."""
        wanted = [item for item in items if item.nodeid.startswith(FAULTS) or _is_property(item)]
        self._wanted = {item.nodeid for item in wanted}
        files = sorted({item.path for item in wanted})
        part, passed = set(files[self._number - 1 :: self._count]), self._passed()
        chosen = [item for item in wanted if item.path in part and item.nodeid not in passed]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the result once the test has ended, teardown included."""
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when == "teardown" and self.commit:
            self._file.parent.mkdir(exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                print(json.dumps({"test": report.nodeid, "passed": report.nodeid not in self._failed}), file=file)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how many of all tests this commit has passed."""
        if self.commit is None:
            terminalreporter.write_line("faults: uncommitted changes, so results are not kept")
            return
        left = self._wanted - self._passed()
        terminalreporter.write_line(
            f"faults: commit {self.commit[:12]} has passed {len(self._wanted) - len(left)} of {len(self._wanted)} tests"
        )

    def _passed(self) -> set[str]:
        """Return the tests whose last result on this commit is a pass; a skipped test counts as passed."""
        if self.commit is None or not self._file.exists():
            return set()
        results = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
        last = {result["test"]: result["passed"] for result in results}
        return {test for test, passed in last.items() if passed}


def _is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _commit(root: Path) -> str | None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    return None if git("status", "--porcelain") else git("rev-parse", "HEAD")
