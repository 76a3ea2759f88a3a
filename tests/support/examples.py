"""Examples of tests: the number of examples per property, and words that a rule distinguishes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def yes_and_no(yes: str, no: str) -> list[tuple[str, bool]]:
    """Return each word with whether it is one of the first text."""
    return [*((word, True) for word in yes.split()), *((word, False) for word in no.split())]


def examples(count: int) -> settings:
    """Try so many examples under the profile `full`, a tenth of them under `ci`."""
    share = settings.default.max_examples / 100
    return settings(max_examples=round(count * share), suppress_health_check=list(HealthCheck))
