"""Real round trips: a failback after a planned failover for each naming policy, and one after the source had
died; judged by code that shares nothing with the product.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.failback_rehearsal import Leaving, Returning
from lab.lost_source_rehearsal import Accident
from tests.rehearsed import trips_without_findings

RATE = 500
SMALL = {"scale": 0.02, "groups": 8}


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_there_and_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """After a planned failover nothing is stranded: clients return, with what they made meanwhile, and nothing that
    was there before is mirrored again.
    """
    trip = (Leaving(more=10), Returning(more=10, born=True))
    figures = trips_without_findings(fresh_lab(policy), tmp_path, [trip], RATE, recorded=False, **SMALL)
    assert figures["stranded_listed"] == figures["missing"] == 0


def test_back_to_a_source_that_had_died(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Records of every kind were never replicated: they are exported, to a record, and stay where they are; clients
    return.
    """
    trip = (Leaving(Accident(after=1.0), more=10, stranded=20, params={"confirm_seconds": 6}), Returning(more=10))
    figures = trips_without_findings(fresh_lab("identity"), tmp_path, [trip], RATE, **SMALL)
    assert figures["stranded_listed"] > 20 and figures["stranded_apart"] > 0
