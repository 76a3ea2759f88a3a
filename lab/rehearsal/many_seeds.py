"""Run planned failovers with many seeds, each on a new lab, and print a table of the results.

`python -m lab.rehearsal.many_seeds --policy identity --seeds 10`
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from lab.checker import CheckResult, Finding
from lab.demo.showing import make_console
from lab.environment.bring_up import up
from lab.environment.take_down import down
from lab.rehearsal.planned import rehearsal_under_load

FIGURES = (
    "groups",
    "positions",
    "exact",
    "records",
    "missing",
    "repeats",
    "acknowledged_by_load",
    "records_read_again",
)


def rehearse_anew(seed: int, options: argparse.Namespace) -> tuple[CheckResult, dict[str, Any]]:
    """Run the planned failover of one seed on a new lab; return the check's result and the evidence document.

    The lab is removed. If an exception ended the run, the result has it as a finding, and the document is {}.
    """
    state = Path(tempfile.mkdtemp(prefix=f"switchback-seed-{seed}-"))
    try:
        up(state, policy=options.policy, isolation=options.isolation)
        with rehearsal_under_load(state, options.keep / str(seed), seed, options.rate) as rehearsal:
            if options.kill:
                rehearsal.restart_mirror_maker()
            verdict, folder = rehearsal.conclude("approver"), rehearsal.evidence()[0]
        copied_folder = shutil.copytree(folder, options.keep / str(seed) / "evidence", dirs_exist_ok=True)
        return verdict, json.loads((copied_folder / "evidence.json").read_text(encoding="utf-8"))
    except Exception as error:  # noqa: BLE001 (a finding: the other seeds still run)
        traceback.print_exc()
        return CheckResult([Finding("rehearsal", f"{type(error).__name__}: {error}")]), {}
    finally:
        down(state)
        shutil.rmtree(state, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Run the planned failovers of all seeds and print a table; return 0 if every check passed, else 1."""
    options = _options(arguments)
    console = make_console()
    table = Table(title=f"planned_failover, {options.policy} naming, {options.rate:,} records/s", title_justify="left")
    for column in ("seed", "verdict", *(name.replace("_", " ") for name in FIGURES), "own s", "total s"):
        table.add_column(column, justify="right")
    passed = 0
    for seed in _seeds(options):
        started_at = time.monotonic()
        verdict, evidence = rehearse_anew(seed, options)
        passed += verdict.passed
        for line in verdict.lines(limit=3):
            console.print(f"seed {seed}: {line}", markup=False, soft_wrap=True)
        own_seconds = (evidence.get("seconds") or {}).get("own")
        figures = [str(verdict.figures[name]) for name in FIGURES]
        table.add_row(
            str(seed),
            "passed" if verdict.passed else f"{len(verdict.findings)} findings",
            *figures,
            f"{own_seconds}",
            f"{time.monotonic() - started_at:.0f}",
        )
        (options.keep / "seeds.jsonl").open("a", encoding="utf-8").write(
            json.dumps({"seed": seed, **verdict.document()}) + "\n"
        )
        console.print(table)
    console.print(f"{passed} of {options.seeds} seeds passed; truth, logs and evidence: {options.keep}")
    return 0 if passed == options.seeds else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.rehearsal.many_seeds", description="planned failovers with many seeds"
    )
    parser.add_argument("--policy", choices=("identity", "default"), default="identity")
    parser.add_argument("--isolation", choices=("read_uncommitted", "read_committed"), default="read_uncommitted")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--first", type=int, help="first seed (default: random); the next seeds count up")
    parser.add_argument("--rate", type=int, default=20_000, help="records per second of load; 0 for none")
    parser.add_argument(
        "--kill", action="store_true", help="kill MirrorMaker 2 with -9 under load before each failover"
    )
    parser.add_argument("--keep", type=Path, help="folder for truth, logs and evidence (default: temporary)")
    options = parser.parse_args(arguments)
    options.keep = options.keep or Path(tempfile.mkdtemp(prefix="switchback-seeds-"))
    options.keep.mkdir(parents=True, exist_ok=True)
    return options


def _seeds(options: argparse.Namespace) -> range:
    first = options.first if options.first is not None else random.SystemRandom().randrange(10**6)
    return range(first, first + options.seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
