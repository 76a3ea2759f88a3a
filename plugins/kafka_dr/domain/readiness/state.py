"""The state of a flow's readiness: findings, and what they make of it.

Invariants
1. VERIFIED only without any finding that fails, is unknown or lacks a drill; a warning alone leaves the state.
2. A figure that is unknown, or older than allowed, is a finding: it never counts as good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kafka_dr.domain.plain_text import format_duration
from kafka_dr.domain.readiness.blocker import Blocker


class State(StrEnum):
    """Whether a failover would work now, by checks and drills.

    VERIFIED: every check passes, and a drill passed under what is in place today. NEEDS_VERIFICATION: every check
    passes, but no drill that counts has shown it. UNKNOWN: something could not be read. NOT_VERIFIED: a check fails.
    """

    VERIFIED = "VERIFIED"
    NEEDS_VERIFICATION = "NEEDS_VERIFICATION"
    UNKNOWN = "UNKNOWN"
    NOT_VERIFIED = "NOT_VERIFIED"


class Gravity(StrEnum):
    """What a finding says: a check failed, something is unknown, a drill is lacking, or something will fail soon."""

    FAILED = "failed"
    UNKNOWN = "unknown"
    UNVERIFIED = "unverified"
    WARNING = "warning"


@dataclass(frozen=True)
class ReadinessFinding:
    """One finding of a readiness check.

    Attributes:
        id: name of the check; the heading on the page readiness_check.
        about: what the finding is about, such as a connector; with `id` it identifies the finding from check to check.
        text: what was seen.
    """

    id: str
    severity: Gravity
    about: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the finding from check to check, while figures in its text change."""
        return self.id, self.about


@dataclass(frozen=True)
class Figure:
    """One figure that readiness rests on.

    Attributes:
        name: such as `lag`.
        value: None: unknown.
        at: when the figure was true, in seconds since 1970; None: unknown.
        why: why the figure is unknown; "" for a known figure.
    """

    name: str
    value: float | None
    at: float | None
    why: str = ""


def state_of(findings: Iterable[ReadinessFinding]) -> State:
    """Return the state that the findings make."""
    severities = {finding.severity for finding in findings}
    if Gravity.FAILED in severities:
        return State.NOT_VERIFIED
    if Gravity.UNKNOWN in severities:
        return State.UNKNOWN
    return State.NEEDS_VERIFICATION if Gravity.UNVERIFIED in severities else State.VERIFIED


def unknown_figures(figures: Iterable[Figure], now: float, oldest_seconds: float) -> Iterator[ReadinessFinding]:
    """Yield a finding for each figure that is unknown, or was true longer than `oldest_seconds` ago."""
    for figure in figures:
        if figure.value is None or figure.at is None:
            yield ReadinessFinding(
                "figure_unknown", Gravity.UNKNOWN, figure.name, figure.why or "the figure could not be read"
            )
        elif now - figure.at > oldest_seconds:
            age = format_duration(round(now - figure.at))
            yield ReadinessFinding("figure_stale", Gravity.UNKNOWN, figure.name, f"the figure is {age} old")


def findings_of(blockers: Iterable[Blocker]) -> Iterator[ReadinessFinding]:
    """Yield a finding for each blocker of the checks that a procedure makes, too."""
    for blocker in blockers:
        text = f"{blocker.reason}: {blocker.seen}. {blocker.next_step}"
        yield ReadinessFinding(blocker.gate, Gravity.FAILED, blocker.reason, text)
