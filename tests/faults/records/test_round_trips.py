"""Ten mixed round trips on one lab under load: nothing lost or mirrored twice, nobody skipped."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning
from tests.faults.support.world import World
from tests.support.rehearsals import trips_without_findings

#: SWITCHBACK_TRIPS: fewer for a quick look.
TRIPS = int(os.environ.get("SWITCHBACK_TRIPS", "10"))
RATE = 2_000
CONFIRM_SECONDS = 6
#: Ways back, in turns; between them every mode and every decision. What is deleted cannot be kept in place.
RETURNS = (
    Returning(born=True, more=10),
    Returning(more=20),
    Returning("recreate", {".*": "discard"}, more=5),
    Returning("recreate", {".*": "replay"}, more=15),
    Returning(stranded={".*": "keep"}, more=10),
    Returning("recreate", {".*": "quarantine"}, born=True),
)  # fmt: skip


def trip(number: int) -> tuple[Leaving, Returning]:
    """The same for the same number: every other one leaves a source that died."""
    leaving = Leaving.drawn(number)
    return (
        replace(leaving, params={"confirm_seconds": CONFIRM_SECONDS} if leaving.accident else {}),
        RETURNS[number % len(RETURNS)],
    )


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_ten_in_a_row(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Judged by ids after every change of sides; in the end the pair is as it was before the first one."""
    state = fresh_lab(policy)
    before = as_a_pair(state)
    trips = [trip(number) for number in range(TRIPS)]
    figures = trips_without_findings(state, tmp_path, trips, RATE, scale=0.1, groups=12)
    assert as_a_pair(state) == before
    assert figures["flowed_on"] == figures["written_since"] - figures["standing"], (
        "a flow that runs has not copied all that clients wrote since"
    )
    assert figures["repeats"] > 0 or not any(leaving.crashed for leaving, _ in trips)
    assert figures["replays_due"] > 0 or TRIPS < 4, "nothing was replayed"


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_there_and_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """After a planned failover nothing is stranded: clients return, and nothing old is mirrored again."""
    trips = [(Leaving(more=10), Returning(more=10, born=True))]
    figures = trips_without_findings(fresh_lab(policy), tmp_path, trips, 500, recorded=False, scale=0.02, groups=8)
    assert figures["stranded_listed"] == figures["missing"] == 0


def as_a_pair(state: Path) -> dict[str, Any]:
    """Which flows run, and where clients are sent."""
    seen = World(Lab(state), []).look()
    return {name: seen[name] for name in ("connectors", "routing")}
