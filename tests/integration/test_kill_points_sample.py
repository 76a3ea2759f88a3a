"""A rotating sample of what `make faults` does for every journal write: another one each day, the same one for
the same SWITCHBACK_SEED.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.rounds import COPIED, Rounds, points

SAMPLE = 2


def test_killed_and_copied_at_random(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Killed after a few journal writes, five copies of a few steps: the end state is the undisturbed run's, which
    the judge passed.
    """
    chance = random.Random(os.environ.get("SWITCHBACK_SEED") or datetime.now(UTC).date().toordinal())
    rounds = Rounds(fresh_lab("identity", airflow=False), tmp_path)
    try:
        for step, n in chance.sample(list(points(rounds)), SAMPLE):
            run, after = rounds.begun_before(step)
            evidence = rounds.driver.whole(run, after=after, **{step: {"kill_at": n}})
            assert rounds.differences(run, evidence) == [] and run.killed == [step], f"{step} write {n}"
        run = rounds.continued("review_translation")
        evidence = rounds.driver.whole(run, after="review_translation", **{step: {"copies": 5} for step in COPIED})
        assert rounds.differences(run, evidence) == []
    finally:
        rounds.close()
