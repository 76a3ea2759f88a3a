"""`make faults` in parts, and resumed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "tests/faults/test_first.py": "def test_one(): pass\ndef test_two(): pass\n",
    "tests/faults/test_second.py": "from pathlib import Path\ndef test_three(): assert Path('/{mended}').exists()\n",
    "tests/test_property.py": "from hypothesis import given, strategies as st\n"
    "@given(st.none())\ndef test_four(x): pass\ndef test_unit(): pass\n",
    ".gitignore": ".faults\n__pycache__\n.pytest_cache\n.hypothesis\nmended\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed checkout of four tests in three files; one fails until a file `mended` is there."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("{mended}", f"{tmp_path}/mended"))
    for words in ("init -q", "add .", "-c user.name=t -c user.email=t@example.org commit -qm t"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    return tmp_path


def faults(checkout: Path, *options: str) -> tuple[set[str], str]:
    """Run them; return the tests that were run, and the last words."""
    command = [sys.executable, "-m", "pytest", "-v", "tests", "-p", "tests.support.fault_results", *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    said = re.findall(r"faults: (?:commit \w{12} )?(.*)", done.stdout) or [done.stderr]
    return set(re.findall(r"::(test_\w+) (?:PASSED|FAILED)", done.stdout)), said[-1]


def test_what_a_commit_has_passed_is_not_run_again(checkout: Path) -> None:
    """A failed test is; and what `make test` runs is not among the faults, but for its properties."""
    everything = {"test_one", "test_two", "test_three", "test_four"}
    assert faults(checkout) == (everything, "has passed 3 of 4 tests")
    (checkout / "mended").touch()
    assert faults(checkout) == ({"test_three"}, "has passed 4 of 4 tests")
    assert faults(checkout) == (set(), "has passed 4 of 4 tests")


def test_parts_are_whole_files_and_make_the_whole(checkout: Path) -> None:
    """No test is in two parts; the count is that of all parts."""
    (checkout / "mended").touch()
    first, said = faults(checkout, "--shard=1/2")
    assert said == f"has passed {len(first)} of 4 tests"
    second, said = faults(checkout, "--shard=2/2")
    assert not first & second and said == "has passed 4 of 4 tests"


def test_uncommitted_changes_are_tested_and_not_counted(checkout: Path) -> None:
    """Nobody could say later what was tested."""
    (checkout / "new.py").touch()
    for _ in range(2):
        ran, said = faults(checkout)
        assert len(ran) == 4 and said == "uncommitted changes, so results are not kept"


def test_a_part_that_is_none_is_refused(checkout: Path) -> None:
    """Before anything is run."""
    ran, said = faults(checkout, "--shard=4/3")
    assert not ran and "SHARD=4/3: must be i/n with 1 <= i <= n, for example 2/3" in said
