"""When everything happened, as places on one line."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.evidence.timeline import asked_gates, client_downtime, time_line
from kafka_dr.procedures import GATES


def step(name: str, began: int, ended: int, state: str = "done", **figures: Any) -> dict[str, Any]:
    """A step from one second to another after ten o'clock."""
    return {"id": name, "state": state, "started_at": at(began), "ended_at": at(ended), "figures": figures}


def at(second: int) -> str:
    """So many seconds after ten."""
    return f"2026-11-21T10:{second // 60:02d}:{second % 60:02d}+00:00"


def evidence(*steps: dict[str, Any], closed: int = 100) -> dict[str, Any]:
    """Evidence with these steps."""
    return {"steps": list(steps), "closed_at": at(closed)}


def test_clients_stand_still_until_they_are_sent_on() -> None:
    """From the fence's first moment to the redirect, whatever followed."""
    span = client_downtime(
        evidence(
            step("fence_producers", 10, 12),
            step("open_target", 40, 42),
            step("redirect_clients", 43, 44),
            step("verify_clients", 44, 80),
        )
    )
    assert span is not None and (span.seconds, span.ended is None) == (34.0, False)


def test_clients_stand_still_until_the_source_is_given_back() -> None:
    """A return that touched something ends it; one that touched nothing means that they never stood still."""
    fence = step("fence_producers", 10, 12, "failed")
    back = client_downtime(evidence(fence, step("return_to_source", 20, 31, touched=True)))
    assert back is not None and back.seconds == 21.0
    assert client_downtime(evidence(fence, step("return_to_source", 20, 31, touched=False))) is None


def test_a_standstill_that_did_not_end_lasts_until_the_evidence() -> None:
    """Neither redirect nor return is done: it goes on."""
    for last in (
        step("return_to_source", 20, 31, "failed"),
        step("open_target", 20, 31),
        step("redirect_clients", 20, 31, "failed"),
    ):
        span = client_downtime(evidence(step("fence_producers", 10, 12), last))
        assert span is not None and span.ended is None and span.seconds == 90.0


def test_without_a_fence_nobody_stood_still() -> None:
    """A refused run has no such time."""
    assert client_downtime(evidence(step("check_readiness", 1, 2, "failed"))) is None


def test_gates_that_opened_by_themselves_asked_nobody() -> None:
    """Only a gate that asked is people's time; one that failed has asked."""
    gates = [step("approve_failover", 1, 61, asked=True), step("review_translation", 70, 71, asked=False)]
    assert [(name, span.seconds) for name, span in asked_gates(evidence(*gates))] == [("approve_failover", 60.0)]
    assert [name for name, _ in asked_gates(evidence(step("approve_failover", 1, 61, "failed")))] == [
        "approve_failover"
    ]


def test_every_bar_lies_on_the_line() -> None:
    """Also a step that took no time at the very end, and one beside two hours of waiting."""
    line = time_line(
        evidence(
            step("open_procedure", 0, 0),
            step("approve_failover", 0, 3000, asked=True),
            step("fence_producers", 3000, 3001),
            step("redirect_clients", 3001, 3001),
            closed=3002,
        )
    )
    assert line is not None and [b.kind for b in line.bands] == ["fence", "people"]
    for bar in [*line.steps, *line.bands]:
        assert bar.left >= 0 and bar.width >= 0.4 and bar.left + bar.width <= 100.01
    assert line.ticks[0] == (0.0, 0.0) and line.ticks[-1] == (100.0, 3001.0)


def test_no_step_no_line() -> None:
    """A run refused before its first step."""
    assert time_line(evidence()) is None


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_that_asked_is_time_of_people(gate: str) -> None:
    """No gate is missing among the bands, whichever procedure it belongs to."""
    assert [name for name, _ in asked_gates(evidence(step(gate, 10, 50, asked=True)))] == [gate]
