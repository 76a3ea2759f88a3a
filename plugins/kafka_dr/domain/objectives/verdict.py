"""Compares what is known of a figure with its objective.

Invariants
1. An objective is met only if even the largest value that the figure may have keeps it.
2. An objective is breached only if even the smallest value that the figure may have breaks it.
3. Everything else is unknown: a possible breach.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from kafka_dr.domain.plain_text import count_of, format_duration

#: Begins the reason of an unknown verdict whose figure is known in part.
POSSIBLE_BREACH = "possible breach: "
_NAMES = {"rto_seconds": "RTO", "rpo_seconds": "RPO", "rpo_records": "RPO"}


class Verdict(StrEnum):
    """Whether an objective was kept."""

    MET = "met"
    BREACHED = "breached"
    UNKNOWN = "unknown"


class Measured(NamedTuple):
    """What is known of a figure: its smallest and its largest possible value, each None if unknown."""

    least: float | None
    most: float | None


def judge_objective(objective: float, measured: Measured) -> Verdict:
    """Return the verdict on an objective: the figure may be at most as large as the objective."""
    if measured.least is not None and measured.least > objective:
        return Verdict.BREACHED
    if measured.most is not None and measured.most <= objective:
        return Verdict.MET
    return Verdict.UNKNOWN


def stated_objectives(objectives: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the objectives that are stated and that a run can keep or break, by name."""
    return {name: value for name in _NAMES if (value := (objectives or {}).get(name)) is not None}


def objective_text(name: str, value: float) -> str:
    """Return an objective as text, such as `RTO 5 min 00 s` or `RPO 0 records`."""
    return f"{_NAMES[name]} {count_of(int(value), 'record') if name == 'rpo_records' else format_duration(value)}"
