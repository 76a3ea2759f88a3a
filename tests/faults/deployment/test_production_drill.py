"""A canary drill on the profile `production`, beside clients that write and flows of `.*`: nothing of theirs is touched.

The checker judges from outside, with clients of its own: `lab/checker/untouched`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.environment.state import Lab
from tests.faults.deployment.drill_beside_production import DrillBesideProduction
from tests.support.rehearsals import kept_if_it_fails

#: Records a second that production's clients write all the time.
RATE = int(os.environ.get("SWITCHBACK_RATE", "2000"))
PASSES = ("run_planned_failover", "run_failback", "run_unplanned_failover", "run_second_failback")


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_drill_touches_nothing_of_production(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """By ids, rights, settings, offsets, tasks, denied requests and heartbeats; and all passes of the drill complete."""
    lab = Lab(fresh_lab(policy, profile="production"))
    made = DrillBesideProduction(lab, tmp_path, RATE)
    with kept_if_it_fails(lab.root, tmp_path):
        with made.at_work():
            evidence = made.run_drill()
        made.judge_records()
        print(dict(made.verdict.figures), flush=True)
        assert made.verdict.passed, "\n".join(made.verdict.lines(limit=5))
        _went_well(evidence["drill"])
    figures = made.verdict.figures
    assert figures["records"] > RATE and figures["denied_to_drill"] > 0 and figures["samples"] > 1
    assert figures["offsets_grown"] > 0 and figures["read_by_consumers"] >= 2 * figures["records"]


def _went_well(drill: dict) -> None:
    """Assert that every pass completed, by the drill's own count without a loss that it did not list."""
    assert {one["name"]: one["outcome"] for one in drill["passes"]} == dict.fromkeys(PASSES, "completed")
    for one in drill["passes"]:
        print(f"{one['name']}: {one['integrity']}, {one.get('seconds')}", flush=True)
        assert one["integrity"]["lost_unlisted"] == one["integrity"]["positions_ahead"] == 0, one["name"]
    assert drill["untouched"]["held"] is True and drill["left_over"] == [] and drill["scope_refusals"] == []
