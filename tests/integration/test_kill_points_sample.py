"""A sample of the kill points of `make faults`: another each day, the same for one SWITCHBACK_SEED."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from pathlib import Path

from lab.environment.state import Lab
from tests.faults.support.rounds import Rounds, points

SAMPLE = 2


def test_killed_at_random(bare_lab: Lab, tmp_path: Path) -> None:
    """Killed after a few journal writes: the end state is the undisturbed run's, which the check passed."""
    chance = random.Random(os.environ.get("SWITCHBACK_SEED") or datetime.now(UTC).date().toordinal())
    rounds = Rounds(bare_lab.root, tmp_path)
    try:
        for step, n in chance.sample(list(points(rounds)), SAMPLE):
            run, after = rounds.begun_before(step)
            evidence = rounds.driver.whole(run, after=after, **{step: {"kill_at": n}})
            assert rounds.differences(run, evidence) == [] and run.killed == [step], f"{step} write {n}"
    finally:
        rounds.close()
