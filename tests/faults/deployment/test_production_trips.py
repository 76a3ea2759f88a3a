"""Round trips on the profile `production` under load: planned, and after the whole source site was killed; judged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.checker import CheckResult
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning, RoundTrips
from lab.rehearsal.unplanned import Accident
from tests.faults.deployment.replica_watch import ReplicaWatch, reached_rates
from tests.support.rehearsals import SEED, kept_if_it_fails

#: Records a second asked for; what two busy cores with six brokers really reach is printed.
RATE = int(os.environ.get("SWITCHBACK_RATE", "5000"))
#: On the way back: MirrorMaker 2 must catch up with clients that go on writing, on the same two cores.
RATE_BACK = RATE // 5
#: A failback copies what clients wrote meanwhile: a quarter of an hour was too short on two busy cores.
RUN_SECONDS = 2_700
TRIPS = (
    (Leaving(more=10), Returning(more=10)),
    # All brokers, the controller and both workers of the source, with -9.
    (Leaving(Accident(after=10.0), params={"confirm_seconds": 6}), Returning(more=10)),
)


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_there_and_back_twice(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """By ids: nobody skipped, nothing missing, every claim true; and no replica falls out of sync by a fence."""
    lab = Lab(fresh_lab(policy, profile="production"))
    made = RoundTrips(lab.root, tmp_path, SEED, RATE, scale=0.1, groups=12)
    made.seconds = RUN_SECONDS
    with kept_if_it_fails(lab.root, tmp_path), ReplicaWatch(lab).watching() as watch:
        try:
            made.seed_topics()
            for number, (leaving, returning) in enumerate(TRIPS, 1):
                made.rate = RATE
                _without_findings(made, made.leave(leaving))
                made.rate = RATE_BACK
                _without_findings(made, made.come_back(returning, writes=number == len(TRIPS)))
        finally:
            made.stop()
            asked = f"{RATE} when leaving, {RATE_BACK} when returning"
            print(f"records a second: asked {asked}, reached {reached_rates(tmp_path)}", flush=True)
            print(f"{watch.looks} looks at replicas, out of sync: {watch.shrunk}", flush=True)
    assert watch.looks > 0 and watch.shrunk == []


def _without_findings(made: RoundTrips, verdict: CheckResult) -> None:
    """Assert that a client move passes the check, under load and with clients at work on both sides."""
    print(f"change {made.number - 1}, {made.dag_id}: {dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["missing"] == 0 < verdict.figures["positions"]
    assert verdict.figures["acknowledged_by_load"] > made.rate and verdict.figures["new_records_consumed"] > 0
