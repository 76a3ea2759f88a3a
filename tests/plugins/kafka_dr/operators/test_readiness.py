"""Readiness is asked of a flow at rest."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_dr.operators import readiness
from kafka_dr.operators.readiness import observed_at_rest
from tests.plugins.kafka_dr.domain.test_readiness import seen, with_tasks


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the clusters show one state after the other; what is left was not looked at."""

    def make(*states: Any) -> list[Any]:
        left = list(states)
        monkeypatch.setattr(readiness, "observe", lambda procedure, known: left.pop(0))
        monkeypatch.setattr(readiness, "_LOOK_AGAIN_SECONDS", 0.0)
        return left

    return make


def test_a_rebalance_is_waited_for(looks: Any) -> None:
    """The first look at which nothing is being assigned counts, and no look is made after it."""
    ready = seen()
    left = looks(with_tasks("RUNNING", "UNASSIGNED"), with_tasks("UNASSIGNED"), ready, seen())
    assert observed_at_rest(None, {}) is ready and len(left) == 1


def test_what_is_wrong_is_not_waited_for(looks: Any) -> None:
    """A failed task fails at once."""
    failed = with_tasks("RUNNING", "FAILED", "UNASSIGNED")
    looks(failed)
    assert observed_at_rest(None, {}) is failed


def test_a_rebalance_without_end_is_told(looks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds the gates are asked of what was seen last."""
    monkeypatch.setattr(readiness, "_SETTLED_SECONDS", 0.0)
    unassigned = with_tasks("RUNNING", "UNASSIGNED")
    looks(unassigned)
    assert observed_at_rest(None, {}) is unassigned
