"""The time line of a procedure's page: bars for steps, the clients' downtime and the waits for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kafka_dr.domain.plain_text import parse_moment
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Step

_NARROWEST = 0.4
_TICKS = 4


@dataclass(frozen=True)
class TimeSpan:
    """A span of time; if it had not ended, `ended` is None and `until` is when the evidence was made."""

    began: datetime
    ended: datetime | None
    until: datetime

    @property
    def seconds(self) -> float:
        """Length of the span in seconds, up to the time of the evidence if the span had not ended."""
        return max(0.0, (self.until - self.began).total_seconds())


@dataclass(frozen=True)
class Bar:
    """A span's place on the time line: `left` and `width` in per cent of the line."""

    name: str
    kind: str
    left: float
    width: float
    seconds: float


@dataclass(frozen=True)
class TimeLine:
    """All bars of a time line, the bands behind them, and the marks of time below them.

    Attributes:
        steps: one bar per step.
        bands: bars behind the steps: the clients' downtime, and each gate that waited for a person.
        ticks: marks of time: (place in per cent of the line, seconds since its beginning).
    """

    steps: list[Bar]
    bands: list[Bar]
    ticks: list[tuple[float, float]]
    began: datetime
    ended: datetime


def client_downtime(evidence: Mapping[str, Any]) -> TimeSpan | None:
    """Return the time from fence_producers' start until clients were redirected or returned; None if never fenced."""
    steps = {step["id"]: step for step in evidence["steps"]}
    fence, return_step, redirect_step = (
        steps.get(name) for name in (Step.FENCE_PRODUCERS, Step.RETURN_TO_SOURCE, Step.REDIRECT_CLIENTS)
    )
    began = parse_moment(fence["started_at"]) if fence else None
    if began is None or (
        return_step and return_step["state"] == "done" and not return_step.get("figures", {}).get("touched", True)
    ):
        return None
    ends = [parse_moment(step["ended_at"]) for step in (redirect_step, return_step) if step and step["state"] == "done"]
    ended = next((end for end in ends if end), None)
    closed = parse_moment(evidence["closed_at"]) or began
    return TimeSpan(began, ended, ended or max(began, closed))


def asked_gates(evidence: Mapping[str, Any]) -> list[tuple[str, TimeSpan]]:
    """Return (name, span) of each gate that asked a person and began and ended, in the order of the steps."""
    gates = [step for step in evidence["steps"] if step["id"] in GATES and step.get("figures", {}).get("asked", True)]
    spans = [(step["id"], parse_moment(step["started_at"]), parse_moment(step["ended_at"])) for step in gates]
    return [(name, TimeSpan(began, ended, ended)) for name, began, ended in spans if began and ended]


def time_line(evidence: Mapping[str, Any]) -> TimeLine | None:
    """Return the time line of a procedure, from its evidence; None if no step began."""
    steps = [(s, parse_moment(s["started_at"]), parse_moment(s["ended_at"])) for s in evidence["steps"]]
    spans = [(str(s["id"]), str(s["state"]), TimeSpan(a, b, b)) for s, a, b in steps if a and b]
    if not spans:
        return None
    fence = client_downtime(evidence)
    bands = [("clients fenced", "fence", fence)] if fence else []
    bands += [(f"people: {name}", "people", span) for name, span in asked_gates(evidence)]
    everything = [span for _, _, span in [*spans, *bands]]
    began, ended = min(s.began for s in everything), max(s.until for s in everything)
    return TimeLine(_bars(spans, began, ended), _bars(bands, began, ended), _ticks(began, ended), began, ended)


def _bars(spans: Sequence[tuple[str, str, TimeSpan]], began: datetime, ended: datetime) -> list[Bar]:
    return [_bar(name, kind, span, began, ended) for name, kind, span in spans]


def _bar(name: str, kind: str, span: TimeSpan, began: datetime, ended: datetime) -> Bar:
    whole = max((ended - began) / timedelta(seconds=1), 0.001)
    left = min(100 * (span.began - began).total_seconds() / whole, 100 - _NARROWEST)
    width = min(max(_NARROWEST, 100 * span.seconds / whole), 100 - left)
    return Bar(name, kind, round(left, 2), round(width, 2), span.seconds)


def _ticks(began: datetime, ended: datetime) -> list[tuple[float, float]]:
    whole = (ended - began).total_seconds()
    return [(100 * n / _TICKS, whole * n / _TICKS) for n in range(_TICKS + 1)]
