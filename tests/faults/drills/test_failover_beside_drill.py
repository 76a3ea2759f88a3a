"""An unplanned failover is as fast beside a drill that is given up as without one, and comes to the same end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median, quantiles

import pytest

from tests.faults.drills.incidents import POINTS, Incidents
from tests.faults.support.rounds import how_many, on_a_lab

WITHOUT = "no drill"
#: A difference of medians this small, as part of the median without a drill, is noise even if the runs hardly differ.
SMALL = 0.1
#: Names a file in which the seconds of earlier sessions stand, so that the rounds can be done in several sessions.
KEPT = "SWITCHBACK_KEPT_SECONDS"


@pytest.fixture(scope="module")
def incidents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incidents]:
    """A lab without Airflow, and an unplanned failover on it that the check passed."""
    yield from on_a_lab(Incidents, tmp_path_factory)


def test_a_drill_does_not_slow_a_failover_down(incidents: Incidents, tmp_path: Path) -> None:
    """Five runs each, in turn: medians differ by no more than the noise of the runs without a drill."""
    kept = Path(os.environ.get(KEPT, tmp_path / "seconds.json"))
    seconds: dict[str, list[float]] = {point: [] for point in (WITHOUT, *POINTS)}
    seconds |= json.loads(kept.read_text()) if kept.exists() else {}
    wrong: list[str] = []
    for number, point in product(range(how_many(5)), seconds):
        if len(seconds[point]) > number:
            continue
        took, found = incidents.round(None if point == WITHOUT else point)
        print(f"{number} {point}: open after {took:.1f} s; {found or 'same end state'}", flush=True)
        wrong += [f"{point} {number}: {text}" for text in found]
        seconds[point].append(took)
        kept.write_text(json.dumps(seconds))
    assert not wrong, "\n".join(wrong)
    spread = {point: quantiles(took, n=4, method="inclusive") for point, took in seconds.items()}
    usual = median(seconds[WITHOUT])
    noise = max(spread[WITHOUT][2] - spread[WITHOUT][0], SMALL * usual)
    print(f"noise {noise:.2f} s")
    for point, took in seconds.items():
        low, middle, high = spread[point]
        print(f"{point}: median {middle:.2f} s, quartiles {low:.2f} to {high:.2f} s, {middle - usual:+.2f} s: {took}")
    differ = [point for point in POINTS if abs(median(seconds[point]) - usual) > noise]
    assert not differ, f"more than the noise of {noise:.2f} s apart: {differ}"
