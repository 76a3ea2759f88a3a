"""Objectives beside a plan's figures, as the approver reads them."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.objectives.forecast import loss_forecast, move_forecast

STATED = {"rto_seconds": 300.0, "rpo_seconds": 60.0, "rpo_records": 5, "tier": "a|b"}


def move(drain: float | None, limit: float, objectives: Any = STATED) -> str:
    """The lines for a planned move."""
    plan = {"source": "east", "target": "west", "drain_seconds": drain, "deadlines": {"max_fence_seconds": limit}}
    return "\n".join(move_forecast(plan | {"objectives": objectives}))


def loss(rows: list[dict[str, Any]], objectives: Any = STATED, **seen: Any) -> str:
    """The lines for an unplanned failover."""
    return "\n".join(
        loss_forecast({"source": "east", "target": "west", "loss": rows, "seen": seen, "objectives": objectives})
    )


@pytest.mark.parametrize(
    ("drain", "limit", "verdict"),
    [
        (400.0, 600.0, "**breach forecast**"),
        (5.0, 600.0, "possible breach"),
        (None, 600.0, "possible breach"),
        (5.0, 300.0, "no breach forecast"),
    ],
)
def test_a_planned_move_is_compared_with_its_drain_and_its_fence(
    drain: float | None, limit: float, verdict: str
) -> None:
    """A drain that is longer breaks the RTO; a fence that may last longer may break it. Loss sends the run back."""
    text = move(drain, limit)
    assert f"| RTO 5 min 00 s | {verdict} |" in text and "| RPO 5 records | no breach forecast |" in text
    assert "a\\|b" in text


def test_certain_loss_is_a_breach_and_possible_loss_a_possible_one() -> None:
    """By records and by time, before anybody approved."""
    rows = [{"from_offset": 0, "certain_to": 9, "possible_to": None, "written_since": 0, "written_before": 1_000}]
    text = loss(rows, recorded_at=62_000, looked_for_at=70_000)
    assert "| RTO 5 min 00 s | possible breach | 8 s had passed" in text
    assert (
        "| RPO 60 s | **breach forecast** | the oldest lost record was written at least 61 s and at most 70 s" in text
    )
    assert "| RPO 5 records | **breach forecast** | 9 records certainly lost, no bound" in text
    assert "| RPO 60 s | possible breach |" in loss(
        [rows[0] | {"certain_to": None}], recorded_at=62_000, looked_for_at=70_000
    )
    assert "| RTO 5 min 00 s | **breach forecast** |" in loss(rows, recorded_at=0, looked_for_at=400_000) + loss(
        rows, heartbeat_at=1, looked_for_at=400_000
    )
    assert "when clients could use the source last is unknown" in loss(rows)


@pytest.mark.parametrize("objectives", [None, {"drill_days": 30, "tier": "1"}])
def test_without_an_objective_there_is_no_table(objectives: Any) -> None:
    """Plans of earlier versions state none; a tier alone is no objective."""
    assert move(5.0, 600.0, objectives) == loss([], objectives) == ""
