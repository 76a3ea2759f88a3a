"""The source's addresses swallow every connection: nothing waits beyond its deadline, forward or back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.lost_source_rehearsal import Accident, LostSourceRehearsal
from tests.faults.black_hole import black_holed, source_ports
from tests.faults.lost_scene import DEADLINES, figures_of, lost_scene
from tests.rehearsed import SEED

OWN_SECONDS = 30.0
#: How long past its deadline a step may still take to say so: a process that starts, two cores, a request on its way.
SLACK_SECONDS = 5.0
#: `fence_source` waits so long for an answer of the source.
ANSWER_SECONDS = 5.0


def overdue(evidence: dict[str, Any]) -> list[str]:
    """Steps that lasted longer than they may."""
    deadlines = evidence["plan"]["deadlines"]
    longest = {
        "confirm_source_lost": deadlines["confirm_seconds"] + 1.5 * deadlines["slow_seconds"],
        "fence_source": ANSWER_SECONDS,
        "stop_mirror_maker": deadlines["stop_seconds"],
        "commit_groups": deadlines["stop_seconds"],
        "open_target": deadlines["stop_seconds"],
        "verify_clients": deadlines["verify_seconds"],
        "return_to_source": deadlines["return_seconds"],
    }
    took = {row["id"]: seconds_between(row["started_at"], row["ended_at"]) for row in evidence["steps"]}
    print({step: round(seconds, 1) for step, seconds in took.items()}, evidence["seconds"], flush=True)
    return [f"{step} took {took[step]:.1f} s, at most {limit:.1f}" for step, limit in longest.items() if took.get(step, 0.0) > limit + SLACK_SECONDS]


def seconds_between(start: str, end: str) -> float:
    """Between two ISO 8601 times."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_ten_groups_go_on_in_time(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Ten groups through Airflow, from confirm_source_lost to close_procedure: its own time is at most 30 s."""
    rehearsal = LostSourceRehearsal(fresh_lab(policy), tmp_path, SEED, 2_000, scale=0.1, groups=6)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        rehearsal.lose_source(Accident(after=2.0))
        with black_holed(source_ports(rehearsal.lab)):
            verdict = rehearsal.conclude("approver")
    finally:
        rehearsal.stop()
    _, evidence = rehearsal.evidence()
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert len(evidence["plan"]["groups"]) >= 10
    assert overdue(evidence) == []
    assert evidence["seconds"]["own"] <= OWN_SECONDS


@pytest.mark.parametrize("until", ["approve_data_loss", "fence_source", "commit_groups"])
def test_the_way_back_waits_for_nobody(until: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing was changed on the source: the run ends by its deadline, and says what it left stopped."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, clients=False) as scene:
        scene.put_under_load()
        scene.rehearsal.kill_source()
        with black_holed(source_ports(scene.lab)):
            run = scene.run()
            assert scene.driver.forward(run, until=until), run.texts
            evidence = scene.give_back(run)
    assert evidence["outcome"] == ("refused" if until == "approve_data_loss" else "returned"), evidence["reason_for_outcome"]
    assert evidence["plan"]["deadlines"]["return_seconds"] == DEADLINES["return_seconds"]
    assert overdue(evidence) == []
    if until == "commit_groups":
        back = figures_of(evidence, "return_to_source")
        assert back.get("connectors_resumed") or back["replication_left_stopped"]
