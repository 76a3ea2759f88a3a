"""A real unplanned failover for each naming policy, judged by code that shares nothing with the product; and one
that nobody had recorded for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lost_source_rehearsal import Accident
from tests.faults.lost_scene import lost_scene
from tests.rehearsed import lost_without_findings


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_killed_under_load(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """kill -9 of the source's broker and worker: 0 skipped, every acknowledged record on the target or listed, every
    bound kept.
    """
    evidence, _ = lost_without_findings(
        fresh_lab(policy), tmp_path, Accident(after=2.0), 2_000, scale=0.2, groups=12, confirm_seconds=6
    )
    assert [approval["by"] for approval in evidence["approvals"] if approval["step"] == "approve_data_loss"] == [
        "approver"
    ]


def test_nobody_had_recorded(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Without an archive nothing is certain, nothing is interpolated, the approver is told, and nobody is skipped."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, recorded=False) as scene:
        scene.put_under_load()
        scene.rehearsal.kill_source()
        run = scene.run()
        evidence = scene.completed(run)
        verdict = scene.judged(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    assert [row for row in evidence["loss"] if row["certain_to"] is not None] == []
    assert set(evidence["classes"]) <= {"SYNC", "NEAREST", "POLICY", "REFUSED"}
    assert any("archive" in note for note in evidence["plan"]["unproven"])
    assert "archive" in run.questions["approve_data_loss"]
