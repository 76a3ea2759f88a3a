"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int) -> settings:
    """Try so many examples under the profile `full`, a tenth of them under `ci`."""
    share = settings.default.max_examples / 100
    return settings(max_examples=round(count * share), suppress_health_check=list(HealthCheck))
