"""How many heartbeats a second MirrorMaker 2 of production wrote before, during and after a drill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lab.checker.findings import Finding
from lab.checker.readers import Place
from lab.checker.untouched.log_reader import read_messages

#: How much more or less the rate may be: on a busy machine a task writes later.
TOLERANCE = 0.25


class Periods(NamedTuple):
    """Begin and end, in seconds since the epoch, of the times before, during and after a drill."""

    before: tuple[float, float]
    during: tuple[float, float]
    after: tuple[float, float]


def read_times(properties: Mapping[str, str], ends: Mapping[Place, int]) -> dict[str, list[float]]:
    """Return the times of all records below these log ends, in seconds since the epoch, by topic."""
    times: dict[str, list[float]] = {topic: [] for topic, _ in ends}
    for (topic, _), message in read_messages(properties, {}, ends):
        times[topic].append(message.timestamp()[1] / 1000)
    return times


def rates_of(times: Sequence[float], periods: Periods) -> dict[str, float]:
    """Return the records a second in each period."""
    return {
        name: sum(begin <= at < end for at in times) / (end - begin) for name, (begin, end) in periods._asdict().items()
    }


def rate_findings(rates: Mapping[str, Mapping[str, float]]) -> list[Finding]:
    """Return a finding for each topic of heartbeats whose rate changed while a drill ran or after it."""
    texts = []
    for topic, by_period in rates.items():
        usual = by_period["before"]
        if not usual:
            texts.append(f"{topic} had no heartbeats before the drill: nothing is compared")
            continue
        texts += [
            f"{topic}: {by_period[period]:.2f} records a second {period} the drill, {usual:.2f} before"
            for period in ("during", "after")
            if abs(by_period[period] / usual - 1) > TOLERANCE
        ]
    return [Finding("untouched", text) for text in texts]
