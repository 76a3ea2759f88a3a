"""Stranded records equal the truth after random crashes, with repeats, compaction, transactions and likes."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident
from tests.faults.support.trips import SteppedTrips, stepped_trips
from tests.support.rehearsals import SEED, kept_if_it_fails

#: SWITCHBACK_CRASHES: fewer for a quick look.
CRASHES = int(os.environ.get("SWITCHBACK_CRASHES", "20"))
RATE = 3_000
KINDS = ("compacted", "transactional", "identical", "recurring")
RETURNS = (
    Returning(),
    Returning("recreate", {".*": "replay"}),
    Returning(stranded={".*": "keep"}, more=5),
    Returning("recreate", {".*": "quarantine"}),
)


def crash(number: int) -> Leaving:
    """Draw by a number how the source dies: two of three while replication stands, with every kind unmirrored."""
    rng = random.Random(number)
    stranded = rng.randrange(10, 80) if number % 3 else 0
    accident = Accident(
        rng.uniform(0.0, 6.0),
        kill_mirror_maker=bool(number & 1),
        lag=0.0 if stranded else rng.uniform(10.0, 20.0),
        offset_lag_max=0 if number & 2 else 100,
    )
    return Leaving(accident, more=rng.randrange(5, 60), stranded=stranded)


@pytest.mark.parametrize("number", range(CRASHES))
def test_the_export_is_the_truth(number: int, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Not one record too many, not one too few, each with what was written; those of no committed transaction apart."""
    state, how = fresh_lab("identity" if number % 4 else "default", airflow=False), crash(number)
    print(f"crash {number}: {how}", flush=True)
    with kept_if_it_fails(state, tmp_path), stepped_trips(state, tmp_path, SEED + number, RATE) as trips:
        for verdict in (trips.leave(how), trips.come_back(RETURNS[number % len(RETURNS)])):
            print(dict(verdict.figures), flush=True)
            assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert verdict.figures["stranded_listed"] > 0, "nothing was stranded: the case shows nothing"
        if how.stranded:
            assert verdict.figures["stranded_apart"] > 0, "a transaction was left open, and nothing stands apart"
            assert kinds_listed(trips) >= set(KINDS)


def kinds_listed(trips: SteppedTrips) -> set[str]:
    """Kinds of topics of which the last failback's export lists records."""
    folder, evidence = trips.evidence()
    topics = {
        topic
        for path in (folder / evidence["stranded"] / "stranded").glob("*.parquet")
        for topic in pq.read_table(path, columns=["topic"])["topic"].unique().to_pylist()
    }
    return {trips.truth.topics[topic].kind for topic in topics if topic in trips.truth.topics}
