"""`make check`: every tool at once; prints what each took and what it found, and fails if any found something."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SOURCES = ("plugins", "spark", ".")

#: The longest first: two run at a time.
TOOLS: dict[str, tuple[str, ...]] = {
    "types": (str(BIN / "mypy"),),
    "house rules": (sys.executable, "-m", "pytest", "-q", "tests/test_house_rules.py"),
    "lint": (str(BIN / "ruff"), "check"),
    "format": (str(BIN / "ruff"), "format", "--check"),
    "layers": (str(BIN / "lint-imports"),),
    "requirements": (str(BIN / "deptry"), "."),
}


class Finding(NamedTuple):
    """What a tool answered."""

    tool: str
    code: int
    seconds: float
    output: str


def run_tool(tool: str, root: Path = ROOT) -> Finding:
    """Run one tool on a checkout."""
    began = time.monotonic()
    settings = os.environ | {"PYTHONPATH": os.pathsep.join(str(root / source) for source in SOURCES)}
    done = subprocess.run(
        TOOLS[tool], cwd=root, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return Finding(tool, done.returncode, time.monotonic() - began, done.stdout)


def main() -> int:
    """Run all tools; return 1 if one found something."""
    with ThreadPoolExecutor(2) as pool:
        findings = list(pool.map(run_tool, TOOLS))
    for finding in findings:
        print(f"check: {finding.tool:<12} {finding.seconds:5.1f} s  {'ok' if finding.code == 0 else 'FAILED'}")
    failed = [finding for finding in findings if finding.code]
    for finding in failed:
        print(f"\n--- {finding.tool} ---\n{finding.output.strip()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
