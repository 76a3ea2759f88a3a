"""The source's broker and its Connect worker killed with -9 under 20,000 records/s at ten random moments, judged without the source and again with it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lost_source_rehearsal import Accident
from tests.rehearsed import SEED, exact_list, lost_without_findings

#: SWITCHBACK_MOMENTS: fewer for a quick look.
MOMENTS = int(os.environ.get("SWITCHBACK_MOMENTS", "10"))
RATE = 20_000


def accident(moment: int) -> Accident:
    """The same for the same number: ten of them have both settings of the offset syncs, replication that runs and lags, and with and without repeats."""
    return Accident.at_random(random.Random(moment))


def test_ten_moments_show_everything() -> None:
    """A random choice that leaves something out would be found out here."""
    drawn = [accident(moment) for moment in range(10)]
    assert {one.offset_lag_max for one in drawn} == {0, 100}
    assert {one.kill_mirror_maker for one in drawn} == {bool(one.lag) for one in drawn} == {True, False}


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_nobody_skips_and_every_record_is_accounted_for(policy: str, moment: int, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """0 skipped, re-reads within the bound, the loss list by ids; with the old source back the exact list is the truth, both ways."""
    print(f"{policy} naming, moment {moment}: {accident(moment)}", flush=True)
    evidence = lost_without_findings(fresh_lab(policy), tmp_path, accident(moment), RATE, SEED + moment, stranded=exact_list)
    print(f"our bound {evidence['rereads']['bound']}, by MirrorMaker 2's checkpoints {evidence['rereads']['mirror_maker']}", flush=True)
